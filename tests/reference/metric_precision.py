"""Precision of one settled order."""

from __future__ import annotations

from boostrank.core.conventions import Conventions


def relevant(label: float, c: Conventions) -> bool:
    return label > 0 if c.relevant_from is None else label >= c.relevant_from


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """Relevant documents among the first k, over k."""
    hits = sum(relevant(y, c) for y in ranked[:k])
    if k is None or (c.short_lists == "clip" and len(ranked) < k):
        return hits / len(ranked)
    return hits / k


def empty(labels: list[float], c: Conventions) -> bool:
    return not any(relevant(y, c) for y in labels)
