"""Check the monotone and interaction constraints of a trained model, including its linear start.

LightGBM 4.3 to 4.7 violates them with forced splits, and with `monotone_constraints_method`
`intermediate` or `advanced` if other features are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from boostrank.core.types import Int64Array, ParamValues
from boostrank.engines.base import Backend, Booster
from boostrank.engines.trees import Trees
from boostrank.kernels.forest import NAN_LEFT, Forest


def broken(engine: Backend, booster: Booster, params: ParamValues) -> str | None:
    """Describe the first violated constraint, or return None if there is none."""
    names = booster.feature_names
    limits = engine.params.limits(params, names)
    if not limits.direction.any() and limits.groups is None:
        return None
    trees = engine.format.trees(engine.format.parse(booster.to_bytes()), len(names))
    if trees.forest is None:
        return None
    feature = first_break(trees, limits.direction)
    if feature is not None:
        return f"scores can violate monotone_constraints of {names[feature]!r}"
    mixed_columns = () if limits.groups is None else first_mixture(trees, limits.groups)
    if not mixed_columns:
        return None
    mixed_names = ", ".join(repr(names[i]) for i in sorted(mixed_columns))
    return f"a tree combines {mixed_names}, but interaction_constraints has no such group"


def first_break(trees: Trees, direction: Int64Array) -> int | None:
    """Return the first feature whose constraint is violated by a score or by any categorical split
    on it, or None.
    """
    forest = trees.forest
    assert forest is not None
    for feature, curve in forest.start or ():
        if np.any(direction[feature] * np.diff(curve.constant) < 0.0):
            return feature
    if not np.any(direction[forest.feature]):
        return None
    breaks = (_break_below(forest, root, direction) for root in forest.roots.tolist())
    return next((node for node in breaks if node is not None), None)


def first_mixture(trees: Trees, groups: Sequence[frozenset[int]]) -> frozenset[int]:
    """Return the first set of columns, on a path to a leaf or in the start, that no group contains,
    if there is one.
    """
    forest = trees.forest
    assert forest is not None
    paths = [(root, frozenset[int]()) for root in forest.roots.tolist()]
    column_sets = {frozenset([column]) for column, _ in forest.start or ()}
    while paths:
        node, path_columns = paths.pop()
        if node < 0:
            column_sets.add(path_columns)
            continue
        features = path_columns | {int(forest.feature[node])}
        paths += [(int(forest.left[node]), features), (int(forest.right[node]), features)]
    for columns in sorted(column_sets, key=sorted):
        if not any(columns <= group for group in groups):
            return columns
    return frozenset()


_Box = dict[int, "_Interval"]
"""The documents that reach a node, by feature."""


def _break_below(forest: Forest, root: int, direction: Int64Array) -> int | None:
    broken_features: list[int] = []

    def leaves(child: int, box: _Box) -> list[_Leaf]:
        if child < 0:
            return [_Leaf(box, float(forest.value[~child]))]
        halves = _halves(forest, child, box)
        left = leaves(int(forest.left[child]), halves[0])
        right = leaves(int(forest.right[child]), halves[1])
        feature = int(forest.feature[child])
        sign = int(direction[feature])
        if sign and not broken_features:
            is_broken = forest.categorical[child] or _crosses(left, right, sign, feature)
            if is_broken:
                broken_features.append(feature)
        return left + right

    leaves(root, {})
    return broken_features[0] if broken_features else None


def _crosses(left: Sequence[_Leaf], right: Sequence[_Leaf], sign: int, feature: int) -> bool:
    """Return True if a left leaf exceeds a right leaf and documents that differ only in the feature
    can reach both.
    """
    if max(sign * value for _, value in left) <= min(sign * value for _, value in right):
        return False
    return any(
        sign * low > sign * high and _meet(box, other_box, feature)
        for box, low in left
        for other_box, high in right
    )


class _Leaf(NamedTuple):
    """The documents that reach a leaf, and its value."""

    box: _Box
    value: float


class _Interval(NamedTuple):
    """The values of a feature that reach a node: low < value <= high, or a missing value."""

    low: float = -np.inf
    high: float = np.inf
    missing: bool = True

    def meets(self, other: _Interval) -> bool:
        """Return whether a value is in both intervals."""
        overlap = max(self.low, other.low) < min(self.high, other.high)
        return overlap or (self.missing and other.missing)


def _halves(forest: Forest, node: int, box: _Box) -> tuple[_Box, _Box]:
    """Split a box at a node into those of its left and right child."""
    if forest.categorical[node]:  # categories do not restrict the box
        return box, box
    feature, threshold = int(forest.feature[node]), float(forest.threshold[node])
    threshold = -np.inf if np.isnan(threshold) else threshold  # no number is below it
    low, high, missing = box.get(feature, _Interval())
    goes_left = bool(forest.kind[node] & NAN_LEFT)
    left = _Interval(low, min(high, threshold), missing and goes_left)
    right = _Interval(max(low, threshold), high, missing and not goes_left)
    return {**box, feature: left}, {**box, feature: right}


def _meet(box: _Box, other: _Box, feature: int) -> bool:
    """Return True if the boxes can contain two documents that differ only in the value of this
    feature.
    """
    shared = box.keys() & other.keys() - {feature}
    if not all(box[name].meets(other[name]) for name in shared):
        return False
    return all(interval.low < interval.high for interval in (box[feature], other[feature]))
