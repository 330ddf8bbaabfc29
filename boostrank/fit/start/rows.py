"""Rows for fitting a start: whole queries of a data set, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.curves import Curves
from boostrank.kernels.jit import run_parallel

FOLDS = 5
RANKED, REGRESSED = 20_000, 60_000
"""Approximate number of documents for ranks and for the regressions."""
_NUMBERS_A_BLOCK = 250_000
_NUMBERS_AT_A_TIME = 2_000_000

R = TypeVar("R")
N = TypeVar("N", bound=np.generic)


class Source(Protocol):
    """Data for a start: a `RankingDataset`, or the sampled parts of a remote one."""

    @property
    def queries(self) -> QueryIndex:
        """Queries of the rows."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d features."""

    @property
    def features(self) -> Any:
        """[N, d]; slices of whole parts (see `parts_of`) are float32 rows, dense or CSR."""


def folds(queries: int) -> Int64Array:
    """Return the fold of each query, int64[Q]."""
    return np.random.default_rng(0).permutation(queries) % FOLDS


@dataclass(frozen=True, eq=False)
class Part:
    """Whole queries of a data set.

    Args:
        queries: queries of these rows, with weights whose mean over the data set is 1.
        at: their rows in the data set.
        fold: int64[q], fold of each query.
    """

    queries: QueryIndex
    at: slice
    fold: Int64Array

    def of_row(self, values: npt.NDArray[N]) -> npt.NDArray[N]:
        """Repeat values of queries for their rows, [n]."""
        return np.repeat(values, self.queries.sizes)


def parts_of(queries: QueryIndex, columns: int, fold: Int64Array | None = None) -> tuple[Part, ...]:
    """Split the queries into parts that are quick to copy."""
    most = max(1, _NUMBERS_A_BLOCK // max(1, columns))
    fold = folds(len(queries)) if fold is None else fold
    weights = queries.each_weight / queries.each_weight.mean() if len(queries) else np.zeros(0)
    parts, first = [], 0
    while first < len(queries):
        last = int(np.searchsorted(queries.ptr, queries.ptr[first] + most, side="right")) - 1
        last = min(max(last, first + 1), len(queries))
        ptr = queries.ptr[first : last + 1]
        some = QueryIndex(ptr - ptr[0], queries.qid[first:last], weights[first:last])
        parts.append(Part(some, slice(int(ptr[0]), int(ptr[-1])), fold[first:last]))
        first = last
    return tuple(parts)


def sampled(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts that `learnt` reads, in order."""
    chosen = {part.at.start for most in (RANKED, REGRESSED) for part in spread(parts, most)}
    return tuple(part for part in parts if part.at.start in chosen)


def spread(parts: tuple[Part, ...], documents: int) -> tuple[Part, ...]:
    """Return evenly spaced parts with about `documents` documents in total."""
    every = -(-(parts[-1].at.stop if parts else 0) // documents)
    return parts[:: max(1, every)]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a data set, a few queries at a time.

    Args:
        columns: int64[c], features used.
        gains: float64[N], accessed by slices of parts; needed for regressions.
        direction: int64[c], from `Limits`; needed for regressions.
        regressed: approximate number of documents for the regressions.
    """

    data: Source
    parts: tuple[Part, ...]
    columns: Int64Array
    threads: int
    gains: Any = None
    direction: Int64Array | None = None
    regressed: int = 0

    @property
    def some(self) -> tuple[Part, ...]:
        """Parts used by the regressions."""
        return spread(self.parts, self.regressed)

    def dense(self, part: Part) -> Float32Array:
        """Return the rows of a part, float32[n, c]."""
        rows = self.data.features[part.at]
        if self.columns.size < rows.shape[1]:
            rows = rows[:, self.columns]
        return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float32)

    def together(self, parts: tuple[Part, ...]) -> Float32Array:
        """Return the rows of several parts, float32[n, c]."""
        rows = np.empty((sum(part.queries.n_documents for part in parts), self.columns.size), np.float32)
        begin = 0
        for part in parts:
            end = begin + part.queries.n_documents
            rows[begin:end] = self.dense(part)
            begin = end
        return rows

    def each(self, parts: tuple[Part, ...], work: Callable[[Part, Float32Array], R], numbers: int = 0) -> Iterator[R]:
        """Apply `work` to each part and its rows, float32[n, c]; see `each_of`."""
        return each_of(parts, lambda part: work(part, self.dense(part)), self.threads, numbers)

    def joined(
        self,
        parts: tuple[Part, ...],
        work: Callable[[Part, Float32Array], tuple[Float64Array, Int64Array]],
        curves: Curves,
    ) -> tuple[Float64Array, Int64Array]:
        """Concatenate the scores of parts, and add up their counts."""
        scores, counts = [np.zeros(0)], np.zeros(curves.levels.size, np.int64)
        for some, more in self.each(parts, work):
            scores.append(some)
            counts += more
        return np.concatenate(scores), counts


def each_of(parts: tuple[Part, ...], work: Callable[[Part], R], threads: int, numbers: int) -> Iterator[R]:
    """Yield the results of `work` for each part, in order, a few at a time in memory."""
    step = max(1, min(4 * threads, _NUMBERS_AT_A_TIME // max(1, numbers)))
    for first in range(0, len(parts), step):
        yield from run_parallel(work, parts[first : first + step], threads)
