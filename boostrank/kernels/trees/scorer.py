"""Scores of a forest as its engine computes them, to the last bit, for many rows at a time.

An engine adds the leaves of a document up tree after tree, LightGBM in float64 and XGBoost in float32, and so does
this. What is quicker is the way to the leaf: 64 documents go down a tree together, without a branch (a leaf leads to
itself), so that no document waits for another's memory. Numbers are compared as whole numbers in the same order, among
which a missing value is the least or the largest, whichever leads it to where the node sends it. The steps of a start
need no tree: halves of their bounds find the step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.runtime.jit import F1, I1, INT, entry_point
from boostrank.kernels.trees.curves import ZERO, rounded_down
from boostrank.kernels.trees.walker import NAN_LEFT, ZERO_IS_MISSING, Forest

Int32Array = npt.NDArray[np.int32]

_TOGETHER = 64  # documents that go down together: with 136 features their values fill a core's fastest cache
_LEAST, _MOST = np.int32(-(2**31)), np.int32(2**31 - 1)
_INFINITY, _NEAR_ZERO = np.float32(np.inf).view(np.int32), int(np.float32(ZERO).view(np.int32))
_ZERO = np.int32(0)
_NONE, _ONE, _TWO = np.uint32(0), np.uint32(1), np.uint32(2)

_N1, _N2 = types.Array(types.int32, 1, "C"), types.Array(types.int32, 2, "C")


def _ordered(numbers: Float32Array) -> Int32Array:
    """Whole numbers in the order of float32 ones; what is not a number is below them all."""
    bits = (numbers + np.float32(0.0)).view(np.int32)  # -0 becomes 0
    return np.where(np.isnan(numbers), _LEAST, np.where(bits >= 0, bits, bits ^ _MOST)).astype(np.int32)


_BELOW_ALL = _ordered(np.array([-np.inf], np.float32))[0]


class Scorer:
    """Scores rows by a forest.

    Args:
        forest: the trees; each function of a start stands for one tree.
        double: whether the engine adds up in float64, and takes what is nearer to 0 than 1e-35 for 0 (LightGBM).

    Attributes:
        columns: int64[c], ascending: those that it looks at, the only ones that the rows have.

    Raises:
        ValueError: it splits by categories, or its start has slopes.
    """

    def __init__(self, forest: Forest, *, double: bool) -> None:
        start, nothing = forest.start, np.zeros(0)
        if forest.categorical.any() or (start is not None and start.slope.any()):
            raise ValueError("a split by categories, or a start with slopes")
        self._single, self._near = int(not double), _NEAR_ZERO if double else 0
        trees = forest.roots.size
        # The roots, then the children of each node side by side.
        child = np.concatenate([forest.roots, np.stack([forest.left, forest.right], axis=1).reshape(-1)])
        inner, place = child >= 0, np.arange(child.size)
        node, leaf = child[inner], ~child[~inner]
        self._left = np.where(inner, trees + 2 * child.astype(np.int64), place).astype(np.int32)
        self._bound, self._value = np.full(child.size, _MOST), np.zeros(child.size)
        self._bound[inner], self._value[~inner] = _ordered(rounded_down(forest.threshold))[node], forest.value[leaf]
        self._depth = _depths(self._left, trees)
        # A view of a column: its values in order, and what is missing below or above them all.
        kind = forest.kind.astype(np.int64) & (NAN_LEFT | ZERO_IS_MISSING)
        started = nothing.astype(np.int64) if start is None else start.feature
        self.columns: Int64Array = np.unique(np.concatenate([forest.feature, started]))
        of_nodes = 4 * np.searchsorted(self.columns, forest.feature) + kind
        of_start = 4 * np.searchsorted(self.columns, started) + NAN_LEFT
        views = np.unique(np.concatenate([of_nodes, of_start]))
        self._column, self._kind = (views // 4).astype(np.int32), (views % 4).astype(np.int32)
        self._view = np.zeros(child.size, np.int32)
        self._view[inner] = np.searchsorted(views, of_nodes)[node]
        self._start_view = np.searchsorted(views, of_start).astype(np.int32)
        self._ptr = np.zeros(1, np.int64) if start is None else start.ptr
        self._end = _ordered(rounded_down(nothing if start is None else start.bounds))
        self._level, self._missing = (nothing, nothing) if start is None else (start.constant, start.missing)

    def scores(self, rows: Float32Array) -> Float64Array:
        """float64[n] of float32[n, c], C order, NaN where missing."""
        out = np.empty(rows.shape[0])
        _score(
            rows.view(np.int32), self._column, self._kind, self._near, self._start_view, self._ptr, self._end,
            self._level, self._missing, self._bound, self._view, self._left, self._value, self._depth, self._single,
            out,
        )  # fmt: skip
        return out


def _depths(left: Int32Array, trees: int) -> Int64Array:
    """Steps from each root to its furthest leaf."""
    depth, at, tree = np.zeros(trees, np.int64), np.arange(trees), np.arange(trees)
    while (inner := left[at] != at).any():
        below, tree = left[at[inner]], np.repeat(tree[inner], 2)
        at = np.stack([below, below + 1], axis=1).reshape(-1)
        depth[tree] += 1  # once each, however often it is named
    return depth


@entry_point(types.void(_N2, _N1, _N1, INT, _N1, I1, _N1, F1, F1, _N1, _N1, _N1, F1, I1, INT, F1))
def _score(
    rows: Int32Array, column: Int32Array, kind: Int32Array, near: int, start_view: Int32Array, ptr: Int64Array,
    end: Int32Array, level: Float64Array, missing: Float64Array, bound: Int32Array, view: Int32Array, left: Int32Array,
    value: Float64Array, depth: Int64Array, single: int, out: Float64Array,
) -> None:  # fmt: skip
    """Score rows, whose float32 numbers are given as their bits.

    Args:
        column, kind: of each view of a column, as `Forest.kind`.
        near: the bits of the largest number that counts as 0.
        start_view, ptr, end, level, missing: the view that each function of a start looks at, and the function.
        bound, view, left, value: of each place in a tree; the right child stands behind the left one.
        depth: steps down each tree.
        single: 1 adds up in float32.
    """
    x, at = np.zeros((column.size, _TOGETHER), np.int32), np.zeros(_TOGETHER, np.int32)
    step, total = np.zeros(_TOGETHER, np.uint32), np.zeros(_TOGETHER)
    for first in range(0, rows.shape[0], _TOGETHER):
        count = min(_TOGETHER, rows.shape[0] - first)
        for i in range(count):
            for v in range(column.size):
                bits = rows[first + i, column[v]]
                size = bits & _MOST
                if size > _INFINITY or (kind[v] & 2 != 0 and size <= near):
                    x[v, i] = _LEAST if kind[v] & 1 != 0 else _MOST
                else:
                    x[v, i] = _ZERO if size <= near else bits if bits >= 0 else bits ^ _MOST
        total[:] = 0.0
        for j in range(start_view.size):
            v, begin = start_view[j], ptr[j]
            ends = end[begin : ptr[j + 1]]
            rest = np.uint32(ends.size - 1)
            step[:] = 0
            while rest > 0:
                half = np.uint32((rest + _ONE) // _TWO)
                for i in range(_TOGETHER):
                    step[i] += half if ends[step[i] + np.uint32(half - _ONE)] < x[v, i] else _NONE
                rest = np.uint32(rest - half)
            for i in range(_TOGETHER):
                total[i] += missing[j] if x[v, i] <= _BELOW_ALL else level[begin + step[i]]
            if single != 0:
                for i in range(_TOGETHER):
                    total[i] = np.float32(total[i])
        for tree in range(depth.size):
            at[:] = tree
            for _ in range(depth[tree]):
                for i in range(_TOGETHER):
                    here = at[i]
                    at[i] = left[here] + np.int32(x[view[here], i] > bound[here])
            for i in range(_TOGETHER):
                total[i] += value[at[i]]
            if single != 0:
                for i in range(_TOGETHER):
                    total[i] = np.float32(total[i])
        for i in range(count):
            out[first + i] = total[i]
