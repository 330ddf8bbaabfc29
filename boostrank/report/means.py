"""Means over queries with their intervals, several columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boostrank.core.resampling import RESAMPLES, bootstrap_intervals
from boostrank.core.types import Float64Array, Int64Array

# Below, resampling so few queries says little of those that are not there (a p-value is exact).
FEWEST_FOR_INTERVAL = 20

NEGLIGIBLE = 0.001
"""A difference of a metric that does not matter, unless the noise of training was measured."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the values of queries or documents, where their spread is shown."""


@dataclass(frozen=True, eq=False)
class Means:
    """A number a column.

    Args:
        mean: float64[m], weighted by the queries' weights; NaN without a query.
        low, high: float64[m], its 95% interval by bootstrap over queries; NaN with fewer than two.
        queries: int64[m], how many count.
    """

    mean: Float64Array
    low: Float64Array
    high: Float64Array
    queries: Int64Array


def named_quantiles(rows: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """Return columns `q05`, `q25`, ... of `QUANTILES`, one tuple a row."""
    return {f"q{round(100 * q):02d}": [row[i] for row in rows] for i, q in enumerate(QUANTILES)}


def amount_with_interval(mean: float, low: float, high: float) -> str:
    """`0.0004 [0.0001, 0.0007]`, whatever the sign of the mean; an interval that is NaN is left out."""
    ends = sorted((low, high) if mean >= 0.0 else (-low, -high))
    return f"{abs(mean):.4f}" + ("" if np.isnan(low) else f" [{ends[0]:.4f}, {ends[1]:.4f}]")


def means_over_queries(values: Float64Array, weights: Float64Array, *, seed: int, resamples: int = RESAMPLES) -> Means:
    """Mean of each column over the queries that count in it.

    Columns in which the same queries count share the resamples, so that the interval of a column of differences is
    that of paired values.

    Args:
        values: float64[Q, m], NaN where a query does not count.
        weights: float64[Q], positive.
        seed: of the bootstrap.
        resamples: of the bootstrap; `PAIRED_RESAMPLES` of differences, so that `compare` has the same interval.
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
