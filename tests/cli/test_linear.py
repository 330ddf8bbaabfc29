"""Linear models and linear starts, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from tests.cli.conftest import FEW, invoke, refuse, succeed

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def linear(data: Path) -> Path:
    path = data / "linear.json"
    done = succeed(
        "train",
        data / "train.txt",
        "--valid",
        data / "valid.txt",
        "--backend",
        "linear",
        "--objective",
        "approx-ndcg",
        "--rounds",
        20,
        "--early-stopping",
        5,
        "--model",
        path,
        "--threads",
        1,
    )
    assert "floats in memory" in done.stderr
    assert "steps" in done.stderr
    return path


def test_predict_evaluate_and_compare_take_a_linear_model(
    linear: Path, model: Path, data: Path, tmp_path: Path
) -> None:
    scores = tmp_path / "scores"
    succeed("predict", linear, data / "test.txt", "-o", scores)
    assert len(scores.read_text().split()) == boostrank.read(data / "test.txt").n_documents
    printed = json.loads(invoke("evaluate", linear, scores, data / "test.txt", "--json").stdout)
    assert printed[str(scores)]["ndcg@10"]["difference"] == 0.0
    assert printed[str(linear)]["ndcg@10"]["mean"] > 0.5
    succeed("compare", model, linear, data / "test.txt")


def test_trees_begin_with_a_start_in_one_file(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "both.txt"
    succeed(
        "train",
        data / "train.txt",
        "--start",
        "linear",
        "--objective",
        "approx-ndcg",
        "--model",
        path,
        *FEW,
    )
    test = boostrank.read(data / "test.txt")
    assert np.isnan(test.features).any()
    alone = lgb.Booster(model_file=str(path)).predict(test.features, raw_score=True)
    np.testing.assert_allclose(
        boostrank.RankingModel.load(path).predict(test), alone, rtol=0, atol=1e-9
    )


def test_options_that_a_linear_model_cannot_take_are_refused(
    linear: Path, data: Path, tmp_path: Path
) -> None:
    def refused(*options: object) -> str:
        done = refuse(
            "train", data / "train.txt", "--model", tmp_path / "m", "--threads", 1, *options
        )
        return " ".join(done.stderr.split())

    assert "rows in memory" in refused("--backend", "linear", "--route", "bins")
    assert "no checkpoint" in refused("--backend", "linear", "--checkpoint-every", 5)
    assert "'num_leaves'" in refused("--backend", "linear", "--num-leaves", 7)
    assert "--start" in refused("--start", linear)


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_a_start_goes_with_streamed_data_to_the_same_bytes(
    engine: str, data: Path, tmp_path: Path
) -> None:
    models = []
    for route in ("memory", "bins"):
        path = tmp_path / f"{route}.txt"
        cache = ["--cache", "none"] if engine == "lightgbm" else []
        succeed(
            "train",
            data / "train.txt",
            "--start",
            "linear",
            "--objective",
            "lambdarank",
            "--backend",
            engine,
            "--route",
            route,
            "--model",
            path,
            *cache,
            *FEW,
        )
        models.append(path.read_bytes())
    assert models[0] == models[1]
