"""Greedy selection: which candidates to average, and with which weights, by their scores of held-out queries.

With replacement, one after another, each time the one that makes the average best (Caruana et al. 2004, "Ensemble
selection from libraries of models"). `experiments/defaults` compares it with others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array

STEPS = 10


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
    counts: Float64Array = np.zeros(len(scores))
    total = np.zeros(scores.shape[1])
    for _ in range(steps):
        values = [value(total + one) for one in scores]
        best = int(np.argmax(values))
        counts[best] += 1.0
        total += scores[best]
    shares: Float64Array = counts / counts.sum()
    return shares
