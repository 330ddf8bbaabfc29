"""Plain reading of a model's trees: scores as programs compute them that round, compare and add up by other rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Int64Array
from boostrank.engines.trees import ServedTrees
from boostrank.kernels.trees.curves import ZERO
from boostrank.kernels.trees.walker import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING, Forest

# Rows that are walked together: what they need stays in the cache.
_CHUNK = 4096


@dataclass(frozen=True)
class Rules:
    """How a program computes scores. As it stands: as LightGBM does.

    Args:
        values: the type to which values are rounded, and thresholds too where it is float32.
        strict: whether left is value < threshold, and not value <= threshold.
        slack: added to thresholds, in the type of values.
        missing: the number that stands for what is missing; None: what the model says.
        leaves: the type to which leaves are rounded, and
        sums: in which they are added up.
    """

    values: type[np.floating[Any]] = np.float64
    strict: bool = False
    slack: float = 0.0
    missing: float | None = None
    leaves: type[np.floating[Any]] = np.float64
    sums: type[np.floating[Any]] = np.float64

    @classmethod
    def of(cls, trees: ServedTrees) -> Rules:
        """Those of the engine that made them."""
        return cls(np.float32, leaves=np.float32, sums=np.float32) if trees.single else cls()


def leaves(forest: Forest, rows: npt.NDArray[Any], rules: Rules, trees: slice = slice(None)) -> Int64Array:
    """int64[n, T]: the leaf of each tree that each row reaches.

    Args:
        forest: without a start beside its trees.
        rows: float[n, d], NaN where a value is missing.
        rules: by which.
        trees: of which.
    """
    with np.errstate(over="ignore"):
        rows = rows.astype(rules.values)
        # One addition of the type itself: programs add the slack when they compare, and round the sum.
        threshold = forest.threshold.astype(rules.values) + rules.values(rules.slack)
    if rules.missing is not None:
        rows = np.where(np.isnan(rows), rules.values(rules.missing), rows)
    nan_left, zero, listed = ((forest.kind & bit) != 0 for bit in (NAN_LEFT, ZERO_IS_MISSING, LISTED_RIGHT))
    categorical = (forest.kind & CATEGORICAL) != 0
    roots = forest.roots[trees]
    reached = np.empty((len(rows), roots.size), np.int64)
    for number, root in enumerate(roots):
        at = np.full(len(rows), root, np.int64)
        walking = np.flatnonzero(at >= 0)
        while walking.size:
            node = at[walking]
            value = rows[walking, forest.feature[node]]
            absent = np.isnan(value) | (zero[node] & (np.abs(value) <= ZERO))
            below = value < threshold[node] if rules.strict else value <= threshold[node]
            left = np.where(absent, nan_left[node], below)
            if categorical.any():
                sets = np.flatnonzero(categorical[node])
                inside = _listed(forest, forest.threshold[node[sets]].astype(np.int64), value[sets])
                inside &= ~(listed[node[sets]] & (value[sets] < 0.0))  # XGBoost does not cut -0.5 to 0
                # LightGBM has no way of its own for a category that is missing, XGBoost has.
                known = np.where(listed[node[sets]], ~inside, inside)
                left[sets] = np.where(np.isnan(value[sets]), nan_left[node[sets]], known)
            at[walking] = np.where(left, forest.left[node], forest.right[node])
            walking = walking[at[walking] >= 0]
        reached[:, number] = ~at
    return reached


def _listed(forest: Forest, of_set: Int64Array, value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each value is in its set of categories."""
    sizes = 32 * np.diff(forest.set_ptr)
    whole = np.where((value > -1.0) & (value < 2.0**24), value, -1.0).astype(np.int64)
    inside = (whole >= 0) & (whole < sizes[of_set])
    word = np.where(inside, forest.set_ptr[:-1][of_set] + whole // 32, 0)
    return np.asarray(inside & ((forest.sets[word] >> (whole % 32).astype(np.uint32)) & 1).astype(bool))


def scores(trees: ServedTrees, rows: npt.NDArray[Any], rules: Rules, first: int = 0, last: int | None = None) -> Any:
    """[n] of the type of sums: a tree after the other from `base` on.

    Args:
        trees, rows, rules: as above.
        first, last: of the trees that count; None: to the end.
    """
    total = np.full(len(rows), rules.sums(trees.base))
    value = trees.forest.value.astype(rules.leaves).astype(rules.sums)
    for begin in range(0, len(rows), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        for leaf in leaves(trees.forest, rows[part], rules, slice(first, last)).T:
            total[part] += value[leaf]
    return total
