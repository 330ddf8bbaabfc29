"""Scores of a forest, bit-identical to those of its engine, for many rows at a time.

An engine adds the leaves of a document tree by tree, LightGBM in float64 and XGBoost in float32, and so does this. The
way to the leaf is faster: 64 documents descend a tree together, without branches (a leaf leads to itself), so memory
accesses overlap, and everything that a step needs of a node is adjacent. Numbers are compared as integers in the same
order. A missing value becomes the smallest or largest integer, whichever leads in its direction. The steps of a start
need no tree: a binary search over their bounds finds the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.runtime.jit import F1, I1, INT, entry_point
from boostrank.kernels.trees.curves import ZERO, Curves, rounded_down
from boostrank.kernels.trees.walker import NAN_LEFT, ZERO_IS_MISSING, Forest

Int32Array = npt.NDArray[np.int32]
UInt32Array = npt.NDArray[np.uint32]
UInt64Array = npt.NDArray[np.uint64]
Reals = npt.NDArray[Any]

_TOGETHER = 64  # documents that descend together: with 136 features their values fill a core's fastest cache
_SIZE, _INFINITY, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x80000000)
_LEAST, _MOST, _ONES = np.uint32(0), np.uint32(0xFFFFFFFF), np.uint64(0xFFFFFFFF)
_BLOCK = 16  # pieces of a start that are skipped together
_NONE, _ONE, _TWO, _THREE, _FOUR, _SEVEN, _EIGHT, _BLOCKS = (np.uint32(i) for i in (0, 1, 2, 3, 4, 7, 8, _BLOCK))
_NEXT, _HALF = np.uint64(1), np.uint64(32)

_N1, _U1, _U2 = types.int32[::1], types.uint32[::1], types.uint32[:, ::1]
_W1, _S1 = types.uint64[::1], types.float32[::1]


def _ordered(numbers: Float32Array) -> UInt32Array:
    """Return integers in the order of float32 numbers; missing values are 0, below all others."""
    bits = (numbers + np.float32(0.0)).view(np.uint32)  # -0 becomes 0
    return np.where(np.isnan(numbers), _LEAST, np.where(bits < _SIGN, bits | _SIGN, ~bits)).astype(np.uint32)


class Scorer:
    """Scores of rows under a forest.

    Args:
        forest: trees; each function of a start counts as one tree.
        double: whether the engine sums in float64 and treats magnitudes below 1e-35 as 0 (LightGBM).

    Attributes:
        columns: int64[c], ascending: the columns that it reads; rows have only these.

    Raises:
        ValueError: the forest has categorical splits.
    """

    def __init__(self, forest: Forest, *, double: bool) -> None:
        start, nothing = forest.start, np.zeros(0)
        if forest.categorical.any():
            raise ValueError("a split by categories")
        self._near, self._score = (int(np.float32(ZERO).view(np.int32)), _score) if double else (0, _score_single)
        real = np.float64 if double else np.float32
        trees = forest.roots.size
        # The roots, then the children of each node, siblings adjacent.
        child = np.concatenate([forest.roots, np.stack([forest.left, forest.right], axis=1).ravel()])
        inner, place = child >= 0, np.arange(child.size)
        node, leaf = child[inner], ~child[~inner]
        left = np.where(inner, trees + 2 * child.astype(np.int64), place)
        bound, self._value = np.full(child.size, _MOST), np.zeros(child.size, real)
        bound[inner], self._value[~inner] = _ordered(rounded_down(forest.threshold))[node], forest.value[leaf]
        self._depth = _depths(left, trees)
        # A view of a column: its values in order, with missing values below or above all others.
        kind = forest.kind.astype(np.int64) & (NAN_LEFT | ZERO_IS_MISSING)
        started = nothing.astype(np.int64) if start is None else start.feature
        self.columns: Int64Array = np.unique(np.concatenate([forest.feature, started]))
        of_nodes = 4 * np.searchsorted(self.columns, forest.feature) + kind
        of_start = 4 * np.searchsorted(self.columns, started) + NAN_LEFT
        views = np.unique(np.concatenate([of_nodes, of_start]))
        self._column, self._kind = (views // 4).astype(np.int32), (views % 4).astype(np.int32)
        self._nodes = np.zeros((child.size, 2), np.uint64)
        self._nodes[:, 0] = bound.astype(np.uint64) << _HALF | left.astype(np.uint64)
        self._nodes[inner, 1] = _TOGETHER * np.searchsorted(views, of_nodes)[node]
        self._start_view = np.searchsorted(views, of_start).astype(np.int32)
        self._ptr, self._end, self._level = _blocks(start, real)

    def scores(self, rows: Float32Array) -> Float64Array:
        """Return scores float64[n] of rows float32[n, c], C order, NaN where missing."""
        out = np.empty(rows.shape[0])
        self._score(
            rows.view(np.uint32), self._column, self._kind, self._near, self._start_view, self._ptr, self._end,
            self._level, self._nodes.ravel(), self._value, self._depth, out,
        )  # fmt: skip
        return out


def _blocks(start: Curves | None, real: type) -> tuple[Int64Array, UInt32Array, Reals]:
    """Return the pieces of a start in whole blocks: starts of the functions, ends of the pieces, levels.

    The first piece of a function holds missing values and -infinity.
    """
    if start is None:
        return np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0, real)
    sizes = np.diff(start.ptr)
    ptr = np.concatenate([[0], np.cumsum((sizes + _BLOCK) // _BLOCK * _BLOCK)])
    place = np.arange(start.bounds.size) + np.repeat(ptr[:-1] + 1 - start.ptr[:-1], sizes)
    end, level = np.full(ptr[-1], _MOST), np.zeros(ptr[-1], real)
    end[ptr[:-1]], level[ptr[:-1]] = _ordered(np.array([-np.inf], np.float32)), start.missing
    end[place], level[place] = _ordered(rounded_down(start.bounds)), start.constant
    return ptr, end, level


def _depths(left: Int64Array, trees: int) -> Int64Array:
    """Return the number of steps from each root to its deepest leaf."""
    depth, at, tree = np.zeros(trees, np.int64), np.arange(trees), np.arange(trees)
    while (inner := left[at] != at).any():
        below, tree = left[at[inner]], np.repeat(tree[inner], 2)
        at = np.stack([below, below + 1], axis=1).ravel()
        depth[tree] += 1  # once each, even if repeated
    return depth


def _score_in(
    rows: UInt32Array, column: Int32Array, kind: Int32Array, near_: int, start_view: Int32Array, ptr: Int64Array,
    end: UInt32Array, level: Reals, nodes: UInt64Array, value: Reals, depth: Int64Array, out: Float64Array,
) -> None:  # fmt: skip
    """Score rows, given as the bits of their float32 numbers, with sums in the type of `value`.

    Args:
        column, kind: column of each view, and its bits of `Forest.kind`.
        near_: bits of the largest number that counts as 0.
        start_view, ptr, end, level: view of each function of a start, and its pieces in blocks.
        nodes: two numbers per place in a tree: the bound, above the bits of the left child, which the right child
            follows; and the start of its view's values.
        value: value of each place; 0 at nodes.
        depth: steps down each tree.
    """
    near, x, at = np.uint32(near_), np.zeros(column.size * _TOGETHER, np.uint32), np.zeros(_TOGETHER, np.uint64)
    raw, piece, total = np.zeros(_TOGETHER, np.uint32), np.zeros(_TOGETHER, np.uint32), np.zeros(_TOGETHER, value.dtype)
    for first in range(0, rows.shape[0], _TOGETHER):
        count = min(_TOGETHER, rows.shape[0] - first)
        # Values of each view as ordered integers.
        for v in range(column.size):
            if v == 0 or column[v] != column[v - 1]:
                for i in range(count):
                    raw[i] = rows[first + i, column[v]]
            values, absent = x[v * _TOGETHER : (v + 1) * _TOGETHER], _LEAST if kind[v] & NAN_LEFT != 0 else _MOST
            zero = absent if kind[v] & ZERO_IS_MISSING != 0 else _SIGN
            for i in range(_TOGETHER):
                size, order = raw[i] & _SIZE, raw[i] | _SIGN if raw[i] < _SIGN else ~raw[i]
                values[i] = zero if size <= near else absent if size > _INFINITY else order
        total[:] = 0.0
        # Add the steps of a start: skip whole blocks, then search within one.
        for j in range(start_view.size):
            values = x[start_view[j] * _TOGETHER : (start_view[j] + 1) * _TOGETHER]
            piece[:] = ptr[j]
            for last in range(ptr[j] + _BLOCK - 1, ptr[j + 1], _BLOCK):
                for i in range(_TOGETHER):
                    piece[i] += _BLOCKS if end[last] < values[i] else _NONE
            for i in range(_TOGETHER):
                at_, value_ = piece[i], values[i]
                at_ += _EIGHT if end[at_ + _SEVEN] < value_ else _NONE
                at_ += _FOUR if end[at_ + _THREE] < value_ else _NONE
                at_ += _TWO if end[at_ + _ONE] < value_ else _NONE
                at_ += _ONE if end[at_] < value_ else _NONE
                total[i] += level[at_]
        # Descend each tree with all documents together, and add the leaves.
        for tree in range(depth.size):
            at[:] = tree
            for _ in range(depth[tree]):
                for i in range(_TOGETHER):
                    here = at[i] << _NEXT
                    node, of_view = nodes[here], nodes[here + _NEXT]
                    at[i] = (node & _ONES) + np.uint64(np.uint64(x[of_view + np.uint64(i)]) > (node >> _HALF))
            for i in range(_TOGETHER):
                total[i] += value[at[i]]
        for i in range(count):
            out[first + i] = total[i]


_score = entry_point(types.void(_U2, _N1, _N1, INT, _N1, I1, _U1, F1, _W1, F1, I1, F1))(_score_in)
_score_single = entry_point(types.void(_U2, _N1, _N1, INT, _N1, I1, _U1, _S1, _W1, _S1, I1, F1))(_score_in)
