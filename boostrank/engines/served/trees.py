"""Trees of a file, checked and converted to arrays, and LightGBM's text of the same trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Array
from boostrank.engines.lightgbm.format import plain_text
from boostrank.engines.served.rules import DAMAGE, Rules, Split, check_names, scores
from boostrank.engines.trees import (
    LARGEST_SCORE,
    MAX_DEPTH,
    ServedTrees,
    make_forest,
    refuse,
)
from boostrank.kernels.curves import LOWEST
from boostrank.kernels.forest import NAN_LEFT, Forest

_MOST_NODES = 20_000_000
_LEFT, _RIGHT = 4, 5


@dataclass(frozen=True, eq=False)
class TreeFile:
    """The trees of a file.

    Args:
        names: names of the features, by which `parse` finds the columns.
        forest: the trees, with the file's own thresholds.
        rules: rules by which the program reads the thresholds and sums.
    """

    names: tuple[str, ...]
    forest: Forest
    rules: Rules

    def scores(self, rows: Any) -> Array:
        """Return the program's scores of dense rows float32[n, d], in its type."""
        return scores(ServedTrees(self.forest, np.zeros(0)), rows, self.rules)

    def to_text(self) -> bytes:
        """Return LightGBM's text of the same trees, which adds up in float64."""
        forest, rules = self.forest, self.rules
        # LightGBM's values go left if they are at most the threshold, and features are float32.
        with np.errstate(over="ignore"):  # below the least float32 number lies -inf
            sums = forest.threshold.astype(rules.values) + rules.values(rules.slack)
            threshold: Any = sums.astype(np.float64)
            if rules.strict:
                single = threshold.astype(np.float32)
                next_lower = np.nextafter(single, -np.inf)
                threshold = np.where(single < threshold, single, next_lower).astype(np.float64)
        threshold = np.maximum(threshold, LOWEST)
        missing_left = (forest.kind & NAN_LEFT) != 0
        if rules.missing is not None:
            missing_left = rules.missing <= threshold
        return plain_text(self.names, forest, threshold, missing_left)


class _Columns(dict[str, int]):
    """The columns of the features that a file lists."""

    def __missing__(self, name: str) -> int:
        raise ModelError(f"a tree splits on {name!r}, which is not among its features")


def read_trees(
    names: Sequence[str],
    roots: Sequence[Any],
    parse: Callable[[Mapping[str, int], Any], Split | float],
    rules: Rules,
    *,
    weights: Sequence[float] | None = None,
) -> TreeFile:
    """Check all nodes of a file and convert them to arrays.

    Args:
        roots: the trees.
        parse: function that takes the column of each name, and a node of the file.
        weights: factor of each tree's leaves, in the type of the leaves.

    Raises:
        ModelError: a tree is damaged, too deep, or has a number that is not finite.
    """
    check_names(names)
    refuse(not roots, "it has no trees")
    columns = _Columns({name: column for column, name in enumerate(names)})
    # Each node has its feature, threshold, kind, tree, and children, from `_LEFT` on.
    nodes, leaves, first_nodes = list[list[float]](), list[float](), list[int]()
    for tree, (root, weight) in enumerate(zip(roots, weights or [1.0] * len(roots), strict=True)):
        try:
            # List parents before their children.
            unvisited: list[tuple[Any, int, int, int]] = [(root, -1, 0, 1)]
            while unvisited:
                node, parent, child_field, depth = unvisited.pop()
                refuse(depth > MAX_DEPTH, f"tree {tree} is deeper than {MAX_DEPTH:,}")
                refuse(len(nodes) > _MOST_NODES, "its trees are too large")
                split = parse(columns, node)
                if isinstance(split, Split):
                    number, kind = len(nodes), NAN_LEFT * split.missing_left
                    nodes.append([split.feature, split.threshold, kind, tree, 0, 0])
                    unvisited += [
                        (split.right, number, _RIGHT, depth + 1),
                        (split.left, number, _LEFT, depth + 1),
                    ]
                else:
                    number, leaf = ~len(leaves), float(rules.leaves(split) * rules.leaves(weight))
                    is_infinite = not abs(leaf) <= LARGEST_SCORE
                    refuse(is_infinite, f"tree {tree} has a leaf that is not finite")
                    leaves.append(leaf)
                if parent < 0:
                    first_nodes.append(number)
                else:
                    nodes[parent][child_field] = number
        except ModelError:
            raise
        except DAMAGE as error:
            lack = "a node has no " if isinstance(error, KeyError) else ""
            raise ModelError(f"tree {tree} is damaged: {lack}{error}") from None
    table = np.array(nodes, np.float64).reshape(-1, _RIGHT + 1).T
    keys = "feature", "threshold", "kind", "tree", "left", "right"
    by_key: dict[str, Any] = dict(zip(keys, table, strict=True))
    forest = make_forest(value=leaves, roots=first_nodes, **by_key)
    return TreeFile(tuple(names), forest, rules)
