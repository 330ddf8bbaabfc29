"""Leaf values of trained trees, computed again from all queries while the splits stay.

    value_l = -rate G_l / (H_l + lambda)

G_l, H_l: sums of the objective's gradient and Hessian over the rows in leaf l, at the scores of the trees before. A
training that was stopped on held-out queries has not seen them; renewed, its leaves learn from every query. The rows
that trained the trees give the training's own values again, up to the rounding of its sums.

Source: Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 2001, algorithm 1,
whose second step is applied to more rows than its first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array
from boostrank.engines.base import LEAVES, Backend, Wanted
from boostrank.fit.plan import Plan
from boostrank.fit.run import PreparedTraining, prepare_training
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.bound import BoundObjective

_ROWS = 1 << 16  # rows whose leaves are found together
_CHANGES_LEAVES = ("lambda_l1", "reg_alpha", "max_delta_step", "path_smooth", "linear_tree", "monotone_constraints")
"""Parameters with which a leaf has another value than the equation gives."""


def renew_leaves(model: RankingModel, plan: Plan) -> RankingModel:
    """Return the model with its leaves computed from the plan's training set.

    Args:
        model: one training by the objective of the plan, which is cut to its best rounds.
        plan: the plan of the model's training, with all queries as the training set.

    Returns:
        The renewed model, or the same model where `unrenewable` gives a reason.
    """
    training = prepare_training(plan)
    if unrenewable(plan.engine, training):
        return model
    assert training.objective is not None
    rounds, engine = model.best_iteration, plan.engine
    parsed = engine.format.parse(model.to_bytes())
    values = engine.format.leaf_values(parsed)
    if len(values) != rounds:
        return model
    # The leaf of each row in each grown tree, and the scores before the first of them.
    data, start = training.train_set, training.begin
    leaves = _find_leaves(model, data.features, len(values), plan.threads)
    scores = np.zeros(data.n_documents) if start is None else start.scores.copy()
    objective = training.objective.bind(data.labels, data.queries)
    named = engine.params.named(training.given.engine)
    renewed = _values_tree_by_tree(objective, scores, leaves, values, named)
    # The model keeps its splits, and starts from the regression on all rows.
    body = engine.format.with_leaves(parsed, renewed, {} if start is None else start.start.curves)
    categories = {data.feature_names.index(name): column for name, column in plan.train_set.categories.items()}
    booster = engine.load(body).finished(categories)
    return model.altered(booster=booster, info=model.info | {"renewed_on": len(data.queries)})


def unrenewable(engine: Backend, training: PreparedTraining) -> str:
    """Return the reason why the leaves of a training cannot be renewed, or an empty string."""
    named = engine.params.named(training.given.engine)
    if training.objective is None:
        return "the objective is not boostrank's"
    if not engine.grows_trees or named.get("boosting", named.get("booster", "gbtree")) not in (
        "gbtree",
        "gbdt",
        "goss",
    ):
        return "trees are not added one after the other"
    if training.train_set.categorical:
        return "categorical splits have a penalty of their own"
    changed = [name for name in _CHANGES_LEAVES if named.get(name)]
    return f"{changed[0]} changes the values of leaves" if changed else ""


def _find_leaves(model: RankingModel, features: Any, trees: int, threads: int) -> npt.NDArray[np.uint16]:
    """Return the leaf of each row in each grown tree, uint16[N, trees]."""
    rows = features.shape[0]
    leaves = np.empty((trees, rows), np.uint16)
    for first in range(0, rows, _ROWS):
        part = features[first : first + _ROWS]
        every = model._booster.predict(part, Wanted(LEAVES, rounds=model.best_iteration, threads=threads))
        leaves[:, first : first + _ROWS] = every[:, every.shape[1] - trees :].T
    return leaves


def _values_tree_by_tree(
    objective: BoundObjective,
    scores: Float64Array,
    leaves: npt.NDArray[np.uint16],
    values: list[Float64Array],
    params: Mapping[str, Any],
) -> list[Float64Array]:
    """Return new values of the leaves of each tree. Leaves without a row keep theirs. `scores` are overwritten."""
    rate = float(params.get("learning_rate", 0.1))
    penalty = float(params.get("lambda_l2", params.get("reg_lambda", 0.0)))
    renewed = []
    for number, (leaf, old) in enumerate(zip(leaves, values, strict=True)):
        gradient = objective.gradient(scores, number, loss=False)
        slope = np.bincount(leaf, gradient.grad, old.size)
        curvature = np.bincount(leaf, gradient.hess, old.size) + penalty
        value = np.divide(-rate * slope, curvature, out=old.copy(), where=curvature > penalty)
        scores += value[leaf]
        renewed.append(value)
    return renewed
