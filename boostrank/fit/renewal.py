"""Leaf values of trained trees, computed again from all queries while the splits stay.

    value_l = -rate G_l / (H_l + lambda)

G_l, H_l: sums of the objective's gradient and Hessian over the rows in leaf l, at the scores of the
trees before. A training that was stopped on held-out queries has not seen them; renewed, its leaves
learn from every query. The rows that trained the trees give the training's own values again, up to
the rounding of its sums.

Source: Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics
2001, algorithm 1, whose second step is applied to more rows than its first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from msgspec import structs

from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Array, Float64Array, ParamValues
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.engines import get_backend
from boostrank.engines.base import LEAVES, Backend, PredictRequest
from boostrank.fit.plan import Training
from boostrank.fit.run import begin
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.objective.bound import BoundObjective
from boostrank.objective.mixture import objective_from_dict
from boostrank.records import RenewalRecord

_ROWS = 1 << 16  # rows whose leaves are found together
_NOT_REFITTED = "the leaves of this model cannot be refitted; train a new one"
_OF_CATEGORIES = "categorical splits have a penalty of their own"
_CHANGES_LEAVES = (
    "lambda_l1",
    "reg_alpha",
    "max_delta_step",
    "path_smooth",
    "monotone_constraints",
)
"""Parameters with which a leaf has another value than the equation gives."""


def renew_leaves(model: RankingModel, training: Training) -> RankingModel:
    """Return the model with its leaves computed from the training's training set.

    Args:
        model: a model of this training, which is cut to its best rounds.
        training: the training with all queries as its training set.

    Returns:
        The renewed model. The same model, if it continues another, its objective or learning rate
        changed between rounds, its objective is not boostrank's, it has categories or several trees
        a round, or `find_other_rule` gives a reason.
    """
    objective, engine = training.objective, training.engine
    if training.init_model is not None or (model.info.training or {}).get("mixed_steps"):
        return model
    params = engine.params.resolve_names(training.params)
    if objective is None or training.train_set.categorical or find_other_rule(engine, params):
        return model
    parsed = engine.format.parse(model.to_bytes())
    values = engine.format.leaf_values(parsed)
    if len(values) != model.best_iteration:
        return model
    # The leaf of each row in each grown tree, and the scores before the first of them.
    (data,) = training.rows
    _, start = begin(training, data)
    leaves = _find_leaves(model, data.features, values, training.n_threads)
    scores = np.zeros(data.n_documents) if start is None else start.scores.copy()
    bound = objective.bind(data.labels, data.queries)
    renewed = _renew_trees(bound, scores, leaves, values, params)
    # The model keeps its splits, and starts from the regression on all rows.
    curves = {} if start is None else start.start.curves
    body = engine.format.with_leaves(parsed, renewed, curves)
    if training.fill:
        body = engine.format.filled(body, training.fill_values)
    booster = engine.load(body).finished(training.categories_by_column)
    record = {"renewed": _describe(training.train_set)}
    return model.altered(booster=booster, info=model.info | record)


def refit(
    model: Any, data: RankingDataset, *, keep: float = 0.0, threads: int | None = None
) -> RankingModel:
    """Return a model with the same splits whose leaves are computed from other data.

    New judgements or new documents change what a leaf should say long before they change where
    trees split. A refit costs one pass over the rows a tree, exports as before, and needs no
    validation set.

    Args:
        model: a model of boostrank with its record, or the path of its file: one training, or an
            average.
        data: N labelled documents with the model's features.
        keep: share of its old value that each leaf keeps, from 0 to 1.
        threads: number of threads; None for every available core. The result does not depend on it.

    Returns:
        The refitted model, without calibration. Its linear start stays, and leaves without a row
        keep their value.

    Raises:
        ModelError: if the objective is not recorded or not boostrank's, or leaves follow another
            rule.
        DataError: if the features differ, or no query has documents of different gain.
        ParameterError: if `keep` is not between 0 and 1.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> january = make_ranking_data(queries=40, seed=1).dataset
        >>> february = make_ranking_data(queries=40, seed=2).dataset
        >>> params = {"objective": "xe-ndcg", "verbosity": -1}
        >>> model = boostrank.train(params, january, num_boost_round=5)
        >>> boostrank.refit(model, february, keep=0.5).num_trees() == model.num_trees()
        True
    """
    data = as_dataset(data)
    if not (isinstance(keep, Real) and 0.0 <= keep <= 1.0):
        raise ParameterError(f"keep={keep!r} must be between 0 and 1")
    ranker, threads = as_model(model), resolve_threads(threads)
    engine = get_backend(ranker.backend)
    if ranker.categories:
        raise ModelError(f"{_NOT_REFITTED}: {_OF_CATEGORIES}")
    parsed = engine.format.parse(ranker.to_bytes())
    values, gain = engine.format.leaf_values(parsed), ranker.info.gain
    parts = list(_parts_of(ranker, engine, len(values)))
    recorded_trees = sum(part.rounds for part in parts)
    if recorded_trees != len(values):
        raise ModelError(
            f"the record counts {recorded_trees} trees, but the file has {len(values)}"
        )
    if gain is not None and data.gain is None:
        data = data.with_gain(gain)
    if gain != data.gain:
        raise DataError(
            f"the model learnt the gain {gain!r}, but the data have {data.gain!r}: read them"
            " without gain="
        )
    # What is left of the scores without the grown trees is the linear start, which the parts that
    # began with it share.
    features = ranker.columns.of_data(ranker.check_features(data), threads)
    leaves = _find_leaves(ranker, features, values, threads)
    request = PredictRequest(rounds=ranker.best_iteration, threads=threads)
    start = ranker._booster.predict(features, request)
    for leaf, old_values in zip(leaves, values, strict=True):
        start -= old_values[leaf]
    begun = sum(part.weight for part in parts if part.starts) or 1.0
    renewed: list[Float64Array] = []
    for part in parts:
        trees = slice(len(renewed), len(renewed) + part.rounds)
        scores = start / begun if part.starts else np.zeros(data.n_documents)
        objective = part.objective.bind(data.labels, data.queries)
        unweighted = [old_values / part.weight for old_values in values[trees]]
        new_values = _renew_trees(objective, scores, leaves[trees], unweighted, part.params, keep)
        renewed += [value * part.weight for value in new_values]
    booster = engine.load(engine.format.with_leaves(parsed, renewed)).finished({})
    info = structs.replace(ranker.info, renewed=_describe(data), calibration=None)
    return ranker.altered(booster=booster, best_rounds=0, info=info, evals_result={}, summary=None)


@dataclass(frozen=True)
class _Part:
    """One training of a model.

    Args:
        rounds: number of its trees.
        weight: factor of its scores in the model.
        objective: what it optimised, with the length of its schedules.
        params: engine parameters under their main names.
        starts: whether it began with a linear start.
    """

    rounds: int
    weight: float
    objective: Any
    params: ParamValues
    starts: bool


def _parts_of(model: RankingModel, engine: Backend, trees: int) -> Iterator[_Part]:
    """Yield the trainings of a model in the order of its trees. A single one may have been stopped
    early.
    """
    info = model.info
    single = {
        "objective": info.objective,
        "params": info.parameters,
        "training": info.training,
        "starts": model._booster.start_trees > 0,
        "rounds": trees,
    }
    records = info.averaged or [single]
    for part in records:
        # Refuse parts whose leaves do not follow from an objective and one learning rate.
        described, training = part.get("objective") or {}, part["training"] or {}
        params = engine.params.resolve_names(part.get("params") or {})
        reason = find_other_rule(engine, params)
        if not described or "averaged" in part:
            reason = "the record names no objective for each part of the model"
        elif training.get("mixed_steps"):
            reason = "its objective or learning rate changed between rounds"
        if reason:
            raise ModelError(f"{_NOT_REFITTED}: {reason}")
        try:
            objective = objective_from_dict(described)
        except ParameterError as error:
            name = str(described.get("name"))[:40]
            raise ModelError(
                f"{_NOT_REFITTED}: its objective {name!r} cannot be restored: {error}"
            ) from error
        yield _Part(
            rounds=part["rounds"],
            weight=float(part.get("weight", 1.0 / len(records))),
            objective=objective,
            params=params,
            starts=part["starts"],
        )


def _describe(data: RankingDataset) -> RenewalRecord:
    return {
        "queries": len(data.queries),
        "fingerprint": data.fingerprint,
        "files": list(data.provenance.files),
    }


def find_other_rule(engine: Backend, params: ParamValues) -> str:
    """Return the reason why leaves have other values than the equation gives, or an empty
    string.
    """
    boosting = params.get("boosting", params.get("booster", "gbtree"))
    if not engine.grows_trees or boosting not in ("gbtree", "gbdt", "goss"):
        return "trees are not added one after the other"
    active = [name for name in _CHANGES_LEAVES if params.get(name)]
    return f"{active[0]} changes the values of leaves" if active else ""


def _find_leaves(
    model: RankingModel, features: Any, values: list[Float64Array], threads: int
) -> Array:
    """Return the leaf of each row in each grown tree, [trees, N], in as few bytes as the largest
    tree allows.
    """
    rows, trees = features.shape[0], len(values)
    largest = max((leaf_values.size for leaf_values in values), default=1)
    leaves = np.empty((trees, rows), np.min_scalar_type(largest))
    for first in range(0, rows, _ROWS):
        part = features[first : first + _ROWS]
        leaves_of_part = model._booster.predict(
            part, PredictRequest(LEAVES, rounds=model.best_iteration, threads=threads)
        )
        leaves[:, first : first + _ROWS] = leaves_of_part[:, leaves_of_part.shape[1] - trees :].T
    return leaves


def _renew_trees(
    objective: BoundObjective,
    scores: Float64Array,
    leaves: Array,
    values: list[Float64Array],
    params: ParamValues,
    keep: float = 0.0,
) -> list[Float64Array]:
    """Return new values of the leaves of each tree. Leaves without a row keep theirs. `scores` are
    overwritten.
    """
    rate = float(params.get("learning_rate", 0.1))
    penalty = float(params.get("lambda_l2", params.get("reg_lambda", 0.0)))
    renewed = []
    for number, (leaf, old_values) in enumerate(zip(leaves, values, strict=True)):
        gradient = objective.gradient(scores, number, loss=False)
        slope = np.bincount(leaf, gradient.grad, old_values.size)
        curvature = np.bincount(leaf, gradient.hess, old_values.size) + penalty
        value = np.divide(
            -rate * slope, curvature, out=old_values.copy(), where=curvature > penalty
        )
        if keep:
            value += keep * (old_values - value)
        scores += value[leaf]
        renewed.append(value)
    return renewed
