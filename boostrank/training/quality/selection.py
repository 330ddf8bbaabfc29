"""Greedy selection: which candidates to average, and with which weights, by their scores of held-out queries.

With replacement, from all candidates alike, so that few queries can say little (Caruana et al. 2004, "Ensemble
selection from libraries of models").
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array

STEPS = 20


def deviation(scores: Float64Array, queries: QueryIndex) -> float:
    """Root mean square of what scores, float64[N], are away from the mean of their query; at least 1e-12.

    Queries with a NaN are left out.
    """
    apart = scores - np.repeat(np.add.reduceat(scores, queries.ptr[:-1]) / queries.sizes, queries.sizes)
    return max(1e-12, float(np.sqrt(np.nanmean(apart * apart))))


def selected(scores: Float64Array, value: Callable[[Float64Array], float], steps: int = STEPS) -> Float64Array:
    """Weights, float64[m], that add up to 1.

    Args:
        scores: float64[m, N], of each candidate on a common scale.
        value: of scores, float64[N]; higher is better.
        steps: additions of one candidate each.
    """
    counts: Float64Array = np.ones(len(scores))
    total = scores.sum(axis=0)
    for _ in range(steps if len(scores) > 1 else 0):
        values = [value(total + one) for one in scores]
        best = int(np.argmax(values))
        counts[best] += 1.0
        total += scores[best]
    shares: Float64Array = counts / counts.sum()
    return shares
