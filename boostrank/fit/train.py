"""Training: `train`, which is `lgb.train` and `xgb.train` with objectives of whole queries and our metrics.

Every training is `fit(resolve(options, data))`: `resolve` normalises, refuses and chooses, and `fit` trains.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from boostrank.core.errors import DataError, DataWarning, ParameterError, TrainingError, warn_user
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.native import at_the_door
from boostrank.engines.rounds import Callback
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.folds import choose_within_query, train_folds
from boostrank.fit.observe import SILENT, Observer
from boostrank.fit.params import AUTO_START, STOPPING_NAMES
from boostrank.fit.plan import FIXED_ROUNDS, PLAIN, Draft, Plan, Recipe
from boostrank.fit.prepare import prepare
from boostrank.fit.presets import choose_recipe
from boostrank.fit.run import run
from boostrank.fit.wide import narrowed, used_columns, widened
from boostrank.metric import Conventions
from boostrank.model.price import Limit, limited
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery
from boostrank.options import TrainOptions, declared


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
    params, train_set, valid_sets = at_the_door(params, train_set, valid_sets)
    valid = _named(valid_sets or [], valid_names, train_set)
    options = TrainOptions(
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
    return fit(resolve(_with_params(options, params), train_set, valid))


def _with_params(options: TrainOptions, params: Mapping[str, Any]) -> TrainOptions:
    """Options with parameters, among which arguments of `train` may be, as where a search tries them.

    Raises:
        ParameterError: an argument is given in both places.
    """
    known = {name: one for name, one in declared(TrainOptions).items() if not one.params and name != "params"}
    moved = {name: value for name, value in params.items() if name in known}
    for name in moved.keys() & options.changed.keys():
        raise ParameterError(f"{name} is given twice: in params, and as an argument")
    return replace(options, params={name: value for name, value in params.items() if name not in moved}, **moved)


def fit(plan: Plan, observer: Observer = SILENT) -> RankingModel:
    """Train what a plan says.

    Args:
        plan: of `resolve`.
        observer: told of each fold's model.

    Raises:
        InputError: data that cannot be used; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn.
    """
    wide, columns = plan.train_set, used_columns(plan)
    plan = plan if columns is None else narrowed(plan, columns)
    try:
        model = train_folds(plan, observer) if plan.recipe.folds else limited(run(plan), plan.limit, plan.train_set)
    except TrainingError as error:
        if columns is not None and error.model is not None:
            error.model = widened(error.model, wide, columns)
        raise
    return model if columns is None else widened(model, wide, columns)


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


def draft(options: TrainOptions) -> Draft:
    """What can be known, and refused, before the data are read.

    Raises:
        ParameterError: parameters that cannot be used with any data.
    """
    made = Draft(
        engine=get_backend(options.backend),
        params=options.flat(),
        rounds=options.rounds or FIXED_ROUNDS,
        conventions=options.conventions,
    )
    Limit(options.max_trees, options.max_microseconds).check(made.engine)
    return made


def resolve(
    options: TrainOptions,
    train_set: RankingDataset,
    valid: Sequence[tuple[str, RankingDataset]] = (),
    observer: Observer = SILENT,
) -> Plan:
    """Make the plan of a training.

    Args:
        options: all of them. `checkpoint` is a `Checkpoint` or None.
        train_set: training data.
        valid: names and validation sets; may hold `train_set` itself.
        observer: told of the choice of columns within queries, and of the plan.

    Raises:
        InputError: parameters or data that cannot be used.
    """
    checkpoint = options.checkpoint
    if not isinstance(checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={checkpoint!r}: Checkpoint(path), which has the options of writing it")
    limit = Limit(options.max_trees, options.max_microseconds)
    model = options.init_model
    model = RankingModel.load(model) if isinstance(model, str | os.PathLike) else model
    given = options.flat()
    names, sets = [name for name, _ in valid], [data for _, data in valid]
    _check(train_set, valid)
    ready = prepare(given, train_set, sets, options.conventions, model)
    functions = options.feval
    plan = Plan(
        engine=get_backend(options.backend),
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
        keep_training_booster=options.keep_training_booster,
        limit=limit,
    )
    limit.check(plan.engine, train_set)
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
    """The plan with the parameters of a recipe; of one training also those of its member."""
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
    """Columns within queries, from either form in which they are given."""
    asked = WithinQuery.given(options.within_query)
    return asked if asked is None or options.of is None else replace(asked, of=options.of)


def _check(train_set: RankingDataset, valid: Iterable[tuple[str, RankingDataset]]) -> None:
    """Refuse data sets without rows or features, in whose place the engines fail in words of their own.

    Raises:
        DataError: which.
    """
    if not train_set.n_documents:
        raise DataError("the training data have no rows")
    if not train_set.n_features:
        raise DataError("the training data have no features: no row holds a number:value pair")
    for name, data in valid:
        if not data.n_documents:
            raise DataError(f"the validation set {name!r} has no rows")


def _check_folds(plan: Plan, recipe: Recipe) -> None:
    """Refuse what several trainings cannot have.

    Raises:
        ParameterError: which, and what to give instead.
    """
    if plan.keep_training_booster:
        raise ParameterError("keep_training_booster is for one training: give quality='quick', no folds")
    if plan.init_model is not None:
        raise ParameterError("init_model continues one training: give quality='quick' or 'plain', and no folds")
    if not plan.engine.format.averages:
        raise ParameterError(f"folds: their models are averaged, and models of {plan.engine.name} cannot be")


def _warn_of_weights(sets: Iterable[RankingDataset]) -> None:
    """Warn that metrics ignore document weights, if a data set that is measured has some."""
    if any(one.document_weights is not None for one in sets):
        warn_user("metrics weigh queries alone: the weights of documents do not count in them", DataWarning)
