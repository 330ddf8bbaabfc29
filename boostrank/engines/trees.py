"""The base class of model formats, trees as arrays, step functions as trees, and the rounding of
leaves.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Array, BoolArray, Float32Array, Float64Array, Int64Array
from boostrank.kernels.curves import Curve, Curves, combined
from boostrank.kernels.forest import Forest
from boostrank.records import from_json

# The engines walk trees recursively, and their SHAP code allocates depth^2 numbers, so deeper trees
# overflow the stack.
MAX_DEPTH = 4096


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees of a model file.

    Args:
        forest: trees for `kernels.forest.Walker`, whose scores differ from the engine's by a
            constant (XGBoost's base_score) and by rounding; None for a linear model.
        count: number of trees, excluding a linear start.
        gain: float64[d], total gain of the splits by each feature, as the engine computes it.
        splits: int64[d], number of splits by each feature.
        used: int64[c], features that a prediction may depend on, ascending.
        double: whether the engine adds up only these trees, in float64, so that the walker's scores
            equal the engine's.
    """

    forest: Forest | None
    count: int
    gain: Float64Array
    splits: Int64Array
    used: Int64Array
    double: bool = False

    def __repr__(self) -> str:
        return (
            f"Trees({self.count:,} trees, {int(self.splits.sum()):,} splits, {self.used.size:,}"
            " features used)"
        )

    @classmethod
    def summarise(
        cls,
        forest: Forest,
        gain: Float64Array,
        n_features: int,
        *,
        start: Mapping[int, Curve] | None = None,
        double: bool = False,
    ) -> Trees:
        """Summarise all trees and their linear start.

        Args:
            gain: float64[M], gain of each node.
            start: functions of the linear start, by feature.
        """
        is_counted = gain > 0.0  # the engines do not count forced splits without gain
        feature = forest.feature[is_counted]
        start_features = np.array(list(start or ()), np.int64)
        used = np.unique(np.concatenate([forest.feature, start_features])).astype(np.int64)
        if start:
            forest = replace(forest, start=Curves.from_pairs(list(start.items())))
        total_gain = np.bincount(feature, gain[is_counted], n_features).astype(np.float64)
        splits = np.bincount(feature, minlength=n_features).astype(np.int64)
        return cls(forest, forest.roots.size, total_gain, splits, used, double)


@dataclass(frozen=True, eq=False)
class ServedTrees:
    """All trees of a model for export, including those of a linear start.

    Args:
        forest: trees, without a separate start.
        leaf_count: float64[L], number of documents (LightGBM) or sum of Hessians (XGBoost).
        base: initial value of every score.
        single: whether the engine computes in float32, as XGBoost does, and not in float64, as
            LightGBM does.
    """

    forest: Forest
    leaf_count: Float64Array
    base: float = 0.0
    single: bool = False

    def small_first(self) -> ServedTrees:
        """Order the trees by the mean square of their leaves, which keeps the rounding errors of
        float32 sums small.
        """
        forest, count = self.forest, np.maximum(self.leaf_count, 1e-30)
        tree_of_leaf, n_trees = forest.leaf_trees(), forest.roots.size
        squares = np.bincount(tree_of_leaf, count * forest.value**2, n_trees)
        mean_squares = squares / np.bincount(tree_of_leaf, count, n_trees)
        order = np.argsort(mean_squares, kind="stable")
        tree = np.argsort(order)[forest.tree].astype(np.int32)
        return replace(self, forest=replace(forest, roots=forest.roots[order], tree=tree))


_DTYPES: dict[str, type[np.generic]] = {
    "feature": np.int32,
    "threshold": np.float64,
    "kind": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
    "roots": np.int32,
    "tree": np.int32,
}


def make_forest(sets: Sequence[Array] = (), **columns: Any) -> Forest:
    """Return a forest of columns by name, in their types, and of sets of categories, each in
    words.
    """
    typed: Any = {name: np.array(columns.get(name, ()), _DTYPES[name]) for name in _DTYPES}
    return Forest(
        **typed,
        sets=np.concatenate([np.zeros(0), *sets]).astype(np.uint32),
        set_ptr=np.cumsum([0, *map(len, sets)]).astype(np.int64),
    )


def category_words(categories: Array) -> Array:
    """Return categories as bits of words, uint32[w], which end with the highest one."""
    words = np.zeros(int(categories.max(initial=0)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
    return words


NO_TREES = ServedTrees(make_forest(), np.zeros(0))
"""The trees of a linear model."""

LARGEST_SCORE = 1e150
"""The largest magnitude of a score, which keeps the squares and sums of scores finite."""


def in_range(scores: Array) -> bool:
    """Return True if no score is NaN or beyond `LARGEST_SCORE`, without allocating an array."""
    if not scores.size:
        return True
    return max(float(scores.max()), -float(scores.min())) <= LARGEST_SCORE  # False for NaN


@dataclass(frozen=True, eq=False)
class LinearStart:
    """A linear ranker from which trees start, whose score is the sum of functions of single columns
    (`curves`).
    """

    feature_names: tuple[str, ...]
    curves: Mapping[int, Curve]


class ModelFormat:
    """Base class of an engine's model files.

    Attributes:
        title: description of the format in messages.
    """

    name: str
    title: str

    def recognises(self, body: bytes) -> bool:
        """Return True if the first bytes of a file are those of this format."""
        raise NotImplementedError

    def parse(self, body: bytes) -> Any:
        """Parse and check a file, without executing anything or trusting the sizes in it.

        Raises:
            ModelError: the engine would not load the file, or would read beyond its memory.
        """
        raise NotImplementedError

    def trees(self, model: Any, n_features: int) -> Trees:
        """Return the trees of a parsed model."""
        raise NotImplementedError

    def served(self, model: Any) -> ServedTrees:
        """Return the trees of a parsed model for export, or raise ModelError if scores are not sums
        of leaves.
        """
        raise ModelError(f"models of {self.name} cannot be exported")

    def widened(self, body: bytes, columns: Sequence[int], names: Sequence[str]) -> bytes:
        """Return the same model with more features.

        Args:
            body: file that the engine wrote, without categories or parameters of single features.
            columns: new column of each feature, ascending.
            names: names of all features, as `engine_names` returns them.
        """
        raise ModelError(f"the features of a {self.name} model cannot change")

    def filled(self, body: bytes, values: Float64Array) -> bytes:
        """Return a model file that scores a missing value of feature i as values[i], unless that is
        NaN.
        """
        raise NotImplementedError

    def merge(self, models: Sequence[Any], weights: Sequence[float]) -> bytes:
        """Return a model file whose scores are the sum of the scores of parsed models, each times
        its weight, > 0.
        """
        raise ModelError(f"models of {self.name} cannot be averaged")

    def leaf_values(self, model: Any) -> list[Float64Array]:
        """Return the value of each leaf of each grown tree, indexed as the leaves that
        `Booster.predict` returns.
        """
        raise NotImplementedError

    def with_leaves(
        self, model: Any, values: Sequence[Float64Array], start: Mapping[int, Curve] | None = None
    ) -> bytes:
        """Return a parsed model with other leaf values, as `leaf_values` returns them.

        Args:
            start: the linear start of the result; None keeps that of the model.
        """
        raise NotImplementedError

    def stamp(self, body: bytes) -> bytes:
        """Return the same model with additions that other programs require."""
        return body


def refuse(wrong: bool | BoolArray, reason: str) -> None:
    """Raise ModelError if the condition, or any entry of an array, is true."""
    if wrong is not False and np.any(wrong):  # NumPy takes microseconds for one condition
        raise ModelError(reason)


def read_json(body: bytes) -> Any:
    """Parse JSON that has no repeated keys; NaN and infinity are allowed."""
    try:
        return from_json(body, once=True)
    except ValueError as error:
        raise ModelError(
            f"broken JSON; the file is damaged or not a model: {str(error)[:200]}"
        ) from None


def write_json(document: Any) -> bytes:
    """Write JSON without Unicode escapes, because XGBoost's reader does not decode them."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace")


def engine_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return feature names that every engine accepts: `price [EUR]` becomes `price__EUR_`.

    LightGBM rejects the characters of JSON and changes blanks, and XGBoost rejects brackets and
    `<`.
    """
    accepted = [re.sub(r"[\s\[\]{}\",:<>]", "_", name) for name in names]
    earlier_names = set[str]()
    for i, name in enumerate(accepted):
        if name in earlier_names:
            accepted[i] = f"{name}.{i}"
        earlier_names.add(name)
    return tuple(accepted)


def depths(parent: Int64Array) -> Int64Array:
    """Return the number of steps from each node to its root, int64[n], or -1 on or below a cycle.

    Each pass doubles the known part of every path, so the number of passes is logarithmic in n.

    Args:
        parent: int64[n], parent of each node of one or more trees, where a root is its own parent.
    """
    ancestor, steps = parent.copy(), (parent != np.arange(parent.size)).astype(np.int64)
    for _ in range(int(parent.size).bit_length()):
        steps += steps[ancestor]
        ancestor = ancestor[ancestor]
    # A node that has not reached a root after n steps is on or below a cycle.
    return np.where(parent[ancestor] == ancestor, steps, -1)


# A step function of one feature is a tree whose first split is below all numbers and sends missing
# values to a leaf. No grown tree has such a split without gain, so it identifies a start.
NOTHING = Curve(np.zeros(0), np.zeros(1), 0.0, documents=np.ones(2))
"""The function that is 0 everywhere."""


def just_above(numbers: Float32Array) -> Float64Array:
    """Return bounds a quarter of the way to the next float32 number, so that `<` and `<=` agree, as
    float64[k].

    Converters of LightGBM's `<=` round a bound to float32, which returns the number.
    """
    next_numbers = np.nextafter(numbers, np.inf).astype(np.float64)
    return 0.75 * numbers.astype(np.float64) + 0.25 * next_numbers


@dataclass(frozen=True)
class StepTree:
    """A step function as a tree, in which leaf 0 is for missing values and leaf i + 1 is step i.

    Args:
        bounds: thresholds of all nodes but the first; values up to the bound go left.
        left, right: children of each node, as node numbers or ~leaf, where parents come first.
        value, documents: mean value of the documents below each node, and their number, and then
            those of the leaves from the last to the first, so that ~leaf is the index of a leaf. A
            leaf has at least 1 document, because TreeSHAP divides by it.
    """

    bounds: list[float]
    left: list[int]
    right: list[int]
    value: list[float]
    documents: list[int]

    @classmethod
    def from_curve(cls, curve: Curve) -> StepTree:
        """Return a balanced tree of the curve's steps, with the means and counts of its nodes."""
        assert curve.documents is not None
        bounds, left, right = balance_steps(curve.bounds)
        value = [0.0] * len(left) + [*curve.constant[::-1].tolist(), float(curve.missing)]
        leaf_documents = np.maximum(1, np.rint(np.roll(curve.documents, 1)))[::-1]
        documents = [0] * len(left) + leaf_documents.astype(np.int64).tolist()
        # Compute the means of the nodes from the leaves up.
        for node in reversed(range(len(left))):
            for child in (left[node], right[node]):
                documents[node] += documents[child]
                value[node] += documents[child] * (value[child] - value[node]) / documents[node]
        return cls(bounds, left, right, value, documents)


def balance_steps(ends: Float64Array) -> tuple[list[float], list[int], list[int]]:
    """Return the nodes that separate missing values and the pieces between ends: the thresholds of
    all nodes but the first, and the children of each node, as node numbers or ~leaf.
    """
    bounds, left, right, thresholds = list[float](), [~0], [0], ends.tolist()

    def add_node(first: int, last: int) -> int:
        """Add the nodes for the pieces `first` to `last`, and return their root as a child."""
        if first == last:
            return ~(first + 1)
        node, middle_piece = len(left), (first + last) // 2
        bounds.append(thresholds[middle_piece])
        left.append(0)
        right.append(0)
        left[node] = add_node(first, middle_piece)
        right[node] = add_node(middle_piece + 1, last)
        return node

    right[0] = add_node(0, len(thresholds))
    return bounds, left, right


def by_feature(curves: Iterable[tuple[int, Curve]]) -> dict[int, Curve]:
    """Return one curve a feature, the sum of its curves."""
    sums: dict[int, Curve] = {}
    for feature, curve in curves:
        sums[feature] = combined([sums[feature], curve], [1.0, 1.0]) if feature in sums else curve
    return sums


def filled_start(start: Mapping[int, Curve], values: Float64Array) -> dict[int, Curve]:
    """Return the functions with their value at values[i] for a missing feature i, unless that is
    NaN.
    """
    curves = dict(start)
    for feature, curve in start.items():
        if not np.isnan(values[feature]):
            step = np.searchsorted(curve.bounds, values[feature])
            curves[feature] = replace(curve, missing=float(curve.constant[step]))
    return curves


def sum_of_starts(
    starts: Sequence[Mapping[int, Curve]], weights: Sequence[float]
) -> dict[int, Curve]:
    """Return the weighted sum of linear starts."""
    sums = {}
    for feature in sorted({feature for start in starts for feature in start}):
        start_numbers = [i for i, start in enumerate(starts) if feature in start]
        curves = [starts[i][feature] for i in start_numbers]
        sums[feature] = combined(curves, [weights[i] for i in start_numbers])
    return sums


# Programs sum leaves in float32 or float64 and in any order, so rounding errors differ. Sums of
# multiples of one power of 2 are exact while they are below 2^24 units.
ROUNDED = 1e-3
"""The largest ratio of the scores' rounding error to their deviation (root mean squares,
independent trees).
"""
_BITS = 24  # precision of a float32 number


def of_doubles(threshold: Float64Array) -> Float64Array:
    """Return thresholds, float64[M], that split float64 values like the float32 numbers that they
    round to.

    Features are float32. A decimal may be just above a threshold in float64 but round to a float32
    number below it, so programs that compare in float64 would send it to the other side. If the
    threshold is between the float32 numbers f and g, the result is the largest float64 that rounds
    to f.

    Args:
        threshold: thresholds of splits that send values at or below the threshold to the left.
    """
    with np.errstate(over="ignore"):
        below = threshold.astype(np.float32)
        below = np.where(below > threshold, np.nextafter(below, -np.inf), below)  # f
        above = np.nextafter(below, np.inf)  # g
        middle = (below.astype(np.float64) + above) / 2.0
        rounded = np.where(
            middle.astype(np.float32) == below, middle, np.nextafter(middle, -np.inf)
        )
    return np.where(np.isfinite(below) & np.isfinite(above), rounded, threshold)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a model.

    Args:
        tree: int64[L], tree of each leaf, from 0 and ascending.
        value: float64[L], value of each leaf.
        count: float64[L], number of documents or sum of Hessians of each leaf; 0 if unknown.
        base: initial value of every score.
    """

    tree: Int64Array
    value: Float64Array
    count: Float64Array
    base: float = 0.0

    def in_units(self) -> Leaves | None:
        """Round the leaves to multiples of a unit.

        Return None if rounding would matter, for example because one leaf is far larger than the
        others, if all leaves are 0, or if one is not finite.
        """
        trees = int(self.tree.max(initial=-1)) + 1
        largest = np.zeros(trees)
        np.maximum.at(largest, self.tree, np.abs(self.value))
        total = float(largest.sum()) + abs(self.base)
        if not 0.0 < total < math.inf:
            return None
        # Rounding adds at most half a unit to each leaf.
        unit = math.ldexp(1.0, math.frexp(total * (1.0 + (trees + 1) * 2.0**-_BITS))[1] - _BITS)
        # Compare the rounding error with the deviation of the scores, both as root mean squares.
        count = np.maximum(self.count, 1e-30)
        documents = np.bincount(self.tree, count, trees)
        mean = (np.bincount(self.tree, count * self.value, trees) / documents)[self.tree]
        variance = np.bincount(self.tree, count * (self.value - mean) ** 2, trees) / documents
        if unit * math.sqrt((trees + 1) / 12.0) > ROUNDED * math.sqrt(variance.sum()):
            return None
        value = np.round(self.value / unit) * unit + 0.0  # -0 becomes 0
        return replace(self, value=value, base=round(self.base / unit) * unit)
