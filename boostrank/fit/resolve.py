"""Resolution of options and data into a plan: categories, gains, fill values, preset and
trainings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.conventions import expression_of, parse_gain
from boostrank.core.errors import (
    DataError,
    DataWarning,
    ParameterError,
    did_you_mean,
    warn_user,
)
from boostrank.core.text import number_in
from boostrank.core.types import Float64Array, ParamValues
from boostrank.data.categories import Categories, check_codes, named_columns
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.base import Backend
from boostrank.engines.trees import engine_names
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.plan import ALONE, Collective, Plan, Preset, convert_sets
from boostrank.fit.presets import choose_preset
from boostrank.fit.settings import GAIN_NAMES, OBJECTIVE_NAMES, pop_param
from boostrank.kernels.curves import ZERO
from boostrank.model.ranking_model import RankingModel
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
_STATISTICS: dict[str, Callable[[Float64Array], Any]] = {"mean": np.mean, "median": np.median}
_WHOLE_GRADES = ("lightgbm:lambdarank", "lightgbm:rank_xendcg", "rank_xendcg")


def resolve(
    options: TrainOptions,
    train_set: RankingDataset,
    valid: Sequence[tuple[str, RankingDataset]] = (),
    collective: Collective = ALONE,
    init_model: RankingModel | None = None,
) -> Plan:
    """Validate options and data, make all choices, and return the plan.

    Args:
        valid: names and validation sets, which may include `train_set`.
        collective: workers that train together. A validation set may have no rows on some of them.
        init_model: the model that `options.init_model` names.

    Raises:
        InputError: options or data are invalid.
    """
    if not isinstance(options.checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={options.checkpoint!r}: expected a Checkpoint(path)")
    for function in options.feval:
        if not callable(function):
            raise ParameterError(f"feval={function!r} is not a function; pass names as metric")
    if options.init_model is not None and init_model is None:
        raise ParameterError("pass init_model as an argument, not in params")
    engine, names = collective.engine or get_backend(options.backend), train_set.feature_names
    if init_model is not None:
        if init_model.backend != engine.name:
            raise ParameterError(
                f"a model of {init_model.backend} cannot be continued by {engine.name}"
            )
        if init_model.feature_names == engine_names(names) != names:  # a booster without its record
            data_record = {"data": {"feature_names": list(names)}, **init_model.columns.record}
            init_model = init_model.altered(info=init_model.info | data_record)
    # Refuse data sets without rows or features.
    if not train_set.n_documents:
        raise DataError("the training data have no rows")
    if not train_set.n_features:
        raise DataError("the training data have no features: no row has a number:value pair")
    for name, data in valid if collective.is_alone else ():
        if not data.n_documents:
            raise DataError(f"the validation set {name!r} has no rows")
    # Move the parameters of columns and labels into the data. Validation sets get the features of
    # the training set, and stay the same object if they are the training set.
    params = options.flat()
    coded = _code_categories(params, train_set, init_model)
    params = with_objective_of(init_model, params)
    gain = _pop_gain(params, [coded, *(data for _, data in valid)], init_model)
    fill = _choose_fill(options.fill_rules, params, coded, engine, init_model)

    def convert(data: RankingDataset) -> RankingDataset:
        like = coded if data is train_set else data.like(coded)
        like = like if gain is None else like.with_gain(gain)
        return _fill_missing(like, fill) if fill else like

    coded_set, coded_valid = convert_sets(train_set, tuple(valid), convert)
    plan = Plan(
        options=options,
        engine=engine,
        params=params,
        train_set=coded_set,
        valid=coded_valid,
        preset=Preset(rounds=options.rounds or DEFAULT_ROUNDS),
        init_model=init_model,
        fill=fill,
        collective=collective,
    )
    _check_labels(plan)
    # Choose trees, rounds, folds and their members.
    preset = choose_preset(plan)
    plan = replace(plan, preset=preset, params=preset.update(params))
    measured = [data for _, data in plan.valid]
    if preset.folds:
        measured.append(plan.train_set)
    if any(data.document_weights is not None for data in measured):
        warn_user("metrics ignore document weights; only query weights are used", DataWarning)
    if preset.note:
        message = f"quality={preset.quality!r} trains a single model: {preset.note}"
        warn_user(message, DataWarning)
    _ = plan.trainings  # raises the errors of all of them, before the first is trained
    return plan


def _check_labels(plan: Plan) -> None:
    """Check document weights and labels of the data sets."""
    settings = plan.settings
    if plan.train_set.document_weights is not None and settings.objective is None:
        name = "a custom objective"
        if settings.native_objective:
            name = f"objective {plan.engine.name}:{settings.native_objective}"
        raise DataError(
            f"{name} does not support document weights: remove them, or use one of boostrank's"
            " objectives (`boostrank objectives`)"
        )
    if settings.gain != "exponential" or not plan.collective.is_alone:
        return
    for data in (plan.train_set, *plan.valid_sets):
        broken = data.labels[data.labels != np.floor(data.labels)]
        if broken.size:
            message = f"label {broken[0]:g} is no whole number, and its gain is 2^label - 1"
            warn_user(f"{message}; gain='linear' takes the labels as gains", DataWarning)
            return


def _choose_fill(
    rules: Mapping[str | None, Any],
    params: ParamValues,
    data: RankingDataset,
    engine: Backend,
    model: RankingModel | None,
) -> dict[str, float]:
    """Return the number that replaces a missing value of each feature, which the option says or the
    continued model has.

    Args:
        rules: a number, "mean" or "median" by feature; that of None is for all other numeric ones.
    """
    recorded = dict((model and model.info.fill) or {})
    if not rules and not recorded:
        return {}
    if model is not None and model.columns.kinds:
        raise ParameterError(
            "fill and columns within queries cannot be used together: fill the data before training"
        )
    zero_as_missing = engine.params.resolve_names(params).get("zero_as_missing")
    if zero_as_missing or not engine.grows_trees:
        unfit = "zero_as_missing" if zero_as_missing else engine.name
        raise ParameterError(f"fill is not available with {unfit}")
    if data.on_disk:
        raise DataError("fill needs rows in memory: use --route memory, or fill the files")
    if not rules:
        return recorded
    # Refuse unknown features, and categories, which need no fill.
    for name in rules.keys() - {None, *data.feature_names}:
        raise ParameterError(
            f"fill: there is no feature {name!r}.{did_you_mean(str(name), data.feature_names)}"
        )
    for name in rules.keys() & data.categories.keys():
        raise ParameterError(
            f"fill: {name!r} is categorical; its missing values are a category of their own"
        )
    # Compute the numbers from the data, as float32.
    rule_by_name = {
        name: rules.get(name, rules.get(None))
        for name in data.feature_names
        if name not in data.categories
    }
    fill = {
        name: _number(rule, data, name) for name, rule in rule_by_name.items() if rule is not None
    }
    if recorded and recorded != fill:
        raise ParameterError("init_model has other fill values, which cannot change: remove fill")
    return fill


def _fill_missing(data: RankingDataset, fills: Mapping[str, float]) -> RankingDataset:
    """Return the data set with numbers in place of missing values."""
    values = np.array([fills.get(name, math.nan) for name in data.feature_names], np.float32)
    features = data.features[:]
    if sparse.issparse(features):
        features = features.copy()
        cells, values = features.data, values[features.indices]
        features.data = np.where(np.isnan(cells), values, cells)
    else:
        features = np.where(np.isnan(features), values, features)
    return replace(data, features=features)


def _number(rule: Any, data: RankingDataset, name: str) -> float:
    """Return the number that a rule gives for a feature."""
    statistic = _STATISTICS.get(rule) if isinstance(rule, str) else None
    try:
        if statistic is None:
            value = number_in(rule.strip()) if isinstance(rule, str) else rule
            with np.errstate(over="ignore"):
                number = np.float32(value)
        else:
            column = data.features[:, [data.feature_names.index(name)]]
            column = column.toarray() if sparse.issparse(column) else column
            present = column[~np.isnan(column)].astype(np.float64)
            number = np.float32(statistic(present)) if present.size else np.float32(0.0)
    except (TypeError, ValueError):
        number = np.float32(math.nan)
    if not np.isfinite(number):
        raise ParameterError(
            f"fill: {rule!r} for {name!r} is not a finite number of float32, mean or median"
        )
    return float(number) if abs(number) > ZERO else 0.0


# Parameters that refer to the data: categories, gain expressions, and the objective of a continued
# model.


def _code_categories(
    params: dict[str, Any], train_set: RankingDataset, init_model: RankingModel | None
) -> RankingDataset:
    """Move `categorical_feature` from the parameters to the training set."""
    names, categories = train_set.feature_names, train_set.categories
    columns = named_columns(pop_param(params, CATEGORY_NAMES, None), names)
    new_names = [name for name in columns if name not in categories or categories[name].ordered]
    features = train_set.features
    if isinstance(features, np.ndarray) or sparse.issparse(features):
        for name in new_names:
            check_codes(features[:, names.index(name)], name)
    unordered = {
        name: replace(categories.get(name, Categories()), ordered=False) for name in new_names
    }
    coded = train_set
    if unordered:
        coded = replace(train_set, categories={**categories, **unordered})
    if init_model is not None:
        coded = init_model.check_features(coded)
        if coded.feature_names != names:
            raise DataError(
                "the training data have the model's features in another order: reorder them"
            )
    return coded


def with_objective_of(model: RankingModel | None, params: ParamValues) -> dict[str, Any]:
    """Keep the objective of the continued model unless another objective is set."""
    others = dict(params)
    if pop_param(others, OBJECTIVE_NAMES, None) is not None:
        return dict(params)
    description = None if model is None else model.info.objective
    if not description:
        return others
    name = str(description.get("name"))
    try:
        objective = name if ":" in name else objective_from_dict(description)
    except ParameterError as error:
        raise ParameterError(
            f"the model to continue was trained with objective {name[:40]!r}, which cannot be"
            f" restored from its file ({error}): pass objective="
        ) from error
    return {**others, "objective": objective}


def _pop_gain(
    params: dict[str, Any], sets: Sequence[RankingDataset], init_model: RankingModel | None
) -> str | None:
    """Return the gain expression of the parameters, the data or the continued model, whose values
    replace the labels. The gain in `params` is then linear.
    """
    name = next((name for name in GAIN_NAMES if name in params), GAIN_NAMES[0])
    of_data = next((data.gain for data in sets if data.gain is not None), None)
    gain, objective = params.get(name), pop_param(dict(params), OBJECTIVE_NAMES, None)
    if gain is None and init_model is not None and sets[0].gain is None:
        gain = init_model.info.gain
    expression = expression_of(gain)
    text = of_data if expression is None else expression.text
    # Refuse objectives of LightGBM that take integer grades only.
    if isinstance(objective, str) and objective.strip() in _WHOLE_GRADES:
        cause = ""
        if any("clicks" in data.provenance.options for data in sets):
            cause = "gains of clicks are real numbers"
        elif text is not None:
            cause = f"the gain {text!r} is a real number"
        if cause:
            raise ParameterError(
                f"{objective} needs integer grades, but {cause}: use our lambdarank or xe-ndcg"
            )
    if text is None:
        return None
    if expression is None and gain is not None and parse_gain(gain) != "linear":
        raise DataError(
            f"the labels are already the gain {of_data!r}, but gain={gain!r} expects labels:"
            " remove it"
        )
    # The values of the expression are linear gains.
    params.pop(name, None)
    if not isinstance(objective, TrainingObjective):
        params[name] = "linear"
    elif objective.gain != "linear":
        raise ParameterError(
            f"the labels are the gain {text!r}: create the objective with gain='linear'"
        )
    return text
