"""Walks of a forest: its scores as features take other values, in one walk per tree for all features.

A document reaches its leaf through a few nodes. Another value of feature f changes the leaf only if it changes the
direction at one of these nodes. So each node of the walk also tests the other value, and a second walk starts only
where the directions differ. A tree of 31 leaves has some twenty features: scoring once per feature would cost about
twenty times as much.

Scores are sums of integers (leaf values times a power of two), so they do not depend on the order of addition:
documents in the same leaves tie exactly, as they do for the engine. The values of a start are integers too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.noise import uniform
from boostrank.kernels.runtime.jit import F1, I1, INT, CompiledFunction, entry_point, inline
from boostrank.kernels.trees.curves import ZERO, Curves

NAN_LEFT, ZERO_IS_MISSING, CATEGORICAL, LISTED_RIGHT = 1, 2, 4, 8
"""Bits of `Forest.kind`."""

# Documents whose values and changes stay in a core's cache while all trees process them.
_CHUNK = 256
# Bits of the largest sum of leaf values as an integer; a difference of two still fits.
_SUM_BITS = 60

_S2 = types.Array(types.float32, 2, "C")
_I2 = types.Array(types.int64, 2, "C")
_N1 = types.Array(types.int32, 1, "C")
_B1 = types.Array(types.uint8, 1, "C")
_W1 = types.Array(types.uint32, 1, "C")


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees of a model, with concatenated nodes. A document goes left if its value <= threshold.

    Args:
        feature: int32[M], column that each node splits by.
        threshold: float64[M]; the index of its set for a categorical split.
        kind: uint8[M]: NAN_LEFT, missing values go left; ZERO_IS_MISSING, as LightGBM's zero_as_missing; CATEGORICAL,
            the categories of a set go left, all others right; LISTED_RIGHT, the reverse.
        left, right: int32[M], >= 0: a node; < 0: ~child is a leaf; numbered over all trees.
        value: float64[L], value of each leaf.
        roots: int32[T], numbered as left and right.
        tree: int32[M], tree of each node.
        sets: uint32[W], concatenated sets of categories: bit c % 32 of word c // 32 marks category c.
        set_ptr: int64[S+1], start of each set.
        start: functions whose sum is the initial score; None: 0.
    """

    feature: npt.NDArray[np.int32]
    threshold: Float64Array
    kind: npt.NDArray[np.uint8]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: Float64Array
    roots: npt.NDArray[np.int32]
    tree: npt.NDArray[np.int32]
    sets: npt.NDArray[np.uint32]
    set_ptr: Int64Array
    start: Curves | None = None

    @property
    def used(self) -> Int64Array:
        """Columns that some node splits by, ascending."""
        return np.unique(self.feature).astype(np.int64)

    @cached_property
    def categorical(self) -> npt.NDArray[np.bool_]:
        """Whether each node has a categorical split, bool[M]."""
        return np.asarray((self.kind & CATEGORICAL) != 0)

    def categories(self, of_set: int) -> Int64Array:
        """Return the categories in a set, ascending."""
        words = self.sets[self.set_ptr[of_set] : self.set_ptr[of_set + 1]]
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
        return np.flatnonzero(bits).astype(np.int64)

    def exponent(self) -> int:
        """Return the exponent of 2 by which leaf values and those of a start become integers.

        Scores take at most 60 bits, so rounding is below 2^-60 of the largest possible score per tree.
        """
        largest = np.zeros(max(1, self.roots.size))
        np.maximum.at(largest, self.leaf_trees(), np.abs(self.value))
        start = 0.0 if self.start is None else self.start.largest
        return min(_SUM_BITS - math.frexp(max(float(largest.sum()) + start, 1e-300))[1], 1000)

    def leaf_trees(self) -> Int64Array:
        """Return the tree of each leaf, int64[L]; 0 for leaves without a parent."""
        owner = np.zeros(self.value.size, np.int64)
        for child in (self.left, self.right):
            owner[~child[child < 0]] = self.tree[child < 0]
        alone = self.roots < 0
        owner[~self.roots[alone]] = np.flatnonzero(alone)
        return owner


class Walker:
    """Scores of documents under a forest, and their changes.

    Args:
        columns: int64[c], ascending: columns of the rows, including all that the forest uses.
    """

    def __init__(self, forest: Forest, columns: Int64Array) -> None:
        self._forest = forest
        self._feature = np.searchsorted(columns, forest.feature).astype(np.int32)
        self._n_columns = columns.size
        self._start = forest.start
        if self._start is not None:
            self._start = replace(self._start, feature=np.searchsorted(columns, self._start.feature).astype(np.int64))
        self._exponent = replace(forest, start=self._start).exponent()
        self._value = self._whole(forest.value)

    def scores(self, rows: Float32Array) -> Float64Array:
        """Return scores float64[n] of rows float32[n, c]."""
        nothing = np.full(self._n_columns, -1, np.int64)
        return self._numbers(self._walk(rows, rows, nothing, 0)[0])

    def changes(self, rows: Float32Array, other: Float32Array, unit: Int64Array, units: int) -> Float64Array:
        """Return the scores when the columns of one unit take their values from `other`, for each unit.

        Args:
            rows, other: float32[n, c], C order; NaN is missing.
            unit: int64[c], unit of each column, < `units`; -1 for columns that stay.
            units: number of units.

        Returns:
            float64[units, n].
        """
        base, change = self._walk(rows, other, unit, units)
        changed = np.ascontiguousarray(change.T)
        changed += base
        return self._numbers(changed)

    def _walk(
        self, rows: Float32Array, other: Float32Array, unit: Int64Array, units: int
    ) -> tuple[Int64Array, Int64Array]:
        f = self._forest
        base, change = np.zeros(rows.shape[0], np.int64), np.zeros((rows.shape[0], units), np.int64)
        if self._start is not None:
            raw = self._whole(self._start.values(rows))
            base += raw.sum(axis=1)
            moved = unit[self._start.feature]
            if units and (moved >= 0).any():
                turned = self._whole(self._start.values(other)) - raw
                for j in np.flatnonzero(moved >= 0).tolist():
                    change[:, moved[j]] += turned[:, j]
        has_sets = f.set_ptr.size > 1
        (_pass_with_sets if has_sets else _pass_without)(
            rows, other, unit, self._feature, f.threshold, f.kind, f.sets if has_sets else None, f.set_ptr, f.left,
            f.right, self._value, f.roots, np.empty(units, np.int64), base, change,
        )  # fmt: skip
        return base, change

    def _whole(self, numbers: Any) -> Int64Array:
        return np.asarray(np.rint(np.ldexp(numbers, self._exponent)), dtype=np.int64)

    def _numbers(self, whole: Int64Array) -> Float64Array:
        return np.asarray(whole * math.ldexp(1.0, -self._exponent), dtype=np.float64)


@inline
def _goes_left(value: float, threshold: float, kind: int, sets: Any, set_ptr: Int64Array) -> bool:
    if sets is not None:  # noqa: SIM102 - a condition of its own is decided at compile time
        if kind & 4 and value == value:
            return _is_listed(value, int(threshold), kind, sets, set_ptr) != (kind & 8 != 0)
    if value != value or (kind & 2 and -ZERO <= value <= ZERO):
        return (kind & 1) != 0
    return value <= threshold


@inline
def _is_listed(value: float, number: int, kind: int, sets: npt.NDArray[np.uint32], set_ptr: Int64Array) -> bool:
    begin = set_ptr[number]
    # Both engines truncate, which makes -0.5 category 0; XGBoost (LISTED_RIGHT) rejects negative values first.
    if value >= 32.0 * (set_ptr[number + 1] - begin) or value <= -1.0 or (value < 0.0 and kind & 8 != 0):
        return False
    category = int(value)
    return (sets[begin + (category >> 5)] >> np.uint32(category & 31)) & np.uint32(1) != 0


def _pass_over(
    rows: Float32Array, other: Float32Array, unit: Int64Array, feature: npt.NDArray[np.int32], threshold: Float64Array,
    kind: npt.NDArray[np.uint8], sets: Any, set_ptr: Int64Array, left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32], value: Int64Array, roots: npt.NDArray[np.int32], changed: Int64Array,
    base: Int64Array, change: Int64Array,
) -> None:  # fmt: skip
    n = rows.shape[0]
    for start in range(0, n, _CHUNK):
        stop = min(n, start + _CHUNK)
        for root in roots:
            for i in range(start, stop):
                # Walk to the leaf; at each node where a unit's other value changes direction for the first time, walk
                # on from there.
                node, count = root, 0
                while node >= 0:
                    f = feature[node]
                    went_left = _goes_left(rows[i, f], threshold[node], kind[node], sets, set_ptr)
                    u = unit[f]
                    if u >= 0 and _goes_left(other[i, f], threshold[node], kind[node], sets, set_ptr) != went_left:
                        parted = False
                        for j in range(count):
                            parted = parted or changed[j] == u
                        if not parted:
                            at = right[node] if went_left else left[node]
                            while at >= 0:
                                g = feature[at]
                                seen = other[i, g] if unit[g] == u else rows[i, g]
                                go = _goes_left(seen, threshold[at], kind[at], sets, set_ptr)
                                at = left[at] if go else right[at]
                            change[i, u] += value[~at]
                            changed[count] = u
                            count += 1
                    node = left[node] if went_left else right[node]
                leaf = value[~node]
                base[i] += leaf
                for j in range(count):
                    change[i, changed[j]] -= leaf


def _pass_with(sets: Any) -> CompiledFunction[..., None]:
    """Return `_pass_over` compiled for one type of sets, at first use."""
    return CompiledFunction(
        _pass_over, types.void(_S2, _S2, I1, _N1, F1, _B1, sets, I1, _N1, _N1, I1, _N1, I1, I1, _I2)
    )


# Support for sets makes the loop three times as slow.
_pass_with_sets, _pass_without = _pass_with(_W1), _pass_with(types.none)


@entry_point(types.void(_S2, I1, INT, I1, INT, I1, F1, I1, _S2))
def permute_within(
    rows: Float32Array,
    ptr: Int64Array,
    first_query: int,
    unit: Int64Array,
    units: int,
    within: Int64Array,
    seeds: Float64Array,
    order: Int64Array,
    out: Float32Array,
) -> None:
    """Shuffle the values of columns among the documents of each query; columns of one unit move together.

    Fisher and Yates, from numbers that depend only on the unit's seed and the query.

    Args:
        rows: float32[n, c].
        ptr: int64[q+1], queries of these rows.
        first_query: index of the first query in the data set.
        unit: int64[c], -1 for columns that stay.
        units: number of units.
        within: int64[units], 0 for units that stay.
        seeds: float64[units], as for `noise.uniform`.
        order: int64[longest query], overwritten.
        out: float32[n, c], a copy of `rows`; the columns of the units are written.
    """
    for q in range(ptr.shape[0] - 1):
        a, n = ptr[q], ptr[q + 1] - ptr[q]
        for u in range(units):
            if within[u] == 0:
                continue
            for i in range(n):
                order[i] = i
            for i in range(n - 1, 0, -1):
                j = int(uniform(seeds[u], first_query + q, i) * (i + 1))
                order[i], order[j] = order[j], order[i]
            for c in range(unit.shape[0]):
                if unit[c] == u:
                    for i in range(n):
                        out[a + i, c] = rows[a + order[i], c]
