"""The pair weights of LambdaRank and LambdaLoss in near-linear time, as one sum over gains, ranks
and scores.

    F_i  = sum_j |g_i - g_j| W_ij f(|s_i - s_j|)
    W_ij = by_rank |d(i) - d(j)| + by_delta delta(|i - j|)

over documents by descending score, d the discount of a rank and delta(m) = d(m) - d(m + 1). Three
things make it fast:

* f is a polynomial in t = exp(-alpha |s_i - s_j|), as in `kernels.expsum`, and the sign of d(i) -
  d(j) is known.
* delta is a mixture of powers z^m (it is completely monotone). Beyond the nearest ranks, it is
  fitted by least squares with a few powers on a geometric grid and a constant
  (`qa.kernel_tables`). A power of t times a power of z is again one factor per document: running
  sums in rows, the powers of t, and columns, which are 1, d and the powers of z.
* documents are grouped in tiles. The caller computes the pairs within a tile and between
  neighbouring tiles. All other pairs take part in the running sums, which are moved and passed
  between grades once per tile. A document adds to the sums of its own grade and reads those of all
  grades, weighted by the difference of the gains.

Error of delta, summed over the ranks and relative to their sum: 4e-7 up to 4,096 documents, 8e-9 up
to 2^20. Work: n rows (columns + grades^2 columns /
tile).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import (
    CURVATURE_FAR,
    CURVATURE_NEAR,
    CURVATURE_NEARER,
    CURVATURE_RATE,
    FADED,
    NOTHING,
)
from boostrank.kernels.intrinsics import WIDE, add_outer, inner
from boostrank.kernels.jit import allocates, inline, inline_sums
from boostrank.kernels.primitives import LARGEST_LOSS
from boostrank.kernels.tables import TABLES

TILE = 32
"""The number of documents that move together."""
ONE, DISCOUNT, FIRST_NODE = 0, 1, 2
"""The columns: 1, d, then the nodes."""
_FAR, _NEAR, _NEARER, _WRONG = range(4)
"""Rows of sums: the curvature's, that for misordered pairs; then the powers of t."""
_T = 3
"""The first power of t in a ladder, after the factors of the curvature."""

# Coefficients of t, t^2, ..., as in `expsum`.
_SIGMOID, _SOFTPLUS = TABLES["far sigmoid"], TABLES["far softplus"]

LENGTHS = (4096, 1 << 20)
COLUMNS = (WIDE, 2 * WIDE)
_RATES, _WEIGHTS = TABLES["rank drop rates"], TABLES["rank drop weights"]
"""The rates -ln z and the weights of delta as a sum of powers, one row for each of LENGTHS."""


class RankedList(NamedTuple):
    """The documents of a query by descending score.

    Args:
        scores, gains, discounts: float64[n], gains over the ideal DCG, and d of the ranks.
        grade, grade_gains: int64[n], index of each document's gain in float64[grades].
    """

    scores: Float64Array
    gains: Float64Array
    discounts: Float64Array
    grade: Int64Array
    grade_gains: Float64Array


class PairWeights(NamedTuple):
    """The factors of W, and the sharpness alpha of the loss of a pair."""

    alpha: float
    by_rank: float
    by_delta: float


@inline
def find_table_row(n: int) -> int:
    """Return the row of the tables that is used for a list of n documents."""
    return 0 if n <= LENGTHS[0] else 1


@inline
@allocates
def add_far_pairs(
    ranked: RankedList,
    pairs: PairWeights,
    blend: float,
    with_loss: bool,
    grad: Float64Array,
    hess: Float64Array,
) -> float:
    """Add the gradients and curvature bounds of all pairs except those within a tile or in
    neighbouring tiles.

    With w = |g_i - g_j| W_ij, u = alpha (s_i - s_j) and i of higher gain, a pair pulls with alpha w
    / (1 + e^u), its curvature is alpha^2 w times the bound of `expsum.CURVATURE`, and it costs w
    ln(1 + e^-u).

    Args:
        blend: blend of the training discount.

    Returns:
        The loss of these pairs, or 0 without `with_loss`.
    """
    n, loss = ranked.scores.shape[0], 0.0
    row = find_table_row(n)
    columns = COLUMNS[row]
    # Weight of each column in W, and z^m for each rank difference m within reach.
    column_weights, node_powers = np.empty(columns), np.empty((2 * TILE + 1, columns))
    for a in range(columns):
        column_weights[a] = (1.0 - blend) * pairs.by_delta * _WEIGHTS[row, a]
        for m in range(2 * TILE + 1):
            node_powers[m, a] = math.exp(-m * _RATES[row, a])
    column_weights[ONE] += blend * pairs.by_delta / n
    for side in (1.0, -1.0):
        # Both sides meet every pair, but its loss counts once.
        costs = _SOFTPLUS if with_loss and side > 0.0 else _SOFTPLUS[:0]
        loss += _pass(side, ranked, pairs, costs, column_weights, node_powers, grad, hess)
    return loss


@inline_sums
@allocates
def _pass(
    side: float,
    ranked: RankedList,
    pairs: PairWeights,
    softplus: Float64Array,
    column_weights: Float64Array,
    node_powers: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
) -> float:
    """Add the effect of documents that are far above (side 1) or far below (side -1), and return
    the loss.

    For side -1, the list is read upside down, with scores, gains and discounts negated. The sums of
    a grade have the rows of `ladder` and the row `_WRONG` for the pull of misordered pairs, which
    does not depend on scores. The last row, the distance of misordered pairs, is used only for the
    loss.
    """
    s, d, grade, grade_gains = ranked.scores, ranked.discounts, ranked.grade, ranked.grade_gains
    alpha, by_rank = pairs.alpha, pairs.by_rank
    n, grades, columns = s.shape[0], grade_gains.shape[0], column_weights.shape[0]
    with_loss = softplus.shape[0] > 0
    rungs = _T + _SIGMOID.shape[0]
    rows = rungs + 1 if with_loss else rungs
    tile_sums, sums = np.empty((grades, rows * columns)), np.zeros((grades, (1 + rows) * columns))
    ladder, row_factors, document = np.empty(rungs + 1), np.empty(1 + rungs), np.empty(columns)
    costs, loss = np.ones(1 + rows), 0.0
    tiles = (n + TILE - 1) // TILE
    # Tiles are the same upside down, where the partial one comes first.
    bottom = tiles * TILE - 1
    last_reference = 0.0
    for tile in range(2, tiles):
        # The tile before last joins the sums, which are then relative to its last document.
        start = (tile - 2) * TILE
        end = start + TILE - 1
        reference = side * s[end if side > 0.0 else bottom - end]
        if tile > 2:
            _climb(alpha * (last_reference - reference), ladder)
            for c in range(grades):
                _move(with_loss, ladder, node_powers[TILE], sums[c])
        last_reference = reference
        tile_sums[:] = 0.0
        for k in range(start, end + 1):
            i = k if side > 0.0 else bottom - k
            if i < n:
                powers = node_powers[end - k]
                for a in range(columns):
                    document[a] = side * d[i] if a == DISCOUNT else powers[a]
                _climb(alpha * (side * s[i] - reference), ladder)
                for first_column in range(0, columns, WIDE):
                    add_outer(tile_sums[grade[i]], first_column, columns, ladder[:rows], document)
        # Distribute the tile's sums to all grades, by the differences of the gains.
        for c in range(grades):
            for a in range(grades):
                gap = side * (grade_gains[a] - grade_gains[c])
                if gap != 0.0:
                    _mix(with_loss, columns, max(gap, 0.0), abs(gap), tile_sums[c], sums[a])
        # Read the sums for the documents of this tile.
        for k in range(tile * TILE, (tile + 1) * TILE):
            i = k if side > 0.0 else bottom - k
            if i < n:
                powers, shift = node_powers[k - end], by_rank * side * d[i]
                for a in range(columns):
                    document[a] = (
                        by_rank
                        if a == DISCOUNT
                        else powers[a] * column_weights[a] - (shift if a == ONE else 0.0)
                    )
                _climb(alpha * (reference - side * s[i]), ladder)
                row_factors[_FAR] = CURVATURE_FAR
                row_factors[_NEAR] = CURVATURE_NEAR * ladder[_NEAR]
                row_factors[_NEARER] = CURVATURE_NEARER * ladder[_NEARER]
                row_factors[_WRONG] = -1.0
                for term in range(_SIGMOID.shape[0]):
                    row_factors[_WRONG + 1 + term] = _SIGMOID[term] * ladder[_T + term]
                grade_sums, pull, curvature = sums[grade[i]], 0.0, 0.0
                stop = row_factors.shape[0]
                for first_column in range(0, columns, WIDE):
                    curvature += inner(
                        grade_sums, first_column, columns, row_factors, 0, _WRONG, document
                    )
                    pull += inner(
                        grade_sums, first_column, columns, row_factors, _WRONG, stop, document
                    )
                grad[i] += side * alpha * pull
                hess[i] += alpha * alpha * curvature
                if with_loss:
                    # A misordered pair costs u + ln(1 + e^-u), with u measured through `reference`.
                    costs[_WRONG] = ladder[rungs]
                    for term in range(softplus.shape[0]):
                        costs[_WRONG + 1 + term] = softplus[term] * ladder[_T + term]
                    stop = costs.shape[0]
                    for first_column in range(0, columns, WIDE):
                        loss += inner(
                            grade_sums, first_column, columns, costs, _WRONG, stop, document
                        )
    return loss


@inline_sums
def _climb(gap: float, ladder: Float64Array) -> None:
    """Write the factors for a distance: 1, the curvature's two powers, then t, t^2, ..., and the
    distance itself.
    """
    root = math.exp(-CURVATURE_RATE * gap)
    root = 0.0 if root < NOTHING else root
    fourth = root * root * root * root
    t = fourth * fourth * fourth * fourth
    t = 0.0 if t < NOTHING else t
    ladder[_FAR], ladder[_NEAR], ladder[_NEARER], ladder[_T] = 1.0, root, fourth, t
    power = t
    last = ladder.shape[0] - 1
    for rung in range(_T + 1, last):
        power *= t
        ladder[rung] = power
    ladder[last] = min(gap, LARGEST_LOSS)


@inline_sums
def _move(
    with_loss: bool, ladder: Float64Array, node_powers: Float64Array, sums: Float64Array
) -> None:
    """Move the sums of a grade down by the ladder's distance and one tile."""
    columns, last = node_powers.shape[0], ladder.shape[0]
    if with_loss:  # earlier documents move farther away
        wrong, apart = sums[_WRONG * columns : (_WRONG + 1) * columns], sums[last * columns :]
        for a in range(columns):
            apart[a] = (apart[a] + ladder[last - 1] * wrong[a]) * node_powers[a]
    for k in range(last):
        rung = k
        if k == _WRONG:
            rung = 0
        elif k > _WRONG:
            rung = k - 1
        power, row = ladder[rung], sums[k * columns : (k + 1) * columns]
        for a in range(columns):
            moved = row[a] * (power * node_powers[a])
            row[a] = 0.0 if abs(moved) < FADED else moved


@inline_sums
def _mix(
    with_loss: bool,
    columns: int,
    wrong: float,
    apart: float,
    tile_sums: Float64Array,
    sums: Float64Array,
) -> None:
    """Add a tile's sums of one grade to those of another, `apart` in gain; `wrong` is that or 0."""
    begin, end = _WRONG * columns, tile_sums.shape[0] - (columns if with_loss else 0)
    for e in range(begin):
        sums[e] += apart * tile_sums[e]
    wrong_row, sums_below = sums[begin : begin + columns], sums[begin + columns :]
    tile_sums_below = tile_sums[begin:end]
    for a in range(columns):
        wrong_row[a] += wrong * tile_sums[a]
    for e in range(tile_sums_below.shape[0]):
        sums_below[e] += apart * tile_sums_below[e]
    for e in range(end, tile_sums.shape[0]):
        sums[columns + e] += wrong * tile_sums[e]
