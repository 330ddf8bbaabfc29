"""Average precision of one settled order."""

from __future__ import annotations

from boostrank.core.conventions import Conventions
from tests.reference.metric_precision import empty, relevant

__all__ = ["empty", "value"]


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """Precision at each relevant document among the first k, summed, over R or min(R, k)."""
    flags = [relevant(y, c) for y in ranked]
    precision_sum = sum(sum(flags[:r]) / r for r, flag in enumerate(flags[:k], start=1) if flag)
    reachable = sum(flags) if k is None or c.ap_divisor == "relevant" else min(sum(flags), k)
    return precision_sum / reachable
