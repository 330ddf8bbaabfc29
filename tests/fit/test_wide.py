"""Wide sparse data: the model has all features, also those that no row names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

import boostrank
from boostrank.data.dataset import RankingDataset

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


def test_names_and_scores_are_those_of_the_wide_data(tmp_path: Path) -> None:
    data = make_hashed_dataset()
    model = boostrank.train(dict(NARROW), data, 3, valid_sets=[data])
    model.save(tmp_path / "m.json")
    again = boostrank.RankingModel.load(tmp_path / "m.json")
    assert again.feature_names == data.feature_names
    assert np.array_equal(again.predict(data), model.predict(data))
    assert set(again.trees().used) <= set(data.features.indices)
    assert model.evals_result["training"]["ndcg@10"][-1] > 0.6


def test_folds_have_all_columns() -> None:
    data = make_hashed_dataset()
    model = boostrank.train(dict(NARROW), data, 3, quality="plain", folds=2)
    assert model.n_features == COLUMNS
    assert model.info.data is not None
    assert model.info.data["features"] == COLUMNS
    assert np.ptp(model.predict(data)) > 0.0
