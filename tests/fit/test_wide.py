"""Wide sparse data: features that no row names cost nothing, and the model has them all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.data.dataset import RankingDataset
from boostrank.fit import execute as training
from tests.fit.conftest import BACKENDS

ROWS, COLUMNS = 500, 200_000
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


@pytest.fixture
def all_columns(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What trains on every column."""

    def trained(*arguments: Any, **options: Any) -> boostrank.RankingModel:
        with monkeypatch.context() as patched:
            patched.setattr(training, "used_columns", lambda plan: None)
            return boostrank.train(*arguments, **options)

    return trained


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("start", ["none", "linear"])
def test_the_model_is_the_one_of_all_columns(all_columns: Any, backend: str, start: str) -> None:
    size = {"none": (1_000, ROWS), "linear": (250, 200)}[
        start
    ]  # the start's cost grows with the cube of the columns
    data, others = (
        make_hashed_dataset(size[0], 0, size[1]),
        make_hashed_dataset(size[0], 1, size[1]),
    )
    how = {"backend": backend, "start": start, "valid_sets": [data, others]}
    model = boostrank.train(dict(NARROW), data, 5, **how)
    whole = all_columns(dict(NARROW), data, 5, **how)
    assert model.to_bytes() == whole.to_bytes()
    assert model.info == whole.info
    assert model.evals_result == whole.evals_result


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


def test_folds_are_trained_on_the_columns_that_rows_name() -> None:
    data = make_hashed_dataset()
    model = boostrank.train(dict(NARROW), data, 3, quality="plain", folds=2)
    assert model.n_features == COLUMNS
    assert model.info.data is not None
    assert model.info.data["features"] == COLUMNS
    assert np.ptp(model.predict(data)) > 0.0


def test_a_parameter_of_single_features_keeps_all_columns() -> None:
    data = make_hashed_dataset(2_000)
    directions = [0] * 2_000
    directions[42] = 1
    model = boostrank.train({**NARROW, "monotone_constraints": directions}, data, 2)
    assert model.n_features == 2_000
