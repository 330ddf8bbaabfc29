"""Trees of a model as arrays, as its file has them: for walking them here, and for what they say of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
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
        cls, forest: Forest, gain: Float64Array, n_features: int, *, also_used: Sequence[Int64Array] = (),
        why_not: str = "", double: bool = False,
    ) -> Trees:  # fmt: skip
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
