"""Column statistics and row hashes, in one compiled pass over the cells of whole queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.blocks import I2, N1, S1, S2, Int32Array
from boostrank.kernels.runtime.jit import F1, I1, INT, entry_point, inline

# Integer columns of the table `counts`, one row per feature.
(STORED, MISSING, NEGATIVE, FRACTIONS, LIKE_LABEL, UP, DOWN, N_COUNTS) = range(8)
# Columns of `values`, over stored values (neither 0 nor missing); the largest negative value.
LOW, HIGH, HIGH_NEGATIVE, N_VALUES = range(4)

# Queries that a copy of the label may order wrongly: number and share.
PASSES = 2
SHARE = 0.02

_MISSING_BITS = 0x7FC00000
_SEED, _ODD, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT, _HALF = np.uint64(32), np.uint64(29)


@inline
def _finished(h: Any) -> Any:
    h = (h ^ (h >> _SHIFT)) * _OTHER
    return h ^ (h >> _SHIFT)


@inline
def _value(ids: Int32Array, values: Float32Array, begin: int, end: int, feature: int) -> Any:
    """Return the value of a feature in a row with the cells begin to end; missing values are below all numbers."""
    while begin < end:
        middle = (begin + end) // 2
        if ids[middle] < feature:
            begin = middle + 1
        else:
            end = middle
            if ids[middle] == feature:
                value = values[middle]
                return value if value == value else -np.inf
    return 0.0


@inline
def _separates(
    feature: int,
    sign: float,
    first: int,
    last: int,
    order: Int64Array,
    labels: Float64Array,
    ends: Int64Array,
    ids: Int32Array,
    values: Float32Array,
) -> bool:
    """Return whether documents with larger labels have larger (sign -1: smaller) values."""
    below, here = -np.inf, -np.inf
    is_first = True
    for i in range(first, last):
        row = order[i]
        value = sign * _value(ids, values, ends[row - 1] if row > 0 else 0, ends[row], feature)
        if i > first and labels[row] != labels[order[i - 1]]:
            below, is_first = here, False
        if not is_first and value <= below:
            return False
        here = max(here, value)
    return True


with np.errstate(over="ignore"):
    EMPTY = getattr(_finished, "py_func", _finished)(_SEED)  # hash of a row of zeros


@entry_point(INT(I1, I1, F1, I1, N1, S1, N1, INT, I2, S2, types.uint64[::1]))
def add_queries(
    ptr: Int64Array,
    order: Int64Array,
    labels: Float64Array,
    ends: Int64Array,
    ids: Int32Array,
    values: Float32Array,
    bits: Int32Array,
    live: int,
    counts: Int64Array,
    extremes: Float32Array,
    hashes: npt.NDArray[np.uint64],
) -> int:
    """Add whole queries to the totals; return the number of queries so far with different labels.

    Args:
        ptr: query q has rows ptr[q] to ptr[q+1].
        order: rows of each query, sorted by label.
        labels, ends: label of each row, and end of its cells.
        ids, values, bits: nonzero cells, ascending within rows: feature, value, and bits of the value.
        live: result of the previous call, at first 0.
        counts, extremes: tables with one row per feature; features beyond them are only hashed.
        hashes: hash of the cells of each row. Output.
    """
    begin, width = 0, counts.shape[0]
    for row in range(ends.shape[0]):
        h = _SEED
        for i in range(begin, ends[row]):
            j, value = ids[i], values[i]
            word = np.int64(bits[i])
            if value == 0.0:
                continue
            if value != value:
                word = _MISSING_BITS
            if j >= width:
                pass
            elif value != value:
                counts[j, MISSING] += 1
            else:
                counts[j, STORED] += 1
                extremes[j, LOW] = min(extremes[j, LOW], value)
                extremes[j, HIGH] = max(extremes[j, HIGH], value)
                if value < 0.0:
                    counts[j, NEGATIVE] += 1
                    extremes[j, HIGH_NEGATIVE] = max(extremes[j, HIGH_NEGATIVE], value)
                if value != np.floor(value):
                    counts[j, FRACTIONS] += 1
                if value == labels[row]:
                    counts[j, LIKE_LABEL] += 1
            h = (h ^ (np.uint64(j) << _SHIFT) ^ np.uint64(word & 0xFFFFFFFF)) * _ODD
            h ^= h >> _HALF
        hashes[row] = _finished(h)
        begin = ends[row]

    for q in range(ptr.shape[0] - 1):
        a, b = ptr[q], ptr[q + 1]
        if b - a < 2:
            continue
        low, high = order[a], order[b - 1]
        if labels[low] == labels[high]:
            continue
        at, stop = ends[low - 1] if low > 0 else 0, ends[low]
        other, end = ends[high - 1] if high > 0 else 0, ends[high]
        while at < stop or other < end:
            j = min(ids[at] if at < stop else 2**31 - 1, ids[other] if other < end else 2**31 - 1)
            one, two = np.float32(0.0), np.float32(0.0)
            if at < stop and ids[at] == j:
                one = values[at]
                at += 1
            if other < end and ids[other] == j:
                two = values[other]
                other += 1
            if j >= width or live - max(counts[j, UP], counts[j, DOWN]) > PASSES + SHARE * live:
                continue
            if (two > one or (one != one and two == two)) and _separates(
                j, 1.0, a, b, order, labels, ends, ids, values
            ):
                counts[j, UP] += 1
            elif (two < one or (two != two and one == one)) and _separates(
                j, -1.0, a, b, order, labels, ends, ids, values
            ):
                counts[j, DOWN] += 1
        live += 1
    return live
