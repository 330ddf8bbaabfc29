"""Parity pack: rows at which programs that read the same model come to other scores, if they do anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float32Array, Float64Array
from boostrank.engines.trees import depths
from boostrank.export.target import above, cuts
from boostrank.kernels.trees.walker import LISTED_RIGHT, Forest

KINDS = ("thresholds", "random", "zeros", "missing", "infinite", "categories")
"""What rows of a pack look for, and what `allow` can name."""

# Numbers that count as zero to LightGBM, or are no normal float32 numbers.
_SMALL = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-40, -1e-40, 2e-35, -2e-35], np.float32)
# Values of all features together: 256 MB.
_MOST_CELLS = 2**26
# Categories, times splits above a node, that are looked through for all nodes together: some twenty seconds.
_MOST_WORK = 2**34
_RANDOM = 1000
_LARGEST = 1e30
# Codes that may not have been seen, and some that are none. They are whole: no two programs cut 2.7 alike.
_NO_CATEGORIES = np.array([0, 1, 5, -1, -7, 63, 64, 1e6, 3e9, np.nan], np.float32)


@dataclass(frozen=True, eq=False)
class Pack:
    """Rows, and what each looks for.

    Args:
        rows: float32[n, d].
        kind: int8[n], as numbered in `KINDS`.
        nodes: how many splits the rows at thresholds pass on both sides, of
        of_nodes: how many there are.
    """

    rows: Float32Array
    kind: npt.NDArray[np.int8]
    nodes: int
    of_nodes: int

    def without(self, kind: str) -> Pack:
        """The rows of other kinds."""
        others = self.kind != KINDS.index(kind)
        return replace(self, rows=self.rows[others], kind=self.kind[others])


def parity_pack(forest: Forest, n_features: int, most_rows: int, resolution: Float64Array | None = None) -> Pack:
    """Two rows for each split, that reach it and go left and right at the border; and random ones of each kind.

    Args:
        forest: the trees, without a start beside them.
        n_features: d.
        most_rows: at most so many, and 256 MB: of more splits than that some are drawn. The same model gives the same
            pack.
        resolution: float64[M], rows keep that far from the border of each node; None: they stand at it.
    """
    rng = np.random.default_rng(0)
    values = _Values(forest, n_features, rng, np.zeros(forest.feature.size) if resolution is None else resolution)
    most = max(64, min(most_rows, _MOST_CELLS // n_features))
    some = min(_RANDOM, most // 16)
    nodes = np.arange(forest.feature.size)
    room = min((most - (len(KINDS) - 1) * some) // 3, max(1, _MOST_WORK // values.work_of_a_node))
    if nodes.size > room:
        nodes = np.sort(rng.choice(nodes, room, replace=False))
    borders = values.draw(3 * nodes.size)
    for i, node in enumerate(nodes.tolist()):
        values.reach(borders[3 * i : 3 * i + 3], node)
    kind = np.tile(np.array([0, 0, KINDS.index("missing")], np.int8), nodes.size)
    kind[np.isinf(borders).any(axis=1)] = KINDS.index("infinite")
    random, zeros, missing, infinite, strange = (values.draw(some) for _ in range(5))
    drawn = rng.random((some, n_features))
    small = _SMALL if resolution is None else _SMALL[_SMALL == 0.0]
    zeros = np.where(drawn < 0.5, rng.choice(small, drawn.shape), zeros)
    missing = np.where(drawn < 0.3, np.float32(np.nan), missing)
    infinite = np.where(drawn < 0.1, rng.choice(np.array([np.inf, -np.inf], np.float32), drawn.shape), infinite)
    strange = np.where(values.categorical, rng.choice(_NO_CATEGORIES, drawn.shape), strange)
    rows = [borders, random, np.where(values.categorical, random, zeros), missing, infinite]
    kinds = [kind, *(np.full(some, number, np.int8) for number in range(1, 5))]
    if values.categorical.any():
        rows.append(strange)
        kinds.append(np.full(some, KINDS.index("categories"), np.int8))
    return Pack(np.concatenate(rows), np.concatenate(kinds), nodes.size, forest.feature.size)


class _Values:
    """Values of features, near the thresholds of a forest.

    Args:
        forest: the trees.
        n_features: d.
        rng: draws them.
        resolution: see `parity_pack`.
    """

    def __init__(self, forest: Forest, n_features: int, rng: np.random.Generator, resolution: Float64Array) -> None:
        self._forest, self._rng = forest, rng
        cut = np.nan_to_num(cuts(forest), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        # Beyond 1e30 numbers stand for infinity, which files of numbers cannot spell.
        self._left = np.minimum(cut.astype(np.float64) - resolution, _LARGEST).astype(np.float32)
        self._right = np.maximum(above(cut).astype(np.float64) + resolution, -_LARGEST).astype(np.float32)
        self.categorical = np.zeros(n_features, bool)
        self.categorical[forest.feature[forest.categorical]] = True
        by_feature = np.argsort(forest.feature, kind="stable")
        ends = np.searchsorted(forest.feature[by_feature], np.arange(n_features + 1))
        self._of = [by_feature[a:b] for a, b in pairwise(ends)]
        self._parent = np.full(forest.feature.size, -1, np.int64)
        for side, child in enumerate((forest.left, forest.right)):
            inner = np.flatnonzero(child >= 0)
            self._parent[child[inner]] = 2 * inner + side
        self._any = np.ones(2 + 32 * int(np.diff(forest.set_ptr).max(initial=0)), bool)

    @property
    def work_of_a_node(self) -> int:
        """Categories that are looked through to reach a node, at most."""
        above = np.where(self._parent >= 0, self._parent // 2, np.arange(self._parent.size))
        return 1 + self._any.size * int(depths(above).max(initial=0)) if bool(self.categorical.any()) else 1

    def draw(self, n: int) -> Float32Array:
        """float32[n, d]: at thresholds, right above them, and anywhere near; categories among those that occur."""
        rows = np.empty((n, len(self._of)), np.float32)
        for feature, nodes in enumerate(self._of):
            if self.categorical[feature]:
                rows[:, feature] = self._rng.integers(0, self._any.size, n)
                continue
            nodes = nodes[np.isfinite(self._left[nodes]) & np.isfinite(self._right[nodes])]
            if not nodes.size:
                rows[:, feature] = self._rng.normal(size=n)
                continue
            drawn = self._rng.choice(nodes, n)
            left, right = self._left[drawn], self._right[drawn]
            spread = np.float64(np.std(self._left[nodes], dtype=np.float64)) + abs(float(left[0])) / 16.0 + 1e-6
            with np.errstate(over="ignore"):
                near = (left + self._rng.normal(scale=spread, size=n)).astype(np.float32)
            rows[:, feature] = np.choose(self._rng.integers(0, 3, n), [left, right, near])
        return rows

    def reach(self, rows: Float32Array, node: int) -> None:
        """Change three rows so that they reach a node, and go left, right, and its way of missing values."""
        forest = self._forest
        low: dict[int, np.float32] = {}
        high: dict[int, np.float32] = {}
        allowed: dict[int, npt.NDArray[np.bool_]] = {}
        at = node
        while self._parent[at] >= 0:
            at, right = divmod(int(self._parent[at]), 2)
            feature = int(forest.feature[at])
            if forest.categorical[at]:
                allowed[feature] = allowed.get(feature, self._any) & (self._goes_left(at) != bool(right))
            elif right:
                low[feature] = max(low.get(feature, self._right[at]), self._right[at])
            else:
                high[feature] = min(high.get(feature, self._left[at]), self._left[at])
        for feature in low.keys() | high.keys():
            highest = feature in high and (feature not in low or self._rng.random() < 0.5)
            rows[:, feature] = high[feature] if highest else low[feature]
        for feature, categories in allowed.items():
            rows[:, feature] = self._one_of(categories)
        feature = int(forest.feature[node])
        if forest.categorical[node]:
            left = self._goes_left(node)
            within = allowed.get(feature, self._any)
            rows[0, feature], rows[1, feature] = self._one_of(within & left), self._one_of(within & ~left)
        else:
            rows[0, feature], rows[1, feature] = self._left[node], self._right[node]
        rows[2, feature] = np.nan

    def _goes_left(self, node: int) -> npt.NDArray[np.bool_]:
        """bool[categories], of a split by a set."""
        left = np.full(self._any.size, bool(self._forest.kind[node] & LISTED_RIGHT))
        listed = self._forest.categories(int(self._forest.threshold[node]))
        left[listed] = ~left[listed]
        return left

    def _one_of(self, categories: npt.NDArray[np.bool_]) -> float:
        found = np.flatnonzero(categories)
        return float(self._rng.choice(found)) if found.size else 0.0
