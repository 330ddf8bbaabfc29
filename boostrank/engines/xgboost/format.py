"""XGBoost's model JSON, its trees and the merging of models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.types import Array, Float64Array, Int64Array, Json
from boostrank.engines.trees import (
    Leaves,
    ModelFormat,
    ServedTrees,
    Trees,
    by_feature,
    category_words,
    filled_start,
    make_forest,
    read_json,
    refuse,
    sum_of_starts,
    write_json,
)
from boostrank.engines.xgboost.model_json import ATTRIBUTE, read_curve, start_trees, write_start
from boostrank.engines.xgboost.schema import DELETED, FLOAT32_MAX, largest_leaves
from boostrank.kernels.curves import Curve
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT

# Objectives that predict exponentials of scores.
_LOGARITHMIC = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    """A checked model JSON."""

    document: Json

    @property
    def forest(self) -> Json:
        """The part of the document with the trees."""
        forest: Json = self.document["learner"]["gradient_booster"]["model"]
        return forest

    @cached_property
    def start_trees(self) -> int:
        """The number of leading trees that form a linear start."""
        return int(self.document["learner"]["attributes"].get(ATTRIBUTE, 0))

    @property
    def start(self) -> dict[int, Curve]:
        """The functions of the linear start, by feature."""
        return by_feature(map(read_curve, self.forest["trees"][: self.start_trees]))

    @property
    def grown_trees(self) -> list[Json]:
        """The trees after the linear start."""
        return list(self.forest["trees"][self.start_trees :])

    def with_trees(self, start: Mapping[int, Curve], grown_trees: Sequence[Json]) -> bytes:
        """Return the file with another linear start and other grown trees."""
        learner = self.document["learner"]
        start_trees = write_start(start, int(learner["learner_model_param"]["num_feature"]))
        trees = [dict(tree) | {"id": i} for i, tree in enumerate([*start_trees, *grown_trees])]
        n_trees = str(len(trees))
        forest = self.forest | {
            "trees": trees,
            "tree_info": [0] * len(trees),
            "iteration_indptr": list(range(len(trees) + 1)),
            "gbtree_model_param": self.forest["gbtree_model_param"] | {"num_trees": n_trees},
        }
        new_parts = {
            "gradient_booster": learner["gradient_booster"] | {"model": forest},
            "attributes": {ATTRIBUTE: str(len(start_trees))} if start_trees else {},
        }
        return write_json(self.document | {"learner": learner | new_parts})


class XGBoostFormat(ModelFormat):
    """The format of XGBoost's JSON models."""

    name = "xgboost"
    title = "XGBoost's JSON"

    def recognises(self, body: bytes) -> bool:
        """Return whether a file begins as XGBoost's JSON and names a learner."""
        return re.match(rb'\{\s*"(learner|version)"', body) is not None and b'"learner"' in body

    def parse(self, body: bytes) -> XGBoostModel:
        """Parse the JSON and check it against the schema and the sizes in it.

        Raises:
            ModelError: the file is damaged, or uses what boostrank does not support.
        """
        model = XGBoostModel(read_json(body))
        largest_leaf, learner = largest_leaves(model.document), model.document["learner"]
        # Check the claim of a linear start against the trees of the file.
        claimed = learner["attributes"].get(ATTRIBUTE, "0")
        n_start_trees = start_trees(model.forest["trees"])
        refuse(
            claimed not in ("0", str(n_start_trees)),
            f"{ATTRIBUTE} claims {claimed[:40]!r} trees of a linear start, but the file has"
            f" {n_start_trees}",
        )
        # Bound all scores by the largest leaf of each tree: no sum may overflow.
        with np.errstate(over="ignore"):
            score_bound = float(np.sum(largest_leaf)) + abs(_base(learner))
        refuse(not score_bound <= FLOAT32_MAX, "its leaves add up to more than the largest float32")
        return model

    def trees(self, model: XGBoostModel, n_features: int) -> Trees:
        """Return the trees with split gains, the linear start as curves."""
        forest = _served(model, model.start_trees).forest
        is_inner = _column(model.grown_trees, "left_children", np.int64) >= 0
        gain = _column(model.grown_trees, "loss_changes", np.float64)[is_inner]
        return Trees.summarise(forest, gain, n_features, start=model.start)

    def served(self, model: XGBoostModel) -> ServedTrees:
        """Return all trees, those of a linear start too, with the hessians in every leaf."""
        return _served(model, 0)

    def merge(self, models: Sequence[XGBoostModel], weights: Sequence[float]) -> bytes:
        """Return the JSON of the sum, with one start and then the trees of all models.

        Raises:
            ParameterError: base scores differ.
        """
        base_scores = {
            model.document["learner"]["learner_model_param"]["base_score"] for model in models
        }
        if len(base_scores) > 1:
            raise ParameterError(
                f"the models have different base scores: {', '.join(sorted(base_scores))}"
            )
        trees = []
        for model, weight in zip(models, weights, strict=True):
            trees += [_divided(tree, 1.0 / weight) for tree in model.grown_trees]
        start = sum_of_starts([model.start for model in models], weights)
        return models[0].with_trees(start, trees)

    def widened(self, body: bytes, columns: Sequence[int], names: Sequence[str]) -> bytes:
        """Return the JSON for rows with more columns, in which feature i is `columns[i]`."""
        document = json.loads(body)
        learner, n_features = document["learner"], str(len(names))
        learner["feature_names"] = list(names)
        learner["feature_types"] = ["float"] * len(names) if learner["feature_types"] else []
        learner["learner_model_param"]["num_feature"] = n_features
        for tree in learner["gradient_booster"]["model"]["trees"]:
            tree["tree_param"]["num_feature"] = n_features
            pairs = zip(tree["split_indices"], tree["left_children"], strict=True)
            tree["split_indices"] = [columns[i] if left >= 0 else i for i, left in pairs]
        return write_json(document)

    def filled(self, body: bytes, values: Float64Array) -> bytes:
        """Return the JSON in which a missing value goes where its fill value goes."""
        model = self.parse(body)
        for tree in model.grown_trees:
            categorical_nodes = set(tree.get("categories_nodes", ()))
            for node, feature in enumerate(tree["split_indices"]):
                if (
                    tree["left_children"][node] >= 0
                    and node not in categorical_nodes
                    and not np.isnan(values[feature])
                ):
                    condition = np.float32(tree["split_conditions"][node])
                    tree["default_left"][node] = int(np.float32(values[feature]) < condition)
        return model.with_trees(filled_start(model.start, values), model.grown_trees)

    def leaf_values(self, model: XGBoostModel) -> list[Float64Array]:
        """Return the values of each tree, float64[nodes], where inner nodes have thresholds."""
        # XGBoost numbers leaves as nodes; thresholds stay where they are.
        return [np.array(tree["split_conditions"], np.float64) for tree in model.grown_trees]

    def with_leaves(
        self,
        model: XGBoostModel,
        values: Sequence[Float64Array],
        start: Mapping[int, Curve] | None = None,
    ) -> bytes:
        """Return the JSON with other values of the leaves, and another start if there is one."""
        trees = []
        for tree, leaves in zip(model.grown_trees, values, strict=True):
            is_leaf = np.array(tree["left_children"]) < 0
            conditions = np.where(is_leaf, leaves.astype(np.float32), tree["split_conditions"])
            trees.append({**tree, "split_conditions": conditions.tolist()})
        if start is None:
            start = model.start
        return model.with_trees(start, trees)


XGBOOST = XGBoostFormat()


def _served(model: XGBoostModel, first_tree: int) -> ServedTrees:
    """Return the trees whose number is at least `first_tree`."""
    trees = model.forest["trees"][first_tree:]
    n_nodes = np.array([len(tree["left_children"]) for tree in trees], np.int64)
    first_node, tree = np.cumsum(n_nodes) - n_nodes, np.repeat(np.arange(n_nodes.size), n_nodes)
    left = _column(trees, "left_children", np.int64)
    right = _column(trees, "right_children", np.int64)
    is_inner = left >= 0
    left = left[is_inner] + first_node[tree[is_inner]]
    right = right[is_inner] + first_node[tree[is_inner]]
    # Pruned nodes stay in the list as leaves without a parent.
    is_leaf = np.zeros(is_inner.size, dtype=bool)
    is_leaf[np.concatenate([first_node, left, right])] = True
    is_leaf &= ~is_inner
    # Numbers of nodes among nodes, and of leaves among leaves.
    position = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(is_inner) - 1)
    with np.errstate(over="ignore"):
        condition = _column(trees, "split_conditions", np.float64).astype(np.float32)
        # Left is value < condition in float32: value <= the float32 below. No value is below -inf
        # or equal to NaN.
        threshold = np.nextafter(condition, -np.inf).astype(np.float64)
    threshold[np.isneginf(condition)] = np.nan
    categorical_nodes, sets = _sets_of(trees, first_node)
    categorical = np.zeros(is_inner.size, dtype=bool)
    categorical[categorical_nodes] = True
    threshold[categorical_nodes] = np.arange(len(sets))
    nan_left = np.where(_column(trees, "default_left", np.int64), NAN_LEFT, 0)
    forest = make_forest(
        sets,
        feature=_column(trees, "split_indices", np.int64)[is_inner],
        threshold=threshold[is_inner],
        kind=(nan_left | np.where(categorical, CATEGORICAL | LISTED_RIGHT, 0))[is_inner],
        left=position[left],
        right=position[right],
        value=condition[is_leaf],
        roots=position[first_node],
        tree=tree[is_inner],
    )
    leaf_count = _column(trees, "sum_hessian", np.float64)[is_leaf]
    return ServedTrees(forest, leaf_count, base=_base(model.document["learner"]), single=True)


def _base(learner: Json) -> float:
    """Return the base score as a raw score, because the file stores a prediction, which some
    objectives transform.
    """
    score_text = learner["learner_model_param"]["base_score"].removeprefix("[").removesuffix("]")
    base_score = np.float32(float(score_text))
    with np.errstate(all="ignore"):
        if learner["objective"]["name"] in ("binary:logistic", "reg:logistic"):
            base_score = np.float32(
                -np.log(np.float64(np.float32(1.0) / base_score - np.float32(1.0)))
            )
        elif learner["objective"]["name"] in _LOGARITHMIC:
            base_score = np.float32(np.log(np.float64(base_score)))
    if not np.isfinite(base_score):
        raise ModelError(
            f"base_score {score_text[:40]} is not a prediction of"
            f" {learner['objective']['name'][:40]}"
        )
    return float(base_score)


def _column(trees: Sequence[Json], key: str, dtype: type[np.generic]) -> Array:
    return np.concatenate([np.zeros(0, dtype), *(np.array(tree[key], dtype) for tree in trees)])


def with_even_leaves(body: bytes) -> bytes:
    """Round the leaves and the base score of an unchecked file that XGBoost wrote, as
    `Leaves.in_units` does.

    Return the same file if scores are not the sum of base and leaves, or if rounding would matter.
    """
    # Leave models whose scores are not the plain sum of base and leaves.
    document = json.loads(body)
    learner = document["learner"]
    param, booster = learner["learner_model_param"], learner["gradient_booster"]
    base_text = param["base_score"].strip("[]")
    if booster["name"] != "gbtree" or _base(learner) != np.float32(float(base_text)):
        return body
    # Round the leaves of all trees together, without those of inner or deleted nodes.
    trees = booster["model"]["trees"]
    sizes = [len(tree["left_children"]) for tree in trees]
    is_inner = _column(trees, "left_children", np.int64) >= 0
    is_leaf = ~is_inner & (_column(trees, "split_indices", np.int64) != DELETED)
    tree = np.repeat(np.arange(len(trees)), sizes)
    conditions = _column(trees, "split_conditions", np.float64)
    hessians = _column(trees, "sum_hessian", np.float64)
    leaves = Leaves(tree[is_leaf], conditions[is_leaf], hessians[is_leaf], base=float(base_text))
    rounded = leaves.in_units()
    if rounded is None:
        return body
    conditions[is_leaf] = rounded.value
    # Write the rounded leaves and base back to the document.
    conditions_of_trees = np.split(conditions, np.cumsum(sizes)[:-1])
    for document_tree, tree_conditions in zip(trees, conditions_of_trees, strict=True):
        document_tree["split_conditions"] = tree_conditions.tolist()
    param["base_score"] = param["base_score"].replace(base_text, repr(rounded.base))
    return write_json(document)


def _divided(tree: Json, divisor: float) -> Json:
    is_leaf = np.array(tree["left_children"]) < 0
    conditions = np.array(tree["split_conditions"], dtype=np.float64)
    conditions[is_leaf] /= divisor
    with np.errstate(over="ignore"):  # a threshold beyond float32 is infinite to XGBoost
        conditions = conditions.astype(np.float32).astype(np.float64)
    return dict(tree) | {
        "split_conditions": conditions.tolist(),
        "base_weights": (np.array(tree["base_weights"], dtype=np.float64) / divisor).tolist(),
    }


def _sets_of(trees: list[Any], first_nodes: Int64Array) -> tuple[list[int], list[Array]]:
    """Return the nodes with categorical splits, and the words of the set of each."""
    nodes, sets = list[int](), list[Array]()
    for tree, first_node in zip(trees, first_nodes.tolist(), strict=True):
        if "split_type" not in tree:
            continue
        nodes += [first_node + node for node in tree["categories_nodes"]]
        set_ends = np.cumsum(tree["categories_sizes"], dtype=np.int64)
        categories = np.split(np.array(tree["categories"], np.int64), set_ends)
        sets += map(category_words, categories[:-1])
    return nodes, sets
