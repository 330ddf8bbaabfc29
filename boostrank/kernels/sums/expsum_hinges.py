"""Ranks by smoothed hinges and their gradients in near-linear time: `kernels.ranks.hinge` without pairs.

With t = exp(-|u|), softplus(-u) is ln(1 + t) for an ordered pair and |u| + ln(1 + t) for a misordered one, and its
slope has magnitude P = t / (1 + t) or 1 - P. So the part in t does not depend on which document has the higher gain:
one sum over all documents minus one over equal gains. The rest of a misordered pair, |u| and 1, needs counts and sums
over misordered pairs. The tangent kernel has no part in t for a misordered pair, so its sums run over ordered pairs
only.

One sweep of `simd.advance` computes all sums over all documents and over documents grouped by gain, down and up: one
sweep with weights of 1 for the ranks, one with the slopes for the gradients.

A query takes two calls, `fast_hinge_ranks` and then `fast_hinge_gradient` on the same `work` and `iwork`.
"""

from __future__ import annotations

from typing import Any

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.primitives import gather
from boostrank.kernels.runtime.jit import inline
from boostrank.kernels.runtime.simd import Coefficients, advance
from boostrank.kernels.sums.expsum import (
    EXACT,
    LOOK,
    NOTHING,
    SIGMOID,
    SIGMOID_EXACT,
    SLOPE,
    SLOPE_EXACT,
    SOFTPLUS,
    SOFTPLUS_EXACT,
    decays,
    forget,
)
from boostrank.kernels.sums.expsum_grades import add_right_pairs, add_wrong_pairs, cut_between_grades, group_by_gain

# Curvature of a majoriser in widths u = x / sigma: CURVATURE in powers of exp(-|u| / 16), and CURVATURE_FAR. It bounds
# that of Jaakkola and Jordan, tanh(u / 2) / (2 u), from above, by at most 16.5% up to u = 60. Beyond that steps are
# shorter than theirs.
CURVATURE = (0.056, 0.0, 0.0, 0.223)
CURVATURE_FAR = 0.008
# The tangent kernel is linear for misordered pairs; its curvature is set to 1/16 at a tie and 0.02 far away.
TANGENT_CURVATURE = (0.0, 0.0, 0.0, 0.0425)
TANGENT_CURVATURE_FAR = 0.02
CURVATURE_RATE = 1.0 / 16.0
FARTHEST = 1e308
"""Maximum contribution of a pair to a rank, and maximum rank, so that both stay finite."""
# Limit in sums of differences; see `fast_hinge_ranks`.
_WIDEST = 1e290

# Rows of the scratch: factors between neighbours, for all documents and grouped by gain (the roots are their 16th
# roots); values kept from the ranks for the gradients; sums of a sweep.
_STEP, _ROOT, _GROUP_STEP, _GROUP_ROOT, _PULL, _BEND, _CURVE = range(7)
_SOFT, _GROUP_SOFT, _GROUP_PULL, _GROUP_CURVE = range(7, 11)
_WEIGHTED, _GROUP_WEIGHTED, _GROUP_BEND, _CURVED, _GROUP_CURVED = range(7, 12)
_NEAR, _FOUND, _WEIGHT, _REST = range(11, 15)
WORK, IWORK = _REST + 4, 4
"""Numbers of float and integer scratch per document."""


@inline
def fast_hinge_ranks(
    sums: int, tangent: bool, equal_hinge: bool, equal_gradient: bool, s: Float64Array, gains: Float64Array,
    alpha: float, height: float, ranks: Float64Array, work: Float64Array, iwork: Int64Array,
) -> None:  # fmt: skip
    """Write the rank of every document.

    Args:
        sums: index in `expsum.SUMS`, not `DIRECT`.
        tangent: whether the kernel is the tangent, or softplus.
        equal_hinge: whether documents of equal gain use the hinge, or the sigmoid.
        equal_gradient: whether they push each other at all.
        s, gains: float64[n], by descending score, n >= `expsum.ROOM`.
        alpha: 1 / sigma.
        height: factor of ln(1 + e^-u).
        ranks: float64[n], written.
        work, iwork: float64[`WORK` n], int64[`IWORK` n], overwritten.
    """
    n = s.shape[0]
    rows, rest = work[: WORK * n].reshape((WORK, n)), work[_REST * n :]
    soft, pull, near, found = rows[_SOFT], rows[_PULL], rows[_NEAR], rows[_FOUND]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = group_by_gain(gains, member, grade, iwork[2 * n : 3 * n])
    _steps(s, alpha, rows[_ROOT], rows[_STEP])
    gather(s, member, found)
    _steps(found, alpha, rows[_GROUP_ROOT], rows[_GROUP_STEP])
    cut_between_grades(rows[_GROUP_ROOT], member, grade, 0)
    cut_between_grades(rows[_GROUP_STEP], member, grade, 0)
    shape = TANGENT_CURVATURE if tangent else CURVATURE
    if sums == EXACT:
        _sweep_counts(rows, SOFTPLUS_EXACT, SIGMOID_EXACT, SLOPE_EXACT, shape, rest)
    else:
        _sweep_counts(rows, SOFTPLUS, SIGMOID, SLOPE, shape, rest)

    # Documents of higher gain count one each, equal ones by their kernel. Scores are relative to the middle one, so
    # that a common offset costs no digits.
    far = TANGENT_CURVATURE_FAR if tangent else CURVATURE_FAR
    middle = s[n // 2]
    first = 0
    while first < n:
        last = _end_of_group(member, grade, first)
        if not equal_gradient:
            for k in range(first, last):
                ranks[member[k]] = 1.0 + 0.5 * (first + last - 1)
        elif equal_hinge:
            lift = 0.0
            for k in range(first, last):
                if k > first:
                    lift += (k - first) * min(s[member[k - 1]] - s[member[k]], _WIDEST)
                ranks[member[k]] = 1.0 + first + height * alpha * lift
        else:
            for k in range(first, last):
                ranks[member[k]] = 1.0 + k + rows[_GROUP_PULL, k]
        if equal_gradient and equal_hinge:
            for k in range(first, last):
                pull[member[k]] += k - first
                rows[_CURVE, member[k]] += far * (n - 1)
        else:
            for k in range(first, last):
                i = member[k]
                soft[i] -= rows[_GROUP_SOFT, k]
                pull[i] -= rows[_GROUP_PULL, k]
                rows[_CURVE, i] += far * (n - (last - first)) - rows[_GROUP_CURVE, k]
        first = last

    # Misordered pairs: their number and distance.
    for i in range(n):
        rows[_WEIGHT, i], found[i], near[i] = min(max(s[i] - middle, -_WIDEST), _WIDEST), 0.0, 0.0
    add_wrong_pairs(grade, grades, rows[_WEIGHT], -1.0, near, found, rest)
    slant, smooth = 0.25 * alpha if tangent else height * alpha, 0.0 if tangent else height
    for i in range(n):
        # Far from the middle a difference of sums has lost its digits, but it is never negative.
        ranks[i] += slant * max(near[i] - found[i] * rows[_WEIGHT, i], 0.0) + smooth * soft[i]
        pull[i] = 0.25 * found[i] if tangent else pull[i] + found[i]
    if tangent:
        for i in range(n):
            rows[_WEIGHT, i], near[i], found[i] = 1.0, 0.0, 0.0
        add_wrong_pairs(grade, grades, rows[_WEIGHT], 1.0, near, found, rest)
        for i in range(n):
            ranks[i] += 0.5 * near[i]
        more = iwork[2 * n :]
        add_right_pairs(sums, False, s, alpha, grade, grades, rows[_WEIGHT], 1.0, ranks, rest, more)
        add_right_pairs(sums, True, s, alpha, grade, grades, rows[_WEIGHT], -1.0, pull, rest, more)


@inline
def fast_hinge_gradient(
    sums: int, tangent: bool, equal_hinge: bool, equal_gradient: bool, s: Float64Array, alpha: float, height: float,
    slope: Float64Array, grad: Float64Array, hess: Float64Array, work: Float64Array, iwork: Int64Array,
) -> None:  # fmt: skip
    """Add the gradient of -J and its curvature to `grad` and `hess`.

    Args:
        slope: float64[n], c_i = dJ / drank_i <= 0.
        grad, hess: float64[n].
        work, iwork: as `fast_hinge_ranks` left them.
        sums, tangent, equal_hinge, equal_gradient, s, alpha, height: as in `fast_hinge_ranks`.
    """
    n = s.shape[0]
    rows, rest = work[: WORK * n].reshape((WORK, n)), work[_REST * n :]
    weighted, curved, pull = rows[_WEIGHTED], rows[_CURVED], rows[_PULL]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = grade[member[n - 1]] + 1
    gather(slope, member, rows[_WEIGHT])
    shape = TANGENT_CURVATURE if tangent else CURVATURE
    if sums == EXACT:
        _sweep_slopes(rows, slope, SIGMOID_EXACT, SLOPE_EXACT, shape, rest)
    else:
        _sweep_slopes(rows, slope, SIGMOID, SLOPE, shape, rest)

    # `pull` is the sum over j of a pair's pull, `weighted` the same times c_j.
    if tangent:
        weighted[:] = 0.0
        add_wrong_pairs(grade, grades, slope, -1.0, weighted, rows[_FOUND], rest)
        for i in range(n):
            weighted[i] *= 0.25
        add_right_pairs(sums, True, s, alpha, grade, grades, slope, -1.0, weighted, rest, iwork[2 * n :])
    else:
        add_wrong_pairs(grade, grades, slope, -1.0, weighted, rows[_FOUND], rest)
    far = TANGENT_CURVATURE_FAR if tangent else CURVATURE_FAR
    every = 0.0
    first = 0
    while first < n:
        last = _end_of_group(member, grade, first)
        total = 0.0
        if equal_gradient and equal_hinge:
            # The linear side: -c_j for each document below.
            for k in range(last - 1, first - 1, -1):
                weighted[member[k]] -= total
                total += rows[_WEIGHT, k]
        else:
            for k in range(first, last):
                total += rows[_WEIGHT, k]
            for k in range(first, last):
                i = member[k]
                if not tangent:
                    weighted[i] -= rows[_GROUP_WEIGHTED, k]
                curved[i] -= rows[_GROUP_CURVED, k] + far * (total - rows[_WEIGHT, k])
        if equal_gradient and not equal_hinge:
            # Equal gains by the sigmoid: sum_j w_ij and sum_j w_ij c_j.
            for k in range(first, last):
                i, bent = member[k], rows[_WEIGHT, k] * rows[_BEND, k]
                grad[i] -= alpha * (rows[_GROUP_BEND, k] - bent)
                hess[i] -= alpha * alpha * (rows[_GROUP_BEND, k] + bent)
        every += total
        first = last
    for i in range(n):
        grad[i] += alpha * height * (slope[i] * pull[i] + weighted[i])
        bent = slope[i] * rows[_CURVE, i] + curved[i] + far * (every - slope[i])
        hess[i] += alpha * alpha * height * max(-bent, 0.0)


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
def _add(rows: Any, row: int, grouped: int, i: int, above: float, found: Any) -> None:
    # Results of a step down and a step up, for all documents and grouped by gain.
    j = rows.shape[1] - i
    rows[row, i] += above * found[0]
    rows[row, j - 1] += found[1]
    rows[grouped, i] += above * found[2]
    rows[grouped, j - 1] += found[3]


@inline
def _sweep_counts(
    rows: Any,
    softplus: Coefficients,
    sigmoid: Coefficients,
    slope: Coefficients,
    shape: Coefficients,
    state: Float64Array,
) -> None:
    # Sums with weights of 1.
    n, slots = rows.shape[1], 4 * len(sigmoid)
    curves, every = state[slots:], slots + 4 * len(shape)
    state[:every] = 0.0
    rows[_PULL : _GROUP_CURVE + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, every)
        j = n - i
        ones = (1.0, 1.0, 1.0, 1.0)
        steps = (rows[_STEP, i], rows[_STEP, j], rows[_GROUP_STEP, i], rows[_GROUP_STEP, j])
        found = advance(state, (softplus, sigmoid, slope), steps, ones)
        _add(rows, _SOFT, _GROUP_SOFT, i, 1.0, found[:4])
        _add(rows, _PULL, _GROUP_PULL, i, -1.0, found[4:8])
        rows[_BEND, i] += found[10]
        rows[_BEND, j - 1] += found[11]
        roots = (rows[_ROOT, i], rows[_ROOT, j], rows[_GROUP_ROOT, i], rows[_GROUP_ROOT, j])
        bent = advance(curves, (shape,), roots, ones)
        _add(rows, _CURVE, _GROUP_CURVE, i, 1.0, bent)


@inline
def _sweep_slopes(
    rows: Any, w: Float64Array, sigmoid: Coefficients, slope: Coefficients, shape: Coefficients, state: Float64Array
) -> None:
    # Sums with the slopes as weights.
    n, slots = rows.shape[1], 4 * len(sigmoid)
    curves, every = state[slots:], slots + 4 * len(shape)
    state[:every] = 0.0
    rows[_WEIGHTED : _GROUP_CURVED + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, every)
        j = n - i
        weights = (w[i - 1], w[j], rows[_WEIGHT, i - 1], rows[_WEIGHT, j])
        steps = (rows[_STEP, i], rows[_STEP, j], rows[_GROUP_STEP, i], rows[_GROUP_STEP, j])
        found = advance(state, (sigmoid, slope), steps, weights)
        _add(rows, _WEIGHTED, _GROUP_WEIGHTED, i, -1.0, found[:4])
        rows[_GROUP_BEND, i] += found[6]
        rows[_GROUP_BEND, j - 1] += found[7]
        roots = (rows[_ROOT, i], rows[_ROOT, j], rows[_GROUP_ROOT, i], rows[_GROUP_ROOT, j])
        bent = advance(curves, (shape,), roots, weights)
        _add(rows, _CURVED, _GROUP_CURVED, i, 1.0, bent)
