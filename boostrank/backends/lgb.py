"""LightGBM behind the backend contract."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from boostrank.backends.base import Callback, StopTraining, TrainRequest, engine_names
from boostrank.core.errors import DataError, ParameterError, did_you_mean
from boostrank.core.types import Float64Array
from boostrank.data.dataset import Features, RankingDataset

# Without these two, LightGBM times both layouts at the start and takes the faster: two runs may then differ.
_DEFAULTS = {"deterministic": True, "force_col_wise": True}
_LAYOUTS = ("force_col_wise", "force_row_wise")


class LightGBM:
    """The engine `lightgbm`; see `base.Backend` for what each method does."""

    name = "lightgbm"
    version = str(lightgbm.__version__)
    objective_params = frozenset(
        {
            "alpha", "boost_from_average", "fair_c", "is_unbalance", "label_gain", "lambdarank_norm",
            "lambdarank_position_bias_regularization", "lambdarank_truncation_level", "num_class", "num_classes",
            "objective_seed", "poisson_max_delta_step", "reg_sqrt", "scale_pos_weight", "sigmoid",
            "tweedie_variance_power", "unbalance", "unbalanced_sets",
        }
    )  # fmt: skip

    def check_params(self, params: dict[str, Any]) -> None:
        known = _known_parameters()
        said: dict[str, str] = {}
        for name in params:
            if known and name not in known:
                raise ParameterError(f"LightGBM has no parameter {name!r}.{did_you_mean(name, known, list_all=False)}")
            first = said.setdefault(known.get(name, name), name)
            if first != name:
                raise ParameterError(f"{first!r} and {name!r} are the same parameter")
        boosting = [params[a] for a in ("boosting", "boosting_type", "boost") if a in params]
        if "rf" in boosting or "random_forest" in boosting:
            raise ParameterError("boosting='rf' averages independent trees; LightGBM refuses custom objectives there")

    def is_native_dataset(self, data: Any) -> bool:
        return isinstance(data, lightgbm.Dataset)

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        row_weights = None
        if weights and data.queries.weights is not None:
            row_weights = np.repeat(data.queries.weights, data.queries.sizes)
        return lightgbm.Dataset(
            data.features,
            label=data.labels,
            group=data.queries.sizes,
            weight=row_weights,
            feature_name=list(engine_names(data.feature_names)),
            reference=reference,
            params=_with_defaults(params),
        )

    def train(self, request: TrainRequest) -> tuple[Any, int]:
        for data in (request.train, *(d for _, d in request.valid)):
            if data.init_score is not None and request.init_model is None:
                raise ParameterError(
                    "the data set has an init_score, which LightGBM never adds back when it predicts; continue from a "
                    "model instead (init_model=)"
                )
        params = _with_defaults(request.params) | {"metric": "None"}
        round_now = _RoundCounter()
        gradient = request.gradient
        if gradient is None:
            params["objective"] = request.native_objective
        else:
            function = gradient

            def objective(scores: npt.NDArray[Any], dataset: Any) -> tuple[Any, Any]:
                return function(scores, dataset, round_now.round)

            params["objective"] = _Undivided(objective)
        booster = _train(
            params,
            request.train,
            num_boost_round=request.rounds,
            valid_sets=[d for _, d in request.valid] or None,
            valid_names=[n for n, _ in request.valid] or None,
            feval=list(request.metrics) or None,
            init_model=request.init_model,
            keep_training_booster=request.keep_training_booster,
            callbacks=[round_now, *(_Translated(cb) for cb in request.callbacks)],
        )
        return booster, max(0, booster.best_iteration)

    def rounds_of(self, booster: Any) -> int:
        return int(booster.current_iteration())

    def load_booster(self, model: Any) -> Any:
        if isinstance(model, lightgbm.Booster):
            return model
        raise ParameterError(f"init_model must be a path, a Booster or a RankingModel, not {type(model).__name__}")

    def predict(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        scores = booster.predict(features, raw_score=True, num_iteration=rounds or -1, num_threads=threads)
        return np.asarray(scores, dtype=np.float64).reshape(-1)

    def to_bytes(self, booster: Any, *, rounds: int) -> bytes:
        return str(booster.model_to_string(num_iteration=rounds or -1)).encode()

    def from_bytes(self, data: bytes) -> Any:
        return lightgbm.Booster(model_str=data.decode())

    def feature_names(self, booster: Any) -> tuple[str, ...]:
        return tuple(booster.feature_name())


BACKEND = LightGBM()


def _train(*args: Any, **kwargs: Any) -> Any:
    """`lgb.train`, with words for a check of its C++ that small data fail."""
    try:
        return lightgbm.train(*args, **kwargs)
    except lightgbm.basic.LightGBMError as error:
        if "num_features()" not in str(error):
            raise
        raise DataError(
            "LightGBM can split no feature: there are too few rows, or all features are constant. For very small data "
            "set min_data_in_leaf=1 and min_data_in_bin=1"
        ) from error


class _Undivided:
    """A callable that survives `copy.deepcopy`: LightGBM copies its parameters, and with them whatever it calls."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, scores: npt.NDArray[Any], dataset: Any) -> tuple[Any, Any]:
        result: tuple[Any, Any] = self._function(scores, dataset)
        return result

    def __deepcopy__(self, memo: Any) -> _Undivided:
        return self


class _RoundCounter:
    """Remembers the round: LightGBM tells its callbacks, not its objective."""

    before_iteration = True
    order = -(2**31)

    def __init__(self) -> None:
        self.round = 0

    def __call__(self, env: Any) -> None:
        self.round = int(env.iteration)


class _Translated:
    """A callback whose `StopTraining` becomes the exception that LightGBM understands."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self.before_iteration = bool(getattr(callback, "before_iteration", False))
        if hasattr(callback, "order"):
            self.order = callback.order

    def __call__(self, env: Any) -> None:
        try:
            self._callback(env)
        except StopTraining as stop:
            raise lightgbm.callback.EarlyStopException(stop.best_iteration, stop.best_score) from stop


def _with_defaults(params: dict[str, Any]) -> dict[str, Any]:
    defaults = {k: v for k, v in _DEFAULTS.items() if not (k in _LAYOUTS and any(a in params for a in _LAYOUTS))}
    return defaults | params


def _known_parameters() -> dict[str, str]:
    """Every parameter name and alias of the installed LightGBM -> its main name; empty if it does not tell."""
    try:
        aliases: dict[str, list[str]] = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:
        return {}
    return {name: main for main, others in aliases.items() for name in (main, *others)}
