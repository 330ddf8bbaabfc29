"""Kernel sums that depend on the order of two documents' gains, in near-linear time.

Three kinds are enough for ranks by smoothed hinges (`kernels.ranks.hinge`), for any number of distinct gains:

* over **equal** gains: documents grouped by gain, each group by descending score, are one array for `expsum.add_sums`
  with factor 0 between groups. Sums over unequal gains are the sums over all documents minus these. Both use the same
  approximation, so cancellation is exact up to rounding.
* over **misordered** pairs, of weights only (the linear side of a hinge): a Fenwick tree over the grades.
* over **ordered** pairs, of a kernel: two grades first differ at one bit of their numbers. So there is one pass per bit
  over documents grouped by the higher bits, in which one side has the weights and the other reads the sums.

Grades are numbered from 0, the highest gain of the query, and positions go by descending score.
"""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.primitives import gather, sort_descending
from boostrank.kernels.runtime.jit import inline
from boostrank.kernels.runtime.simd import WIDTH, add_to_range
from boostrank.kernels.sums.expsum import add_sigmoids, add_slopes, decays


@inline
def group_by_gain(gains: Float64Array, member: Int64Array, grade: Int64Array, spare: Int64Array) -> int:
    """Write positions grouped by gain, highest first, and the grade of every position; return the number of grades.

    Args:
        gains: float64[n], by descending score.
        member: int64[n], written; within a group positions ascend.
        grade: int64[n], written, by position.
        spare: int64[n], overwritten.
    """
    sort_descending(gains, member, spare)
    grades = 0
    for k in range(member.shape[0]):
        if k > 0 and gains[member[k]] < gains[member[k - 1]]:
            grades += 1
        grade[member[k]] = grades
    return grades + 1


@inline
def cut_between_grades(r: Float64Array, member: Int64Array, grade: Int64Array, bits: int) -> None:
    """Set to 0 the factors between grouped documents whose grades differ above the lowest `bits` bits.

    Args:
        r: float64[n], factors between neighbours of the grouped array.
        member, grade: int64[n], from `group_by_gain`.
        bits: number of bits of the grade to ignore.
    """
    for k in range(1, r.shape[0]):
        if grade[member[k]] >> bits != grade[member[k - 1]] >> bits:
            r[k] = 0.0


@inline
def add_wrong_pairs(
    grade: Int64Array,
    grades: int,
    w: Float64Array,
    below: float,
    out: Float64Array,
    count: Float64Array,
    tree: Float64Array,
) -> None:
    """Add the weights of all lower-graded documents above, and `below` times those of all higher-graded ones below.

    Args:
        grade: int64[n], by position.
        grades: number of grades.
        w: float64[n], by position.
        below: 1 or -1.
        out: float64[n], by position.
        count: float64[n], as `out`, with weights of 1.
        tree: float64[max(2 grades + 2, 4 `simd.WIDTH`)], overwritten.
    """
    n = grade.shape[0]
    if grades <= WIDTH:
        # Few grades: one running sum per grade, over the documents passed so far with lower or higher grades, without
        # branches.
        tree[: 4 * WIDTH] = 0.0
        lower, higher = tree[:WIDTH], tree[WIDTH : 2 * WIDTH]
        how_many_lower, how_many_higher = tree[2 * WIDTH : 3 * WIDTH], tree[3 * WIDTH : 4 * WIDTH]
        for i in range(n):
            j = n - 1 - i
            here, there = grade[i], grade[j]
            out[i] += lower[here]
            count[i] += how_many_lower[here]
            out[j] += below * higher[there]
            count[j] += below * how_many_higher[there]
            add_to_range(lower, 0, here, w[i])
            add_to_range(how_many_lower, 0, here, 1.0)
            add_to_range(higher, there + 1, WIDTH, w[j])
            add_to_range(how_many_higher, there + 1, WIDTH, 1.0)
        return
    # Fenwick trees: slot k holds a sum over the grades k - (k & -k) to k - 1.
    counts = tree[grades + 1 :]
    for side in range(2):
        tree[: 2 * grades + 2] = 0.0
        sign = 1.0 if side == 0 else below
        for step in range(n):
            # Down the list grades count from the lowest, so that "lower" is a prefix; up, from the highest.
            i = step if side == 0 else n - 1 - step
            place = grades - 1 - grade[i] if side == 0 else grade[i]
            k = place
            while k > 0:
                out[i] += sign * tree[k]
                count[i] += sign * counts[k]
                k -= k & -k
            k = place + 1
            while k <= grades:
                tree[k] += w[i]
                counts[k] += 1.0
                k += k & -k


@inline
def add_right_pairs(
    sums: int, slopes: bool, s: Float64Array, rate: float, grade: Int64Array, grades: int, w: Float64Array,
    above: float, out: Float64Array, work: Float64Array, iwork: Int64Array,
) -> None:  # fmt: skip
    """Add sum of w_j f_ij over lower-graded documents below, and `above` times that over higher-graded ones above.

    Args:
        sums: index in `expsum.SUMS`.
        slopes: whether f is the sigmoid's slope, or the sigmoid.
        s: float64[n], descending.
        rate: 1 / score.
        grade, grades: as for `add_wrong_pairs`.
        w, out: float64[n], by position.
        above: 1 or -1.
        work: float64[4 n], overwritten.
        iwork: int64[2 n], n >= 3, overwritten.
    """
    n = grade.shape[0]
    r, weight, found, state = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n : 4 * n]
    member, start = iwork[:n], iwork[n : 2 * n]
    bit = 0
    while grades - 1 >> bit > 0:
        _group_by_high_bits(grade, grades, bit + 1, member, start)
        gather(s, member, found)
        decays(found, rate, r)
        cut_between_grades(r, member, grade, bit + 1)
        # The higher of two grades has a 0 here. Side 0: the higher read the sums of the lower below them. Side 1: vice
        # versa.
        for side in range(2):
            found[:] = 0.0
            for k in range(n):
                weight[k] = w[member[k]] if (grade[member[k]] >> bit) & 1 != side else 0.0
            from_above, from_below = above * side, 1.0 - side
            if slopes:
                add_slopes(sums, r, weight, from_above, from_below, found, state)
            else:
                add_sigmoids(sums, r, weight, from_above, from_below, found, state)
            for k in range(n):
                if (grade[member[k]] >> bit) & 1 == side:
                    out[member[k]] += found[k]
        bit += 1


@inline
def _group_by_high_bits(grade: Int64Array, grades: int, bits: int, member: Int64Array, start: Int64Array) -> None:
    # Stable counting sort of the positions by grade >> bits.
    groups = (grades - 1 >> bits) + 1
    start[: groups + 1] = 0
    for i in range(grade.shape[0]):
        start[(grade[i] >> bits) + 1] += 1
    for group in range(groups):
        start[group + 1] += start[group]
    for i in range(grade.shape[0]):
        group = grade[i] >> bits
        member[start[group]] = i
        start[group] += 1
