"""Kernel sums over one list in near-linear time, so that smooth objectives can rank lists of any
length.

    S_i = sum_{j below i} w_j f(|s_i - s_j|)  +-  sum_{j above i} w_j f(|s_i - s_j|)      documents
    by descending score

Let f be a polynomial without constant term in t = exp(-rate |s_i - s_j|),

    f = sum_l c_l t^l,   E_l(i) = sum_{j above i} w_j t_ij^l = r_i^l (E_l(i-1) + w_{i-1}),
    r_i = exp(-rate (s_{i-1} - s_i))

so the sum over the documents above is sum_l c_l E_l(i): one pass down, one up for those below, with
one `exp` per document and no pairs. Both sides use the same f, so gradients cancel up to rounding,
and ties (r = 1) give every tied document the same sum. Across a huge gap, r is 0. Every r is at
most 1, so no sum can grow.

The functions of the sigmoid family are analytic on 0 <= t <= 1 with their nearest singularity at t
= -1. f(t) / t is interpolated at Chebyshev points that include both ends, so f is exact at a tie
and has a small relative error far away, where it vanishes. Terms and largest relative error on 0 <
t <= 1, which the tests measure again:

| function | with | 12 terms |
|---|---|---|
| sigmoid(-x) | t / (1 + t) | 3e-9 |
| its slope | t / (1 + t)^2 | 4e-8 |
| softplus(-x) | ln(1 + t) | 3e-10 |

Not every curve is such a polynomial, but a curve that can be chosen freely, such as a bound on a
curvature, may be.

Two kinds of sums depend on how the gains of two documents compare, where the number of different
gains is not limited:

* over **equal** gains: documents grouped by gain, each group by descending score, are one array for
  `add_sums` with factor 0 between groups. Sums over unequal gains are the sums over all documents
  minus these. Both use the same approximation, so cancellation is exact up to rounding.
* over **misordered** pairs, of weights only (the linear side of a hinge): a Fenwick tree over the
  grades.

Grades are numbered from 0, the highest gain of the query. Arrays have n elements, by descending
score unless grouped.
"""

from __future__ import annotations

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.intrinsics import Coefficients, advance
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.primitives import fast_exp, sort_descending
from boostrank.kernels.tables import TABLES

SUMS = Param(
    "sums",
    "fast",
    "method of sums over pairs: fast (to about 1e-7; the engines use float32) or direct (pair by"
    " pair, the reference, in quadratic time)",
    choices=("fast", "direct"),
)
"""The parameter for the objectives with sums over pairs."""
DIRECT = 1

# Smaller factors between neighbours count as 0: their 12th powers would be subnormal, hence slow.
NOTHING = 1e-18
# Smaller running sums are set to 0, because subnormal numbers slow down later steps a hundredfold.
# Sums fade only over many documents of weight 0, so an occasional check is enough.
FADED = 1e-290
LOOK = 64


SIGMOID, SLOPE = tuple(TABLES["sigmoid"]), tuple(TABLES["slope"])
SOFTPLUS, _ACCURATE_SOFTPLUS = tuple(TABLES["softplus"]), tuple(TABLES["accurate softplus"])
"""The coefficients c_1, c_2, ... of each function."""

# Curvature of a majoriser in widths u = x / sigma,
#
#     CURVATURE_NEAR p + CURVATURE_NEARER p^4 + CURVATURE_FAR,   p = exp(-CURVATURE_RATE |u|)
#
# with the coefficients of p in CURVATURE. It bounds that of Jaakkola and Jordan,
# tanh(u / 2) / (2 u), from above, by at most 16.5% up to u = 60. Beyond that steps are shorter than
# theirs.
CURVATURE_NEAR, CURVATURE_NEARER, CURVATURE_FAR = 0.056, 0.223, 0.008
CURVATURE = (CURVATURE_NEAR, 0.0, 0.0, CURVATURE_NEARER)
CURVATURE_RATE = 1.0 / 16.0

_WIDTH = 8  # grades whose sums fit a vector register

ROOM = 32
"""The length of the `state` of `add_sums`."""


@inline
def decays(s: Float64Array, rate: float, r: Float64Array) -> None:
    """Write r_i = exp(-rate (s_{i-1} - s_i)), with r_0 = 0, for descending scores."""
    r[0] = 0.0
    for i in range(1, s.shape[0]):
        e = fast_exp(max(rate * (s[i] - s[i - 1]), -700.0))
        r[i] = 0.0 if e < NOTHING else e


@inline
def forget(state: Float64Array, slots: int) -> None:
    """Set running sums that are negligible to 0."""
    for slot in range(slots):
        state[slot] = 0.0 if abs(state[slot]) < FADED else state[slot]


@inline
def add_sums(
    r: Float64Array,
    w: Float64Array,
    coefficients: Coefficients,
    above: float,
    out: Float64Array,
    state: Float64Array,
) -> None:
    """Add above * sum_{j above i} w_j f_ij + sum_{j below i} w_j f_ij to every out_i.

    Args:
        r: float64[n], from `decays`.
        coefficients: coefficients of f, whose number is even, at most 12, and part of the type.
        above: 1 makes f an even function of the difference, -1 an odd one.
        state: float64[ROOM], overwritten.
    """
    n, slots = r.shape[0], 2 * len(coefficients)
    state[:slots] = 0.0
    # Both passes in one loop, because they are independent.
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, slots)
        j = n - i
        down, up = advance(state, (coefficients,), (r[i], r[j]), (w[i - 1], w[j]))
        out[i] += above * down
        out[j - 1] += up


@inline
def add_odd_and_even(
    r: Float64Array,
    w: Float64Array,
    odd: Coefficients,
    even: Coefficients,
    out_odd: Float64Array,
    out_even: Float64Array,
    state: Float64Array,
) -> None:
    """Run `add_sums` for two functions at once, where `above` is -1 for `odd` and 1 for `even`."""
    n, slots = r.shape[0], 2 * len(odd)
    state[:slots] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, slots)
        j = n - i
        odd_down, odd_up, even_down, even_up = advance(
            state, (odd, even), (r[i], r[j]), (w[i - 1], w[j])
        )
        out_odd[i] -= odd_down
        out_odd[j - 1] += odd_up
        out_even[i] += even_down
        out_even[j - 1] += even_up


@inline_sums
def softplus_of_power(t: float) -> float:
    """Return ln(1 + t) for 0 <= t <= 1 by arithmetic only, with a relative error below 2e-13."""
    c: Coefficients = _ACCURATE_SOFTPLUS
    high = c[8] + t * (
        c[9] + t * (c[10] + t * (c[11] + t * (c[12] + t * (c[13] + t * (c[14] + t * c[15])))))
    )
    low = c[0] + t * (
        c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * (c[5] + t * (c[6] + t * c[7])))))
    )
    fourth = t * t * (t * t)
    return t * (low + fourth * fourth * high)


@inline
def group_by_gain(
    gains: Float64Array, member: Int64Array, grade: Int64Array, spare: Int64Array
) -> int:
    """Write the positions grouped by gain, highest first, and the grade of each; return the number
    of grades.

    Within a group the positions `member` ascend; `spare` is overwritten.
    """
    sort_descending(gains, member, spare)
    grades = 0
    for k in range(member.shape[0]):
        if k > 0 and gains[member[k]] < gains[member[k - 1]]:
            grades += 1
        grade[member[k]] = grades
    return grades + 1


@inline
def cut_between_grades(r: Float64Array, member: Int64Array, grade: Int64Array) -> None:
    """Set the factors between neighbours in `group_by_gain` that have different grades to 0."""
    for k in range(1, r.shape[0]):
        if grade[member[k]] != grade[member[k - 1]]:
            r[k] = 0.0


@inline
def _add_below(sums: Float64Array, grade: int, weight: float) -> None:
    """Add `weight` to sums[:grade] without a branch: `range(_WIDTH)` would not use SIMD."""
    for lane in range(sums.shape[0]):
        sums[lane] += weight if lane < grade else 0.0


@inline
def add_wrong_pairs(
    grade: Int64Array,
    n_grades: int,
    w: Float64Array,
    out: Float64Array,
    count: Float64Array,
    tree: Float64Array,
) -> None:
    """Add the weights of all lower-graded documents above to `out`, and subtract those of all
    higher-graded ones below.

    The same sums with weights of 1 are added to `count`. `tree`, float64[max(2 n_grades + 2, 4
    `_WIDTH`)], is overwritten.
    """
    n = grade.shape[0]
    if n_grades <= _WIDTH:
        # Few grades: one running sum per grade, over the documents passed so far with lower or
        # higher grades, without branches. Up the list grades count from the highest.
        tree[: 4 * _WIDTH] = 0.0
        lower, higher = tree[:_WIDTH], tree[_WIDTH : 2 * _WIDTH]
        how_many_lower, how_many_higher = (
            tree[2 * _WIDTH : 3 * _WIDTH],
            tree[3 * _WIDTH : 4 * _WIDTH],
        )
        for i in range(n):
            j = n - 1 - i
            grade_down, grade_up = grade[i], n_grades - 1 - grade[j]
            out[i] += lower[grade_down]
            count[i] += how_many_lower[grade_down]
            out[j] -= higher[grade_up]
            count[j] -= how_many_higher[grade_up]
            _add_below(lower, grade_down, w[i])
            _add_below(how_many_lower, grade_down, 1.0)
            _add_below(higher, grade_up, w[j])
            _add_below(how_many_higher, grade_up, 1.0)
        return
    # Fenwick trees: slot k holds a sum over the grades k - (k & -k) to k - 1.
    counts = tree[n_grades + 1 :]
    for side in range(2):
        tree[: 2 * n_grades + 2] = 0.0
        sign = 1.0 if side == 0 else -1.0
        for step in range(n):
            # Down the list grades count from the lowest, so that "lower" is a prefix; up, from the
            # highest.
            i = step if side == 0 else n - 1 - step
            slot = n_grades - 1 - grade[i] if side == 0 else grade[i]
            k = slot
            while k > 0:
                out[i] += sign * tree[k]
                count[i] += sign * counts[k]
                k -= k & -k
            k = slot + 1
            while k <= n_grades:
                tree[k] += w[i]
                counts[k] += 1.0
                k += k & -k
