"""Execution of a plan: a single training or folds, on the features that occur, within the limit of
trees.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from boostrank.core.errors import TrainingError
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines.trees import engine_names
from boostrank.fit.folds import FoldEnded, train_folds
from boostrank.fit.plan import Plan, convert_sets
from boostrank.fit.renewal import renew_leaves
from boostrank.fit.run import run
from boostrank.model.averaging import limit_trees
from boostrank.model.ranking_model import RankingModel
from boostrank.options import QUICK


def execute(plan: Plan, fold_ended: FoldEnded | None = None) -> RankingModel:
    """Train according to a plan. `fold_ended` is called after each fold."""
    for callback in plan.options.callbacks or ():
        if hasattr(callback, "planned"):
            callback.planned(plan)
    data, columns = plan.train_set, used_columns(plan)
    if columns is not None:
        plan = _narrow(plan, columns)
    try:
        model = train_folds(plan, fold_ended) if plan.preset.folds else _train_once(plan)
    except TrainingError as error:
        if columns is not None and error.model is not None:
            error.model = _widen(error.model, data, columns)
        raise
    return model if columns is None else _widen(model, data, columns)


def _train_once(plan: Plan) -> RankingModel:
    """Train a single model. The preset `quick` renews its leaves on the queries that stopped it,
    too.
    """
    (training,) = plan.trainings
    model, sets = run(training), [plan.train_set, *plan.held_out_sets]
    renews = plan.preset.quality == QUICK and training.patience > 0 and len(sets) > 1
    if renews and plan.collective.is_alone and not any(data.on_disk for data in sets):
        joined = reduce(RankingDataset.join, sets)
        model = renew_leaves(model, replace(training, train_set=joined, valid=()))
    return model if training.tree_limit is None else limit_trees(model, training.tree_limit)


# Wide sparse data: train without features that never occur, and restore them in the model.


def used_columns(plan: Plan) -> Int64Array | None:
    """Return the columns that occur in the training set, in ascending order, or None if training
    keeps all columns.

    Training keeps all columns if most occur, or if a parameter, a model or a column within queries
    refers to columns.
    """
    data, params, columns = plan.train_set, plan.engine.params, plan.trainings[0].columns
    has_columns = data.categories or data.candidates is not None or columns.kinds
    if has_columns or plan.init_model is not None or not plan.engine.grows_trees:
        return None
    of_features = params.resolve_names(plan.settings.params).keys() & params.of_features
    # The rows of other workers may have other columns.
    if of_features or not plan.collective.is_alone:
        return None
    return data.occurring_columns


def _narrow(plan: Plan, columns: Int64Array) -> Plan:
    names = tuple(plan.train_set.feature_names[i] for i in columns.tolist())

    def narrow(data: RankingDataset) -> RankingDataset:
        return replace(data, features=data.features[:, columns], feature_names=names)

    train_set, valid = convert_sets(plan.train_set, plan.valid, narrow)
    return plan.with_trainings(train_set=train_set, valid=valid)


def _widen(model: RankingModel, data: RankingDataset, columns: Int64Array) -> RankingModel:
    """Convert a model that was trained on some columns to all features in a data set."""
    engine, names = model._engine, data.feature_names
    trees = model._booster.to_bytes()
    body = engine.format.widened(trees, columns.tolist(), engine_names(names))
    record = dict(model.info.data or {})
    record |= {"features": len(names), "feature_names": list(names)}
    record["fingerprint"] = data.fingerprint
    return model.altered(booster=engine.load(body), info=model.info | {"data": record})
