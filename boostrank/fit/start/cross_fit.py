"""Cross-fitted linear start, which is a ridge regression within queries. Each training row starts
from a prediction by regressions on folds that do not contain the row.

    w = argmin (1/Q) sum_q (v_q/n_q) sum_i (t_i - x_i w)^2 + ridge |w|^2

x: scaled functions of the features, minus their mean over the query. t: gains, minus their mean
over the query, divided by their deviation there. v: query weights with mean 1. The regression
ignores what a query's documents have in common, and long queries have no more weight than short
ones. Document weights multiply gains.

Each feature enters in three forms. Its rank among the training documents is robust to heavy tails
and future outliers. The others are its value, and whether it is 0 or missing, which means absence
in ranking data. All are step functions (`fit.start.steps`), so the start is a step function of each
feature, which trees can represent. With a monotone constraint, the function is replaced by the
closest monotone function in all regressions.

Trees that start from the regression's predictions of its own training rows would build on its
overfitting. Therefore, they start from predictions by regressions on the other folds (stacking:
Wolpert 1992; cross-fitting: Chernozhukov et al. 2018), while the model contains the regression on
all rows. The ridge minimises the squared error over the folds. Scores are scaled by half of the
factor at which a softmax over each query fits the query's gains best. At the full scale, pairs that
the regression ranks correctly would have almost no gradient (`experiments/peers`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from boostrank.core.conventions import Gain, above_least, weighted_gains
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import joined_rows, spans, whole_of
from boostrank.engines.engine_params import Limits
from boostrank.engines.trees import LinearStart
from boostrank.fit.start.ridge import (
    FITTED_DOCUMENTS,
    FOLDS,
    RANKED_DOCUMENTS,
    Part,
    Rows,
    Sampled,
    Slices,
    Source,
    Sums,
    divide,
    folds,
    parts_of,
    solved,
    spread,
    sums_of,
)
from boostrank.fit.start.steps import MOVED, RARE, Values, isotonic, simplified
from boostrank.kernels.curves import Curve, Curves
from boostrank.kernels.jit import run_parallel

SHARE = 0.5
"""Share of the best scale that is used."""
MOST_FEATURES = 2_000
"""Maximum number of features that trees can use; with more, a training has no linear start."""
MOST_COLUMNS = 2_000
"""Maximum number of regression columns. Above it, only feature ranks are used."""
_MOST_SCALE = 100.0
_NUMBERS_SHARED = 32_000_000  # limit on the size of sums by fold

_Basis = tuple[Curves, list[Float64Array]]


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """A linear start with initial scores of the training rows.

    Args:
        scores: float64[N], predictions for the training rows by regressions on folds that do not
            contain them.
    """

    start: LinearStart
    scores: Float64Array
    description: dict[str, Any]

    def scores_of(self, sets: Sequence[RankingDataset], threads: int) -> list[Float64Array | None]:
        """Return the initial scores for the training set and other sets, or None if the engine can
        compute them.
        """
        scores: list[Float64Array | None] = [self.scores]
        for data in sets[1:]:
            is_part = whole_of(data.features) is not None
            scores.append(scores_of(self.start, data, threads) if is_part else None)
        return scores


StartFitter = Callable[[RankingDataset, Gain, int, Limits], CrossFitted]
"""Fits the linear start of a training: (training set, gain, threads, limits) -> start."""


@contextlib.contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, because several threads would change the order of summation."""
    from threadpoolctl import threadpool_limits  # deferred: it changes the environment

    with threadpool_limits(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True, eq=False)
class Regressions:
    """The fitted regressions.

    Args:
        columns: int64[c], the features used, in ascending order.
        whole, others: functions of features that sum to the score, for the regression on all rows
            and for each regression that leaves out a fold. All have the same steps.
        moved: maximum change of a score when the start is simplified.
    """

    columns: Int64Array
    whole: Curves
    others: tuple[Curves, ...]
    ridge: float
    scale: float = 1.0
    moved: float = 0.0

    def scores(self, rows: Rows, parts: Sequence[Part]) -> tuple[Float64Array, Int64Array]:
        """Return the scores of several parts, without scaling, and the number of rows in each
        step.
        """
        levels = np.stack([curves.levels for curves in self.others])
        return rows.join_scores(parts, self.whole, levels)

    def cross_fitted(
        self, names: tuple[str, ...], scores: Float64Array, counts: Int64Array
    ) -> CrossFitted:
        """Return the model's start, which is the regression on all rows, with the initial scores
        from these scores of the training rows.
        """
        curves = {
            int(self.columns[position]): curve.times(self.scale)
            for position, curve in self.whole.with_documents(counts)
        }
        start = LinearStart(names, simplified(curves, self.moved))
        model = "ridge regression within queries, cross-fitted, in steps"
        description = {"model": model, "ridge": self.ridge, "scale": self.scale, "folds": FOLDS}
        return CrossFitted(start, scores * self.scale, description)


@_one_blas_thread()
def cross_fitted(
    data: RankingDataset, gain: Gain, threads: int = 1, limits: Limits | None = None
) -> CrossFitted:
    """Fit a cross-fitted start.

    Args:
        data: N documents with d features, in memory or on disk. With more than about 60,000
            documents, a sample of whole queries is used.
        limits: constraints. Features that trees cannot use are ignored.
    """
    limits = limits or Limits.none(data.n_features)
    rows = _rows_of(data, weighted_gains(data.labels, gain, data.queries), threads, limits)
    return _score_rows(_regress(rows), rows)


class FoldStarts:
    """Linear starts for trainings that each leave out one fold. Quantiles and sums by fold are
    computed once.

    No start uses a label from its held-out fold. Quantiles do not depend on labels and are computed
    from all rows.

    Args:
        fold: int64[Q], fold of each query, starting from 0.
        inner: int64[Q], inner fold of each query, below `FOLDS`, for the trainings that leave out a
            different fold.
    """

    def __init__(self, fold: Int64Array, inner: Int64Array) -> None:
        self._fold, self._inner = fold, inner
        self._count = int(fold.max()) + 1
        self._shared: tuple[Rows, _Basis, Sums | None] | None = None

    @_one_blas_thread()
    def without(
        self, fold: int, data: RankingDataset, gain: Gain, threads: int, limits: Limits
    ) -> CrossFitted:
        """Fit a start, as `cross_fitted` does, to the rows outside a fold."""
        if self._shared is None:
            self._shared = self._learn(data.features.whole.data, gain, threads, limits)
        whole, basis, sums = self._shared
        if sums is None:
            return cross_fitted(data, gain, threads, limits)
        parts = parts_of(data, self._inner[self._fold != fold])
        gains = weighted_gains(data.labels, gain, data.queries)
        rows = replace(whole, data=data, parts=parts, gains=gains)
        sums_without = sums.of_groups(np.arange(self._count) != fold)
        return _score_rows(_solve(rows, basis, sums_without), rows)

    def _learn(
        self, data: RankingDataset, gain: Gain, threads: int, limits: Limits
    ) -> tuple[Rows, _Basis, Sums | None]:
        """Compute the shared data, but no sums if they would be large."""
        columns = np.setdiff1d(np.arange(data.n_features), limits.unused)
        parts = parts_of(data, self._fold * FOLDS + self._inner)
        # Gives each training its usual number of documents.
        documents = FITTED_DOCUMENTS * self._count // (self._count - 1)
        gains = weighted_gains(data.labels, gain, data.queries)
        rows = Rows(data, parts, columns, threads, gains, limits.direction[columns], documents)
        basis, sums, count = _basis(rows), None, self._count * FOLDS
        if count * basis[0].feature.size ** 2 <= _NUMBERS_SHARED:
            sums = sums_of(rows, basis[0], count)
        return rows, basis, sums


def start_together(
    collective: Any, data: RankingDataset, gain: Gain, threads: int, limits: Limits
) -> CrossFitted:
    """Fit the start on the rows of all workers, as `cross_fitted` does on one machine with the same
    shards. The first worker collects a sample of tens of thousands of rows and fits the
    coefficients.

    Args:
        collective: the workers, with the `parts` of `data` and the `order` of all parts.
        data: this worker's rows.
    """
    names, shards, order = data.feature_names, collective.parts, collective.order
    sizes_and_weights = [(shard.queries.sizes, shard.queries.each_weight) for shard in shards]
    layout = collective.share(sizes_and_weights)
    sizes, weights = zip(*(layout[rank][number] for rank, number in order), strict=True)
    queries = QueryIndex.from_sizes(np.concatenate(sizes), weights=np.concatenate(weights))
    ends = np.cumsum([0, *(int(counts.sum()) for counts in sizes)])
    firsts = np.cumsum([0, *(shard.n_documents for shard in shards)])
    gains = weighted_gains(data.labels, gain, data.queries)
    # Find the worker, shard and rows of each sampled part, and send them to the first worker.
    parts = parts_of(Sampled(queries, names, None))
    sampled = {*spread(parts, RANKED_DOCUMENTS), *spread(parts, FITTED_DOCUMENTS)}
    sent = []
    for part in sorted(sampled, key=lambda part: part.at.start):
        for shard, a, b in spans(ends, part.at):
            rank, number = order[shard]
            if rank == collective.rank:
                span = slice(firsts[number] + a, firsts[number] + b)
                sent.append((part.at.start, shard, data.features[span], gains[span]))
    received, regressions = collective.share(sent, reader=0), None
    if collective.rank == 0:
        shards_by_part = sorted(chain(*received), key=itemgetter(0, 1))
        features, gains_of_part = {}, {}
        for first, of_part in groupby(shards_by_part, key=itemgetter(0)):
            _, _, shard_features, shard_gains = zip(*of_part, strict=True)
            features[first] = joined_rows(shard_features)
            gains_of_part[first] = joined_rows(shard_gains)
        source = Sampled(queries, names, Slices(features))
        with _one_blas_thread():
            rows = _rows_of(source, Slices(gains_of_part), threads, limits)
            unscaled = _regress(rows)
            regressions = _scale(unscaled, rows, unscaled.scores(rows, rows.some)[0])
    shared: Regressions = collective.share(regressions)[0]
    # Score the rows of this worker with the models of their folds.
    split = np.cumsum([counts.size for counts in sizes])[:-1]
    fold_of_shards = zip(order, np.split(folds(len(queries)), split), strict=True)
    of_rank = [fold for (rank, _), fold in fold_of_shards if rank == collective.rank]
    parts = parts_of(data, np.concatenate(of_rank))
    scores, counts = shared.scores(Rows(data, parts, shared.columns, threads), parts)
    counts = collective.all_reduce(counts.astype(np.float64)).astype(np.int64)
    return shared.cross_fitted(names, scores, counts)


def scores_of(start: LinearStart, data: Source, threads: int = 1) -> Float64Array:
    """Return the scores by a start in steps, float64[N]."""
    columns = np.sort(np.array(list(start.curves), np.int64))
    functions = [start.curves[column] for column in columns.tolist()]
    curves = Curves.from_pairs(list(enumerate(functions)))
    fold = np.zeros(len(data.queries), np.int64)
    rows = Rows(data, parts_of(data, fold), columns, threads)
    return rows.join_scores(rows.parts, curves, curves.levels[np.newaxis])[0]


def _rows_of(data: Source, gains: Any, threads: int, limits: Limits) -> Rows:
    """Return all rows with the features that a start uses."""
    columns = np.setdiff1d(np.arange(len(data.feature_names)), limits.unused)
    direction = limits.direction[columns]
    return Rows(data, parts_of(data), columns, threads, gains, direction, FITTED_DOCUMENTS)


def _basis(rows: Rows) -> _Basis:
    """Return step functions for each feature (rank, value, is zero, is missing) and document counts
    of the steps.
    """
    sample = rows.together(spread(rows.parts, RANKED_DOCUMENTS))

    def learn(feature: int) -> tuple[list[Curve], Float64Array]:
        column = sample[:, feature]
        values, curves = Values.from_column(column), []
        if values.distinct.size:
            curves.append(values.in_steps(values.ranks, 0.5))
            if values.bounds.size > 1:  # otherwise equivalent to the rank
                low, high = values.distinct[0], values.distinct[-1]
                share = (values.distinct - low) / (high - low)
                curves.append(values.in_steps(share, values.mean(share)))
            zero = (values.distinct == 0.0).astype(np.float64)
            if RARE < values.mean(zero) < 1.0 - RARE:
                curves.append(values.in_steps(zero, values.mean(zero)))
        if RARE < np.isnan(column).mean() < 1.0 - RARE:
            curves.append(Curve(np.zeros(0), np.array([0.0]), 1.0))
        return curves, values.documents

    features = run_parallel(learn, range(sample.shape[1]), rows.threads)
    each, documents = [curves for curves, _ in features], [counts for _, counts in features]
    if sum(map(len, each)) > MOST_COLUMNS:
        each = [curves[:1] for curves in each]
    pairs = [(feature, curve) for feature, curves in enumerate(each) for curve in curves]
    return Curves.from_pairs(pairs), documents


def _regress(rows: Rows) -> Regressions:
    basis = _basis(rows)
    return _solve(rows, basis, sums_of(rows, basis[0]))


def _solve(rows: Rows, basis: _Basis, sums: Sums) -> Regressions:
    """Solve all regressions, without scaling, from the sums over each of `FOLDS` folds."""
    weights, ridge = solved(sums, rows.threads)
    *others, whole = _curves(*basis, weights, sums, rows.direction)
    return Regressions(rows.columns, whole, tuple(others), ridge)


def _scale(regressions: Regressions, rows: Rows, scores: Float64Array) -> Regressions:
    """Determine the scale of the scores from the scores for `rows.some`."""
    indices = [part.queries for part in rows.some]
    gains = [above_least(rows.gains[part.at], part.queries) for part in rows.some]
    sizes = np.concatenate([index.sizes for index in indices])
    weights = np.concatenate([index.each_weight for index in indices])
    queries = QueryIndex.from_sizes(sizes, weights=weights)
    scale = SHARE * _softmax_scale(scores, np.concatenate(gains), queries)
    return replace(regressions, scale=scale, moved=MOVED * scale * float(scores.std()))


def _curves(
    basis: Curves,
    documents: list[Float64Array],
    weights: Float64Array,
    sums: Sums,
    direction: Any,
) -> list[Curves]:
    """Combine the basis into one monotone step function per feature for each row of the weights,
    float64[r, c].
    """
    scaled_weights, varies = divide(weights, sums.scale), sums.scale > 0.0
    functions = [curve for _, curve in basis]
    combined: list[list[tuple[int, Curve]]] = [[] for _ in weights]
    for feature in np.unique(basis.feature[varies]).tolist():
        columns = np.flatnonzero((basis.feature == feature) & varies)
        curves = [functions[column] for column in columns.tolist()]
        # All with bounds have the same.
        bounds = max((curve.bounds for curve in curves), key=len)
        levels = np.stack([np.broadcast_to(curve.constant, bounds.size + 1) for curve in curves])
        missing = np.array([curve.missing for curve in curves])
        weight = scaled_weights[:, columns]
        offsets = weight @ sums.mean[columns]
        level_sums, missing_sums = (
            weight @ levels - offsets[:, np.newaxis],
            weight @ missing - offsets,
        )
        for pairs, level_sum, missing_sum in zip(combined, level_sums, missing_sums, strict=True):
            curve = Curve(bounds, level_sum, float(missing_sum))
            curve = isotonic(curve, documents[feature], int(direction[feature]))
            pairs.append((feature, curve))
    return [Curves.from_pairs(pairs) for pairs in combined]


def _score_rows(regressions: Regressions, rows: Rows) -> CrossFitted:
    """Scale the regressions, and return the start with the initial scores of all rows."""
    scores, counts = regressions.scores(rows, rows.parts)
    sample = np.concatenate([scores[part.at] for part in rows.some])
    regressions = _scale(regressions, rows, sample)
    return regressions.cross_fitted(tuple(rows.data.feature_names), scores, counts)


def _softmax_scale(scores: Float64Array, gains: Float64Array, queries: QueryIndex) -> float:
    """Return the factor at which the softmax of the scores has the lowest cross entropy with the
    shares of the gain.
    """
    starts, sizes = queries.ptr[:-1], queries.sizes
    total = np.repeat(np.add.reduceat(gains, starts), sizes)
    shares = np.divide(gains, total, out=np.zeros(gains.size), where=total > 0.0)
    shares = shares * np.repeat(queries.each_weight, sizes)
    query_share, target = np.add.reduceat(shares, starts), float(shares @ scores)
    highest = np.maximum.reduceat(scores, starts)
    centred = scores - np.repeat(highest, sizes)
    if not np.any(centred):
        return 0.0
    top = float(query_share @ highest)

    def loss(scale: float) -> float:
        sums = np.add.reduceat(np.exp(scale * centred), starts)
        return float(query_share @ np.log(sums)) + scale * (top - target)

    return float(minimize_scalar(loss, bounds=(0.0, _MOST_SCALE), method="bounded").x)
