"""Apply parameters that refer to the data: categories, gain expressions, and the objective of a continued model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.gains import expression_of, parse_gain
from boostrank.data.categories import Categories, check_codes, named_columns
from boostrank.data.dataset import RankingDataset
from boostrank.fit.params import GAIN_NAMES, OBJECTIVE_NAMES, pop_param
from boostrank.metric import Conventions
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.description import TrainingObjective
from boostrank.objective.mixture import objective_from_dict

CATEGORY_NAMES = ("categorical_feature", "categorical_features", "categorical_column", "cat_feature", "cat_column")
"""LightGBM's names, accepted for every engine."""
LINEAR = "linear"
_WHOLE_GRADES = ("lightgbm:lambdarank", "lightgbm:rank_xendcg")


@dataclass(frozen=True)
class Prepared:
    """Parameters and data of a training, fully resolved.

    Args:
        params: parameters without categories; the gain is not an expression.
        train_set, valid: labels are gains if the gain is an expression. A training set among the validation sets stays
            the same object.
    """

    params: dict[str, Any]
    train_set: RankingDataset
    valid: tuple[RankingDataset, ...]
    conventions: Conventions | str | None


def prepare(
    params: Mapping[str, Any],
    train_set: RankingDataset,
    valid: Sequence[RankingDataset] = (),
    conventions: Conventions | str | None = None,
    init_model: Any = None,
) -> Prepared:
    """Resolve the parameters that refer to the data.

    Args:
        init_model: model to continue; its categories, objective and gain are kept.

    Raises:
        DataError: a categorical column that does not exist or holds no codes; labels computed from another expression.
        ParameterError: a parameter given under two names; an expression that contradicts the objective.
    """
    rest, coded = _with_categories(params, train_set, init_model)
    rest = _with_gain_of(init_model, with_objective_of(init_model, rest), coded)
    sets = [coded, *(coded if one is train_set else one for one in valid)]
    rest, sets, conventions = _with_gain(rest, sets, conventions)
    return Prepared(rest, sets[0], tuple(sets[1:]), conventions)


def _with_categories(
    params: Mapping[str, Any], train_set: RankingDataset, init_model: Any
) -> tuple[dict[str, Any], RankingDataset]:
    """Move `categorical_feature` from the parameters to the training set."""
    rest = dict(params)
    names, known, found = train_set.feature_names, train_set.categories, train_set
    named = [
        name
        for name in named_columns(pop_param(rest, CATEGORY_NAMES, None), names)
        if name not in known or known[name].ordered
    ]
    features = train_set.features
    for name in named if isinstance(features, np.ndarray) or sparse.issparse(features) else ():
        column = features[:, names.index(name)]
        check_codes(column.data if sparse.issparse(column) else column, name)
    if named:
        added = {name: replace(known.get(name, Categories()), ordered=False) for name in named}
        found = replace(train_set, categories={**known, **added})
    if isinstance(init_model, RankingModel):
        theirs = init_model.feature_names
        coded = found.with_features(theirs, whose="the model", categories=init_model.categories)
        found = coded if coded.feature_names == names else found
    return rest, found


def with_objective_of(init_model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the objective of the continued model unless another one is given.

    Raises:
        ParameterError: the objective is a user's own code.
    """
    given = dict(params)
    before = init_model.info.objective if isinstance(init_model, RankingModel) else None
    if not before or any(name in given for name in OBJECTIVE_NAMES):
        return given
    name = str(before.get("name"))
    if ":" in name:
        return given | {"objective": name}
    try:
        return given | {"objective": objective_from_dict(before)}
    except ParameterError as error:
        raise ParameterError(
            f"the model to continue was trained with objective {name[:40]!r}, which cannot be restored from its "
            "file: pass objective="
        ) from error


def _with_gain_of(init_model: Any, params: Mapping[str, Any], train_set: RankingDataset) -> dict[str, Any]:
    """Keep the gain expression of the continued model unless another gain is given."""
    learnt = init_model.info.gain if isinstance(init_model, RankingModel) else None
    given = any(name in params for name in GAIN_NAMES) or train_set.gain is not None
    return {**params} if learnt is None or given else {**params, GAIN_NAMES[0]: learnt}


def _with_gain(
    params: dict[str, Any], sets: Sequence[RankingDataset], conventions: Conventions | str | None
) -> tuple[dict[str, Any], list[RankingDataset], Conventions | str | None]:
    """Compute a gain expression: its values become the labels, with linear gain."""
    rest, sets = dict(params), list(sets)
    name = next((name for name in GAIN_NAMES if name in rest), GAIN_NAMES[0])
    given = rest.get(name)
    expression = expression_of(given)
    held = next((one.gain for one in sets if one.gain is not None), None)
    text = expression.text if expression is not None else held
    chosen = next((rest[one] for one in OBJECTIVE_NAMES if one in rest), None)
    whole = isinstance(chosen, str) and chosen.strip() in _WHOLE_GRADES
    if whole and any("clicks" in one.provenance.options for one in sets):
        raise ParameterError(
            f"{chosen} needs integer grades, but gains of clicks are real numbers: use our lambdarank or xe-ndcg"
        )
    if text is None:
        return rest, sets, conventions
    if expression is None and given is not None and parse_gain(given) != LINEAR:
        raise DataError(f"the labels are already the gain {held!r}, but gain={given!r} expects labels: remove it")
    if whole:
        raise ParameterError(
            f"{chosen} needs integer grades, but the gain {text!r} is a real number: use our lambdarank or xe-ndcg"
        )
    if isinstance(chosen, TrainingObjective):
        if chosen.gain != LINEAR:
            raise ParameterError(f"the labels are the gain {text!r}: create the objective with gain='linear'")
        rest.pop(name, None)
    else:
        rest[name] = LINEAR
    made = {id(one): one.with_gain(text) for one in sets}
    if conventions is not None:
        conventions = replace(Conventions.of(conventions), gain=LINEAR)
    return rest, [made[id(one)] for one in sets], conventions
