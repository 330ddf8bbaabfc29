"""Sums of Gaussians of differences in near-linear time, where each Gaussian is a sum of products on
a lattice.

    exp(-(u - u')^2) (1 + r) = sum_m p_m(u) p_m(u'),   p_m(u) = sqrt(2 h / sqrt(pi)) exp(-2 (u - m
    h)^2)

with |r| < 2.01 exp(-(pi / 2h)^2) for all u and u'. This is the trapezoidal rule with step h for
exp(-4 (y - (u + u') / 2)^2). All terms are positive and the error is relative for each pair, at any
distance. A document uses only the `TAPS` points around it; the truncated part is at most exp(-(TAPS
h)^2 / 2), for a pair TAPS h / 2 apart.

`gauss_gradient`, for SmoothNDCG, computes Gaussian averages over one sorted list and their
gradients.

    sum_i w_i e_ij v_i,   e_ij = exp(-(u_i - u_j)^2)      for every anchor j

Each document adds p_m(u_i) to the points around it and reads its sum from them, so nothing cancels,
and distant documents keep their small weights, however many there are. The truncation changes an
average by 2e-11 with 100,000 documents at the worst distance. The difference of two positions is
e_ij u_i - u_j e_ij, with positions relative to the first document of a run, so it is exactly 0 if
all are tied.

An absolute difference |v_i - c_j| is not a product, but sums of it follow from sums by value.
Documents are in slots of ascending value. The slots are cumulated after the last document that
reaches a point; two numbers then give the part below c_j. The lattice moves along the list and has
`CELLS` points, however wide the list is.

`gaussian_rank_changes`, for StochasticRank, computes how a metric changes as one document moves
past the others.

    F_a = sum_{q < a} drop_q (g_a - g_q) e_aq + sum_{q > a} drop_(q-1) (g_a - g_q) e_aq,
    e_aq = exp(-(x_q - c_a)^2 / (2 v))

over documents by descending x. A document is at x_a, its Gaussian is centred at c_a, and the weight
of another document depends on which of the two comes first. So on the way down the list, and also
on the way up, every document reads the lattice with the documents before it, and then adds itself.
With u = x / sqrt(2 v) that is the lattice above.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.jit import allocates, inline, inline_sums

STEP = 0.3
"""The step h of the lattice, for which r is below 3e-12."""
TAPS = 28
"""The number of points of a document, of which the middle two are the ends of its cell."""
HALF = TAPS // 2 - 1
"""The number of these points before the first point of the document's cell."""

# Part of p_m that does not depend on u.
_SHAPE = np.array(
    [
        math.sqrt(2.0 * STEP / math.sqrt(math.pi)) * math.exp(-2.0 * (STEP * m) ** 2)
        for m in range(TAPS)
    ]
)


@inline
def lattice_factors(a: float) -> tuple[float, float]:
    """Return the two numbers that determine every p_m of a document at distance a from its first
    point.
    """
    return math.exp(-2.0 * a * a), math.exp(4.0 * STEP * a)


@inline_sums
def lattice_weights(start: float, growth: float, p: Float64Array) -> None:
    """Write p_m for the points of a document from its `lattice_factors`."""
    # p_m = start growth^m SHAPE_m; four powers at a time.
    square = growth * growth
    fourth = square * square
    p[0], p[1], p[2], p[3] = start, start * growth, start * square, start * growth * square
    for m in range(4, TAPS):
        p[m] = p[m - 4] * fourth
    for m in range(TAPS):
        p[m] *= _SHAPE[m]


CELLS = 160  # at least 2 TAPS; more of them mean fewer moves
SLOTS = 8
"""The maximum number of slots."""
WEIGHT, VALUE, PART = 0, 1, 2
"""The rows of sources: w, v, and the share of the upper slot if v is a mixture of the values of two
slots.
"""
ROOM, IROOM = 6, 2
"""The numbers of floats and integers per document that `gauss_gradient` needs."""
MEANS = 4
"""The row of its floats in which it leaves c."""

# Rows of points: u, and its `lattice_factors`.
_PLACE, _START, _GROWTH = 0, 1, 2
# Sums at a lattice point, by slot: w, w v, w u, w v u.
_SUMS = 4
# First point of the lattice, first point whose sums are not cumulated, next source.
_BASE, _DONE, _NEXT = 0, 1, 2


@inline
@allocates
def gauss_gradient(
    s: Float64Array,
    first: int,
    last: int,
    stop: int,
    unit: float,
    weight: Float64Array,
    documents: Float64Array,
    node: Int64Array,
    nodes: Float64Array,
    gradient: Float64Array,
    curvature: Float64Array,
    work: Float64Array,
    iwork: Int64Array,
) -> float:
    """Return J = sum_j weight_j c_j, c_j = sum_i h_ij v_i, for a run of documents; add its gradient
    and curvature.

    With places u = -s unit and h_ij = e_ij / sum_m e_mj, document i gets

        gradient      sum_j weight_j h_ij (u_i - u_j) (v_i - c_j) - weight_i sum_m h_mi (v_m - c_i)
        u_m curvature  sum_j weight_j h_ij |v_i - c_j| + weight_i sum_m h_mi |v_m - c_i|

    Args:
        s: float64[n], descending.
        first, last, stop: the run is from `first` to before `last`, and its anchors end before
            `stop`.
        unit: factor from s to u.
        documents: float64[3, n]: 1, the value v, and the share of the upper node in v.
        node: int64[n], the node equal to v, or the lower node of its mixture.
        nodes: float64[slots], ascending. In |v - c| a mixture counts as its two nodes.
        work, iwork: float64[ROOM n], int64[IROOM n], overwritten; row `MEANS` of work keeps c of
            the anchors.
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
    # First the averages around every anchor, from the documents; then the gradient on every
    # document, from the anchors.
    for back in range(2):
        sources, slot, sources_end = (anchors, rank, stop) if back else (documents, node, last)
        grid[:] = 0.0
        state[_BASE], state[_DONE], state[_NEXT] = cell[first], cell[first], first
        centre, begin = -1, 0
        visited_end = last if back else stop
        for i in range(first, visited_end):
            if cell[i] >= cell[stop - 1] + TAPS:
                break
            if cell[i] > centre:
                centre = cell[i]
                begin = _around(
                    centre, sources_end, nodes, points, cell, sources, slot, grid, state, p
                )
            lattice_weights(points[_START, i], points[_GROWTH, i], p)
            w, wv, wu, wvu = _read(p, grid, slots - 1, begin)
            if back:
                u, v, part = points[_PLACE, i], documents[VALUE, i], documents[PART, i]
                gradient[i] += u * (v * w - wv) - (v * wu - wvu)
                node_count = 2 if part > 0.0 else 1
                for upper in range(node_count):
                    k = node[i] + upper
                    below, below_v, _, _ = _read(p, grid, k, begin)
                    bend = 2.0 * (nodes[k] * below - below_v) - (nodes[k] * w - wv)
                    curvature[i] += max(bend, 0.0) * (part if upper else 1.0 - part)
            else:
                mean, k = wv / w, 0
                while k < slots - 1 and nodes[k] < mean:
                    k += 1
                anchors[WEIGHT, i], anchors[VALUE, i], anchors[PART, i], rank[i] = (
                    weight[i] / w,
                    mean,
                    0.0,
                    k,
                )
                value += weight[i] * mean
                gradient[i] -= weight[i] * (wvu - mean * wu) / w
                if k > 0:  # the part above the mean equals the part below
                    below, below_v, _, _ = _read(p, grid, k - 1, begin)
                    curvature[i] += 2.0 * weight[i] * max(mean * below - below_v, 0.0) / w
    return value


@inline
def _around(
    centre: int,
    stop: int,
    nodes: Float64Array,
    points: Float64Array,
    cell: Int64Array,
    sources: Float64Array,
    slot: Int64Array,
    grid: Float64Array,
    state: Int64Array,
    p: Float64Array,
) -> int:
    """Move the lattice to the point `centre` of the next document, and add every source before
    `stop` that reaches it.

    The documents of a run are visited in order, so sources that have not been added are not before
    `centre`. Row k of `grid` then contains the sums of slots 0 to k. Return where the sums of the
    document's points start in a row.
    """
    if centre + 2 * TAPS > state[_BASE] + CELLS:
        keep = max(CELLS - (centre - state[_BASE]), 0) * _SUMS
        for k in range(grid.shape[0]):
            for m in range(keep):
                grid[k, m] = grid[k, m + _SUMS * CELLS - keep]
            grid[k, keep:] = 0.0
        state[_BASE] = centre
    base, i = state[_BASE], state[_NEXT]
    while i < stop and cell[i] < centre + TAPS:
        lattice_weights(points[_START, i], points[_GROWTH, i], p)
        begin, k, part = _SUMS * (cell[i] - base), slot[i], sources[PART, i]
        node_count = 2 if part > 0.0 else 1
        for upper in range(node_count):
            w = sources[WEIGHT, i] * (part if upper else 1.0 - part)
            v = nodes[k + upper] if part > 0.0 else sources[VALUE, i]
            _add(p, w, v, points[_PLACE, i], grid, k + upper, begin)
        i += 1
    state[_NEXT] = i
    # No later source reaches these points, so their sums can be cumulated.
    begin, end = _SUMS * (max(state[_DONE], base) - base), _SUMS * (centre + TAPS - base)
    if begin < end:
        for k in range(1, grid.shape[0]):
            below, line = grid[k - 1, begin:end], grid[k, begin:end]
            for m in range(end - begin):
                line[m] += below[m]
        state[_DONE] = centre + TAPS
    return _SUMS * (centre - base)


@inline
def _add(
    p: Float64Array, w: float, v: float, u: float, grid: Float64Array, k: int, begin: int
) -> None:
    line = grid[k, begin : begin + _SUMS * TAPS]
    wv, wu, wvu = w * v, w * u, w * v * u
    for m in range(TAPS):
        line[4 * m] += w * p[m]
        line[4 * m + 1] += wv * p[m]
        line[4 * m + 2] += wu * p[m]
        line[4 * m + 3] += wvu * p[m]


@inline_sums
def _read(
    p: Float64Array, grid: Float64Array, k: int, begin: int
) -> tuple[float, float, float, float]:
    line = grid[k, begin : begin + _SUMS * TAPS]
    w, wv, wu, wvu = 0.0, 0.0, 0.0, 0.0
    for m in range(TAPS):
        w += p[m] * line[4 * m]
        wv += p[m] * line[4 * m + 1]
        wu += p[m] * line[4 * m + 2]
        wvu += p[m] * line[4 * m + 3]
    return w, wv, wu, wvu


_REACH = 64  # cells around a document that the lattice covers; noise never exceeds 40
_SPAN = 512  # cells of the lattice; more of them mean fewer moves
_GAP = 1.5 * _REACH * STEP  # gap in u across which Gaussians are negligible


@inline
@allocates
def gaussian_rank_changes(
    x: Float64Array,
    centre: Float64Array,
    deviation: float,
    gains: Float64Array,
    drop: Float64Array,
    out: Float64Array,
) -> None:
    """Write F of every document, multiplied by the factor of the density, to `out`.

    All arrays are float64[n]; `centre`, c, is within 16 deviations (sqrt v) of x.
    """
    grid, p = np.empty((2, _SPAN)), np.empty(TAPS)
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
    """Go down the list (side 1) or up (side -1) with ascending u; each document reads the lattice,
    then is added.
    """
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
        if cell + _REACH > base + _SPAN:
            shift = cell - _REACH - base
            keep = max(_SPAN - shift, 0)
            for m in range(keep):
                grid[0, m], grid[1, m] = grid[0, m + shift], grid[1, m + shift]
            grid[:, keep:] = 0.0
            base += shift
        seen = start + side * (first - centre[a]) * unit
        at = math.floor(seen / STEP)
        factor, growth = lattice_factors(seen - (at - HALF) * STEP)
        lattice_weights(factor, growth, p)
        # The bounds are never reached; they keep memory safe.
        begin = max(0, min(int(at) - HALF - base, _SPAN - TAPS))
        out[a] += _read_change(
            p, gains[a], grid[0, begin : begin + TAPS], grid[1, begin : begin + TAPS]
        )
        step_row = a if side > 0.0 else a - 1
        if step_row >= 0 and drop[step_row] != 0.0:
            factor, growth = lattice_factors(u - (cell - HALF) * STEP)
            lattice_weights(factor, growth, p)
            begin = max(0, min(cell - HALF - base, _SPAN - TAPS))
            _add_change(
                p,
                drop[step_row],
                gains[a],
                grid[0, begin : begin + TAPS],
                grid[1, begin : begin + TAPS],
            )


@inline_sums
def _read_change(p: Float64Array, gain: float, weights: Float64Array, gains: Float64Array) -> float:
    total, taken = 0.0, 0.0
    for m in range(p.shape[0]):
        total += p[m] * weights[m]
        taken += p[m] * gains[m]
    return gain * total - taken


@inline_sums
def _add_change(
    p: Float64Array, weight: float, gain: float, weights: Float64Array, gains: Float64Array
) -> None:
    for m in range(p.shape[0]):
        share = weight * p[m]
        weights[m] += share
        gains[m] += gain * share
