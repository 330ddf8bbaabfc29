"""Training: `train`, which is `lgb.train` and `xgb.train` with objectives of whole queries and our metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from boostrank.backends.events import Callback
from boostrank.core.errors import ParameterError
from boostrank.metric import Conventions
from boostrank.training.checkpoint import Checkpoint
from boostrank.training.model import RankingModel
from boostrank.training.price import Limit, limited
from boostrank.training.quality.train import train_preset
from boostrank.training.single import run, warn_of_weights
from boostrank.training.start import AUTO_START
from boostrank.training.within_query import WithinQuery

PLAIN = "plain"
DEFAULT_ROUNDS = 100


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
    time_limit: float | None = None,
    max_candidates: int | None = None,
    max_trees: int | None = None,
    max_microseconds: float | None = None,
) -> RankingModel:
    """Train a ranker. Signature and habits are those of `lgb.train`.

    Args:
        params: LightGBM's parameter names and aliases, on either backend, and the objective's own beside them:
            `{"objective": "shf-sdcg", "sigma": 0.5, "learning_rate": 0.1}`. `objective` may be a name (see
            `boostrank objectives`), an `Objective`, a callable as `lgb.train` takes it, or one of the engine's own
            as "lightgbm:lambdarank" or "xgboost:rank:ndcg". `metric` and `eval_at` name our metrics.
        train_set: `RankingDataset`, or the engine's own (`lgb.Dataset` with group, `xgb.DMatrix` with qid).
        num_boost_round: rounds; None: 100. Schedules that span the training span these (and those of
            `init_model`).
        valid_sets: data sets to evaluate each round; may hold `train_set` itself.
        valid_names: names for the log; `valid_0`, ... by default, "training" for the training set.
        feval: one function or a list, (scores, engine's data set) -> (name, value, higher is better) or a list.
        init_model: path, booster or RankingModel to continue. Rounds are added to its best ones; the objective that its
            sidecar names goes on, unless `params` names another.
        keep_training_booster: as in `lgb.train`.
        callbacks: LightGBM's (on either backend), ours, or any callable that takes a `CallbackEnv`.
        backend: "lightgbm", "xgboost", or "linear": scores X w, a round is a step of the optimiser, and in place of
            the trees' parameters there are those of `boostrank.backends.linear.backend.PARAMS`.
        conventions: how metrics treat gains, ties and empty queries; a `Conventions`, or a preset's name. The default
            takes the objective's gain, the mean over tie orders, and leaves out queries without relevant documents.
        checkpoint: writes the training down now and then, and goes on with it (`resume=True`) to the same bytes. A
            callable objective must be a function of its arguments, and so must callbacks that change parameters.
        start: "linear": trees begin with a cross-fitted ridge regression (`boostrank.training.cross_fit`); or a linear
            model (or its path) whose scores they add to. The model holds it and predicts with it.
            "auto": linear for the objective `auto` where it can be; "none" or None: nothing.
        within_query: columns beside each feature that say what it is among the documents of its query: a `WithinQuery`,
            or its kinds, as "rank,zscore". The model computes them by itself, and `init_model` goes on with its own.
        quality: "plain": one training, the engine's own defaults for what is not given, as in `lgb.train`.
            "quick": one, with trees that suit the data, stopped early where there is a validation set and no
            `num_boost_round`. "good", "best": several objectives and trees on folds of whole queries, averaged; see
            `boostrank.training.quality.train.train_quality`.
        time_limit, max_candidates: of "best", in seconds and in number.
        max_trees: that a program walks for a document, those of a linear start (one a feature) among them: one training
            uses no more of its rounds, an average is cut as `boostrank.training.price` says.
        max_microseconds: that a document may take, measured here, on one thread and rows of `train_set`: comes to a
            number of trees, which `info.price` holds and `max_trees` repeats.

    Returns:
        The model; `.booster` is the engine's own. Its leaves are rounded, once, to what every program adds up alike
        (`boostrank.formats.leaves`): metrics of the training are of the leaves before.

    Raises:
        InputError: parameters or data that cannot be used; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    if not isinstance(checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={checkpoint!r}: Checkpoint(path), which has the options of writing it")
    limit = Limit(max_trees, max_microseconds)
    limit.check(backend, train_set)
    sets = list(valid_sets) if isinstance(valid_sets, list | tuple) else [valid_sets]
    warn_of_weights(*sets, *([] if quality == PLAIN else [train_set]))  # whose folds measure
    if quality != PLAIN:
        alone = {"feval": feval, "init_model": init_model, "keep_training_booster": keep_training_booster,
                 "callbacks": callbacks, "checkpoint": checkpoint}  # fmt: skip
        return train_preset(
            quality, params, train_set, num_boost_round, valid_sets, valid_names, alone, backend=backend,
            conventions=conventions, start=start, within_query=within_query, time_limit=time_limit,
            max_candidates=max_candidates, limit=limit,
        )  # fmt: skip
    if time_limit is not None or max_candidates is not None:
        raise ParameterError("time_limit and max_candidates are limits of quality='best'")
    model = run(
        params, train_set, DEFAULT_ROUNDS if num_boost_round is None else num_boost_round, valid_sets, valid_names,
        feval, init_model, keep_training_booster, callbacks, backend=backend, conventions=conventions,
        checkpoint=checkpoint, start=start, within_query=within_query, max_trees=limit.trees,
    )  # fmt: skip
    return limited(model, limit, train_set)
