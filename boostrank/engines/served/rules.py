"""Tree scores under a program's rules for number types, comparisons and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.types import Array, BoolArray
from boostrank.engines.trees import ServedTrees, refuse
from boostrank.kernels.curves import ZERO
from boostrank.kernels.forest import LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING, Forest

Float = type[np.floating[Any]]
"""A type of numbers."""

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Rules:
    """Rules by which a program computes scores. The defaults are LightGBM's rules.

    Args:
        values: type of feature values and thresholds.
        strict: whether a value goes left if value < threshold, instead of value <= threshold.
        slack: number that is added to thresholds, in the type of values.
        missing: number that replaces missing values; None if each split has a direction for missing
            values.
        leaves: type to which leaves are rounded.
        sums: type in which leaves are summed, tree by tree. A sum in float64 that is rounded to
            float32 has the bits of a sum of float32 numbers in float32.
        gives: type to which scores are rounded.
    """

    values: Float = np.float64
    strict: bool = False
    slack: float = 0.0
    missing: float | None = None
    leaves: Float = np.float64
    sums: Float = np.float64
    gives: Float = np.float64

    @classmethod
    def of_engine(cls, trees: ServedTrees) -> Rules:
        """Return the rules for the engine that trained the trees."""
        return SINGLE if trees.single else cls()


SINGLE = Rules(np.float32, leaves=np.float32, sums=np.float32, gives=np.float32)
"""Rules for programs that compute in float32."""


class Split(NamedTuple):
    """A split in a tree.

    Args:
        left, right: child nodes, as in the file.
    """

    feature: int
    threshold: float
    missing_left: bool
    left: Any
    right: Any


def check_names(names: Sequence[str]) -> None:
    """Refuse a model without features, or with a feature twice."""
    refuse(not names, "it has no features")
    refuse(len(set(names)) < len(names), "it lists a feature twice")


class Scale(NamedTuple):
    """The scaling of a feature, (x - shift) / divisor."""

    shift: float = 0.0
    divisor: float = 1.0


DAMAGE = LookupError, TypeError, ValueError, AttributeError, OverflowError
"""Exceptions of reading a file without what its format requires."""

NORMALISED_TREES = (
    "it normalises the features of its trees, which is not read: train trees on the features as"
    " they are"
)
"""The reason for refusing scaled features of trees, and the remedy."""


def check_scale(shift: float, divisor: float, source: str) -> Scale:
    """Return the scaling of a feature, or refuse one that float32 cannot hold."""
    refuse(not abs(shift) <= _LARGEST, f"{source} subtracts {shift:g}")
    refuse(not 1.0 / _LARGEST <= divisor <= _LARGEST, f"{source} divides by {divisor:g}")
    return Scale(shift, divisor)


def scores(trees: ServedTrees, rows: Array, rules: Rules) -> Array:
    """Return scores [n] of type `rules.gives`, which are the base plus the leaves in the order of
    the trees.
    """
    forest = trees.forest
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows.astype(rules.values, order="F")
        if rules.missing is not None:
            rows[np.isnan(rows)] = rules.missing
        total = np.full(len(rows), rules.sums(trees.base))
        # Walk all rows down one tree together.
        for root in forest.roots.tolist():
            unvisited = [(root, np.arange(len(rows)))]
            while unvisited:
                node, rows_at_node = unvisited.pop()
                if not rows_at_node.size:
                    continue
                if node < 0:
                    leaf = rules.leaves(forest.value[~node])
                    total[rows_at_node] = total[rows_at_node].astype(np.float64) + leaf
                    continue
                goes_left = _goes_left(
                    forest, node, rows[rows_at_node, forest.feature[node]], rules
                )
                unvisited += [
                    (forest.left[node], rows_at_node[goes_left]),
                    (forest.right[node], rows_at_node[~goes_left]),
                ]
        return total.astype(rules.gives)


def _goes_left(forest: Forest, node: int, values: Array, rules: Rules) -> BoolArray:
    """Return whether each value of the node's feature goes left."""
    kind, threshold = forest.kind[node], forest.threshold[node]
    is_missing = np.isnan(values)
    if forest.categorical[node]:
        codes = np.where((values > -1.0) & (values < 2.0**24), values, -1.0).astype(np.int64)
        goes_left = np.isin(codes, forest.categories(int(threshold)))
        if kind & LISTED_RIGHT:  # XGBoost does not truncate -0.5 to 0
            goes_left = ~goes_left | (values < 0.0)
    else:
        # Add the slack in the type of values: programs round this sum before they compare.
        bound = rules.values(threshold) + rules.values(rules.slack)
        goes_left = values < bound if rules.strict else values <= bound
        if kind & ZERO_IS_MISSING:
            is_missing |= np.abs(values) <= ZERO
    return np.where(is_missing, kind & NAN_LEFT != 0, goes_left)
