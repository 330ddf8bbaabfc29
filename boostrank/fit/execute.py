"""Execution of a plan: a single training or folds, within the limit of trees."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from boostrank.data.dataset import RankingDataset
from boostrank.fit.folds import FoldEnded, train_folds
from boostrank.fit.plan import Plan
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
    return train_folds(plan, fold_ended) if plan.preset.folds else _train_once(plan)


def _train_once(plan: Plan) -> RankingModel:
    """Train a single model. The preset `quick` renews its leaves on the queries that stopped it,
    too.
    """
    (training,) = plan.trainings
    model, sets = run(training), plan.held_out_sets
    in_memory = not any(data.on_disk for data in (training.train_set, *sets))
    is_stopped = bool(sets) and training.patience > 0
    if plan.preset.quality == QUICK and is_stopped and in_memory and training.collective.is_alone:
        joined = reduce(RankingDataset.join, sets, training.train_set)
        model = renew_leaves(model, replace(training, train_set=joined, valid=()))
    return model if training.tree_limit is None else limit_trees(model, training.tree_limit)
