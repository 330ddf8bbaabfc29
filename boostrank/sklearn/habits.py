"""Arguments of `fit` and `predict` as LGBMRanker and XGBRanker name them, made into ours in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from boostrank.core.errors import ParameterError, did_you_mean

_SETS = ("eval_set", "eval_names", "eval_qid", "eval_group", "eval_sample_weight")
_METRICS = ("eval_metric", "eval_at", "feval", "early_stopping_rounds")
_OTHERS = ("init_model", "keep_training_booster", "callbacks", "checkpoint", "feature_name", "categorical_feature")
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
"""Their name -> ours, with the same meaning."""
_NEEDLESS = ("raw_score", "output_margin", "validate_features", "predict_disable_shape_check")
"""Arguments of `predict` that change nothing here: scores are raw, and columns are checked by name."""
_START = "the model would not add it back when it predicts; begin with a model: init_model=, or BoostRanker(start=...)"
_REFUSED = {
    "init_score": _START,
    "base_margin": _START,
    "eval_init_score": _START,
    "base_margin_eval_set": _START,
    "feature_weights": "BoostRanker(backend='xgboost', colsample_bytree=...) draws columns alike",
    "eval_class_weight": "rankers have no classes",
}


def fit_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fit` under our names.

    Raises:
        ParameterError: an unknown name, one with nothing to do here, or the same argument twice.
    """
    rest = dict(given)
    if rest.pop("verbose", None):
        raise ParameterError("verbose: rounds are logged by a callback: callbacks=[lightgbm.log_evaluation(1)]")
    X, y = rest.pop("eval_X", None), rest.pop("eval_y", None)
    if (X is None) != (y is None):
        raise ParameterError("eval_X and eval_y belong together: one of them is not given")
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
    """Name the arguments of a metric as LGBMRanker passes them: labels, scores, weights, sizes of queries."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # compiled code
        return function
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [one.name for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]
    more = own[2:] if set(own[2:]) <= {"weight", "group"} else ["weight", "group"][: len(own) - 2]

    def called(*arguments: Any) -> Any:
        return function(*arguments)

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, either) for name in ("y_true", "y_pred", *more)]
    called.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return called
