"""The forest of a model: `Walker` computes scores after features are changed, and `Scorer` the
engine's own scores.

`Walker` changes all features in one walk per tree. A document reaches its leaf through a few nodes,
and another value of a feature changes the leaf only if it changes the direction at one of these
nodes. So each node of the walk also tests the other value, and a second walk starts only where the
directions differ. With trees of 31 leaves, scoring once per feature would cost about twenty times
as much.

Its scores are sums of integers (leaf values times a power of two), so they do not depend on the
order of addition, and documents in the same leaves tie exactly, as they do for the engine. The
values of a start are integers too.

`Scorer` returns the same bits as the engine: it adds the leaves of a document tree by tree, in
float64 for LightGBM and in float32 for XGBoost. 64 documents descend a tree together, without
branches (a leaf leads to itself), so memory accesses overlap, and all data that a step needs of a
node are adjacent. Numbers are compared as integers in the same order. A missing value becomes the
smallest or the largest integer, whichever leads in its direction. A search over the bounds,
in blocks, finds the step of a start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.curves import ZERO, Curves, rounded_down
from boostrank.kernels.jit import (
    F1,
    I1,
    INT,
    S1,
    S2,
    CompiledFunction,
    allocates,
    entry_point,
    inline,
)
from boostrank.kernels.primitives import uniform

Int32Array = npt.NDArray[np.int32]
UInt32Array = npt.NDArray[np.uint32]
UInt64Array = npt.NDArray[np.uint64]
Reals = npt.NDArray[Any]

NAN_LEFT, ZERO_IS_MISSING, CATEGORICAL, LISTED_RIGHT = 1, 2, 4, 8
"""The bits of `Forest.kind`."""

# Number of documents whose values and changes stay in a core's cache while all trees process them.
_CHUNK = 256
# Bits of the largest sum of leaf values as an integer; a difference of two still fits.
_SUM_BITS = 60

_N1, _I2, _B1 = types.int32[::1], types.int64[:, ::1], types.uint8[::1]
_U1, _U2, _W1 = types.uint32[::1], types.uint32[:, ::1], types.uint64[::1]


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees of a model, with concatenated nodes, where a document goes left if its value <=
    threshold.

    Args:
        feature: int32[M], column by which each node splits.
        threshold: float64[M], threshold of each node, or the index of its set for a categorical
            split.
        kind: uint8[M]: NAN_LEFT, missing values go left; ZERO_IS_MISSING, as LightGBM's
            zero_as_missing; CATEGORICAL, the categories of a set go left, all others right;
            LISTED_RIGHT, the reverse.
        left, right: int32[M], children numbered over all trees: a node if >= 0; if < 0, ~child is a
            leaf.
        value: float64[L], value of each leaf.
        roots: int32[T], numbered as left and right.
        tree: int32[M], tree of each node.
        sets: uint32[W], concatenated sets of categories: bit c % 32 of word c // 32 marks category
            c.
        set_ptr: int64[S+1], start of each set.
        start: functions whose sum is the initial score; None if it is 0.
    """

    feature: Int32Array
    threshold: Float64Array
    kind: npt.NDArray[np.uint8]
    left: Int32Array
    right: Int32Array
    value: Float64Array
    roots: Int32Array
    tree: Int32Array
    sets: UInt32Array
    set_ptr: Int64Array
    start: Curves | None = None

    @property
    def used(self) -> Int64Array:
        """The columns by which at least one node splits, ascending."""
        return np.unique(self.feature).astype(np.int64)

    @cached_property
    def categorical(self) -> npt.NDArray[np.bool_]:
        """Whether each node has a categorical split, bool[M]."""
        return np.asarray((self.kind & CATEGORICAL) != 0)

    def categories(self, of_set: int) -> Int64Array:
        """Return the categories of a set, ascending."""
        words = self.sets[self.set_ptr[of_set] : self.set_ptr[of_set + 1]]
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
        return np.flatnonzero(bits).astype(np.int64)

    def exponent(self) -> int:
        """Return the exponent of 2 that makes values of leaves and a start integers whose sum has
        at most 60 bits.
        """
        largest = np.zeros(max(1, self.roots.size))
        np.maximum.at(largest, self.leaf_trees(), np.abs(self.value))
        start = 0.0 if self.start is None else self.start.largest
        return min(_SUM_BITS - math.frexp(max(float(largest.sum()) + start, 1e-300))[1], 1000)

    def leaf_trees(self) -> Int64Array:
        """Return the tree of each leaf, int64[L], or 0 for leaves without a parent."""
        owner = np.zeros(self.value.size, np.int64)
        for child in (self.left, self.right):
            owner[~child[child < 0]] = self.tree[child < 0]
        alone = self.roots < 0
        owner[~self.roots[alone]] = np.flatnonzero(alone)
        return owner


class Walker:
    """The scores of documents under a forest, and how they change.

    The rows have the given columns, int64[c], ascending, which include all columns that the forest
    uses.
    """

    def __init__(self, forest: Forest, columns: Int64Array) -> None:
        self._forest = forest
        self._feature = np.searchsorted(columns, forest.feature).astype(np.int32)
        self._n_columns = columns.size
        self._start = forest.start
        if self._start is not None:
            self._start = replace(
                self._start, feature=np.searchsorted(columns, self._start.feature).astype(np.int64)
            )
        self._exponent = replace(forest, start=self._start).exponent()
        self._value = self._to_whole(forest.value)

    def scores(self, rows: Float32Array) -> Float64Array:
        """Return the scores, float64[n], of rows float32[n, c]."""
        nothing = np.full(self._n_columns, -1, np.int64)
        return self._numbers(self._walk(rows, rows, nothing, 0)[0])

    def changes(
        self, rows: Float32Array, other: Float32Array, unit: Int64Array, units: int
    ) -> Float64Array:
        """Return the scores, float64[units, n], if the columns of one unit at a time take their
        values from `other`.

        Args:
            rows, other: float32[n, c], C order; NaN is missing.
            unit: int64[c], unit of each column, < `units`; -1 for columns that stay.
        """
        base, change = self._walk(rows, other, unit, units)
        changed = np.ascontiguousarray(change.T)
        changed += base
        return self._numbers(changed)

    def _walk(
        self, rows: Float32Array, other: Float32Array, unit: Int64Array, units: int
    ) -> tuple[Int64Array, Int64Array]:
        f = self._forest
        # Add the linear start, then the trees.
        base, change = np.zeros(rows.shape[0], np.int64), np.zeros((rows.shape[0], units), np.int64)
        if self._start is not None:
            raw = self._to_whole(self._start.values(rows))
            base += raw.sum(axis=1)
            moved = unit[self._start.feature]
            if units and (moved >= 0).any():
                turned = self._to_whole(self._start.values(other)) - raw
                for j in np.flatnonzero(moved >= 0).tolist():
                    change[:, moved[j]] += turned[:, j]
        pass_rows, sets = _pass_without, None
        if f.set_ptr.size > 1:
            pass_rows, sets = _pass_with_sets, f.sets
        trees = _Trees(
            self._feature, f.threshold, f.kind, f.set_ptr, f.left, f.right, self._value, f.roots
        )
        pass_rows(rows, other, unit, trees, sets, np.empty(units, np.int64), base, change)
        return base, change

    def _to_whole(self, numbers: Any) -> Int64Array:
        return np.asarray(np.rint(np.ldexp(numbers, self._exponent)), dtype=np.int64)

    def _numbers(self, whole: Int64Array) -> Float64Array:
        return np.asarray(whole * math.ldexp(1.0, -self._exponent), dtype=np.float64)


class _Trees(NamedTuple):
    """The arrays of a `Forest`, with columns of the rows and leaf values as integers."""

    feature: Int32Array
    threshold: Float64Array
    kind: npt.NDArray[np.uint8]
    set_ptr: Int64Array
    left: Int32Array
    right: Int32Array
    value: Int64Array
    roots: Int32Array


@inline
def _goes_left(value: float, node: int, trees: _Trees, sets: UInt32Array | None) -> bool:
    kind = trees.kind[node]
    if sets is not None:  # noqa: SIM102 - a condition of its own is decided at compile time
        if kind & CATEGORICAL and value == value:
            listed = _is_listed(value, int(trees.threshold[node]), kind, sets, trees.set_ptr)
            return listed != (kind & LISTED_RIGHT != 0)
    if value != value or (kind & ZERO_IS_MISSING and -ZERO <= value <= ZERO):
        return (kind & NAN_LEFT) != 0
    return value <= trees.threshold[node]


@inline
def _is_listed(
    value: float, set_number: int, kind: int, sets: UInt32Array, set_ptr: Int64Array
) -> bool:
    begin = set_ptr[set_number]
    # Both engines truncate, which makes -0.5 category 0; XGBoost (LISTED_RIGHT) rejects negative
    # values first.
    if (
        value >= 32.0 * (set_ptr[set_number + 1] - begin)
        or value <= -1.0
        or (value < 0.0 and kind & LISTED_RIGHT != 0)
    ):
        return False
    category = int(value)
    return (sets[begin + (category >> 5)] >> np.uint32(category & 31)) & np.uint32(1) != 0


def _pass_over(rows, other, unit, trees, sets, changed, base, change):
    """Add the leaves of each row to `base`, and the changes by each unit to `change`; `changed` is
    overwritten.
    """
    feature, left, right, value = trees.feature, trees.left, trees.right, trees.value
    n = rows.shape[0]
    for start in range(0, n, _CHUNK):
        stop = min(n, start + _CHUNK)
        for root in trees.roots:
            for i in range(start, stop):
                # Walk to the leaf; at each node where a unit's other value changes direction for
                # the first time, walk on from there.
                node, count = root, 0
                while node >= 0:
                    column = feature[node]
                    went_left = _goes_left(rows[i, column], node, trees, sets)
                    u = unit[column]
                    if u >= 0 and _goes_left(other[i, column], node, trees, sets) != went_left:
                        parted = False
                        for j in range(count):
                            parted = parted or changed[j] == u
                        if not parted:
                            other_node = right[node] if went_left else left[node]
                            while other_node >= 0:
                                column = feature[other_node]
                                seen = other[i, column] if unit[column] == u else rows[i, column]
                                go_left = _goes_left(seen, other_node, trees, sets)
                                other_node = left[other_node] if go_left else right[other_node]
                            change[i, u] += value[~other_node]
                            changed[count] = u
                            count += 1
                    node = left[node] if went_left else right[node]
                leaf = value[~node]
                base[i] += leaf
                for j in range(count):
                    change[i, changed[j]] -= leaf


# Compiled for one type of sets, at first use: support for sets makes the loop three times as slow.
def _compile_pass(sets: types.Type) -> CompiledFunction[..., None]:
    trees = types.NamedTuple((_N1, F1, _B1, I1, _N1, _N1, I1, _N1), _Trees)
    signature = types.void(S2, S2, I1, trees, sets, I1, I1, _I2)
    return CompiledFunction(_pass_over, signature)


_pass_with_sets, _pass_without = _compile_pass(_U1), _compile_pass(types.none)


@entry_point(types.void(S2, I1, INT, I1, INT, I1, F1, I1, S2))
def permute_within(rows, ptr, first_query, unit, units, within, seeds, order, out):
    """Shuffle the values of columns among the documents of each query, where the columns of one
    unit move together.

    The shuffle (by Fisher and Yates) depends only on the unit's seed and the query.

    Args:
        rows: float32[n, c].
        ptr: int64[q+1], queries of these rows.
        first_query: index of the first query in the data set.
        unit: int64[c], unit of each column; -1 for columns that stay.
        within: int64[units], 0 for units that are not shuffled.
        seeds: float64[units], as in `primitives.uniform`.
        order: int64[longest query], overwritten.
        out: float32[n, c], a copy of `rows` in which the columns of the units are written.
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


# Documents that descend together: with 136 features their values fill a core's fastest cache.
_TOGETHER = 64
_SIZE, _INFINITY, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x80000000)
_LEAST, _MOST, _ONES = np.uint32(0), np.uint32(0xFFFFFFFF), np.uint64(0xFFFFFFFF)
_BLOCK = 16  # pieces of a start that are skipped together
_NONE, _ONE, _BLOCKS = np.uint32(0), np.uint32(1), np.uint32(_BLOCK)
_HALVES = np.array([8, 4, 2, 1], np.uint32)
_NEXT, _HALF = np.uint64(1), np.uint64(32)


def _order_bits(numbers: Float32Array) -> UInt32Array:
    """Return integers in the order of the float32 numbers, where missing values are 0 and below all
    others.
    """
    bits = (numbers + np.float32(0.0)).view(np.uint32)  # -0 becomes 0
    return np.where(np.isnan(numbers), _LEAST, np.where(bits < _SIGN, bits | _SIGN, ~bits)).astype(
        np.uint32
    )


class Scorer:
    """The scores of rows under a forest.

    Args:
        forest: trees, where each function of a start is treated as one tree.
        double: whether the engine sums in float64 and treats magnitudes below 1e-35 as 0
            (LightGBM).

    Attributes:
        columns: int64[c], the columns that the scorer reads, ascending; rows have only these.

    Raises:
        ValueError: the forest has categorical splits.
    """

    def __init__(self, forest: Forest, *, double: bool) -> None:
        start = forest.start or Curves.from_pairs([])
        if forest.categorical.any():
            raise ValueError("a split by categories")
        zero_bits, self._score, real = 0, _score_single, np.float32
        if double:
            zero_bits = int(np.float32(ZERO).view(np.int32))
            self._score, real = _score, np.float64
        trees = forest.roots.size
        # The roots, then the children of each node, siblings adjacent.
        child = np.concatenate(
            [forest.roots, np.stack([forest.left, forest.right], axis=1).ravel()]
        )
        inner, index = child >= 0, np.arange(child.size)
        node, leaf = child[inner], ~child[~inner]
        left = np.where(inner, trees + 2 * child.astype(np.int64), index)
        bound, value = np.full(child.size, _MOST), np.zeros(child.size, real)
        bound[inner] = _order_bits(rounded_down(forest.threshold))[node]
        value[~inner] = forest.value[leaf]
        # A view of a column: its values in order, with missing values below or above all others.
        kind = forest.kind.astype(np.int64) & (NAN_LEFT | ZERO_IS_MISSING)
        self.columns: Int64Array = np.unique(np.concatenate([forest.feature, start.feature]))
        of_nodes = 4 * np.searchsorted(self.columns, forest.feature) + kind
        of_start = 4 * np.searchsorted(self.columns, start.feature) + NAN_LEFT
        views = np.unique(np.concatenate([of_nodes, of_start]))
        nodes = np.zeros((child.size, 2), np.uint64)
        nodes[:, 0] = bound.astype(np.uint64) << _HALF | left.astype(np.uint64)
        nodes[inner, 1] = _TOGETHER * np.searchsorted(views, of_nodes)[node]
        # The arguments of `_score_in` between the rows and the scores.
        self._arguments = (
            (views // 4).astype(np.int32),
            (views % 4).astype(np.int32),
            zero_bits,
            np.searchsorted(views, of_start).astype(np.int32),
            *_split_in_blocks(start, real),
            nodes.ravel(),
            value,
            _measure_depths(left, trees),
        )

    def scores(self, rows: Float32Array) -> Float64Array:
        """Return the scores, float64[n], of rows float32[n, c], C order, NaN where missing."""
        out = np.empty(rows.shape[0])
        self._score(rows.view(np.uint32), *self._arguments, out)
        return out


def _split_in_blocks(start: Curves, real: type) -> tuple[Int64Array, UInt32Array, Reals]:
    """Return the pieces of a start in whole blocks: starts of the functions, ends of the pieces,
    and levels.

    The first piece of a function is for missing values and -infinity.
    """
    sizes = np.diff(start.ptr)
    ptr = np.concatenate([[0], np.cumsum((sizes + _BLOCK) // _BLOCK * _BLOCK)])
    slots = np.arange(start.bounds.size) + np.repeat(ptr[:-1] + 1 - start.ptr[:-1], sizes)
    end, level = np.full(ptr[-1], _MOST), np.zeros(ptr[-1], real)
    end[ptr[:-1]], level[ptr[:-1]] = _order_bits(np.array([-np.inf], np.float32)), start.missing
    end[slots], level[slots] = _order_bits(rounded_down(start.bounds)), start.constant
    return ptr, end, level


def _measure_depths(left: Int64Array, trees: int) -> Int64Array:
    """Return the number of steps from each root to its deepest leaf."""
    depth, position, tree = np.zeros(trees, np.int64), np.arange(trees), np.arange(trees)
    while (inner := left[position] != position).any():
        below, tree = left[position[inner]], np.repeat(tree[inner], 2)
        position = np.stack([below, below + 1], axis=1).ravel()
        depth[tree] += 1  # once each, even if repeated
    return depth


@allocates
def _score_in(rows, column, kind, zero_bits, start_view, ptr, end, level, nodes, value, depth, out):
    """Score rows that are given as the bits of their float32 numbers, with sums in the type of
    `value`.

    Args:
        column, kind: column of each view, and its bits of `Forest.kind`.
        zero_bits: bits of the largest number that counts as 0.
        start_view, ptr, end, level: view of each function of a start, and the function's pieces in
            blocks.
        nodes: two numbers per node or leaf: the bound, above the bits of the left child, which the
            right child follows; and the start of the values of its view.
        value: value of each leaf; 0 at nodes.
        depth: number of steps down each tree.
    """
    largest_zero, x = np.uint32(zero_bits), np.zeros(column.size * _TOGETHER, np.uint32)
    position = np.zeros(_TOGETHER, np.uint64)
    raw, piece = np.zeros(_TOGETHER, np.uint32), np.zeros(_TOGETHER, np.uint32)
    total = np.zeros(_TOGETHER, value.dtype)
    for first in range(0, rows.shape[0], _TOGETHER):
        count = min(_TOGETHER, rows.shape[0] - first)
        # Values of each view as ordered integers.
        for v in range(column.size):
            if v == 0 or column[v] != column[v - 1]:
                for i in range(count):
                    raw[i] = rows[first + i, column[v]]
            values = x[v * _TOGETHER : (v + 1) * _TOGETHER]
            absent = _LEAST if kind[v] & NAN_LEFT != 0 else _MOST
            zero = absent if kind[v] & ZERO_IS_MISSING != 0 else _SIGN
            for i in range(_TOGETHER):
                size, order = raw[i] & _SIZE, raw[i] | _SIGN if raw[i] < _SIGN else ~raw[i]
                values[i] = zero if size <= largest_zero else absent if size > _INFINITY else order
        total[:] = 0.0
        # Add the steps of a start: skip whole blocks, then search within one by halving.
        for j in range(start_view.size):
            values = x[start_view[j] * _TOGETHER : (start_view[j] + 1) * _TOGETHER]
            piece[:] = ptr[j]
            for last in range(ptr[j] + _BLOCK - 1, ptr[j + 1], _BLOCK):
                for i in range(_TOGETHER):
                    piece[i] += _BLOCKS if end[last] < values[i] else _NONE
            for half in _HALVES:
                before = np.uint32(half - _ONE)
                for i in range(_TOGETHER):
                    piece[i] += half if end[piece[i] + before] < values[i] else _NONE
            for i in range(_TOGETHER):
                total[i] += level[piece[i]]
        # Descend each tree with all documents together, and add the leaves.
        for tree in range(depth.size):
            position[:] = tree
            for _ in range(depth[tree]):
                for i in range(_TOGETHER):
                    entry = position[i] << _NEXT
                    node, view_start = nodes[entry], nodes[entry + _NEXT]
                    position[i] = (node & _ONES) + np.uint64(
                        np.uint64(x[view_start + np.uint64(i)]) > (node >> _HALF)
                    )
            for i in range(_TOGETHER):
                total[i] += value[position[i]]
        for i in range(count):
            out[first + i] = total[i]


_score = entry_point(types.void(_U2, _N1, _N1, INT, _N1, I1, _U1, F1, _W1, F1, I1, F1))(_score_in)
_score_single = entry_point(types.void(_U2, _N1, _N1, INT, _N1, I1, _U1, S1, _W1, S1, I1, F1))(
    _score_in
)
