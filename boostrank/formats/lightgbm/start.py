"""Start in LightGBM text: functions of single features as the first trees, a tree a feature. They count as no rounds.

A function in steps is an ordinary tree (`formats.steps`). Version 0.1.0 had functions that are straight in pieces, as
leaves that hold a linear function, with counts of 0; they are read, averaged and written as they were. Such a function
of one piece needs no split: where LightGBM finds a missing value in a linear leaf, it takes the leaf's own value. A
linear leaf for all features would not do, since there one missing value anywhere takes the leaf's value for the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.formats.base import LinearStart, engine_names
from boostrank.formats.lightgbm.parser import Tree
from boostrank.formats.steps import NOTHING, StepTree, split
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
    numbered = [(number, feature, curve) for number, (feature, curve) in enumerate(curves.items())]
    return [_lines(*one) if one[-1].documents is None else _steps(*one) for one in numbered]


def _steps(number: int, feature: int, curve: Curve) -> str:
    tree = StepTree.of(curve)
    return _text(
        number, feature, tree.bounds, tree.left, tree.right,
        {"leaf_value": tree.leaf, "leaf_weight": tree.documents, "leaf_count": tree.documents,
         "internal_value": tree.node, "internal_weight": tree.below, "internal_count": tree.below, "is_linear": [0]},
    )  # fmt: skip


def _lines(number: int, feature: int, curve: Curve) -> str:
    constant, slope = curve.constant.tolist(), curve.slope.tolist()
    bounds: list[float] = []
    left: list[int] = []
    right: list[int] = []
    if len(slope) > 1 or slope[0] == 0.0:
        bounds, left, right = split(curve.bounds)
        constant, slope = [curve.missing, *constant], [0.0, *slope]
    # A level piece has no feature, so that it is level at infinity too. A tree of one leaf has one.
    level = [len(left) > 0 and s == 0.0 for s in slope]
    at_nodes, at_leaves = [0] * len(left), [0] * len(slope)
    return _text(
        number, feature, bounds, left, right,
        {"leaf_value": [curve.missing] * len(slope), "leaf_weight": at_leaves, "leaf_count": at_leaves,
         "internal_value": at_nodes, "internal_weight": at_nodes, "internal_count": at_nodes, "is_linear": [1],
         "leaf_const": constant, "num_features": [0 if flat else 1 for flat in level],
         "leaf_features": [feature for flat in level if not flat],
         "leaf_coeff": [s for s, flat in zip(slope, level, strict=True) if not flat]},
    )  # fmt: skip


def _text(
    number: int, feature: int, bounds: list[float], left: list[int], right: list[int], rest: dict[str, list[Any]]
) -> str:
    nodes = len(left)
    fields: dict[str, list[Any]] = {
        "num_leaves": [len(rest["leaf_value"])], "num_cat": [0], "split_feature": [feature] * nodes,
        "split_gain": [0] * nodes, "threshold": [LOWEST, *bounds][:nodes],
        "decision_type": [_MISSING_LEFT, *[_MISSING_RIGHT] * (nodes - 1)][:nodes], "left_child": left,
        "right_child": right, **rest, "shrinkage": [1],
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

    if not tree.linear:
        values, documents = numbers(b"leaf_value"), numbers(b"leaf_count")
        bounds = np.sort(numbers(b"threshold")[1:])
        children = [numbers(name, int).tolist() for name in (b"left_child", b"right_child")]
        in_order, *expected = split(bounds)
        if children != expected or numbers(b"threshold")[1:].tolist() != in_order:
            raise ValueError
        steps = Curve.steps(bounds, values[1:], float(values[0]))
        return int(numbers(b"split_feature", int)[0]), replace(steps, documents=np.roll(documents, -1))
    constant, missing = numbers(b"leaf_const"), float(numbers(b"leaf_value")[0])
    slope = np.zeros(constant.size)
    slope[numbers(b"num_features", int) > 0] = numbers(b"leaf_coeff")
    if constant.size == 1:
        (feature,) = numbers(b"leaf_features", int).tolist()
        return feature, Curve.line(float(slope[0]), float(constant[0]), missing)
    threshold = numbers(b"threshold")
    order = np.argsort(threshold, kind="stable")
    return int(numbers(b"split_feature", int)[0]), Curve(threshold[order[1:]], constant[1:], slope[1:], missing)
