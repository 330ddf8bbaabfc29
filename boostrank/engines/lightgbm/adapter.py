"""LightGBM as an engine: data sets, training, and the work of each round."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, TrainingError
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import whole_of
from boostrank.engines.base import Backend, TrainRequest
from boostrank.engines.lightgbm.booster import LightGBMBooster
from boostrank.engines.lightgbm.format import LIGHTGBM, start_text
from boostrank.engines.lightgbm.params import TRUE, LightGBMParams
from boostrank.engines.lightgbm.private import has_nothing_to_split, main_names, starting_at, use_one_thread
from boostrank.engines.lightgbm.stream import StreamedDataset
from boostrank.engines.model_format import LinearStart, engine_names
from boostrank.engines.params import engine_threads, limit_in_children, without_stderr
from boostrank.engines.rounds import (
    Callback,
    CallbackEnv,
    Resumed,
    Snapshot,
    StopTraining,
    beginning_at,
    later,
    ordered,
    remembers,
    round_seed,
)

# Without these two, LightGBM times both layouts and keeps the faster one, so two runs may differ.
_DEFAULTS = {"deterministic": True, "force_col_wise": True}
_LAYOUTS = ("force_col_wise", "force_row_wise")


class LightGBM(Backend):
    """LightGBM's `Backend`."""

    name = "lightgbm"
    version = str(lightgbm.__version__)
    booster_type = lightgbm.Booster
    error_types = (lightgbm.basic.LightGBMError,)
    format = LIGHTGBM
    params = LightGBMParams()
    booster = LightGBMBooster
    starts_linear = shares_bins = True

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        whole = whole_of(data.features)
        # Parts of one data set share its bins.
        if whole is not None:
            if whole.bins is None:
                whole.bins = self.dataset(whole.data, params, reference=None, weights=weights)
            return whole.bins.subset(data.features.rows)
        row_weights = None
        if weights and data.queries.weights is not None:
            row_weights = np.repeat(data.queries.weights, data.queries.sizes)
        options = {
            "label": data.labels,
            "group": data.queries.sizes,
            "weight": row_weights,
            "feature_name": list(engine_names(data.feature_names)),
            "reference": reference,
            "params": _with_defaults(params),
        }
        if data.on_disk:
            return StreamedDataset(data.features, **options)
        return lightgbm.Dataset(data.features, **options)

    def check(self, data: Any, params: dict[str, Any]) -> None:
        with without_stderr(), _naming_nothing_to_split():
            lightgbm.Booster(_with_defaults(params), data).reset_parameter({"objective": "none"})

    def train(self, request: TrainRequest) -> tuple[LightGBMBooster, int]:
        params = _with_defaults(request.params) | {"metric": "None"}
        if "num_threads" in params:
            params["num_threads"] = engine_threads("LightGBM", params["num_threads"])
        first = 0 if request.init_model is None else request.init_model.start_trees
        round_now = RoundStart(request, params, first)
        gradient = request.gradient
        if gradient is None:
            params["objective"] = request.native_objective
        else:
            function = gradient

            def objective(scores: npt.NDArray[Any], dataset: Any) -> tuple[Any, Any]:
                round_now.seed_sampling()
                return function(scores, dataset, round_now.round)

            # A function, not a method: LightGBM copies its parameters, and a method would drag the data along.
            params["objective"] = objective
        init_model, rounds = None if request.init_model is None else request.init_model.native, request.rounds
        # Initial scores of a continued model, or the saved scores of a resumed training.
        with contextlib.ExitStack() as given:
            given.enter_context(_naming_nothing_to_split())
            sets = [request.train, *(data for _, data in request.valid)]
            for data, scores in zip(sets, request.start_scores if request.resumed is None else (), strict=False):
                if scores is not None:
                    given.enter_context(starting_at(data, scores))
            if request.resumed is not None:
                stopped = self.load(request.resumed.snapshot.model)
                init_model, rounds = stopped.native, rounds + request.resumed.begin - stopped.rounds
                holders = [request.train, *(data for _, data in request.valid if data is not request.train)]
                for data, scores in zip(holders, request.resumed.snapshot.scores, strict=True):
                    given.enter_context(starting_at(data, scores))
            try:
                for data in sets:
                    if data.used_indices is not None:
                        data.construct()  # otherwise LightGBM predicts from rows that a part does not have
                booster = lightgbm.train(
                    params,
                    request.train,
                    num_boost_round=rounds,
                    valid_sets=[d for _, d in request.valid] or None,
                    valid_names=[n for n, _ in request.valid] or None,
                    feval=list(request.metrics) or None,
                    init_model=init_model,
                    keep_training_booster=request.keep_training_booster,
                    callbacks=[round_now, *(Translated(cb, request.resumed, first) for cb in request.callbacks)],
                )
            except TrainingError as error:
                # dart negates the dropped trees during a round, so its model is not usable here.
                if round_now.model is not None and main_names(params).get("boosting") != "dart":
                    error.model = LightGBMBooster(round_now.model, first)
                raise
        return LightGBMBooster(booster, first), max(0, booster.best_iteration - first)

    def snapshot(self, model: Any) -> Snapshot:
        scores: list[Float64Array] = []

        def keep(values: npt.NDArray[Any], dataset: Any) -> tuple[str, float, bool]:
            scores.append(np.array(values, dtype=np.float64).reshape(-1))
            return "kept", 0.0, True

        model.eval_train(keep)
        model.eval_valid(keep)
        return Snapshot(LightGBMBooster(model).to_bytes(), tuple(scores))

    def load(self, data: bytes) -> LightGBMBooster:
        return LightGBMBooster.load(data)

    def begin_with(self, start: LinearStart) -> LightGBMBooster:
        return self.load(start_text(start).encode())


BACKEND = LightGBM()
limit_in_children("LightGBM", use_one_thread)


@contextlib.contextmanager
def _naming_nothing_to_split() -> Iterator[None]:
    """Inside, name the cause of LightGBM's error about data without a feature to split."""
    try:
        yield
    except lightgbm.basic.LightGBMError as error:
        if not has_nothing_to_split(error):
            raise
        raise DataError(
            "LightGBM can split no feature: there are too few rows, or all features are constant. For very small data "
            "set min_data_in_leaf=1 and min_data_in_bin=1"
        ) from error


def _with_defaults(params: dict[str, Any]) -> dict[str, Any]:
    defaults = {k: v for k, v in _DEFAULTS.items() if not (k in _LAYOUTS and any(a in params for a in _LAYOUTS))}
    return defaults | params


class RoundStart:
    """Callback that records the round for the objective, to which LightGBM does not pass it, and seeds the sampling."""

    before_iteration = True
    order = -(2**31)

    def __init__(self, request: TrainRequest, params: dict[str, Any], start_trees: int) -> None:
        self.round, self._start_trees = 0, start_trees
        self._request, self._sampling, self.model = request, Sampling(params), None
        self._resumed = request.resumed

    def __call__(self, env: Any) -> None:
        self.round, self.model = int(env.iteration) - self._start_trees, env.model
        if self._resumed is not None:
            # The model file stores the requested number of rounds, not the remaining one.
            env.model.reset_parameter({"num_iterations": self._request.rounds})
            # Replay the earlier rounds to callbacks with memory.
            callbacks = [cb for cb in ordered(self._request.callbacks, before=False) if remembers(cb)]
            begin = self._resumed.begin
            for number, results in enumerate(self._resumed.results, begin):
                for callback in callbacks:
                    end = begin + self._request.rounds
                    callback(CallbackEnv(env.model, env.params, number, begin, end, list(results)))
            self._resumed = None
        if self._request.gradient is None:
            self.seed_sampling()

    def seed_sampling(self) -> None:
        """Seed the sampling of this round.

        Our objective calls it itself: in its first round LightGBM resets the booster once more, which draws features.
        """
        self._sampling.seed(self.model, self.round)


class Sampling:
    """Seeds of LightGBM's sampling of rows and features, set anew each round because LightGBM hides its random state.

    dart and goss are left out: changing parameters would reset their own state. dart is reset once, before the first
    tree, because LightGBM's first draw depends on uninitialised memory (4.7).
    """

    def __init__(self, params: dict[str, Any]) -> None:
        named = main_names(params)
        boosting = str(named.get("boosting", "gbdt"))
        special = boosting in ("dart", "goss") or named.get("data_sample_strategy") == "goss"
        self._first = {"drop_seed": int(named.get("drop_seed", named.get("seed", 4)))} if boosting == "dart" else {}
        self._fraction = float(named.get("bagging_fraction", 1.0))
        self._every = int(named.get("bagging_freq", 0))
        features = min(float(named.get(name, 1.0)) for name in ("feature_fraction", "feature_fraction_bynode"))
        sampled = (
            ("bagging_seed", 3, self._fraction < 1 and self._every > 0),
            ("feature_fraction_seed", 2, features < 1),
            ("extra_seed", 6, named.get("extra_trees") in TRUE),
        )
        self._seeds = {
            name: int(named.get(name, named.get("seed", default)))
            for name, default, active in sampled
            if active and not special
        }

    def seed(self, model: Any, round: int) -> None:
        """Seed the sampling of this round; rows keep their sample for `bagging_freq` rounds."""
        if self._first:
            model.reset_parameter(self._first)
            self._first = {}
        if not self._seeds:
            return
        seeds: dict[str, Any] = {
            name: round_seed(name, seed, round // self._every if name == "bagging_seed" else round)
            for name, seed in self._seeds.items()
        }
        if "bagging_seed" in seeds:
            # LightGBM applies a new seed for rows only with a new fraction.
            model.reset_parameter({"bagging_fraction": 0.999 * self._fraction})
            seeds["bagging_fraction"] = self._fraction
        model.reset_parameter(seeds)


class Translated:
    """Callback adapted to LightGBM.

    It translates `StopTraining`, restores the first round of a resumed training, and does not count the trees of a
    start.
    """

    def __init__(self, callback: Callback, resumed: Resumed | None, start_trees: int) -> None:
        self._callback, self._resumed, self._start_trees = callback, resumed, start_trees
        self.before_iteration = bool(getattr(callback, "before_iteration", False))
        if hasattr(callback, "order"):
            self.order = callback.order

    def __call__(self, env: Any) -> None:
        if self._start_trees:
            env = later(env, -self._start_trees)
        if self._resumed is not None:
            env = beginning_at(env, self._resumed.begin)
        try:
            self._callback(env)
        except (StopTraining, lightgbm.callback.EarlyStopException) as stop:
            best = stop.best_iteration + self._start_trees
            raise lightgbm.callback.EarlyStopException(best, stop.best_score) from stop
