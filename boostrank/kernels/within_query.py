"""Features within queries: rank, z-score, min-max, and differences to the largest value and to the
mean of a query's documents.

Each query is computed by one thread, in float64 and in the order of its rows, so the result does
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
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
from boostrank.kernels.primitives import SORT, compiled_sort

KINDS = ("rank", "zscore", "best", "mean", "minmax", "opensearch_zscore")
"""The kinds of features."""
_RANK, _ZSCORE, _BEST, _, _MINMAX, _OPENSEARCH = range(len(KINDS))

_DOCUMENTS_A_BLOCK = 4096
_TOGETHER = 16  # columns processed together: a row of them is one cache line
_LARGEST = float(np.finfo(np.float32).max)
_LEAST = 0.001  # MIN_SCORE of OpenSearch's ZScoreNormalizationTechnique


class _Work(NamedTuple):
    """What `_rank` overwrites: the values that are not missing, negated, their rows, and their
    order.
    """

    keys: Float64Array
    rows: Int64Array
    order: Int64Array
    spare: Int64Array


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
        sort = compiled_sort.compiled
        _fill(sort, *span, rows, columns, kind_numbers, ptr, copied, out)

    run_parallel(fill_block, query_blocks(ptr, _DOCUMENTS_A_BLOCK), threads)


@inline
def _clip(number: float) -> float:
    """Clip a number to the range of float32."""
    return min(max(number, -_LARGEST), _LARGEST)


@inline
def _rank(
    sort: Callable[..., None],
    values: Float32Array,
    work: _Work,
    out: Float32Array,
    column: int,
) -> None:
    """Write the ranks of values, float32[n]."""
    keys, rows, order = work.keys, work.rows, work.order
    count = 0
    for i in range(values.shape[0]):
        if np.isnan(values[i]):
            out[i, column] = np.nan
            continue
        keys[count], rows[count] = -values[i], i
        count += 1
    sort(keys[:count], order[:count], work.spare[:count])
    # Give tied values their mean rank.
    first = 0
    while first < count:
        last = first + 1
        while last < count and keys[order[last]] == keys[order[first]]:
            last += 1
        rank = 0.5 if count == 1 else 0.5 * (first + last - 1) / (count - 1)
        for j in range(first, last):
            out[rows[order[j]], column] = rank
        first = last


@inline
def _score_as_opensearch(
    value: np.float32, mean: np.float32, deviation: np.float32, least: float, most: float
) -> float:
    """Return a z-score as OpenSearch computes it; see `normalizeSingleScore` there."""
    if value == mean:
        return most
    if deviation == 0.0:
        return least
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
    total, count, least, most = 0.0, 0, np.inf, -np.inf
    for i in range(values.size):
        if np.isfinite(values[i]):
            total += np.float64(values[i])
            count += 1
            least, most = min(least, values[i]), max(most, values[i])
    mean, deviation, sample_deviation = total / max(1, count), 0.0, np.float32(0.0)
    if most > least:
        for i in range(values.size):
            if np.isfinite(values[i]):
                deviation += (np.float64(values[i]) - mean) ** 2
        sample_deviation = np.float32(np.sqrt(deviation / (count - 1)))
        deviation = np.sqrt(deviation / count)
    return _Statistics(mean, deviation, sample_deviation, least, most)


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


@entry_point(types.void(SORT, INT, INT, S2, I1, I1, I1, INT, S2))
@allocates
def _fill(sort, start, stop, x, columns, kinds, ptr, copied, out):
    """Fill the rows of the queries `start` to `stop`, where the first `copied` columns of `out` are
    the features.
    """
    longest = 0
    for q in range(start, stop):
        longest = max(longest, ptr[q + 1] - ptr[q])
    tile = np.empty((_TOGETHER, longest), np.float32)
    rows_and_orders = np.empty((3, longest), np.int64)
    work = _Work(np.empty(longest), rows_and_orders[0], rows_and_orders[1], rows_and_orders[2])
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
                        _rank(sort, values, work, rows, column)
                        continue
                    for i in range(n):
                        rows[i, column] = _transform(values[i], kinds[k], statistics)
