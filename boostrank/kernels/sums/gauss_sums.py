"""Gaussian averages over one sorted list, and their gradients, in near-linear time, for SmoothNDCG.

    sum_i w_i e_ij v_i,   e_ij = exp(-(u_i - u_j)^2)      for every anchor j

e_ij is a sum over the points m of a lattice (`kernels.sums.lattice`) of p_m(u_i) p_m(u_j). So each document adds
p_m(u_i) to the points around it and reads its sum from them: nothing cancels, and far documents keep their small
weights, however many there are. Truncation costs an average 2e-11 with 100,000 documents piled up at the worst
distance. The difference of two places is e_ij u_i - u_j e_ij, with places relative to the first document of a run:
exactly 0 if all are tied.

An absolute difference |v_i - c_j| is not a product, but sums of it follow from sums by value. Sources are in slots of
ascending value, and once no more can come the slots are cumulated; two numbers then give the part below c_j.

The lattice moves along the list: it holds `CELLS` points, however wide the list is.
"""

from __future__ import annotations

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.runtime.jit import inline, inline_sums
from boostrank.kernels.sums.lattice import HALF, STEP, TAPS, lattice_factors, lattice_weights

CELLS = 160  # at least 2 TAPS; more of them mean fewer moves
SLOTS = 8
"""Maximum number of slots."""
WEIGHT, VALUE, PART = 0, 1, 2
"""Rows of sources: w, v, and the share of the upper slot if v is a mixture of the values of two slots."""
ROOM, IROOM = 6, 2
"""Floats and integers per document that `gauss_gradient` needs."""

# Rows of points: u, and its `lattice_factors`.
_PLACE, _START, _GROWTH = 0, 1, 2
# Sums at a lattice point, by slot: w, w v, w u, w v u.
_SUMS = 4
# First point of the lattice, first point whose sums are not cumulated, next source.
_BASE, _DONE, _NEXT = 0, 1, 2


@inline
def gauss_gradient(
    s: Float64Array, first: int, last: int, stop: int, unit: float, weight: Float64Array, documents: Float64Array,
    node: Int64Array, nodes: Float64Array, gradient: Float64Array, curvature: Float64Array, work: Float64Array,
    iwork: Int64Array,
) -> float:  # fmt: skip
    """Return J = sum_j weight_j c_j, c_j = sum_i h_ij v_i, over a run of documents, and add its gradient and curvature.

    With places u = -s unit and h_ij = e_ij / sum_m e_mj, document i gets

        gradient      sum_j weight_j h_ij (u_i - u_j) (v_i - c_j) - weight_i sum_m h_mi (v_m - c_i) u_m
        curvature  sum_j weight_j h_ij |v_i - c_j| + weight_i sum_m h_mi |v_m - c_i|

    Args:
        s: float64[n], descending.
        first, last, stop: the run is `first` to before `last`, its anchors end before `stop`.
        unit: factor from s to u.
        weight: float64[n], weight of each anchor.
        documents: float64[3, n]: 1, the value v, and the share of the upper node in v.
        node: int64[n]: the node equal to v, or the lower node of its mixture.
        nodes: float64[slots], ascending. In |v - c| a mixture counts as its two nodes.
        gradient, curvature: float64[n].
        work, iwork: float64[ROOM n], int64[IROOM n], overwritten.
    """
    n, slots = s.shape[0], nodes.shape[0]
    points, anchors = work[: 3 * n].reshape((3, n)), work[3 * n : 6 * n].reshape((3, n))
    cell, rank = iwork[:n], iwork[n : 2 * n]
    grid, state, p = np.empty((slots, _SUMS * CELLS)), np.empty(3, np.int64), np.empty(TAPS)
    for i in range(first, last):
        u = (s[first] - s[i]) * unit
        cell[i] = int(u / STEP)
        points[_PLACE, i] = u
        points[_START, i], points[_GROWTH, i] = lattice_factors(u - (cell[i] - HALF) * STEP)
    value = 0.0
    # First the averages around every anchor, from the documents; then the gradient on every document, from the anchors.
    for back in range(2):
        sources, slot, sources_end = (anchors, rank, stop) if back else (documents, node, last)
        grid[:] = 0.0
        state[_BASE], state[_DONE], state[_NEXT] = cell[first], cell[first], first
        here, begin = -1, 0
        for i in range(first, last if back else stop):
            if cell[i] >= cell[stop - 1] + TAPS:
                break
            if cell[i] > here:
                here = cell[i]
                begin = _around(here, sources_end, nodes, points, cell, sources, slot, grid, state, p)
            lattice_weights(points[_START, i], points[_GROWTH, i], p)
            w, wv, wu, wvu = _read(p, grid, slots - 1, begin)
            if back:
                u, v, part = points[_PLACE, i], documents[VALUE, i], documents[PART, i]
                gradient[i] += u * (v * w - wv) - (v * wu - wvu)
                for upper in range(2 if part > 0.0 else 1):
                    k = node[i] + upper
                    below, below_v, _, _ = _read(p, grid, k, begin)
                    bend = 2.0 * (nodes[k] * below - below_v) - (nodes[k] * w - wv)
                    curvature[i] += max(bend, 0.0) * (part if upper else 1.0 - part)
            else:
                mean, k = wv / w, 0
                while k < slots - 1 and nodes[k] < mean:
                    k += 1
                anchors[WEIGHT, i], anchors[VALUE, i], anchors[PART, i], rank[i] = weight[i] / w, mean, 0.0, k
                value += weight[i] * mean
                gradient[i] -= weight[i] * (wvu - mean * wu) / w
                if k > 0:  # the part above the mean equals the part below
                    below, below_v, _, _ = _read(p, grid, k - 1, begin)
                    curvature[i] += 2.0 * weight[i] * max(mean * below - below_v, 0.0) / w
    return value


@inline
def _around(
    here: int, stop: int, nodes: Float64Array, points: Float64Array, cell: Int64Array, sources: Float64Array,
    slot: Int64Array, grid: Float64Array, state: Int64Array, p: Float64Array,
) -> int:  # fmt: skip
    """Move the lattice to the point `here` of the next document, and add every source before `stop` that reaches it.

    Documents of a run are visited in order, so sources that are not added yet do not lie before `here`.

    Returns:
        Start of these points' sums in a row of `grid`; row k holds the sums of slots 0 to k.
    """
    if here + 2 * TAPS > state[_BASE] + CELLS:
        keep = max(CELLS - (here - state[_BASE]), 0) * _SUMS
        for k in range(grid.shape[0]):
            for m in range(keep):
                grid[k, m] = grid[k, m + _SUMS * CELLS - keep]
            grid[k, keep:] = 0.0
        state[_BASE] = here
    base, i = state[_BASE], state[_NEXT]
    while i < stop and cell[i] < here + TAPS:
        lattice_weights(points[_START, i], points[_GROWTH, i], p)
        begin, k, part = _SUMS * (cell[i] - base), slot[i], sources[PART, i]
        for upper in range(2 if part > 0.0 else 1):
            w = sources[WEIGHT, i] * (part if upper else 1.0 - part)
            v = nodes[k + upper] if part > 0.0 else sources[VALUE, i]
            _add(p, w, v, points[_PLACE, i], grid, k + upper, begin)
        i += 1
    state[_NEXT] = i
    # No later source reaches these points, so their sums can be cumulated.
    begin, end = _SUMS * (max(state[_DONE], base) - base), _SUMS * (here + TAPS - base)
    if begin < end:
        for k in range(1, grid.shape[0]):
            below, line = grid[k - 1, begin:end], grid[k, begin:end]
            for m in range(end - begin):
                line[m] += below[m]
        state[_DONE] = here + TAPS
    return _SUMS * (here - base)


@inline
def _add(p: Float64Array, w: float, v: float, u: float, grid: Float64Array, k: int, begin: int) -> None:
    line = grid[k, begin : begin + _SUMS * TAPS]
    wv, wu, wvu = w * v, w * u, w * v * u
    for m in range(TAPS):
        line[4 * m] += w * p[m]
        line[4 * m + 1] += wv * p[m]
        line[4 * m + 2] += wu * p[m]
        line[4 * m + 3] += wvu * p[m]


@inline_sums
def _read(p: Float64Array, grid: Float64Array, k: int, begin: int) -> tuple[float, float, float, float]:
    line = grid[k, begin : begin + _SUMS * TAPS]
    w, wv, wu, wvu = 0.0, 0.0, 0.0, 0.0
    for m in range(TAPS):
        w += p[m] * line[4 * m]
        wv += p[m] * line[4 * m + 1]
        wu += p[m] * line[4 * m + 2]
        wvu += p[m] * line[4 * m + 3]
    return w, wv, wu, wvu
