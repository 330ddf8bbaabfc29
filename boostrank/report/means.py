"""Weighted means over queries with bootstrap intervals, for several columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.resampling import RESAMPLES, bootstrap_intervals
from boostrank.core.types import Float64Array, Int64Array

# With fewer queries, a bootstrap interval is unreliable; exact p-values are not.
FEWEST_FOR_INTERVAL = 20

TIE = 1e-12
"""Smaller differences are rounding: the same numbers summed in another order."""

NEGLIGIBLE = 0.001
"""Default of the largest metric difference that does not matter."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that describe the spread of queries or documents."""


@dataclass(frozen=True, eq=False)
class Means:
    """Means and intervals, one per column.

    Args:
        mean: float64[m], weighted by query weights; NaN without a query.
        low, high: float64[m], 95% bootstrap interval over queries; NaN for fewer than two.
        queries: int64[m], number of queries that count.
    """

    mean: Float64Array
    low: Float64Array
    high: Float64Array
    queries: Int64Array


def quantile_columns(parts: Sequence[Float64Array]) -> dict[str, list[float]]:
    """Return the columns `q05`, `q25`, ... of `QUANTILES`, with a row for each array of values."""
    rows = [np.quantile(part, QUANTILES).tolist() for part in parts]
    return {f"q{round(100 * q):02d}": [row[i] for row in rows] for i, q in enumerate(QUANTILES)}


def mean_ranks(values: npt.NDArray[Any], owner: Int64Array) -> Float64Array:
    """Return ascending ranks from 0 among the values of the same owner, float64[n]; ties share their mean rank.

    Args:
        owner: int64[n], such as the query of each document, ascending.
    """
    order = np.lexsort((values, owner))
    ordered = values[order]
    place = np.arange(owner.size) - np.searchsorted(owner, owner)
    begins = np.ones(owner.size, dtype=bool)
    begins[1:] = (ordered[1:] != ordered[:-1]) | (owner[1:] != owner[:-1])
    run = np.cumsum(begins) - 1
    ranks = np.empty(owner.size)
    ranks[order] = (np.bincount(run, place) / np.bincount(run))[run]
    return ranks


def amount_with_interval(mean: float, low: float, high: float) -> str:
    """Format `0.0004 [0.0001, 0.0007]` without the mean's sign; a NaN interval is left out."""
    ends = sorted((low, high) if mean >= 0.0 else (-low, -high))
    return f"{abs(mean):.4f}" + ("" if np.isnan(low) else f" [{ends[0]:.4f}, {ends[1]:.4f}]")


def means_over_queries(values: Float64Array, weights: Float64Array, *, seed: int, resamples: int = RESAMPLES) -> Means:
    """Return the mean of each column over the queries that count in it.

    Columns with the same queries share resamples, so intervals of difference columns are paired.

    Args:
        values: float64[Q, m], NaN where a query does not count.
        weights: float64[Q], positive.
        resamples: number of resamples; `PAIRED_RESAMPLES` matches the intervals of `compare`.
    """
    m = values.shape[1]
    counted = ~np.isnan(values)
    mean, low, high = (np.full(m, np.nan) for _ in range(3))
    alike: dict[bytes, list[int]] = {}
    for column in range(m):
        alike.setdefault(counted[:, column].tobytes(), []).append(column)
    for columns in alike.values():
        inside = counted[:, columns[0]]
        queries = int(inside.sum())
        if not queries:
            continue
        counted_values, w = np.ascontiguousarray(values[inside][:, columns]), weights[inside]
        mean[columns] = (w / w.sum()) @ counted_values
        if queries > 1:
            low[columns], high[columns] = bootstrap_intervals(counted_values, w, seed=seed, resamples=resamples)
    return Means(mean, low, high, counted.sum(axis=0).astype(np.int64))
