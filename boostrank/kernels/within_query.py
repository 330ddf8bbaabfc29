"""Features within queries: rank, z-score, min-max, and differences to the largest value and to the
mean of a query's documents.

Each query is computed by one thread, in float64 and in the order of its rows, so the result does
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from boostrank.core.types import Float32Array, Int64Array
from boostrank.kernels.jit import (
    I1,
    INT,
    S2,
    allocates,
    entry_point,
    inline,
    query_blocks,
    run_parallel,
)

KINDS = ("rank", "zscore", "best", "mean", "minmax", "opensearch_zscore")
"""The kinds of features."""
_RANK, _ZSCORE, _BEST, _, _MINMAX, _OPENSEARCH = range(len(KINDS))

_DOCUMENTS_A_BLOCK = 4096
_TOGETHER = 16  # columns processed together: a row of them is one cache line
_LARGEST = float(np.finfo(np.float32).max)
_LEAST = 0.001  # MIN_SCORE of OpenSearch's ZScoreNormalizationTechnique
_SIGN, _ALL = np.uint32(1 << 31), np.uint32(2**32 - 1)
_FEW = 40  # below this, insertion beats counting
_BYTE, _KEY = np.uint64(255), np.uint64(32)
_BITS = np.array([32, 40, 48, 56], np.uint64)  # positions of the bytes of a key


def fill_within_queries(
    features: Float32Array,
    columns: Int64Array,
    kinds: Sequence[str],
    ptr: Int64Array,
    out: Float32Array,
    threads: int = 1,
) -> None:
    """Copy features and append the columns of each kind.

    Missing values (NaN) stay missing and are ignored, and -0 is 0. Mean, deviation and maximum are
    those of the finite values; infinite values stay as they are, and ranks put them at the ends.

    Args:
        features: float32[N, d], C order.
        columns: int64[c], columns to transform.
        kinds: k of `KINDS`. "rank": rank from 0 (lowest) to 1, averaged over ties, 0.5 for a single
            document; "zscore": (x - mean) / deviation, 0 if the deviation is 0; "best": x -
            maximum; "mean": x - mean; "minmax": (x - minimum) / (maximum - minimum), 1 if all
            are equal; "opensearch_zscore": `z_score` of OpenSearch's normalization-processor,
            (x - mean) / s if positive, else .001, and the maximum if x is the mean. This is in
            float32, and s^2 is the sum of squares divided by n - 1.
        ptr: int64[Q+1], query boundaries.
        out: float32[N, b + k c], C order, b = d or 0: the first b columns become the features,
            followed by those of the first kind, and so on.
    """
    ptr = np.require(ptr, np.int64, ["C", "W"])  # compiled code does not take read-only arrays
    columns = np.require(columns, np.int64, ["C", "W"])
    rows = np.require(features, np.float32, ["C", "W"])
    kind_numbers = np.array([KINDS.index(kind) for kind in kinds], np.int64)
    copied = out.shape[1] - columns.size * kind_numbers.size

    def fill_block(span: tuple[int, int]) -> None:
        _fill(*span, rows, columns, kind_numbers, ptr, copied, out)

    run_parallel(fill_block, query_blocks(ptr, _DOCUMENTS_A_BLOCK), threads)


@inline
def _clip(number: float) -> float:
    """Clip a number to the range of float32."""
    return min(max(number, -_LARGEST), _LARGEST)


@inline
def _sort(keys, spare, counts, n):
    """Sort keys[:n], positions below values, by their upper halves, where ties keep their order.

    This takes 15 to 25 ns per value, whatever the values are. `primitives.sort_descending` takes 2
    to 5 times as long if some values are far from the others.
    """
    # Insert a few keys one by one.
    if n < _FEW:
        for i in range(1, n):
            key, j = keys[i], i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    # Sort many by each byte in which some differ, from the lowest.
    differing = np.uint64(0)
    for i in range(1, n):
        differing |= keys[i] ^ keys[0]
    for bits in _BITS:
        if (differing >> bits) & _BYTE == 0:
            continue
        counts[:] = 0
        for i in range(n):
            counts[(keys[i] >> bits) & _BYTE] += 1
        start = 0
        for byte in range(256):
            size = counts[byte]
            counts[byte] = start
            start += size
        for i in range(n):
            byte = (keys[i] >> bits) & _BYTE
            spare[counts[byte]] = keys[i]
            counts[byte] += 1
        for i in range(n):  # assigning a slice would count references
            keys[i] = spare[i]


@inline
def _rank(values, keys, spare, counts, out, column):
    """Write the ranks of values, float32[n]; `keys`, `spare` and `counts` are overwritten."""
    count, bits = 0, values.view(np.uint32)
    for i in range(values.shape[0]):
        if np.isnan(values[i]):
            out[i, column] = np.nan
            continue
        key = bits[i] if values[i] != 0.0 else np.uint32(0)
        key = key ^ _ALL if key & _SIGN else key | _SIGN  # integers in the order of the values
        keys[count] = (np.uint64(key) << _KEY) | np.uint64(i)
        count += 1
    _sort(keys, spare, counts, count)
    # Give tied values their mean rank.
    first = 0
    while first < count:
        last = first + 1
        while last < count and keys[last] >> _KEY == keys[first] >> _KEY:
            last += 1
        rank = 0.5 if count == 1 else 0.5 * (first + last - 1) / (count - 1)
        for j in range(first, last):
            out[np.int64(keys[j] & np.uint64(_ALL)), column] = rank
        first = last


@inline
def _score_as_opensearch(
    value: np.float32, mean: np.float32, deviation: np.float32, lowest: float, highest: float
) -> float:
    """Return a z-score as OpenSearch computes it; see `normalizeSingleScore` there."""
    if value == mean:
        return highest
    if deviation == 0.0:
        return lowest
    score = (value - mean) / deviation
    return _clip(float(score)) if score > 0.0 else _LEAST


class _Statistics(NamedTuple):
    """Those of the finite values of a column in one query; `sample_deviation` divides by n - 1."""

    mean: float
    deviation: float
    sample_deviation: np.float32
    least: float
    most: float


@inline
def _measure(values: Float32Array) -> _Statistics:
    total, count, lowest, highest = 0.0, 0, np.inf, -np.inf
    for i in range(values.size):
        if np.isfinite(values[i]):
            total += np.float64(values[i])
            count += 1
            lowest, highest = min(lowest, values[i]), max(highest, values[i])
    mean, deviation, sample_deviation = total / max(1, count), 0.0, np.float32(0.0)
    if highest > lowest:
        for i in range(values.size):
            if np.isfinite(values[i]):
                deviation += (np.float64(values[i]) - mean) ** 2
        sample_deviation = np.float32(np.sqrt(deviation / (count - 1)))
        deviation = np.sqrt(deviation / count)
    return _Statistics(mean, deviation, sample_deviation, lowest, highest)


@inline
def _transform(number: np.float32, kind: int, stats: _Statistics) -> float:
    """Return the feature of a kind other than the rank for one value."""
    value = np.float64(number)
    if not np.isfinite(value):
        return value
    if kind == _ZSCORE:
        return _clip((value - stats.mean) / stats.deviation) if stats.deviation > 0.0 else 0.0
    if kind == _MINMAX:
        return (
            (value - stats.least) / (stats.most - stats.least) if stats.most > stats.least else 1.0
        )
    if kind == _OPENSEARCH:
        mean = np.float32(stats.mean)
        return _score_as_opensearch(number, mean, stats.sample_deviation, stats.least, stats.most)
    return _clip(value - (stats.most if kind == _BEST else stats.mean))


@entry_point(types.void(INT, INT, S2, I1, I1, I1, INT, S2))
@allocates
def _fill(start, stop, x, columns, kinds, ptr, copied, out):
    """Fill the rows of the queries `start` to `stop`, where the first `copied` columns of `out` are
    the features.
    """
    longest = 0
    for q in range(start, stop):
        longest = max(longest, ptr[q + 1] - ptr[q])
    tile = np.empty((_TOGETHER, longest), np.float32)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    counts = np.empty(256, np.int64)
    for q in range(start, stop):
        begin, n = ptr[q], ptr[q + 1] - ptr[q]
        rows = out[begin : begin + n]
        for i in range(n):
            for j in range(copied):
                rows[i, j] = x[begin + i, j]
        # Gather some columns of the query, then compute their statistics and each kind.
        for first in range(0, columns.size, _TOGETHER):
            together = min(_TOGETHER, columns.size - first)
            for i in range(n):
                for j in range(together):
                    tile[j, i] = x[begin + i, columns[first + j]]
            for j in range(together):
                values = tile[j, :n]
                statistics = _measure(values)
                for k in range(kinds.size):
                    column = copied + k * columns.size + first + j
                    if kinds[k] == _RANK:
                        _rank(values, keys, spare, counts, rows, column)
                        continue
                    for i in range(n):
                        rows[i, column] = _transform(values[i], kinds[k], statistics)
