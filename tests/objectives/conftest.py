"""Objectives by name, on one list of documents."""

from __future__ import annotations

from math import exp
from typing import Any

from boostrank.objectives import OBJECTIVES
from tests.objectives.conformance import evaluate, make_query


def sigmoid(t: float) -> float:
    return 1 / (1 + exp(-t))


def read_values(name: str, **changed: Any) -> dict[str, Any]:
    """The parameters of an objective: its defaults, but for what is changed."""
    return {p.name: p.default for p in OBJECTIVES.get(name).params} | changed


def evaluate_named(
    name: str, labels: Any, scores: Any, gain: str = "exponential", **changed: Any
) -> tuple[float, Any, Any]:
    """Loss, gradient and Hessian of an objective on one list."""
    values = read_values(name, **changed)
    return evaluate(OBJECTIVES.get(name), make_query(labels, gain), scores, values)
