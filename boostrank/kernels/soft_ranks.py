"""SoftRank's ranks, which are contests between all documents, with expected discounts and their
gradients.

Document i beats j with probability pi_ij = Phi(u_ij), u_ij = (s_i - s_j) / (sqrt2 sigma), and the
rank of j (from 0) is the number of documents that beat it. The expected discount E_j depends on the
model of that number's distribution:

* rank-binomial: independent contests. With the log discount as a short sum of powers of the rank
  (`qa.kernel_tables`),

      1 / log2(2 + r) = sum_l c_l z_l^r,    0 < z_l < 1,  c_l > 0
      E_j             = sum_l c_l P_jl,     P_jl = prod_i (1 - (1 - z_l) pi_ij)
      dE_j / dpi_ij   = -sum_l c_l (1 - z_l) P_jl / (1 - (1 - z_l) pi_ij)

  and a linear discount needs only the expected rank sum_i pi_ij.
* normal: mean m = sum_i pi_ij and variance v = sum_i pi_ij (1 - pi_ij), in bins r +- 1/2 whose ends
  take the tails:

      E_j = D(n - 1) + sum_{r < n - 1} (D(r) - D(r + 1)) Phi((r + 1/2 - m) / sqrt v)

So E_j is a function of sums over i of a few curves of u_ij: ln(1 - (1 - z_l) Phi) for every node l,
Phi, and Phi (1 - Phi). The curves level off on both sides. Each side, and its slope, is a sum of
damped waves with common exponents:

    curve(u) = [u > 0] limit + sum_a Re(coefficient_a exp(-e_a |u|))

The exponents come from a matrix pencil over all curves at once, and the coefficients from least
squares, which are exact at u = 0 so that tied documents get the same value whichever comes
first. Largest error of a curve / of its slope over all nodes, for curves of size up to 4: 3e-8 /
6e-8.

With w_jr the derivative of E_j by the r-th sum,

    dJ/ds_m = (A_m - B_m) / (sqrt2 sigma)
    A_m = sum_j sum_r w_jr curve_r'(u_mj),   B_m = sum_i sum_r w_mr curve_r'(u_im)

A is the effect of m on the discounts of the others, and B is their effect on that of m.
`evaluate_pairs` computes the sums pair by pair, and `evaluate_sweeps` in three passes over the
sorted scores. Since all curves share their exponents,
one set of running sums serves every node.

Source: Taylor, Guiver, Robertson, Minka, "SoftRank", WSDM 2008, for the contests, the rank-binomial
and the normal; the sums that replace its recursion are not in the paper. `evaluate_sinkhorn` is
that recursion, with the paper's scaling of the matrix of all rank distributions, and the gradient
through it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.kernels.jit import allocates, inline, inline_sums
from boostrank.kernels.primitives import discount
from boostrank.kernels.tables import TABLES

VARIANCE, MEAN, FIRST_NODE = 0, 1, 2
"""The rows of curves: Phi (1 - Phi), Phi, then ln(1 - (1 - z_l) Phi) for each node."""
ABOVE, BELOW, SLOPE_ABOVE, SLOPE_BELOW = 0, 1, 2, 3
"""The curves by side: u > 0 (i above j), u < 0, and the slopes on both sides."""

LENGTHS, NODES = TABLES["discount lengths"], TABLES["discount nodes"]
"""The longest list of each sum of powers, and its number of nodes, int64[discounts]."""
RATES, WEIGHTS = TABLES["discount rates"], TABLES["discount weights"]
"""-ln z_l and c_l, float64[discounts, rows of curves]."""
SHARES = TABLES["discount shares"]
"""1 - z_l."""
WAVES = TABLES["waves"]
"""Damping and frequency of each wave, the real and imaginary parts of e, float64[2, waves]."""
WAVE_COUNTS = np.full(NODES.size, WAVES.shape[1])
"""The number of waves of each sum of powers. Loops of a length known to the compiler are unrolled,
and then do not use SIMD.
"""
CURVES = TABLES["curves"]
"""The coefficients of exp(-e |u|), real then imaginary, float64[discounts, sides, rows of curves,
2 waves].
"""


BINOMIAL, NORMAL = 0, 1
"""The models of a rank's distribution."""

NUMBERS_A_DOCUMENT = 20
"""The length of the buffer of `evaluate_sweeps` per document, two sums per wave."""
WORK_COLUMNS = 32
"""The number of columns in the work space: at least the rows of curves, and two per wave."""
_SUMS, _SUM_SLOPES, _DECAY, _ABOVE, _PULL, _PUSH, _BELOW, WORK_ROWS = range(8)
"""The rows of the work space."""

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_TINY = 1e-290  # smaller numbers are 0: subnormal numbers are slow
_SERIES = 1.0 / 128.0  # e times this is below 0.2: nine terms give 13 digits
_FARTHEST = 40.0  # exp(-40 e) is negligible for every exponent
_TAIL = 9.0  # standard deviations beyond which a normal is negligible
_SURE = 1e-12  # minimum variance of a rank: the bins are then certain to 12 digits


class Contests(NamedTuple):
    """The contests between the n documents of a list.

    Args:
        scores, gains: float64[n], gains divided by the ideal DCG.
        scale: 1 / (sqrt2 sigma), which multiplies differences so that the digits of the scores are
            kept.
        model: BINOMIAL or NORMAL.
        blend: blend of the training discount.
    """

    scores: Float64Array
    gains: Float64Array
    scale: float
    model: int
    blend: float


@inline
def find_length_class(n: int) -> int:
    """Return the row of the tables that is used for a list of n documents."""
    length_class = 0
    while length_class < LENGTHS.shape[0] - 1 and n > LENGTHS[length_class]:
        length_class += 1
    return length_class


@inline
def find_rows(model: int, blend: float, length_class: int) -> tuple[int, int]:
    """Return the first row of the curves that a model needs, and one past the last."""
    if model == NORMAL:
        return VARIANCE, FIRST_NODE
    first = MEAN if blend > 0.0 else FIRST_NODE
    stop = FIRST_NODE + NODES[length_class] if blend < 1.0 else FIRST_NODE
    return first, stop


@inline
def expect_discount(
    contests: Contests, sums: Float64Array, length_class: int, sum_slopes: Float64Array
) -> float:
    """Return E_j, and write its derivatives with respect to the sums.

    Args:
        sums: float64[rows], variance and mean of the rank of j, then the product P_jl of each node.
        length_class: see `find_length_class`.
        sum_slopes: float64[rows], written; for nodes, the derivatives by the logarithm of the
            product.
    """
    n, blend = contests.scores.shape[0], contests.blend
    if contests.model == NORMAL:
        return _expect_by_normal(sums, blend, n, sum_slopes)
    expected = 0.0
    if blend > 0.0:  # otherwise the mean is undefined
        expected = blend * (1.0 - sums[MEAN] / n)
        sum_slopes[MEAN] = -blend / n
    for row in range(FIRST_NODE, find_rows(contests.model, blend, length_class)[1]):
        sum_slopes[row] = (1.0 - blend) * WEIGHTS[length_class, row] * sums[row]
        expected += sum_slopes[row]
    return expected


@inline
def _expect_by_normal(sums: Float64Array, blend: float, n: int, sum_slopes: Float64Array) -> float:
    mean, variance = sums[MEAN], max(sums[VARIANCE], _SURE)
    deviation = math.sqrt(variance)
    first_bin = max(int(mean - _TAIL * deviation) - 1, 0)
    last_bin = min(int(mean + _TAIL * deviation) + 2, n - 1)
    at_rank = discount(first_bin + 1.0, blend, n)
    expected = discount(last_bin + 1.0, blend, n)
    by_mean, by_variance = 0.0, 0.0
    # E_j as a sum over the ends y of the bins, in deviations from the mean.
    for r in range(first_bin, last_bin):
        at_next_rank = discount(r + 2.0, blend, n)
        y = (r + 0.5 - mean) / deviation
        drop, density = at_rank - at_next_rank, _DENSITY * math.exp(-0.5 * y * y)
        expected += drop * 0.5 * math.erfc(-_SQRT_HALF * y)
        by_mean -= drop * density
        by_variance -= drop * density * y
        at_rank = at_next_rank
    sum_slopes[MEAN] = by_mean / deviation
    sum_slopes[VARIANCE] = by_variance / (2.0 * variance)
    return expected


@inline
def evaluate_pairs(
    contests: Contests,
    others_slope: Float64Array,
    own_slope: Float64Array,
    buffer: Float64Array,
    work: Float64Array,
) -> float:
    """Return J = sum_j gains_j E_j, and compute A and B pair by pair, from scores in any order.

    This takes n times relevant documents times nodes.

    Args:
        others_slope, own_slope: float64[n], written: A and B.
        buffer, work: float64[NUMBERS_A_DOCUMENT n], float64[WORK_ROWS, WORK_COLUMNS], overwritten.
    """
    s, gains, scale = contests.scores, contests.gains, contests.scale
    n = s.shape[0]
    length_class = find_length_class(n)
    first_row, stop_row = find_rows(contests.model, contests.blend, length_class)
    chance, density = buffer[:n], buffer[n : 2 * n]
    sums, sum_slopes = work[_SUMS], work[_SUM_SLOPES]
    others_slope[:] = 0.0
    own_slope[:] = 0.0
    objective = 0.0
    for j in range(n):
        if gains[j] == 0.0:
            continue
        # The chances pi_ij of all others against a relevant document, and E_j from them.
        for i in range(n):
            u = scale * (s[i] - s[j])
            chance[i] = 0.5 * math.erfc(-_SQRT_HALF * u)
            density[i] = _DENSITY * math.exp(-0.5 * u * u)
        chance[j] = 0.0
        density[j] = 0.0
        _sum_curves(chance, stop_row, length_class, sums)
        objective += gains[j] * expect_discount(contests, sums, length_class, sum_slopes)
        # Its gradient, pair by pair.
        slope_sum = 0.0
        for i in range(n):
            chance_slope = _slope_by_chance(
                chance[i], sum_slopes, first_row, stop_row, length_class
            )
            slope = gains[j] * density[i] * chance_slope
            others_slope[i] += slope
            slope_sum += slope
        own_slope[j] = slope_sum
    return objective


@inline_sums
def _sum_curves(chance: Float64Array, stop_row: int, length_class: int, sums: Float64Array) -> None:
    """Write variance, mean and products of one document from the chances against it."""
    mean, variance = 0.0, 0.0
    for i in range(chance.shape[0]):
        mean += chance[i]
        variance += chance[i] * (1.0 - chance[i])
    sums[MEAN] = mean
    sums[VARIANCE] = variance
    for row in range(FIRST_NODE, stop_row):
        sums[row] = 1.0
    for i in range(chance.shape[0]):
        pi = chance[i]
        for row in range(FIRST_NODE, stop_row):
            product = sums[row] * (1.0 - SHARES[length_class, row] * pi)
            sums[row] = 0.0 if product < _TINY else product


@inline_sums
def _slope_by_chance(
    pi: float, sum_slopes: Float64Array, first_row: int, stop_row: int, length_class: int
) -> float:
    """Return dE_j / dpi_ij = sum_r w_jr dcurve_r / dpi."""
    slope = 0.0
    for row in range(FIRST_NODE, stop_row):
        one_minus_z = SHARES[length_class, row]
        slope -= sum_slopes[row] * one_minus_z / (1.0 - one_minus_z * pi)
    if first_row <= MEAN:
        slope += sum_slopes[MEAN]
    if first_row <= VARIANCE:
        slope += sum_slopes[VARIANCE] * (1.0 - 2.0 * pi)
    return slope


@inline
@allocates
def evaluate_sinkhorn(
    contests: Contests, sweeps: int, others_slope: Float64Array, own_slope: Float64Array
) -> float:
    """Compute the same as `evaluate_pairs` from rank-binomials scaled by Sinkhorn's sweeps, in n^3.

    A sweep divides every rank by the sum of its probabilities, then every document: p_jr becomes
    u_j p_jr v_r. The gradient goes back through all sweeps, and `p_slope` is dJ / dp_jr.
    """
    s, scale = contests.scores, contests.scale
    n, last = s.shape[0], 2 * sweeps
    p, p_slope, chance, density = np.zeros((4, n, n))
    # The factors of documents and ranks in turn, and the derivatives of J by them.
    factors, slopes = np.zeros((2, last + 1, n))
    others_slope[:] = 0.0
    own_slope[:] = 0.0
    objective = 0.0
    # The recursion over the contests of each document.
    for j in range(n):
        p[j, 0], factors[0, j] = 1.0, 1.0
        for i in range(n):
            u = scale * (s[i] - s[j])
            pi = 0.0 if i == j else 0.5 * math.erfc(-_SQRT_HALF * u)
            chance[j, i] = pi
            density[j, i] = _DENSITY * math.exp(-0.5 * u * u)
            for r in range(n - 1, 0, -1):
                p[j, r] += pi * (p[j, r - 1] - p[j, r])
            p[j, 0] -= pi * p[j, 0]
    # The sweeps: step t scales ranks if it is odd, and else documents.
    for t in range(1, last + 1):
        for j in range(n):
            for r in range(n):
                row, column = (r, j) if t % 2 == 1 else (j, r)
                factors[t, row] += p[j, r] * factors[t - 1, column]
        factors[t] = 1.0 / np.maximum(factors[t], _TINY)
    # Back: J by the last two scalings, then each scaling by the one before it.
    u_factors, v_factors = factors[last], factors[last - 1]
    for j in range(n):
        for r in range(n):
            share = contests.gains[j] * discount(r + 1.0, contests.blend, n)
            p_slope[j, r] = share * u_factors[j] * v_factors[r]
            objective += p_slope[j, r] * p[j, r]
            slopes[last, j] += share * p[j, r] * v_factors[r]
            slopes[last - 1, r] += share * p[j, r] * u_factors[j]
    for t in range(last, 0, -1):
        slopes[t] *= -factors[t] * factors[t]
        for j in range(n):
            for r in range(n):
                row, column = (r, j) if t % 2 == 1 else (j, r)
                p_slope[j, r] += slopes[t, row] * factors[t - 1, column]
                slopes[t - 1, column] += slopes[t, row] * p[j, r]
    # By each chance: p_j without i, divided out from the side where that is stable.
    for j in range(n):
        for i in range(n):
            if i == j:
                continue
            pi, without_i, slope = chance[j, i], 0.0, 0.0
            smaller, divisor = min(pi, 1.0 - pi), 1.0 / max(pi, 1.0 - pi)
            for step in range(n - 1):
                r = step if pi <= 0.5 else n - 1 - step
                without_i = (p[j, r] - smaller * without_i) * divisor
                after = r + 1 if pi <= 0.5 else r
                slope += density[j, i] * without_i * (p_slope[j, after] - p_slope[j, after - 1])
            others_slope[i] += slope
            own_slope[j] += slope
    return objective


@inline
def evaluate_sweeps(
    contests: Contests,
    others_slope: Float64Array,
    own_slope: Float64Array,
    buffer: Float64Array,
    work: Float64Array,
) -> float:
    """Compute the same as `evaluate_pairs` in three passes over the documents by descending
    score.
    """
    s, gains, scale = contests.scores, contests.gains, contests.scale
    n, length_class = s.shape[0], find_length_class(s.shape[0])
    half = WAVE_COUNTS[length_class]
    width = 2 * half
    table = CURVES[length_class]
    first_row, stop_row = find_rows(contests.model, contests.blend, length_class)
    sums, sum_slopes, decay = work[_SUMS], work[_SUM_SLOPES], work[_DECAY, :width]
    above, below = work[_ABOVE, :width], work[_BELOW, :width]
    pull, push = work[_PULL, :width], work[_PUSH, :width]
    others_slope[:] = 0.0
    own_slope[:] = 0.0
    # Up: sums of the waves of the documents below each document.
    below[:] = 0.0
    for j in range(n - 1, -1, -1):
        if j < n - 1:
            _write_decays(scale * (s[j] - s[j + 1]), decay)
            _pass_document(below, decay)
        for a in range(width):
            buffer[j * width + a] = below[a]
    # Down: every sum of j, E_j, the pull on j, and its push on the documents below.
    above[:] = 0.0
    pull[:] = 0.0
    push[:] = 0.0
    objective = 0.0
    for j in range(n):
        if j > 0:
            _write_decays(scale * (s[j - 1] - s[j]), decay)
            _pass_document(above, decay)
            _pass_sums(pull, push, decay)
            others_slope[j] = _add_real_parts(pull, half)
        below_j = buffer[j * width : (j + 1) * width]
        if gains[j] == 0.0:
            push[:] = 0.0
            below_j[:] = 0.0
            continue
        for row in range(first_row, stop_row):
            curve_sum = _dot(table[ABOVE, row], above) + _dot(table[BELOW, row], below_j)
            if row < FIRST_NODE:
                sums[row] = curve_sum + (j if row == MEAN else 0.0)
            else:
                curve_sum -= j * RATES[length_class, row]
                sums[row] = math.exp(curve_sum) if curve_sum > -660.0 else 0.0
        objective += gains[j] * expect_discount(contests, sums, length_class, sum_slopes)
        for row in range(first_row, stop_row):
            sum_slopes[row] *= gains[j]
        _mix_rows(table[SLOPE_BELOW], sum_slopes, first_row, stop_row, push)
        own_slope[j] = _dot(push, below_j)
        # From here on `below_j` holds the pull on the documents above j.
        _mix_rows(table[SLOPE_ABOVE], sum_slopes, first_row, stop_row, below_j)
        own_slope[j] += _dot(below_j, above)
        for a in range(half, width):
            push[a] = -push[a]
            below_j[a] = -below_j[a]
    # Up again: the pull of each document on those above it.
    pull[:] = 0.0
    for m in range(n - 2, -1, -1):
        _write_decays(scale * (s[m] - s[m + 1]), decay)
        _pass_sums(pull, buffer[(m + 1) * width : (m + 2) * width], decay)
        others_slope[m] += _add_real_parts(pull, half)
    return objective


@inline
def _write_decays(gap: float, decay: Float64Array) -> None:
    """Write exp(-e gap) for every exponent, real parts first, by squaring a series at a fraction of
    the gap.

    Neighbours are mostly so close that nothing is squared. Every inner loop uses SIMD.
    """
    half = decay.shape[0] // 2
    if gap >= _FARTHEST:
        decay[:] = 0.0
        return
    step, squarings = -gap, 0
    while step < -_SERIES:
        step *= 0.5
        squarings += 1
    # Horner's scheme in complex numbers, re + i im.
    for a in range(half):
        decay[a] = 1.0
        decay[half + a] = 0.0
    for k in range(9, 0, -1):
        part = step / k
        for a in range(half):
            x, y, re, im = part * WAVES[0, a], part * WAVES[1, a], decay[a], decay[half + a]
            decay[a] = 1.0 + (x * re - y * im)
            decay[half + a] = x * im + y * re
    for _ in range(squarings):
        for a in range(half):
            re, im = decay[a], decay[half + a]
            decay[a] = re * re - im * im
            decay[half + a] = 2.0 * re * im


@inline
def _pass_document(sums: Float64Array, decay: Float64Array) -> None:
    """Replace the sums by decay (sums + 1)."""
    half = sums.shape[0] // 2
    for a in range(half):
        re, im = sums[a] + 1.0, sums[half + a]
        sums[a] = re * decay[a] - im * decay[half + a]
        sums[half + a] = re * decay[half + a] + im * decay[a]


@inline
def _pass_sums(sums: Float64Array, added: Float64Array, decay: Float64Array) -> None:
    """Replace the sums by decay (sums + added)."""
    half = sums.shape[0] // 2
    for a in range(half):
        re, im = sums[a] + added[a], sums[half + a] + added[half + a]
        re, im = (0.0, 0.0) if abs(re) + abs(im) < _TINY else (re, im)
        sums[a] = re * decay[a] - im * decay[half + a]
        sums[half + a] = re * decay[half + a] + im * decay[a]


@inline_sums
def _dot(a: Float64Array, b: Float64Array) -> float:
    total = 0.0
    for i in range(b.shape[0]):
        total += a[i] * b[i]
    return total


@inline_sums
def _add_real_parts(sums: Float64Array, half: int) -> float:
    total = 0.0
    for a in range(half):
        total += sums[a]
    return total


@inline
def _mix_rows(
    table: Float64Array, row_weights: Float64Array, first_row: int, stop_row: int, out: Float64Array
) -> None:
    """Write the sum of weight times coefficients over the rows to `out`."""
    out[:] = 0.0
    for row in range(first_row, stop_row):
        for a in range(out.shape[0]):
            out[a] += row_weights[row] * table[row, a]
