"""Steps of a start: where a function of one feature changes, its levels there, and which functions matter.

A start is constant between bounds, so that ordinary trees hold it: every program that reads an engine's files scores it
as the engine does. The engines' trees see a feature in about as many bins, and nothing is lost by it
(`experiments/start`).

A step jumps, so a value beside a bound must be on the same side of it for everybody: for programs that compare by `<`
as for those that do by `<=`, in float32 as in float64. No bound is a float32 number, and none is 0; Solr, which sends
what is up to 1e-6 above a threshold to the left, finds nothing there that was seen, where values are that far apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import isotonic_regression

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.engines.trees import just_above
from boostrank.kernels.trees.curves import Curve, rounded_down

MOST_STEPS = 255
RARE = 0.02
"""Zeros and missing values count where this share of the documents has them, and as many have not."""
MOVED = 1e-3
"""Steps and functions of a start that are left out move no score by more than this share of the scores' deviation."""
SLACK = 1.5e-6
"""Of Solr, 1e-6 and its rounding: what is so close above a threshold goes to the left there."""

_NEAR_ZERO = 1e-30  # LightGBM takes 1e-35 for 0


@dataclass(frozen=True, eq=False)
class Values:
    """What a feature is where it is there.

    Args:
        distinct: ascending float64[u], float32 numbers.
        counts: int64[u], how many documents have each.
        bounds: ascending float64[k], where functions of the feature change. There are at most `MOST_STEPS` steps of
            about as many documents each; zeros have one of their own, if they are not rare.
    """

    distinct: Float64Array
    counts: Int64Array
    bounds: Float64Array

    @classmethod
    def of(cls, column: Float32Array) -> Values:
        """From float32[n]; what is missing or infinite does not count."""
        found, counts = np.unique(column[np.isfinite(column)], return_counts=True)
        values: Float64Array = found.astype(np.float64)
        total = int(counts.sum())
        last = np.arange(values.size - 1)  # of each step
        if values.size > MOST_STEPS:
            ends = total * np.arange(1, MOST_STEPS) / MOST_STEPS
            last = np.searchsorted(np.cumsum(counts), ends).clip(max=values.size - 2)
        zero = np.flatnonzero((values == 0.0) & (counts > RARE * total))
        last = np.unique(np.concatenate([last, zero - 1, zero]))
        last = last[(last >= 0) & (last < values.size - 1)]
        bounds = between(values[last], values[last + 1])
        return cls(values, counts, bounds[np.abs(bounds) > _NEAR_ZERO])

    @property
    def ranks(self) -> Float64Array:
        """float64[u]: the share of documents below each, and half of those that have it."""
        ends = np.cumsum(self.counts)
        return np.asarray((ends - self.counts / 2.0) / max(1, int(self.counts.sum())))

    def mean(self, values: Float64Array) -> float:
        """Of float64[u], over the documents."""
        return float(values @ self.counts / max(1, int(self.counts.sum())))

    @cached_property
    def documents(self) -> Float64Array:
        """float64[k + 1]: how many have a value in each step."""
        return np.bincount(self._step, self.counts, self.bounds.size + 1).astype(np.float64)

    @cached_property
    def _step(self) -> Int64Array:
        """int64[u], the step of each value."""
        return np.searchsorted(self.bounds, self.distinct)

    def in_steps(self, values: Float64Array, missing: float) -> Curve:
        """The steps that come closest to a function: its means there.

        Args:
            values: float64[u], of the function.
            missing: what it says of a missing value.
        """
        sums = np.bincount(self._step, self.counts * values, self.bounds.size + 1)
        return Curve.steps(self.bounds, sums / np.maximum(self.documents, 1.0), missing)


def between(low: Float64Array, high: Float64Array) -> Float64Array:
    """float64[k]: bounds about halfway between float32 numbers, low < bound < high, and none a float32 number itself.

    Args:
        low, high: float64[k], float32 numbers, low < high.
    """
    middle = low / 2.0 + high / 2.0
    middle = np.where((low < 0.0) & (high > 0.0), low / 2.0, middle)
    middle = np.where((high - middle <= SLACK) & (high - low > SLACK), low, middle)
    return just_above(rounded_down(middle))


def isotonic(curve: Curve, documents: Float64Array, direction: int) -> Curve:
    """The steps that come closest to others, over the documents, and never fall; what is missing stays.

    Args:
        curve: in steps.
        documents: float64[k + 1], how many are in each.
        direction: 1; or -1: that never rise; or 0: as they are.
    """
    if direction == 0:
        return curve
    weights = np.maximum(documents, 1.0)
    return replace(curve, constant=isotonic_regression(curve.constant, weights=weights, increasing=direction > 0).x)


def simplified(curves: Mapping[int, Curve], moved: float) -> dict[int, Curve]:
    """The same without the steps and functions that hardly matter.

    Args:
        curves: column -> its steps.
        moved: no score moves by more.
    """
    each = moved / max(1, len(curves))
    kept, rest = {}, 0.0
    for feature, curve in curves.items():
        levels = np.append(curve.constant, curve.missing)
        if np.ptp(levels) <= 2.0 * each:
            rest += float(levels.min() + levels.max()) / 2.0
        else:
            kept[feature] = _merged(curve, each)
    if kept and rest:
        first, curve = next(iter(kept.items()))
        kept[first] = replace(curve, constant=curve.constant + rest, missing=curve.missing + rest)
    return kept


def _merged(curve: Curve, moved: float) -> Curve:
    """Steps beside each other made one as long as no level moves by more."""
    levels = curve.constant.tolist()
    ends, merged = [], []
    low = high = levels[0]
    for i, level in enumerate(levels):
        if (level if level > high else high) - (level if level < low else low) > 2.0 * moved:
            ends.append(i - 1)
            merged.append((low + high) / 2.0)
            low = high = level
        elif level < low:
            low = level
        elif level > high:
            high = level
    documents = curve.documents
    if documents is not None:
        documents = np.append(np.add.reduceat(documents[:-1], [0, *(end + 1 for end in ends)]), documents[-1])
    found = Curve.steps(curve.bounds[ends], np.array([*merged, (low + high) / 2.0]), curve.missing)
    return replace(found, documents=documents)
