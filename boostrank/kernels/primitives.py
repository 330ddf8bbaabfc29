"""Scalar functions and the sort that kernels share. All are defined for every finite argument.

Ranks are 1-based (`rank`), positions 0-based (`pos`).
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.jit import inline

LN2 = math.log(2.0)
_RUN = 24  # below this, insertion beats merging (measured on lists of 20 to 1,000 documents)


@inline
def expit(t: float) -> float:
    """1 / (1 + e^-t) without overflow."""
    if t >= 0.0:
        return 1.0 / (1.0 + math.exp(-t))
    z = math.exp(t)
    return z / (1.0 + z)


@inline
def softplus(t: float) -> float:
    """ln(1 + e^t) without overflow."""
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@inline
def fast_exp(t: float) -> float:
    """e^t for -700 <= t <= 0 by arithmetic alone, so that loops over it use SIMD; relative error below 2e-12.

    A polynomial of degree 10 in t / 4096, squared twelve times.
    """
    y = t / 4096.0
    e = 1.0 + y / 5.0 * (1.0 + y / 6.0 * (1.0 + y / 7.0 * (1.0 + y / 8.0 * (1.0 + y / 9.0 * (1.0 + y / 10.0)))))
    e = 1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0 * (1.0 + y / 4.0 * e)))
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return e * e


@inline
def tanh_over(u: float, tanh: float) -> float:
    """tanh(u/2) / (2u) for u >= 0, given tanh(u/2): the Jaakkola-Jordan curvature that majorises ln(1 + e^u).

    A series near 0, where the quotient would lose digits; the limit is 1/4.
    """
    v = 0.25 * u * u
    series = 0.25 * (1.0 - v * (1.0 / 3.0 - v * (2.0 / 15.0 - v * (17.0 / 315.0))))
    quotient = tanh / (2.0 * max(u, 0.05))
    return series if u < 0.05 else quotient


@inline
def discount(rank: float, blend: float, n: int) -> float:
    """Training discount of a 1-based, possibly fractional rank >= 1 in a list of n documents.

    (1 - blend) / log2(1 + rank) + blend * (1 - (rank - 1) / n): blend 0 is the log discount of DCG, 1 the linear
    one; both are 1 at rank 1. The linear part is not clipped: a smoothed hinge's rank can exceed n + 1, the discount
    is then negative, and its slope, which is what trains, stays -1/n.
    """
    value = 0.0
    if blend < 1.0:
        value += (1.0 - blend) / math.log2(1.0 + rank)
    if blend > 0.0:
        value += blend * (1.0 - (rank - 1.0) / n)
    return value


@inline
def discount_slope(rank: float, blend: float, n: int) -> float:
    """Derivative of `discount` with respect to the rank; negative."""
    value = 0.0
    if blend < 1.0:
        log = math.log1p(rank)
        value -= (1.0 - blend) * LN2 / ((1.0 + rank) * log * log)
    if blend > 0.0:
        value -= blend / n
    return value


@inline
def ideal_dcg(query_const: Float64Array, blend: float) -> float:
    """Z at a training discount, from the two columns that `default_constants` computes."""
    return (1.0 - blend) * query_const[0] + blend * query_const[1]


@inline
def gather(values: Float64Array, order: Int64Array, out: Float64Array) -> None:
    """out[pos] = values[order[pos]]."""
    for pos in range(order.shape[0]):
        out[pos] = values[order[pos]]


@inline
def scatter(values: Float64Array, order: Int64Array, out: Float64Array) -> None:
    """out[order[pos]] = values[pos]."""
    for pos in range(order.shape[0]):
        out[order[pos]] = values[pos]


@inline
def _before(scores: Float64Array, i: int, j: int) -> bool:
    # Strict order: higher score first, then input order, so that the result never depends on the algorithm.
    return scores[i] > scores[j] or (scores[i] == scores[j] and i < j)


@inline
def sort_descending(scores: Float64Array, order: Int64Array, spare: Int64Array) -> None:
    """Fill `order` with the positions of documents by descending score; ties keep input order.

    Runs sorted by insertion, then merged: O(n log n), no allocation.

    Args:
        scores: float64[n], finite.
        order: int64[n], written.
        spare: int64[n], overwritten.
    """
    n = scores.shape[0]
    for start in range(0, n, _RUN):
        stop = min(start + _RUN, n)
        order[start] = start
        for i in range(start + 1, stop):
            j = i
            while j > start and scores[i] > scores[order[j - 1]]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    width = _RUN
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for out in range(low, high):
                if i < middle and (j >= high or not _before(scores, order[j], order[i])):
                    spare[out] = order[i]
                    i += 1
                else:
                    spare[out] = order[j]
                    j += 1
        for i in range(n):
            order[i] = spare[i]
        width *= 2
