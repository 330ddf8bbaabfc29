"""Metrics of a ranking, and their change when two documents swap places: the metric, computed
twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reference._ranking import Query, discount
from tests.reference._relevance import relevant


def grades_of(metric: str, query: Query, values: dict[str, Any]) -> np.ndarray:
    """Gains, relevance, or probabilities of satisfaction."""
    if metric in ("ndcg", "dcg"):
        return query.gains
    if metric == "err":
        top = values["max_gain"] or np.max(query.gains, initial=0.0)
        return np.minimum(query.gains / (top + 1), 1.0)
    return relevant(query, values)


def metric_of(metric: str, ranked: np.ndarray, k: int, blend: float = 0.0) -> float:
    """The metric at k of grades by rank, from its definition; DCG for NDCG."""
    n, top = len(ranked), ranked[:k]
    rank = np.arange(1, len(top) + 1)
    if metric in ("ndcg", "dcg"):
        return float(np.sum(top * discount(rank, blend, n)))
    if metric == "map":
        return sum(np.sum(top[:r]) / r for r in rank if top[r - 1]) / np.sum(ranked)
    if metric == "mrr":
        return next((1 / r for r in rank if top[r - 1]), 0.0)
    if metric == "err":
        return sum(top[r - 1] / r * np.prod(1 - top[: r - 1]) for r in rank)
    assert metric == "precision"
    return float(np.sum(top)) / k


def change(metric: str, ranked: np.ndarray, a: int, b: int, k: int) -> float:
    """|change| of the metric of the whole list when positions a and b swap; precision is cut off at
    k.
    """
    swapped = ranked.copy()
    swapped[[a, b]] = ranked[[b, a]]
    depth = k if metric == "precision" else len(ranked)
    return abs(metric_of(metric, swapped, depth) - metric_of(metric, ranked, depth))
