"""Rounds of a linear training, as callbacks see them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param, find_param
from boostrank.core.types import Float64Array
from boostrank.engines.base import TrainRequest
from boostrank.engines.events import CallbackEnv, EvalResult, ordered, run_callbacks

LEARNING_RATE = Param(
    "learning_rate", 0.3, "share of each newton step", low=0.0, open_low=True, aliases=("eta", "shrinkage_rate")
)


class Stopped(Exception):
    """A callback has ended the training."""


class Walk:
    """The rounds of a training as callbacks see them, and the weights after each.

    Args:
        request: whose callbacks are called, and whose validation sets are evaluated.
        learning_rate: as it is at first; callbacks may change it.
        before: rounds of a continued model.
    """

    def __init__(self, request: TrainRequest, learning_rate: float, before: int) -> None:
        self._request, self._before = request, before
        self._early, self._late = (ordered(request.callbacks, before=b) for b in (True, False))
        self.path: list[Float64Array] = []
        self.learning_rate = learning_rate
        self.best_rounds = 0

    def begin(self) -> None:
        """Before the first round."""
        self._run(self._early, 0, None)

    def __call__(self, weights: Float64Array) -> None:
        self.path.append(np.array(weights))
        results = [
            EvalResult(name, *result)
            for name, data in self._request.valid
            for function in self._request.metrics
            for result in function(data.rows.scores(weights), data)
        ]
        self._run(self._late, len(self.path) - 1, results)
        if len(self.path) < self._request.rounds:
            self._run(self._early, len(self.path), None)

    def replay(self, path: list[Float64Array]) -> None:
        """Go again a way that was gone before."""
        if self._early:
            raise ParameterError("callbacks that change parameters before a round do not go with restarts")
        with contextlib.suppress(Stopped):
            for weights in path:
                self(weights)

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """What `lgb.reset_parameter` calls.

        Raises:
            ParameterError: anything but the learning rate.
        """
        for name, value in params.items():
            if find_param(name, [LEARNING_RATE]) is None:
                raise ParameterError(f"{name!r} cannot change while a linear model is trained: learning_rate alone can")
            self.learning_rate = float(LEARNING_RATE.parse(value))

    @property
    def boosters(self) -> list[Walk]:
        """LightGBM takes whatever is not its own booster for a list of them."""
        return [self]

    def _run(self, callbacks: list[Callable[[Any], None]], number: int, results: list[EvalResult] | None) -> None:
        begin = self._before
        end = begin + self._request.rounds
        env = CallbackEnv(self, dict(self._request.params), begin + number, begin, end, results)
        best = run_callbacks(callbacks, env)
        if best is not None:
            self.best_rounds = best
            raise Stopped
