"""XGBoost's JSON: its own models, and LightGBM's with the same leaves for every float32 value."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import xgboost as xgb

from boostrank.export.reading import Rules, scores
from boostrank.export.target import ExportError
from boostrank.export.targets.xgboost import SPEC
from boostrank.formats import parse_model
from boostrank.kernels.trees.walker import Forest
from tests.export.conftest import KINDS, Example, example

OF_LIGHTGBM = [kind for kind in KINDS if kind.startswith("lightgbm")]


def booster(one: Example) -> xgb.Booster:
    return xgb.Booster(model_file=bytearray(SPEC.write(one.served)))


def codes_are_whole(one: Example, rows: np.ndarray) -> np.ndarray:
    """Rows without numbers above -1 and below 0 where categories are: LightGBM cuts them to 0, XGBoost does not."""
    columns = np.unique(one.served.trees.forest.feature[one.served.trees.forest.categorical])
    return rows[~np.any((rows[:, columns] < 0) & (rows[:, columns] > -1), axis=1)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("xgboost")])
def test_bits_of_its_own_models_are_kept(kind: str) -> None:
    one = example(kind)
    score = SPEC.read(SPEC.write(one.served), one.served.feature_names)
    np.testing.assert_array_equal(score(one.rows), one.expected(one.rows))
    assert booster(one).feature_names == list(one.served.feature_names)


@pytest.mark.parametrize("kind", OF_LIGHTGBM)
def test_no_float32_value_changes_sides(kind: str) -> None:
    one = example(kind)
    rows = codes_are_whole(one, one.single)
    expected = scores(one.served.trees, rows, Rules(leaves=np.float32, sums=np.float32))
    score = SPEC.read(SPEC.write(one.served), one.served.feature_names)
    np.testing.assert_array_equal(score(rows), expected)
    np.testing.assert_allclose(score(rows), one.expected(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", OF_LIGHTGBM)
def test_contributions_add_up_to_the_score(kind: str) -> None:
    one = example(kind)
    rows = xgb.DMatrix(one.single[:100], feature_names=list(one.served.feature_names))
    parts = booster(one).predict(rows, pred_contribs=True)
    np.testing.assert_allclose(parts.sum(axis=1), one.expected(one.single[:100]), rtol=0, atol=2e-6)


def test_a_start_and_counts_are_kept() -> None:
    one = example("lightgbm-start-missing")
    theirs, ours = parse_model(SPEC.write(one.served)), parse_model(one.served.body)
    assert theirs.start_trees == ours.start_trees > 0
    last = theirs.forest["trees"][-1]
    assert last["sum_hessian"][0] == 600
    assert last["loss_changes"][0] > 0
    leaf = np.array(last["left_children"]) < 0
    mean = np.average(np.array(last["base_weights"])[leaf], weights=np.array(last["sum_hessian"])[leaf])
    assert last["base_weights"][0] == pytest.approx(mean, abs=1e-7)


def test_infinite_thresholds_hold() -> None:
    one = example("lightgbm-none-whole")
    trees = one.served.trees
    first = trees.forest.roots[0]
    for threshold, side in ((np.inf, "left"), (-np.inf, "right"), (np.nan, "right")):
        moved = trees.forest.threshold.copy()
        moved[first] = threshold
        forest: Forest = replace(trees.forest, threshold=moved)
        served = replace(one.served, trees=replace(trees, forest=forest))
        rows = one.single[~np.isneginf(one.single).any(axis=1)]
        expected = scores(served.trees, rows, Rules(leaves=np.float32, sums=np.float32))
        np.testing.assert_array_equal(SPEC.read(SPEC.write(served), served.feature_names)(rows), expected, err_msg=side)


def test_zeros_that_are_missing_are_refused() -> None:
    with pytest.raises(ExportError, match="zero_as_missing"):
        SPEC.write(example("lightgbm-none-zeros").served)


def test_objectives_that_change_scores_are_refused_and_others_become_a_rankers() -> None:
    one = example("xgboost-none-whole")
    document = json.loads(one.served.body)
    document["learner"]["objective"] = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
    again = replace(one.served, body=json.dumps(document).encode())
    assert json.loads(SPEC.write(again))["learner"]["objective"]["name"] == "rank:ndcg"
    np.testing.assert_array_equal(
        SPEC.read(SPEC.write(again), one.served.feature_names)(one.rows), one.expected(one.rows)
    )
    document["learner"]["objective"]["name"] = "binary:logistic"
    with pytest.raises(ExportError, match="binary:logistic makes XGBoost transform scores"):
        SPEC.write(replace(one.served, body=json.dumps(document).encode()))
