"""Calibration, which is a strictly increasing map from scores to expected grades.

Documents from queries that the model has not seen are grouped by score, and isotonic regression
makes the mean grades of the groups increase (Zadrozny and Elkan, "Transforming classifier scores
into accurate multiclass probability estimates", KDD 2002). The map is linear between the mean
scores of groups with distinct means, and approaches the extreme grades outside their range, so that
documents keep their order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, DataWarning, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import RESAMPLES, expanded_interval, resampled_sums
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.model.ranking_model import RankingModel, as_model, calibrated_scores
from boostrank.records import CalibrationRecord

_FEW_QUERIES, _FOLDS, _MOST_GROUPS = 20, 5, 100
# Share by which values move towards the middle of the grades, so that the ends are never reached.
_INWARDS = 1e-4
_MOST_RESAMPLED = 2_000  # with more queries, groups of queries are resampled
_NO_RELATION = "these data do not say what a score means: "


@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean prediction and mean grade (`observed`) in bins of documents by prediction, with 95%
    intervals over queries.

    `error` is the expected calibration error, which is the mean of abs(observed - predicted) over
    documents, and its interval. Because of noise, the error is positive even for a perfect map.
    """

    documents: Int64Array
    predicted: Float64Array
    observed: Float64Array
    low: Float64Array
    high: Float64Array
    error: tuple[float, float, float]


def reliability(
    predictions: Float64Array,
    grades: Float64Array,
    queries: QueryIndex,
    *,
    bins: int = 10,
    seed: int = 0,
) -> Reliability:
    """Compare predictions with grades in bins that contain about the same number of documents."""
    group = _groups(predictions, bins)
    query_of_row = queries.of_rows()
    n_groups = int(group.max()) + 1
    n_drawn = min(len(queries), _MOST_RESAMPLED)
    cell = query_of_row % n_drawn * n_groups + group
    weights = queries.each_weight[query_of_row]
    # Sum weights, predictions and grades by (group of queries, bin), and resample the sums.
    columns = np.hstack(
        [
            np.bincount(cell, weights * values, n_drawn * n_groups).reshape(n_drawn, n_groups)
            for values in (np.ones(grades.size), predictions, grades)
        ],
        dtype=np.float64,
    )
    sums = np.vstack([columns.sum(axis=0), resampled_sums(columns, resamples=RESAMPLES, seed=seed)])
    weight, predicted, observed = np.split(sums, 3, axis=1)
    means = np.divide(
        observed, weight, out=np.tile(observed[0] / weight[0], (len(sums), 1)), where=weight > 0.0
    )
    # The first row is of all queries, the others of the resamples.
    errors = np.abs(observed - predicted).sum(axis=1) / weight.sum(axis=1)
    low, high = expanded_interval(means[1:], n_drawn)
    error_interval = expanded_interval(errors[1:], n_drawn)
    error = float(errors[0]), float(min(errors[0], error_interval[0])), float(error_interval[1])
    return Reliability(
        np.bincount(group),
        predicted[0] / weight[0],
        observed=means[0],
        low=low,
        high=high,
        error=error,
    )


def calibrate(model: Any, data: RankingDataset, *, threads: int | None = None) -> RankingModel:
    """Fit a strictly increasing map from scores to expected grades, which
    `predict(calibrated=True)` applies.

    Args:
        model: a model, a booster or a fitted ranker, or the path of a model file.
        data: labelled queries that the model has not seen. With labels 0 and 1, expected grades are
            probabilities.
        threads: number of threads; None for every available core.

    Returns:
        The model with `info.calibration`, which contains the map and its error in 5-fold
        cross-validation by query.

    Raises:
        DataError: if the model was trained on the data, or they have one query or grades that do
            not rise with scores.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> fresh = make_ranking_data(queries=30, seed=2, mean_length=8).dataset
        >>> calibrated = boostrank.calibrate(model, fresh)
        >>> grades = calibrated.predict(fresh, calibrated=True)
        >>> bool(grades.min() >= 0), bool(grades.max() <= fresh.labels.max())
        (True, True)
    """
    data = as_dataset(data)
    ranker = as_model(model)
    data = ranker.check_features(data)
    _check_unseen(ranker, data)
    queries = data.queries
    grades = data.labels
    query_of_row = queries.of_rows()
    n_queries = len(queries)
    if n_queries < 2:
        raise DataError(f"{_NO_RELATION}pass several queries")
    if not np.ptp(grades):
        raise DataError(f"{_NO_RELATION}all grades are equal")
    scores = data.in_row_order(ranker.predict(data, threads=threads))
    weights = queries.each_weight[query_of_row]
    # Predict each fold of queries by the map and the mean grade of the other folds.
    fold = (np.random.default_rng(0).permutation(n_queries) % min(_FOLDS, n_queries))[query_of_row]
    held_out = np.empty(scores.size)
    mean_grades = np.empty(scores.size)
    for in_fold in (fold == held_out_fold for held_out_fold in np.unique(fold)):
        fitted_grades = grades[~in_fold]
        fitted_weights = weights[~in_fold]
        calibration = _fit(scores[~in_fold], fitted_grades, fitted_weights)
        held_out[in_fold] = calibrated_scores(calibration, scores[in_fold])
        mean_grades[in_fold] = np.average(fitted_grades, weights=fitted_weights)
    squares = weights @ (grades - mean_grades) ** 2
    explained = 1.0 - float(weights @ (grades - held_out) ** 2 / squares)
    if explained <= 0.0:
        raise DataError(
            f"{_NO_RELATION}on queries left out of the fit, the mean grade predicts as well"
        )
    if n_queries < _FEW_QUERIES:
        warn_user(
            f"{n_queries} queries are few, so the map may be wrong: pass {_FEW_QUERIES} or more",
            DataWarning,
        )
    record = _fit(scores, grades, weights) | CalibrationRecord(
        queries=n_queries,
        rows=scores.size,
        fingerprint=data.fingerprint,
        error=list(reliability(held_out, grades, queries).error),
        uncalibrated_error=reliability(scores, grades, queries).error[0],
        explained=explained,
    )
    return ranker.altered(info=ranker.info | {"calibration": record})


def _check_unseen(ranker: RankingModel, data: RankingDataset) -> None:
    """Raise DataError if the model was trained on the data, and warn if training read their
    files.
    """
    training_records: list[Mapping[str, Any]] = [
        record for record in (ranker.info.data, ranker.info.renewed) if record
    ]
    if any(record.get("fingerprint") == data.fingerprint for record in training_records):
        raise DataError(
            "the model was trained on these data, where its scores are too good: pass other queries"
        )
    training_files = {
        os.path.abspath(name) for record in training_records for name in record.get("files", ())
    }
    for name in data.provenance.files:
        if os.path.abspath(name) in training_files:
            warn_user(
                f"{name}: training read this file; scores are too good for the same queries",
                DataWarning,
            )


def _fit(scores: Float64Array, grades: Float64Array, weights: Float64Array) -> CalibrationRecord:
    from scipy.optimize import isotonic_regression

    group = _groups(scores, min(_MOST_GROUPS, math.isqrt(scores.size)))
    group_weights = np.bincount(group, weights)
    score_sums = np.bincount(group, weights * scores)
    grade_sums = np.bincount(group, weights * grades)
    means, block_of_group = np.unique(
        isotonic_regression(grade_sums / group_weights, weights=group_weights).x,
        return_inverse=True,
    )
    if means.size < 2:
        raise DataError(f"{_NO_RELATION}grades do not rise with the score")
    ends = [float(grades.min()), float(grades.max())]
    values = means + _INWARDS * (sum(ends) / 2.0 - means)
    block_weights = np.bincount(block_of_group, group_weights)
    mean_scores = np.bincount(block_of_group, score_sums) / block_weights
    return {"scores": mean_scores.tolist(), "values": values.tolist(), "ends": ends}


def _groups(values: Float64Array, count: int) -> Int64Array:
    """Number at most `count` groups of about equal size, by ascending value. Equal values are in
    the same group.
    """
    edges = np.unique(np.sort(values)[np.arange(1, count) * values.size // count])
    return np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)[1].astype(
        np.int64
    )
