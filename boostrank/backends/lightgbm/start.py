"""Functions of single features as the first trees of a LightGBM model: a tree a feature, with linear leaves.

LightGBM's text knows leaves that hold a linear function; a leaf is a piece. What is missing goes to a leaf of its own:
left of a first split below all numbers. A function of one piece needs no split: where LightGBM finds a missing value
in a linear leaf, it takes the leaf's own value. A model with a linear leaf for all features would not do, since there
one missing value anywhere takes the leaf's value for the whole. Leaves and nodes with a count of 0 tell such a tree
from those that were grown. They count as no rounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.backends.base import LinearStart, dense_rows, engine_names
from boostrank.core.types import Float64Array
from boostrank.data.dataset import Features
from boostrank.kernels.trees.curves import LOWEST, Curve, Curves, combined

_FIELDS = (
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count", "is_linear",
    "leaf_const", "num_features", "leaf_features", "leaf_coeff", "shrinkage",
)  # fmt: skip
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
_NEXT_TREE = re.compile(r"^Tree=\d+\n", re.MULTILINE)
# A number at or below the threshold, or none, to the left; numbers only; LightGBM's bits.
_MISSING_LEFT, _MISSING_RIGHT = 10, 8


def start_text(start: LinearStart) -> str:
    """LightGBM's model text of a start: at least one tree."""
    trees = start_trees(start.curves or {0: Curve.line(0.0, 0.0, 0.0)})
    columns = len(start.feature_names)
    head = _HEAD.format(
        last=columns - 1,
        names=" ".join(engine_names(start.feature_names)),
        infos=" ".join(["none"] * columns),
        sizes=" ".join(str(len(tree)) for tree in trees),
    )
    return head + "".join(trees) + _TAIL


def start_trees(curves: Mapping[int, Curve]) -> list[str]:
    """The text of the tree of each function."""
    return [_tree(number, feature, curve) for number, (feature, curve) in enumerate(curves.items())]


def _tree(number: int, feature: int, curve: Curve) -> str:
    fields: dict[str, list[Any]] = {name: [] for name in _FIELDS}
    constant, slope = curve.constant.tolist(), curve.slope.tolist()
    if len(slope) > 1 or slope[0] == 0.0:
        # Leaf 0 is what is missing; leaf i + 1 is piece i.
        constant, slope = [curve.missing, *constant], [0.0, *slope]
        for name, value in (("threshold", LOWEST), ("left_child", ~0), ("right_child", None)):
            fields[name].append(value)
        fields["right_child"][0] = _split(curve.bounds.tolist(), 0, fields)
    nodes = len(fields["threshold"])
    # A level piece has no feature, so that it is level at infinity too. A tree of one leaf has one.
    level = [nodes > 0 and s == 0.0 for s in slope]
    fields |= {
        "num_leaves": [len(slope)], "num_cat": [0], "is_linear": [1], "shrinkage": [1],
        "split_feature": [feature] * nodes, "split_gain": [0] * nodes,
        "decision_type": [_MISSING_LEFT if i == 0 else _MISSING_RIGHT for i in range(nodes)],
        "leaf_value": [curve.missing] * len(slope), "leaf_weight": [0] * len(slope), "leaf_count": [0] * len(slope),
        "internal_value": [0] * nodes, "internal_weight": [0] * nodes, "internal_count": [0] * nodes,
        "leaf_const": constant, "num_features": [0 if flat else 1 for flat in level],
        "leaf_features": [feature for flat in level if not flat],
        "leaf_coeff": [s for s, flat in zip(slope, level, strict=True) if not flat],
    }  # fmt: skip
    lines = [f"{name}={' '.join(map(repr, values))}" for name, values in fields.items()]
    return "\n".join([f"Tree={number}", *lines, "", "", ""])


def _split(bounds: list[float], first: int, fields: dict[str, list[Any]]) -> int:
    """Add the nodes below which the pieces between these bounds are, and return the child that leads there."""
    if not bounds:
        return ~(first + 1)
    node, middle = len(fields["threshold"]), len(bounds) // 2
    for name, value in (("threshold", bounds[middle]), ("left_child", None), ("right_child", None)):
        fields[name].append(value)
    fields["left_child"][node] = _split(bounds[:middle], first, fields)
    fields["right_child"][node] = _split(bounds[middle + 1 :], first + middle + 1, fields)
    return node


def count_start_trees(text: str) -> int:
    """How many trees at the head of a model text are a start's."""
    trees = _NEXT_TREE.split(text)[1:]
    for number, tree in enumerate(trees):
        counts = re.search(r"^leaf_count=([0 ]+)$", tree, re.MULTILINE)
        if "\nis_linear=1\n" not in tree or counts is None:
            return number
    return len(trees)


def read_start(text: str) -> dict[int, Curve]:
    """Feature -> what it adds; nothing where a model text does not begin with a start.

    Raises:
        ValueError: the text only looks like a start's.
    """
    curves: dict[int, Curve] = {}
    for tree in _NEXT_TREE.split(text)[1 : count_start_trees(text) + 1]:
        feature, curve = _read(dict(line.split("=", 1) for line in tree.split("\n") if "=" in line))
        curves[feature] = combined([curves[feature], curve], [1.0, 1.0]) if feature in curves else curve
    return curves


def _read(told: dict[str, str]) -> tuple[int, Curve]:
    def numbers(name: str, kind: type) -> Any:
        return np.array(told[name].split(), dtype=np.float64).astype(kind)

    constant, missing = numbers("leaf_const", float), float(numbers("leaf_value", float)[0])
    slope = np.zeros(constant.size)
    slope[numbers("num_features", int) > 0] = numbers("leaf_coeff", float)
    if constant.size == 1:
        return int(told["leaf_features"]), Curve.line(float(slope[0]), float(constant[0]), missing)
    order = np.argsort(numbers("threshold", float), kind="stable")
    return int(numbers("split_feature", int)[0]), Curve(
        numbers("threshold", float)[order[1:]], constant[1:], slope[1:], missing
    )


def mean_start(starts: Sequence[Mapping[int, Curve]]) -> dict[int, Curve]:
    """The start whose scores are the mean of those of several."""
    nothing, share = Curve.line(0.0, 0.0, 0.0), 1.0 / len(starts)
    return {
        feature: combined([start.get(feature, nothing) for start in starts], [share] * len(starts))
        for feature in sorted({feature for start in starts for feature in start})
    }


def start_contributions(curves: Curves, features: Features) -> Float64Array:
    """What the start adds to each score: float64[N, d + 1], a column a feature, and the intercept.

    Args:
        curves: of `read_start`.
        features: float32[N, d].
    """
    out = np.zeros((features.shape[0], features.shape[1] + 1))
    # What a missing value says is where a feature begins.
    out[:, curves.feature] = curves.values(dense_rows(features, 0, features.shape[0])) - curves.missing
    out[:, -1] = curves.missing.sum()
    return out
