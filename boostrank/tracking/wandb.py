"""Weights & Biases: metrics each round, to any object with `.log(values, step=)`, which its runs are."""

from __future__ import annotations

from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.tracking.rounds import metrics_of


class Wandb:
    """A callback that logs "valid_0/ndcg@10" and its like each round; the round is the step.

    Args:
        run: of `wandb.init()`, or what logs as it does.

    Raises:
        ParameterError: it has no `log`.
    """

    before_iteration = False
    order = 22  # before early stopping, which ends the round by an exception

    def __init__(self, run: Any) -> None:
        if not callable(getattr(run, "log", None)):
            raise ParameterError(f"Wandb takes an object with .log(values, step=), not {type(run).__name__}")
        self._run = run

    def __call__(self, env: Any) -> None:
        self._run.log(metrics_of(env), step=env.iteration + 1)
