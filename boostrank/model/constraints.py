"""Check the monotone and interaction constraints of a trained model, including its linear start.

LightGBM 4.3 to 4.7 violates them with forced splits, and with `monotone_constraints_method`
`intermediate` or `advanced` if other features are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from boostrank.core.types import Float64Array, Int64Array, ParamValues
from boostrank.engines.base import Backend, Booster
from boostrank.kernels.forest import NAN_LEFT, Forest

_LOW, _HIGH, _MISSING = range(3)
"""Rows of a box, float64[3, d], of the documents that reach a node: low < value <= high for each
feature, or a missing value if the third number is 1.
"""


_Leaf = tuple[float, Float64Array]
"""The value of a leaf, and the box of the documents that reach it."""


def broken(engine: Backend, booster: Booster, params: ParamValues) -> str | None:
    """Describe the first violated constraint, or return None if there is none."""
    names = booster.feature_names
    limits = engine.params.limits(params, names)
    if not limits.direction.any() and limits.groups is None:
        return None
    forest = engine.format.trees(engine.format.parse(booster.to_bytes()), len(names)).forest
    if forest is None:
        return None
    feature = first_break(forest, limits.direction)
    if feature is not None:
        return f"scores can violate monotone_constraints of {names[feature]!r}"
    mixed_columns = () if limits.groups is None else first_mixture(forest, limits.groups)
    if not mixed_columns:
        return None
    mixed_names = ", ".join(repr(names[i]) for i in sorted(mixed_columns))
    return f"a tree combines {mixed_names}, but interaction_constraints has no such group"


def first_break(forest: Forest, direction: Int64Array) -> int | None:
    """Return the first feature whose constraint is violated by a score or by any categorical split
    on it, or None.
    """
    for feature, curve in forest.start or ():
        if np.any(direction[feature] * np.diff(curve.constant) < 0.0):
            return feature
    is_constrained = direction[forest.feature] != 0
    if not is_constrained.any():
        return None
    categorical = forest.feature[is_constrained & forest.categorical]
    if categorical.size:
        return int(categorical[0])
    broken_features: list[int] = []

    def find_leaves(child: int, box: Float64Array) -> list[_Leaf]:
        if child < 0:
            return [(forest.value[~child], box)]
        # Divide the box. Categories do not restrict it.
        feature = int(forest.feature[child])
        left_box = box.copy()
        right_box = box.copy()
        if not forest.categorical[child]:
            threshold = np.fmax(forest.threshold[child], -np.inf)  # no number is below NaN
            left_box[_HIGH, feature] = min(box[_HIGH, feature], threshold)
            right_box[_LOW, feature] = max(box[_LOW, feature], threshold)
            box_without_missing = right_box if forest.kind[child] & NAN_LEFT else left_box
            box_without_missing[_MISSING, feature] = 0.0
        left = find_leaves(forest.left[child], left_box)
        right = find_leaves(forest.right[child], right_box)
        if direction[feature] and _crosses(left, right, direction[feature], feature):
            broken_features.append(feature)
        return left + right

    everything = np.repeat([[-np.inf], [np.inf], [1.0]], direction.size, axis=1)
    for root in forest.roots:
        find_leaves(root, everything)
        if broken_features:
            return broken_features[0]
    return None


def first_mixture(forest: Forest, groups: Sequence[frozenset[int]]) -> frozenset[int]:
    """Return the first set of columns, on a path to a leaf or in the start, that no group contains,
    if there is one.
    """
    paths = [(root, frozenset[int]()) for root in forest.roots.tolist()]
    column_sets = {frozenset([column]) for column, _ in forest.start or ()}
    while paths:
        node, path_columns = paths.pop()
        if node < 0:
            column_sets.add(path_columns)
            continue
        features = path_columns | {forest.feature[node]}
        paths += [(forest.left[node], features), (forest.right[node], features)]
    for columns in sorted(column_sets, key=sorted):
        if not any(columns <= group for group in groups):
            return columns
    return frozenset()


def _crosses(left: Sequence[_Leaf], right: Sequence[_Leaf], sign: int, feature: int) -> bool:
    """Return True if a left leaf exceeds a right leaf and documents that differ only in the feature
    can reach both.
    """
    smallest_right = min(sign * value for value, _ in right)
    for value, box in left:
        if sign * value <= smallest_right:
            continue
        lower_boxes = [
            lower_box for lower_value, lower_box in right if sign * lower_value < sign * value
        ]
        low, high, missing = np.stack(lower_boxes, axis=1)
        meets = np.maximum(box[_LOW], low) < np.minimum(box[_HIGH], high)
        meets |= box[_MISSING] * missing > 0.0
        meets[:, feature] = low[:, feature] < high[:, feature]
        if box[_LOW, feature] < box[_HIGH, feature] and meets.all(axis=1).any():
            return True
    return False
