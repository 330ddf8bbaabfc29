"""Each check of XGBoost's JSON at its edge: the last that is taken, and the first that is refused,
with words.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from boostrank.engines.xgboost.format import ATTRIBUTE, XGBOOST
from tests.model.real_models import xgboost_models
from tests.model.test_lightgbm_edges import LARGEST, LONG, refused
from tests.model.xgboost_json import (
    Edit,
    get_forest,
    make_chain,
    set_in_forest,
    set_in_learner,
    set_in_tree,
)

LARGEST_32 = float(np.finfo(np.float32).max)


def json_of(edit: Edit, model: str = "rank:ndcg") -> bytes:
    document = json.loads(xgboost_models()[model])
    edit(document)
    return json.dumps(document).encode()


def lose(*path: str | int) -> Edit:
    """Take a key out of the first tree, or of what lies in it."""

    def edit(document: dict[str, Any]) -> None:
        owner: Any = get_forest(document)
        for key in path[:-1]:
            owner = owner[key]
        del owner[path[-1]]

    return edit


def parting(condition: float, default_left: int) -> Edit:
    """The first split has this threshold, and sends missing values this way."""

    def edit(document: dict[str, Any]) -> None:
        tree = get_forest(document)["trees"][0]
        tree["split_conditions"][0], tree["default_left"][0] = condition, default_left

    return edit


def version(*numbers: Any) -> Edit:
    return lambda document: document.update(version=list(numbers))


PARAM = "learner_model_param"
NODES = len(get_forest(json.loads(xgboost_models()["rank:ndcg"]))["trees"][0]["left_children"])
TAKEN_JSON: dict[str, Edit] = {
    "the first version": version(0, 0, 0),
    "the last version": version(LARGEST, LARGEST, LARGEST),
    "no number of classes": set_in_learner(PARAM, "num_class", "1"),
    "no number of targets": lambda document: document["learner"][PARAM].pop("num_target"),
    "targets of none": set_in_learner(PARAM, "num_target", "0"),
    "the largest start": set_in_learner(PARAM, "base_score", f"[{LARGEST_32!r}]"),
    "the smallest start": set_in_learner(PARAM, "base_score", f"{-LARGEST_32!r}"),
    "names of all features": set_in_learner("feature_names", list("abcdef")),
    "no names": lambda document: document["learner"].pop("feature_names"),
    "types of all features": set_in_learner("feature_types", ["float"] * 6),
    "words about it": set_in_learner("attributes", {"a": "1", "b": ""}),
    "no rounds": lose("iteration_indptr"),
    "no parallel trees": lose("gbtree_model_param", "num_parallel_tree"),
    "parallel trees of none": set_in_forest("gbtree_model_param", "num_parallel_tree", "0"),
    "no names of categories": lose("cats"),
    "a tree of no width": set_in_tree("tree_param", "num_feature", "0"),
    "leaves without a vector": set_in_tree("tree_param", "size_leaf_vector", "0"),
    "an older root": set_in_tree("parents", 0, -1),
    "the last feature": set_in_tree("split_indices", 0, 5),
    "a switch that is true": set_in_tree("default_left", 0, True),
    "the largest leaf": set_in_tree("split_conditions", -1, LARGEST_32),
    "the smallest leaf": set_in_tree("split_conditions", -1, -LARGEST_32),
    "missing values alone right": parting(1e39, 0),
    "missing values alone left": parting(-1e39, 1),
    "gains that are not finite": set_in_tree("loss_changes", 0, float("inf")),
    "weights that are not finite": set_in_tree("base_weights", 0, float("nan")),
    "a promise of no start": set_in_learner("attributes", {ATTRIBUTE: "0"}),
}


@pytest.mark.parametrize("name", sorted(TAKEN_JSON))
def test_files_that_xgboost_can_just_read_are_accepted(name: str) -> None:
    body = json_of(TAKEN_JSON[name])
    assert body != json_of(lambda document: None)
    XGBOOST.parse(body)


REFUSED_JSON: dict[str, tuple[Edit, str]] = {
    "a version below all": (version(0, 0, -1), "version[2]"),
    "a version beyond all": (version(0, 0, LARGEST + 1), "version[2]"),
    "a version of two": (version(3, 2), "version"),
    "a version of text": (version("3", 2, 0), "version[0]"),
    "no learner": (lambda document: document.pop("learner"), "learner"),
    "no booster": (set_in_learner("gradient_booster", 5), "gradient_booster"),
    "a booster without a name": (
        set_in_learner("gradient_booster", "name", 5),
        "gradient_booster.name",
    ),
    "a booster without trees": (
        set_in_learner("gradient_booster", "model", []),
        "gradient_booster.model",
    ),
    "a booster of a long name": (
        set_in_learner("gradient_booster", "name", LONG),
        "(gbtree, not dart or gblinear",
    ),
    "weights of trees that are none": (
        set_in_learner("gradient_booster", {"name": "dart", "weight_drop": 5}),
        "Invalid value 'dart' - at `$.learner.gradient_booster.name`",
    ),
    "weights of no trees": (
        set_in_forest("weight_drop", [1.0] * 4),
        "gradient_booster.model.weight_drop",
    ),
    "weights beside the model": (
        set_in_learner("gradient_booster", "weight_drop", [1.0] * 4),
        "gradient_booster.weight_drop",
    ),
    "no parameters": (set_in_learner(PARAM, None), "learner_model_param"),
    "no features": (
        set_in_learner(PARAM, "num_feature", "0"),
        "num_feature",
    ),
    "features that are a number": (
        set_in_learner(PARAM, "num_feature", 6),
        "learner_model_param.num_feature",
    ),
    "features in other digits": (
        set_in_learner(PARAM, "num_feature", "\u0666"),
        "learner_model_param.num_feature",
    ),
    "features in eleven digits": (
        set_in_learner(PARAM, "num_feature", "00000000006"),
        "learner_model_param.num_feature",
    ),
    "a long number of features": (
        set_in_learner(PARAM, "num_feature", LONG),
        "learner_model_param.num_feature",
    ),
    "two classes": (
        set_in_learner(PARAM, "num_class", "2"),
        "learner_model_param.num_class",
    ),
    "two targets": (
        set_in_learner(PARAM, "num_target", "2"),
        "learner_model_param.num_target",
    ),
    "a start beyond float32": (
        set_in_learner(PARAM, "base_score", "[3.5E38]"),
        "base_score is '[3.5E38]', not a finite",
    ),
    "a start below float32": (
        set_in_learner(PARAM, "base_score", "-3.5E38"),
        "base_score is '-3.5E38', not a finite number",
    ),
    "a start that is not a number": (
        set_in_learner(PARAM, "base_score", "nan"),
        "base_score is 'nan', not a finite number",
    ),
    "a long start": (
        set_in_learner(PARAM, "base_score", LONG),
        f"base_score is '{LONG[:40]}', not a finite number",
    ),
    "an objective without a name": (set_in_learner("objective", {}), "name"),
    "attributes that are none": (set_in_learner("attributes", None), "attributes"),
    "attributes that are numbers": (set_in_learner("attributes", {"a": 1}), "attributes[...]"),
    "too few names": (set_in_learner("feature_names", ["a"]), "feature_names"),
    "types that are none": (set_in_learner("feature_types", "float"), "feature_types"),
    "trees that are none": (set_in_forest("trees", 5), "trees"),
    "trees that are not counted": (
        set_in_forest("gbtree_model_param", None),
        "gbtree_model_param",
    ),
    "no Unicode": (set_in_forest("tree_info", 0, "\ud800"), "surrogates"),
    "one tree more": (
        set_in_forest("gbtree_model_param", "num_trees", "5"),
        "num_trees is 5, but the file has 4 trees: it is damaged",
    ),
    "parallel trees": (
        set_in_forest("gbtree_model_param", "num_parallel_tree", "3"),
        "gbtree_model_param.num_parallel_tree",
    ),
    "a group below all": (set_in_forest("tree_info", 0, -1), "tree_info[0]"),
    "no groups": (lose("tree_info"), "tree_info"),
    "rounds that begin late": (
        set_in_forest("iteration_indptr", [1, 2, 3, 4]),
        "iteration_indptr does not divide 4 trees into rou",
    ),
    "rounds that end early": (
        set_in_forest("iteration_indptr", [0, 1, 2, 3]),
        "iteration_indptr does not divide 4 trees into rounds",
    ),
    "an empty round": (
        set_in_forest("iteration_indptr", [0, 0, 4]),
        "iteration_indptr does not divide 4 trees into rounds of one tree",
    ),
    "rounds below none": (set_in_forest("iteration_indptr", [0, -1, 4]), "iteration_indptr[1]"),
    "rounds that are none": (set_in_forest("iteration_indptr", 5), "iteration_indptr"),
    "an id of truth": (set_in_forest("trees", 1, "id", True), "trees[1].id"),
    "a long id": (set_in_forest("trees", 1, "id", LONG), "trees[1].id"),
    "no id": (lose("trees", 1, "id"), "id"),
    "a tree that is not counted": (
        lose("trees", 0, "tree_param"),
        "tree_param",
    ),
    "children that are none": (set_in_tree("left_children", 5), "trees[0].left_children"),
    "a node too few": (
        set_in_tree("tree_param", "num_nodes", str(NODES - 1)),
        "tree 0: num_nodes",
    ),
    "a tree of no nodes": (
        set_in_tree("tree_param", "num_nodes", "0"),
        "tree 0: num_nodes",
    ),
    "a tree one feature wider": (
        set_in_tree("tree_param", "num_feature", "7"),
        "tree 0: num_feature is 7, but the model has 6 features",
    ),
    "leaves of two numbers": (
        set_in_tree("tree_param", "size_leaf_vector", "2"),
        "trees[0].tree_param.size_leaf_vector",
    ),
    "the child behind the last": (
        set_in_tree("left_children", 0, NODES),
        "tree 0: a child",
    ),
    "the right child behind the last": (
        set_in_tree("right_children", 0, NODES),
        "tree 0: a child",
    ),
    "a right child below none": (
        set_in_tree("right_children", 0, -2),
        "trees[0].right_children[0]",
    ),
    "a feature below all": (set_in_tree("split_indices", 0, -1), "trees[0].split_indices[0]"),
    "a feature beyond 32 bits": (
        set_in_tree("split_indices", 0, LARGEST + 1),
        "trees[0].split_indices[0]",
    ),
    "the feature behind the last": (
        set_in_tree("split_indices", 0, 6),
        "tree 0: splits by a feature that the model does not have",
    ),
    "a parent below none": (set_in_tree("parents", 1, -2), "trees[0].parents[1]"),
    "a parent of none": (set_in_tree("parents", 1, -1), "tree 0: a parent is out of range"),
    "the parent behind the last": (
        set_in_tree("parents", 1, NODES),
        "tree 0: a parent is out of range",
    ),
    "a root below itself": (set_in_tree("parents", 0, 0), "tree 0: a parent is out of range"),
    "another parent": (set_in_tree("parents", -1, 0), "tree 0: parents and children do not agree"),
    "a switch below none": (set_in_tree("default_left", 0, -1), "trees[0].default_left[0]"),
    "a weight too few": (
        set_in_tree("base_weights", [1.0]),
        f"tree 0: base_weights has 1 entries, but needs {NODES}",
    ),
    "a gain that is text": (set_in_tree("loss_changes", 0, "x"), "trees[0].loss_changes[0]"),
    "hessians that are none": (set_in_tree("sum_hessian", None), "trees[0].sum_hessian"),
    "one deleted node": (
        set_in_tree("tree_param", "num_deleted", "1"),
        "tree 0: num_deleted is not the number of deleted nodes",
    ),
    "a leaf that is not a number": (
        set_in_tree("split_conditions", -1, float("nan")),
        "tree 0: split_conditions has a leaf value that is not finite",
    ),
    "a leaf below float32": (
        set_in_tree("split_conditions", -1, -1e39),
        "tree 0: split_conditions has a leaf value that",
    ),
    **{
        f"a threshold {number} with missing values {left}": (
            parting(float(number), left),
            "tree 0: split_conditions has a threshold that is not finite",
        )
        for number, left in (("inf", 1), ("-inf", 0), ("1e39", 1), ("nan", 1))
    },
    "a threshold that is not a number": (
        set_in_tree("split_conditions", 0, float("nan")),
        "tree 0: split_conditions has a threshold that is not finite",
    ),
    "a promise of a start": (
        set_in_learner("attributes", {ATTRIBUTE: LONG}),
        f"{ATTRIBUTE} claims '{LONG[:40]}' trees of a linear start, but the file has 0",
    ),
    "categories that are none": (set_in_forest("cats", 5), "cats"),
    "columns that are none": (set_in_forest("cats", {}), "enc"),
    "too few columns": (set_in_forest("cats", "enc", [{"values": []}]), "cats describe 1 columns"),
    "a column that is none": (set_in_forest("cats", "enc", [5] * 6), "cats.enc[0]"),
    "columns of no type": (set_in_forest("cats", "enc", [{"values": []}] * 6), "cats of column 0"),
    "an order of nothing": (set_in_forest("cats", "sorted_idx", 5), "cats.sorted_idx"),
    "an order without columns": (
        set_in_forest("cats", "sorted_idx", [0]),
        "cats: feature_segments do not fit the columns",
    ),
}


@pytest.mark.fault(86)
@pytest.mark.parametrize("name", sorted(REFUSED_JSON))
def test_files_that_xgboost_can_just_not_read_are_refused(name: str) -> None:
    edit, path = REFUSED_JSON[name]
    with pytest.raises(ModelError, match=re.escape(path)):
        XGBOOST.parse(json_of(edit))


def test_a_tree_may_have_4096_nodes_one_below_the_other() -> None:
    XGBOOST.parse(make_chain(4095))
    refused(XGBOOST.parse, make_chain(4096), "tree 0: it is deeper than 4096 nodes")
