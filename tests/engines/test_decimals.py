"""Decimals in float64: every program that reads a model's file scores the digits that people have
as boostrank does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.engines.trees import of_doubles

PARAMS: dict[str, Any] = {
    "objective": "regression",
    "verbosity": -1,
    "num_threads": 1,
    "learning_rate": 0.3,
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Features of two decimals, float64, and labels that depend on the digits."""
    rng = np.random.default_rng(0)
    X = rng.integers(-300, 300, (3000, 5)) / 100.0
    return X, np.digitize(np.sin(7 * X[:, 0]) + X[:, 1] * X[:, 2], [0.0, 1.0, 2.0])


def test_a_threshold_sends_doubles_to_the_side_of_their_float32() -> None:
    rng = np.random.default_rng(1)
    middle = np.array([0.5, 0.51, 1e-35, -1e-35, -2.25, 1e30, 3e-39, 0.0, -0.0, 1e-300])
    threshold = np.concatenate(
        [middle, rng.normal(size=1000), rng.normal(size=1000).astype(np.float32)]
    )
    singles_of_doubles = of_doubles(threshold)
    singles = threshold.astype(np.float32)
    for step in (np.float32(-np.inf), np.float32(np.inf)):
        for near in (singles, np.nextafter(singles, step)):
            np.testing.assert_array_equal(
                near.astype(np.float64) <= threshold, near.astype(np.float64) <= singles_of_doubles
            )
    for digits in range(1, 9):
        decimals = np.round(threshold, digits)
        np.testing.assert_array_equal(
            decimals <= singles_of_doubles,
            decimals.astype(np.float32).astype(np.float64) <= threshold,
        )
    np.testing.assert_array_equal(of_doubles(singles_of_doubles), singles_of_doubles)
    kept = np.array([np.inf, -np.inf, np.nan, 1.7976931348623157e308, -1e39])
    np.testing.assert_array_equal(of_doubles(kept), kept)


@pytest.mark.parametrize(
    "more", [{}, {"extra_trees": True}, {"start": "linear"}, {"folds": 2}], ids=str
)
def test_lightgbm_scores_decimals_alike(
    more: dict[str, Any], rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, y = rows
    data = boostrank.RankingDataset.from_arrays(X, y, group=[20] * 150)
    model = boostrank.train(PARAMS | more, data, 60)
    model.save(tmp_path / "m.txt")
    ours = model.predict(X)
    for booster in (model.booster, lgb.Booster(model_file=tmp_path / "m.txt")):
        np.testing.assert_array_equal(booster.predict(X, raw_score=True), ours)
    np.testing.assert_array_equal(boostrank.RankingModel.load(tmp_path / "m.txt").predict(X), ours)


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_the_python_export_scores_decimals_alike(
    backend: str, rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, y = rows
    data = boostrank.RankingDataset.from_arrays(X, y, group=[20] * 150)
    model = boostrank.train(PARAMS, data, 20, backend=backend)
    boostrank.export_model(model, tmp_path / "scorer.py", "python")
    space: dict[str, Any] = {}
    exec((tmp_path / "scorer.py").read_text(), space)
    scores = [space["score"](row.tolist()) for row in X[:500]]
    np.testing.assert_allclose(scores, model.predict(X[:500]), atol=1e-6)
    assert np.abs(np.array(scores) - model.predict(X[:500])).max() < 1e-6
