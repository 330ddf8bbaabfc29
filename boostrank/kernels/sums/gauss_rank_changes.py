"""Changes of rank: gain and loss of a metric as one document moves past the others, weighted by a Gaussian.

    F_a = sum_{q < a} drop_q (g_a - g_q) e_aq + sum_{q > a} drop_(q-1) (g_a - g_q) e_aq,
    e_aq = exp(-(x_q - c_a)^2 / (2 v))

over documents by descending x. A document is at x_a, its Gaussian is centred at c_a, and the weight of a source depends
on which of the two comes first. So going down the list, every document reads the lattice with the documents before it,
and then adds itself; likewise going up. With u = x / sqrt(2 v) that is the lattice of `kernels.sums.lattice`, which
moves along with the list.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.kernels.runtime.jit import inline, inline_sums
from boostrank.kernels.sums.lattice import HALF, STEP, TAPS, lattice_factors, lattice_weights

_REACH = 64  # cells around a document that the lattice covers; noise never exceeds 40
_CELLS = 512  # cells of the lattice; more of them mean fewer moves
_GAP = 1.5 * _REACH * STEP  # gap in u across which Gaussians are negligible


@inline
def gaussian_rank_changes(
    x: Float64Array, centre: Float64Array, deviation: float, gains: Float64Array, drop: Float64Array, out: Float64Array
) -> None:
    """Write F of every document, times the factor of the density.

    Args:
        x: float64[n], descending.
        centre: float64[n], c; within 16 deviations of x.
        deviation: sqrt(v).
        gains: float64[n].
        drop: float64[n], >= 0.
        out: float64[n], written.
    """
    grid, p = np.empty((2, _CELLS)), np.empty(TAPS)
    out[:] = 0.0
    for side in (1.0, -1.0):
        _pass(side, x, centre, 1.0 / (math.sqrt(2.0) * deviation), gains, drop, grid, p, out)
    factor = 1.0 / (math.sqrt(2.0 * math.pi) * deviation)
    for a in range(x.shape[0]):
        out[a] *= factor


@inline
def _pass(
    side: float,
    x: Float64Array,
    centre: Float64Array,
    unit: float,
    gains: Float64Array,
    drop: Float64Array,
    grid: Float64Array,
    p: Float64Array,
    out: Float64Array,
) -> None:
    """Go down the list (side 1) or up (side -1), with ascending u: read the documents before, then add this one."""
    n = x.shape[0]
    grid[:] = 0.0
    base = -_REACH
    first, start, u = x[0] if side > 0.0 else x[n - 1], 0.0, 0.0
    for k in range(n):
        a = k if side > 0.0 else n - 1 - k
        away = start + side * (first - x[a]) * unit
        # Clip gaps at `_GAP`: places keep their digits, and cell numbers fit an integer.
        if away > u + _GAP:
            away = u + _GAP
            first, start = x[a], away
        u = away
        cell = int(u / STEP)
        # Move the lattice along.
        if cell + _REACH > base + _CELLS:
            shift = cell - _REACH - base
            keep = max(_CELLS - shift, 0)
            for m in range(keep):
                grid[0, m], grid[1, m] = grid[0, m + shift], grid[1, m + shift]
            grid[:, keep:] = 0.0
            base += shift
        seen = start + side * (first - centre[a]) * unit
        at = math.floor(seen / STEP)
        factor, growth = lattice_factors(seen - (at - HALF) * STEP)
        lattice_weights(factor, growth, p)
        # The bounds are never reached; they keep memory safe.
        begin = max(0, min(int(at) - HALF - base, _CELLS - TAPS))
        out[a] += _read(p, gains[a], grid[0, begin : begin + TAPS], grid[1, begin : begin + TAPS])
        place = a if side > 0.0 else a - 1
        if place >= 0 and drop[place] != 0.0:
            factor, growth = lattice_factors(u - (cell - HALF) * STEP)
            lattice_weights(factor, growth, p)
            begin = max(0, min(cell - HALF - base, _CELLS - TAPS))
            _add(p, drop[place], gains[a], grid[0, begin : begin + TAPS], grid[1, begin : begin + TAPS])


@inline_sums
def _read(p: Float64Array, gain: float, weights: Float64Array, gains: Float64Array) -> float:
    total, taken = 0.0, 0.0
    for m in range(p.shape[0]):
        total += p[m] * weights[m]
        taken += p[m] * gains[m]
    return gain * total - taken


@inline_sums
def _add(p: Float64Array, weight: float, gain: float, weights: Float64Array, gains: Float64Array) -> None:
    for m in range(p.shape[0]):
        share = weight * p[m]
        weights[m] += share
        gains[m] += gain * share
