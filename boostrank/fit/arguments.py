"""Arguments of `lgb.train` before LightGBM 4, and of `xgb.train`, as arguments of `boostrank.train`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from boostrank.core.errors import ParameterError
from boostrank.fit.callbacks import LogRounds
from boostrank.fit.params import OBJECTIVE_NAMES, STOPPING_NAMES

F = TypeVar("F", bound=Callable[..., Any])

_POSITIONAL = ("params", "train_set", "num_boost_round", "valid_sets", "valid_names", "feval", "init_model")
_RENAMED = {"dtrain": "train_set", "evals": "valid_sets", "custom_metric": "feval", "xgb_model": "init_model"}
_OF_PARAMS = {
    "obj": OBJECTIVE_NAMES,
    "fobj": OBJECTIVE_NAMES,
    "early_stopping_rounds": STOPPING_NAMES,
    "categorical_feature": ("categorical_feature",),
}
_OTHER = ("maximize", "evals_result", "verbose_eval")
_REFUSED = {
    "learning_rates": "pass callbacks=[lightgbm.reset_parameter(learning_rate=...)]",
    "feature_name": "name the features of the data: lightgbm.Dataset(X, y, feature_name=...), or "
    "RankingDataset.from_arrays(X, y, feature_names=...)",
    "metrics": "pass params={'metric': [...]}",
}


def takes_other_arguments(train: F) -> F:
    """Decorate `boostrank.train` so that it takes arguments of the engines' own functions, under their names.

    `evals_result` is filled when the training ends. If `evals` has several sets, early stopping watches the last, as in
    XGBoost. Own metrics that return (name, value) get their direction from `maximize`.
    """

    @functools.wraps(train)
    def called(*args: Any, **given: Any) -> Any:
        sets = given.get("valid_sets", args[3] if len(args) > 3 else None)
        pairs = isinstance(sets, list | tuple) and any(isinstance(one, tuple) for one in sets)
        others = given.keys() & {*_RENAMED, *_OF_PARAMS, *_OTHER, *_REFUSED}
        if len(args) > len(_POSITIONAL) or not (pairs or others):
            return train(*args, **given)
        own = dict(zip(_POSITIONAL, args, strict=False))
        history = given.pop("evals_result", None)
        for name, value in given.items():
            if name in _REFUSED and value is not None and not _is_auto(value):
                raise ParameterError(f"{name} is not an argument of boostrank.train: {_REFUSED[name]}")
            _put(own, _RENAMED.get(name, name), value)
        model = train(**_translated(own))
        if history is not None:
            history.clear()
            history.update(model.evals_result)
        return model

    return cast(F, called)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _put(own: dict[str, Any], name: str, value: Any) -> None:
    if value is not None and own.get(name) is not None:
        raise ParameterError(f"{name} is given twice")
    if value is not None and name not in _REFUSED:
        own[name] = value


def _translated(own: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `boostrank.train`."""
    params, callbacks = dict(own.get("params") or {}), list(own.pop("callbacks", None) or ())
    # Arguments that are parameters here replace them, as in LightGBM and XGBoost.
    for name, aliases in _OF_PARAMS.items():
        value = own.pop(name, None)
        if value is not None and not _is_auto(value):
            params = {key: one for key, one in params.items() if key not in aliases} | {aliases[0]: value}
    stops = any(params.get(name) for name in STOPPING_NAMES)
    # Pairs of sets and names.
    sets = own.get("valid_sets")
    if isinstance(sets, list | tuple) and any(isinstance(one, tuple) for one in sets):
        if any(not isinstance(one, tuple) or len(one) != 2 for one in sets) or own.get("valid_names"):
            raise ParameterError("evals must be a list of pairs (data set, name), without valid_names")
        watched = [*sets[-1:], *sets[:-1]] if stops else sets
        own["valid_sets"], own["valid_names"] = [data for data, _ in watched], [name for _, name in watched]
    # Directions of metrics.
    maximize, functions = own.pop("maximize", None), own.get("feval")
    if functions is not None:
        listed = functions if isinstance(functions, list | tuple) else [functions]
        if maximize is not None or not stops:
            own["feval"] = [_Directed(one, bool(maximize)) for one in listed]
    elif maximize is False:
        raise ParameterError("maximize=False: higher is better for boostrank's metrics; leave it out")
    if period := own.pop("verbose_eval", None):
        callbacks.append(LogRounds(int(period)))
    return own | {"params": params, "callbacks": callbacks}


class _Directed:
    """A metric whose results (name, value) get a direction."""

    def __init__(self, function: Callable[..., Any], maximize: bool) -> None:
        self._function, self._maximize = function, maximize
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        found = self._function(*arguments)
        listed = found if isinstance(found, list) else [found]
        return [(*one, self._maximize) if isinstance(one, tuple) and len(one) == 2 else one for one in listed]
