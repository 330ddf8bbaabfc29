"""Tracking: callbacks that tell other programs of every round. Each works on every engine; nothing is imported before
it is used.

    boostrank.train(params, train, valid_sets=[valid], callbacks=[JsonLines("rounds.jsonl")])

Rounds count from 1.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.tracking.json_lines import JsonLines
    from boostrank.tracking.mlflow import MLflow, log_model
    from boostrank.tracking.optuna import OptunaPruning
    from boostrank.tracking.wandb import Wandb

_HOMES = {
    "JsonLines": "json_lines", "MLflow": "mlflow", "OptunaPruning": "optuna", "Wandb": "wandb", "log_model": "mlflow",
}  # fmt: skip

__all__ = ["JsonLines", "MLflow", "OptunaPruning", "Wandb", "log_model"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
