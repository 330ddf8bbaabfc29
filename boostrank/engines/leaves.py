"""Leaves that every program adds up alike.

Programs that serve trees add leaves up in float32 or in float64, and in orders of their own: each rounds elsewhere, and
documents whose scores are close change their places. Leaves that are multiples of one power of 2, the unit, and so
small that no sum of them reaches 2^24 units, are added up without rounding by all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from boostrank.core.types import Float64Array, Int64Array

ROUNDED = 1e-3
"""Leaves are rounded where that moves scores by no more than this share of their deviation: root mean squares, of trees
that know nothing of each other."""
_BITS = 24  # of a float32 number


@dataclass(frozen=True, eq=False)
class Leaves:
    """What trees add to scores.

    Args:
        tree: int64[L], the tree of each leaf, from 0 and ascending.
        value: float64[L], of each.
        count: float64[L], documents (or hessians) in each; 0 where nobody knows.
        base: what every score begins with.
    """

    tree: Int64Array
    value: Float64Array
    count: Float64Array
    base: float = 0.0

    def in_units(self) -> Leaves | None:
        """The same rounded to multiples of a unit; None where that would count, as beside one leaf
        that is far larger than the rest; and where all are 0, or one is not finite."""
        trees = int(self.tree.max(initial=-1)) + 1
        largest = np.zeros(trees)
        np.maximum.at(largest, self.tree, np.abs(self.value))
        total = float(largest.sum()) + abs(self.base)
        if not 0.0 < total < math.inf:
            return None
        # Rounding adds half a unit to each at most.
        unit = math.ldexp(1.0, math.frexp(total * (1.0 + (trees + 1) * 2.0**-_BITS))[1] - _BITS)
        count = np.maximum(self.count, 1e-30)
        documents, sums = (np.bincount(self.tree, count * of, trees) for of in (np.ones(count.size), self.value))
        mean = (sums / documents)[self.tree]
        variance = np.bincount(self.tree, count * (self.value - mean) ** 2, trees) / documents
        if unit * math.sqrt((trees + 1) / 12.0) > ROUNDED * math.sqrt(variance.sum()):
            return None
        value = np.round(self.value / unit) * unit + 0.0  # -0 becomes 0
        return replace(self, value=value, base=round(self.base / unit) * unit)
