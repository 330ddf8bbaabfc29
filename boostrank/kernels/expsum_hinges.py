"""Ranks by smoothed hinges and their forces in near-linear time: what `kernels.hinge_ranks` does without its pairs.

With t = exp(-|u|), softplus(-u) is ln(1 + t) for a rightly ordered pair and |u| + ln(1 + t) for a wrong one, and its
slope's size is P = t / (1 + t) or 1 - P. So the part in t is the same whichever of two documents has the higher gain:
one sum over all documents, less one over equal gains. What is left of a wrong pair, |u| and 1, takes counts and sums
over wrong pairs. The tangent kernel has nothing in t for a wrong pair, so its sums run over the right pairs alone.

Two calls a query, `fast_hinge_ranks` and then `fast_hinge_forces` on the same `work` and `iwork`.
"""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import add_sigmoids, add_slopes, add_softplus, add_sums, decays
from boostrank.kernels.expsum_grades import add_right_pairs, add_wrong_pairs, cut_between_grades, group_by_gain
from boostrank.kernels.jit import inline
from boostrank.kernels.primitives import gather

# A majoriser's curvature in widths u = x / sigma: CURVATURE in powers of exp(-|u| / 16), and CURVATURE_FAR. It bounds
# that of Jaakkola and Jordan, tanh(u / 2) / (2 u), from above, by at most 16.5% up to u = 60. Beyond that a step is
# shorter than theirs.
CURVATURE = (0.056, 0.0, 0.0, 0.223)
CURVATURE_FAR = 0.008
# The tangent kernel, straight where a pair is wrong, is credited with 1/16 at a tie and 0.02 far away.
TANGENT_CURVATURE = (0.0, 0.0, 0.0, 0.0425)
TANGENT_CURVATURE_FAR = 0.02
CURVATURE_RATE = 1.0 / 16.0

WORK, IWORK = 14, 5
"""Numbers of float and integer scratch a document needs."""


@inline
def fast_hinge_ranks(
    sums: int,
    tangent: bool,
    equal_hinge: bool,
    equal_force: bool,
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    height: float,
    ranks: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> None:
    """Write the rank of every document.

    Args:
        sums: position in `expsum.SUMS`, not `DIRECT`.
        tangent: whether the kernel is the tangent, or softplus.
        equal_hinge: whether documents of equal gain take the hinge, or the sigmoid.
        equal_force: whether they push each other at all.
        s, gains: float64[n], by descending score, n >= `expsum.ROOM`.
        alpha: 1 / sigma.
        height: what ln(1 + e^-u) is multiplied by.
        ranks: float64[n], written.
        work, iwork: float64[`WORK` n], int64[`IWORK` n], overwritten.
    """
    n = s.shape[0]
    r, group_r, one, wrong = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n : 4 * n]
    found, near, tree, rest = work[4 * n : 5 * n], work[5 * n : 6 * n], work[6 * n : 8 * n], work[8 * n : 12 * n]
    member, grade = iwork[:n], iwork[n : 2 * n]
    state = rest[:n]
    grades = group_by_gain(gains, member, grade, iwork[2 * n : 3 * n])
    decays(s, alpha, r)
    gather(s, member, found)
    decays(found, alpha, group_r)
    cut_between_grades(group_r, member, grade, 0)
    one[:] = 1.0

    # Documents of higher gain count one each, and equal ones by their kernel.
    near[:] = 0.0
    if equal_force and not equal_hinge:
        add_sigmoids(sums, group_r, one, -1.0, 1.0, near, state)
    # Scores from the middle one, so that a common offset costs no digits.
    middle = s[n // 2]
    first, lift = 0, 0.0
    for k in range(n):
        i = member[k]
        if k > 0 and grade[i] != grade[member[k - 1]]:
            first, lift = k, 0.0
        ranks[i] = 1.0 + first
        if equal_force and equal_hinge:
            ranks[i] += height * alpha * (lift - (k - first) * (s[i] - middle))
            lift += s[i] - middle
        elif equal_force:
            ranks[i] += k - first + near[k]
    if not equal_force:
        last = n
        for k in range(n - 1, -1, -1):
            if k < n - 1 and grade[member[k]] != grade[member[k + 1]]:
                last = k + 1
            ranks[member[k]] += 0.5 * (last - ranks[member[k]])

    # Wrong pairs: how many, and how far apart.
    wrong[:] = 0.0
    near[:] = 0.0
    add_wrong_pairs(grade, grades, one, -1.0, wrong, tree)
    for i in range(n):
        found[i] = s[i] - middle
    add_wrong_pairs(grade, grades, found, -1.0, near, tree)
    slant = 0.25 * alpha if tangent else height * alpha
    for i in range(n):
        ranks[i] += slant * (near[i] - wrong[i] * found[i])

    found[:] = 0.0
    if tangent:
        add_wrong_pairs(grade, grades, one, 1.0, found, tree)
        for i in range(n):
            ranks[i] += 0.5 * found[i]
        add_right_pairs(sums, False, s, alpha, grade, grades, one, 1.0, ranks, rest, iwork[2 * n : 5 * n])
        return
    add_softplus(sums, r, one, found, state)
    if not (equal_force and equal_hinge):
        near[:] = 0.0
        add_softplus(sums, group_r, one, near, state)
        for k in range(n):
            found[member[k]] -= near[k]
    for i in range(n):
        ranks[i] += height * found[i]


@inline
def fast_hinge_forces(
    sums: int,
    tangent: bool,
    equal_hinge: bool,
    equal_force: bool,
    s: Float64Array,
    alpha: float,
    height: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> None:
    """Add the gradient of -J and its curvature to `grad` and `hess`.

    Args:
        slope: float64[n], c_i = dJ / drank_i <= 0.
        grad, hess: float64[n].
        work, iwork: as `fast_hinge_ranks` left them.
        sums, tangent, equal_hinge, equal_force, s, alpha, height: as there.
    """
    n = s.shape[0]
    r, group_r, one, wrong = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n : 4 * n]
    found, near, tree, rest = work[4 * n : 5 * n], work[5 * n : 6 * n], work[6 * n : 8 * n], work[8 * n : 12 * n]
    weight, force = work[12 * n : 13 * n], work[13 * n : 14 * n]
    member, grade = iwork[:n], iwork[n : 2 * n]
    state = rest[:n]
    grades = grade[member[n - 1]] + 1
    gather(slope, member, weight)

    # Mixed gains. `force` gets sum_j c_j times a pair's pull, `found` sum_j of the pull alone.
    force[:] = 0.0
    add_wrong_pairs(grade, grades, slope, -1.0, force, tree)
    for i in range(n):
        found[i] = wrong[i]
    if tangent:
        for i in range(n):
            found[i] *= 0.25
            force[i] *= 0.25
        add_right_pairs(sums, True, s, alpha, grade, grades, one, -1.0, found, rest, iwork[2 * n : 5 * n])
        add_right_pairs(sums, True, s, alpha, grade, grades, slope, -1.0, force, rest, iwork[2 * n : 5 * n])
    else:
        add_sigmoids(sums, r, one, -1.0, 1.0, found, state)
        add_sigmoids(sums, r, slope, -1.0, 1.0, force, state)
        if equal_hinge and equal_force:
            _add_equal_hinges(member, grade, weight, found, force)
        else:
            near[:] = 0.0
            add_sigmoids(sums, group_r, one, -1.0, 1.0, near, state)
            for k in range(n):
                found[member[k]] -= near[k]
                near[k] = 0.0
            add_sigmoids(sums, group_r, weight, -1.0, 1.0, near, state)
            for k in range(n):
                force[member[k]] -= near[k]
    for i in range(n):
        grad[i] += alpha * height * (slope[i] * found[i] + force[i])

    # Equal gains by the sigmoid: sum_j w_ij and sum_j w_ij c_j.
    if equal_force and not equal_hinge:
        found[:] = 0.0
        force[:] = 0.0
        add_slopes(sums, group_r, one, 1.0, 1.0, found, state)
        add_slopes(sums, group_r, weight, 1.0, 1.0, force, state)
        for k in range(n):
            i = member[k]
            grad[i] -= alpha * (force[k] - slope[i] * found[k])
            hess[i] -= alpha * alpha * (force[k] + slope[i] * found[k])

    # Curvature, of all pairs but those of equal gain that have no hinge.
    far = TANGENT_CURVATURE_FAR if tangent else CURVATURE_FAR
    shape = TANGENT_CURVATURE if tangent else CURVATURE
    decays(s, alpha * CURVATURE_RATE, r)
    total = 0.0
    for i in range(n):
        total += slope[i]
    for i in range(n):
        found[i], force[i] = far * (n - 1), far * (total - slope[i])
    add_sums(r, one, shape, 1.0, 1.0, found, state)
    add_sums(r, slope, shape, 1.0, 1.0, force, state)
    if not (equal_hinge and equal_force):
        gather(s, member, near)
        decays(near, alpha * CURVATURE_RATE, group_r)
        cut_between_grades(group_r, member, grade, 0)
        near[:] = 0.0
        add_sums(group_r, one, shape, 1.0, 1.0, near, state)
        for k in range(n):
            found[member[k]] -= near[k]
            near[k] = 0.0
        add_sums(group_r, weight, shape, 1.0, 1.0, near, state)
        for k in range(n):
            force[member[k]] -= near[k]
        _take_group_totals(member, grade, weight, far, found, force)
    for i in range(n):
        hess[i] += alpha * alpha * height * max(-(slope[i] * found[i] + force[i]), 0.0)


@inline
def _add_equal_hinges(
    member: Int64Array, grade: Int64Array, weight: Float64Array, found: Float64Array, force: Float64Array
) -> None:
    # Equal gains that take the hinge: the straight side, 1 for each above and -c_j for each below.
    n = member.shape[0]
    first = 0
    for k in range(n):
        if k > 0 and grade[member[k]] != grade[member[k - 1]]:
            first = k
        found[member[k]] += k - first
    total = 0.0
    for k in range(n - 1, -1, -1):
        if k < n - 1 and grade[member[k]] != grade[member[k + 1]]:
            total = 0.0
        force[member[k]] -= total
        total += weight[k]


@inline
def _take_group_totals(
    member: Int64Array,
    grade: Int64Array,
    weight: Float64Array,
    far: float,
    found: Float64Array,
    force: Float64Array,
) -> None:
    # far * (others in the group), far * (sum of their slopes), away from what all documents gave.
    n = member.shape[0]
    first = 0
    while first < n:
        last, total = first, 0.0
        while last < n and grade[member[last]] == grade[member[first]]:
            total += weight[last]
            last += 1
        for k in range(first, last):
            found[member[k]] -= far * (last - first - 1)
            force[member[k]] -= far * (total - weight[k])
        first = last
