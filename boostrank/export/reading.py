"""Scores of trees under the rules of a program: its number types, comparison and treatment of missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Int64Array
from boostrank.engines.trees import ServedTrees
from boostrank.kernels.curves import ZERO
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING, Forest

# Rows walked together, so that they stay in the cache.
_CHUNK = 4096


@dataclass(frozen=True)
class Rules:
    """Rules by which a program computes scores; the defaults are LightGBM's.

    Args:
        values: type of feature values; thresholds are rounded to it too.
        strict: go left if value < threshold, instead of value <= threshold.
        slack: number added to thresholds, in the type of values.
        missing: number that replaces missing values; None: each split has a direction for them.
        leaves: type to which leaves are rounded.
        sums: type in which leaves are summed.
        equal_categories: match a category only if the value equals it; otherwise truncate the value first.
    """

    values: type[np.floating[Any]] = np.float64
    strict: bool = False
    slack: float = 0.0
    missing: float | None = None
    leaves: type[np.floating[Any]] = np.float64
    sums: type[np.floating[Any]] = np.float64
    equal_categories: bool = False

    @classmethod
    def of(cls, trees: ServedTrees) -> Rules:
        """Return the rules of the engine that trained the trees."""
        return cls(np.float32, leaves=np.float32, sums=np.float32) if trees.single else cls()


def leaves(forest: Forest, rows: npt.NDArray[Any], rules: Rules, trees: slice = slice(None)) -> Int64Array:
    """Return the leaf that each row, float[n, d], reaches in each tree, int64[n, T]."""
    with np.errstate(over="ignore"):
        rows = rows.astype(rules.values)
        # Add the slack in the type of values: programs round this sum before they compare.
        threshold = forest.threshold.astype(rules.values) + rules.values(rules.slack)
    if rules.missing is not None:
        rows = np.where(np.isnan(rows), rules.values(rules.missing), rows)
    nan_left, zero, listed = ((forest.kind & bit) != 0 for bit in (NAN_LEFT, ZERO_IS_MISSING, LISTED_RIGHT))
    categorical = (forest.kind & CATEGORICAL) != 0
    roots = forest.roots[trees]
    reached = np.empty((len(rows), roots.size), np.int64)
    # Walk all rows down one tree together, a level at a time, until each has reached a leaf.
    for number, root in enumerate(roots):
        at = np.full(len(rows), root, np.int64)
        walking = np.flatnonzero(at >= 0)
        while walking.size:
            node = at[walking]
            value = rows[walking, forest.feature[node]]
            absent = np.isnan(value) | (zero[node] & (np.abs(value) <= ZERO))
            below = value < threshold[node] if rules.strict else value <= threshold[node]
            left = np.where(absent, nan_left[node], below)
            if categorical.any():
                sets = np.flatnonzero(categorical[node])
                inside = _listed(forest, forest.threshold[node[sets]].astype(np.int64), value[sets])
                if rules.equal_categories:
                    inside &= value[sets] == np.floor(value[sets])
                inside &= ~(listed[node[sets]] & (value[sets] < 0.0))  # XGBoost does not truncate -0.5 to 0
                # A missing category has a direction in XGBoost; in LightGBM it counts as not listed.
                known = np.where(listed[node[sets]], ~inside, inside)
                left[sets] = np.where(np.isnan(value[sets]), nan_left[node[sets]], known)
            at[walking] = np.where(left, forest.left[node], forest.right[node])
            walking = walking[at[walking] >= 0]
        reached[:, number] = ~at
    return reached


def _listed(forest: Forest, of_set: Int64Array, value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return whether each value is in its set of categories."""
    sizes = 32 * np.diff(forest.set_ptr)
    whole = np.where((value > -1.0) & (value < 2.0**24), value, -1.0).astype(np.int64)
    inside = (whole >= 0) & (whole < sizes[of_set])
    word = np.where(inside, forest.set_ptr[:-1][of_set] + whole // 32, 0)
    return np.asarray(inside & ((forest.sets[word] >> (whole % 32).astype(np.uint32)) & 1).astype(bool))


def scores(trees: ServedTrees, rows: npt.NDArray[Any], rules: Rules) -> npt.NDArray[Any]:
    """Return scores [n] of type `rules.sums`: `base` plus the leaves, in the order of the trees."""
    total = np.full(len(rows), rules.sums(trees.base))
    value = trees.forest.value.astype(rules.leaves).astype(rules.sums)
    for begin in range(0, len(rows), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        for leaf in leaves(trees.forest, rows[part], rules).T:
            total[part] += value[leaf]
    return total


@dataclass(frozen=True)
class Split:
    """Split of an exported file.

    Args:
        feature: column.
        test: threshold, or the categories that go left.
        missing_left: whether missing values go left.
        left, right: child nodes, in the form of the file.
    """

    feature: int
    test: float | Sequence[int]
    missing_left: bool
    left: Any
    right: Any


def read_trees(roots: Iterable[Any], split_or_leaf: Callable[[Any], Split | float]) -> ServedTrees:
    """Read nested trees of an exported file back into arrays.

    Args:
        split_or_leaf: function that parses a node into a `Split` or the value of a leaf.
    """
    splits: list[Split] = []
    value: list[float] = []
    owner: list[int] = []
    children: list[list[int]] = [[], []]
    starts: list[int] = []
    sets: list[npt.NDArray[np.uint32]] = []
    # Number splits and leaves depth first; a child's place is filled in when it is visited.
    for number, root in enumerate(roots):
        waiting: list[tuple[Any, list[int], int]] = [(root, starts, number)]
        starts.append(0)
        while waiting:
            node, parents, place = waiting.pop()
            found = split_or_leaf(node)
            if isinstance(found, Split):
                parents[place] = at = len(splits)
                splits.append(found)
                owner.append(number)
                for side, child in zip(children, (found.left, found.right), strict=True):
                    side.append(0)
                    waiting.append((child, side, at))
            else:
                parents[place] = ~len(value)
                value.append(found)
    # Thresholds as numbers, or as indices of bit sets of categories.
    threshold, kind = np.zeros(len(splits)), np.zeros(len(splits), np.uint8)
    for at, one in enumerate(splits):
        kind[at] = NAN_LEFT * one.missing_left
        if isinstance(one.test, float):
            threshold[at] = one.test
            continue
        bits = np.zeros(32 * (1 + max(one.test, default=0) // 32), bool)
        bits[list(one.test)] = True
        kind[at] |= CATEGORICAL
        threshold[at] = len(sets)
        sets.append(np.packbits(bits, bitorder="little").view("<u4"))
    forest = Forest(
        feature=np.array([one.feature for one in splits], np.int32),
        threshold=threshold,
        kind=kind,
        left=np.array(children[0], np.int32),
        right=np.array(children[1], np.int32),
        value=np.array(value, np.float64),
        roots=np.array(starts, np.int32),
        tree=np.array(owner, np.int32),
        sets=np.concatenate([np.zeros(0, np.uint32), *sets]),
        set_ptr=np.cumsum([0, *(one.size for one in sets)]).astype(np.int64),
    )
    return ServedTrees(forest, np.zeros(len(splits)), np.zeros(len(value)))


def by_rules(
    parse: Callable[[bytes, Sequence[str]], ServedTrees], rules: Rules
) -> Callable[[bytes, Sequence[str]], Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]:
    """Make a `TargetSpec.read` for a program that cannot run here."""

    def read(body: bytes, feature_names: Sequence[str]) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        trees = parse(body, feature_names)

        def score(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
            with np.errstate(over="ignore", invalid="ignore"):
                return scores(trees, rows, rules)

        return score

    return read
