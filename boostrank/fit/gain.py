"""The gain of a training where it is an expression: its values are the labels, whose own gain is linear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.gains import expression_of, parse_gain
from boostrank.data.dataset import RankingDataset
from boostrank.fit.params import GAIN_NAMES, OBJECTIVE_NAMES
from boostrank.metric import Conventions
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.description import TrainingObjective

LINEAR = "linear"
_WHOLE_GRADES = ("lightgbm:lambdarank", "lightgbm:rank_xendcg")


def with_gain_of(init_model: Any, params: Mapping[str, Any], train_set: Any) -> dict[str, Any]:
    """The parameters; the expression that a model to be continued has learnt goes on unless another gain is given."""
    learnt = init_model.info.gain if isinstance(init_model, RankingModel) else None
    given = any(name in params for name in GAIN_NAMES) or getattr(train_set, "gain", None) is not None
    return {**params} if learnt is None or given else {**params, GAIN_NAMES[0]: learnt}


def with_gain(
    params: Mapping[str, Any] | None, train_set: RankingDataset, valid_sets: Any = None,
    conventions: Conventions | str | None = None,
) -> tuple[dict[str, Any], Any, Any, Conventions | str | None]:  # fmt: skip
    """Parameters, data sets and conventions with an expression computed: labels that are gains, and a linear gain.

    All are as they were where neither the parameters nor the data sets have an expression.

    Args:
        params: as of `boostrank.train`; `gain` may be an expression.
        train_set, valid_sets: those whose labels are its values already stay.
        conventions: of the metrics.

    Raises:
        ParameterError: an expression for an objective with a gain of its own.
        DataError: labels that are the values of another expression, or of one that `gain` contradicts.
    """
    rest = dict(params or {})
    name = next((name for name in GAIN_NAMES if name in rest), GAIN_NAMES[0])
    given = rest.get(name)
    expression = expression_of(given)
    sets = valid_sets if isinstance(valid_sets, list | tuple) else [] if valid_sets is None else [valid_sets]
    ours = [train_set, *sets]
    held = next((one.gain for one in ours if one.gain is not None), None)
    text = expression.text if expression is not None else held
    chosen = next((rest[one] for one in OBJECTIVE_NAMES if one in rest), None)
    whole = isinstance(chosen, str) and chosen.strip() in _WHOLE_GRADES
    if whole and any("clicks" in one.provenance.options for one in ours):
        raise ParameterError(f"{chosen} takes whole grades, and gains of clicks are real: lambdarank or xe-ndcg, ours")
    if text is None:
        return rest, train_set, valid_sets, conventions
    if expression is None and given is not None and parse_gain(given) != LINEAR:
        raise DataError(f"the labels are the gain {held!r} already, and gain={given!r} is for labels: leave it out")
    if whole:
        raise ParameterError(f"{chosen} takes whole grades, and the gain {text!r} is real: lambdarank or xe-ndcg, ours")
    if isinstance(chosen, TrainingObjective):
        if chosen.gain != LINEAR:
            raise ParameterError(f"the labels are the gain {text!r}: make the objective with gain='linear'")
        rest.pop(name, None)
    else:
        rest[name] = LINEAR
    made = {id(one): one.with_gain(text) for one in ours}
    train_set = made[id(train_set)]
    if isinstance(valid_sets, list | tuple):
        valid_sets = [made[id(one)] for one in valid_sets]
    elif valid_sets is not None:
        valid_sets = made[id(valid_sets)]
    if conventions is not None:
        conventions = replace(Conventions.of(conventions), gain=LINEAR)
    return rest, train_set, valid_sets, conventions
