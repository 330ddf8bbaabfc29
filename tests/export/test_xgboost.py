"""XGBoost's JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

from boostrank.export import TARGETS
from boostrank.export.target import ExportError
from boostrank.export.targets.xgboost import SPEC
from boostrank.export.writing import export_model
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
OF_XGBOOST = [kind for kind in KINDS if kind.startswith("xgboost")]


def booster(model_example: Example) -> xgb.Booster:
    return xgb.Booster(model_file=bytearray(SPEC.write(model_example.served)))


@pytest.mark.parametrize("kind", OF_XGBOOST)
def test_exports_of_xgboost_models_have_the_same_bits(kind: str) -> None:
    model_example = example(kind)
    score = SPEC.read(SPEC.write(model_example.served), model_example.served.feature_names)
    np.testing.assert_array_equal(
        score(model_example.rows), model_example.expected(model_example.rows)
    )
    assert booster(model_example).feature_names == list(model_example.served.feature_names)


def test_names_of_any_letters_are_theirs() -> None:
    names = ("a'b", "\U0001f600", '"""', "\\", "{0}", "é")
    body = SPEC.write(replace(example(OF_XGBOOST[0]).served, feature_names=names))
    SPEC.read(body, names)  # raises what XGBoost reads otherwise


def test_models_of_lightgbm_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="--backend xgboost"):
        export_model(example("lightgbm-none-whole").model, tmp_path / "m", "xgboost")
    assert not any(tmp_path.iterdir())


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
    example(OF_XGBOOST[0]).model.save(tmp_path / "model.txt")
    command = [sys.executable, "-c", _WITHOUT, tmp_path / "model.txt", tmp_path / "model.json"]
    cluster, export = subprocess.run(
        command, capture_output=True, check=True, text=True
    ).stdout.splitlines()
    assert "pip install xgboost" in cluster
    assert "pip install xgboost" in export
