"""Constraints of a whole model: whether one of its trees, or its start, goes the wrong way, or mixes what it must not.

The engines promise it, and so does a start. Yet LightGBM's methods `intermediate` and `advanced` break it where other
features are missing, and forced splits do not know of it (LightGBM 4.3 to 4.7): so what was trained is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.engines.base import Backend, Booster
from boostrank.engines.trees import Trees
from boostrank.kernels.trees.curves import Curve
from boostrank.kernels.trees.walker import NAN_LEFT, Forest

_Box = dict[int, tuple[float, float, bool]]


def broken(engine: Backend, booster: Booster, params: dict[str, Any], names: Sequence[str]) -> str | None:
    """How a model breaks the constraints in the parameters, in words; None: it keeps them, or there are none.

    Args:
        engine: of the booster.
        booster: the whole of it is looked at.
        params: of the engine.
        names: of the features.
    """
    limits = engine.params.limits(params, names)
    if not limits.direction.any() and limits.groups is None:
        return None
    trees = engine.format.trees(engine.format.parse(booster.to_bytes()), len(names))
    if trees.forest is None:
        if not limits.direction.any():  # a leaf's linear model is of the features on its way
            return None
        return f"nobody can tell whether {trees.why_not} keep constraints on features"
    at = first_break(trees, limits.direction)
    if at is not None:
        return f"scores can go against monotone_constraints along {names[at]!r}"
    mixed = () if limits.groups is None else first_mixture(trees, limits.groups)
    listed = ", ".join(repr(names[i]) for i in sorted(mixed))
    return f"a tree uses {listed} where interaction_constraints has no such group" if mixed else None


def first_break(trees: Trees, direction: Int64Array) -> int | None:
    """The first feature by which some score goes the wrong way, whatever the others are; None: none.

    Splits by categories go no way.

    Args:
        trees: of a model that can be walked.
        direction: int64[d], as `Limits` has it.
    """
    forest = trees.forest
    assert forest is not None
    for feature, curve in forest.start or ():
        if not _goes(curve, int(direction[feature])):
            return feature
    if not np.any(direction[forest.feature]):
        return None
    for root in forest.roots.tolist():
        found = _break_below(forest, root, direction) if root >= 0 else None
        if found is not None:
            return found
    return None


def first_mixture(trees: Trees, groups: Sequence[frozenset[int]]) -> frozenset[int]:
    """The first columns on a path to a leaf, or of a function of a start, that are in no group together; or none."""
    forest = trees.forest
    assert forest is not None
    paths = [(root, frozenset[int]()) for root in forest.roots.tolist()]
    seen = {frozenset([column]) for column, _ in forest.start or ()}
    while paths:
        child, above = paths.pop()
        if child < 0:
            seen.add(above)
            continue
        here = above | {int(forest.feature[child])}
        paths += [(int(forest.left[child]), here), (int(forest.right[child]), here)]
    return next((path for path in sorted(seen, key=sorted) if not any(path <= group for group in groups)), frozenset())


def _goes(curve: Curve, direction: int) -> bool:
    """Whether steps go that way, but for what they say of missing values."""
    return bool(np.all(direction * np.diff(curve.constant) >= 0.0))


def _break_below(forest: Forest, root: int, direction: Int64Array) -> int | None:
    """The first feature by which a tree goes the wrong way."""
    nodes: list[int] = []
    spans: dict[int, tuple[int, int, int]] = {}  # node -> where its leaves begin, those of its right child do, and end
    boxes: list[_Box] = []
    values: list[float] = []

    def visit(child: int, box: _Box) -> None:
        if child < 0:
            boxes.append(box)
            values.append(float(forest.value[~child]))
            return
        first = len(boxes)
        left, right = _halves(forest, child, box)
        visit(int(forest.left[child]), left)
        middle = len(boxes)
        visit(int(forest.right[child]), right)
        nodes.append(child)
        spans[child] = first, middle, len(boxes)

    visit(root, {})
    leaves = np.array(values)
    for node in nodes:
        feature = int(forest.feature[node])
        first, middle, last = spans[node]
        if direction[feature] and forest.categorical[node]:
            return feature
        signed = int(direction[feature]) * leaves
        if direction[feature] and signed[first:middle].max() > signed[middle:last].min():
            for low, high in _wrong(signed, first, middle, last):
                if _meet(boxes[low], boxes[high], feature):
                    return feature
    return None


def _wrong(values: Float64Array, first: int, middle: int, last: int) -> Iterator[tuple[int, int]]:
    """Leaves of the left part that are above those of the right."""
    above = values[first:middle, np.newaxis] > values[np.newaxis, middle:last]
    for low, high in np.argwhere(above).tolist():
        yield first + low, middle + high


def _halves(forest: Forest, node: int, box: _Box) -> tuple[_Box, _Box]:
    """What of a feature reaches each side: numbers above and up to bounds, and whether a missing value does."""
    if forest.categorical[node]:  # any of them may meet
        return box, box
    feature, threshold = int(forest.feature[node]), float(forest.threshold[node])
    threshold = -np.inf if np.isnan(threshold) else threshold  # no number is below it
    low, high, missing = box.get(feature, (-np.inf, np.inf, True))
    goes_left = bool(forest.kind[node] & NAN_LEFT)
    return (
        {**box, feature: (low, min(high, threshold), missing and goes_left)},
        {**box, feature: (max(low, threshold), high, missing and not goes_left)},
    )


def _meet(one: _Box, other: _Box, feature: int) -> bool:
    """Whether documents that differ by this feature alone, which both have, can be in two boxes."""
    for name in one.keys() & other.keys():
        (a, b, missing), (c, d, absent) = one[name], other[name]
        if name != feature and not (max(a, c) < min(b, d) or (missing and absent)):
            return False
    return all(box[feature][0] < box[feature][1] for box in (one, other))
