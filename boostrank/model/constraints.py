"""Check the monotone and interaction constraints of a trained model, including its linear start.

LightGBM 4.3 to 4.7 violates them with forced splits, and with `monotone_constraints_method`
`intermediate` or `advanced` if other features are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from boostrank.core.types import Int64Array, ParamValues
from boostrank.engines.base import Backend, Booster
from boostrank.engines.trees import Trees
from boostrank.kernels.forest import NAN_LEFT, Forest

_Box = dict[int, tuple[float, float, bool]]


def broken(engine: Backend, booster: Booster, params: ParamValues) -> str | None:
    """Describe the first violated constraint, or return None if there is none."""
    names = booster.feature_names
    limits = engine.params.limits(params, names)
    if not limits.direction.any() and limits.groups is None:
        return None
    trees = engine.format.trees(engine.format.parse(booster.to_bytes()), len(names))
    if trees.forest is None:
        # A linear leaf uses only the features on its path, so that groups hold.
        return (
            f"constraints on features cannot be checked for {trees.why_not}"
            if limits.direction.any()
            else None
        )
    at = first_break(trees, limits.direction)
    if at is not None:
        return f"scores can violate monotone_constraints of {names[at]!r}"
    mixed = () if limits.groups is None else first_mixture(trees, limits.groups)
    listed = ", ".join(repr(names[i]) for i in sorted(mixed))
    return (
        f"a tree combines {listed}, but interaction_constraints has no such group"
        if mixed
        else None
    )


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
    seen = {frozenset([column]) for column, _ in forest.start or ()}
    while paths:
        child, above = paths.pop()
        if child < 0:
            seen.add(above)
            continue
        features = above | {int(forest.feature[child])}
        paths += [(int(forest.left[child]), features), (int(forest.right[child]), features)]
    return next(
        (path for path in sorted(seen, key=sorted) if not any(path <= group for group in groups)),
        frozenset(),
    )


def _break_below(forest: Forest, root: int, direction: Int64Array) -> int | None:
    nodes: list[int] = []

    def leaves(child: int, box: _Box) -> list[tuple[_Box, float]]:
        if child < 0:
            return [(box, float(forest.value[~child]))]
        halves = _halves(forest, child, box)
        left = leaves(int(forest.left[child]), halves[0])
        right = leaves(int(forest.right[child]), halves[1])
        feature = int(forest.feature[child])
        sign = int(direction[feature])
        if (
            sign
            and not nodes
            and (forest.categorical[child] or _crosses(left, right, sign, feature))
        ):
            nodes.append(feature)
        return left + right

    leaves(root, {})
    return nodes[0] if nodes else None


def _crosses(
    left: Sequence[tuple[_Box, float]], right: Sequence[tuple[_Box, float]], sign: int, feature: int
) -> bool:
    """Return True if a left leaf exceeds a right leaf and documents that differ only in the feature
    can reach both.
    """
    if max(sign * value for _, value in left) <= min(sign * value for _, value in right):
        return False
    return any(
        sign * low > sign * high and _meet(box, other, feature)
        for box, low in left
        for other, high in right
    )


def _halves(forest: Forest, node: int, box: _Box) -> tuple[_Box, _Box]:
    """Split a box, which maps a feature to (lower bound, upper bound, missing allowed), at a
    node.
    """
    if forest.categorical[node]:  # categories do not restrict the box
        return box, box
    feature, threshold = int(forest.feature[node]), float(forest.threshold[node])
    threshold = -np.inf if np.isnan(threshold) else threshold  # no number is below it
    low, high, missing = box.get(feature, (-np.inf, np.inf, True))
    goes_left = bool(forest.kind[node] & NAN_LEFT)
    return (
        {**box, feature: (low, min(high, threshold), missing and goes_left)},
        {**box, feature: (max(low, threshold), high, missing and not goes_left)},
    )


def _meet(near: _Box, far: _Box, feature: int) -> bool:
    """Return True if the boxes can contain two documents that differ only in the value of this
    feature.
    """
    for name in near.keys() & far.keys():
        (a, b, missing), (c, d, absent) = near[name], far[name]
        if name != feature and not (max(a, c) < min(b, d) or (missing and absent)):
            return False
    return all(box[feature][0] < box[feature][1] for box in (near, far))
