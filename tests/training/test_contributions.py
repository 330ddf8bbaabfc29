"""What each feature adds to a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.data.dataset import RankingDataset
from tests.formats.real_models import SIZE, data, train_lightgbm, train_xgboost

from .test_train import BACKENDS, FAST, ranking


@pytest.mark.parametrize("backend", BACKENDS)
def test_contributions_sum_to_the_scores_of_the_best_round(backend: str) -> None:
    train, valid = ranking(0), ranking(1)
    params = {"objective": "regression", "early_stopping_round": 2, **FAST}
    model = boostrank.train(params, train, 12, valid_sets=[valid], backend=backend)
    parts = model.contributions(valid)
    assert parts.shape == (valid.n_documents, valid.n_features + 1)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(valid), atol=1e-5)


@pytest.mark.parametrize("make", [train_lightgbm, train_xgboost])
def test_models_of_the_engines_own_tell_them_too(make: Any, tmp_path: Any) -> None:
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
        {"objective": "regression", **FAST}, RankingDataset.from_arrays(X, y, group=[SIZE] * 20), 3, backend=backend
    )
    scattered = RankingDataset.from_arrays(X, y, qid=np.arange(len(y)) % 20, sort=True)
    np.testing.assert_allclose(model.contributions(scattered).sum(axis=1), model.predict(scattered), atol=1e-5)


def test_no_rows_no_contributions() -> None:
    model = boostrank.train({"objective": "regression", **FAST}, ranking(0), 2)
    assert model.contributions(ranking(0).features[:0]).shape == (0, model.n_features + 1)
