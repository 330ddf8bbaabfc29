"""What each feature adds to a score."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.data.dataset import RankingDataset
from boostrank.reporting import why
from tests.fit.conftest import BACKENDS, FAST, TREES, make_dataset, make_rough_dataset
from tests.model.real_models import SIZE, data, train_lightgbm, train_xgboost


@pytest.mark.parametrize("backend", BACKENDS)
def test_contributions_sum_to_the_scores_of_the_best_round(backend: str) -> None:
    train, valid = make_dataset(0), make_dataset(1)
    params = {"objective": "regression", "early_stopping_round": 2, **FAST}
    model = boostrank.train(params, train, 12, valid_sets=[valid], backend=backend)
    parts = model.contributions(valid)
    assert parts.shape == (valid.n_documents, valid.n_features + 1)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(valid), atol=1e-5)


@pytest.mark.parametrize("make", [train_lightgbm, train_xgboost])
def test_contributions_to_models_of_the_engines_own_add_up(make: Any, tmp_path: Any) -> None:
    X, _ = data()
    make().save_model(tmp_path / "model.json")
    model = boostrank.RankingModel.load(tmp_path / "model.json")
    np.testing.assert_allclose(model.contributions(X).sum(axis=1), model.predict(X), atol=1e-5)


@pytest.mark.parametrize("make", [train_lightgbm, train_xgboost])
def test_what_a_sparse_row_does_not_name_is_what_it_is_to_predict(make: Any, tmp_path: Any) -> None:
    X = sparse.csr_matrix(np.nan_to_num(data()[0]))
    make().save_model(tmp_path / "model.json")
    model = boostrank.RankingModel.load(tmp_path / "model.json")
    np.testing.assert_allclose(model.contributions(X).sum(axis=1), model.predict(X), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_come_back_in_the_order_in_which_they_were_given(backend: str) -> None:
    X, y = np.nan_to_num(data()[0]), data()[1]
    model = boostrank.train(
        {"objective": "regression", **FAST},
        RankingDataset.from_arrays(X, y, group=[SIZE] * 20),
        3,
        backend=backend,
    )
    scattered = RankingDataset.from_arrays(X, y, qid=np.arange(len(y)) % 20, sort=True)
    np.testing.assert_allclose(
        model.contributions(scattered).sum(axis=1), model.predict(scattered), atol=1e-5
    )


def test_no_rows_no_contributions() -> None:
    model = boostrank.train({"objective": "regression", **FAST}, make_dataset(0), 2)
    assert model.contributions(make_dataset(0).features[:0]).shape == (0, model.n_features + 1)


@pytest.fixture(scope="module")
def sets() -> tuple[RankingDataset, RankingDataset]:
    """Training set, and another one: missing values, zeros, few values, a tail."""
    return make_rough_dataset(0), make_rough_dataset(1)


@cache
def model(backend: str, start: str, rounds: int = 40) -> boostrank.RankingModel:
    return boostrank.train(
        TREES[backend], make_rough_dataset(0), rounds, backend=backend, start=start
    )


EVERY = [(backend, start) for backend in BACKENDS for start in ("linear", "none")]


@pytest.mark.parametrize(("backend", "start"), EVERY)
def test_contributions_add_up_to_the_score_also_with_a_start(
    backend: str, start: str, sets: Any
) -> None:
    ranker = model(backend, start)
    scores, parts = ranker.predict(sets[1]), ranker.contributions(sets[1])
    np.testing.assert_allclose(parts.sum(axis=1), scores, rtol=0, atol=1e-12)
    few = boostrank.RankingModel(ranker.booster, best_rounds=7)
    few_parts = few.contributions(sets[1].features)
    np.testing.assert_allclose(
        few_parts.sum(axis=1), few.predict(sets[1].features), rtol=0, atol=1e-12
    )
    assert np.abs(parts[:, :-1]).min(axis=1).max() > 0.0
    explanation = why(ranker, sets[1], 3, "@1", "@5", threads=1)
    assert explanation.parts.sum() == pytest.approx(
        explanation.a.score - explanation.b.score, abs=1e-12
    )


# Below all numbers, where a start begins.
@pytest.mark.filterwarnings("ignore:overflow encountered in nextafter")
@pytest.mark.parametrize("kind", ["tree_path_dependent", "interventional"])
@pytest.mark.parametrize(("backend", "start"), EVERY)
def test_shap_adds_up_to_the_score(backend: str, start: str, kind: str, sets: Any) -> None:
    shap = pytest.importorskip("shap", reason="shap explains models that others make")
    ranker, rows = model(backend, start), sets[1].features[:60]
    background = sets[0].features[:40] if kind == "interventional" else None
    explainer = shap.TreeExplainer(ranker.booster, data=background, feature_perturbation=kind)
    values = explainer.shap_values(rows, check_additivity=False)
    scores = ranker.predict(rows)
    size = 1e-6 * np.abs(scores).max()  # shap and XGBoost add up in float32
    np.testing.assert_allclose(
        values.sum(axis=1) + explainer.expected_value, scores, rtol=0, atol=size
    )
    if kind == "tree_path_dependent":  # the engines' own
        np.testing.assert_allclose(
            values, ranker.contributions(rows)[:, :-1], rtol=0, atol=2 * size
        )
