"""LambdaLoss: logistic losses of pairs with weights that bound the lost NDCG.

    L = sum over pairs of w_ij ln(1 + exp(-(s_i - s_j) / sigma))
    ndcg-loss2    w_ij = (G_i - G_j) delta(|rank_i - rank_j|),   g_i > g_j
    ndcg-loss2++  w_ij = (G_i - G_j) (|d(rank_i) - d(rank_j)| + mu delta(|rank_i - rank_j|)),
                  g_i > g_j
    d the discount of a rank, delta(n) = d(n) - d(n + 1), G = g / ideal DCG

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

import math

from boostrank.core.params import Param
from boostrank.core.types import HessianKind
from boostrank.kernels.expsum import (
    CURVATURE_FAR,
    CURVATURE_NEAR,
    CURVATURE_NEARER,
    CURVATURE_RATE,
    DIRECT,
    NOTHING,
    SUMS,
    group_by_gain,
    softplus_of_power,
)
from boostrank.kernels.jit import allocates, inline_sums
from boostrank.kernels.lambda_sums import TILE, PairWeights, RankedList, add_far_pairs
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import LARGEST, bounded, discount, ideal_dcg
from boostrank.kernels.shared import SIGMA, TRAIN_DISCOUNT
from boostrank.kernels.sigmoid_ranks import UNDERFLOW

PARAMS = (
    Param(
        "weights",
        "ndcg-loss2++",
        "weights of the pairs",
        choices=("ndcg-loss2", "ndcg-loss2++"),
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

_LOSS2_PLUS = 1
# Shorter lists go pair by pair, as do much longer ones of many grades. Measured with 5 grades: pair
# by pair, 234 ns per document at 1,000 documents and 840 at 4,000; by sums about 240 at any length.
_SHORT, _SHORT_A_GRADE = 800, 10


@objective_kernel(
    params=PARAMS,
    scratch="discounts drops z grade_gains",
    int_scratch="grade member spare",
    by_score=True,
    loss_on_demand=True,
)
@allocates
def kernel(query, params, grad, hess, scratch):
    """Compute the weighted losses of the pairs, with weights constant in the derivatives.

    The loss is 0 unless `params.with_loss`.
    """
    n, blend = query.scores.size, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, discounts, drops = query.scores, query.gains, scratch.discounts, scratch.drops
    # Gains over the ideal DCG, discounts of the ranks, and their differences.
    below = discount(1.0, blend, n)
    for pos in range(n):
        g[pos] /= ideal
        discounts[pos] = below
        below = discount(pos + 2.0, blend, n)
        drops[pos] = discounts[pos] - below
    is_plus = params.weights == _LOSS2_PLUS
    by_rank = 1.0 if is_plus else 0.0
    by_delta = params.mu if is_plus else 1.0
    pairs = PairWeights(1.0 / params.sigma, by_rank, by_delta)
    # Long lists of few grades: distant pairs by sums, neighbouring tiles pair by pair.
    tile, loss, grade, grade_gains = n, 0.0, scratch.grade, scratch.grade_gains
    if params.sums != DIRECT and n >= _SHORT:
        grades = group_by_gain(g, scratch.member, grade, scratch.spare)
        if n >= _SHORT + _SHORT_A_GRADE * grades * grades:
            tile = TILE
            for pos in range(n):
                grade_gains[grade[pos]] = g[pos]
            far = RankedList(s, g, discounts, grade, grade_gains[:grades])
            loss = add_far_pairs(far, pairs, blend, params.with_loss, grad, hess)
    ranked = RankedList(s, g, discounts, grade, grade_gains)
    _weighted_pairs(ranked, drops, pairs, tile, grad, hess, scratch.z)
    if params.with_loss:
        loss += _loss_of_pairs(ranked, drops, pairs, tile, scratch.z)
    return bounded(loss)


@inline_sums
def _weighted_pairs(ranked, drops, pairs, tile, grad, hess, z):
    """Add the gradients and curvature bounds of all pairs within a tile or in neighbouring tiles.

    Args:
        drops: delta for rank differences of 1, 2, ...
        tile: number of documents in a tile, which is n to add all pairs.
        z: overwritten.
    """
    s, g, d = ranked.scores, ranked.gains, ranked.discounts
    alpha, by_rank, by_delta = pairs.alpha, pairs.by_rank, pairs.by_delta
    n = s.shape[0]
    for j in range(1, n):
        step = math.exp(alpha * CURVATURE_RATE * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, discount_j = g[j], d[j]
        pull_sum, curvature_sum = 0.0, 0.0
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
            # The weights if i, or j, should be above the other.
            w = (g_above[i] - gain) * (
                by_rank * (d_above[i] - discount_j) + by_delta * drops[j - start - i - 1]
            )
            up, down = max(w, 0.0), max(-w, 0.0)
            pull = alpha * above * (up * e - down)
            kappa = CURVATURE_NEAR * root + CURVATURE_NEARER * fourth + CURVATURE_FAR
            curvature = alpha * alpha * (up + down) * kappa
            grad_above[i] -= pull
            hess_above[i] += curvature
            pull_sum += pull
            curvature_sum += curvature
        grad[j] += pull_sum
        hess[j] += curvature_sum


@inline_sums
def _loss_of_pairs(ranked, drops, pairs, tile, z):
    """Return the loss of the pairs that `_weighted_pairs` adds."""
    s, g, d = ranked.scores, ranked.gains, ranked.discounts
    alpha, by_rank, by_delta = pairs.alpha, pairs.by_rank, pairs.by_delta
    n, loss = s.shape[0], 0.0
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        score, gain, discount_j = s[j], g[j], d[j]
        start = max(0, (j // tile - 1) * tile)
        z_above, s_above, g_above, d_above = z[start:j], s[start:j], g[start:j], d[start:j]
        for i in range(j - start):
            e = z_above[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z_above[i] = e
            w = (g_above[i] - gain) * (
                by_rank * (d_above[i] - discount_j) + by_delta * drops[j - start - i - 1]
            )
            up, down = max(w, 0.0), max(-w, 0.0)
            # A misordered pair costs ln(1 + 1/e) = u + ln(1 + e).
            u = min(alpha * (s_above[i] - score), LARGEST)
            loss += (up + down) * softplus_of_power(e) + down * u
    return loss


SPEC = ObjectiveSpec(
    name="lambdaloss",
    kernel=kernel,
    hessian=HessianKind.MAJORISER,
    exact_gradient=False,
    reference="Wang, Li, Golbandi, Bendersky, Najork 2018",
    document_weights="gain",
)
