"""LambdaLoss: logistic losses of pairs whose weights bound the NDCG that is lost.

    L = sum over pairs of w_ij ln(1 + exp(-(s_i - s_j) / sigma)),   d the discount of a rank, G = g / ideal DCG

    ndcg-loss1    w_ij = G_i d(rank_i), every ordered pair i != j
    ndcg-loss2    w_ij = (G_i - G_j) delta(|rank_i - rank_j|),  g_i > g_j,   delta(n) = d(n) - d(n + 1)
    ndcg-loss2++  w_ij = (G_i - G_j) (|d(rank_i) - d(rank_j)| + mu delta),  g_i > g_j

The weights are those of the ranking by the current scores, held while a tree is fitted: the M step of the paper's
expectation-maximisation. They jump with the order, so the loss reported is the hard -NDCG that they bound.

Source: Wang, Li, Golbandi, Bendersky, Najork, "The LambdaLoss framework for ranking metric optimization", CIKM 2018.
Deviations: natural logarithms (a factor); `train_discount` as everywhere here.

Hessian: a majoriser of the loss with the weights held, w tanh(u/2) / (2 u sigma^2) a pair (Jaakkola, Jordan); the
exact curvature vanishes where a pair is very wrong and the force does not.
Cost: n^2 / 2 pairs a query, n exponentials.
"""

from __future__ import annotations

import math

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.jit import inline_sums
from boostrank.kernels.primitives import discount, gather, ideal_dcg, scatter, tanh_over
from boostrank.kernels.query import SIGMA, TRAIN_DISCOUNT
from boostrank.kernels.soft_ranks import UNDERFLOW
from boostrank.kernels.spec import ObjectiveSpec, objective_kernel

PARAMS = (
    Param(
        "weights",
        "ndcg-loss2++",
        "what a pair weighs",
        choices=("ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"),
        aliases=("scheme",),
    ),
    Param("mu", 10.0, "share of delta beside LambdaRank's weight in ndcg-loss2++", low=0.0, schedulable=True),
    SIGMA,
    TRAIN_DISCOUNT,
)


@objective_kernel
def kernel(
    scores: Float64Array,
    gains: Float64Array,
    order: Int64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Float64Array,
    iscratch: Int64Array,
) -> float:
    """One query; see `kernels.spec`."""
    n = scores.shape[0]
    grad[:] = 0.0
    hess[:] = 0.0
    ideal = ideal_dcg(query_const, params[3])
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, d, delta = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n : 4 * n]
    z, gs, hs = scratch[4 * n : 5 * n], scratch[5 * n : 6 * n], scratch[6 * n : 7 * n]
    gather(scores, order, s)
    gather(gains, order, g)
    value = 0.0
    for pos in range(n):
        g[pos] /= ideal
        d[pos] = discount(pos + 1.0, params[3], n)
        delta[pos] = d[pos] - discount(pos + 2.0, params[3], n)
        value -= g[pos] * d[pos]
        gs[pos] = 0.0
        hs[pos] = 0.0
    by_rank = 1.0 if params[0] == 2.0 else 0.0
    by_delta = params[1] if params[0] == 2.0 else 1.0
    _weighted_pairs(s, g, d, delta, 1.0 / params[2], params[0] == 0.0, by_rank, by_delta, gs, hs, z)
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return value


@inline_sums
def _weighted_pairs(
    s: Float64Array,
    g: Float64Array,
    d: Float64Array,
    delta: Float64Array,
    alpha: float,
    every_pair: bool,
    by_rank: float,
    by_delta: float,
    grad: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    """Add forces and curvature bounds of all pairs, documents by descending score."""
    n = s.shape[0]
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, disc, mine = g[j], d[j], alpha * s[j]
        force, curvature = 0.0, 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            if every_pair:
                up, down = g[i] * d[i], gain * disc
            else:
                w = (g[i] - gain) * (by_rank * (d[i] - disc) + by_delta * delta[j - i - 1])
                up, down = max(w, 0.0), max(-w, 0.0)
            f = alpha * above * (up * e - down)
            h = alpha * alpha * (up + down) * tanh_over(alpha * s[i] - mine, (1.0 - e) * above)
            grad[i] -= f
            hess[i] += h
            force += f
            curvature += h
        grad[j] += force
        hess[j] += curvature


SPEC = ObjectiveSpec(
    name="lambdaloss",
    aliases=("lambda-loss", "ndcg-loss2++"),
    summary="logistic pair losses whose weights bound the NDCG lost: NDCG-Loss1, 2 and 2++",
    equation="sum over pairs of w_ij ln(1 + exp(-(s_i - s_j) / sigma)), weights held",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.MAJORISER,
    exact_gradient=False,
    reference="Wang, Li, Golbandi, Bendersky, Najork 2018",
)
