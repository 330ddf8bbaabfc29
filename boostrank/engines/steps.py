"""Function of one feature, constant in steps, as a tree with constant leaves.

What is missing goes to a leaf of its own, left of a first split below all numbers; no tree that was grown has such a
split, nor splits without a gain: so a start is known from the trees behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array
from boostrank.kernels.trees.curves import Curve, combined

NOTHING = replace(Curve.line(0.0, 0.0, 0.0), documents=np.ones(2))
"""Adds 0."""


def just_above(numbers: npt.NDArray[np.float32]) -> Float64Array:
    """float64[k]: bounds a quarter of the way to the next float32 number.

    So whoever compares with `<` has the same numbers below as who does with `<=`; and rounding a bound to float32, as
    converters of LightGBM's `<=` do, gives back the number.
    """
    after = np.nextafter(numbers, np.float32(np.inf)).astype(np.float64)
    return 0.75 * numbers.astype(np.float64) + 0.25 * after


@dataclass(frozen=True)
class StepTree:
    """A tree; leaf 0 is what is missing, leaf i + 1 is step i.

    Args:
        bounds: of the nodes but the first: a value up to it goes left.
        left, right: children of each node, of which parents come first; >= 0: a node, < 0: ~child is a leaf.
        leaf, documents: the value of each leaf, and how many documents are in it, at least 1: TreeSHAP divides by it.
        node, below: the mean value of the documents below each node, and how many there are.
    """

    bounds: list[float]
    left: list[int]
    right: list[int]
    leaf: list[float]
    documents: list[int]
    node: list[float]
    below: list[int]

    @classmethod
    def of(cls, curve: Curve) -> StepTree:
        """The tree of a function in steps whose documents are known."""
        assert curve.documents is not None
        bounds, left, right = split(curve.bounds)
        leaf = [float(curve.missing), *curve.constant.tolist()]
        documents = np.maximum(1, np.rint(np.roll(curve.documents, 1))).astype(np.int64).tolist()
        node, below = [0.0] * len(left), [0] * len(left)
        for i in reversed(range(len(left))):
            for child in (left[i], right[i]):
                count = documents[~child] if child < 0 else below[child]
                value = leaf[~child] if child < 0 else node[child]
                below[i] += count
                node[i] += count * (value - node[i]) / below[i]
        return cls(bounds, left, right, leaf, documents, node, below)


def split(ends: Float64Array) -> tuple[list[float], list[int], list[int]]:
    """Nodes that lead to what is missing and to the pieces between some ends: bounds of all but the first; children."""
    bounds: list[float] = []
    left, right = [~0], [0]
    below = ends.tolist()

    def lead(first: int, last: int) -> int:
        """Add the nodes of pieces `first` to `last`, and return the child that leads there."""
        if first == last:
            return ~(first + 1)
        number, middle = len(left), (first + last) // 2
        bounds.append(below[middle])
        left.append(0)
        right.append(0)
        left[number] = lead(first, middle)
        right[number] = lead(middle + 1, last)
        return number

    right[0] = lead(0, len(below))
    return bounds, left, right


def parts_of(models: int, weights: Sequence[float] | None) -> list[float]:
    """What each of several models is divided by: their number, or one over its weight."""
    return [float(models)] * models if weights is None else [1.0 / weight for weight in weights]


def sum_of_starts(starts: Sequence[Mapping[int, Curve]], weights: Sequence[float] | None = None) -> dict[int, Curve]:
    """The start whose scores are the weighted sum of those of several; without weights, their mean."""
    shares = [1.0 / len(starts)] * len(starts) if weights is None else list(weights)
    found = {}
    for feature in sorted({feature for start in starts for feature in start}):
        having = [(start[feature], share) for start, share in zip(starts, shares, strict=True) if feature in start]
        found[feature] = combined([curve for curve, _ in having], [share for _, share in having])
    return found
