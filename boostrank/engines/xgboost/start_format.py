"""Start in XGBoost's JSON: functions of single features as the first trees, a tree a feature, with constant leaves.

To XGBoost each is a round; to us they are none, and the attribute `boostrank_start` says how many there are. XGBoost
compares in float32 and by `<`: a bound, which is no float32 number, becomes the float32 number above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.engines.model_format import refuse
from boostrank.engines.steps import StepTree, just_above
from boostrank.kernels.trees.curves import Curve, combined, rounded_down

ATTRIBUTE = "boostrank_start"
_LOWEST = float(np.finfo(np.float32).min)
_ROOT = 2**31 - 1  # the parent of a root


def write_start(curves: Mapping[int, Curve], n_features: int) -> list[dict[str, Any]]:
    """The tree of each function, numbered from 0."""
    return [_tree(number, feature, curve, n_features) for number, (feature, curve) in enumerate(curves.items())]


def _tree(number: int, feature: int, curve: Curve, n_features: int) -> dict[str, Any]:
    tree = StepTree.of(curve)
    bounds = [_LOWEST, *np.nextafter(rounded_down(np.array(tree.bounds)), np.float32(np.inf)).tolist()]
    # XGBoost takes for granted that a right child is next to the left one.
    nodes = 1 + 2 * len(tree.left)
    left, right, parents = [-1] * nodes, [-1] * nodes, [_ROOT] * nodes
    value, documents, condition = ([0.0] * nodes for _ in range(3))
    place, last = {0: 0}, 0
    for node, children in enumerate(zip(tree.left, tree.right, strict=True)):
        at = place.pop(node)
        value[at], documents[at], condition[at] = tree.node[node], tree.below[node], bounds[node]
        left[at], right[at] = last + 1, last + 2
        for child in children:
            last += 1
            parents[last] = at
            if child < 0:
                value[last] = condition[last] = tree.leaf[~child]
                documents[last] = tree.documents[~child]
            else:
                place[child] = last
    return {
        "base_weights": _float32(value), "categories": [], "categories_nodes": [], "categories_segments": [],
        "categories_sizes": [], "default_left": [1] + [0] * (nodes - 1), "id": number, "left_children": left,
        "loss_changes": [0.0] * nodes, "parents": parents, "right_children": right,
        "split_conditions": _float32(condition), "split_indices": [feature if child > 0 else 0 for child in left],
        "split_type": [0] * nodes, "sum_hessian": _float32(documents),
        "tree_param": {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(nodes),
                       "size_leaf_vector": "1"},
    }  # fmt: skip


def _float32(values: Sequence[float]) -> Any:
    """As XGBoost keeps them.

    Raises:
        ModelError: it cannot.
    """
    with np.errstate(over="ignore"):
        kept = np.array(values, dtype=np.float32).astype(np.float64)
    refuse(~np.isfinite(kept), "the start leaves the range of float32 numbers, which XGBoost adds up")
    return kept.tolist()


def start_trees(trees: Sequence[Mapping[str, Any]]) -> int:
    """How many of the first trees are those of a start.

    Args:
        trees: whose structure has been checked.
    """
    return next((number for number, tree in enumerate(trees) if not _is_start(tree)), len(trees))


def _is_start(tree: Mapping[str, Any]) -> bool:
    """Whether steps behind a split below all numbers gained nothing."""
    left, right, condition = tree["left_children"], tree["right_children"], tree["split_conditions"]
    if left[0] < 0 or left[left[0]] >= 0 or float(np.float32(condition[0])) != _LOWEST or any(tree["loss_changes"]):
        return False
    nodes, _ = _in_order(left, right)
    bounds = [condition[node] for node in nodes]
    one = {tree["split_indices"][node] for node in nodes} == {tree["split_indices"][0]}
    return one and bounds == sorted(set(bounds)) and not tree.get("categories_nodes")


def read_start(trees: Sequence[Mapping[str, Any]]) -> dict[int, Curve]:
    """Feature -> what the trees of a start add."""
    curves: dict[int, Curve] = {}
    for tree in trees:
        nodes, leaves = _in_order(tree["left_children"], tree["right_children"])
        conditions = np.array(_float32(tree["split_conditions"]))
        documents = np.array(tree["sum_hessian"], dtype=np.float64)
        levels = conditions[leaves]
        below = np.nextafter(conditions[nodes[1:]].astype(np.float32), np.float32(-np.inf))
        steps = Curve.steps(just_above(below), levels[1:], float(levels[0]))
        curve = replace(steps, documents=np.roll(documents[leaves], -1))
        feature = int(tree["split_indices"][0])
        curves[feature] = combined([curves[feature], curve], [1.0, 1.0]) if feature in curves else curve
    return curves


def _in_order(left: Sequence[int], right: Sequence[int]) -> tuple[list[int], list[int]]:
    """Nodes, and leaves, from left to right."""
    nodes: list[int] = []
    leaves: list[int] = []
    above: list[int] = []
    at = 0
    while True:
        while left[at] >= 0:
            above.append(at)
            at = left[at]
        leaves.append(at)
        if not above:
            return nodes, leaves
        nodes.append(above.pop())
        at = right[nodes[-1]]
