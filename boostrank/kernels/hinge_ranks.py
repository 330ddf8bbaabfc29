"""Ranks by smoothed hinges (SHF), and their pair gradients, for SHF-SDCG and REG-SHF-SDCG.

    rank_i = 1 + sum_{j != i} K_ij(s_i - s_j),   K = A where i has the higher gain, B(x) = 1 + A(-x)
    where the lower,
                                                 and for equal gains the sigmoid G(x) = 1 / (1 +
                                                 e^u)

A(x) = ln(1 + e^-u), u = x / sigma, is convex, so the gradient of a misordered pair never vanishes.
B(x) = 1 + A(-x) makes both documents of a pair pull the same way: the one with the higher gain is
pulled up by (|c_i| + |c_j|) |A'|, and the other is pulled down by as much.

In all functions the arrays are float64[n] by descending score, alpha is 1 / sigma, and `slope` is
c_i = dJ / drank_i <=
0. The gradient of -J and its curvature are added to `grad` and `hess`.

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
from typing import Any

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import (
    CURVATURE,
    CURVATURE_FAR,
    CURVATURE_RATE,
    DIRECT,
    EXACT,
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
from boostrank.kernels.intrinsics import Coefficients, advance
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.objective import Query
from boostrank.kernels.primitives import gather, ideal_dcg, scatter
from boostrank.kernels.shared import SIGMA, TAU, TRAIN_DISCOUNT, K
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

# Rows of the scratch: factors between neighbours, for all documents and grouped by gain, and their
# 16th roots; values that the gradients take from the ranks; sums of a sweep.
_STEP, _ROOT, _GROUP_STEP, _GROUP_ROOT, _PULL, _BEND, _CURVE = range(7)
_SOFT, _GROUP_SOFT, _GROUP_PULL, _GROUP_CURVE = range(7, 11)
_WEIGHTED, _GROUP_WEIGHTED, _GROUP_BEND, _CURVED, _GROUP_CURVED = range(7, 12)
_NEAR, _FOUND, _WEIGHT, _REST = range(11, 15)
WORK, IWORK = _REST + 4, 3
"""The numbers of floats and integers in scratch memory per document."""

SHF_PARAMS = (SIGMA, K, TAU, TRAIN_DISCOUNT, SUMS)
SHF_SCRATCH, SHF_INT_SCRATCH = f"s g ranks slope gs hs work:{WORK}", f"iwork:{IWORK}"
"""The parameters that `shf_sdcg` reads, and the scratch rows that it needs."""


@inline
def shf_sdcg(
    query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any
) -> float:
    """Return -J of one query, and write the gradient and curvature in the order of the rows."""
    n, alpha, blend, sums = (
        query.scores.size,
        1.0 / params.sigma,
        params.train_discount,
        params.sums,
    )
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, ranks, slope, gs, hs = (
        scratch.s,
        scratch.g,
        scratch.ranks,
        scratch.slope,
        scratch.gs,
        scratch.hs,
    )
    work, iwork = scratch.work, scratch.iwork
    # Sum in the order of descending score.
    gather(query.scores, query.order, s)
    gather(query.gains, query.order, g)
    gs[:] = 0.0
    hs[:] = 0.0
    direct = sums == DIRECT or n < SHORT
    if direct:
        hinge_ranks(s, g, alpha, ranks, work[:n], work[n : 2 * n])
    else:
        fast_hinge_ranks(sums, s, g, alpha, ranks, work, iwork)
    for pos in range(n):
        ranks[pos] = min(ranks[pos], FARTHEST)
    cut = annealed_cut(params.k, query.query_const[2], g, ranks) if params.k > 0 else math.inf
    value = smooth_dcg(ranks, g, ideal, blend, cut, params.tau, slope)
    if direct:
        hinge_gradient(s, g, alpha, slope, gs, hs, work[:n])
    else:
        fast_hinge_gradient(sums, alpha, slope, gs, hs, work, iwork)
    scatter(gs, query.order, grad)
    scatter(hs, query.order, hess)
    return -value


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
        r_above, p_above = ranks[block_rows], product[block_rows]
        for j in range(start + 1, n):
            step = math.exp(alpha * (s[j] - s[j - 1]))
            z[j - 1] = 1.0
            score, gain = s[j], gains[j]
            total, factors = 0.0, 1.0
            for i in range(min(j - start, _BLOCK)):
                # `e` is exp(-u) of the pair; `lift` is the linear part of a misordered pair.
                e = z_above[i] * step
                e = 0.0 if e < UNDERFLOW else e
                z_above[i] = e
                above = 1.0 / (1.0 + e)
                lift = min(alpha * (s_above[i] - score), FARTHEST)
                equal, wrong = g_above[i] == gain, g_above[i] < gain
                factor = 1.0 + (0.0 if equal else e)
                p_above[i] *= factor
                factors *= factor
                r_above[i] += e * above if equal else (1.0 + lift if wrong else 0.0)
                total += above if equal else (lift if wrong else 1.0)
            ranks[j] += total + math.log(factors)
            if (j - start) % _BLOCK == 0:
                _fold(ranks, product)
    _fold(ranks, product)


@inline
def _fold(ranks: Float64Array, product: Float64Array) -> None:
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
        gain, c = gains[j], slope[j]
        pull, curvature = 0.0, 0.0
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
            both = slope[i] + c
            kappa = CURVATURE[0] * root + CURVATURE[3] * fourth + CURVATURE_FAR
            f = alpha * (
                below * above * (c - slope[i]) if equal else both * (above if wrong else -below)
            )
            h = -alpha * alpha * both * (below * above if equal else kappa)
            grad[i] -= f
            hess[i] += h
            pull += f
            curvature += h
        grad[j] += pull
        hess[j] += curvature


@inline
def annealed_cut(k: int, kth_gain: float, gains: Float64Array, ranks: Float64Array) -> float:
    """Return s_m of eq (17), the largest rank among the k >= 1 most relevant documents, which is at
    least min(k, n).

    Of equal gains at the boundary, those with the highest scores are used; otherwise s_m would
    never reach k.
    """
    n = gains.shape[0]
    room = min(k, n)
    cut = float(room)
    for i in range(n):
        if gains[i] > kth_gain:
            room -= 1
            cut = max(cut, ranks[i])
    for i in range(n):
        if room > 0 and gains[i] == kth_gain:
            room -= 1
            cut = max(cut, ranks[i])
    return cut


@inline
def fast_hinge_ranks(
    sums: int,
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    ranks: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> None:
    """Write the rank of every document in a list of at least `expsum.ROOM` documents.

    Args:
        sums: index in `expsum.SUMS`, not `DIRECT`.
        work, iwork: float64[`WORK` n], int64[`IWORK` n], written; `fast_hinge_gradient` reads them.
    """
    n = s.shape[0]
    rows, scratch = work[: WORK * n].reshape((WORK, n)), work[_REST * n :]
    soft, pull, near, wrong_count = rows[_SOFT], rows[_PULL], rows[_NEAR], rows[_FOUND]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = group_by_gain(gains, member, grade, iwork[2 * n : 3 * n])
    _steps(s, alpha, rows[_ROOT], rows[_STEP])
    gather(s, member, wrong_count)
    _steps(wrong_count, alpha, rows[_GROUP_ROOT], rows[_GROUP_STEP])
    cut_between_grades(rows[_GROUP_ROOT], member, grade)
    cut_between_grades(rows[_GROUP_STEP], member, grade)
    if sums == EXACT:
        _sweep_counts(rows, SOFTPLUS[EXACT], SIGMOID[EXACT], SLOPE[EXACT], scratch)
    else:
        _sweep_counts(rows, SOFTPLUS[0], SIGMOID[0], SLOPE[0], scratch)

    # Documents of higher gain count one each, equal ones by the sigmoid.
    first = 0
    while first < n:
        last = _end_of_group(member, grade, first)
        for k in range(first, last):
            i = member[k]
            ranks[i] = 1.0 + k + rows[_GROUP_PULL, k]
            soft[i] -= rows[_GROUP_SOFT, k]
            pull[i] -= rows[_GROUP_PULL, k]
            rows[_CURVE, i] += CURVATURE_FAR * (n - (last - first)) - rows[_GROUP_CURVE, k]
        first = last

    # Misordered pairs: their number and distance. Scores are relative to the middle one, so that a
    # common offset costs no digits.
    middle = s[n // 2]
    for i in range(n):
        rows[_WEIGHT, i], wrong_count[i], near[i] = (
            min(max(s[i] - middle, -_WIDEST), _WIDEST),
            0.0,
            0.0,
        )
    add_wrong_pairs(grade, grades, rows[_WEIGHT], near, wrong_count, scratch)
    for i in range(n):
        # Far from the middle a difference of sums has lost its digits, but it is never negative.
        ranks[i] += alpha * max(near[i] - wrong_count[i] * rows[_WEIGHT, i], 0.0) + soft[i]
        pull[i] += wrong_count[i]


@inline
def fast_hinge_gradient(
    sums: int,
    alpha: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> None:
    """Add the terms of `hinge_gradient`, given the `work` and `iwork` of `fast_hinge_ranks`."""
    n = slope.shape[0]
    rows, scratch = work[: WORK * n].reshape((WORK, n)), work[_REST * n :]
    weighted, curved, pull = rows[_WEIGHTED], rows[_CURVED], rows[_PULL]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = grade[member[n - 1]] + 1
    gather(slope, member, rows[_WEIGHT])
    if sums == EXACT:
        _sweep_slopes(rows, slope, SIGMOID[EXACT], SLOPE[EXACT], scratch)
    else:
        _sweep_slopes(rows, slope, SIGMOID[0], SLOPE[0], scratch)

    # `pull` is the sum over j of a pair's pull, `weighted` the same times c_j.
    add_wrong_pairs(grade, grades, slope, weighted, rows[_FOUND], scratch)
    every, first = 0.0, 0
    while first < n:
        last = _end_of_group(member, grade, first)
        total = 0.0
        for k in range(first, last):
            total += rows[_WEIGHT, k]
        for k in range(first, last):
            i = member[k]
            weighted[i] -= rows[_GROUP_WEIGHTED, k]
            curved[i] -= rows[_GROUP_CURVED, k] + CURVATURE_FAR * (total - rows[_WEIGHT, k])
            # Equal gains by the sigmoid: sum_j w_ij and sum_j w_ij c_j.
            bent = rows[_WEIGHT, k] * rows[_BEND, k]
            grad[i] -= alpha * (rows[_GROUP_BEND, k] - bent)
            hess[i] -= alpha * alpha * (rows[_GROUP_BEND, k] + bent)
        every += total
        first = last
    for i in range(n):
        grad[i] += alpha * (slope[i] * pull[i] + weighted[i])
        bent = slope[i] * rows[_CURVE, i] + curved[i] + CURVATURE_FAR * (every - slope[i])
        hess[i] += alpha * alpha * max(-bent, 0.0)


@inline
def _end_of_group(member: Int64Array, grade: Int64Array, first: int) -> int:
    last = first + 1
    while last < member.shape[0] and grade[member[last]] == grade[member[first]]:
        last += 1
    return last


@inline
def _steps(s: Float64Array, alpha: float, root: Float64Array, step: Float64Array) -> None:
    # Factors between neighbours at the rate of the curvature, and at alpha, 16 times that.
    decays(s, alpha * CURVATURE_RATE, root)
    for i in range(s.shape[0]):
        e = root[i] * root[i]
        e *= e
        e *= e
        e *= e
        step[i] = 0.0 if e < NOTHING else e


@inline
def _add(rows: Any, row: int, grouped: int, i: int, above: float, sums: Any) -> None:
    # Results of a step down and a step up, for all documents and grouped by gain.
    j = rows.shape[1] - i
    rows[row, i] += above * sums[0]
    rows[row, j - 1] += sums[1]
    rows[grouped, i] += above * sums[2]
    rows[grouped, j - 1] += sums[3]


@inline
def _sweep_counts(
    rows: Any,
    softplus: Coefficients,
    sigmoid: Coefficients,
    slope: Coefficients,
    state: Float64Array,
) -> None:
    # Sums with weights of 1.
    n, slots = rows.shape[1], 4 * len(sigmoid)
    curves, every = state[slots:], slots + 4 * len(CURVATURE)
    state[:every] = 0.0
    rows[_PULL : _GROUP_CURVE + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, every)
        j = n - i
        ones = (1.0, 1.0, 1.0, 1.0)
        steps = (rows[_STEP, i], rows[_STEP, j], rows[_GROUP_STEP, i], rows[_GROUP_STEP, j])
        sums = advance(state, (softplus, sigmoid, slope), steps, ones)
        _add(rows, _SOFT, _GROUP_SOFT, i, 1.0, sums[:4])
        _add(rows, _PULL, _GROUP_PULL, i, -1.0, sums[4:8])
        rows[_BEND, i] += sums[10]
        rows[_BEND, j - 1] += sums[11]
        roots = (rows[_ROOT, i], rows[_ROOT, j], rows[_GROUP_ROOT, i], rows[_GROUP_ROOT, j])
        bent = advance(curves, (CURVATURE,), roots, ones)
        _add(rows, _CURVE, _GROUP_CURVE, i, 1.0, bent)


@inline
def _sweep_slopes(
    rows: Any, w: Float64Array, sigmoid: Coefficients, slope: Coefficients, state: Float64Array
) -> None:
    # Sums with the slopes as weights.
    n, slots = rows.shape[1], 4 * len(sigmoid)
    curves, every = state[slots:], slots + 4 * len(CURVATURE)
    state[:every] = 0.0
    rows[_WEIGHTED : _GROUP_CURVED + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, every)
        j = n - i
        weights = (w[i - 1], w[j], rows[_WEIGHT, i - 1], rows[_WEIGHT, j])
        steps = (rows[_STEP, i], rows[_STEP, j], rows[_GROUP_STEP, i], rows[_GROUP_STEP, j])
        sums = advance(state, (sigmoid, slope), steps, weights)
        _add(rows, _WEIGHTED, _GROUP_WEIGHTED, i, -1.0, sums[:4])
        rows[_GROUP_BEND, i] += sums[6]
        rows[_GROUP_BEND, j - 1] += sums[7]
        roots = (rows[_ROOT, i], rows[_ROOT, j], rows[_GROUP_ROOT, i], rows[_GROUP_ROOT, j])
        bent = advance(curves, (CURVATURE,), roots, weights)
        _add(rows, _CURVED, _GROUP_CURVED, i, 1.0, bent)
