"""Linear start in LightGBM text: functions of single features as the first trees, a tree a feature, with linear leaves.

LightGBM's text knows leaves that hold a linear function; a leaf is a piece. What is missing goes to a leaf of its own:
left of a first split below all numbers. A function of one piece needs no split: where LightGBM finds a missing value
in a linear leaf, it takes the leaf's own value. A model with a linear leaf for all features would not do, since there
one missing value anywhere takes the leaf's value for the whole. Leaves and nodes with a count of 0 tell such a tree
from those that were grown. They count as no rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.formats.base import LinearStart, engine_names
from boostrank.formats.lightgbm.parser import Tree
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
    trees = write_start(start.curves or {0: Curve.line(0.0, 0.0, 0.0)})
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
    nodes: list[list[Any]] = []  # threshold, left and right child of each
    constant, slope = curve.constant.tolist(), curve.slope.tolist()
    if len(slope) > 1 or slope[0] == 0.0:
        # Leaf 0 is what is missing; leaf i + 1 is piece i.
        constant, slope = [curve.missing, *constant], [0.0, *slope]
        nodes.append([LOWEST, ~0, None])
        nodes[0][2] = _split(curve.bounds.tolist(), 0, nodes)
    # A level piece has no feature, so that it is level at infinity too. A tree of one leaf has one.
    level = [len(nodes) > 0 and s == 0.0 for s in slope]
    at_nodes, at_leaves = [0] * len(nodes), [0] * len(slope)
    fields = {
        "num_leaves": [len(slope)], "num_cat": [0], "split_feature": [feature] * len(nodes), "split_gain": at_nodes,
        "threshold": [node[0] for node in nodes],
        "decision_type": [_MISSING_LEFT if i == 0 else _MISSING_RIGHT for i in range(len(nodes))],
        "left_child": [node[1] for node in nodes], "right_child": [node[2] for node in nodes],
        "leaf_value": [curve.missing] * len(slope), "leaf_weight": at_leaves, "leaf_count": at_leaves,
        "internal_value": at_nodes, "internal_weight": at_nodes, "internal_count": at_nodes, "is_linear": [1],
        "leaf_const": constant, "num_features": [0 if flat else 1 for flat in level],
        "leaf_features": [feature for flat in level if not flat],
        "leaf_coeff": [s for s, flat in zip(slope, level, strict=True) if not flat], "shrinkage": [1],
    }  # fmt: skip
    lines = [f"{name}={' '.join(map(repr, values))}" for name, values in fields.items()]
    return "\n".join([f"Tree={number}", *lines, "", "", ""])


def _split(bounds: list[float], first: int, nodes: list[list[Any]]) -> int:
    """Add the nodes below which the pieces between these bounds are, and return the child that leads there."""
    if not bounds:
        return ~(first + 1)
    number, middle = len(nodes), len(bounds) // 2
    nodes.append([bounds[middle], None, None])
    nodes[number][1] = _split(bounds[:middle], first, nodes)
    nodes[number][2] = _split(bounds[middle + 1 :], first + middle + 1, nodes)
    return number


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
            raise ModelError(
                f"tree {tree.number} is no function of one feature, though no document is in it"
            ) from error
        curves[feature] = combined([curves[feature], curve], [1.0, 1.0]) if feature in curves else curve
    return curves


def _read(tree: Tree) -> tuple[int, Curve]:
    def numbers(name: bytes, kind: type = float) -> Any:
        return np.array(tree.words(name), dtype=np.float64).astype(kind)

    constant, missing = numbers(b"leaf_const"), float(numbers(b"leaf_value")[0])
    slope = np.zeros(constant.size)
    slope[numbers(b"num_features", int) > 0] = numbers(b"leaf_coeff")
    if constant.size == 1:
        (feature,) = numbers(b"leaf_features", int).tolist()
        return feature, Curve.line(float(slope[0]), float(constant[0]), missing)
    threshold = numbers(b"threshold")
    order = np.argsort(threshold, kind="stable")
    return int(numbers(b"split_feature", int)[0]), Curve(threshold[order[1:]], constant[1:], slope[1:], missing)


def mean_start(starts: Sequence[Mapping[int, Curve]]) -> dict[int, Curve]:
    """The start whose scores are the mean of those of several."""
    nothing, share = Curve.line(0.0, 0.0, 0.0), 1.0 / len(starts)
    return {
        feature: combined([start.get(feature, nothing) for start in starts], [share] * len(starts))
        for feature in sorted({feature for start in starts for feature in start})
    }
