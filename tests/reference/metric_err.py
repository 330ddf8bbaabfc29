"""Expected reciprocal rank of one settled order."""

from __future__ import annotations

from boostrank.core.conventions import Conventions
from tests.reference.metric_dcg import empty, gain

__all__ = ["empty", "value"]


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """sum_{r <= k} P(satisfied at r, not before) / r; the conventions name the largest grade."""
    assert c.max_grade is not None
    total, reading = 0.0, 1.0
    for r, label in enumerate(ranked[:k], start=1):
        satisfied = gain(label, c) / (gain(c.max_grade, c) + 1)
        total += reading * satisfied / r
        reading *= 1 - satisfied
    return total
