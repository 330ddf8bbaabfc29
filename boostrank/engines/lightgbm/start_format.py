"""Start in LightGBM text: functions of single features, in steps, as the first trees, which count as no rounds.

There is a tree a feature (`formats.steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.engines.lightgbm.model_text import Tree
from boostrank.engines.model_format import LinearStart, engine_names
from boostrank.engines.steps import NOTHING, StepTree, split
from boostrank.kernels.trees.curves import LOWEST, Curve, combined

_HEAD = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx={last}
objective=lambdarank
feature_names={names}
feature_infos={infos}
tree_sizes={sizes}

"""
_TAIL = """end of trees

feature_importances:

parameters:
[boosting: gbdt]

end of parameters

pandas_categorical:null
"""
# A number at or below the threshold, or none, to the left; numbers only; LightGBM's bits.
_MISSING_LEFT, _MISSING_RIGHT = 10, 8


def start_text(start: LinearStart) -> str:
    """LightGBM's model text of a start: at least one tree."""
    trees = write_start(start.curves or {0: NOTHING})
    columns = len(start.feature_names)
    head = _HEAD.format(
        last=columns - 1,
        names=" ".join(engine_names(start.feature_names)),
        infos=" ".join(["none"] * columns),
        sizes=" ".join(str(len(tree)) for tree in trees),
    )
    return head + "".join(trees) + _TAIL


def write_start(curves: Mapping[int, Curve]) -> list[str]:
    """The text of the tree of each function."""
    return [_tree(number, feature, curve) for number, (feature, curve) in enumerate(curves.items())]


def _tree(number: int, feature: int, curve: Curve) -> str:
    tree = StepTree.of(curve)
    nodes = len(tree.left)
    fields: dict[str, list[Any]] = {
        "num_leaves": [len(tree.leaf)], "num_cat": [0], "split_feature": [feature] * nodes, "split_gain": [0] * nodes,
        "threshold": [LOWEST, *tree.bounds], "decision_type": [_MISSING_LEFT, *[_MISSING_RIGHT] * (nodes - 1)],
        "left_child": tree.left, "right_child": tree.right, "leaf_value": tree.leaf, "leaf_weight": tree.documents,
        "leaf_count": tree.documents, "internal_value": tree.node, "internal_weight": tree.below,
        "internal_count": tree.below, "is_linear": [0], "shrinkage": [1],
    }  # fmt: skip
    lines = [f"{name}={' '.join(map(repr, values))}" for name, values in fields.items()]
    return "\n".join([f"Tree={number}", *lines, "", "", ""])


def read_start(trees: Iterable[Tree]) -> dict[int, Curve]:
    """Feature -> what the trees of a start add.

    Raises:
        ModelError: a tree that only looks like one.
    """
    curves: dict[int, Curve] = {}
    for tree in trees:
        try:
            feature, curve = _read(tree)
        except (ValueError, IndexError) as error:
            raise ModelError(f"tree {tree.number} is no function of one feature, though it begins as one") from error
        curves[feature] = combined([curves[feature], curve], [1.0, 1.0]) if feature in curves else curve
    return curves


def _read(tree: Tree) -> tuple[int, Curve]:
    def numbers(name: bytes, kind: type = float) -> Any:
        return np.array(tree.words(name), dtype=np.float64).astype(kind)

    values, documents = numbers(b"leaf_value"), numbers(b"leaf_count")
    bounds = np.sort(numbers(b"threshold")[1:])
    children = [numbers(name, int).tolist() for name in (b"left_child", b"right_child")]
    in_order, *expected = split(bounds)
    if children != expected or numbers(b"threshold")[1:].tolist() != in_order:
        raise ValueError
    steps = Curve.steps(bounds, values[1:], float(values[0]))
    return int(numbers(b"split_feature", int)[0]), replace(steps, documents=np.roll(documents, -1))
