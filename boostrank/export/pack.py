"""Parity pack: rows that reveal whether two readers of a model give different scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float32Array, Float64Array
from boostrank.engines.trees import depths
from boostrank.export.target import above, cuts
from boostrank.kernels.forest import LISTED_RIGHT, Forest

KINDS = ("thresholds", "random", "zeros", "missing", "infinite", "categories")
"""Kinds of rows in a pack; `allow` takes these names."""

# Zeros to LightGBM, and subnormal float32 numbers.
_SMALL = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-40, -1e-40, 2e-35, -2e-35], np.float32)
# Maximum number of values in a pack: 256 MB.
_MOST_CELLS = 2**26
# Maximum number of category checks (categories times splits above a node): about twenty seconds.
_MOST_WORK = 2**34
_RANDOM = 1000
_LARGEST = 1e30
# Codes that may be unseen or invalid. They are integers because programs truncate 2.7 differently.
_NO_CATEGORIES = np.array([0, 1, 5, -1, -7, 63, 64, 1e6, 3e9, np.nan], np.float32)


@dataclass(frozen=True, eq=False)
class Pack:
    """Rows of a parity pack.

    Args:
        rows: float32[n, d].
        kind: int8[n], index into `KINDS`.
        nodes: number of splits that the rows cross on both sides.
        of_nodes: number of splits of the model.
    """

    rows: Float32Array
    kind: npt.NDArray[np.int8]
    nodes: int
    of_nodes: int

    def without(self, kind: str) -> Pack:
        """Return the pack without the rows of one kind."""
        others = self.kind != KINDS.index(kind)
        return replace(self, rows=self.rows[others], kind=self.kind[others])


def parity_pack(forest: Forest, n_features: int, most_rows: int, resolution: Float64Array | None = None) -> Pack:
    """Return two rows for each split, just left and just right of its threshold, and random rows of each kind.

    Args:
        forest: trees, without a separate start.
        n_features: d.
        most_rows: maximum number of rows; 256 MB is a limit too. Larger models are sampled, always in the same way.
        resolution: float64[M], minimum distance of the rows from each threshold; None: 0.
    """
    rng = np.random.default_rng(0)
    values = _Values(forest, n_features, rng, np.zeros(forest.feature.size) if resolution is None else resolution)
    most = max(64, min(most_rows, _MOST_CELLS // n_features))
    some = min(_RANDOM, most // 16)
    nodes = np.arange(forest.feature.size)
    room = min((most - (len(KINDS) - 1) * some) // 3, max(1, _MOST_WORK // values.work_of_a_node))
    if nodes.size > room:
        nodes = np.sort(rng.choice(nodes, room, replace=False))
    # Rows at the thresholds: two sides and a missing value for each node.
    borders = values.draw(3 * nodes.size)
    for i, node in enumerate(nodes.tolist()):
        values.reach(borders[3 * i : 3 * i + 3], node)
    kind = np.tile(np.array([0, 0, KINDS.index("missing")], np.int8), nodes.size)
    kind[np.isinf(borders).any(axis=1)] = KINDS.index("infinite")
    # Random rows; the later kinds replace some values by zeros, NaN, infinities or unseen categories.
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
    """Values of features near the thresholds of a forest."""

    def __init__(self, forest: Forest, n_features: int, rng: np.random.Generator, resolution: Float64Array) -> None:
        self._forest, self._rng = forest, rng
        cut = np.nan_to_num(cuts(forest), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        # Values beyond 1e30 stand for infinity, which text files cannot spell.
        self._left = np.minimum(cut.astype(np.float64) - resolution, _LARGEST).astype(np.float32)
        self._right = np.maximum(above(cut).astype(np.float64) + resolution, -_LARGEST).astype(np.float32)
        self.categorical = np.zeros(n_features, bool)
        self.categorical[forest.feature[forest.categorical]] = True
        # Nodes of each feature.
        by_feature = np.argsort(forest.feature, kind="stable")
        ends = np.searchsorted(forest.feature[by_feature], np.arange(n_features + 1))
        self._of = [by_feature[a:b] for a, b in pairwise(ends)]
        # Parent of each node, times 2, plus 1 for a right child; -1 for a root.
        self._parent = np.full(forest.feature.size, -1, np.int64)
        for side, child in enumerate((forest.left, forest.right)):
            inner = np.flatnonzero(child >= 0)
            self._parent[child[inner]] = 2 * inner + side
        self._any = np.ones(2 + 32 * int(np.diff(forest.set_ptr).max(initial=0)), bool)

    @property
    def work_of_a_node(self) -> int:
        """Return the maximum number of categories checked to reach a node."""
        above = np.where(self._parent >= 0, self._parent // 2, np.arange(self._parent.size))
        return 1 + self._any.size * int(depths(above).max(initial=0)) if bool(self.categorical.any()) else 1

    def draw(self, n: int) -> Float32Array:
        """Return float32[n, d]: values at, right above and near thresholds; known categories."""
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
        """Change three rows in place: they reach a node and go left, right, and with a missing value there."""
        forest = self._forest
        # Walk up to the root and collect the bounds and categories that each ancestor allows.
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
        """Return which categories go left at a categorical split, bool[categories]."""
        left = np.full(self._any.size, bool(self._forest.kind[node] & LISTED_RIGHT))
        listed = self._forest.categories(int(self._forest.threshold[node]))
        left[listed] = ~left[listed]
        return left

    def _one_of(self, categories: npt.NDArray[np.bool_]) -> float:
        found = np.flatnonzero(categories)
        return float(self._rng.choice(found)) if found.size else 0.0
