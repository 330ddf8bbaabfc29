"""Cross-fitted linear start: a ridge regression within queries, and for each training row the prediction of folds that
do not hold it.

    w = argmin (1/Q) sum_q (v_q/n_q) sum_i (t_i - x_i w)^2 + ridge |w|^2

x: what is made of the features, scaled, less its mean over the query; t: gains, less their mean over the query, over
their deviation there; v: the query's weight, 1 on average. Nothing is spent on what a query's documents share, and long
queries weigh no more than short ones.

A feature enters as its rank among the training documents, so that heavy tails and outliers of documents to come are
harmless; as it is; and by whether it is 0, or missing, since that is how ranking data say that something is not there.
All are constant in steps (`training.steps`). So a start is a function of each feature, in steps, which trees hold.
Where scores must not fall as a feature rises, its function is the nearest one that does not, in all regressions.

Trees that began with the regression's predictions of its own rows would take its overfitting for knowledge. So they
begin with the predictions of the other folds' regressions (as in stacking: Wolpert 1992; cross-fitting: Chernozhukov et
al. 2018), and the model holds the regression of all rows. The ridge is the one of the least squared error over the
folds. The scale of the scores is half of that at which a softmax over a query comes closest to its gains: at the whole
scale, pairs that the regression got right are beyond what trees still feel (`experiments/peers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from boostrank.backends.limits import Limits
from boostrank.core.errors import ParameterError
from boostrank.core.gains import Gain, above_least, gains_from_labels
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.formats.base import LinearStart
from boostrank.kernels.runtime.jit import run_parallel
from boostrank.kernels.trees.curves import Curve, Curves, combined
from boostrank.training.steps import MOVED, RARE, Values, isotonic, simplified

FOLDS = 5
RIDGES = 10.0 ** np.arange(-3.0, 3.0, 0.5)
SHARE = 0.5
"""Of the best scale."""
MOST_FEATURES = 2_000
MOST_COLUMNS = 2_000
"""Of features so many that theirs would be more, only the ranks are taken."""
_MOST_SCALE = 100.0
# Documents, about: those that ranks are learnt from, and those that the regressions are.
_RANKED, _REGRESSED = 20_000, 60_000
_NUMBERS_A_BLOCK = 250_000
_NUMBERS_AT_A_TIME = 2_000_000

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """A linear start, and where its training rows begin.

    Args:
        start: the regression of all rows.
        scores: float64[N], of the training rows, from the folds that they are not in.
        description: how it was made, for the sidecar.
    """

    start: LinearStart
    scores: Float64Array
    description: dict[str, Any]


def cross_fitted(data: RankingDataset, gain: Gain, threads: int = 1, limits: Limits | None = None) -> CrossFitted:
    """Fit it.

    Args:
        data: N documents of d features. In memory or on disk, with one thread or many, the same rows give the same
            bytes. Of more than some ten thousand documents, whole queries spread over the data are learnt from.
        gain: of a label.
        threads: at least 1.
        limits: that it keeps.

    Raises:
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
        return _fitted(data, gains, threads, limits or Limits.none(columns))


def in_steps_of(
    start: LinearStart, data: RankingDataset, threads: int = 1, limits: Limits | None = None
) -> LinearStart:
    """The start whose functions are constant in steps, as close to another's as can be where the data are.

    Args:
        start: of functions of the data's features.
        data: N documents.
        threads: at least 1.
        limits: that it keeps; of features that trees cannot use nothing is left.
    """
    limits = limits or Limits.none(len(start.feature_names))
    parts = tuple(_parts(data))
    some = _ranked(data, parts)
    found = []
    for feature, curve in start.curves.items():
        if feature in limits.unused:
            continue
        values = Values.of(some[:, feature])
        there = Curves.of([(0, curve)]).values(values.distinct.astype(np.float32)[:, np.newaxis])
        steps = values.in_steps(there[:, 0], curve.missing)
        found.append((feature, isotonic(steps, values.documents, int(limits.direction[feature]))))
    curves = Curves.of(found)
    rows = _Rows(data, parts, curves, {}, limits.direction, threads)
    scores, counts = _joined(rows.each(parts, lambda _, x: _summed(curves, x)), curves)
    kept = simplified(dict(curves.with_documents(counts)), MOVED * float(scores.std() if scores.size else 0.0))
    return LinearStart(start.feature_names, kept)


def _summed(curves: Curves, rows: Float32Array) -> tuple[Float64Array, Int64Array]:
    """The score of each row, and how many are in each piece."""
    values, counts = curves.counted(rows)
    return values.sum(axis=1), counts


def _nothing_of(curves: Curves) -> Int64Array:
    """No rows in any piece."""
    return curves.counted(np.zeros((0, 0), np.float32))[1]


def _joined(parts: Iterable[tuple[Float64Array, Int64Array]], curves: Curves) -> tuple[Float64Array, Int64Array]:
    """The scores of all parts, and counts that add up."""
    scores, counts = [np.zeros(0)], _nothing_of(curves)
    for some, more in parts:
        scores.append(some)
        counts += more
    return np.concatenate(scores), counts


def _fitted(data: RankingDataset, gains: Float64Array, threads: int, limits: Limits) -> CrossFitted:
    fold = np.random.default_rng(0).permutation(len(data.queries)) % FOLDS
    weights = data.queries.each_weight / data.queries.each_weight.mean()
    rows = _Rows.of(data, threads, limits)
    sums = _sums(rows, _targets(gains, data.queries), weights, fold)
    ridge = _best_ridge(sums)
    whole, *without = (_solved(_without(sums, k), np.array([ridge]))[0] for k in (None, *range(FOLDS)))
    # All have the same pieces.
    own, *others = (rows.curves(w, sums) for w in (whole, *without))

    def predicted(part: _Part, x: Float32Array) -> tuple[Float64Array, Int64Array]:
        out, of_row, counts = np.zeros(len(x)), fold[part.of_row], _nothing_of(own)
        for k in np.unique(of_row).tolist():
            out[of_row == k], there = _summed(others[k], x[of_row == k])
            counts += there
        return out, counts

    scores, counts = _joined(rows.each(rows.parts, predicted), own)
    scale = SHARE * _softmax_scale(scores, above_least(gains, data.queries), weights, data.queries)
    scores *= scale
    curves = {feature: curve.times(scale) for feature, curve in own.with_documents(counts)}
    start = LinearStart(data.feature_names, simplified(curves, MOVED * float(scores.std() if scores.size else 0.0)))
    description = {
        "model": "ridge regression within queries, cross-fitted, in steps", "ridge": ridge, "scale": scale,
        "folds": FOLDS,
    }  # fmt: skip
    return CrossFitted(start, scores, description)


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
    """The rows of a data set, a few queries at a time, and what is made of them.

    Args:
        data: N documents of d features.
        parts: all of them.
        basis: c functions of features.
        documents: float64[k + 1] of each feature, of some rows: how many are in each step.
        direction: int64[d], of `Limits`.
        threads: to work on them.
    """

    data: RankingDataset
    parts: tuple[_Part, ...]
    basis: Curves
    documents: Mapping[int, Float64Array]
    direction: Int64Array
    threads: int

    @classmethod
    def of(cls, data: RankingDataset, threads: int, limits: Limits) -> _Rows:
        """Learn the functions."""
        parts = tuple(_parts(data))
        basis, documents = _basis(_ranked(data, parts), threads, limits.unused)
        return cls(data, parts, basis, documents, limits.direction, threads)

    def each(self, parts: tuple[_Part, ...], work: Callable[[_Part, Float32Array], R]) -> Iterator[R]:
        """What comes of each part and its float32[n, d], in order, as many in memory as are small beside it."""
        step = max(1, min(4 * self.threads, _NUMBERS_AT_A_TIME // max(1, FOLDS * self.basis.feature.size**2)))
        for first in range(0, len(parts), step):
            yield from run_parallel(
                lambda part: work(part, _dense(self.data, part)), parts[first : first + step], self.threads
            )

    def curves(self, weights: Float64Array, sums: _Sums) -> Curves:
        """The weighted sum of the scaled functions, less its mean: a function a feature, that goes the way it must."""
        each, used = _over(weights, sums.scale), sums.scale > 0.0
        basis, found = list(self.basis), []
        for feature in np.unique(self.basis.feature[used]).tolist():
            columns = np.flatnonzero((self.basis.feature == feature) & used)
            curve = combined(
                [Curve.line(0.0, 1.0, 1.0), *(basis[j][1] for j in columns.tolist())],
                [-float(each[columns] @ sums.mean[columns]), *each[columns].tolist()],
            )
            found.append((feature, isotonic(curve, self.documents[feature], int(self.direction[feature]))))
        return Curves.of(found)


def _parts(data: RankingDataset) -> Iterator[_Part]:
    """Ranges of whole queries with about so many numbers that they are quick to copy."""
    queries, most = data.queries, max(1, _NUMBERS_A_BLOCK // max(1, data.features.shape[1]))
    first = 0
    while first < len(queries):
        last = int(np.searchsorted(queries.ptr, queries.ptr[first] + most, side="right")) - 1
        last = min(max(last, first + 1), len(queries))
        part = QueryIndex(queries.ptr[first : last + 1] - queries.ptr[first], queries.qid[first:last])
        at = slice(int(queries.ptr[first]), int(queries.ptr[last]))
        yield _Part(part, first, at, np.repeat(np.arange(first, last), part.sizes))
        first = last


def _some(parts: tuple[_Part, ...], documents: int) -> tuple[_Part, ...]:
    """Parts spread over all of them, with about so many documents."""
    every = -(-(parts[-1].at.stop if parts else 0) // documents)
    return parts[:: max(1, every)]


def _ranked(data: RankingDataset, parts: tuple[_Part, ...]) -> Float32Array:
    """Some rows, float32[n, d]: those that ranks are learnt from."""
    some = _some(parts, _RANKED)
    rows = np.empty((sum(part.of_row.size for part in some), data.features.shape[1]), np.float32)
    begin = 0
    for part in some:
        end = begin + part.of_row.size
        rows[begin:end] = _dense(data, part)
        begin = end
    return rows


def _dense(data: RankingDataset, part: _Part) -> Float32Array:
    """Rows as they are, float32[n, d]."""
    rows = data.features[part.at]
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float32)


def _basis(rows: Float32Array, threads: int, unused: tuple[int, ...]) -> tuple[Curves, dict[int, Float64Array]]:
    """What is made of each feature, its rank, whether it is 0, whether it is missing; and how many are in its steps."""
    used = [feature for feature in range(rows.shape[1]) if feature not in set(unused)]

    def learnt(feature: int) -> tuple[list[Curve], Float64Array]:
        column = rows[:, feature]
        values, found = Values.of(column), []
        if values.distinct.size:
            found.append(values.in_steps(values.ranks, 0.5))
            if values.bounds.size > 1:  # else its rank is the same
                low, high = values.distinct[0], values.distinct[-1]
                share = (values.distinct - low) / (high - low)
                found.append(values.in_steps(share, values.mean(share)))
            zero = (values.distinct == 0.0).astype(np.float64)
            if RARE < values.mean(zero) < 1.0 - RARE:
                found.append(values.in_steps(zero, values.mean(zero)))
        if RARE < np.isnan(column).mean() < 1.0 - RARE:
            found.append(Curve.line(0.0, 0.0, 1.0))
        return found, values.documents

    each = run_parallel(learnt, used, threads) if rows.size else []
    several = sum(len(curves) for curves, _ in each) <= MOST_COLUMNS
    found = [(feature, curves if several else curves[:1]) for feature, (curves, _) in zip(used, each, strict=False)]
    documents = {feature: counts for feature, (_, counts) in zip(used, each, strict=False)}
    return Curves.of([(feature, curve) for feature, curves in found for curve in curves]), documents


def _over(values: Float64Array, by: Float64Array) -> Float64Array:
    """values / by, and 0 where `by` is."""
    return np.divide(values, by, out=np.zeros(np.shape(values)), where=by > 0.0)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What a regression needs of the queries of each fold; of the c functions, scaled.

    Args:
        xx, xt, tt: float64[F, c, c], [F, c], [F]: weighted sums of products of functions and targets.
        queries: float64[F], the weight of those that teach.
        mean, scale: float64[c], of what the functions say; scale is 0 where that is always the same.
    """

    xx: Float64Array
    xt: Float64Array
    tt: Float64Array
    queries: Float64Array
    mean: Float64Array
    scale: Float64Array


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
    columns = rows.basis.feature.size

    def products(part: _Part, rows_here: Float32Array) -> tuple[Any, ...]:
        x, sizes, t = rows.basis.values(rows_here), part.queries.sizes, target[part.at]
        moments = len(x), x.sum(axis=0), np.einsum("ij,ij->j", x, x)
        span = slice(part.first, part.first + sizes.size)
        weight = np.where(_mean(t * t, part.queries) > 0.0, weights[span], 0.0)
        root = np.repeat(np.sqrt(weight / sizes), sizes)
        x -= np.repeat(_mean(x, part.queries), sizes, axis=0)
        x *= root[:, np.newaxis]
        t = t * root
        of_row = fold[part.of_row]
        order = np.argsort(of_row, kind="stable")
        x, t, ends = x[order], t[order], np.searchsorted(of_row[order], np.arange(FOLDS + 1))
        of_fold = [(x[a:b], t[a:b]) for a, b in pairwise(ends.tolist())]
        return (
            *(z.T @ z for z, _ in of_fold),
            np.array([z.T @ y for z, y in of_fold]),
            np.array([y @ y for _, y in of_fold]),
            np.bincount(fold[span], weight, FOLDS),
            *moments,
        )

    xx = np.zeros((FOLDS, columns, columns))
    others = [np.zeros(shape) for shape in ((FOLDS, columns), FOLDS, FOLDS, (), columns, columns)]
    for some in rows.each(_some(rows.parts, _REGRESSED), products):
        for total, added in zip((*xx, *others), some, strict=True):
            total += added
    xt, tt, queries, count, first, second = others
    mean = first / max(1.0, float(count))
    # What the functions say is between 0 and 1: nothing is lost by the difference of squares.
    variance = second / max(1.0, float(count)) - mean * mean
    scale = np.sqrt(np.where(variance > 1e-9, variance, 0.0))
    inverse = _over(np.ones(columns), scale)
    xx *= np.outer(inverse, inverse)
    return _Sums(xx, xt * inverse, tt, queries, mean, scale)


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
