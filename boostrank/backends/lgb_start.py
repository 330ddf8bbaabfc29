"""A linear ranker as the first trees of a LightGBM model: one tree a feature, of a single linear leaf.

LightGBM's text knows leaves that hold a linear function. One leaf with all features would do, but a missing value
anywhere in it makes LightGBM take the leaf's constant for all of it; with a tree a feature it is that feature's mean
which stands for what is missing, as in the linear model. A feature, but a count of 0, in its one leaf tells such a tree
from those that were grown. They count as no rounds.
"""

from __future__ import annotations

import re

import numpy as np

from boostrank.backends.base import LinearStart, dense_rows, engine_names
from boostrank.core.types import Float64Array
from boostrank.data.dataset import Features

_TREE = """Tree={number}
num_leaves=1
num_cat=0
split_feature=
split_gain=
threshold=
decision_type=
left_child=
right_child=
leaf_value={at_missing!r}
leaf_weight=0
leaf_count=0
internal_value=
internal_weight=
internal_count=
is_linear=1
leaf_const={constant!r}
num_features=1
leaf_features={feature}
leaf_coeff={coefficient}
shrinkage=1


"""
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
_OURS = tuple(f"\n{line}\n" for line in ("num_leaves=1", "leaf_count=0", "is_linear=1", "num_features=1"))


def start_text(start: LinearStart) -> str:
    """LightGBM's model text of a linear ranker: a tree for each feature with a weight, at least one."""
    trees = []
    for number, feature in enumerate(np.flatnonzero(start.coefficients).tolist() or [0]):
        base = start.intercept if number == 0 else 0.0
        coefficient = float(start.coefficients[feature])
        constant = base - coefficient * float(start.means[feature])
        trees.append(
            _TREE.format(
                number=number, at_missing=base, constant=constant, feature=feature, coefficient=repr(coefficient)
            )
        )
    columns = len(start.feature_names)
    head = _HEAD.format(
        last=columns - 1,
        names=" ".join(engine_names(start.feature_names)),
        infos=" ".join(["none"] * columns),
        sizes=" ".join(str(len(tree)) for tree in trees),
    )
    return head + "".join(trees) + _TAIL


def count_start_trees(text: str) -> int:
    """How many trees at the head of a model text are a start's."""
    for number, tree in enumerate(_NEXT_TREE.split(text)[1:]):
        if not all(line in f"\n{tree}" for line in _OURS):
            return number
    return text.count("\nTree=")


def start_contributions(text: str, count: int, features: Features) -> Float64Array:
    """What the start adds to each score: float64[N, d + 1], a column a feature, and the intercept.

    Args:
        text: of the model.
        count: its start's trees, at least one.
        features: float32[N, d].
    """
    out = np.zeros((features.shape[0], features.shape[1] + 1))
    rows = dense_rows(features, 0, features.shape[0]).astype(np.float64)
    for tree in _NEXT_TREE.split(text)[1 : count + 1]:
        told = dict(line.split("=", 1) for line in tree.split("\n") if "=" in line)
        out[:, -1] += float(told["leaf_value"])
        feature = int(told["leaf_features"])
        value = float(told["leaf_const"]) - float(told["leaf_value"]) + float(told["leaf_coeff"]) * rows[:, feature]
        out[:, feature] += np.where(np.isnan(value), 0.0, value)
    return out
