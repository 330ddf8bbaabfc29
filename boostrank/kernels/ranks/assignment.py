"""Linear assignment of documents to the first k ranks, solved exactly."""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.runtime.jit import inline


@inline
def best_assignment(
    a: Float64Array, d: Float64Array, s: Float64Array, g: Float64Array, rank_of: Int64Array, before: Int64Array,
    done: Int64Array, price: Float64Array, reach: Float64Array, bid: Float64Array,
) -> None:  # fmt: skip
    """Assign a document to each of k ranks so that sum_r (a_r s_c(r) - d_r g_c(r)) is largest.

    Shortest augmenting paths with dual prices: O(k^2 m) for m documents. Source: Jonker, Volgenant, "A shortest
    augmenting path algorithm for dense and sparse linear assignment problems", Computing 38 (1987), without its
    initialisation; Crouse 2016 for k < m.

    Args:
        a, d: float64[k], factors of the ranks.
        s, g: float64[m], scores and gains of the documents, m >= k.
        rank_of: int64[m], written: the 0-based rank of each document, -1 without one.
        before, done: int64[m], overwritten.
        price, reach: float64[m], overwritten.
        bid: float64[k], overwritten.
    """
    m = s.shape[0]
    for c in range(m):
        rank_of[c] = -1
        price[c] = 0.0
    for new in range(a.shape[0]):
        bid[new] = 0.0
        for c in range(m):
            reach[c] = math.inf
            done[c] = 0
        row, last = new, -1
        # Dijkstra over reduced costs, from the new rank to the nearest free document.
        while row >= 0:
            step, nearest = math.inf, -1
            for c in range(m):
                if done[c] == 0:
                    cost = d[row] * g[c] - a[row] * s[c] - bid[row] - price[c]
                    if cost < reach[c]:
                        reach[c] = cost
                        before[c] = last
                    if reach[c] < step:
                        step, nearest = reach[c], c
            bid[new] += step
            for c in range(m):
                if done[c] == 0:
                    reach[c] -= step
                else:
                    bid[rank_of[c]] += step
                    price[c] -= step
            done[nearest] = 1
            last, row = nearest, rank_of[nearest]
        # Every document on the path takes the rank of its predecessor.
        while last >= 0:
            previous = before[last]
            rank_of[last] = rank_of[previous] if previous >= 0 else new
            last = previous
