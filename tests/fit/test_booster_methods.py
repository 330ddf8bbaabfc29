"""What users of LightGBM's Booster call on a model, on both engines, with a linear start."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from tests.fit.conftest import BACKENDS, FAST, make_dataset

ROUNDS, BEST = 6, 4


@cache
def trained(backend: str, **options: Any) -> boostrank.RankingModel:
    params = {"objective": "regression", "max_depth": 3, **FAST}
    model = boostrank.train(params, make_dataset(0), ROUNDS, backend=backend, **options)
    model._best_rounds = BEST
    return model


@cache
def started(backend: str) -> boostrank.RankingModel:
    return trained(backend, start="linear")


@pytest.mark.parametrize("backend", BACKENDS)
def test_trees_of_a_start_are_counted(backend: str, tmp_path: Path) -> None:
    plain, model = trained(backend, start="none"), started(backend)
    first, each = model.tree_counts
    assert first > 0
    assert each == 1
    assert model.num_trees() == first + ROUNDS
    assert plain.num_trees() == ROUNDS
    leaves = model.predict(make_dataset(1), pred_leaf=True)
    assert leaves.shape == (make_dataset(1).n_documents, first + BEST)
    assert leaves.dtype == np.int32
    assert model.predict(make_dataset(1), pred_leaf=True, start_iteration=1).shape[1] == ROUNDS - 1
    assert model.predict(make_dataset(1).features[:0], pred_leaf=True).shape == (0, first + BEST)
    assert model.save_model(tmp_path / "m.txt") is model
    assert boostrank.RankingModel.load(tmp_path / "m.txt").num_trees() == first + BEST


@pytest.mark.parametrize("backend", BACKENDS)
def test_contributions_add_up_with_a_start_whatever_the_rounds(backend: str) -> None:
    model, rows = started(backend), make_dataset(1)
    for span in (
        {},
        {"num_iteration": 2},
        {"start_iteration": 1},
        {"start_iteration": 1, "num_iteration": 2},
    ):
        parts = model.predict(rows, pred_contrib=True, **span)  # type: ignore[arg-type]
        assert parts.shape == (rows.n_documents, rows.n_features + 1)
        np.testing.assert_allclose(parts.sum(axis=1), model.predict(rows, **span), atol=1e-6)  # type: ignore[arg-type]
    np.testing.assert_array_equal(model.predict(rows, pred_contrib=True), model.contributions(rows))
    with pytest.raises(ParameterError, match="pass one"):
        model.predict(rows, pred_contrib=True, pred_leaf=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_predictions_of_rounds_add_up(backend: str) -> None:
    model, rows = started(backend), make_dataset(1)
    for first in (1, ROUNDS, 99):
        later = model.predict(rows, start_iteration=first)
        np.testing.assert_allclose(
            model.predict(rows, num_iteration=first) + later, model.predict(rows, num_iteration=0)
        )
    third_round = model.predict(rows, start_iteration=2, num_iteration=1)
    assert np.ptp(third_round) > 0
    np.testing.assert_allclose(
        third_round,
        model.predict(rows, num_iteration=3) - model.predict(rows, num_iteration=2),
        atol=1e-6,
    )


def test_lightgbm_says_the_same_of_its_own_model() -> None:
    model, rows = trained("lightgbm", start="none"), make_dataset(1).features
    booster = model.booster
    for kind in ("split", "gain"):
        for iteration in (0, 2):
            importance = model.feature_importance(kind, iteration)  # type: ignore[arg-type]
            expected = booster.feature_importance(kind, iteration)
            assert importance.dtype == expected.dtype
            np.testing.assert_allclose(importance, expected, rtol=1e-6)
    assert model.feature_importance().sum() == model.feature_importance(iteration=BEST).sum()
    for span in (
        {"start_iteration": 2},
        {"start_iteration": 2, "num_iteration": 3},
        {"num_iteration": 3},
    ):
        for kind in ("pred_leaf", "pred_contrib", "raw_score"):
            options: Any = span | ({} if kind == "raw_score" else {kind: True})
            expected = booster.predict(rows, **span, **{kind: True})
            np.testing.assert_allclose(model.predict(rows, **options), expected, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_importance_of_named_features_without_the_start(backend: str) -> None:
    model = started(backend)
    assert model.feature_name() == list(model.feature_names)
    pytest.importorskip("pandas", reason="the engine's table is a data frame")
    tree, feature = (
        ("tree_index", "split_feature") if backend == "lightgbm" else ("Tree", "Feature")
    )
    frame, first = model.booster.trees_to_dataframe(), model.tree_counts.start
    counts = frame[frame[tree].between(first, first + BEST - 1)][feature].value_counts()
    assert model.feature_importance().tolist() == [
        counts.get(name, 0) for name in model.feature_names
    ]
    with pytest.raises(ParameterError, match=r"reporting\.importance"):
        model.feature_importance("cover")  # type: ignore[arg-type]


def test_a_linear_model_names_what_tells_of_its_features() -> None:
    model = boostrank.train({"objective": "sdcg"}, make_dataset(0), 2, backend="linear")
    for ask in (model.feature_importance, model.num_trees):
        with pytest.raises(ParameterError, match="no trees"):
            ask()
    with pytest.raises(ParameterError, match=r"contributions\(\)"):
        model.predict(make_dataset(1), pred_leaf=True)
    parts = model.predict(make_dataset(1), pred_contrib=True)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(make_dataset(1)), atol=1e-9)
