"""Counterfactuals: the smallest change of one feature that swaps two documents, over all thresholds of the trees.

With all other features fixed, the score is a step function of one feature, constant between thresholds. One value per
step therefore covers all values. The engine computes the scores, so missing values, zeros and float32 are treated as
in `predict`.

The size of a change is a difference in ranks: the share of documents between the old and the new value. Like trees, it
does not change under monotone transformations of a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.curves import ZERO, rounded_down
from boostrank.kernels.forest import ZERO_IS_MISSING, Forest

# Number of values to try when scores are not constant between thresholds.
_VALUES = 500
# Values passed to the engine per call (64 MB).
_AT_A_TIME = 1 << 24
_INF = np.float32(np.inf)

Score = Callable[[Float32Array], Float64Array]
"""float32[n, c] -> float64[n], as the engine predicts."""


@dataclass(frozen=True)
class Counterfactual:
    """The smallest change of one feature of one document that swaps the pair.

    Args:
        document: "a" or "b", the changed document.
        now: current value; NaN is missing.
        value: nearest value that swaps the pair, preferably one that occurs in the data (`seen`); NaN if only a missing
            value does.
        seen: whether the value occurs in the data or, for large data, in the sample (`Why.sampled`).
        nearest: nearest float32 number that swaps the pair, whether or not it occurs; NaN if none does.
        step: share of documents between `now` and `value`, in [0, 1]; documents at either end count half. 1 for
            unordered changes: to or from a missing value, and between categories, where `value` is the most frequent.
        score: score of the document with `value`.
    """

    document: Literal["a", "b"]
    feature: str
    now: float
    value: float
    seen: bool
    nearest: float
    step: float
    score: float


@dataclass(frozen=True, eq=False)
class FeatureValues:
    """Values of one feature in the data, and its steps in the trees.

    Args:
        cuts: float32[k], ascending, distinct: last number of each step except the highest; None if scores are not
            constant between thresholds.
        values: float64[m], ascending, distinct values in the data.
        below: float64[m+1], share of present values below each value, then 1.
        has_missing: whether the data have missing values.
        categories: int64[g], categories that the trees know; None for ordered values.
    """

    cuts: Float32Array | None
    values: Float64Array
    below: Float64Array
    has_missing: bool
    categories: Int64Array | None = None

    @classmethod
    def of(cls, values: Float32Array, cuts: Float32Array | None, categories: Int64Array | None = None) -> FeatureValues:
        """Return the values of a column, float32[n]; NaN is missing."""
        present = values[~np.isnan(values)].astype(np.float64) + 0.0  # -0 is 0
        distinct, counts = np.unique(present, return_counts=True)
        below = np.concatenate([[0.0], np.cumsum(counts) / max(1, present.size)])
        return cls(cuts, distinct, below, present.size < values.size, categories)

    def shares(self, values: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the share of documents below each number (equal values count half), and the share equal to it."""
        below, up_to = (self.below[np.searchsorted(self.values, values, side)] for side in ("left", "right"))
        return (below + up_to) / 2.0, up_to - below

    @property
    def median(self) -> float:
        """Median of the data; 0 without values."""
        return float(self.values[np.searchsorted(self.below[1:], 0.5)]) if self.values.size else 0.0

    def steps(self) -> tuple[Float32Array, Float32Array]:
        """Return the first and the last number of each step."""
        if self.categories is not None:
            # The trees treat all unknown categories alike: one extra code stands for all of them.
            other = 1 + max(self.categories.max(initial=-1), int(self.values.max(initial=-1.0)))
            alone = np.union1d(np.append(self.categories, other), self.values).astype(np.float32)
            return alone, alone
        if self.cuts is None:
            few = self.values[np.linspace(0, max(0, self.values.size - 1), min(self.values.size, _VALUES)).astype(int)]
            alone = np.asarray(few, dtype=np.float32)
            return alone, alone
        first = np.concatenate([[-_INF], np.nextafter(self.cuts, _INF)]).astype(np.float32)
        last = np.concatenate([self.cuts, [_INF]]).astype(np.float32)
        finite = (first < _INF) & (last > -_INF)
        return first[finite], last[finite]


def categories_of(forest: Forest) -> dict[int, Int64Array]:
    """Return column -> categories in splits, for columns that are split by category."""
    number = forest.threshold[forest.categorical].astype(np.int64)
    feature = forest.feature[forest.categorical]
    return {
        int(column): np.unique(np.concatenate([forest.categories(n) for n in number[feature == column].tolist()]))
        for column in np.unique(feature)
    }


def cuts_of(forest: Forest) -> dict[int, Float32Array]:
    """Return column -> last float32 number of each step except the highest, ascending.

    Columns split by category are left out, see `categories_of`.
    """
    order = np.argsort(forest.feature, kind="stable")
    order = order[~forest.categorical[order]]
    feature, threshold, kind = forest.feature[order], forest.threshold[order], forest.kind[order]
    found = {}
    bounds = np.flatnonzero(np.diff(feature, prepend=-1)).tolist()
    for start, stop in pairwise([*bounds, feature.size]):
        exact = threshold[start:stop]
        exact = exact[~np.isnan(exact)]  # no value is to the left of NaN
        if np.any(kind[start:stop] & ZERO_IS_MISSING):
            exact = np.concatenate([exact, [np.nextafter(np.float32(-ZERO), -_INF), ZERO]])
        found[int(feature[start])] = rounded_down(exact)
    for column, curve in forest.start or ():  # the start treats -infinity as missing
        of_start = np.append(rounded_down(curve.bounds), -_INF)
        found[column] = np.append(found.get(column, np.zeros(0, np.float32)), of_start)
    return {column: np.unique(cuts) for column, cuts in found.items()}


def counterfactuals(
    document: Literal["a", "b"],
    row: Float32Array,
    names: Sequence[str],
    columns: Sequence[FeatureValues | None],
    score: Score,
    swaps: Callable[[Float64Array], npt.NDArray[np.bool_]],
    *,
    width: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Counterfactual]:
    """Return the smallest change of each feature that swaps the pair, for features that have one.

    Args:
        columns: c columns; None to keep a feature fixed.
        swaps: whether a score of this document swaps the pair.
        width: values per row in the engine.
    """
    trials = {i: _Trials(float(row[i]), column) for i, column in enumerate(columns) if column is not None}
    owner = np.concatenate([np.zeros(0, np.int64), *(np.full(one.values.size, i) for i, one in trials.items())])
    values = np.concatenate([np.zeros(0, np.float32), *(one.values for one in trials.values())])
    scores = np.empty(owner.size)
    at_a_time = max(1, _AT_A_TIME // max(1, width))
    for start in range(0, owner.size, at_a_time):
        some = slice(start, min(owner.size, start + at_a_time))
        rows = np.tile(row, (some.stop - start, 1))
        rows[np.arange(rows.shape[0]), owner[some]] = values[some]
        scores[some] = score(rows)
        if progress is not None:
            progress(some.stop, owner.size)
    swapped = swaps(scores)
    found = []
    for i, one in trials.items():
        of_feature = owner == i
        best = one.best(swapped[of_feature])
        if best is not None:
            at, value, seen, nearest, step = best
            score_then = float(scores[of_feature][at])
            found.append(Counterfactual(document, names[i], float(row[i]), value, seen, nearest, step, score_then))
    return found


class _Trials:
    """Trial values of one feature: the nearest value of each step, then a missing value."""

    def __init__(self, now: float, column: FeatureValues) -> None:
        self._now, self._column = now, column
        # Missing values have no neighbours: distances start from the median instead.
        self._from = column.median if np.isnan(now) else now
        self._first, self._last = column.steps()
        near = np.clip(np.float32(self._from), self._first, self._last)
        self.values = np.append(near, np.float32(np.nan)).astype(np.float32)

    def best(self, swaps: npt.NDArray[np.bool_]) -> tuple[int, float, bool, float, float] | None:
        """Return the best swapping trial: its position, value, whether it occurs, nearest value, and step."""
        steps = np.flatnonzero(swaps[:-1])
        if not steps.size:
            missing = swaps.size - 1
            return (missing, np.nan, self._column.has_missing, np.nan, 1.0) if swaps[missing] else None
        near = self.values[steps].astype(np.float64) + 0.0
        if self._column.categories is not None:
            _, counts = self._column.shares(near)
            at = int(np.argmax(counts))
            return int(steps[at]), float(near[at]), bool(counts[at] > 0.0), float(near[at]), 1.0
        nearest = int(np.argmin(np.abs(near - self._from)))
        have = self._column.values
        begin = np.searchsorted(have, self._first[steps].astype(np.float64), "left")
        end = np.searchsorted(have, self._last[steps].astype(np.float64), "right")
        occupied = end > begin
        if not occupied.any():
            return int(steps[nearest]), float(near[nearest]), False, float(near[nearest]), self._step(near)[nearest]
        chosen = np.clip(np.searchsorted(have, self._from), begin[occupied], end[occupied] - 1)
        values = have[chosen]
        size = self._step(values)
        best = int(np.lexsort((np.abs(values - self._from), size))[0])
        return int(steps[occupied][best]), float(values[best]), True, float(near[nearest]), float(size[best])

    def _step(self, values: Float64Array) -> Float64Array:
        if np.isnan(self._now):
            return np.ones(values.size)
        places, _ = self._column.shares(np.append(values, self._now))
        return np.asarray(np.abs(places[:-1] - places[-1]))
