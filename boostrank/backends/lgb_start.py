"""A linear ranker as the first trees of a LightGBM model: one tree a feature, of a single linear leaf.

LightGBM's text knows leaves that hold a linear function. One leaf with all features would do, but a missing value
anywhere in it makes LightGBM take the leaf's constant for all of it; with a tree a feature it is that feature's mean
which stands for what is missing, as in the linear model. A feature, but a count of 0, in its one leaf tells such a tree
from those that were grown. They count as no rounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
leaf_coeff={coefficient!r}
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


class Term(NamedTuple):
    """What one feature adds: constant + coefficient * value, or `at_missing`."""

    at_missing: float
    constant: float
    coefficient: float


NOTHING = Term(0.0, 0.0, 0.0)


def start_text(start: LinearStart) -> str:
    """LightGBM's model text of a linear ranker: a tree for each feature with a weight, at least one."""
    terms: dict[int, Term] = {}
    for feature in np.flatnonzero(start.coefficients).tolist() or [0]:
        base = 0.0 if terms else start.intercept
        coefficient = float(start.coefficients[feature])
        terms[feature] = Term(base, base - coefficient * float(start.means[feature]), coefficient)
    trees = start_trees(terms)
    columns = len(start.feature_names)
    head = _HEAD.format(
        last=columns - 1,
        names=" ".join(engine_names(start.feature_names)),
        infos=" ".join(["none"] * columns),
        sizes=" ".join(str(len(tree)) for tree in trees),
    )
    return head + "".join(trees) + _TAIL


def start_trees(terms: Mapping[int, Term]) -> list[str]:
    """The text of each tree."""
    return [
        _TREE.format(number=number, feature=feature, **term._asdict())
        for number, (feature, term) in enumerate(terms.items())
    ]


def read_start(text: str) -> dict[int, Term]:
    """Feature -> what it adds; nothing where a model text does not begin with a start."""
    terms: dict[int, Term] = {}
    for tree in _NEXT_TREE.split(text)[1 : count_start_trees(text) + 1]:
        told = dict(line.split("=", 1) for line in tree.split("\n") if "=" in line)
        feature, before = int(told["leaf_features"]), terms.get(int(told["leaf_features"]), NOTHING)
        numbers = (float(told[key]) for key in ("leaf_value", "leaf_const", "leaf_coeff"))
        terms[feature] = Term(*map(sum, zip(before, numbers, strict=True)))
    return terms


def mean_start(starts: Sequence[Mapping[int, Term]]) -> dict[int, Term]:
    """The start whose scores are the mean of those of several."""
    return {
        feature: Term(*np.mean([start.get(feature, NOTHING) for start in starts], axis=0).tolist())
        for feature in sorted({feature for start in starts for feature in start})
    }


def count_start_trees(text: str) -> int:
    """How many trees at the head of a model text are a start's."""
    for number, tree in enumerate(_NEXT_TREE.split(text)[1:]):
        if not all(line in f"\n{tree}" for line in _OURS):
            return number
    return text.count("\nTree=")


def start_contributions(text: str, features: Features) -> Float64Array:
    """What the start adds to each score: float64[N, d + 1], a column a feature, and the intercept.

    Args:
        text: of the model.
        features: float32[N, d].
    """
    out = np.zeros((features.shape[0], features.shape[1] + 1))
    rows = dense_rows(features, 0, features.shape[0]).astype(np.float64)
    for feature, term in read_start(text).items():
        out[:, -1] += term.at_missing
        value = term.constant - term.at_missing + term.coefficient * rows[:, feature]
        out[:, feature] = np.where(np.isnan(value), 0.0, value)
    return out
