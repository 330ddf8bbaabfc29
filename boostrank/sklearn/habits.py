"""Translation of arguments of LGBMRanker and XGBRanker to ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.fit.gradient import required_names

_SETS = ("eval_set", "eval_names", "eval_qid", "eval_group", "eval_sample_weight")
_METRICS = ("eval_metric", "eval_at", "feval", "early_stopping_rounds")
_OTHERS = ("init_model", "callbacks", "checkpoint", "feature_name", "categorical_feature")
_PREDICT = ("num_iteration", "start_iteration", "pred_leaf", "pred_contrib", "threads")
_RENAMED = {
    "xgb_model": "init_model",
    "sample_weight_eval_set": "eval_sample_weight",
    "valid_sets": "eval_set",
    "valid_names": "eval_names",
    "num_threads": "threads",
    "n_jobs": "threads",
    "ntree_limit": "num_iteration",
}
"""Their name -> our name, with the same meaning."""
_NEEDLESS = ("raw_score", "output_margin", "validate_features", "predict_disable_shape_check")
"""Ignored arguments of `predict`: scores are always raw, and columns are checked by name."""
_START = "the model could not add it in predict; continue a model instead: init_model="
_REFUSED = {
    "init_score": _START,
    "base_margin": _START,
    "eval_init_score": _START,
    "base_margin_eval_set": _START,
    "feature_weights": "columns are sampled uniformly: BoostRanker(backend='xgboost', colsample_bytree=...)",
    "eval_class_weight": "rankers have no classes",
}


def fit_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fit` under our names.

    Raises:
        ParameterError: an unknown or unsupported argument, or the same argument twice.
    """
    rest = dict(given)
    if rest.pop("verbose", None):
        raise ParameterError("verbose is not supported; log rounds with callbacks=[lightgbm.log_evaluation(1)]")
    X, y = rest.pop("eval_X", None), rest.pop("eval_y", None)
    if (X is None) != (y is None):
        raise ParameterError("eval_X and eval_y must be given together")
    if X is not None:
        sets = list(zip(X, y, strict=True)) if isinstance(X, tuple) else (X, y)
        rest = _with(rest, "eval_set", sets, "eval_X")
    found = _ours(rest, (*_SETS, *_METRICS, *_OTHERS), "fit")
    metrics = found.get("eval_metric")
    listed = metrics if isinstance(metrics, list | tuple) else [metrics]
    functions = [_metric(one) for one in listed if callable(one)]
    if functions:
        found["eval_metric"] = [one for one in listed if not callable(one)] or None
        own = found.get("feval")
        found["feval"] = [*functions, *(own if isinstance(own, list | tuple) else [own] if own else [])]
    return found


def predict_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `predict` under the names of `RankingModel.predict`.

    Raises:
        ParameterError: as `fit_arguments`.
    """
    rest = {name: value for name, value in given.items() if name not in _NEEDLESS}
    first, last = rest.pop("iteration_range", None) or (0, 0)
    if last:
        rest = _with(rest, "num_iteration", last - first, "iteration_range")
    if first:
        rest = _with(rest, "start_iteration", first, "iteration_range")
    return _ours(rest, _PREDICT, "predict")


def _ours(given: Mapping[str, Any], known: tuple[str, ...], method: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None and name in _REFUSED:
            raise ParameterError(f"{method}({name}=...): {_REFUSED[name]}")
        own = _RENAMED.get(name, name)
        if own not in known and name not in _REFUSED:
            hint = did_you_mean(name, (*known, *_RENAMED, "eval_X", "eval_y"), list_all=False)
            raise ParameterError(f"{method} has no argument {name!r}.{hint}")
        found = found if value is None else _with(found, own, value, name)
    return found


def _with(given: Mapping[str, Any], name: str, value: Any, alias: str) -> dict[str, Any]:
    if given.get(name) is not None:
        raise ParameterError(f"{name} is given twice, also as {alias}")
    return {**given, name: value}


def _metric(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a metric so that its signature shows LGBMRanker's arguments: labels, scores, weights, query sizes."""
    own = required_names(function)
    if not own:
        return function
    more = own[2:] if set(own[2:]) <= {"weight", "group"} else ["weight", "group"][: len(own) - 2]

    def called(*arguments: Any) -> Any:
        return function(*arguments)

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, either) for name in ("y_true", "y_pred", *more)]
    called.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return called
