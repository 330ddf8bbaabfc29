"""LambdaLoss: logistic losses of pairs whose weights bound the NDCG that is lost.

    L = sum over pairs of w_ij ln(1 + exp(-(s_i - s_j) / sigma)),   d the discount of a rank, G = g / ideal DCG

    ndcg-loss1    w_ij = G_i d(rank_i), every ordered pair i != j
    ndcg-loss2    w_ij = (G_i - G_j) delta(|rank_i - rank_j|),  g_i > g_j,   delta(n) = d(n) - d(n + 1)
    ndcg-loss2++  w_ij = (G_i - G_j) (|d(rank_i) - d(rank_j)| + mu delta),  g_i > g_j

The weights are those of the ranking by the current scores, held while a tree is fitted: the M step of the paper's
expectation-maximisation. They jump with the order, and L with them; between two jumps the gradient is the derivative
of L, which is the loss reported. Taking it costs up to three times what the gradient does, so it is taken only where
it is asked for: not in the rounds of a training.

Source: Wang, Li, Golbandi, Bendersky, Najork, "The LambdaLoss framework for ranking metric optimization", CIKM 2018.
Deviations: natural logarithms (a factor); `train_discount` as everywhere here.

Hessian: a majoriser of the loss with the weights held, a little above w tanh(u/2) / (2 u sigma^2) a pair (Jaakkola,
Jordan; `kernels.sums.expsum_hinges.CURVATURE`); the exact curvature vanishes where a pair is very wrong, the gradient
does not. Cost: near-linear in n, see `kernels.sums.lambda_sums`, but for the many grades of real-valued labels (more
than some sqrt(n / 10)); n^2 / 2 pairs a query there, in short lists, which are faster so, and with sums="direct".
"""

from __future__ import annotations

import math
from typing import Any

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind
from boostrank.kernels.objective.contract import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.objective.shared_params import SIGMA, TRAIN_DISCOUNT
from boostrank.kernels.primitives import LARGEST, bounded, discount, ideal_dcg
from boostrank.kernels.ranks.sigmoid import UNDERFLOW, pair_by_pair
from boostrank.kernels.runtime.jit import inline, inline_sums
from boostrank.kernels.sums.expsum import (
    DIRECT,
    NOTHING,
    SUMS,
    add_sigmoids,
    add_softplus,
    add_sums,
    decays,
    softplus_of_power,
)
from boostrank.kernels.sums.expsum_grades import group_by_gain
from boostrank.kernels.sums.expsum_hinges import CURVATURE, CURVATURE_FAR, CURVATURE_RATE
from boostrank.kernels.sums.lambda_sums import TILE, add_far_pairs

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
    SUMS,
)

# Positions of `weights`.
_EVERY_PAIR, _LOSS2_PLUS = 0, 2
# Shorter lists go pair by pair, and so do much longer ones of many grades: measured with 5 grades, 234 ns a document
# pair by pair at 1,000 documents and 840 at 4,000, and about 240 by sums at any length.
_SHORT, _SHORT_A_GRADE = 800, 10


@objective_kernel(
    params=PARAMS,
    scratch="d delta z one found state",
    int_scratch="grade member spare",
    by_score=True,
    loss_on_demand=True,
)
def kernel(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    """One query; see `kernels.objective.kernel`."""
    n, blend = query.scores.size, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, d, delta = query.scores, query.gains, scratch.d, scratch.delta
    below = discount(1.0, blend, n)
    for pos in range(n):
        g[pos] /= ideal
        d[pos] = below
        below = discount(pos + 2.0, blend, n)
        delta[pos] = d[pos] - below
    by_rank = 1.0 if params.weights == _LOSS2_PLUS else 0.0
    by_delta = params.mu if params.weights == _LOSS2_PLUS else 1.0
    alpha, every_pair, sums = 1.0 / params.sigma, params.weights == _EVERY_PAIR, params.sums
    if every_pair and not pair_by_pair(sums, n):
        for pos in range(n):
            g[pos] *= d[pos]
        _every_pair(sums, s, g, alpha, grad, hess, scratch)
        return bounded(_loss_of_every_pair(sums, s, g, alpha, scratch)) if params.with_loss else 0.0
    near, value = n, 0.0
    if sums != DIRECT and n >= _SHORT:
        grade = scratch.grade
        grades = group_by_gain(g, scratch.member, grade, scratch.spare)
        if n >= _SHORT + _SHORT_A_GRADE * grades * grades:
            near, worth = TILE, scratch.one[:grades]
            for pos in range(n):
                worth[grade[pos]] = g[pos]
            value = add_far_pairs(
                sums, s, grade, worth, d, alpha, by_rank, by_delta, blend, params.with_loss, grad, hess
            )
    _weighted_pairs(s, g, d, delta, alpha, every_pair, by_rank, by_delta, near, grad, hess, scratch.z)
    if params.with_loss:
        value += _loss_of_pairs(s, g, d, delta, alpha, every_pair, by_rank, by_delta, near, scratch.z)
    return bounded(value)


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
    tile: int,
    grad: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    """Add gradients and curvature bounds of pairs in one tile or in neighbouring ones; with n in a tile, of all pairs.

    Args:
        s: float64[n], descending.
        g, d: float64[n], gains over the ideal DCG, and discounts of the ranks.
        delta: float64[n], that of a rank difference of 1, 2, ...
        alpha: 1 / score.
        every_pair: whether a document weighs g d against every other, or pairs weigh by what follows.
        by_rank, by_delta: parts of |d_i - d_j| and of delta in a pair's weight.
        tile: documents in a tile.
        grad, hess: float64[n].
        z: float64[n], overwritten.
    """
    n = s.shape[0]
    for j in range(1, n):
        step = math.exp(alpha * CURVATURE_RATE * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, disc = g[j], d[j]
        pull, curvature = 0.0, 0.0
        start = max(0, (j // tile - 1) * tile)
        # Slices, counted from 0: an index that might be negative would keep the loop from using SIMD.
        z_above, g_above, d_above = z[start:j], g[start:j], d[start:j]
        grad_above, hess_above = grad[start:j], hess[start:j]
        for i in range(j - start):
            root = z_above[i] * step
            root = 0.0 if root < NOTHING else root
            z_above[i] = root
            fourth = root * root * root * root
            e = fourth * fourth * fourth * fourth
            above = 1.0 / (1.0 + e)
            if every_pair:
                up, down = g_above[i] * d_above[i], gain * disc
            else:
                w = (g_above[i] - gain) * (by_rank * (d_above[i] - disc) + by_delta * delta[j - start - i - 1])
                up, down = max(w, 0.0), max(-w, 0.0)
            f = alpha * above * (up * e - down)
            kappa = CURVATURE[0] * root + CURVATURE[3] * fourth + CURVATURE_FAR
            h = alpha * alpha * (up + down) * kappa
            grad_above[i] -= f
            hess_above[i] += h
            pull += f
            curvature += h
        grad[j] += pull
        hess[j] += curvature


@inline_sums
def _loss_of_pairs(
    s: Float64Array,
    g: Float64Array,
    d: Float64Array,
    delta: Float64Array,
    alpha: float,
    every_pair: bool,
    by_rank: float,
    by_delta: float,
    tile: int,
    z: Float64Array,
) -> float:
    """What the pairs of `_weighted_pairs` cost; arguments as there."""
    n, value = s.shape[0], 0.0
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        score, gain, disc = s[j], g[j], d[j]
        start = max(0, (j // tile - 1) * tile)
        z_above, s_above, g_above, d_above = z[start:j], s[start:j], g[start:j], d[start:j]
        for i in range(j - start):
            e = z_above[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z_above[i] = e
            if every_pair:
                up, down = g_above[i] * d_above[i], gain * disc
            else:
                w = (g_above[i] - gain) * (by_rank * (d_above[i] - disc) + by_delta * delta[j - start - i - 1])
                up, down = max(w, 0.0), max(-w, 0.0)
            # A wrong pair costs ln(1 + 1/e) = u + ln(1 + e).
            value += (up + down) * softplus_of_power(e) + down * min(alpha * (s_above[i] - score), LARGEST)
    return value


@inline
def _loss_of_every_pair(sums: int, s: Float64Array, c: Float64Array, alpha: float, scratch: Any) -> float:
    """What the pairs of `_every_pair` cost; arguments as there."""
    n, r, one, found = s.shape[0], scratch.z, scratch.one, scratch.found
    one[:] = 1.0
    found[:] = 0.0
    decays(s, alpha, r)
    add_softplus(sums, r, one, found, scratch.state)
    value, apart = c[0] * found[0], 0.0
    for i in range(1, n):
        # Where i should beat those above it, a pair costs u more: how far they are, all together.
        apart = min(apart + i * min(alpha * (s[i - 1] - s[i]), LARGEST), LARGEST)
        value += c[i] * (found[i] + apart)
    return value


@inline
def _every_pair(
    sums: int, s: Float64Array, c: Float64Array, alpha: float, grad: Float64Array, hess: Float64Array, scratch: Any
) -> None:
    """What all ordered pairs do where document i weighs c_i against every other.

    Args:
        sums: position in `expsum.SUMS`, not `DIRECT`.
        s: float64[n], descending, n >= `expsum.ROOM`.
        c: float64[n], by descending score.
        alpha: 1 / score.
        grad, hess: float64[n], zeros at first, written.
        scratch: with rows z, one, found and state.
    """
    n, r, one, found, state = s.shape[0], scratch.z, scratch.one, scratch.found, scratch.state
    one[:] = 1.0
    found[:] = 0.0
    # Pairs that are right, less those that are wrong by t / (1 + t) = 1 - 1 / (1 + t).
    decays(s, alpha, r)
    for weighted in (False, True):
        add_sigmoids(sums, r, c if weighted else one, 1.0, -1.0, grad if weighted else found, state)
    below = 0.0
    for i in range(n - 1, -1, -1):
        grad[i] = alpha * (grad[i] + c[i] * (found[i] - i) + below)
        below += c[i]
    decays(s, alpha * CURVATURE_RATE, r)
    found[:] = CURVATURE_FAR * (n - 1)
    for weighted in (False, True):
        add_sums(r, c if weighted else one, CURVATURE, 1.0, 1.0, hess if weighted else found, state)
    for i in range(n):
        hess[i] = alpha * alpha * (hess[i] + CURVATURE_FAR * (below - c[i]) + c[i] * found[i])


SPEC = ObjectiveSpec(
    name="lambdaloss",
    aliases=("lambda-loss", "ndcg-loss2++"),
    summary="logistic pair losses whose weights bound the NDCG lost: NDCG-Loss1, 2 and 2++",
    equation="sum over pairs of w_ij ln(1 + exp(-(s_i - s_j) / sigma)), weights held",
    kernel=kernel,
    hessian=HessianKind.MAJORISER,
    exact_gradient=False,
    quadratic=False,
    reference="Wang, Li, Golbandi, Bendersky, Najork 2018",
    document_weights="gain",
)
