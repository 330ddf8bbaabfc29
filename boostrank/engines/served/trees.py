"""Trees of a file, checked and converted to arrays, and LightGBM's text of the same trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Array
from boostrank.engines.lightgbm.format import plain_text
from boostrank.engines.served.rules import NO_SCALES, Rules, Scale, Split, Tree, check_names, scores
from boostrank.engines.trees import (
    LARGEST_SCORE,
    MAX_DEPTH,
    ServedTrees,
    category_words,
    make_forest,
    refuse,
)
from boostrank.kernels.curves import LOWEST
from boostrank.kernels.forest import CATEGORICAL, NAN_LEFT, ZERO_IS_MISSING, Forest

_MOST_NODES = 20_000_000


@dataclass(frozen=True, eq=False)
class TreeFile:
    """The trees of a file.

    Args:
        names: names of the features, by which `parse` finds the columns.
        forest: the trees, with the file's own thresholds.
        rules: rules by which the program reads the thresholds and sums.
        scale: scaling of each feature that the program normalises first, by column.
    """

    names: tuple[str, ...]
    forest: Forest
    rules: Rules
    scale: Mapping[int, Scale]

    def scores(self, rows: Any) -> Array:
        """Return the program's scores of dense rows float32[n, d], in its type."""
        trees = ServedTrees(self.forest, np.zeros(0))
        if self.scale and self.rules.missing is not None:
            rows = np.nan_to_num(rows, nan=self.rules.missing)
        return scores(trees, normalise(rows, self.scale), self.rules)

    def to_text(self) -> bytes:
        """Return LightGBM's text of the same trees, which adds up in float64."""
        forest, rules = self.forest, self.rules
        # LightGBM's values go left if they are at most the threshold, and features are float32.
        with np.errstate(over="ignore"):  # below the least float32 number lies -inf
            sums = forest.threshold.astype(rules.values) + rules.values(rules.slack)
            bounds: Any = sums.astype(np.float64)
            if rules.strict:
                single = bounds.astype(np.float32)
                below = np.nextafter(single, -np.inf)
                bounds = np.where(single < bounds, single, below).astype(np.float64)
        threshold = np.where(forest.categorical, forest.threshold, bounds)
        for column, (shift, divisor) in self.scale.items():
            is_of_column = forest.feature == column
            threshold[is_of_column] = threshold[is_of_column] * divisor + shift
        threshold = np.maximum(threshold, LOWEST)
        missing_left = (forest.kind & NAN_LEFT) != 0
        if rules.missing is not None:
            missing_left = rules.missing <= threshold
        return plain_text(self.names, forest, threshold, missing_left)


def normalise(rows: Any, scale: Mapping[int, Scale]) -> Any:
    """Subtract the shift from each column with a scale, and divide, in float32 as Solr does."""
    if not scale:
        return rows
    rows = np.array(rows, np.float32)
    for column, (shift, divisor) in scale.items():
        rows[:, column] = (rows[:, column] - np.float32(shift)) / np.float32(divisor)
    return rows


def read_trees(
    names: Sequence[str],
    roots: Sequence[Any],
    parse: Callable[[Mapping[str, int], Any], Split | float],
    rules: Rules,
    *,
    weights: Sequence[float] | None = None,
    scales: Mapping[str, Scale] = NO_SCALES,
) -> TreeFile:
    """Check all nodes of a file and convert them to arrays.

    Args:
        roots: the trees.
        parse: function that takes the column of each name, and a node of the file.
        weights: factor of each tree's leaves, in the type of the leaves.
        scales: scaling of the features that the program normalises.

    Raises:
        ModelError: a tree is damaged, too deep, or has a number that is not finite.
    """
    check_names(names)
    refuse(not roots, "it has no trees")
    columns = _Columns({name: column for column, name in enumerate(names)})
    table = _Table(rules, partial(parse, columns))
    for tree, (root, weight) in enumerate(zip(roots, weights or [1.0] * len(roots), strict=True)):
        try:
            table.add(tree, root, weight)
        except ModelError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            lack = "a node has no " if isinstance(error, KeyError) else ""
            raise ModelError(f"tree {tree} is damaged: {lack}{error}") from None
    scale = {names.index(name): scales[name] for name in scales if name in names}
    return TreeFile(tuple(names), table.forest(), rules, scale)


class _Columns(dict[str, int]):
    """The columns of the features that a file lists."""

    def __missing__(self, name: str) -> int:
        raise ModelError(f"a tree splits on {name!r}, which is not among its features")


class _Table:
    """The nodes of all trees, parents first, and their leaves."""

    def __init__(self, rules: Rules, parse: Tree) -> None:
        self._rules, self._parse = rules, parse
        self._nodes: list[tuple[int, float, int, int]] = []
        self._children: list[list[int]] = []
        self._leaves: list[float] = []
        self._sets: list[Array] = []
        self._words = 0
        self._roots: list[int] = []

    def add(self, tree: int, root: Any, weight: float) -> None:
        """Add a tree, parents before their children."""
        unvisited: list[tuple[Any, int, int, int]] = [(root, -1, 0, 1)]
        while unvisited:
            node, parent, side, depth = unvisited.pop()
            refuse(depth > MAX_DEPTH, f"tree {tree} is deeper than {MAX_DEPTH:,}")
            refuse(len(self._nodes) > _MOST_NODES, "its trees are too large")
            split = self._parse(node)
            if isinstance(split, Split):
                number = len(self._nodes)
                self._nodes.append((split.feature, *self._test(split), tree))
                self._children.append([0, 0])
                unvisited += [
                    (split.right, number, 1, depth + 1),
                    (split.left, number, 0, depth + 1),
                ]
            else:
                number = ~len(self._leaves)
                leaf = float(self._rules.leaves(split) * self._rules.leaves(weight))
                refuse(not abs(leaf) <= LARGEST_SCORE, f"tree {tree} has a leaf that is not finite")
                self._leaves.append(leaf)
            if parent < 0:
                self._roots.append(number)
            else:
                self._children[parent][side] = number

    def _test(self, split: Split) -> tuple[float, int]:
        """Return a split's threshold, or the number of its set, and its kind."""
        kind = NAN_LEFT * split.missing_left | ZERO_IS_MISSING * split.zero_is_missing
        if isinstance(split.test, float):
            return split.test, kind
        categories = np.array(split.test, np.int64)
        refuse((categories < 0) | (categories >= 2**24), "a category is out of range")
        words = category_words(categories)
        self._words += words.size
        refuse(self._words > _MOST_NODES, "its sets of categories are too large")
        self._sets.append(words)
        return float(len(self._sets) - 1), kind | CATEGORICAL

    def forest(self) -> Forest:
        """Return the arrays."""
        feature, threshold, kind, tree = np.array(self._nodes, np.float64).reshape(-1, 4).T
        left, right = np.array(self._children).reshape(-1, 2).T
        return make_forest(
            self._sets,
            feature=feature,
            threshold=threshold,
            kind=kind,
            left=left,
            right=right,
            value=self._leaves,
            roots=self._roots,
            tree=tree,
        )
