"""Wide sparse data: the model has all features, also those that no row names, which XGBoost trains
without.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.core.errors import DataWarning
from boostrank.data.dataset import RankingDataset
from boostrank.fit.plan import Plan
from tests.fit.conftest import BACKENDS

ROWS, COLUMNS = 500, 20_000
NARROW = {"objective": "lambdarank", "num_leaves": 4, "learning_rate": 0.3, "verbose": -1}


def make_hashed_dataset(columns: int = COLUMNS, seed: int = 0, rows: int = ROWS) -> RankingDataset:
    """Ten hashed features a row, of which three of the same few tell something; both signs."""
    rng = np.random.default_rng(seed)
    places = np.hstack([rng.integers(5, 25, (rows, 3)) * 7, rng.integers(0, columns, (rows, 7))])
    values = rng.normal(size=places.shape).round(2)
    matrix = sparse.csr_matrix(
        (values.ravel(), places.ravel(), np.arange(rows + 1) * 10), (rows, columns)
    )
    matrix.sum_duplicates()
    labels = np.clip(np.round(matrix[:, 35:175].sum(axis=1).A1 + 1), 0, 3)
    return RankingDataset.from_arrays(matrix, labels, group=[10] * (rows // 10))


def widen_rows(data: RankingDataset) -> RankingDataset:
    """The rows with 600 further columns, which no row names."""
    columns = data.n_features + 600
    matrix = sparse.csr_matrix(
        (data.features.data, data.features.indices, data.features.indptr),
        (data.n_documents, columns),
    )
    return RankingDataset.from_arrays(matrix, data.labels, group=data.queries.sizes)


@pytest.mark.parametrize("start", ["none", "linear"])
def test_xgboosts_model_is_the_one_of_all_columns(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xgboost")
    data, others = make_hashed_dataset(250, 0, 200), make_hashed_dataset(250, 1, 200)
    # More than half of the columns are in no row.
    sets = [widen_rows(rows) for rows in (data, others)]
    how = {"backend": "xgboost", "start": start, "valid_sets": sets}
    model = boostrank.train(dict(NARROW), sets[0], 5, **how)
    monkeypatch.setattr(Plan, "used_columns", lambda *_: None)
    whole = boostrank.train(dict(NARROW), sets[0], 5, **how)
    np.testing.assert_array_equal(model.predict(sets[1]), whole.predict(sets[1]))
    if start == "none":  # sums of a start over other columns differ in digits that leaves lose
        assert model.to_bytes() == whole.to_bytes()
        assert model.info == whole.info
    assert model.evals_result == whole.evals_result


@pytest.mark.parametrize("how", [{"folds": 2}, {"quality": "quick"}])
def test_the_record_names_all_rows_that_xgboost_learnt_from(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xgboost")
    narrow = [make_hashed_dataset(250, seed, 200) for seed in (0, 1)]
    data, valid = [widen_rows(rows) for rows in narrow]

    def record() -> Any:
        params = dict(NARROW, early_stopping_round=1, objective="xe-ndcg")
        model = boostrank.train(params, data, 4, valid_sets=[valid], backend="xgboost", **how)
        return model.info.data, model.info.renewed

    assert record()[0]["queries"] == len(data.queries) * (2 if "folds" in how else 1)
    narrowed = record()
    monkeypatch.setattr(Plan, "used_columns", lambda *_: None)
    assert narrowed == record()


def test_columns_that_xgboost_trains_without_are_none_of_a_start() -> None:
    pytest.importorskip("xgboost")
    data = make_hashed_dataset(2_500, rows=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = boostrank.train({**NARROW, "objective": "auto"}, data, 1, backend="xgboost")
    assert model._booster.start_trees


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_and_scores_are_those_of_the_wide_data(tmp_path: Path, backend: str) -> None:
    data = make_hashed_dataset()
    model = boostrank.train(dict(NARROW), data, 3, valid_sets=[data], backend=backend)
    model.save(tmp_path / "m.json")
    again = boostrank.RankingModel.load(tmp_path / "m.json")
    assert again.feature_names == data.feature_names
    assert np.array_equal(again.predict(data), model.predict(data))
    assert set(again.trees().used) <= set(data.features.indices)
    assert model.evals_result["training"]["ndcg@10"][-1] > 0.6


def test_xgboost_keeps_all_columns_that_a_parameter_names() -> None:
    pytest.importorskip("xgboost")
    data = make_hashed_dataset(2_000)
    params = {**NARROW, "monotone_constraints": {f"{data.feature_names[42]}": 1}}
    assert boostrank.train(params, data, 2, backend="xgboost").n_features == 2_000


def test_folds_have_all_columns() -> None:
    data = make_hashed_dataset()
    model = boostrank.train(dict(NARROW), data, 3, quality="plain", folds=2)
    assert model.n_features == COLUMNS
    assert model.info.data is not None
    assert model.info.data["features"] == COLUMNS
    assert np.ptp(model.predict(data)) > 0.0
