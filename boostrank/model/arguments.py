"""Arguments of `predict` of LightGBM's and XGBoost's boosters and rankers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from inspect import signature
from typing import Any, TypeVar, cast

from boostrank.core.errors import ParameterError, did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

THREADS = ("threads", "n_jobs", "num_threads", "nthread")
_RENAMED = {
    "pred_contribs": "pred_contrib",
    "ntree_limit": "num_iteration",
    **dict.fromkeys(THREADS, "threads"),
}
_NEEDLESS = (
    "raw_score output_margin validate_features predict_disable_shape_check pred_early_stop".split()
)
"""Arguments without an effect: scores are always raw and complete, columns are checked by name."""
_OFF = "approx_contribs pred_interactions strict_shape training data_has_header ntree_limit".split()
"""Arguments that are accepted if they are off; an `ntree_limit` of 0 is none."""
INITIAL_SCORES = ("init_score", "base_margin", "eval_init_score", "base_margin_eval_set")


def takes_engines_arguments(predict: F) -> F:
    """Decorate a method `predict(data, *, ...)` so that it takes the engines' arguments."""
    names = signature(predict).parameters.keys() - {"self", "data"}

    @functools.wraps(predict)
    def called(self: Any, data: Any, **options: Any) -> Any:
        return predict(self, data, **_translated(options, names))

    return cast(F, called)


def _translated(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the arguments under boostrank's names."""
    remaining_options = {
        name: value
        for name, value in options.items()
        if name not in _NEEDLESS and (name not in _OFF or value)
    }
    span = remaining_options.pop("iteration_range", None) or (0, 0)
    if not isinstance(span, list | tuple) or len(span) != 2:
        raise ParameterError(f"iteration_range={span!r} must be a pair (first round, end)")
    first_round, end_round = span
    if end_round and end_round <= first_round:
        raise ParameterError(
            f"iteration_range=({first_round}, {end_round}) has no rounds: end after the start"
        )
    if end_round:
        rounds = end_round - first_round
        remaining_options = put(remaining_options, "num_iteration", rounds, "iteration_range")
    if first_round:
        remaining_options = put(
            remaining_options, "start_iteration", first_round, "iteration_range"
        )
    return rename(remaining_options, names, _RENAMED, "predict")


def rename(
    options: Mapping[str, Any], names: Collection[str], renamed: Mapping[str, str], method: str
) -> dict[str, Any]:
    """Return a method's arguments under boostrank's names, without those that are None.

    Args:
        names: names that the method takes.
        renamed: mapping from other names to these.

    Raises:
        ParameterError: an argument is unknown or given twice.
    """
    arguments: dict[str, Any] = {}
    for alias, value in options.items():
        name = renamed.get(alias, alias)
        if alias in INITIAL_SCORES and value is not None:
            raise ParameterError(
                f"{method}({alias}=...): the model cannot add initial scores in predict; pass a"
                " model to continue as init_model instead"
            )
        if name not in (*names, *INITIAL_SCORES):
            hint = did_you_mean(alias, (*names, *renamed), list_all=False)
            raise ParameterError(f"{method} has no argument {alias!r}.{hint}")
        if value is not None:
            arguments = put(arguments, name, value, alias)
    return arguments


def put(options: Mapping[str, Any], name: str, value: Any, alias: str) -> dict[str, Any]:
    """Return the arguments with one that is not present yet."""
    if options.get(name) is not None:
        raise ParameterError(f"{name} is given twice, also as {alias}")
    return {**options, name: value}
