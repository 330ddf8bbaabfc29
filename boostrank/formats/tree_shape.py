"""Whether arrays of node numbers describe trees: what both engines' model checks share."""

from __future__ import annotations

import numpy as np

from boostrank.core.types import Int64Array

# The engines walk a tree by recursion, and their SHAP code allocates depth^2 numbers: deeper trees exhaust the stack.
MAX_DEPTH = 4096


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
