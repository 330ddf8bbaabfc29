"""Trees of a model as arrays; trees of a function in steps; leaves that every program adds up alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.trees.curves import Curve, combined
from boostrank.kernels.trees.walker import Forest

# The engines walk a tree by recursion, and their SHAP code allocates depth^2 numbers: deeper trees exhaust the stack.
MAX_DEPTH = 4096


@dataclass(frozen=True, eq=False)
class Trees:
    """What a model file says of its trees.

    Args:
        forest: for `kernels.trees.walker.Walker`, whose scores differ from the engine's raw ones by a constant
            (XGBoost's base_score) and by rounding; None where it cannot walk these trees.
        why_not: what in these trees it cannot walk; empty if it can.
        count: how many trees there are; a linear start's are none.
        gain: float64[d], the gain of all splits by each feature, as the engine counts it ("gain" of LightGBM,
            "total_gain" of XGBoost).
        splits: int64[d], how many there are.
        used: int64[c], features that a prediction may depend on, ascending.
        double: whether the engine adds up in float64, and nothing but these trees: the walker's scores are its own.
    """

    forest: Forest | None
    why_not: str
    count: int
    gain: Float64Array
    splits: Int64Array
    used: Int64Array
    double: bool = False

    @classmethod
    def of(
        cls,
        forest: Forest,
        gain: Float64Array,
        n_features: int,
        *,
        also_used: Sequence[Int64Array] = (),
        why_not: str = "",
        double: bool = False,
    ) -> Trees:
        """The trees of a forest.

        Args:
            forest: all of them, and what they begin with.
            gain: float64[M], of each node.
            n_features: of the model.
            also_used: features that leaves depend on.
            why_not, double: as above.
        """
        counted = gain > 0.0  # the engines do not count splits without gain (those that were forced)
        feature = forest.feature[counted]
        started = [] if forest.start is None else [forest.start.feature]
        return cls(
            forest=None if why_not else forest,
            why_not=why_not,
            count=forest.roots.size,
            gain=np.bincount(feature, gain[counted], n_features).astype(np.float64),
            splits=np.bincount(feature, minlength=n_features).astype(np.int64),
            used=np.unique(np.concatenate([forest.feature, *started, *also_used])).astype(np.int64),
            double=double,
        )


@dataclass(frozen=True, eq=False)
class ServedTrees:
    """All trees of a model, those of a start too, as programs that serve it walk them.

    Args:
        forest: the trees, without a start beside them.
        node_count, leaf_count: float64[M] and float64[L], documents (LightGBM) or hessians (XGBoost) in each.
        base: what every score begins with.
        single: whether values are rounded to float32 and leaves added up in float32, as XGBoost does; otherwise in
            float64, as LightGBM does.
    """

    forest: Forest
    node_count: Float64Array
    leaf_count: Float64Array
    base: float = 0.0
    single: bool = False

    def small_first(self) -> ServedTrees:
        """The same with trees in the order of what they add to the size of a score.

        So sums in float32 stay small while most trees are added, and so does what is rounded away.
        """
        forest = self.forest
        owner = forest.leaf_trees()
        count = np.maximum(self.leaf_count, 1e-30)
        trees = forest.roots.size
        added = np.bincount(owner, count * forest.value**2, trees) / np.bincount(owner, count, trees)
        order = np.argsort(added, kind="stable")
        place = np.argsort(order)
        return replace(
            self, forest=replace(forest, roots=forest.roots[order], tree=place[forest.tree].astype(np.int32))
        )


def depths(parent: Int64Array) -> Int64Array:
    """Steps from each node to its root.

    Doubles the known part of every path at a time, so a chain or a cycle costs no more than a bushy tree.

    Args:
        parent: int64[n], the parent of each node, in range; a root is its own parent. Many trees may share the array.

    Returns:
        int64[n]; -1 for a node that no root reaches, because it is on a cycle or below one.
    """
    ancestor, steps = parent.copy(), (parent != np.arange(parent.size)).astype(np.int64)
    for _ in range(int(parent.size).bit_length()):
        steps += steps[ancestor]
        ancestor = ancestor[ancestor]
    # A node that is still under way after more steps than there are nodes goes round in circles.
    return np.where(parent[ancestor] == ancestor, steps, -1)


# A function of one feature, constant in steps, as a tree. What is missing goes to a leaf of its own, left of a first
# split below all numbers. No grown tree has such a split, nor splits without a gain: this tells a start from the trees.
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


# Programs that serve trees add leaves up in float32 or float64, in orders of their own, and each rounds elsewhere.
# Leaves that are multiples of one power of 2, so small that no sum reaches 2^24 units, are added without rounding.
ROUNDED = 1e-3
"""Leaves are rounded where that moves scores by no more than this share of their deviation: root mean squares, of trees
that know nothing of each other."""
_BITS = 24  # of a float32 number


def of_doubles(threshold: Float64Array) -> Float64Array:
    """Thresholds, float64[M], that send every float64 to the side of the float32 number that it rounds to.

    Features are float32 here. A threshold between float32 numbers f and g may be a decimal whose float32 is f, and
    which as float64 lies above it: programs that compare in float64 would send the decimal to the other side. The
    result lies below the middle of f and g, or on it where the middle rounds to f. Float32 numbers stay where they are.

    Args:
        threshold: of splits whose values at or below go left.
    """
    with np.errstate(over="ignore"):
        below = threshold.astype(np.float32)
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)  # f
        above = np.nextafter(below, np.float32(np.inf))  # g
        middle = (below.astype(np.float64) + above) / 2.0
        found = np.where(middle.astype(np.float32) == below, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isfinite(below) & np.isfinite(above), found, threshold)


@dataclass(frozen=True, eq=False)
class Leaves:
    """What trees add to scores.

    Args:
        tree: int64[L], the tree of each leaf, from 0 and ascending.
        value: float64[L], of each.
        count: float64[L], documents (or hessians) in each; 0 where nobody knows.
        base: what every score begins with.
    """

    tree: Int64Array
    value: Float64Array
    count: Float64Array
    base: float = 0.0

    def in_units(self) -> Leaves | None:
        """The same rounded to multiples of a unit; None where that would count, as beside one leaf
        that is far larger than the rest; and where all are 0, or one is not finite."""
        trees = int(self.tree.max(initial=-1)) + 1
        largest = np.zeros(trees)
        np.maximum.at(largest, self.tree, np.abs(self.value))
        total = float(largest.sum()) + abs(self.base)
        if not 0.0 < total < math.inf:
            return None
        # Rounding adds half a unit to each at most.
        unit = math.ldexp(1.0, math.frexp(total * (1.0 + (trees + 1) * 2.0**-_BITS))[1] - _BITS)
        count = np.maximum(self.count, 1e-30)
        documents, sums = (np.bincount(self.tree, count * of, trees) for of in (np.ones(count.size), self.value))
        mean = (sums / documents)[self.tree]
        variance = np.bincount(self.tree, count * (self.value - mean) ** 2, trees) / documents
        if unit * math.sqrt((trees + 1) / 12.0) > ROUNDED * math.sqrt(variance.sum()):
            return None
        value = np.round(self.value / unit) * unit + 0.0  # -0 becomes 0
        return replace(self, value=value, base=round(self.base / unit) * unit)
