"""Training: `train`, which is `lgb.train` and `xgb.train` with objectives of whole queries and our metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.engines.native import at_the_door
from boostrank.engines.rounds import Callback
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.folds import train_folds
from boostrank.fit.observe import SILENT, Observer
from boostrank.fit.plan import PLAIN, Plan
from boostrank.fit.resolve import resolve
from boostrank.fit.run import run
from boostrank.fit.start.begin import AUTO_START
from boostrank.metric import Conventions
from boostrank.model.price import limited
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery
from boostrank.options import TrainOptions


def train(
    params: Mapping[str, Any] | None,
    train_set: Any,
    num_boost_round: int | None = None,
    valid_sets: Any = None,
    valid_names: Sequence[str] | str | None = None,
    feval: Any = None,
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: Sequence[Callback] | None = None,
    *,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    checkpoint: Checkpoint | None = None,
    start: RankingModel | str | os.PathLike[str] | None = AUTO_START,
    within_query: WithinQuery | str | Sequence[str] | None = None,
    quality: str = PLAIN,
    folds: int | None = None,
    max_trees: int | None = None,
    max_microseconds: float | None = None,
) -> RankingModel:
    """Train a ranker. Signature and habits are those of `lgb.train`.

    Args:
        params: LightGBM's parameter names and aliases, on either backend, and the objective's own beside them:
            `{"objective": "shf-sdcg", "sigma": 0.5, "learning_rate": 0.1}`. `objective` may be a name (see
            `boostrank objectives`), an `Objective`, a callable as `lgb.train` takes it, or one of the engine's own
            as "lightgbm:lambdarank" or "xgboost:rank:ndcg". `metric` and `eval_at` name our metrics.
        train_set: `RankingDataset`. The rows of a `lgb.Dataset` with group or a `xgb.DMatrix` with qid are copied into
            one, where it still holds them.
        num_boost_round: rounds; None: 100. Schedules that span the training span these (and those of
            `init_model`).
        valid_sets: data sets to evaluate each round; may hold `train_set` itself.
        valid_names: names for the log; `valid_0`, ... by default, "training" for the training set.
        feval: one function or a list, (scores, engine's data set) -> (name, value, higher is better) or a list.
        init_model: path, booster or RankingModel to continue. Rounds are added to its best ones; the objective that its
            sidecar names goes on, unless `params` names another.
        keep_training_booster: as in `lgb.train`.
        callbacks: LightGBM's (on either backend), ours, or any callable that takes a `CallbackEnv`. Every fold calls
            them.
        backend: "lightgbm", "xgboost", or "linear": scores X w, a round is a step of the optimiser, and in place of
            the trees' parameters there are those of `boostrank.engines.linear.adapter.PARAMS`.
        conventions: how metrics treat gains, ties and empty queries; a `Conventions`, or a preset's name. The default
            takes the objective's gain, the mean over tie orders, and leaves out queries without relevant documents.
        checkpoint: writes the training down now and then, and goes on with it (`resume=True`) to the same bytes. A
            callable objective must be a function of its arguments, and so must callbacks that change parameters. Each
            fold has a file of its own.
        start: "linear": trees begin with a cross-fitted ridge regression (`boostrank.fit.start.cross_fit`); or a linear
            model (or its path) whose scores they add to. The model holds it and predicts with it.
            "auto": linear for the objective `auto` where it can be; "none" or None: nothing.
        within_query: columns beside each feature that say what it is among the documents of its query: a `WithinQuery`,
            or its kinds, as "rank,zscore". The model computes them by itself, and `init_model` goes on with its own.
        quality: "plain": one training, with the engine's defaults, as `lgb.train`.
            "quick": one training, with trees that suit the data, stopped early where there is a validation set and no
            `num_boost_round`.
            "good": such a training on each of 4 folds of whole queries, another objective or start in each, averaged.
            Validation queries are dealt into the folds. See `boostrank.fit.presets`.
        folds: number of folds of whole queries: a model is trained without each and stopped on it, and the models are
            averaged. None: as many as `quality` takes.
        max_trees: maximum number of trees in the model, including the linear start (one per feature). Rounds beyond
            it are cut; each model of an average keeps as many as the others.
        max_microseconds: maximum time to score a document, measured here on one thread with rows of `train_set`. It
            comes to a number of trees, which `info.price` holds and `max_trees` repeats.

    Returns:
        The model; `.booster` is the engine's own. Its leaves are rounded, once, to what every program adds up alike
        (`boostrank.engines.leaves`): metrics of the training are of the leaves before.

    Raises:
        InputError: parameters or data that cannot be used; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    params, train_set, valid_sets = at_the_door(params, train_set, valid_sets)
    valid = _named(valid_sets or [], valid_names, train_set)
    options = TrainOptions(
        params=params,
        rounds=num_boost_round,
        feval=feval,
        init_model=init_model,
        keep_training_booster=keep_training_booster,
        callbacks=callbacks,
        backend=backend,
        conventions=conventions,
        checkpoint=checkpoint,
        start=start,
        within_query=within_query,
        quality=quality,
        folds=folds,
        max_trees=max_trees,
        max_microseconds=max_microseconds,
    )
    return fit(resolve(options, train_set, valid))


def fit(plan: Plan, observer: Observer = SILENT) -> RankingModel:
    """Train what a plan says.

    Args:
        plan: of `fit.resolve.resolve`.
        observer: told of each fold's model.

    Raises:
        InputError: data that cannot be used; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    if plan.recipe.folds:
        return train_folds(plan, observer)
    return limited(run(plan), plan.limit, plan.train_set)


def _named(
    sets: Sequence[RankingDataset], names: Sequence[str] | str | None, train_set: RankingDataset
) -> list[tuple[str, RankingDataset]]:
    """Validation sets with their names.

    Raises:
        ParameterError: more names than sets, or one twice.
    """
    given = [] if names is None else [names] if isinstance(names, str) else list(names)
    if len(given) > len(sets):
        raise ParameterError(f"{len(given)} valid_names for {len(sets)} valid_sets")
    made = ["training" if one is train_set else f"valid_{i}" for i, one in enumerate(sets)]
    found = [*given, *made[len(given) :]]
    if len(set(found)) < len(found):
        raise ParameterError(f"valid_names must be distinct: {', '.join(found)}")
    return list(zip(found, sets, strict=True))
