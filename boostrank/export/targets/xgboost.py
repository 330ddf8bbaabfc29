"""xgboost: XGBoost's JSON, for XGBoost's and LightGBM's models.

XGBoost compares in float32 with `<`. LightGBM's thresholds become the next larger float32 numbers,
so every float32 value keeps its direction. Leaves are rounded to float32 and summed in float32, so
scores differ from LightGBM's by that rounding. Category sets are mirrored, because listed
categories go left in LightGBM and right in XGBoost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from boostrank.core.types import Array, Json
from boostrank.engines.lightgbm.format import LIGHTGBM
from boostrank.engines.trees import depths, engine_names, write_json
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.engines.xgboost.model_json import ATTRIBUTE, start_trees, write_tree
from boostrank.export.target import (
    ExportError,
    Score,
    ServedModel,
    TargetSpec,
    above,
    cuts,
    missing_goes_left,
    parents,
    with_version,
)
from boostrank.export.targets.lightgbm import loaded

_EMPTY = """
{"learner": {
  "attributes": {},
  "feature_names": [],
  "feature_types": [],
  "gradient_booster": {
    "model": {
      "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
      "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "0"},
      "iteration_indptr": [0],
      "tree_info": [],
      "trees": []
    },
    "name": "gbtree"
  },
  "learner_model_param": {
    "base_score": "[0.0]",
    "boost_from_average": "0",
    "num_class": "0",
    "num_feature": "0",
    "num_target": "1"
  },
  "objective": {
    "name": "rank:ndcg",
    "lambdarank_param": {
      "lambdarank_bias_norm": "1",
      "lambdarank_normalization": "1",
      "lambdarank_num_pair_per_sample": "4294967295",
      "lambdarank_pair_method": "topk",
      "lambdarank_score_normalization": "1",
      "lambdarank_unbiased": "0",
      "ndcg_exp_gain": "1"
    }
  }
}, "version": [3, 1, 0]}
"""
"""A model of XGBoost 3.1 without trees."""
_LARGEST = float(np.finfo(np.float32).max)


def _write(model: ServedModel) -> bytes:
    empty, names = json.loads(_EMPTY), engine_names(model.feature_names)
    document = empty
    if model.engine == "xgboost":
        document = XGBOOST.parse(model.body).document
    else:
        _add_trees(empty["learner"], model)
    learner = document["learner"]
    learner["feature_names"] = list(names)
    if not learner["objective"]["name"].startswith("rank:"):  # others may transform scores
        learner["objective"] = empty["learner"]["objective"]
        learner["learner_model_param"]["base_score"] = f"[{model.trees.base!r}]"
    return write_json(document)


def _add_trees(learner: Json, model: ServedModel) -> None:
    """Add the trees of LightGBM, each of which is a round."""
    lightgbm_text, columns = LIGHTGBM.parse(model.body), len(model.feature_names)
    trees, forest = _trees(model, lightgbm_text.nodes["split_gain"], columns), model.trees.forest
    n_start_trees = start_trees(trees)
    if n_start_trees and n_start_trees == lightgbm_text.start_trees:
        learner["attributes"] = {ATTRIBUTE: str(n_start_trees)}
    categorical_columns = set(forest.feature[forest.categorical].tolist())
    learner["feature_types"] = [
        "c" if i in categorical_columns else "float" for i in range(columns)
    ]
    learner["learner_model_param"] |= {
        "base_score": f"[{model.trees.base!r}]",
        "num_feature": str(columns),
    }
    forest_model = learner["gradient_booster"]["model"]
    forest_model["gbtree_model_param"]["num_trees"] = str(len(trees))
    forest_model |= {
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": trees,
    }


def _trees(model: ServedModel, gain: Array, columns: int) -> list[Json]:
    forest = model.trees.forest
    categorical = forest.categorical
    # No value is below -infinity: mirror a split that sends all numbers left.
    sends_all_left = ~categorical & (forest.threshold == np.inf)
    is_mirrored = categorical | sends_all_left
    conditions = np.where(
        is_mirrored | np.isnan(forest.threshold), np.float32(-np.inf), above(cuts(forest))
    )
    conditions[categorical] = 0.0
    left_children = np.where(is_mirrored, forest.right, forest.left)
    right_children = np.where(is_mirrored, forest.left, forest.right)
    # Missing categories count as not listed in LightGBM, which is left here.
    default_left = np.where(categorical, True, missing_goes_left(forest) != sends_all_left).astype(
        int
    )
    # Leaves follow the nodes from the last to the first, so that ~leaf is the index of a leaf.
    counts = np.append(np.zeros(left_children.size), np.maximum(model.trees.leaf_count, 1.0)[::-1])
    weights = np.append(np.zeros(left_children.size), forest.value[::-1])
    # Sums of Hessians and mean leaf values, from the leaves up.
    for node in np.argsort(-depths(parents(forest)), kind="stable"):
        children = [left_children[node], right_children[node]]
        counts[node] = counts[children].sum()
        weights[node] = counts[children] @ weights[children] / counts[node]

    def at_nodes(values: Array) -> Array:
        return np.append(values, np.zeros(forest.value.size, values.dtype))

    fields = {
        "base_weights": weights.astype(np.float32),
        "default_left": at_nodes(default_left),
        "loss_changes": at_nodes(np.clip(gain, 0.0, _LARGEST).astype(np.float32)),
        "split_conditions": np.append(conditions, forest.value[::-1]).astype(np.float32),
        "split_indices": at_nodes(forest.feature),
        "split_type": at_nodes(categorical.astype(int)),
        "sum_hessian": counts.astype(np.float32),
    }
    sets = {}
    for node in np.flatnonzero(categorical).tolist():
        sets[node] = forest.categories(int(forest.threshold[node])).tolist()
        if not sets[node]:
            raise ExportError(
                f"tree {forest.tree[node]} has an empty set of categories, which XGBoost does not"
                " support"
            )
    return [
        write_tree(columns, (left_children, right_children), root, fields, sets) | {"id": number}
        for number, root in enumerate(forest.roots.tolist())
    ]


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    booster = loaded(body, "model.json").booster
    if tuple(booster.feature_names) != engine_names(feature_names):
        raise ExportError("the file has different feature names")
    booster.set_param({"nthread": 1})

    def score(rows: Array) -> Array:
        with np.errstate(over="ignore"):
            float32_rows = rows.astype(np.float32)
        return np.asarray(
            booster.inplace_predict(float32_rows, predict_type="margin", validate_features=False)
        )

    return score


SPEC = TargetSpec(
    name="xgboost",
    title="XGBoost and what reads its JSON",
    write=_write,
    read=_read,
    proved_by=with_version("XGBoost", "xgboost", "xgboost-cpu"),
    how=(
        "XGBoost 3.1 and later open {file} by themselves: xgboost.Booster(model_file={literal}).",
        (
            "Scores are predict(xgboost.DMatrix(rows, feature_names=...), output_margin=True), or"
            " inplace_predict(rows)."
        ),
        "Pass values in the order of the model's features, rounded to float32; NaN is missing.",
    ),
    exact=("xgboost",),
    extra="xgboost",
)
