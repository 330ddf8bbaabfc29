"""Rounds of XGBoost's training: gradients, metrics, callbacks, and the seeds of sampling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from boostrank.core.errors import ModelError, TrainingError
from boostrank.engines.base import TrainRequest
from boostrank.engines.rounds import Callback, CallbackEnv, EvalResult, ordered, remembers, round_seed, run_callbacks
from boostrank.engines.xgboost.params import renamed
from boostrank.engines.xgboost.private import reseed


class Bridge(xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Runs LightGBM-style callbacks inside `xgb.train`."""

    def __init__(self, request: TrainRequest, params: dict[str, Any], before: int, begin: int) -> None:
        super().__init__()
        self._request, self._before, self._begin = request, before, begin
        shares = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
        self._samples = any(float(params.get(name, 1.0)) < 1 for name in shares)
        self._method, self._seed = str(params.get("tree_method", "hist")), int(params.get("seed", 0))
        self._params = dict(request.params)
        self._round = before
        self._results: list[EvalResult] = []
        self._sets_evaluated = 0
        self._early = ordered(request.callbacks, before=True)
        self._late = ordered(request.callbacks, before=False)
        self.best_rounds = 0
        self.booster: Any = None  # as it was after the last whole round

    def gradient(self, scores: npt.NDArray[Any], matrix: Any) -> tuple[Any, Any]:
        """Our gradient of this round."""
        assert self._request.gradient is not None
        grad, hess = self._request.gradient(scores, matrix, self._round)
        return grad.reshape(-1, 1), hess.reshape(-1, 1)

    def evaluate(self, scores: npt.NDArray[Any], matrix: Any) -> list[tuple[str, float]]:
        """The metrics of the next data set, for `custom_metric`.

        They are kept here as they are: what XGBoost is given back it rounds to six decimals.
        """
        name = self._request.valid[self._sets_evaluated][0]
        self._sets_evaluated += 1
        for function in self._request.metrics:
            self._results += [EvalResult(name, *result) for result in function(scores, matrix)]
        return [("evaluated", 0.0)]

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._results, self._sets_evaluated, self._round = [], 0, self._before + epoch
        resumed = self._request.resumed
        if epoch == 0 and resumed is not None:
            try:
                found = digest(model, self._request.train)
            except ValueError as error:  # of other features
                words = str(error).splitlines()[0]
                raise ModelError(f"the checkpoint's model does not go with the data: {words}") from error
            if found != resumed.snapshot.scores_sha256:
                raise TrainingError(
                    "the checkpoint's trees do not give back the scores that it was written with, to the last bit: was "
                    "it written on another machine? Start anew without it"
                )
            callbacks = [callback for callback in self._late if remembers(callback)]
            for earlier, results in enumerate(resumed.results, self._begin - self._before):
                self._run(callbacks, model, earlier, results)
        if self._samples:  # seeded by the round: XGBoost does not show the state of its random numbers
            reseed(model, self._method, round_seed("seed", self._seed, self._round))
        return self._run(self._early, model, epoch, None)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.booster = model
        return self._run(self._late, model, epoch, self._results)

    def _run(self, callbacks: Sequence[Callback], model: Any, epoch: int, results: list[EvalResult] | None) -> bool:
        trained_on = [name for name, data in self._request.valid if data is self._request.train]
        for callback in callbacks:
            watched = results
            if results is not None and hasattr(callback, "stopping_rounds"):
                # LightGBM's early stopping leaves out the training set by asking its own booster which one it is.
                watched = [r for r in results if r.dataset_name not in trained_on] or results
            env = CallbackEnv(
                model=_Resettable(model, self._request.train), params=self._params, iteration=self._before + epoch,
                begin_iteration=self._begin, end_iteration=self._begin + self._request.rounds,
                evaluation_result_list=watched,
            )  # fmt: skip
            best = run_callbacks([callback], env)
            if best is not None:
                self.best_rounds = best
                return True
        return False


def digest(booster: Any, train: Any) -> str:
    """SHA-256 of the scores that a booster has of its training rows, float32."""
    scores = booster.predict(train, output_margin=True, training=True)
    return hashlib.sha256(np.asarray(scores, dtype=np.float32).tobytes()).hexdigest()


class _Resettable:
    """The part of a LightGBM booster that `lgb.reset_parameter` touches."""

    def __init__(self, booster: Any, train: Any) -> None:
        self.booster, self.train = booster, train

    @property
    def boosters(self) -> list[_Resettable]:
        """LightGBM takes whatever is not its own booster for a list of them."""
        return [self]

    def reset_parameter(self, params: dict[str, Any]) -> None:
        """Change parameters in the middle of training, in LightGBM's names."""
        self.booster.set_param(renamed(params))
