"""A linear start made on the spot: a ridge regression within queries, and what folds that did not see them say of the
training rows.

    w = argmin (1/Q) sum_q (v_q/n_q) sum_i (t_i - x_i w)^2 + ridge |w|^2

x: scaled features, less their mean over the query; t: gains, less their mean over the query, over their deviation
there; v: the query's weight, 1 on average. Nothing is spent on what a query's documents share, and long queries weigh
no more than short ones.

Trees that began with what the regression says of its own rows would take its overfitting for knowledge. So they begin
with what regressions of the other folds say (as in stacking: Wolpert 1992; cross-fitting: Chernozhukov et al. 2018),
and the model holds the regression of all rows. The ridge is the one of the least squared error over the folds. The
scale of the scores is half of that at which a softmax over a query comes closest to its gains: at the whole scale,
pairs that the regression got right are beyond what trees still feel (`experiments/peers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from boostrank.backends.base import LinearStart
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.gains import Gain, above_least, gains_from_labels
from boostrank.core.types import Float64Array, Int64Array, QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.kernels.jit import run_parallel

FOLDS = 5
RIDGES = 10.0 ** np.arange(-3.0, 3.0, 0.5)
SHARE = 0.5
"""Of the best scale."""
MOST_FEATURES = 2_000
_MOST_SCALE = 100.0
_NUMBERS_A_BLOCK = 250_000
_NUMBERS_AT_A_TIME = 50_000_000

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """A linear start, and where its training rows begin.

    Args:
        start: the regression of all rows.
        scores: float64[N], of the training rows, from the folds that they are not in.
        told: how it was made, for the sidecar.
    """

    start: LinearStart
    scores: Float64Array
    told: dict[str, Any]


def cross_fitted(data: RankingDataset, gain: Gain, threads: int = 1) -> CrossFitted:
    """Fit it.

    Args:
        data: N documents of d features; a missing value counts as the feature's mean. In memory or on disk, with one
            thread or many, the same rows give the same bytes.
        gain: of a label.
        threads: at least 1.

    Raises:
        DataError: infinite values.
        ParameterError: more features than `MOST_FEATURES`.
    """
    columns = data.features.shape[1]
    if columns > MOST_FEATURES:
        raise ParameterError(
            f"a linear start takes up to {MOST_FEATURES:,} features, not {columns:,}: train a linear model "
            "(backend='linear') and give it as the start"
        )
    gains = gains_from_labels(data.labels, gain)
    with threadpool_limits(limits=1, user_api="blas"):  # more sum in another order
        return _fitted(data, gains, threads)


def _fitted(data: RankingDataset, gains: Float64Array, threads: int) -> CrossFitted:
    rows = _Rows.of(data, threads)
    fold = np.random.default_rng(0).permutation(len(data.queries)) % FOLDS
    weights = data.queries.each_weight / data.queries.each_weight.mean()
    sums = _sums(rows, _targets(gains, data.queries), weights, fold)
    ridge = _best_ridge(sums)
    whole = _solved(_without(sums, None), np.array([ridge]))[0]
    parts = np.stack([_solved(_without(sums, k), np.array([ridge]))[0] for k in range(FOLDS)])
    found = rows.each(lambda part, x: np.einsum("ij,ij->i", x, parts[fold[part.of_row]]))
    scores = np.concatenate([np.zeros(0), *found])
    scale = SHARE * _softmax_scale(scores, above_least(gains, data.queries), weights, data.queries)
    start = LinearStart(data.feature_names, _over(scale * whole, rows.scale), rows.mean, 0.0)
    told = {"model": "ridge regression within queries, cross-fitted", "ridge": ridge, "scale": scale, "folds": FOLDS}
    return CrossFitted(start, scale * scores, told)


@dataclass(frozen=True, eq=False)
class _Part:
    """Whole queries of a data set.

    Args:
        queries: of these rows alone.
        first: the position of their first in the data set.
        at: their rows in the data set.
        of_row: int64[n], position in the data set of each row's query.
    """

    queries: QueryIndex
    first: int
    at: slice
    of_row: Int64Array


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a data set, scaled, a few queries at a time.

    Args:
        data: N documents of d features.
        mean, scale: float64[d]: over the rows that have the feature; scale is 0 where it never changes.
        threads: to work on them.
    """

    data: RankingDataset
    mean: Float64Array
    scale: Float64Array
    threads: int

    @classmethod
    def of(cls, data: RankingDataset, threads: int) -> _Rows:
        """Measured.

        Raises:
            DataError: an infinite value.
        """
        columns = data.features.shape[1]
        count, total, square = np.zeros(columns), np.zeros(columns), np.zeros(columns)
        low, high = np.full(columns, np.inf), np.full(columns, -np.inf)

        def measured(part: _Part) -> tuple[Any, ...]:
            x = _dense(data, part)
            here = _present(x)
            with np.errstate(invalid="ignore"):  # infinite values, which are refused below
                there = x.shape[0] if here is True else here.sum(axis=0)
                least, most = (f(x, axis=0, where=here, initial=i) for f, i in ((np.min, np.inf), (np.max, -np.inf)))
                return there, np.sum(x, axis=0, where=here), least, most

        for there, together, least, most in _in_order(measured, data, threads):
            count += there
            total += together
            low, high = np.minimum(low, least), np.maximum(high, most)
        bad = np.flatnonzero((low == -np.inf) | (high == np.inf))
        if bad.size:
            raise DataError(
                f"feature {data.feature_names[bad[0]]!r} has infinite values: trees can split those, no weight suits "
                "them, so there is no linear start"
            )
        mean = _over(total, count)

        def squares(part: _Part) -> Float64Array:
            x = _dense(data, part)
            return np.asarray(np.sum(np.square(x - mean), axis=0, where=_present(x)))

        for together in _in_order(squares, data, threads):
            square += together
        return cls(data, mean, np.where(high > low, np.sqrt(_over(square, count)), 0.0), threads)

    def each(self, work: Callable[[_Part, Float64Array], R]) -> Iterator[R]:
        """What comes of each part and its float64[n, d], in order."""

        def scaled(part: _Part) -> R:
            x = _dense(self.data, part)
            here = _present(x)
            x -= self.mean
            x *= _over(np.ones(self.scale.size), self.scale)
            return work(part, x if here is True else np.where(here, x, 0.0))

        return _in_order(scaled, self.data, self.threads)


def _in_order(work: Callable[[_Part], R], data: RankingDataset, threads: int) -> Iterator[R]:
    """What comes of each part, on several threads, and as many of them in memory at a time as are small beside it."""
    parts, columns = list(_parts(data)), data.features.shape[1]
    step = max(1, min(4 * threads, _NUMBERS_AT_A_TIME // max(1, FOLDS * columns * columns)))
    for first in range(0, len(parts), step):
        yield from run_parallel(work, parts[first : first + step], threads)


def _parts(data: RankingDataset) -> Iterator[_Part]:
    """Ranges of whole queries with about so many numbers that they are quick to copy."""
    queries, most = data.queries, max(1, _NUMBERS_A_BLOCK // max(1, data.features.shape[1]))
    first = 0
    while first < len(queries):
        last = int(np.searchsorted(queries.ptr, queries.ptr[first] + most, side="right")) - 1
        last = min(max(last, first + 1), len(queries))
        mine = QueryIndex(queries.ptr[first : last + 1] - queries.ptr[first], queries.qid[first:last])
        at = slice(int(queries.ptr[first]), int(queries.ptr[last]))
        yield _Part(mine, first, at, np.repeat(np.arange(first, last), mine.sizes))
        first = last


def _dense(data: RankingDataset, part: _Part) -> Float64Array:
    """Rows as they are, float64[n, d]."""
    rows = data.features[part.at]
    return np.array(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _present(x: Float64Array) -> Any:
    """bool[n, d], where there is a value; True where none is missing, which is faster for what comes."""
    here = ~np.isnan(x)
    return True if here.all() else here


def _over(values: Float64Array, by: Float64Array) -> Float64Array:
    """values / by, and 0 where `by` is."""
    return np.divide(values, by, out=np.zeros(np.shape(values)), where=by > 0.0)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What a regression needs of the queries of each fold.

    Args:
        xx, xt, tt: float64[F, d, d], [F, d], [F]: weighted sums of products of features and targets.
        queries: float64[F], the weight of those that teach.
    """

    xx: Float64Array
    xt: Float64Array
    tt: Float64Array
    queries: Float64Array


def _targets(gains: Float64Array, queries: QueryIndex) -> Float64Array:
    """Float64[N]: gains from their mean over the query, over their deviation; 0 where all are the same."""
    target = gains - np.repeat(_mean(gains, queries), queries.sizes)
    deviation = np.repeat(np.sqrt(_mean(target * target, queries)), queries.sizes)
    differs = deviation > 1e-12 * gains.max(initial=0.0)
    return np.asarray(np.divide(target, deviation, out=np.zeros(gains.size), where=differs))


def _mean(values: Float64Array, queries: QueryIndex) -> Float64Array:
    """Over each query; float64[Q, ...]."""
    sizes = queries.sizes.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(np.add.reduceat(values, queries.ptr[:-1], axis=0) / sizes)


def _sums(rows: _Rows, target: Float64Array, weights: Float64Array, fold: Int64Array) -> _Sums:
    columns = rows.mean.size
    whole = _Sums(np.zeros((FOLDS, columns, columns)), np.zeros((FOLDS, columns)), np.zeros(FOLDS), np.zeros(FOLDS))

    def products(part: _Part, x: Float64Array) -> _Sums:
        sizes, t = part.queries.sizes, target[part.at]
        mine = slice(part.first, part.first + sizes.size)
        weight = np.where(_mean(t * t, part.queries) > 0.0, weights[mine], 0.0)
        root = np.repeat(np.sqrt(weight / sizes), sizes)
        x -= np.repeat(_mean(x, part.queries), sizes, axis=0)
        x *= root[:, np.newaxis]
        t = t * root
        of_row = fold[part.of_row]
        order = np.argsort(of_row, kind="stable")
        x, t, ends = x[order], t[order], np.searchsorted(of_row[order], np.arange(FOLDS + 1))
        of_fold = [(x[a:b], t[a:b]) for a, b in pairwise(ends.tolist())]
        return _Sums(
            np.array([z.T @ z for z, _ in of_fold]),
            np.array([z.T @ y for z, y in of_fold]),
            np.array([y @ y for _, y in of_fold]),
            np.asarray(np.bincount(fold[mine], weight, FOLDS), dtype=np.float64),
        )

    for some in rows.each(products):
        for name, sums in vars(whole).items():
            sums += getattr(some, name)
    return whole


def _without(sums: _Sums, fold: int | None) -> tuple[Float64Array, Float64Array, float]:
    """The sums over all folds but one."""
    kept = np.arange(FOLDS) != (-1 if fold is None else fold)
    return sums.xx[kept].sum(axis=0), sums.xt[kept].sum(axis=0), float(sums.queries[kept].sum())


def _solved(sums: tuple[Float64Array, Float64Array, float], ridges: Float64Array) -> Float64Array:
    """float64[R, d]: the weights of each ridge."""
    xx, xt, queries = sums
    if queries == 0.0:
        return np.zeros((ridges.size, xt.size))
    values, vectors = np.linalg.eigh(xx / queries)
    along = vectors.T @ (xt / queries)
    return np.stack([vectors @ (along / (np.maximum(values, 0.0) + ridge)) for ridge in ridges])


def _best_ridge(sums: _Sums) -> float:
    """The one whose regressions, each without a fold, err least in the squares of that fold."""
    errors = np.zeros(RIDGES.size)
    for k in range(FOLDS):
        for r, weights in enumerate(_solved(_without(sums, k), RIDGES)):
            errors[r] += weights @ sums.xx[k] @ weights - 2.0 * (weights @ sums.xt[k]) + sums.tt[k]
    return float(RIDGES[int(np.argmin(errors))])


def _softmax_scale(scores: Float64Array, gains: Float64Array, weights: Float64Array, queries: QueryIndex) -> float:
    """The factor at which the softmax of the scores has the least cross entropy towards shares of the gain."""
    starts, sizes = queries.ptr[:-1], queries.sizes
    total = np.repeat(np.add.reduceat(gains, starts), sizes)
    shares = np.divide(gains, total, out=np.zeros(gains.size), where=total > 0.0) * np.repeat(weights, sizes)
    taught = np.add.reduceat(shares, starts)
    wanted = float(shares @ scores)
    centred = scores - np.repeat(np.maximum.reduceat(scores, starts), sizes)
    if not np.any(centred):
        return 0.0
    top = float(taught @ np.maximum.reduceat(scores, starts))

    def loss(scale: float) -> float:
        return float(taught @ np.log(np.add.reduceat(np.exp(scale * centred), starts))) + scale * (top - wanted)

    return float(minimize_scalar(loss, bounds=(0.0, _MOST_SCALE), method="bounded").x)
