"""Tracking callbacks that report each round to other programs, for every engine.

    boostrank.train(params, train, valid_sets=[valid], callbacks=[JsonLines("rounds.jsonl")])

Rounds count from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boostrank.tracking.callbacks import JsonLines, OptunaPruning, Wandb

if TYPE_CHECKING:
    from boostrank.tracking.mlflow import MLflow, log_model

__all__ = ["JsonLines", "MLflow", "OptunaPruning", "Wandb", "log_model"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in ("MLflow", "log_model"):  # they import the engines
        from boostrank.tracking import mlflow

        return getattr(mlflow, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
