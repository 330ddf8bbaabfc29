"""Arguments of `lgb.train` before LightGBM 4, and of `xgb.train`, for `boostrank.train`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

from boostrank.core.errors import ParameterError
from boostrank.fit.callbacks import LogRounds
from boostrank.fit.settings import OBJECTIVE_NAMES, STOPPING_NAMES, as_list
from boostrank.options import F

_POSITIONS = ("params", "train_set", "num_boost_round", "valid_sets", "valid_names", "feval")
_RENAMED = {
    "dtrain": "train_set",
    "evals": "valid_sets",
    "custom_metric": "feval",
    "xgb_model": "init_model",
}
_OF_PARAMS = {
    "obj": OBJECTIVE_NAMES,
    "fobj": OBJECTIVE_NAMES,
    "early_stopping_rounds": STOPPING_NAMES,
    "categorical_feature": ("categorical_feature",),
}
_REFUSED = {
    "learning_rates": "pass callbacks=[lightgbm.reset_parameter(learning_rate=...)]",
    "feature_name": "name the features of the data: lightgbm.Dataset(X, y, feature_name=...), or "
    "RankingDataset.from_arrays(X, y, feature_names=...)",
}
_FOREIGN = {*_RENAMED, *_OF_PARAMS, *_REFUSED, "maximize", "evals_result", "verbose_eval"}


def takes_foreign_arguments(train: F) -> F:
    """Decorate `boostrank.train` so that it takes arguments of the engines' own functions.

    `evals_result` is filled when the training ends. With several sets in `evals`, early stopping
    watches the last, as in XGBoost. Metrics that return (name, value) get their direction from
    `maximize`.
    """

    @functools.wraps(train)
    def called(*args: Any, **options: Any) -> Any:
        merged = options | dict(zip(_POSITIONS, args, strict=False))
        others = options.keys() & _FOREIGN or _are_pairs(merged.get("valid_sets"))
        if not others or len(args) > len(_POSITIONS):
            return train(*args, **options)
        values = {name: merged.pop(name, None) for name in _FOREIGN}
        foreign = {
            name: value for name, value in values.items() if str(value) not in ("None", "auto")
        }
        history = foreign.pop("evals_result", {})
        for name in foreign.keys() & _REFUSED:
            raise ParameterError(f"boostrank.train has no argument {name!r}: {_REFUSED[name]}")
        for name in foreign.keys() & _RENAMED:
            if merged.get(_RENAMED[name]) is not None:
                raise ParameterError(f"{_RENAMED[name]} is given twice, also as {name}")
            merged[_RENAMED[name]] = foreign[name]
        model = train(**_translated(merged, foreign))
        history.clear()
        history.update(model.evals_result)
        return model

    return cast(F, called)


def by_name(params: Any) -> dict[str, Any]:
    """Return parameters by name, from a mapping or, as in XGBoost, pairs in which names recur."""
    if params is None or isinstance(params, Mapping):
        return dict(params or {})
    merged: dict[str, Any] = {}
    try:
        for name, value in params:
            merged[name] = [*as_list(merged[name]), value] if name in merged else value
    except (TypeError, ValueError):
        raise ParameterError(f"params={params!r} must be a dictionary") from None
    return merged


def _are_pairs(sets: Any) -> bool:
    return isinstance(sets, list | tuple) and any(isinstance(pair, tuple) for pair in sets)


def _translated(merged: dict[str, Any], foreign: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `boostrank.train`."""
    # Arguments replace the parameters that they name, as in LightGBM and XGBoost.
    params, callbacks = by_name(merged.pop("params", None)), merged.pop("callbacks", None) or ()
    for name, aliases in _OF_PARAMS.items():
        if name in foreign:
            params = {key: value for key, value in params.items() if key not in aliases}
            params[aliases[0]] = foreign[name]
    stops = any(params.get(name) for name in STOPPING_NAMES)
    if _are_pairs(merged.get("valid_sets")):
        pairs = list(merged["valid_sets"])
        if merged.get("valid_names") or any(len(pair) != 2 for pair in pairs):
            raise ParameterError(
                "evals must be a list of pairs (data set, name), without valid_names"
            )
        pairs = [*pairs[-1:], *pairs[:-1]] if stops else pairs
        merged["valid_sets"], merged["valid_names"] = map(list, zip(*pairs, strict=True))
    metrics, maximize = as_list(merged.get("feval")), foreign.get("maximize")
    if maximize is False and not metrics:
        raise ParameterError(
            "maximize=False: higher is better for boostrank's metrics; leave it out"
        )
    if maximize is not None or not stops:
        merged["feval"] = [_directed(metric, bool(maximize)) for metric in metrics]
    if period := foreign.get("verbose_eval"):
        callbacks = [*callbacks, LogRounds(int(period))]
    return merged | {"params": params, "callbacks": callbacks}


def _directed(metric: Callable[..., Any], maximize: bool) -> Callable[..., Any]:
    """Add a direction to results (name, value)."""

    @functools.wraps(metric)
    def called(*arguments: Any) -> Any:
        results = metric(*arguments)
        pairs = results if isinstance(results, list) else [results]
        return [(*pair, maximize)[:3] if isinstance(pair, tuple) else pair for pair in pairs]

    return called
