"""Resolve options and data into a plan. Everything is normalised, refused and chosen here, before the training."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from boostrank.core.errors import DataError, DataWarning, ParameterError, warn_user
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.choose import choose_within_query
from boostrank.fit.observe import SILENT, Observer
from boostrank.fit.params import STOPPING_NAMES
from boostrank.fit.plan import FIXED_ROUNDS, PLAIN, Draft, Plan, Recipe
from boostrank.fit.prepare import prepare
from boostrank.fit.presets import choose_recipe
from boostrank.model.price import Limit
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery
from boostrank.options import TrainOptions


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
