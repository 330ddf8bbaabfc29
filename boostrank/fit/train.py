"""Training: `train` follows `lgb.train`, with objectives over whole queries and our metrics.

Every training is `fit(resolve(options, data))`: `resolve` validates and makes all choices, and `fit` trains.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from boostrank.core.errors import DataError, DataWarning, ParameterError, TrainingError, warn_user
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.base import Backend, Callback
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.folds import choose_within_query, train_folds
from boostrank.fit.observe import SILENT, Observer
from boostrank.fit.params import AUTO_START, STOPPING_NAMES
from boostrank.fit.plan import ALONE, FIXED_ROUNDS, PLAIN, Draft, Peers, Plan, Recipe
from boostrank.fit.prepare import prepare
from boostrank.fit.presets import GOOD, choose_recipe
from boostrank.fit.run import run
from boostrank.fit.wide import narrowed, used_columns, widened
from boostrank.metric import Conventions
from boostrank.model.averaging import limited
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.model.within_query import WithinQuery
from boostrank.options import TrainOptions, declared


def train(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    num_boost_round: int | None = None,
    valid_sets: Any = None,
    valid_names: Sequence[str] | str | None = None,
    feval: Any = None,
    init_model: Any = None,
    callbacks: Sequence[Callback] | None = None,
    *,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    checkpoint: Checkpoint | None = None,
    start: str | None = AUTO_START,
    within_query: WithinQuery | str | Sequence[str] | None = None,
    quality: str = PLAIN,
    folds: int | None = None,
    max_trees: int | None = None,
) -> RankingModel:
    """Train a ranker. The signature follows `lgb.train`.

    Args:
        params: LightGBM's parameter names and aliases, on either backend, plus those of the objective:
            `{"objective": "shf-sdcg", "sigma": 0.5, "learning_rate": 0.1}`. `objective` may be a name (see
            `boostrank objectives`), an `Objective`, a callable as in `lgb.train`, or an engine's own objective such as
            "lightgbm:lambdarank" or "xgboost:rank:ndcg". `metric` and `eval_at` select our metrics.
        train_set: data set.
        num_boost_round: number of rounds; None for 100. Schedules that span the training span these, plus those of
            `init_model`.
        valid_sets: data sets to evaluate each round; may include `train_set`.
        valid_names: names for the log; `valid_0`, ... by default, and "training" for the training set.
        feval: one function or a list, (scores, engine's data set) -> (name, value, higher is better) or a list.
        init_model: path, booster, fitted ranker or RankingModel to continue from its best round. Its objective is kept
            unless `params` sets another.
        callbacks: LightGBM's (on either backend), ours, or any callable that takes a `CallbackEnv`. Called in every
            fold.
        backend: "lightgbm", "xgboost", or "linear": scores X w, where a round is a step of the optimiser and the
            parameters are those in `boostrank.engines.linear.adapter.PARAMS`.
        conventions: treatment of gains, ties and empty queries in metrics; a `Conventions`, or the name of a preset. By
            default, the objective's gain, the mean over tie orders, and no queries without relevant documents.
        checkpoint: saves the state of the training periodically, and resumes from it (`resume=True`) with a
            byte-identical result. Callable objectives and callbacks that change parameters must be pure functions. Each
            fold has its own file.
        start: "linear": trees start from a cross-fitted ridge regression (`boostrank.fit.start.cross_fit`), which is
            part of the model. "auto": linear for the objective `auto` if possible; "none" or None: no start.
        within_query: adds per-query features such as rank and z-score: a `WithinQuery`, or its kinds, as in
            "rank,zscore".
            The model computes them itself, and `init_model` keeps its own.
        quality: "plain": a single training with the engine's defaults, as `lgb.train`.
            "quick": a single training with trees suited to the data, and early stopping if there is a validation set
            and no `num_boost_round`.
            "good": the average of such trainings on 4 folds of whole queries, with different objectives or starts.
            Validation queries are added to the folds. See `boostrank.fit.presets`.
        folds: number of folds of whole queries. A model is trained without each fold and stopped on it, and the models
            are averaged. None for the number of `quality`.
        max_trees: maximum number of trees in the model, including the linear start (one per feature). Later rounds are
            removed; all models of an average keep the same number of rounds.

    Returns:
        The model; `.booster` is the engine's own. Leaves are rounded once, so that every program computes the same sums
        (`boostrank.engines.trees`); metrics during training use the unrounded leaves.

    Raises:
        InputError: invalid parameters or data; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    sets = valid_sets if isinstance(valid_sets, list | tuple) else [] if valid_sets is None else [valid_sets]
    for one in (train_set, *sets):
        if not isinstance(one, RankingDataset):
            raise ParameterError(
                f"a data set must be a RankingDataset, not {type(one).__name__}: pass "
                "RankingDataset.from_arrays(X, y, group=sizes), or qid=ids"
            )
    valid = named_sets(sets, valid_names, train_set)
    options = TrainOptions(
        rounds=num_boost_round,
        feval=feval,
        init_model=init_model,
        callbacks=callbacks,
        backend=backend,
        conventions=conventions,
        checkpoint=checkpoint,
        start=start,
        within_query=within_query,
        quality=quality,
        folds=folds,
        max_trees=max_trees,
    )
    return fit(resolve(with_params(options, params or {}), train_set, valid))


def with_params(options: TrainOptions, params: Mapping[str, Any]) -> TrainOptions:
    """Move arguments of `train` in `params` to the options, as used by searches."""
    known = {name: one for name, one in declared(TrainOptions).items() if not one.params and name != "params"}
    moved = {name: value for name, value in params.items() if name in known}
    for name in moved.keys() & options.changed.keys():
        raise ParameterError(f"{name} is given twice: in params, and as an argument")
    return replace(options, params={name: value for name, value in params.items() if name not in moved}, **moved)


def fit(plan: Plan, observer: Observer = SILENT) -> RankingModel:
    """Train a plan.

    Raises:
        InputError: invalid data; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    wide, columns = plan.train_set, used_columns(plan)
    plan = plan if columns is None else narrowed(plan, columns)
    try:
        model = train_folds(plan, observer) if plan.recipe.folds else run(plan)
        if plan.max_trees is not None and not plan.recipe.folds:
            model = limited(model, plan.max_trees)
    except TrainingError as error:
        if columns is not None and error.model is not None:
            error.model = widened(error.model, wide, columns)
        raise
    return model if columns is None else widened(model, wide, columns)


def named_sets(
    sets: Sequence[RankingDataset], names: Sequence[str] | str | None, train_set: RankingDataset
) -> list[tuple[str, RankingDataset]]:
    """Pair validation sets with their names."""
    given = [] if names is None else [names] if isinstance(names, str) else list(names)
    if len(given) > len(sets):
        raise ParameterError(f"{len(given)} valid_names for {len(sets)} valid_sets")
    made = ["training" if one is train_set else f"valid_{i}" for i, one in enumerate(sets)]
    found = [*given, *made[len(given) :]]
    if len(set(found)) < len(found):
        raise ParameterError(f"valid_names must be distinct: {', '.join(found)}")
    return list(zip(found, sets, strict=True))


def draft(options: TrainOptions) -> Draft:
    """Validate as much as possible before the data are read."""
    return Draft(
        engine=_engine(options),
        params=options.flat(),
        rounds=options.rounds or FIXED_ROUNDS,
        conventions=options.conventions,
    )


def _engine(options: TrainOptions) -> Backend:
    engine = get_backend(options.backend)
    if options.max_trees is not None and not engine.grows_trees:
        raise ParameterError(f"max_trees: models of backend={engine.name!r} have no trees")
    return engine


def resolve(
    options: TrainOptions,
    train_set: RankingDataset,
    valid: Sequence[tuple[str, RankingDataset]] = (),
    observer: Observer = SILENT,
    peers: Peers = ALONE,
) -> Plan:
    """Create the plan of a training.

    Args:
        options: all options. `checkpoint` is a `Checkpoint` or None.
        valid: names and validation sets; may include `train_set`.
        peers: workers that train together; a validation set of one of them may have no rows.
    """
    checkpoint = options.checkpoint
    if not isinstance(checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={checkpoint!r}: expected a Checkpoint(path)")
    model = options.init_model
    if isinstance(model, str | os.PathLike) or any(hasattr(model, a) for a in ("get_booster", "booster_", "model_")):
        model = as_model(model)  # a path, or a ranker, which keeps the rounds of its own predict
    given = options.flat()
    names, sets = [name for name, _ in valid], [data for _, data in valid]
    _check(train_set, valid if peers is ALONE else ())
    ready = prepare(given, train_set, sets, options.conventions, model)
    functions = options.feval
    plan = Plan(
        engine=_engine(options),
        params=ready.params,
        rounds=options.rounds or FIXED_ROUNDS,
        conventions=ready.conventions,
        train_set=ready.train_set,
        valid=tuple(zip(names, ready.valid, strict=True)),
        start=options.start,
        init_model=model,
        within=_within_query(options),
        functions=tuple(functions) if isinstance(functions, list | tuple) else (functions,) if functions else (),
        callbacks=tuple(options.callbacks or ()),
        checkpoint=checkpoint,
        max_trees=None if options.max_trees is None else int(options.max_trees),
        peers=peers,
    )
    if train_set.document_weights is not None:
        plan.settings.check_document_weights()
    quality = options.quality or PLAIN
    recipe = choose_recipe(quality, plan, rounds=options.rounds, folds=options.folds)
    if recipe.folds:
        _check_folds(plan, recipe)
    _warn_of_weights((train_set, *sets) if recipe.folds else sets)
    if recipe.note:
        warn_user(f"quality={quality!r} trains a single model: {recipe.note}", DataWarning)
    plan = _with_recipe(plan, recipe, given)
    if plan.within is not None and plan.within.is_auto and model is None:
        plan = replace(plan, within=choose_within_query(plan, observer))
    observer.planned(plan)
    return plan


def _with_recipe(plan: Plan, recipe: Recipe, given: dict[str, Any]) -> Plan:
    """Apply the parameters of a recipe, and of its member if there is a single training."""
    own: dict[str, Any] = dict(recipe.trees)
    if recipe.patience:
        own["early_stopping_round"] = recipe.patience

    def over(params: dict[str, Any]) -> dict[str, Any]:
        dropped = STOPPING_NAMES if recipe.patience else ()
        found = {name: value for name, value in params.items() if name not in dropped} | own
        return found if recipe.folds else recipe.members[0].over(found)

    plan = replace(plan, recipe=recipe, rounds=recipe.rounds, params=over(dict(plan.params)))
    if recipe.folds:
        return plan
    return replace(plan, record=over(given), begins_linear=recipe.members[0].begins_linear)


def _within_query(options: TrainOptions) -> WithinQuery | None:
    """Return the columns within queries, from either of their options."""
    asked = WithinQuery.given(options.within_query)
    return asked if asked is None or options.of is None else replace(asked, of=options.of)


def _check(train_set: RankingDataset, valid: Iterable[tuple[str, RankingDataset]]) -> None:
    """Refuse data sets without rows or features, for which the engines have unclear errors."""
    if not train_set.n_documents:
        raise DataError("the training data have no rows")
    if not train_set.n_features:
        raise DataError("the training data have no features: no row has a number:value pair")
    for name, data in valid:
        if not data.n_documents:
            raise DataError(f"the validation set {name!r} has no rows")


def _check_folds(plan: Plan, recipe: Recipe) -> None:
    """Refuse options that folds do not support."""
    if plan.init_model is not None:
        raise ParameterError("init_model continues a single training: use quality='quick' or 'plain', and no folds")
    if not plan.engine.format.averages:
        raise ParameterError(f"folds: models of {plan.engine.name} cannot be averaged")


def _warn_of_weights(sets: Iterable[RankingDataset]) -> None:
    """Warn that metrics ignore document weights, if an evaluated data set has some."""
    if any(one.document_weights is not None for one in sets):
        warn_user("metrics ignore document weights; only query weights are used", DataWarning)


def settled_quality(options: TrainOptions, cluster: bool, tell: Callable[[str], None]) -> TrainOptions:
    """Set the quality: "good" by default, or "plain" if folds are not available."""
    reason = ""
    if cluster:
        reason = "workers of a cluster train a single model with the engine's defaults"
    elif not get_backend(options.backend).grows_trees:
        reason = f"{options.backend} grows no trees"
    if reason and options.quality not in (None, PLAIN):
        raise ParameterError(f"--quality {options.quality} is not available: {reason}. Use --quality plain")
    quality = options.quality or (PLAIN if reason else GOOD)
    if reason and options.quality is None:
        tell(f"quality plain: {reason}")
    if options.init_model and quality == GOOD:
        default = "the default" if options.quality is None else "--quality good"
        raise ParameterError(
            f"--init-model continues a single training, but {default} trains several models: add --quality quick or "
            "--quality plain"
        )
    return replace(options, quality=quality)
