"""Ranks by smoothed hinges (SHF), and their pair gradients, for SHF-SDCG and REG-SHF-SDCG.

    rank_i = 1 + sum_{j != i} K_ij(s_i - s_j)
    K(x)   = A(x) = ln(1 + e^-u),     where i has the higher gain,  u = x / sigma
             B(x) = 1 + A(-x),        where i has the lower gain
             G(x) = 1 / (1 + e^u),    for equal gains

(Wu, Chang, Zheng, Zha 2009, eqs (12)-(13)). A is convex, so the gradient of a misordered pair never
vanishes. B makes both documents of a pair pull the same way: the one with the higher gain is pulled
up by (|c_i| + |c_j|) |A'|, and the other is pulled down by as much.

In all functions the arrays are float64[n] by descending score, alpha is 1 / sigma, and `slope` is
c_i = dJ / drank_i <= 0.
The gradient of -J and its curvature are added to `grad` and `hess`.

Lists shorter than `SHORT` use the pair loops of the reference, which carry z_ij = exp(-|u_ij|) from
one document to the next (see `kernels.sigmoid_ranks`). Sums of ln(1 + z) are logarithms of
products, so pairs need no logarithm either.

Longer lists take near-linear time. With t = exp(-|u|), softplus(-u) is ln(1 + t) for an ordered
pair and |u| + ln(1 + t) for a misordered one, and its slope has magnitude P = t / (1 + t) or 1 - P.
The part in t does not depend on which document has the higher gain: one sum over all documents
minus one over equal gains. The rest of a misordered pair, |u| and 1, needs counts and sums over
misordered pairs. One sweep with weights of 1 computes all sums for the ranks, and one with the
slopes computes those for the gradients.
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import (
    CURVATURE,
    CURVATURE_FAR,
    CURVATURE_NEAR,
    CURVATURE_NEARER,
    CURVATURE_RATE,
    DIRECT,
    LOOK,
    NOTHING,
    SIGMOID,
    SLOPE,
    SOFTPLUS,
    SUMS,
    add_wrong_pairs,
    cut_between_grades,
    decays,
    forget,
    group_by_gain,
)
from boostrank.kernels.intrinsics import advance
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.objective import Params, Query, Scratch
from boostrank.kernels.primitives import gather, ideal_dcg, scatter
from boostrank.kernels.shared import KTH_GAIN, SIGMA, TAU, TRAIN_DISCOUNT, K
from boostrank.kernels.sigmoid_ranks import UNDERFLOW, smooth_dcg

# Factors of a product are at most 2; each block of factors becomes a sum, far from overflow.
_BLOCK = 512
# Shorter lists go pair by pair. Measured per document: 116 ns by sums and 112 by pairs at 48
# documents, 88 and 250 at 300 (`expsum.ROOM` is the minimum).
SHORT = 48

FARTHEST = 1e308
"""The maximum contribution of a pair to a rank, and the maximum rank, which keep both finite."""
# Limit in sums of differences; see `fast_hinge_ranks`.
_WIDEST = 1e290

# Rows of the scratch, of which the gradients read those from `_PULL` to `_CURVATURE`, left by the
# ranks. GROUP: sums over documents of equal gain, grouped by gain. SLOPE: times the slope c_j.
# `_ROOT` is the 16th root of the factor between neighbours, `_STEP`.
_STEP, _ROOT, _GROUP_STEP, _GROUP_ROOT, _PULL, _EQUAL_PULL, _CURVATURE = range(7)
_SOFTPLUS, _GROUP_SOFTPLUS, _GROUP_PULL, _GROUP_CURVATURE = range(7, 11)
_SLOPE_PULL, _GROUP_SLOPE_PULL, _SLOPE_EQUAL_PULL = range(7, 10)
_SLOPE_CURVATURE, _GROUP_SLOPE_CURVATURE = 10, 11
_WRONG_SCORES, _WRONG_COUNT, _WEIGHT, _STATE = range(11, 15)
WORK, IWORK = _STATE + 4, 3
"""The numbers of floats and integers in scratch memory per document."""

SHF_PARAMS = (SIGMA, K, TAU, TRAIN_DISCOUNT, SUMS)
SHF_SCRATCH = f"s g ranks slope sorted_grad sorted_hess work:{WORK}"
SHF_INT_SCRATCH = f"iwork:{IWORK}"
"""The parameters that `shf_sdcg` reads, and the scratch rows that it needs."""


@inline
def shf_sdcg(
    query: Query, params: Params, grad: Float64Array, hess: Float64Array, scratch: Scratch
) -> float:
    """Return -J of one query, and write the gradient and curvature in the order of the rows."""
    n, order, alpha = query.scores.size, query.order, 1.0 / params.sigma
    ideal = ideal_dcg(query.query_const, params.train_discount)
    if n < 2 or ideal <= 0.0:
        return 0.0
    # Sum in the order of descending score.
    s, g, ranks, slope = scratch.s, scratch.g, scratch.ranks, scratch.slope
    sorted_grad, sorted_hess = scratch.sorted_grad, scratch.sorted_hess
    work, iwork = scratch.work, scratch.iwork
    gather(query.scores, order, s)
    gather(query.gains, order, g)
    sorted_grad[:] = 0.0
    sorted_hess[:] = 0.0
    # The ranks, J of them, and its gradient through them.
    direct = params.sums == DIRECT or n < SHORT
    if direct:
        hinge_ranks(s, g, alpha, ranks, work[:n], work[n : 2 * n])
    else:
        fast_hinge_ranks(s, g, alpha, ranks, work, iwork)
    for pos in range(n):
        ranks[pos] = min(ranks[pos], FARTHEST)
    cut = math.inf
    if params.k > 0:
        cut = anneal_cut(params.k, query.query_const[KTH_GAIN], g, ranks)
    dcg = smooth_dcg(ranks, g, ideal, params.train_discount, cut, params.tau, slope)
    if direct:
        hinge_gradient(s, g, alpha, slope, sorted_grad, sorted_hess, work[:n])
    else:
        fast_hinge_gradient(alpha, slope, sorted_grad, sorted_hess, work, iwork)
    scatter(sorted_grad, order, grad)
    scatter(sorted_hess, order, hess)
    return -dcg


@inline_sums
def hinge_ranks(
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    ranks: Float64Array,
    z: Float64Array,
    product: Float64Array,
) -> None:
    """Write the rank of every document, which can exceed n for misplaced ones. `z` and `product`
    are overwritten.
    """
    n = s.shape[0]
    for i in range(n):
        ranks[i] = 1.0
        product[i] = 1.0
    # Blocks of documents above, each against every document below: no product exceeds 2^_BLOCK.
    for block in range((n + _BLOCK - 1) // _BLOCK):
        start = block * _BLOCK
        # Slices from 0: a possibly negative index would prevent SIMD.
        block_rows = slice(start, start + _BLOCK)
        s_above, g_above, z_above = s[block_rows], gains[block_rows], z[block_rows]
        ranks_above, product_above = ranks[block_rows], product[block_rows]
        for j in range(start + 1, n):
            step = math.exp(alpha * (s[j] - s[j - 1]))
            z[j - 1] = 1.0
            score, gain = s[j], gains[j]
            rank_sum, factors = 0.0, 1.0
            for i in range(min(j - start, _BLOCK)):
                # `e` is exp(-u) of the pair; `lift` is the linear part of a misordered pair.
                e = z_above[i] * step
                e = 0.0 if e < UNDERFLOW else e
                z_above[i] = e
                above = 1.0 / (1.0 + e)
                lift = min(alpha * (s_above[i] - score), FARTHEST)
                equal, wrong = g_above[i] == gain, g_above[i] < gain
                factor = 1.0 + (0.0 if equal else e)
                product_above[i] *= factor
                factors *= factor
                ranks_above[i] += e * above if equal else (1.0 + lift if wrong else 0.0)
                rank_sum += above if equal else (lift if wrong else 1.0)
            ranks[j] += rank_sum + math.log(factors)
            if (j - start) % _BLOCK == 0:
                _add_logarithms(ranks, product)
    _add_logarithms(ranks, product)


@inline
def _add_logarithms(ranks: Float64Array, product: Float64Array) -> None:
    """Add the logarithms of the products to the ranks, and begin new products."""
    for i in range(ranks.shape[0]):
        ranks[i] += math.log(product[i])
        product[i] = 1.0


@inline_sums
def hinge_gradient(
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    """Add the gradient and the curvature, sum_j (|c_p| + |c_j|) kappa_pj; `z` is overwritten.

    kappa bounds the curvature of a pair by a sum of exponentials that is slightly above the bound
    of Jaakkola and Jordan (`expsum.CURVATURE`); for equal gains it is G (1 - G).
    """
    n = s.shape[0]
    for j in range(1, n):
        step = math.exp(alpha * CURVATURE_RATE * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, slope_j = gains[j], slope[j]
        pull_sum, curvature_sum = 0.0, 0.0
        for i in range(j):
            # `root` is exp(-u / 16) of the pair; powers of it give e = exp(-u) and the curvature
            # bound.
            root = z[i] * step
            root = 0.0 if root < NOTHING else root
            z[i] = root
            fourth = root * root * root * root
            e = fourth * fourth * fourth * fourth
            above = 1.0 / (1.0 + e)
            below = e * above
            equal, wrong = gains[i] == gain, gains[i] < gain
            slope_sum = slope[i] + slope_j
            kappa = CURVATURE_NEAR * root + CURVATURE_NEARER * fourth + CURVATURE_FAR
            pull = alpha * (
                below * above * (slope_j - slope[i])
                if equal
                else slope_sum * (above if wrong else -below)
            )
            curvature = -alpha * alpha * slope_sum * (below * above if equal else kappa)
            grad[i] -= pull
            hess[i] += curvature
            pull_sum += pull
            curvature_sum += curvature
        grad[j] += pull_sum
        hess[j] += curvature_sum


@inline
def anneal_cut(k: int, kth_gain: float, gains: Float64Array, ranks: Float64Array) -> float:
    """Return s_m of eq (17), the largest rank among the k >= 1 most relevant documents, which is at
    least min(k, n).

    Of equal gains at the boundary, those with the highest scores are used; otherwise s_m would
    never reach k.
    """
    n = gains.shape[0]
    left = min(k, n)
    cut = float(left)
    for i in range(n):
        if gains[i] > kth_gain:
            left -= 1
            cut = max(cut, ranks[i])
    for i in range(n):
        if left > 0 and gains[i] == kth_gain:
            left -= 1
            cut = max(cut, ranks[i])
    return cut


@inline
def fast_hinge_ranks(
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    ranks: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> None:
    """Write the rank of every document in a list of at least `expsum.ROOM` documents.

    `work`, float64[`WORK` n], and `iwork`, int64[`IWORK` n], are written; `fast_hinge_gradient`
    reads them.
    """
    n = s.shape[0]
    rows, state = work[: WORK * n].reshape((WORK, n)), work[_STATE * n :]
    member, grade = iwork[:n], iwork[n : 2 * n]
    # Factors between neighbours, in the list and in the groups of equal gains.
    grades = group_by_gain(gains, member, grade, iwork[2 * n : 3 * n])
    _write_steps(s, alpha, rows[_ROOT], rows[_STEP])
    grouped_scores = rows[_WRONG_COUNT]
    gather(s, member, grouped_scores)
    _write_steps(grouped_scores, alpha, rows[_GROUP_ROOT], rows[_GROUP_STEP])
    cut_between_grades(rows[_GROUP_ROOT], member, grade)
    cut_between_grades(rows[_GROUP_STEP], member, grade)
    _sweep_counts(rows, state)

    # Documents of higher gain count one each, equal ones by the sigmoid.
    softplus, pull = rows[_SOFTPLUS], rows[_PULL]
    first = 0
    while first < n:
        last = _end_of_group(member, grade, first)
        for k in range(first, last):
            i = member[k]
            ranks[i] = 1.0 + k + rows[_GROUP_PULL, k]
            softplus[i] -= rows[_GROUP_SOFTPLUS, k]
            pull[i] -= rows[_GROUP_PULL, k]
            rows[_CURVATURE, i] += CURVATURE_FAR * (n - (last - first)) - rows[_GROUP_CURVATURE, k]
        first = last

    # Misordered pairs: their number and distance. Scores are relative to the middle one, so that a
    # common offset costs no digits.
    centred, wrong_scores, wrong_count = rows[_WEIGHT], rows[_WRONG_SCORES], rows[_WRONG_COUNT]
    middle = s[n // 2]
    for i in range(n):
        centred[i] = min(max(s[i] - middle, -_WIDEST), _WIDEST)
        wrong_count[i], wrong_scores[i] = 0.0, 0.0
    add_wrong_pairs(grade, grades, centred, wrong_scores, wrong_count, state)
    for i in range(n):
        # Far from the middle a difference of sums has lost its digits, but it is never negative.
        distance = max(wrong_scores[i] - wrong_count[i] * centred[i], 0.0)
        ranks[i] += alpha * distance + softplus[i]
        pull[i] += wrong_count[i]


@inline
def fast_hinge_gradient(
    alpha: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> None:
    """Add the terms of `hinge_gradient`, given the `work` and `iwork` of `fast_hinge_ranks`."""
    n = slope.shape[0]
    rows, state = work[: WORK * n].reshape((WORK, n)), work[_STATE * n :]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = grade[member[n - 1]] + 1
    grouped_slopes = rows[_WEIGHT]
    gather(slope, member, grouped_slopes)
    _sweep_slopes(rows, slope, state)

    # `pull` is the sum over j of a pair's pull, `slope_pull` the same times c_j, and likewise
    # for curvatures.
    pull, slope_pull = rows[_PULL], rows[_SLOPE_PULL]
    curvature, slope_curvature = rows[_CURVATURE], rows[_SLOPE_CURVATURE]
    add_wrong_pairs(grade, grades, slope, slope_pull, rows[_WRONG_COUNT], state)
    all_slopes, first = 0.0, 0
    while first < n:
        last = _end_of_group(member, grade, first)
        group_slopes = 0.0
        for k in range(first, last):
            group_slopes += grouped_slopes[k]
        for k in range(first, last):
            i, slope_i = member[k], grouped_slopes[k]
            slope_pull[i] -= rows[_GROUP_SLOPE_PULL, k]
            slope_curvature[i] -= rows[_GROUP_SLOPE_CURVATURE, k] + CURVATURE_FAR * (
                group_slopes - slope_i
            )
            # Equal gains by the sigmoid: sum_j w_ij c_i and sum_j w_ij c_j.
            equal_pull = slope_i * rows[_EQUAL_PULL, k]
            grad[i] -= alpha * (rows[_SLOPE_EQUAL_PULL, k] - equal_pull)
            hess[i] -= alpha * alpha * (rows[_SLOPE_EQUAL_PULL, k] + equal_pull)
        all_slopes += group_slopes
        first = last
    for i in range(n):
        grad[i] += alpha * (slope[i] * pull[i] + slope_pull[i])
        far = CURVATURE_FAR * (all_slopes - slope[i])
        bend = slope[i] * curvature[i] + slope_curvature[i] + far
        hess[i] += alpha * alpha * max(-bend, 0.0)


@inline
def _end_of_group(member: Int64Array, grade: Int64Array, first: int) -> int:
    last = first + 1
    while last < member.shape[0] and grade[member[last]] == grade[member[first]]:
        last += 1
    return last


@inline
def _write_steps(s: Float64Array, alpha: float, root: Float64Array, step: Float64Array) -> None:
    """Write the factors between neighbours at the rate of the curvature, and at alpha, 16 times
    that.
    """
    decays(s, alpha * CURVATURE_RATE, root)
    for i in range(s.shape[0]):
        e = root[i] * root[i]
        e *= e
        e *= e
        e *= e
        step[i] = 0.0 if e < NOTHING else e


FourSums = tuple[float, float, float, float]
"""Values of the step down and of the step up in the list, and of both in the groups."""
_GROUP_DOWN, _GROUP_UP = 2, 3


@inline
def _read_steps(rows: Float64Array, row: int, group_row: int, i: int) -> FourSums:
    """Return the factors of the steps to position i going down, and to n - 1 - i going up."""
    j = rows.shape[1] - i
    return rows[row, i], rows[row, j], rows[group_row, i], rows[group_row, j]


@inline
def _add_sums(
    rows: Float64Array, row: int, group_row: int, i: int, down_sign: float, sums: FourSums
) -> None:
    """Add the results of the steps down, times `down_sign`, and of the steps up."""
    down, up, group_down, group_up = sums
    j = rows.shape[1] - i
    rows[row, i] += down_sign * down
    rows[row, j - 1] += up
    rows[group_row, i] += down_sign * group_down
    rows[group_row, j - 1] += group_up


@inline
def _sweep_counts(rows: Float64Array, state: Float64Array) -> None:
    """Write the sums with weights of 1."""
    n, slots = rows.shape[1], 4 * len(SIGMOID)
    curvature_state, all_slots = state[slots:], slots + 4 * len(CURVATURE)
    state[:all_slots] = 0.0
    rows[_PULL : _GROUP_CURVATURE + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, all_slots)
        ones = (1.0, 1.0, 1.0, 1.0)
        steps = _read_steps(rows, _STEP, _GROUP_STEP, i)
        sums = advance(state, (SOFTPLUS, SIGMOID, SLOPE), steps, ones)
        softplus_sums, sigmoid_sums, slope_sums = sums[:4], sums[4:8], sums[8:]
        _add_sums(rows, _SOFTPLUS, _GROUP_SOFTPLUS, i, 1.0, softplus_sums)
        _add_sums(rows, _PULL, _GROUP_PULL, i, -1.0, sigmoid_sums)
        rows[_EQUAL_PULL, i] += slope_sums[_GROUP_DOWN]
        rows[_EQUAL_PULL, n - i - 1] += slope_sums[_GROUP_UP]
        roots = _read_steps(rows, _ROOT, _GROUP_ROOT, i)
        curvatures = advance(curvature_state, (CURVATURE,), roots, ones)
        _add_sums(rows, _CURVATURE, _GROUP_CURVATURE, i, 1.0, curvatures)


@inline
def _sweep_slopes(rows: Float64Array, slopes: Float64Array, state: Float64Array) -> None:
    """Write the sums with the slopes c as weights."""
    n, slots = rows.shape[1], 4 * len(SIGMOID)
    curvature_state, all_slots = state[slots:], slots + 4 * len(CURVATURE)
    state[:all_slots] = 0.0
    rows[_SLOPE_PULL : _GROUP_SLOPE_CURVATURE + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, all_slots)
        j = n - i
        weights = (slopes[i - 1], slopes[j], rows[_WEIGHT, i - 1], rows[_WEIGHT, j])
        steps = _read_steps(rows, _STEP, _GROUP_STEP, i)
        sums = advance(state, (SIGMOID, SLOPE), steps, weights)
        sigmoid_sums, slope_sums = sums[:4], sums[4:]
        _add_sums(rows, _SLOPE_PULL, _GROUP_SLOPE_PULL, i, -1.0, sigmoid_sums)
        rows[_SLOPE_EQUAL_PULL, i] += slope_sums[_GROUP_DOWN]
        rows[_SLOPE_EQUAL_PULL, j - 1] += slope_sums[_GROUP_UP]
        roots = _read_steps(rows, _ROOT, _GROUP_ROOT, i)
        curvatures = advance(curvature_state, (CURVATURE,), roots, weights)
        _add_sums(rows, _SLOPE_CURVATURE, _GROUP_SLOPE_CURVATURE, i, 1.0, curvatures)
