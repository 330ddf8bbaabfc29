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
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from boostrank.core.conventions import Gain, above_least, weighted_gains
from boostrank.core.errors import DataWarning, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import whole_of
from boostrank.engines.engine_params import Limits
from boostrank.engines.trees import LinearStart
from boostrank.fit.start.ridge import (
    FOLDS,
    RANKED,
    REGRESSED,
    Part,
    Rows,
    Source,
    Sums,
    divide,
    each_of,
    parts_of,
    solved,
    spread,
    sums_of,
    targets,
)
from boostrank.fit.start.steps import MOVED, RARE, Values, isotonic, simplified
from boostrank.kernels.curves import Curve, Curves
from boostrank.kernels.jit import run_parallel

SHARE = 0.5
"""Share of the best scale that is used."""
MOST_FEATURES = 2_000
MOST_COLUMNS = 2_000
"""Maximum number of regression columns. Above it, only feature ranks are used."""
_MOST_SCALE = 100.0
_NUMBERS_SHARED = 32_000_000  # limit on the size of sums by fold
_WIDE = (
    "the linear start uses {:,} of the {:,} features, those with the highest single correlation"
    " with the labels; trees also use the other {:,}"
)

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
        parts = ((data, whole_of(data.features) is not None) for data in sets[1:])
        return [
            self.scores,
            *(scores_of(self.start, data, threads) if part else None for data, part in parts),
        ]


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

    def scores(
        self, data: Source, fold: Int64Array, threads: int
    ) -> tuple[Float64Array, Int64Array]:
        """Return initial scores for training rows, float64[N], and the number of rows in each step.

        Args:
            fold: int64[Q], fold of each query, from `folds`.
        """
        rows = Rows(
            data, parts_of(data.queries, data.features.shape[1], fold), self.columns, threads
        )
        scores, counts = rows.join_scores(rows.parts, self.predicted, self.whole)
        return scores * self.scale, counts

    def predicted(self, part: Part, x: Float32Array) -> tuple[Float64Array, Int64Array]:
        """Return the scores and the numbers of rows for one part, without scaling."""
        return self.whole.summed(x, self._levels, part.of_row(part.fold))

    @cached_property
    def _levels(self) -> Float64Array:
        return np.stack([curves.levels for curves in self.others])

    def cross_fitted(
        self, names: tuple[str, ...], scores: Float64Array, counts: Int64Array
    ) -> CrossFitted:
        """Return the initial scores with the model's start, which is the regression on all rows."""
        curves = {
            int(self.columns[position]): curve.times(self.scale)
            for position, curve in self.whole.with_documents(counts)
        }
        start = LinearStart(names, simplified(curves, self.moved))
        model = "ridge regression within queries, cross-fitted, in steps"
        return CrossFitted(
            start,
            scores,
            {"model": model, "ridge": self.ridge, "scale": self.scale, "folds": FOLDS},
        )


@_one_blas_thread()
def cross_fitted(
    data: RankingDataset, gain: Gain, threads: int = 1, limits: Limits | None = None
) -> CrossFitted:
    """Fit a cross-fitted start.

    Args:
        data: N documents with d features, in memory or on disk. With more than about 60,000
            documents, a sample of whole queries is used. With more than `MOST_FEATURES` features,
            those with the highest single correlation with the gains are used.
        limits: constraints. Features that trees cannot use are ignored.
    """
    rows = _rows_of(data, weighted_gains(data.labels, gain, data.queries), threads, limits)
    return _started(rows, _regressed(rows))


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
        self,
        fold: int,
        data: RankingDataset,
        gain: Gain,
        threads: int = 1,
        limits: Limits | None = None,
    ) -> CrossFitted:
        """Fit a start, as `cross_fitted` does, to the rows outside a fold."""
        if self._shared is None:
            limits = limits or Limits.none(data.n_features)
            self._shared = self._learnt(data.features.whole.data, gain, threads, limits)
        whole, basis, sums = self._shared
        if sums is None:
            return cross_fitted(data, gain, threads, limits)
        parts = parts_of(data.queries, data.n_features, self._inner[self._fold != fold])
        rows = replace(
            whole, data=data, parts=parts, gains=weighted_gains(data.labels, gain, data.queries)
        )
        return _started(
            rows, _solutions(rows, basis, sums.of_groups(np.arange(self._count) != fold))
        )

    def _learnt(
        self, data: RankingDataset, gain: Gain, threads: int, limits: Limits
    ) -> tuple[Rows, _Basis, Sums | None]:
        """Compute the shared data, but no sums if labels select the features or if the sums would
        be large.
        """
        pairs = self._fold * FOLDS + self._inner
        columns = np.setdiff1d(np.arange(data.n_features), limits.unused)
        parts = parts_of(data.queries, data.n_features, pairs)
        # Gives each training its usual number of documents.
        most = REGRESSED * self._count // (self._count - 1)
        gains = weighted_gains(data.labels, gain, data.queries)
        rows = Rows(data, parts, columns, threads, gains, limits.direction[columns], most)
        if columns.size > MOST_FEATURES:
            return rows, (Curves.from_pairs([]), []), None
        basis = _basis(rows.together(spread(parts, RANKED)), threads)
        numbers = self._count * FOLDS * basis[0].feature.size ** 2
        return (
            rows,
            basis,
            sums_of(rows, basis[0], self._count * FOLDS) if numbers <= _NUMBERS_SHARED else None,
        )


@_one_blas_thread()
def learnt(data: Source, gains: Any, threads: int = 1, limits: Limits | None = None) -> Regressions:
    """Fit only the regressions, which are equal to those in `cross_fitted`.

    Args:
        data: N rows, of which only the parts in `sampled` are read.
        gains: float64[N], of which only the same slices are read.
        threads, limits: as in `cross_fitted`.
    """
    rows = _rows_of(data, gains, threads, limits)
    regressions = _regressed(rows)
    scores, _ = rows.join_scores(rows.some, regressions.predicted, regressions.whole)
    return _scaled(regressions, rows, scores)


def scores_of(start: LinearStart, data: Source, threads: int = 1) -> Float64Array:
    """Return the scores by a start in steps, float64[N]."""
    columns = np.sort(np.array(list(start.curves), np.int64))
    curves = Curves.from_pairs(
        [(number, start.curves[column]) for number, column in enumerate(columns.tolist())]
    )
    rows = Rows(data, parts_of(data.queries, data.features.shape[1]), columns, threads)
    return rows.join_scores(
        rows.parts, lambda _, x: curves.summed(x, curves.levels[np.newaxis]), curves
    )[0]


def _rows_of(data: Source, gains: Any, threads: int, limits: Limits | None) -> Rows:
    """Return all rows with the features that a start uses."""
    limits = limits or Limits.none(data.features.shape[1])
    columns = np.setdiff1d(np.arange(data.features.shape[1]), limits.unused)
    rows = Rows(
        data,
        parts_of(data.queries, data.features.shape[1]),
        columns,
        threads,
        gains,
        regressed=REGRESSED,
    )
    if columns.size > MOST_FEATURES:
        warn_user(
            _WIDE.format(MOST_FEATURES, columns.size, columns.size - MOST_FEATURES), DataWarning
        )
        rows = replace(rows, columns=_best_columns(rows))
    return replace(rows, direction=limits.direction[rows.columns])


def _best_columns(rows: Rows) -> Int64Array:
    """Return the `MOST_FEATURES` columns with the highest single correlation with the targets, in
    ascending order.

    Features are compared by the larger of two correlations within queries, for sign(x) ln(1 + |x|)
    and for x != 0. Both transformations preserve sparsity.
    """
    width = rows.data.features.shape[1]

    def sums(part: Part) -> Float64Array:
        x = sparse.csr_matrix(rows.data.features[part.at])
        x.data = np.where(np.isfinite(x.data), x.data, 0.0)
        target, weight = targets(rows.gains[part.at], part.queries)
        weight = weight / part.queries.sizes
        of_row, of_query = part.of_row(weight), part.of_row(np.arange(weight.size))
        # Weighted products and squares of x minus its query mean, without centring x, which would
        # make it dense.
        each = sparse.csr_matrix((np.ones(of_query.size), (of_query, np.arange(of_query.size))))
        columns = []
        for values in (np.sign(x.data) * np.log1p(np.abs(x.data)), np.sign(np.abs(x.data))):
            y = sparse.csr_matrix((values.astype(np.float64), x.indices, x.indptr), x.shape)
            of_means = (each @ y).power(2).T @ (weight / part.queries.sizes)
            columns.append((y.T @ (target * of_row), y.power(2).T @ of_row - of_means))
        return np.stack(columns, axis=1)

    products, squares = sum(
        each_of(spread(rows.parts, RANKED), sums, rows.threads, 4 * width), np.zeros((2, 2, width))
    )
    worth = divide(products**2, np.where(squares > 1e-9, squares, 0.0)).max(axis=0)
    best = np.argsort(-worth[rows.columns], kind="stable")[:MOST_FEATURES]
    return np.sort(rows.columns[best])


def _basis(rows: Float32Array, threads: int) -> _Basis:
    """Return step functions for each feature (rank, value, is zero, is missing) and document counts
    of the steps.
    """

    def learnt(feature: int) -> tuple[list[Curve], Float64Array]:
        column = rows[:, feature]
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

    features = run_parallel(learnt, range(rows.shape[1]), threads) if rows.size else []
    each, documents = [curves for curves, _ in features], [counts for _, counts in features]
    if sum(map(len, each)) > MOST_COLUMNS:
        each = [curves[:1] for curves in each]
    return (
        Curves.from_pairs(
            [(feature, curve) for feature, curves in enumerate(each) for curve in curves]
        ),
        documents,
    )


def _regressed(rows: Rows) -> Regressions:
    basis = _basis(rows.together(spread(rows.parts, RANKED)), rows.threads)
    return _solutions(rows, basis, sums_of(rows, basis[0]))


def _solutions(rows: Rows, basis: _Basis, sums: Sums) -> Regressions:
    """Solve all regressions, without scaling, from the sums over each of `FOLDS` folds."""
    weights, ridge = solved(sums, rows.threads)
    *others, whole = _curves(*basis, weights, sums, rows.direction)
    return Regressions(rows.columns, whole, tuple(others), ridge)


def _curves(
    basis: Curves,
    documents: list[Float64Array],
    weights: Float64Array,
    sums: Sums,
    direction: Int64Array | None,
) -> list[Curves]:
    """Combine the basis into one monotone step function per feature for each row of the weights,
    float64[r, c].
    """
    assert direction is not None
    each, used = divide(weights, sums.scale), sums.scale > 0.0
    functions = list(basis)
    combined: list[list[tuple[int, Curve]]] = [[] for _ in weights]
    for feature in np.unique(basis.feature[used]).tolist():
        columns = np.flatnonzero((basis.feature == feature) & used)
        bounds = max(
            (functions[j][1].bounds for j in columns.tolist()), key=len
        )  # others have the same, or none
        levels = np.stack(
            [np.broadcast_to(functions[j][1].constant, bounds.size + 1) for j in columns.tolist()]
        )
        missing = np.array([functions[j][1].missing for j in columns.tolist()])
        weight = each[:, columns]
        less = weight @ sums.mean[columns]
        for r, (constant, none) in enumerate(
            zip(weight @ levels - less[:, np.newaxis], weight @ missing - less, strict=True)
        ):
            curve = Curve(bounds, constant, float(none))
            combined[r].append(
                (feature, isotonic(curve, documents[feature], int(direction[feature])))
            )
    return [Curves.from_pairs(pairs) for pairs in combined]


def _started(rows: Rows, regressions: Regressions) -> CrossFitted:
    """Scale the regressions, and return the start with its initial scores."""
    scores, counts = rows.join_scores(rows.parts, regressions.predicted, regressions.whole)
    regressions = _scaled(
        regressions, rows, np.concatenate([np.zeros(0), *(scores[part.at] for part in rows.some)])
    )
    return regressions.cross_fitted(
        tuple(rows.data.feature_names), scores * regressions.scale, counts
    )


def _scaled(regressions: Regressions, rows: Rows, scores: Float64Array) -> Regressions:
    """Determine the scale of the scores from the scores for `rows.some`."""
    gains = [above_least(rows.gains[p.at], p.queries) for p in rows.some]
    sizes = np.concatenate([np.zeros(0, np.int64), *(part.queries.sizes for part in rows.some)])
    weights = np.concatenate([np.zeros(0), *(part.queries.each_weight for part in rows.some)])
    queries = QueryIndex.from_sizes(sizes, weights=weights)
    scale = SHARE * _softmax_scale(scores, np.concatenate([np.zeros(0), *gains]), weights, queries)
    deviation = float(scores.std()) if scores.size else 0.0
    moved = MOVED * scale * deviation
    return replace(regressions, scale=scale, moved=moved)


def _softmax_scale(
    scores: Float64Array, gains: Float64Array, weights: Float64Array, queries: QueryIndex
) -> float:
    """Return the factor at which the softmax of the scores has the lowest cross entropy with the
    shares of the gain.
    """
    starts, sizes = queries.ptr[:-1], queries.sizes
    total = np.repeat(np.add.reduceat(gains, starts), sizes)
    shares = np.divide(gains, total, out=np.zeros(gains.size), where=total > 0.0) * np.repeat(
        weights, sizes
    )
    taught = np.add.reduceat(shares, starts)
    target = float(shares @ scores)
    centred = scores - np.repeat(np.maximum.reduceat(scores, starts), sizes)
    if not np.any(centred):
        return 0.0
    top = float(taught @ np.maximum.reduceat(scores, starts))

    def loss(scale: float) -> float:
        return float(taught @ np.log(np.add.reduceat(np.exp(scale * centred), starts))) + scale * (
            top - target
        )

    return float(minimize_scalar(loss, bounds=(0.0, _MOST_SCALE), method="bounded").x)
