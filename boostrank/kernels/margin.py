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
from typing import Any

import numpy as np

from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.jit import inline
from boostrank.kernels.objective import Query
from boostrank.kernels.primitives import bounded

MARGIN_SCRATCH = "grade count total squares"
"""The scratch rows that `margin_pairs` needs."""

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
        grades[a:b, 0], counts[q, 0] = grade, distinct.size
    return grades, counts


@inline
def margin_pairs(
    query: Query, margin: float, squared: bool, grad: Float64Array, hess: Float64Array, scratch: Any
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
    s, grade, count, total, squares = (
        query.scores,
        scratch.grade,
        scratch.count,
        scratch.total,
        scratch.squares,
    )
    grades = int(query.query_const[0])
    for pos in range(n):
        grade[pos] = query.doc_const[query.order[pos], 0]
    value = 0.0
    for side in range(2):
        # First the better document of each pair, from the top; then the worse one, from the bottom.
        sign = 1.0 if side == 0 else -1.0
        for k in range(grades):
            count[k] = 0.0
            total[k] = 0.0
            squares[k] = 0.0
        entered, last, reference = 0, 0, s[0] if side == 0 else s[n - 1]
        for step in range(n):
            pos = step if side == 0 else n - 1 - step
            # Sums of differences relative to `reference`, moved along so that distant documents do
            # not swallow the digits of near ones.
            if _NODES * (step - last) >= grades and s[pos] != reference:
                _move(count[:grades], total, squares, sign * (reference - s[pos]))
                last, reference = step, s[pos]
            while entered < n:
                other = entered if side == 0 else n - 1 - entered
                if not sign * (s[pos] - s[other]) < margin:
                    break
                k = int(grade[other]) if side == 0 else grades - 1 - int(grade[other])
                _add(count, total, squares, k, grades, bounded(sign * (s[other] - reference)))
                entered += 1
            k = int(grade[pos]) if side == 0 else grades - 1 - int(grade[pos])
            pairs, sums, square_sums = _below(count, total, squares, k)
            # Each of these pairs misses its margin by `lack` plus the other document's distance
            # beyond `reference`.
            lack = margin + bounded(sign * (reference - s[pos]))
            short = bounded(pairs * lack + sums)
            if side == 0:
                grad[pos] = -(short if squared else pairs)
                hess[pos] = pairs
                value += 0.5 * (lack * (short + sums) + square_sums) if squared else short
            else:
                grad[pos] += short if squared else pairs
                hess[pos] += pairs
    if not squared:
        for pos in range(n):
            hess[pos] /= margin
    return bounded(value)


@inline
def _move(count: Float64Array, total: Float64Array, squares: Float64Array, gap: float) -> None:
    """Move all documents in the trees away by the distance `gap`."""
    for k in range(count.shape[0]):
        if count[k] > 0.0:
            squares[k] += gap * (2.0 * total[k] + count[k] * gap)
            total[k] += count[k] * gap


@inline
def _add(
    count: Float64Array, total: Float64Array, squares: Float64Array, k: int, size: int, score: float
) -> None:
    """Add a document of grade k to the Fenwick trees."""
    node = k + 1
    while node <= size:
        count[node - 1] += 1.0
        total[node - 1] += score
        squares[node - 1] += score * score
        node += node & -node


@inline
def _below(
    count: Float64Array, total: Float64Array, squares: Float64Array, k: int
) -> tuple[float, float, float]:
    """Return the number, the sum and the sum of squares of the documents with grades 0 to k - 1."""
    pairs, sums, square_sums = 0.0, 0.0, 0.0
    node = k
    while node > 0:
        pairs += count[node - 1]
        sums += total[node - 1]
        square_sums += squares[node - 1]
        node -= node & -node
    return pairs, sums, square_sums
