"""NDCG of one settled order."""

from __future__ import annotations

from boostrank.core.conventions import Conventions
from tests.reference import metric_dcg
from tests.reference.metric_dcg import empty

__all__ = ["empty", "value"]


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """DCG over the DCG of the best order."""
    if c.short_lists == "letor" and k is not None and len(ranked) < k:
        return 0.0
    return metric_dcg.value(ranked, k, c) / metric_dcg.value(sorted(ranked, reverse=True), k, c)
