"""Trees of a model as arrays, as its file has them: for walking them here, and for what they say of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.trees.curves import Curves
from boostrank.kernels.trees.walker import CATEGORICAL, Forest

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


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """The trees of a file, one after another; children and sets are counted from the first of their own tree.

    Args:
        nodes, leaves: int64[T], of each tree.
        feature, threshold, kind, left, right, gain: [M], of each node, as in `Forest`.
        value: float64[L], of each leaf.
        sets: uint32[W], as in `Forest`.
        set_sizes: int64[S], words of each set.
        tree_sets: int64[T], sets of each tree.
    """

    nodes: Int64Array
    leaves: Int64Array
    feature: Int64Array
    threshold: Float64Array
    kind: npt.NDArray[np.uint8]
    left: Int64Array
    right: Int64Array
    gain: Float64Array
    value: Float64Array
    sets: npt.NDArray[np.uint32]
    set_sizes: Int64Array
    tree_sets: Int64Array

    @classmethod
    def concatenated(cls, parts: Sequence[TreeArrays]) -> TreeArrays:
        """The trees of several, possibly none."""
        return cls(**{
            name: np.concatenate([np.zeros(0, dtype), *(getattr(part, name) for part in parts)]).astype(dtype)
            for name, dtype in _DTYPES.items()
        })  # fmt: skip

    def joined(
        self, n_features: int, *, start: Curves | None = None, also_used: Int64Array | None = None, why_not: str = "",
        double: bool = False,
    ) -> Trees:  # fmt: skip
        """All of them with numbers of their own.

        Args:
            n_features: of the model.
            start: what every score begins with.
            also_used: features that leaves depend on.
            why_not, double: as in `Trees`.
        """
        first_node, first_leaf = np.cumsum(self.nodes) - self.nodes, np.cumsum(self.leaves) - self.leaves
        first_set = np.cumsum(self.tree_sets) - self.tree_sets
        tree = np.repeat(np.arange(self.nodes.size), self.nodes)

        def shifted(child: Int64Array) -> npt.NDArray[np.int32]:
            return np.where(child >= 0, child + first_node[tree], child - first_leaf[tree]).astype(np.int32)

        forest = Forest(
            feature=self.feature.astype(np.int32),
            threshold=self.threshold + np.where(self.kind & CATEGORICAL, first_set[tree], 0),
            kind=self.kind,
            left=shifted(self.left),
            right=shifted(self.right),
            value=self.value,
            roots=np.where(self.nodes > 0, first_node, ~first_leaf).astype(np.int32),
            tree=tree.astype(np.int32),
            sets=self.sets,
            set_ptr=np.concatenate([[0], np.cumsum(self.set_sizes)]).astype(np.int64),
            start=start,
        )
        # The engines do not count splits without gain (those that were forced).
        counted = self.gain > 0.0
        feature = self.feature[counted]
        used = [self.feature, *([] if start is None else [start.feature]), *([] if also_used is None else [also_used])]
        return Trees(
            forest=None if why_not else forest,
            why_not=why_not,
            count=int(self.nodes.size),
            gain=np.bincount(feature, self.gain[counted], n_features).astype(np.float64),
            splits=np.bincount(feature, minlength=n_features).astype(np.int64),
            used=np.unique(np.concatenate(used)).astype(np.int64),
            double=double,
        )


_DTYPES: dict[str, type[np.generic]] = {
    "nodes": np.int64, "leaves": np.int64, "feature": np.int64, "threshold": np.float64, "kind": np.uint8,
    "left": np.int64, "right": np.int64, "gain": np.float64, "value": np.float64, "sets": np.uint32,
    "set_sizes": np.int64, "tree_sets": np.int64,
}  # fmt: skip


def depths(parent: Int64Array) -> Int64Array:
    """Steps from each node to its root.

    Doubles the known part of every path at a time, so a chain or a cycle costs no more than a bushy tree.

    Args:
        parent: int64[n], the parent of each node, in range; a root is its own parent. Many trees may share the array.

    Returns:
        int64[n]; -1 for a node that no root reaches, because it is on a cycle or below one.
    """
    ancestor, steps = parent.copy(), (parent != np.arange(parent.size)).astype(np.int64)
    for _ in range(max(1, int(parent.size).bit_length())):
        steps += steps[ancestor]
        ancestor = ancestor[ancestor]
    # A node that is still under way after more steps than there are nodes goes round in circles.
    return np.where(parent[ancestor] == ancestor, steps, -1)
