"""SoftRank's ranks: contests between all documents, expected discounts, and their gradients.

i beats j with probability pi_ij = Phi(u_ij), u_ij = (s_i - s_j) / (sqrt2 sigma), and the rank of j (from 0) is the
number of documents that beat it. Two models of that number's distribution, with E_j the expected discount:

* rank-binomial: independent contests. The log discount is a sum of powers z_l^r (`rank_tables`), whence
      E_j = sum_l c_l P_jl,   P_jl = prod_i (1 - (1 - z_l) pi_ij)
      dE_j/dpi_ij = -sum_l c_l (1 - z_l) P_jl / (1 - (1 - z_l) pi_ij)
  and a linear discount needs only the expected rank sum_i pi_ij.
* normal: mean m = sum_i pi_ij and variance v = sum_i pi_ij (1 - pi_ij), in bins r +- 1/2 whose ends take the tails:
      E_j = D(n - 1) + sum_{r < n - 1} (D(r) - D(r + 1)) Phi((r + 1/2 - m) / sqrt v)

So E_j is a function of sums over i of a few curves of u_ij: of ln(1 - (1 - z_l) Phi) for every node, of Phi, of Phi (1
- Phi). With w_jr its derivative by the r-th sum,

    dJ/ds_m = (A_m - B_m) / (sqrt2 sigma)
    A_m = sum_j sum_r w_jr curve_r'(u_mj),   B_m = sum_i sum_r w_mr curve_r'(u_im)

A is the effect of m on others, B theirs on m. `direct` computes the sums pair by pair; `swept` computes them for all
documents in three passes over the sorted scores. All curves share their exponents, so one set of running sums serves
every node, and the weights of all nodes are added before they run.

Source: Taylor, Guiver, Robertson, Minka, "SoftRank", WSDM 2008, for the contests, the rank-binomial and the normal; the
sums that replace its recursion are not in the paper.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.kernels.primitives import discount
from boostrank.kernels.runtime.jit import inline, inline_sums
from boostrank.kernels.sums.rank_tables import (
    ABOVE,
    BELOW,
    FIRST_NODE,
    LENGTHS,
    MEAN,
    NODES,
    RATES,
    SHARES,
    SLOPE_ABOVE,
    SLOPE_BELOW,
    VARIANCE,
    WEIGHTS,
)

BINOMIAL, NORMAL = 0, 1

ROOM = 40
"""Numbers per document that `swept` needs: 36 of running sums, and the ordered inputs."""
WORK = 36
"""Columns of the work space: at least ROWS, and two per wave."""

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_TINY = 1e-290  # smaller numbers are 0: subnormal numbers are slow
_SERIES = 1.0 / 128.0  # e times this is below 0.2: nine terms give 13 digits
_FARTHEST = 40.0  # exp(-40 e) is negligible for every exponent
_TAIL = 9.0  # standard deviations beyond which a normal is negligible
_SURE = 1e-12  # minimum variance of a rank: the bins are then certain to 12 digits


@inline
def length_class(n: int) -> int:
    """Return the row of the tables for a list of n documents."""
    c = 0
    while c < LENGTHS.shape[0] - 1 and n > LENGTHS[c]:
        c += 1
    return c


@inline
def first_row(model: int, blend: float) -> int:
    """Return the first curve that is needed."""
    if model == NORMAL:
        return VARIANCE
    return MEAN if blend > 0.0 else FIRST_NODE


@inline
def last_row(model: int, blend: float, c: int) -> int:
    """Return one past the last curve that is needed."""
    return FIRST_NODE + NODES[c] if model == BINOMIAL and blend < 1.0 else FIRST_NODE


@inline
def expected_discount(sums: Float64Array, model: int, blend: float, n: int, c: int, weights: Float64Array) -> float:
    """Return E_j, and write its derivatives by the sums to `weights`.

    Args:
        sums: float64[rows]: variance and mean of the rank, then the product P_jl of each node.
        model: BINOMIAL or NORMAL.
        blend: blend of the training discount.
        n: number of documents in the list.
        c: length class of the list.
        weights: float64[rows], written; for nodes, derivatives by the logarithm of the product.
    """
    if model == NORMAL:
        return _expected_by_normal(sums, blend, n, weights)
    value = 0.0
    if blend > 0.0:  # otherwise the mean is undefined
        value = blend * (1.0 - sums[MEAN] / n)
        weights[MEAN] = -blend / n
    for row in range(FIRST_NODE, last_row(model, blend, c)):
        weights[row] = (1.0 - blend) * WEIGHTS[c, row] * sums[row]
        value += weights[row]
    return value


@inline
def _expected_by_normal(sums: Float64Array, blend: float, n: int, weights: Float64Array) -> float:
    mean, variance = sums[MEAN], max(sums[VARIANCE], _SURE)
    deviation = math.sqrt(variance)
    low = max(int(mean - _TAIL * deviation) - 1, 0)
    high = min(int(mean + _TAIL * deviation) + 2, n - 1)
    here = discount(low + 1.0, blend, n)
    value = discount(high + 1.0, blend, n)
    by_mean, by_variance = 0.0, 0.0
    # Sum over the bins of the normal, from `low` to `high`.
    for r in range(low, high):
        below = discount(r + 2.0, blend, n)
        y = (r + 0.5 - mean) / deviation
        drop, density = here - below, _DENSITY * math.exp(-0.5 * y * y)
        value += drop * 0.5 * math.erfc(-_SQRT_HALF * y)
        by_mean -= drop * density
        by_variance -= drop * density * y
        here = below
    weights[MEAN] = by_mean / deviation
    weights[VARIANCE] = by_variance / (2.0 * variance)
    return value


@inline
def direct(
    s: Float64Array,
    scale: float,
    gains: Float64Array,
    model: int,
    blend: float,
    on_others: Float64Array,
    on_own: Float64Array,
    room: Float64Array,
    work: Float64Array,
) -> float:
    """Compute J = sum_j gains_j E_j, A and B pair by pair: n times relevant documents times nodes.

    Args:
        s: float64[n], scores, in any order.
        scale: 1 / (sqrt2 sigma), multiplied with differences, which keep the digits of the scores.
        gains: float64[n], divided by the ideal.
        model: BINOMIAL or NORMAL.
        blend: blend of the training discount.
        on_others, on_own: float64[n], A and B, written.
        room: float64[>= 2n], overwritten.
        work: float64[8, WORK], overwritten.
    """
    n = s.shape[0]
    c = length_class(n)
    low, high = first_row(model, blend), last_row(model, blend, c)
    chance, density = room[:n], room[n : 2 * n]
    sums, weights = work[0], work[1]
    on_others[:] = 0.0
    on_own[:] = 0.0
    value = 0.0
    for j in range(n):
        if gains[j] == 0.0:
            continue
        for i in range(n):
            x = scale * (s[i] - s[j])
            chance[i] = 0.5 * math.erfc(-_SQRT_HALF * x)
            density[i] = _DENSITY * math.exp(-0.5 * x * x)
        chance[j] = 0.0
        density[j] = 0.0
        _sums_of(chance, low, high, c, sums)
        value += gains[j] * expected_discount(sums, model, blend, n, c, weights)
        own = 0.0
        for i in range(n):
            slope = gains[j] * density[i] * _slope(chance[i], weights, low, high, c)
            on_others[i] += slope
            own += slope
        on_own[j] = own
    return value


@inline_sums
def _sums_of(chance: Float64Array, low: int, high: int, c: int, sums: Float64Array) -> None:
    mean, variance = 0.0, 0.0
    for i in range(chance.shape[0]):
        mean += chance[i]
        variance += chance[i] * (1.0 - chance[i])
    sums[MEAN] = mean
    sums[VARIANCE] = variance
    for row in range(FIRST_NODE, high):
        sums[row] = 1.0
    for i in range(chance.shape[0]):
        pi = chance[i]
        for row in range(FIRST_NODE, high):
            product = sums[row] * (1.0 - SHARES[c, row] * pi)
            sums[row] = 0.0 if product < _TINY else product


@inline_sums
def _slope(pi: float, weights: Float64Array, low: int, high: int, c: int) -> float:
    """Return sum_r w_r dcurve_r / dpi."""
    total = 0.0
    for row in range(FIRST_NODE, high):
        total -= weights[row] * SHARES[c, row] / (1.0 - SHARES[c, row] * pi)
    if low <= MEAN:
        total += weights[MEAN]
    if low <= VARIANCE:
        total += weights[VARIANCE] * (1.0 - 2.0 * pi)
    return total


@inline
def swept(
    s: Float64Array, scale: float, gains: Float64Array, model: int, blend: float, waves: Float64Array,
    tables: Float64Array, on_others: Float64Array, on_own: Float64Array, room: Float64Array, work: Float64Array,
) -> float:  # fmt: skip
    """Compute J, A and B in three passes over the documents.

    Args:
        s: float64[n], descending.
        scale, gains, model, blend, on_others, on_own: as in `direct`.
        waves, tables: FAST_WAVES and FAST, or EXACT_WAVES and EXACT.
        room: float64[>= 2 waves n], overwritten.
        work: float64[8, WORK], overwritten.
    """
    n, half = s.shape[0], waves.shape[1]
    width = 2 * half
    c = length_class(n)
    table = tables[c]
    low, high = first_row(model, blend), last_row(model, blend, c)
    decay, above, pull, push = work[2, :width], work[3, :width], work[4, :width], work[5, :width]
    up, sums, weights = work[6, :width], work[0], work[1]
    on_others[:] = 0.0
    on_own[:] = 0.0
    # Up: sums of the waves of the documents below.
    up[:] = 0.0
    for j in range(n - 1, -1, -1):
        if j < n - 1:
            _decays(scale * (s[j] - s[j + 1]), waves, decay)
            _count(up, decay)
        for a in range(width):
            room[j * width + a] = up[a]
    # Down: every sum of j is known, and with it the pull on j and its pull on the documents below.
    above[:] = 0.0
    pull[:] = 0.0
    push[:] = 0.0
    value = 0.0
    for j in range(n):
        if j > 0:
            _decays(scale * (s[j - 1] - s[j]), waves, decay)
            _count(above, decay)
            _run(pull, push, decay)
            on_others[j] = _total(pull, half)
        under = room[j * width : (j + 1) * width]
        if gains[j] == 0.0:
            push[:] = 0.0
            under[:] = 0.0
            continue
        for row in range(low, high):
            total = _dot(table[ABOVE, row], above) + _dot(table[BELOW, row], under)
            if row < FIRST_NODE:
                sums[row] = total + (j if row == MEAN else 0.0)
            else:
                total -= j * RATES[c, row]
                sums[row] = math.exp(total) if total > -660.0 else 0.0
        value += gains[j] * expected_discount(sums, model, blend, n, c, weights)
        for row in range(low, high):
            weights[row] *= gains[j]
        _mixed(table[SLOPE_BELOW], weights, low, high, push)
        on_own[j] = _dot(push, under)
        _mixed(table[SLOPE_ABOVE], weights, low, high, under)
        on_own[j] += _dot(under, above)
        for a in range(half, width):
            push[a] = -push[a]
            under[a] = -under[a]
    # Up again: the pull of each document on those above it.
    pull[:] = 0.0
    for m in range(n - 2, -1, -1):
        _decays(scale * (s[m] - s[m + 1]), waves, decay)
        _run(pull, room[(m + 1) * width : (m + 2) * width], decay)
        on_others[m] += _total(pull, half)
    return value


@inline
def _decays(gap: float, waves: Float64Array, decay: Float64Array) -> None:
    """Write exp(-e gap) for every exponent, real parts first: a series at a fraction of the gap, then squared.

    Neighbours are mostly so near that nothing is squared, and every inner loop uses SIMD.
    """
    half = waves.shape[1]
    if gap >= _FARTHEST:
        decay[:] = 0.0
        return
    step, squarings = -gap, 0
    while step < -_SERIES:
        step *= 0.5
        squarings += 1
    for a in range(half):
        decay[a] = 1.0
        decay[half + a] = 0.0
    for k in range(9, 0, -1):
        part = step / k
        for a in range(half):
            x, y, re, im = part * waves[0, a], part * waves[1, a], decay[a], decay[half + a]
            decay[a] = 1.0 + (x * re - y * im)
            decay[half + a] = x * im + y * re
    for _ in range(squarings):
        for a in range(half):
            re, im = decay[a], decay[half + a]
            decay[a] = re * re - im * im
            decay[half + a] = 2.0 * re * im


@inline
def _count(sums: Float64Array, decay: Float64Array) -> None:
    """Update sums to decay (sums + 1)."""
    half = sums.shape[0] // 2
    for a in range(half):
        re, im = sums[a] + 1.0, sums[half + a]
        sums[a] = re * decay[a] - im * decay[half + a]
        sums[half + a] = re * decay[half + a] + im * decay[a]


@inline
def _run(sums: Float64Array, more: Float64Array, decay: Float64Array) -> None:
    """Update sums to decay (sums + more)."""
    half = sums.shape[0] // 2
    for a in range(half):
        re, im = sums[a] + more[a], sums[half + a] + more[half + a]
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
def _total(sums: Float64Array, half: int) -> float:
    """Return the sum of the real parts."""
    total = 0.0
    for a in range(half):
        total += sums[a]
    return total


@inline
def _mixed(table: Float64Array, weights: Float64Array, low: int, high: int, out: Float64Array) -> None:
    """Write the sum over the rows of weight times coefficients to `out`."""
    out[:] = 0.0
    for row in range(low, high):
        for a in range(out.shape[0]):
            out[a] += weights[row] * table[row, a]


@inline
def work_space() -> Float64Array:
    """Return the work space of `direct` and `swept`, float64[8, WORK]; NaN reveals any use before assignment."""
    return np.full((8, WORK), np.nan)
