"""LambdaLoss: logistic losses of pairs with weights that bound the lost NDCG.

    L = sum over pairs of w_ij ln(1 + exp(-(s_i - s_j) / sigma)),   d the discount of a rank, G = g
    / ideal DCG ndcg-loss1    w_ij = G_i d(rank_i), every ordered pair i != j ndcg-loss2    w_ij =
    (G_i - G_j) delta(|rank_i - rank_j|),  g_i > g_j,   delta(n) = d(n) - d(n + 1) ndcg-loss2++
    w_ij = (G_i - G_j) (|d(rank_i) - d(rank_j)| + mu delta),  g_i > g_j

The weights come from the ranking by the current scores and are constant while a tree is fitted: the
M step of the paper's expectation-maximisation. L jumps when the order changes; between jumps the
gradient is its derivative. L costs up to three times as much as the gradient, so a training does
not compute it in each round.

Source: Wang, Li, Golbandi, Bendersky, Najork, "The LambdaLoss framework for ranking metric
    optimization", CIKM 2018.
Deviations: natural logarithms (a factor); `train_discount` as in the other objectives.

Hessian: a majoriser of the loss with constant weights, slightly above w tanh(u/2) / (2 u sigma^2)
per pair (Jaakkola, Jordan; `kernels.expsum.CURVATURE`). Unlike the gradient, the exact curvature
vanishes for badly misordered pairs.
Cost: near-linear in n, see `kernels.lambda_sums`; n^2 / 2 pairs per query with sums="direct", in
short lists, and for real-valued labels with more than about sqrt(n / 10) grades.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("lambdaloss(weights=ndcg-loss2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([0.516], [-0.304, 0.116, 0.045, 0.143])
"""

from __future__ import annotations

import math
from typing import Any

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind
from boostrank.kernels.expsum import (
    CURVATURE,
    CURVATURE_FAR,
    CURVATURE_RATE,
    DIRECT,
    NOTHING,
    SIGMOID,
    SOFTPLUS,
    SUMS,
    add_curve,
    add_sums,
    decays,
    group_by_gain,
    softplus_of_power,
)
from boostrank.kernels.jit import allocates, inline, inline_sums
from boostrank.kernels.lambda_sums import TILE, add_far_pairs
from boostrank.kernels.objective import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.primitives import LARGEST, bounded, discount, ideal_dcg
from boostrank.kernels.shared import SIGMA, TRAIN_DISCOUNT
from boostrank.kernels.sigmoid_ranks import UNDERFLOW, pair_by_pair

PARAMS = (
    Param(
        "weights",
        "ndcg-loss2++",
        "weights of the pairs",
        choices=("ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"),
        aliases=("scheme",),
    ),
    Param(
        "mu",
        10.0,
        "factor of delta, added to LambdaRank's weight in ndcg-loss2++",
        low=0.0,
        schedulable=True,
    ),
    SIGMA,
    TRAIN_DISCOUNT,
    SUMS,
)

# Positions of `weights`.
_EVERY_PAIR, _LOSS2_PLUS = 0, 2
# Shorter lists go pair by pair, as do much longer ones of many grades. Measured with 5 grades: pair
# by pair, 234 ns per document at 1,000 documents and 840 at 4,000; by sums about 240 at any length.
_SHORT, _SHORT_A_GRADE = 800, 10


@objective_kernel(
    params=PARAMS,
    scratch="d delta z ones sums state",
    int_scratch="grade member spare",
    by_score=True,
    loss_on_demand=True,
)
@allocates
def kernel(
    query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any
) -> float:
    """Compute the weighted losses of the pairs, with weights constant in the derivatives.

    The loss is 0 unless `params.with_loss`.
    """
    n, blend = query.scores.size, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, d, delta = query.scores, query.gains, scratch.d, scratch.delta
    # Gains over the ideal DCG, discounts of the ranks, and their differences.
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
    # Long lists of few grades: distant pairs by sums, neighbouring tiles pair by pair.
    near, value = n, 0.0
    if sums != DIRECT and n >= _SHORT:
        grade = scratch.grade
        grades = group_by_gain(g, scratch.member, grade, scratch.spare)
        if n >= _SHORT + _SHORT_A_GRADE * grades * grades:
            near, worth = TILE, scratch.ones[:grades]
            for pos in range(n):
                worth[grade[pos]] = g[pos]
            value = add_far_pairs(
                sums,
                s,
                grade,
                worth,
                d,
                alpha,
                by_rank,
                by_delta,
                blend,
                params.with_loss,
                grad,
                hess,
            )
    _weighted_pairs(
        s, g, d, delta, alpha, every_pair, by_rank, by_delta, near, grad, hess, scratch.z
    )
    if params.with_loss:
        value += _loss_of_pairs(
            s, g, d, delta, alpha, every_pair, by_rank, by_delta, near, scratch.z
        )
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
    """Add the gradients and curvature bounds of all pairs within a tile or in neighbouring tiles.

    Args:
        g, d: gains over the ideal DCG, and discounts of the ranks.
        delta: values for rank differences of 1, 2, ...
        every_pair: whether each document has the weight g d against every other; otherwise pairs
            have weights.
        by_rank, by_delta: factors of |d_i - d_j| and delta in a pair's weight.
        tile: number of documents in a tile, which is n to add all pairs.
        z: overwritten.
    """
    n = s.shape[0]
    for j in range(1, n):
        step = math.exp(alpha * CURVATURE_RATE * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, disc = g[j], d[j]
        pull, curvature = 0.0, 0.0
        start = max(0, (j // tile - 1) * tile)
        # Slices from 0: a possibly negative index would prevent SIMD.
        z_above, g_above, d_above = z[start:j], g[start:j], d[start:j]
        grad_above, hess_above = grad[start:j], hess[start:j]
        # `root` is exp(-u / 16) of the pair; powers of it give e = exp(-u) and the curvature bound.
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
                w = (g_above[i] - gain) * (
                    by_rank * (d_above[i] - disc) + by_delta * delta[j - start - i - 1]
                )
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
    """Return the loss of the pairs that `_weighted_pairs` adds."""
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
                w = (g_above[i] - gain) * (
                    by_rank * (d_above[i] - disc) + by_delta * delta[j - start - i - 1]
                )
                up, down = max(w, 0.0), max(-w, 0.0)
            # A misordered pair costs ln(1 + 1/e) = u + ln(1 + e).
            value += (up + down) * softplus_of_power(e) + down * min(
                alpha * (s_above[i] - score), LARGEST
            )
    return value


@inline
def _loss_of_every_pair(
    sums: int, s: Float64Array, c: Float64Array, alpha: float, scratch: Any
) -> float:
    """Return the loss of the pairs that `_every_pair` adds."""
    n, r, ones, losses = s.shape[0], scratch.z, scratch.ones, scratch.sums
    ones[:] = 1.0
    losses[:] = 0.0
    decays(s, alpha, r)
    add_curve(sums, SOFTPLUS, r, ones, 1.0, 1.0, losses, scratch.state)
    value, apart = c[0] * losses[0], 0.0
    for i in range(1, n):
        # A pair that i should win costs u more: sum the distances to all documents above.
        apart = min(apart + i * min(alpha * (s[i - 1] - s[i]), LARGEST), LARGEST)
        value += c[i] * (losses[i] + apart)
    return value


@inline
def _every_pair(
    sums: int,
    s: Float64Array,
    c: Float64Array,
    alpha: float,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Any,
) -> None:
    """Compute the gradient and curvature of all ordered pairs if document i has the weight c_i
    against every other.
    """
    n, r, ones, totals, state = s.shape[0], scratch.z, scratch.ones, scratch.sums, scratch.state
    ones[:] = 1.0
    totals[:] = 0.0
    # Ordered pairs pull with t / (1 + t), misordered ones with 1 - t / (1 + t).
    decays(s, alpha, r)
    for weighted in (False, True):
        weights = c if weighted else ones
        slopes = grad if weighted else totals
        add_curve(sums, SIGMOID, r, weights, 1.0, -1.0, slopes, state)
    below = 0.0
    for i in range(n - 1, -1, -1):
        grad[i] = alpha * (grad[i] + c[i] * (totals[i] - i) + below)
        below += c[i]
    decays(s, alpha * CURVATURE_RATE, r)
    totals[:] = CURVATURE_FAR * (n - 1)
    for weighted in (False, True):
        weights = c if weighted else ones
        curvatures = hess if weighted else totals
        add_sums(r, weights, CURVATURE, 1.0, 1.0, curvatures, state)
    for i in range(n):
        hess[i] = alpha * alpha * (hess[i] + CURVATURE_FAR * (below - c[i]) + c[i] * totals[i])


SPEC = ObjectiveSpec(
    name="lambdaloss",
    aliases=("lambda-loss", "ndcg-loss2++"),
    kernel=kernel,
    hessian=HessianKind.MAJORISER,
    exact_gradient=False,
    reference="Wang, Li, Golbandi, Bendersky, Najork 2018",
    document_weights="gain",
)
