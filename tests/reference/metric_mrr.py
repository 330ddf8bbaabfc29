"""Reciprocal rank of one settled order."""

from __future__ import annotations

from boostrank.core.conventions import Conventions
from tests.reference.metric_precision import empty, relevant

__all__ = ["empty", "value"]


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """1 / rank of the first relevant document among the first k."""
    return next((1 / r for r, y in enumerate(ranked[:k], start=1) if relevant(y, c)), 0.0)
