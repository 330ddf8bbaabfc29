"""Recall of one settled order."""

from __future__ import annotations

from boostrank.core.conventions import Conventions
from tests.reference.metric_precision import empty, relevant

__all__ = ["empty", "value"]


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """Relevant documents among the first k, over all relevant documents."""
    return sum(relevant(y, c) for y in ranked[:k]) / sum(relevant(y, c) for y in ranked)
