"""Step functions for a linear start, with their bounds, levels, and simplification.

A start is piecewise constant, so that ordinary trees can represent it, and every program that reads
an engine's files computes its scores correctly. The engines bin features about as finely
(`experiments/start`).

No bound is a float32 number or 0, so that programs agree on values next to a bound, whether they
compare by `<` or `<=`, and in float32 or float64. Solr sends values up to 1e-6 above a threshold to
the left. No training value is in that range if values are that far apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import isotonic_regression

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.engines.trees import just_above
from boostrank.kernels.curves import Curve, rounded_down

MOST_STEPS = 255
RARE = 0.02
"""Minimum share of documents with a zero or missing value, and of documents without, for a function
of its own.
"""
MOVED = 1e-3
"""Maximum change of a score through simplification, relative to the standard deviation of the
scores.
"""
SLACK = 1.5e-6
"""Solr's tolerance above a threshold, which is 1e-6 plus rounding."""

_NEAR_ZERO = 1e-30  # LightGBM treats values up to 1e-35 as 0


@dataclass(frozen=True, eq=False)
class Values:
    """The distinct values of a feature.

    Args:
        distinct: float64[u], float32 numbers in ascending order.
        counts: int64[u], number of documents with each value.
        bounds: float64[k], bounds of the steps in ascending order. There are at most `MOST_STEPS`
            steps with about equally many documents. Zeros have a separate step unless they are
            rare.
    """

    distinct: Float64Array
    counts: Int64Array
    bounds: Float64Array

    @classmethod
    def from_column(cls, column: Float32Array) -> Values:
        """Find the distinct values in float32[n]. Missing and infinite values are ignored."""
        numbers, counts = np.unique(column[np.isfinite(column)], return_counts=True)
        values: Float64Array = numbers.astype(np.float64)
        total = int(counts.sum())
        last_of_step = np.arange(values.size - 1)  # last value of each step
        if values.size > MOST_STEPS:
            ends = total * np.arange(1, MOST_STEPS) / MOST_STEPS
            last_of_step = np.searchsorted(np.cumsum(counts), ends).clip(max=values.size - 2)
        zero = np.flatnonzero((values == 0.0) & (counts > RARE * total))
        last_of_step = np.unique(np.concatenate([last_of_step, zero - 1, zero]))
        last_of_step = last_of_step[(last_of_step >= 0) & (last_of_step < values.size - 1)]
        bounds = between(values[last_of_step], values[last_of_step + 1])
        return cls(values, counts, bounds[np.abs(bounds) > _NEAR_ZERO])

    @property
    def ranks(self) -> Float64Array:
        """Share of documents below each value, plus half of the share of documents with that value,
        float64[u].
        """
        ends = np.cumsum(self.counts)
        return (ends - self.counts / 2.0) / max(1, int(self.counts.sum()))

    def mean(self, values: Float64Array) -> float:
        """Return the mean of float64[u] over the documents."""
        return float(values @ self.counts / max(1, int(self.counts.sum())))

    @cached_property
    def documents(self) -> Float64Array:
        """Number of documents in each step, float64[k + 1]."""
        return np.bincount(self._step, self.counts, self.bounds.size + 1).astype(np.float64)

    @cached_property
    def _step(self) -> Int64Array:
        return np.searchsorted(self.bounds, self.distinct)

    def in_steps(self, values: Float64Array, missing: float) -> Curve:
        """Approximate a function by its mean in each step."""
        sums = np.bincount(self._step, self.counts * values, self.bounds.size + 1)
        return Curve(self.bounds, sums / np.maximum(self.documents, 1.0), missing)


def between(low: Float64Array, high: Float64Array) -> Float64Array:
    """Return bounds about halfway between float32 numbers low < high, float64[k]. No bound is a
    float32 number.
    """
    midpoint = low / 2.0 + high / 2.0
    midpoint = np.where((low < 0.0) & (high > 0.0), low / 2.0, midpoint)
    midpoint = np.where((high - midpoint <= SLACK) & (high - low > SLACK), low, midpoint)
    return just_above(rounded_down(midpoint))


def isotonic(curve: Curve, documents: Float64Array, direction: int) -> Curve:
    """Return the closest monotone step function, weighted by documents. The value for missing
    values is kept.

    Args:
        documents: float64[k + 1], number of documents in each step.
        direction: 1 for non-decreasing, -1 for non-increasing, 0 for unchanged.
    """
    if direction == 0:
        return curve
    weights = np.maximum(documents, 1.0)
    return replace(
        curve,
        constant=isotonic_regression(curve.constant, weights=weights, increasing=direction > 0).x,
    )


def simplified(curves: Mapping[int, Curve], max_shift: float) -> dict[int, Curve]:
    """Remove steps and functions that have almost no effect."""
    shift_per_curve = max_shift / max(1, len(curves))
    simpler, shift = {}, 0.0
    for feature, curve in curves.items():
        levels = np.append(curve.constant, curve.missing)
        if np.ptp(levels) <= 2.0 * shift_per_curve:
            shift += float(levels.min() + levels.max()) / 2.0
        else:
            simpler[feature] = _merged(curve, shift_per_curve)
    if simpler and shift:
        first, curve = next(iter(simpler.items()))
        simpler[first] = replace(
            curve, constant=curve.constant + shift, missing=curve.missing + shift
        )
    return simpler


def _merged(curve: Curve, max_shift: float) -> Curve:
    """Merge adjacent steps as long as no level changes by more than `max_shift`."""
    levels = curve.constant.tolist()
    ends, merged = [], []
    # Extend each step while the range of its levels is at most 2 * max_shift; the new level is
    # the middle of the range.
    low = high = levels[0]
    for i, level in enumerate(levels):
        if max(high, level) - min(low, level) > 2.0 * max_shift:
            ends.append(i - 1)
            merged.append((low + high) / 2.0)
            low = high = level
        elif level < low:
            low = level
        elif level > high:
            high = level
    documents = curve.documents
    if documents is not None:
        documents = np.append(
            np.add.reduceat(documents[:-1], [0, *(end + 1 for end in ends)]), documents[-1]
        )
    levels_left = np.array([*merged, (low + high) / 2.0])
    return Curve(curve.bounds[ends], levels_left, curve.missing, documents=documents)
