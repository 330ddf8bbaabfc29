"""Rounds of LightGBM's training: callbacks, and the seeds of sampling."""

from __future__ import annotations

from typing import Any

import lightgbm

from boostrank.engines.base import TrainRequest
from boostrank.engines.lightgbm.params import TRUE
from boostrank.engines.lightgbm.private import main_names
from boostrank.engines.rounds import (
    Callback,
    CallbackEnv,
    Resumed,
    StopTraining,
    beginning_at,
    later,
    ordered,
    remembers,
    round_seed,
)


class RoundStart:
    """Remembers the round, which LightGBM tells its callbacks, not its objective; and seeds the sampling in it."""

    before_iteration = True
    order = -(2**31)

    def __init__(self, request: TrainRequest, params: dict[str, Any], start_trees: int) -> None:
        self.round, self._start_trees = 0, start_trees
        self._request, self._sampling, self.model = request, Sampling(params), None
        self._resumed = request.resumed

    def __call__(self, env: Any) -> None:
        self.round, self.model = int(env.iteration) - self._start_trees, env.model
        if self._resumed is not None:
            # The model file tells how many rounds were asked for, not how many were left.
            env.model.reset_parameter({"num_iterations": self._request.rounds})
            # Callbacks that remember see the earlier rounds once more.
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
        """With an objective of ours only in its call: before, LightGBM resets a booster once more in its first round,
        which draws features."""
        self._sampling.seed(self.model, self.round)


class Sampling:
    """Seeds LightGBM's sampling of rows and features by the round: it does not show the state of its random numbers.

    Not with dart and goss, whose own state a change of parameters would reset. dart's is reset once, before the first
    tree: whether LightGBM has drawn a number by then depends on memory that it does not set (4.7).
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
        """Seed what is sampled in this round; rows keep their sample for as many rounds as `bagging_freq` says."""
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
            # LightGBM takes a new seed for rows only together with a new fraction.
            model.reset_parameter({"bagging_fraction": 0.999 * self._fraction})
            seeds["bagging_fraction"] = self._fraction
        model.reset_parameter(seeds)


class Translated:
    """A callback whose `StopTraining` becomes the exception that LightGBM understands, whose training began where
    it first began, and to whom the trees of a start are no rounds."""

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
