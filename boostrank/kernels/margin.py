"""The hinge losses of all pairs in a query, computed in n log n by sums over the documents beyond
the margin.

A sweep visits the documents by descending score. The set of documents that are above the current
one, or less than the margin below it, only grows. Fenwick trees over the gains store these
documents' number and sums of scores and squares, and return them for lower gains. A second sweep
from below does the same for the documents of higher gain.

Source: the counting by sorting of Joachims, "Training linear SVMs in linear time", KDD 2006, with a
tree instead of one sweep per grade, so that real-valued gains cost no more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.jit import inline
from boostrank.kernels.objective import Query, Scratch
from boostrank.kernels.primitives import bounded

MARGIN_SCRATCH = "grade count distance square"
"""The scratch rows that `margin_pairs` needs."""

GRADE, GRADES = 0, 0
"""The columns of a document and of a query in `grade_constants`."""

_NODES = 8  # tree nodes that may be shifted per document


def grade_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return the index of each document's gain among its query's distinct gains, lowest first, and
    their number.
    """
    grades, counts = np.zeros((gains.size, 1)), np.zeros((ptr.size - 1, 1))
    for q, (a, b) in enumerate(pairwise(ptr)):
        distinct, grade = np.unique(gains[a:b], return_inverse=True)
        grades[a:b, GRADE], counts[q, GRADES] = grade, distinct.size
    return grades, counts


class _Trees(NamedTuple):
    """Fenwick trees over the grades: documents, and sums of their distances and of the squares."""

    count: Float64Array
    distance: Float64Array
    square: Float64Array


@inline
def margin_pairs(
    query: Query,
    margin: float,
    squared: bool,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Scratch,
) -> float:
    """Return the sum over pairs with g_i > g_j of max(0, m - (s_i - s_j)), or of half its square if
    `squared`.

    The query has the constants of `grade_constants` and is sorted by descending score. The
    curvature is the number of pairs that violate the margin, which is exact for the square unless a
    pair is exactly on the margin. For the hinge, it is divided by m.
    """
    n = query.scores.size
    if n == 0:
        return 0.0
    s, grade = query.scores, scratch.grade
    trees = _Trees(scratch.count, scratch.distance, scratch.square)
    grades = int(query.query_const[GRADES])
    for pos in range(n):
        grade[pos] = query.doc_const[query.order[pos], GRADE]
    loss = 0.0
    # First the better document of each pair, from the top; then the worse one, from the bottom.
    for side in range(2):
        sign = 1.0 if side == 0 else -1.0
        for k in range(grades):
            trees.count[k] = 0.0
            trees.distance[k] = 0.0
            trees.square[k] = 0.0
        entered, moved_at, reference = 0, 0, s[_from_end(0, n, side)]
        for step in range(n):
            pos = _from_end(step, n, side)
            # Sums of differences relative to `reference`, moved along so that distant documents do
            # not swallow the digits of near ones.
            if _NODES * (step - moved_at) >= grades and s[pos] != reference:
                _move_away(trees, grades, sign * (reference - s[pos]))
                moved_at, reference = step, s[pos]
            # Documents on the wrong side of the margin enter.
            while entered < n:
                other = _from_end(entered, n, side)
                if not sign * (s[pos] - s[other]) < margin:
                    break
                distance = bounded(sign * (s[other] - reference))
                _add_document(trees, _from_end(int(grade[other]), grades, side), grades, distance)
                entered += 1
            pairs, distances, squares = _sum_below(trees, _from_end(int(grade[pos]), grades, side))
            # Each of these pairs misses its margin by `lack` plus the other document's distance
            # beyond `reference`.
            lack = margin + bounded(sign * (reference - s[pos]))
            shortfall = bounded(pairs * lack + distances)
            pull = shortfall if squared else pairs
            if side == 0:
                grad[pos] = -pull
                hess[pos] = pairs
                half_square = 0.5 * (lack * (shortfall + distances) + squares)
                loss += half_square if squared else shortfall
            else:
                grad[pos] += pull
                hess[pos] += pairs
    if not squared:
        for pos in range(n):
            hess[pos] /= margin
    return bounded(loss)


@inline
def _from_end(i: int, count: int, side: int) -> int:
    """Return i on the first side, and as much from the end on the second."""
    return i if side == 0 else count - 1 - i


@inline
def _move_away(trees: _Trees, grades: int, gap: float) -> None:
    """Move all documents in the trees away by the distance `gap`."""
    count, distance, square = trees.count, trees.distance, trees.square
    for k in range(grades):
        if count[k] > 0.0:
            square[k] += gap * (2.0 * distance[k] + count[k] * gap)
            distance[k] += count[k] * gap


@inline
def _add_document(trees: _Trees, grade: int, grades: int, distance: float) -> None:
    node = grade + 1
    while node <= grades:
        trees.count[node - 1] += 1.0
        trees.distance[node - 1] += distance
        trees.square[node - 1] += distance * distance
        node += node & -node


@inline
def _sum_below(trees: _Trees, grade: int) -> tuple[float, float, float]:
    """Return the sums of all three trees over the grades 0 to `grade` - 1."""
    documents, distances, squares = 0.0, 0.0, 0.0
    node = grade
    while node > 0:
        documents += trees.count[node - 1]
        distances += trees.distance[node - 1]
        squares += trees.square[node - 1]
        node -= node & -node
    return documents, distances, squares
