"""Rounds as trackers tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def metrics_of(env: Any) -> dict[str, float]:
    """Metrics after a round, as "valid_0/ndcg@10" -> value."""
    return {f"{result[0]}/{result[1]}": float(result[2]) for result in env.evaluation_result_list or []}


def plain_params(env: Any) -> dict[str, Any]:
    """The engine's parameters that are numbers, words, or lists of them; an objective that is code is none."""
    plain = (str, int, float, bool, list, tuple)
    return {str(name): value for name, value in env.params.items() if isinstance(value, plain)}


def chosen_result(results: Sequence[Any], metric: str | None, dataset: str | None) -> Any | None:
    """The metric that is asked for, or the first, on the set that is asked for, or the first but "training"."""
    for result in results:
        in_set = result[0] == dataset if dataset is not None else result[0] != "training"
        if in_set and metric in (None, result[1]):
            return result
    return None
