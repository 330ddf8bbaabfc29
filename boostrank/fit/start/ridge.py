"""Ridge regression within queries from sums over folds, which are computed in a single pass over
the rows.

A few whole queries are read at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, BoolArray, Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.kernels.curves import Curves
from boostrank.kernels.jit import run_parallel

FOLDS = 5
RIDGES = 10.0 ** np.arange(-3.0, 3.0, 0.5)
RANKED_DOCUMENTS, FITTED_DOCUMENTS = 20_000, 60_000
"""Approximate number of documents used for ranks and for the regressions."""
_NUMBERS_A_BLOCK = 250_000
_NUMBERS_AT_A_TIME = 2_000_000


@dataclass
class Slices:
    """Slices of a longer array, by the number of their first row."""

    slices: Mapping[int, Any]

    def __getitem__(self, rows: slice) -> Any:
        return self.slices[rows.start]


class Sampled(NamedTuple):
    """The rows of several data sets, for which `features` and other arrays only return sampled
    parts.
    """

    queries: QueryIndex
    feature_names: tuple[str, ...]
    features: Any


Source = RankingDataset | Sampled


def folds(queries: int) -> Int64Array:
    """Return the fold of each query, int64[Q]."""
    return np.random.default_rng(0).permutation(queries) % FOLDS


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a data set that consists of whole queries.

    Args:
        queries: the queries of these rows, with weights whose mean over the data set is 1.
        at: the rows of the part in the data set.
        fold: int64[q], fold of each query.
    """

    queries: QueryIndex
    at: slice
    fold: Int64Array

    def of_row(self, values: Array) -> Array:
        """Repeat each query's value for its rows, [n]."""
        return np.repeat(values, self.queries.sizes)


def parts_of(data: Source, fold: Int64Array | None = None) -> tuple[Part, ...]:
    """Split the queries into parts that can be copied quickly, with a fold of each query."""
    queries = data.queries
    max_documents = max(1, _NUMBERS_A_BLOCK // max(1, len(data.feature_names)))
    fold = folds(len(queries)) if fold is None else fold
    weights = queries.each_weight / queries.each_weight.mean() if len(queries) else np.zeros(0)
    parts, first = [], 0
    while first < len(queries):
        end = (
            int(np.searchsorted(queries.ptr, queries.ptr[first] + max_documents, side="right")) - 1
        )
        end = min(max(end, first + 1), len(queries))
        ptr = queries.ptr[first : end + 1]
        index = QueryIndex(ptr - ptr[0], queries.qid[first:end], weights[first:end])
        parts.append(Part(index, slice(int(ptr[0]), int(ptr[-1])), fold[first:end]))
        first = end
    return tuple(parts)


def spread(parts: Sequence[Part], documents: int) -> Sequence[Part]:
    """Return evenly spaced parts with about `documents` documents in total."""
    spacing = -(-(parts[-1].at.stop if parts else 0) // documents)
    return parts[:: max(1, spacing)]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a data set, a few queries at a time.

    Args:
        columns: int64[c], the features used.
        gains: float64[N], which is accessed by the slices of the parts. Regressions need them.
        direction: int64[c], from `Limits`. Regressions need it.
        regressed: approximate number of documents used for the regressions.
    """

    data: Source
    parts: Sequence[Part]
    columns: Int64Array
    threads: int
    gains: Any = None
    direction: Int64Array | None = None
    regressed: int = 0

    @property
    def some(self) -> Sequence[Part]:
        """The parts used by the regressions."""
        return spread(self.parts, self.regressed)

    def dense(self, part: Part) -> Float32Array:
        """Return the rows of a part, float32[n, c]."""
        rows = self.data.features[part.at]
        if self.columns.size < rows.shape[1]:
            rows = rows[:, self.columns]
        if sparse.issparse(rows):
            rows = rows.toarray()
        return np.ascontiguousarray(rows, dtype=np.float32)

    def together(self, parts: Sequence[Part]) -> Float32Array:
        """Return the rows of several parts, float32[n, c]."""
        return np.concatenate([*map(self.dense, parts)])

    def join_scores(
        self, parts: Sequence[Part], curves: Curves, levels: Float64Array
    ) -> tuple[Float64Array, Int64Array]:
        """Return the scores of several parts, float64[n], and the number of rows in each step.

        Args:
            curves: the step functions.
            levels: float64[k, c], their levels for the rows of each fold.
        """

        def score(part: Part) -> tuple[Float64Array, Int64Array]:
            return curves.summed(self.dense(part), levels, part.of_row(part.fold))

        scores, counts = [np.zeros(0)], np.zeros(levels.shape[1], np.int64)
        for part_scores, part_counts in each_of(parts, score, self.threads):
            scores.append(part_scores)
            counts += part_counts
        return np.concatenate(scores), counts


def each_of(
    parts: Sequence[Part], work: Callable[[Part], Any], threads: int, numbers: int = 0
) -> Iterator[Any]:
    """Yield the result of `work` for each part in order, with only a few results in memory at a
    time, each of `numbers` numbers.
    """
    step = max(1, min(4 * threads, _NUMBERS_AT_A_TIME // max(1, numbers)))
    for first in range(0, len(parts), step):
        yield from run_parallel(work, parts[first : first + step], threads)


def divide(values: Float64Array, by: Float64Array) -> Float64Array:
    """Divide, and return 0 where `by` is 0."""
    return np.divide(values, by, out=np.zeros(np.shape(values)), where=by > 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sufficient statistics for a regression on c scaled functions, for each fold.

    Args:
        xx, xt, tt: float64[F, c, c], [F, c], [F]: weighted sums of products of functions and
            targets.
        queries: float64[F], total weight of queries with a target.
        mean, scale: float64[c], mean and deviation of the functions. The scale is 0 for constant
            functions.
    """

    xx: Float64Array
    xt: Float64Array
    tt: Float64Array
    queries: Float64Array
    mean: Float64Array
    scale: Float64Array

    def of_groups(self, outer: BoolArray) -> Sums:
        """Add up groups of `FOLDS` folds, where F is a multiple of `FOLDS` and fold k of each group
        is added to fold k.

        Args:
            outer: bool[F / FOLDS], the groups to include.
        """

        def add_groups(sums: Float64Array) -> Float64Array:
            groups = (sums[k * FOLDS : (k + 1) * FOLDS] for k in np.flatnonzero(outer))
            return sum(groups, np.zeros(()))

        xx, xt, tt = add_groups(self.xx), add_groups(self.xt), add_groups(self.tt)
        return Sums(xx, xt, tt, add_groups(self.queries), self.mean, self.scale)


def targets(gains: Float64Array, queries: QueryIndex) -> tuple[Float64Array, Float64Array]:
    """Return gains standardised within queries, float64[n], and query weights, float64[q]. Constant
    queries get 0.
    """
    target = gains - np.repeat(query_mean(gains, queries), queries.sizes)
    deviation = np.sqrt(query_mean(target * target, queries))
    differs = deviation > 1e-12 * np.maximum.reduceat(gains, queries.ptr[:-1])
    target = divide(target, np.repeat(np.where(differs, deviation, 0.0), queries.sizes))
    return target, np.where(differs, queries.each_weight, 0.0)


def query_mean(values: Float64Array, queries: QueryIndex) -> Float64Array:
    """Return the mean over each query, float64[Q, ...]."""
    sizes = queries.sizes.reshape(-1, *[1] * (values.ndim - 1))
    return np.add.reduceat(values, queries.ptr[:-1], axis=0) / sizes


def sums_of(rows: Rows, basis: Curves, count: int = FOLDS) -> Sums:
    """Compute the sums for each of `count` folds over the parts."""
    columns = basis.feature.size

    def products(part: Part) -> tuple[Any, ...]:
        x, sizes = basis.values(rows.dense(part)), part.queries.sizes
        moments = len(x), x.sum(axis=0), np.einsum("ij,ij->j", x, x)
        t, weight = targets(rows.gains[part.at], part.queries)
        root = np.repeat(np.sqrt(weight / sizes), sizes)
        # Centre within queries and scale rows by the square root of their weight, so that products
        # are weighted sums.
        x -= np.repeat(query_mean(x, part.queries), sizes, axis=0)
        x *= root[:, np.newaxis]
        t = t * root
        of_row = part.of_row(part.fold)
        of_fold, taught = [], np.bincount(part.fold, weight, count)
        for k in np.unique(part.fold).tolist():
            z, y = x[of_row == k], t[of_row == k]
            of_fold.append((k, (z.T @ z, z.T @ y, y @ y, taught[k])))
        return of_fold, moments

    sums = [np.zeros((count, *shape)) for shape in ((columns, columns), (columns,), (), ())]
    moments = [np.zeros(shape) for shape in ((), columns, columns)]
    for of_fold, part_moments in each_of(rows.some, products, rows.threads, count * columns**2):
        for k, fold_sums in of_fold:
            for total, added in zip(sums, fold_sums, strict=True):
                total[k] += added
        for total, added in zip(moments, part_moments, strict=True):
            total += added
    (xx, xt, tt, queries), (documents, first, second) = sums, moments
    mean = first / max(1.0, float(documents))
    # Values are between 0 and 1, so the difference of squares is accurate.
    variance = second / max(1.0, float(documents)) - mean * mean
    scale = np.sqrt(np.where(variance > 1e-9, variance, 0.0))
    inverse = divide(np.ones(columns), scale)
    xx *= np.outer(inverse, inverse)
    return Sums(xx, xt * inverse, tt, queries, mean, scale)


def solved(sums: Sums, threads: int) -> tuple[Float64Array, float]:
    """Return the weights without each fold and from all folds, float64[FOLDS + 1, c], and the best
    ridge for them.
    """
    weights = run_parallel(lambda k: _solved(sums, k), range(FOLDS + 1), threads)
    errors = np.zeros(RIDGES.size)  # squared errors on held-out folds
    for k in range(FOLDS):
        for r, each in enumerate(weights[k]):
            errors[r] += each @ sums.xx[k] @ each - 2.0 * (each @ sums.xt[k]) + sums.tt[k]
    best_index = int(np.argmin(errors))
    return np.stack([each[best_index] for each in weights]), float(RIDGES[best_index])


def _solved(sums: Sums, without: int) -> Float64Array:
    """Return the weights for each ridge, float64[R, c], from all folds except one, or from all
    folds if it is `FOLDS`.
    """
    is_kept = np.arange(FOLDS) != without
    xt, queries = sums.xt[is_kept].sum(axis=0), float(sums.queries[is_kept].sum())
    if queries == 0.0:
        return np.zeros((RIDGES.size, xt.size))
    values, vectors = np.linalg.eigh(sums.xx[is_kept].sum(axis=0) / queries)
    along = vectors.T @ (xt / queries)
    return np.stack([vectors @ (along / (np.maximum(values, 0.0) + ridge)) for ridge in RIDGES])
