"""Resolution of options and data into a plan: categories, gains, fill values, preset and
trainings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.conventions import expression_of, parse_gain
from boostrank.core.errors import DataError, DataWarning, ParameterError, warn_user
from boostrank.core.types import ParamValues
from boostrank.data.categories import Categories, check_codes, named_columns
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.base import Backend
from boostrank.engines.trees import engine_names
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.fill import fill_missing, find_fills
from boostrank.fit.plan import ALONE, Collective, Plan, Preset, convert_sets
from boostrank.fit.presets import choose_preset
from boostrank.fit.settings import GAIN_NAMES, OBJECTIVE_NAMES, pop_param
from boostrank.model.averaging import check_limit
from boostrank.model.query_columns import WithinQuery
from boostrank.model.ranking_model import RankingModel, find_model
from boostrank.objective.description import TrainingObjective
from boostrank.objective.mixture import objective_from_dict
from boostrank.options import DEFAULT_ROUNDS, TrainOptions

CATEGORY_NAMES = (
    "categorical_feature",
    "categorical_features",
    "categorical_column",
    "cat_feature",
    "cat_column",
)
"""LightGBM's names, accepted for every engine."""
_WHOLE_GRADES = ("lightgbm:lambdarank", "lightgbm:rank_xendcg", "rank_xendcg")


def resolve(
    options: TrainOptions,
    train_set: RankingDataset,
    valid: Sequence[tuple[str, RankingDataset]] = (),
    collective: Collective = ALONE,
) -> Plan:
    """Validate options and data, make all choices, and return the plan.

    Args:
        valid: names and validation sets, which may include `train_set`.
        collective: workers that train together. A validation set may have no rows on some of them.

    Raises:
        InputError: options or data are invalid.
    """
    if not isinstance(options.checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={options.checkpoint!r}: expected a Checkpoint(path)")
    engine = collective.engine or get_backend(options.backend)
    init_model = _find_init_model(options.init_model, engine, train_set.feature_names)
    if options.tree_limit is not None:
        check_limit(options.tree_limit, engine)
    names, sets = [name for name, _ in valid], [data for _, data in valid]
    checked_sets = valid if collective.is_alone else ()
    _check_sizes(train_set, checked_sets)
    # Move the parameters of columns and labels into the data.
    params, coded, coded_sets = prepare(options.flat(), train_set, sets, init_model)
    plan = Plan(
        options=options,
        engine=engine,
        params=params,
        train_set=coded,
        valid=tuple(zip(names, coded_sets, strict=True)),
        preset=Preset(rounds=options.rounds or DEFAULT_ROUNDS),
        init_model=init_model,
        collective=collective,
    )
    plan = _fill(plan)
    _check_labels(plan, [train_set, *sets])
    # Choose trees, rounds, folds and their members.
    preset = choose_preset(plan)
    trained_sets = (train_set, *sets) if preset.folds else sets
    if any(data.document_weights is not None for data in trained_sets):
        warn_user("metrics ignore document weights; only query weights are used", DataWarning)
    if preset.note:
        words = f"quality={preset.quality!r} trains a single model: {preset.note}"
        warn_user(words, DataWarning)
    recorded = preset.update(options.flat())
    return plan.with_trainings(preset=preset, params=preset.update(params), recorded=recorded)


def _find_init_model(source: Any, engine: Backend, names: tuple[str, ...]) -> RankingModel | None:
    """Return the model to continue. The model of a fitted ranker keeps the ranker's rounds."""
    if source is None:
        return None
    model = find_model(source)
    if model is None:
        kind = type(source).__name__
        words = "must be a path, a RankingModel, a Booster or a fitted ranker"
        raise ParameterError(f"init_model {words}, not {kind}")
    if model.backend != engine.name:
        raise ParameterError(f"a model of {model.backend} cannot be continued by {engine.name}")
    if model.feature_names == engine_names(names) != names:  # a booster without its record
        info = model.info | {"data": {"feature_names": list(names)}, **model.columns.record}
        model = model.altered(info=info)
    return model


def _check_sizes(train_set: RankingDataset, valid: Sequence[tuple[str, RankingDataset]]) -> None:
    """Raise an error for data sets without rows or features."""
    if not train_set.n_documents:
        raise DataError("the training data have no rows")
    if not train_set.n_features:
        raise DataError("the training data have no features: no row has a number:value pair")
    for name, data in valid:
        if not data.n_documents:
            raise DataError(f"the validation set {name!r} has no rows")


def _check_labels(plan: Plan, sets: Sequence[RankingDataset]) -> None:
    """Check document weights and labels of the data sets, the training set first."""
    settings = plan.settings
    if sets[0].document_weights is not None and settings.objective is None:
        name = "a custom objective"
        if settings.native_objective:
            name = f"objective {plan.engine.name}:{settings.native_objective}"
        raise DataError(
            f"{name} does not support document weights: remove them, or use one of boostrank's"
            " objectives (`boostrank objectives`)"
        )
    if settings.gain != "exponential" or not plan.collective.is_alone:
        return
    for data in sets:
        broken = data.labels[data.labels != np.floor(data.labels)]
        if broken.size:
            words = f"label {broken[0]:g} is no whole number, and its gain is 2^label - 1"
            warn_user(f"{words}; gain='linear' takes the labels as gains", DataWarning)
            return


def _fill(plan: Plan) -> Plan:
    """Replace missing values, as the options say or as the continued model does."""
    requested, model, data = plan.options.fill, plan.init_model, plan.train_set
    before = None if model is None else model.info.fill
    if requested is None and not before:
        return plan
    continued = None if model is None else model.columns
    if WithinQuery.of_options(plan.options) or (continued and continued.kinds):
        raise ParameterError(
            "fill and columns within queries cannot be used together: fill the data before training"
        )
    params = plan.engine.params.resolve_names(plan.settings.params)
    if params.get("zero_as_missing") or not plan.engine.grows_trees:
        unfit = "zero_as_missing" if params.get("zero_as_missing") else plan.engine.name
        raise ParameterError(f"fill is not available with {unfit}")
    if data.on_disk:
        raise DataError("fill needs rows in memory: use --route memory, or fill the files")
    fill = dict(before or {}) if requested is None else find_fills(requested, data)
    if before and before != fill:
        raise ParameterError("init_model has other fill values, which cannot change: remove fill")
    train_set, sets = convert_sets(data, plan.valid, lambda rows: fill_missing(rows, fill))
    return replace(plan, train_set=train_set, valid=sets, fill=fill)


# Parameters that refer to the data: categories, gain expressions, and the objective of a continued
# model.


def prepare(
    params: ParamValues,
    train_set: RankingDataset,
    valid: Sequence[RankingDataset] = (),
    init_model: RankingModel | None = None,
) -> tuple[dict[str, Any], RankingDataset, list[RankingDataset]]:
    """Move categories and gain expressions from the parameters to the data sets.

    Labels become gains if the gain is an expression. Validation sets get the features of the
    training set, which stays the same object if it is one of them. The categories, objective and
    gain of `init_model` are kept.
    """
    params, coded = _with_categories(params, train_set, init_model)
    params = with_objective_of(init_model, params)
    gain = None if init_model is None else init_model.info.gain
    if gain is not None and coded.gain is None and not params.keys() & set(GAIN_NAMES):
        params[GAIN_NAMES[0]] = gain
    sets = [coded, *(coded if data is train_set else data.like(coded) for data in valid)]
    params, sets = _with_gain(params, sets)
    return params, sets[0], sets[1:]


def _with_categories(
    params: ParamValues, train_set: RankingDataset, init_model: RankingModel | None
) -> tuple[dict[str, Any], RankingDataset]:
    """Move `categorical_feature` from the parameters to the training set."""
    left, coded, features = dict(params), train_set, train_set.features
    names, categories = train_set.feature_names, train_set.categories
    columns = named_columns(pop_param(left, CATEGORY_NAMES, None), names)
    added = [name for name in columns if name not in categories or categories[name].ordered]
    if isinstance(features, np.ndarray) or sparse.issparse(features):
        for name in added:
            column = features[:, names.index(name)]
            codes = column.data if sparse.issparse(column) else column
            check_codes(codes, name)
    if added:
        unordered = {
            name: replace(categories.get(name, Categories()), ordered=False) for name in added
        }
        coded = replace(train_set, categories={**categories, **unordered})
    if init_model is not None:
        coded = init_model.check_features(coded)
        if coded.feature_names != names:
            raise DataError(
                "the training data have the model's features in another order: reorder them"
            )
    return left, coded


def with_objective_of(model: RankingModel | None, params: ParamValues) -> dict[str, Any]:
    """Keep the objective of the continued model unless another objective is set."""
    description = None if model is None else model.info.objective
    if not description or params.keys() & set(OBJECTIVE_NAMES):
        return dict(params)
    name = str(description.get("name"))
    try:
        objective = name if ":" in name else objective_from_dict(description)
    except ParameterError as error:
        raise ParameterError(
            f"the model to continue was trained with objective {name[:40]!r}, which cannot be"
            " restored from its file: pass objective="
        ) from error
    return {**params, "objective": objective}


def _with_gain(
    params: dict[str, Any], sets: list[RankingDataset]
) -> tuple[dict[str, Any], list[RankingDataset]]:
    """Compute a gain expression, whose values become the labels, with linear gain."""
    # Find the gain expression in the parameters, or else in the data.
    name = next((name for name in GAIN_NAMES if name in params), GAIN_NAMES[0])
    gain, objective = params.get(name), pop_param(dict(params), OBJECTIVE_NAMES, None)
    of_data = next((data.gain for data in sets if data.gain is not None), None)
    expression = expression_of(gain)
    text = of_data if expression is None else expression.text
    is_clicked = any("clicks" in data.provenance.options for data in sets)
    # Refuse objectives of LightGBM that take integer grades only.
    needs_grades = isinstance(objective, str) and objective.strip() in _WHOLE_GRADES
    if needs_grades and (is_clicked or text is not None):
        cause = "gains of clicks are real numbers"
        if not is_clicked:
            cause = f"the gain {text!r} is a real number"
        raise ParameterError(
            f"{objective} needs integer grades, but {cause}: use our lambdarank or xe-ndcg"
        )
    if text is None:
        return params, sets
    if expression is None and gain is not None and parse_gain(gain) != "linear":
        raise DataError(
            f"the labels are already the gain {of_data!r}, but gain={gain!r} expects labels:"
            " remove it"
        )
    # Replace the labels once for each data set, and count them as linear gains.
    left = {key: value for key, value in params.items() if key != name}
    if not isinstance(objective, TrainingObjective):
        left[name] = "linear"
    elif objective.gain != "linear":
        raise ParameterError(
            f"the labels are the gain {text!r}: create the objective with gain='linear'"
        )
    gained = {id(data): data.with_gain(text) for data in sets}
    return left, [gained[id(data)] for data in sets]
