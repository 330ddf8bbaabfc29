"""Starts in model files: which trees are one's, what they say, and what only looks like one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from boostrank.core.errors import ModelError
from boostrank.engines.lightgbm.format import LIGHTGBM, start_text
from boostrank.engines.lightgbm.model_text import LightGBMText, Tree, start_trees
from boostrank.engines.trees import (
    NOTHING,
    LinearStart,
    StepTree,
    balance_steps,
    just_above,
)
from boostrank.engines.xgboost.format import ATTRIBUTE, XGBOOST
from boostrank.kernels.curves import LOWEST, Curve
from tests.model.conftest import STEPS, TWO
from tests.model.lightgbm_text import set_line
from tests.model.real_models import xgboost_models

NAMES = ("a", "b", "c")
LEVEL = Curve(np.zeros(0), np.array([1.5]), 2.0, np.array([6.0, 2.0]))
CURVES = {"steps": STEPS, "two": TWO, "level": LEVEL}
VALUES = np.array(
    [-np.inf, -1e30, -2.0, -1.5, -1.25, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 3.25, 4.0, 1e30, np.nan]
)


def said(curve: Curve, values: np.ndarray = VALUES) -> list[float]:
    """What a function says of each value, read off its definition."""
    out = []
    for x in values:
        if np.isnan(x) or x < LOWEST:
            out.append(curve.missing)
            continue
        out.append(float(curve.constant[sum(float(bound) < x for bound in curve.bounds)]))
    return out


def same(actual: Curve, curve: Curve) -> None:
    for name in ("bounds", "constant", "missing"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(curve, name))


def lightgbm_file(curves: Mapping[int, Curve]) -> bytes:
    return start_text(LinearStart(NAMES, curves))


def xgboost_file(curves: Mapping[int, Curve]) -> bytes:
    grown = XGBOOST.parse(xgboost_models()["rank:ndcg"])
    return grown.with_trees(curves, grown.forest["trees"])


@pytest.mark.parametrize("name", CURVES)
def test_a_start_in_lightgbms_text_is_read_as_it_was_written_and_lightgbm_says_the_same(
    name: str,
) -> None:
    curve = CURVES[name]
    body = lightgbm_file({1: curve})
    model = LIGHTGBM.parse(body)
    assert model.start_trees == len(start_trees(body)) == 1
    (feature, start), *others = model.start.items()
    assert (feature, others) == (1, [])
    same(start, curve)
    assert start.documents is not None
    assert curve.documents is not None
    np.testing.assert_array_equal(start.documents, curve.documents)
    assert model.trees[0].leaves == curve.constant.size + 1
    rows = np.zeros((VALUES.size, 3))
    rows[:, 1] = VALUES
    scores = lgb.Booster(model_str=body.decode()).predict(rows, raw_score=True)
    np.testing.assert_allclose(scores, said(curve), rtol=1e-15)


def test_two_trees_of_one_feature_add_up_and_others_stay() -> None:
    text = lightgbm_file({0: STEPS, 1: TWO, 2: LEVEL}).decode()
    curves = LIGHTGBM.parse(set_line("split_feature", "0 0", tree=1)(text).encode()).start
    assert sorted(curves) == [0, 2]
    assert said(curves[0]) == [a + b for a, b in zip(said(STEPS), said(TWO), strict=True)]
    document = json.loads(xgboost_file({0: STEPS, 1: TWO, 2: LEVEL}))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][1]
    tree["split_indices"] = [0] * len(tree["split_indices"])
    curves = XGBOOST.parse(json.dumps(document).encode()).start
    assert sorted(curves) == [0, 2]
    values = VALUES.astype(np.float32).astype(np.float64)
    assert said(curves[0], values) == [
        a + b for a, b in zip(said(STEPS, values), said(TWO, values), strict=True)
    ]


def a_tree(**fields: str | None) -> Tree:
    """A tree of a start in steps, of feature 4 and two pieces, or with other lines (None: without
    one).
    """
    lines = {
        "leaf_count": "3 5 7",
        "split_feature": "4 4",
        "split_gain": "0 0",
        "threshold": f"{LOWEST!r} 0.5",
        "left_child": "-1 -2",
        "right_child": "1 -3",
        "leaf_value": "0.5 1 2",
        "num_leaves": "3",
        "num_cat": "0",
        "is_linear": "0",
        **fields,
    }
    kept = {name: value for name, value in lines.items() if value is not None}
    numbers = {name: int(kept[name]) for name in ("num_leaves", "num_cat")}
    return Tree(
        7,
        {name.encode(): value.encode() for name, value in kept.items()},
        b"\n\n",
        numbers["num_leaves"],
        numbers["num_cat"],
    )


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        ({}, True),
        ({"split_gain": "0 1"}, False),
        ({"split_gain": None}, False),
        ({"num_leaves": "1"}, False),
        ({"num_cat": "1"}, False),
        ({"split_feature": "4 3"}, False),
        ({"threshold": "-1.0 0.5"}, False),
        ({"threshold": "-1.0 0.5", "split_feature": "4 3"}, False),
        ({"threshold": f"0.5 {LOWEST!r}"}, False),
        ({"threshold": ""}, False),
    ],
)
def test_a_tree_of_a_start_is_known_by_what_no_tree_that_was_grown_has(
    fields: dict[str, str | None], is_one: bool
) -> None:
    assert a_tree(**fields).is_start is is_one


@pytest.mark.fault(86)
@pytest.mark.parametrize(
    "fields",
    [
        {"left_child": "-1 -3", "right_child": "1 -2"},  # the other way round
        {
            "num_leaves": "4",
            "split_feature": "4 4 4",
            "split_gain": "0 0 0",
            "left_child": "-1 2 -2",
            "right_child": "1 -4 -3",
            "leaf_value": "0 1 2 3",
            "leaf_count": "1 1 1 1",
            "threshold": f"{LOWEST!r} 0.5 1.5",
        },
        {"leaf_value": "x 1 2"},
        {"leaf_value": ""},
        {"leaf_count": "1 1"},
        {"leaf_count": None},
    ],
)
def test_trees_that_only_look_like_a_start_are_refused(fields: dict[str, Any]) -> None:
    assert a_tree(**fields).is_start
    with pytest.raises(ModelError, match="tree 7 resembles a linear start"):
        LightGBMText(b"", [a_tree(**fields)], b"", {}, np.zeros(0), []).start  # noqa: B018


def test_an_empty_start_is_a_tree_that_adds_nothing() -> None:
    model = LIGHTGBM.parse(lightgbm_file({}))
    assert len(model.trees) == 1
    assert model.trees[0].words(b"leaf_value") == [b"0.0", b"0.0"]
    assert said(NOTHING) == [0.0] * VALUES.size
    alone = LIGHTGBM.parse(start_text(LinearStart(("a",), {})))  # also of a model of one feature
    assert alone.trees[0].words(b"split_feature") == [b"0"]
    assert lgb.Booster(model_str=lightgbm_file({}).decode()).predict(np.ones((1, 3)))[0] == 0.0


def test_steps_become_a_tree_whose_nodes_know_their_documents() -> None:
    tree = StepTree.from_curve(STEPS)
    assert tree.value[:3:-1] == [0.25, 0.5, -1.5, 2.0, 4.0]
    assert tree.documents[:3:-1] == [3, 5, 1, 7, 2]
    assert (tree.bounds, tree.left, tree.right) == (
        [0.5, -1.25, 3.25],
        [~0, 2, ~1, ~3],
        [1, 3, ~2, ~4],
    )
    below = tree.documents[:4]
    assert below == [18, 15, 6, 9]
    sums = [0.75 + 2.5 - 1.5 + 14 + 8, 2.5 - 1.5 + 14 + 8, 2.5 - 1.5, 14.0 + 8]
    np.testing.assert_allclose(
        tree.value[:4], [total / count for total, count in zip(sums, below, strict=True)]
    )
    empty = StepTree.from_curve(replace(TWO, documents=np.array([0.0, 0.25, 0.75])))
    assert empty.documents == [3, 2, 1, 1, 1]  # TreeSHAP divides by them


@pytest.mark.parametrize("ends", [0, 1, 2, 3, 4, 7, 8, 100])
def test_a_piece_is_found_in_as_few_steps_as_can_be(ends: int) -> None:
    bounds, left, right = balance_steps(np.arange(ends, dtype=np.float64))
    assert len(left) == len(right) == len(bounds) + 1 == ends + 1
    thresholds = [-np.inf, *bounds]
    for x in [*np.arange(ends) - 0.5, *np.arange(ends, dtype=np.float64), ends + 0.5]:
        node, steps = 0, 0
        while node >= 0:
            assert (left[node] < 0 or left[node] > node) and (right[node] < 0 or right[node] > node)  # noqa: PT018
            node, steps = (left if x <= thresholds[node] else right)[node], steps + 1
        assert ~node == 1 + sum(bound < x for bound in range(ends))
        assert steps <= 1 + int(np.ceil(np.log2(ends + 1)))
    assert (left[0], right[0]) == (~0, 1 if ends else ~1)


def test_bounds_lie_a_quarter_of_the_way_to_the_next_number() -> None:
    numbers = np.array([1.0, -1.0, 0.0, 3e38], np.float32)
    after = np.nextafter(numbers, np.float32(np.inf)).astype(np.float64)
    bounds = just_above(numbers)
    assert bounds.dtype == np.float64
    np.testing.assert_allclose((bounds - numbers) / (after - numbers), 0.25)


# XGBoost
# --------------------------------------------------------------------------------------------------------------


def started(**edits: Any) -> bytes:
    """A file with one tree of a start, of three nodes and their leaves, some of its lists replaced
    at a place.
    """
    document = json.loads(xgboost_file({1: replace(TWO, bounds=np.array([0.75]))}))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    for name, (position, value) in edits.items():
        tree[name][position] = value
    return json.dumps(document).encode()


def test_a_start_in_xgboosts_json_has_every_field_of_its_nodes() -> None:
    document = json.loads(xgboost_file({1: TWO, 2: LEVEL}))
    assert document["learner"]["attributes"] == {ATTRIBUTE: "2"}
    tree, other = document["learner"]["gradient_booster"]["model"]["trees"][:2]
    lowest, root = float(np.finfo(np.float32).min), 2**31 - 1
    assert tree["left_children"] == [1, -1, 3, -1, -1]
    assert tree["right_children"] == [2, -1, 4, -1, -1]
    assert tree["parents"] == [root, 0, 0, 2, 2]
    above = float(np.nextafter(np.float32(0.75), np.float32(1.0)))
    assert tree["split_conditions"] == [lowest, -0.5, above, 1.0, -2.0]
    assert tree["split_indices"] == [1, 0, 1, 0, 0]
    assert tree["default_left"] == [1, 0, 0, 0, 0]
    assert tree["sum_hessian"] == [14.0, 1.0, 13.0, 4.0, 9.0]
    means = [(-0.5 + 4.0 - 18.0) / 14.0, -0.5, (4.0 - 18.0) / 13.0, 1.0, -2.0]
    np.testing.assert_allclose(tree["base_weights"], means, rtol=1e-7)
    assert tree["loss_changes"] == [0.0] * 5
    assert tree["split_type"] == [0] * 5
    assert tree["tree_param"] == {
        "num_deleted": "0",
        "num_feature": "6",
        "num_nodes": "5",
        "size_leaf_vector": "1",
    }
    assert [tree["id"], other["id"]] == [0, 1]
    assert all(tree[name] == [] for name in tree if name.startswith("categories"))
    assert other["left_children"] == [1, -1, -1]


@pytest.mark.fault(86)
@pytest.mark.parametrize(
    "edit",
    [
        {"loss_changes": (0, 0.5)},
        {"loss_changes": (2, 0.5)},
        {"split_indices": (2, 2)},
        {"split_conditions": (0, -1e30)},
        {"split_conditions": (2, float(np.finfo(np.float32).min))},  # no order
    ],
)
def test_what_is_no_start_is_none_though_it_is_promised(edit: dict[str, Any]) -> None:
    assert XGBOOST.parse(started()).start_trees == 1
    with pytest.raises(ModelError, match=f"{ATTRIBUTE} .*'1' .* 0"):
        XGBOOST.parse(started(**edit))


def test_a_start_keeps_its_documents_and_rounds_count_behind_it() -> None:
    body = xgboost_file({1: TWO, 2: LEVEL})
    model = XGBOOST.parse(body)
    assert model.start_trees == 2
    for start, curve in zip(model.start.values(), (TWO, LEVEL), strict=True):
        assert (start.missing, start.documents.tolist()) == (
            curve.missing,
            curve.documents.tolist(),
        )
        assert start.constant.tolist() == curve.constant.tolist()
    assert list(model.start) == [1, 2]
    assert XGBOOST.trees(model, 6).count == 4
    rounds = model.document["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    assert rounds == [0, 1, 2, 3, 4, 5, 6]
