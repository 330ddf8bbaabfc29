"""XGBoost's JSON: its own models, and LightGBM's with the same leaves for every float32 value."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

from boostrank.engines import parse_model
from boostrank.engines.served.rules import Rules, scores
from boostrank.export import TARGETS
from boostrank.export.target import ExportError
from boostrank.export.targets.xgboost import SPEC
from boostrank.export.writing import export_model
from boostrank.kernels.forest import NAN_LEFT, Forest
from boostrank.model.ranking_model import RankingModel
from tests.export.conftest import KINDS, Example, example, table

_WITHOUT = """
import sys
sys.modules["xgboost"] = None
import boostrank
for use in (
    lambda: boostrank.cluster.train("local:2", {}, "shard.txt", backend="xgboost"),
    lambda: boostrank.export_model(sys.argv[1], sys.argv[2], "xgboost"),
):
    try:
        use()
    except boostrank.BoostrankError as error:
        print(error)
"""
OF_LIGHTGBM = [kind for kind in KINDS if kind.startswith("lightgbm")]


def booster(model_example: Example) -> xgb.Booster:
    return xgb.Booster(model_file=bytearray(SPEC.write(model_example.served)))


def codes_are_whole(model_example: Example, rows: np.ndarray) -> np.ndarray:
    """Rows without numbers above -1 and below 0 where categories are: LightGBM cuts them to 0,
    XGBoost does not.
    """
    columns = np.unique(
        model_example.served.trees.forest.feature[model_example.served.trees.forest.categorical]
    )
    return rows[~np.any((rows[:, columns] < 0) & (rows[:, columns] > -1), axis=1)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("xgboost")])
def test_exports_of_xgboost_models_have_the_same_bits(kind: str) -> None:
    model_example = example(kind)
    score = SPEC.read(SPEC.write(model_example.served), model_example.served.feature_names)
    np.testing.assert_array_equal(
        score(model_example.rows), model_example.expected(model_example.rows)
    )
    assert booster(model_example).feature_names == list(model_example.served.feature_names)


@pytest.mark.parametrize("kind", OF_LIGHTGBM)
def test_no_float32_value_changes_sides(kind: str) -> None:
    model_example = example(kind)
    rows = codes_are_whole(model_example, model_example.single)
    expected = scores(model_example.served.trees, rows, Rules(leaves=np.float32, sums=np.float32))
    score = SPEC.read(SPEC.write(model_example.served), model_example.served.feature_names)
    np.testing.assert_array_equal(score(rows), expected)
    np.testing.assert_allclose(score(rows), model_example.expected(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", OF_LIGHTGBM)
def test_contributions_add_up_to_the_score(kind: str) -> None:
    model_example = example(kind)
    rows = xgb.DMatrix(
        model_example.single[:100], feature_names=list(model_example.served.feature_names)
    )
    parts = booster(model_example).predict(rows, pred_contribs=True)
    np.testing.assert_allclose(
        parts.sum(axis=1), model_example.expected(model_example.single[:100]), rtol=0, atol=2e-6
    )


@pytest.mark.parametrize(
    "kind", ["lightgbm-none-whole", next(kind for kind in KINDS if kind.startswith("xgboost"))]
)
def test_names_of_any_letters_are_theirs(kind: str) -> None:
    names = ("a'b", "\U0001f600", '"""', "\\", "{0}", "é")
    body = SPEC.write(replace(example(kind).served, feature_names=names))
    SPEC.read(body, names)  # raises what XGBoost reads otherwise


def test_a_start_and_counts_are_kept() -> None:
    model_example = example("lightgbm-start-missing")
    theirs, ours = (
        parse_model(SPEC.write(model_example.served)),
        parse_model(model_example.served.body),
    )
    assert theirs.start_trees == ours.start_trees > 0
    last = theirs.forest["trees"][-1]
    assert last["sum_hessian"][0] == 600
    assert last["loss_changes"][0] > 0
    leaf = np.array(last["left_children"]) < 0
    mean = np.average(
        np.array(last["base_weights"])[leaf], weights=np.array(last["sum_hessian"])[leaf]
    )
    assert last["base_weights"][0] == pytest.approx(mean, abs=1e-7)


def test_infinite_thresholds_hold() -> None:
    model_example = example("lightgbm-none-whole")
    trees = model_example.served.trees
    first = trees.forest.roots[0]
    for threshold, kind, side in (
        (np.inf, 0, "left"),
        (-np.inf, NAN_LEFT, "right"),
        (np.nan, NAN_LEFT, "right"),
    ):
        moved, kinds = trees.forest.threshold.copy(), trees.forest.kind.copy()
        moved[first], kinds[first] = threshold, kind
        forest: Forest = replace(trees.forest, threshold=moved, kind=kinds)
        served = replace(model_example.served, trees=replace(trees, forest=forest))
        rows = model_example.single[~np.isneginf(model_example.single).any(axis=1)]
        expected = scores(served.trees, rows, Rules(leaves=np.float32, sums=np.float32))
        np.testing.assert_array_equal(
            SPEC.read(SPEC.write(served), served.feature_names)(rows), expected, err_msg=side
        )


def test_zeros_that_are_missing_are_refused() -> None:
    with pytest.raises(ExportError, match="zero_as_missing"):
        SPEC.write(example("lightgbm-none-zeros").served)


@pytest.mark.parametrize(
    "objective",
    [
        "rank:pairwise",
        "reg:squarederror",
        "reg:logistic",
        "binary:logistic",
        "binary:logitraw",
        "binary:hinge",
        "count:poisson",
        "reg:gamma",
        "reg:tweedie",
        "survival:cox",
    ],
)
def test_base_score_counts_as_the_objective_says(objective: str, tmp_path: Path) -> None:
    X, y = table("missing")
    labels = y > 1 if "binary" in objective or "logistic" in objective else y + 1
    rows = xgb.DMatrix(X, labels, nthread=1)
    if objective.startswith("rank"):
        rows.set_group([20] * 30)
    params = {"objective": objective, "base_score": 0.3, "max_depth": 3, "nthread": 1}
    (tmp_path / "model.json").write_bytes(xgb.train(params, rows, 3).save_raw("json"))
    model = RankingModel.load(tmp_path / "model.json")
    expected = model.booster.inplace_predict(
        X.astype(np.float32), predict_type="margin", validate_features=False
    )
    for target in ("xgboost", "c", "elasticsearch", "sql"):
        export_model(model, tmp_path / target, target)
        spec = TARGETS.get(target)
        of_export = spec.scorer((tmp_path / target).read_bytes(), model.feature_names)(
            X.astype(np.float32)
        )
        tolerance = 0 if "xgboost" in spec.exact else 1e-6
        np.testing.assert_allclose(of_export, expected, rtol=0, atol=tolerance)
    assert json.loads((tmp_path / "xgboost").read_text())["learner"]["objective"][
        "name"
    ].startswith("rank:")


def test_a_target_that_needs_xgboost_says_how_to_install_it(tmp_path: Path) -> None:
    example(OF_LIGHTGBM[0]).model.save(tmp_path / "model.txt")
    command = [sys.executable, "-c", _WITHOUT, tmp_path / "model.txt", tmp_path / "model.json"]
    cluster, export = subprocess.run(
        command, capture_output=True, check=True, text=True
    ).stdout.splitlines()
    assert "pip install xgboost" in cluster
    assert "pip install 'boostrank[xgboost]'" in export
    assert "None" not in export
