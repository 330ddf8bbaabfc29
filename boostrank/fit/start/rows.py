"""Rows that a start is learnt from: whole queries of a data set, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.runtime.jit import run_parallel
from boostrank.kernels.trees.curves import Curves

FOLDS = 5
RANKED, REGRESSED = 20_000, 60_000
"""Documents, about: those that ranks are learnt from, and those that the regressions are."""
_NUMBERS_A_BLOCK = 250_000
_NUMBERS_AT_A_TIME = 2_000_000

R = TypeVar("R")
N = TypeVar("N", bound=np.generic)


class Source(Protocol):
    """What a start is learnt from: a `RankingDataset`, or as much of one that lies elsewhere as `learnt` looks at."""

    @property
    def queries(self) -> QueryIndex:
        """Which of the N rows belong to which query."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """d names."""

    @property
    def features(self) -> Any:
        """[N, d]; slices of whole parts (see `parts_of`) are float32 rows, dense or CSR."""


def folds(queries: int) -> Int64Array:
    """int64[Q]: the fold of each query."""
    return np.random.default_rng(0).permutation(queries) % FOLDS


@dataclass(frozen=True, eq=False)
class Part:
    """Whole queries of a data set.

    Args:
        queries: of these rows alone, weighted: 1 on average over the data set.
        at: their rows in the data set.
        fold: int64[q], of each query.
    """

    queries: QueryIndex
    at: slice
    fold: Int64Array

    def of_row(self, values: npt.NDArray[N]) -> npt.NDArray[N]:
        """Of each row, [n], from those of each query."""
        return np.repeat(values, self.queries.sizes)


def parts_of(queries: QueryIndex, columns: int, fold: Int64Array | None = None) -> tuple[Part, ...]:
    """Ranges of whole queries with about so many numbers that they are quick to copy.

    Args:
        queries: of the data set.
        columns: numbers a row.
        fold: int64[Q], where it is not that of `folds`.
    """
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
    """Those whose rows `learnt` looks at, in their order."""
    chosen = {part.at.start for most in (RANKED, REGRESSED) for part in spread(parts, most)}
    return tuple(part for part in parts if part.at.start in chosen)


def spread(parts: tuple[Part, ...], documents: int) -> tuple[Part, ...]:
    """Parts spread over all of them, with about so many documents."""
    every = -(-(parts[-1].at.stop if parts else 0) // documents)
    return parts[:: max(1, every)]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a data set, a few queries at a time.

    Args:
        data: N documents.
        parts: all of them.
        columns: int64[c], the features that are looked at.
        threads: to work on them.
        gains: float64[N], by slices of parts, where somebody learns from them.
        direction: int64[c], of `Limits`, there too.
        regressed: documents, about, that the regressions learn from, where there are any.
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
        """Parts that the regressions learn from."""
        return spread(self.parts, self.regressed)

    def dense(self, part: Part) -> Float32Array:
        """Rows of a part as they are, float32[n, c]."""
        rows = self.data.features[part.at]
        if self.columns.size < rows.shape[1]:
            rows = rows[:, self.columns]
        return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float32)

    def together(self, parts: tuple[Part, ...]) -> Float32Array:
        """All rows of some parts, float32[n, c]."""
        rows = np.empty((sum(part.queries.n_documents for part in parts), self.columns.size), np.float32)
        begin = 0
        for part in parts:
            end = begin + part.queries.n_documents
            rows[begin:end] = self.dense(part)
            begin = end
        return rows

    def each(self, parts: tuple[Part, ...], work: Callable[[Part, Float32Array], R], numbers: int = 0) -> Iterator[R]:
        """What comes of each part and its float32[n, c]; see `each_of`."""
        return each_of(parts, lambda part: work(part, self.dense(part)), self.threads, numbers)

    def joined(
        self,
        parts: tuple[Part, ...],
        work: Callable[[Part, Float32Array], tuple[Float64Array, Int64Array]],
        curves: Curves,
    ) -> tuple[Float64Array, Int64Array]:
        """The scores of all rows of some parts, and counts that add up."""
        scores, counts = [np.zeros(0)], np.zeros(curves.levels.size, np.int64)
        for some, more in self.each(parts, work):
            scores.append(some)
            counts += more
        return np.concatenate(scores), counts


def each_of(parts: tuple[Part, ...], work: Callable[[Part], R], threads: int, numbers: int) -> Iterator[R]:
    """What comes of each part, in order, as many in memory as are small beside the data.

    Args:
        parts: of the data.
        work: on one.
        threads: at least 1.
        numbers: in what comes of it.
    """
    step = max(1, min(4 * threads, _NUMBERS_AT_A_TIME // max(1, numbers)))
    for first in range(0, len(parts), step):
        yield from run_parallel(work, parts[first : first + step], threads)
