"""DCG of one settled order."""

from __future__ import annotations

import math

from boostrank.core.conventions import Conventions


def gain(label: float, c: Conventions) -> float:
    if c.gain == "exponential":
        return 2**label - 1
    return label if c.gain == "linear" else c.gain[int(label)]


def discount(rank: int, c: Conventions) -> float:
    return 1 / math.log2(1 + rank) if c.discount == "log2(1+r)" else 1 / math.log2(max(2, rank))


def value(ranked: list[float], k: int | None, c: Conventions) -> float:
    """sum_{r <= k} gain_r discount_r."""
    return sum(gain(y, c) * discount(r, c) for r, y in enumerate(ranked[:k], start=1))


def empty(labels: list[float], c: Conventions) -> bool:
    return all(gain(y, c) == 0 for y in labels)
