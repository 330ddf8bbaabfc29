"""Training: `train`, which is `lgb.train` and `xgb.train` with objectives of whole queries and our metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from boostrank.core.errors import DataWarning, ParameterError, warn_user
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.native import at_the_door
from boostrank.engines.rounds import Callback
from boostrank.fit.categories import with_categories
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.folds import OfFold, train_folds
from boostrank.fit.gain import with_gain
from boostrank.fit.params import STOPPING_NAMES, split_params
from boostrank.fit.presets import FIXED_ROUNDS, PLAIN, Recipe, resolve
from boostrank.fit.run import run, warn_of_weights
from boostrank.fit.start.begin import AUTO_START
from boostrank.metric import Conventions
from boostrank.model.price import Limit, limited
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery


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
        (`boostrank.engines.trees`): metrics of the training are of the leaves before.

    Raises:
        InputError: parameters or data that cannot be used; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    if not isinstance(checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={checkpoint!r}: Checkpoint(path), which has the options of writing it")
    params, train_set, valid_sets = at_the_door(params, train_set, valid_sets)
    limit = Limit(max_trees, max_microseconds)
    limit.check(backend, train_set)
    sets = [] if valid_sets is None else list(valid_sets)
    warn_of_weights(*sets)
    recipe = Recipe(PLAIN, FIXED_ROUNDS if num_boost_round is None else num_boost_round)
    if quality != PLAIN or folds is not None:
        recipe = resolved(
            quality, params, train_set, sets, num_boost_round, folds, init_model, backend, start, conventions
        )
        if recipe.note:
            warn_user(f"quality={quality!r} trains a single model: {recipe.note}", DataWarning)
    if recipe.folds and keep_training_booster:
        raise ParameterError("keep_training_booster is for one training: give quality='quick', no folds")
    return follow(
        recipe, params, train_set, valid_sets, valid_names, feval, init_model, keep_training_booster, callbacks,
        backend=backend, conventions=conventions, checkpoint=checkpoint, start=start, within_query=within_query,
        limit=limit,
    )  # fmt: skip


def resolved(
    quality: str, params: Mapping[str, Any] | None, train_set: RankingDataset, sets: Sequence[Any], rounds: int | None,
    folds: int | None, init_model: Any, backend: str, start: Any, conventions: Any,
) -> Recipe:  # fmt: skip
    """What a preset comes to.

    Raises:
        ParameterError: a number of folds that cannot be.
    """
    if folds is not None and (isinstance(folds, bool) or not isinstance(folds, Integral) or folds < 2):
        raise ParameterError(f"folds={folds!r}: a whole number, at least 2")
    rest, data, _ = with_categories(params, train_set, None, init_model)
    rest, data, _, _ = with_gain(rest, data, None, conventions)
    engine = get_backend(backend)
    checked = split_params(rest, rounds or FIXED_ROUNDS, engine)
    valid = [one for one in sets if one is not train_set]
    recipe = resolve(quality, engine, checked, rest, data, valid, rounds=rounds, folds=folds, start=start,
                     continues=init_model is not None)  # fmt: skip
    if recipe.folds and init_model is not None:
        raise ParameterError("init_model continues one training: give quality='quick' or 'plain', and no folds")
    return recipe


def follow(
    recipe: Recipe, params: Mapping[str, Any] | None, train_set: RankingDataset, valid_sets: Any = None,
    valid_names: Any = None, feval: Any = None, init_model: Any = None, keep_training_booster: bool = False,
    callbacks: Sequence[Callback] | None = None, *, backend: str = "lightgbm", conventions: Any = None,
    checkpoint: Checkpoint | None = None, start: Any = AUTO_START, within_query: Any = None,
    limit: Limit | None = None, after: OfFold | None = None,
) -> RankingModel:  # fmt: skip
    """Train as a recipe says.

    Args:
        recipe: of `resolve`.
        params, train_set, valid_sets, valid_names, feval, init_model, keep_training_booster, callbacks, backend,
            conventions, checkpoint, start, within_query: as for `train`.
        limit: on the trees of the model.
        after: called with each fold's model.
    """
    given, limit = {**(params or {}), **recipe.trees}, limit or Limit()
    member = recipe.members[0]
    if recipe.patience:
        given = {name: value for name, value in given.items() if name not in STOPPING_NAMES}
        given |= {"early_stopping_round": recipe.patience}
    if recipe.folds:
        sets = valid_sets if isinstance(valid_sets, list | tuple) else [] if valid_sets is None else [valid_sets]
        others = [one for one in sets if one is not train_set]
        return train_folds(
            given, train_set, recipe.rounds, recipe.members, others, feval, list(callbacks or ()), after=after,
            backend=backend, conventions=conventions, checkpoint=checkpoint, within_query=within_query, limit=limit,
            folds=recipe.folds,
        )  # fmt: skip
    model = run(
        member.over(given), train_set, recipe.rounds, valid_sets, valid_names, feval, init_model, keep_training_booster,
        callbacks, backend=backend, conventions=conventions, checkpoint=checkpoint, start=start,
        within_query=within_query, max_trees=limit.trees, begins_linear=member.begins_linear,
    )  # fmt: skip
    return limited(model, limit, train_set)
