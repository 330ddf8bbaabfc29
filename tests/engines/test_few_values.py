"""XGBoost's bins of sparse columns with few numbers: the same to the bit, without a sketch of every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from boostrank.core.types import Float32Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.text.writer import write_libsvm

xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")

from boostrank.engines.xgboost import stream  # noqa: E402
from boostrank.engines.xgboost.adapter import BACKEND  # noqa: E402
from boostrank.engines.xgboost.stream import bounds_of  # noqa: E402

ROWS, MANY, FEW, BINS = 400, 3, 60, 16
PARAMS = {"max_bin": BINS, "num_threads": 1}


def rows() -> Float32Array:
    """Columns with many numbers, and more with few: up to as many as there are bins, some missing, some of no row."""
    random = np.random.default_rng(5)
    dense = np.zeros((ROWS, MANY + FEW), np.float32)
    dense[:, :MANY] = np.where(random.random((ROWS, MANY)) < 0.6, random.normal(size=(ROWS, MANY)), 0.0)
    for column in range(MANY, MANY + FEW):
        places = random.choice(ROWS, column % (BINS + 1), replace=False)
        dense[places, column] = random.integers(-9, 9, places.size) / 4.0
    dense[7, MANY + 1] = np.nan
    return dense


def data_of(features: Float32Array) -> RankingDataset:
    labels = np.arange(ROWS) % 3
    return RankingDataset.from_arrays(sparse.csr_matrix(features), labels, group=[10] * (ROWS // 10))


def bins(data: RankingDataset) -> Any:
    return BACKEND.dataset(data, PARAMS, reference=None, weights=False)


@pytest.mark.parametrize("columns", [slice(None), slice(MANY, None)], ids=["few and many", "few"])
@pytest.mark.parametrize("route", ["memory", "bins", "external"])
def test_the_bins_are_those_of_a_sketch_of_every_row(
    route: str, columns: slice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = data_of(rows()[:, columns])
    if route != "memory":
        write_libsvm(tmp_path / "rows.txt", data)
        data = RankingDataset.stream(
            tmp_path / "rows.txt", cache=False, external_memory=route == "external", chunk_bytes=2_000
        )
    assert data.is_sparse
    made: list[Any] = []

    def noted(*arguments: Any) -> Any:
        made.append(bounds_of(*arguments))
        return made[-1]

    monkeypatch.setattr(stream, "bounds_of", noted)
    ours = bins(data).get_quantile_cut()
    assert made[0] is not None
    monkeypatch.setattr(stream, "bounds_of", lambda *_: None)
    sketched = bins(data).get_quantile_cut()
    assert [part.tobytes() for part in ours] == [part.tobytes() for part in sketched]


def test_each_number_of_a_column_with_few_is_shown_once_and_one_zero() -> None:
    features = rows()[:, MANY:]
    shown = bounds_of(sparse.csr_matrix(features), {"max_bin": BINS, "nthread": 1}, None)
    few = np.count_nonzero(features, axis=0) < BINS
    cells = np.count_nonzero(np.nan_to_num(features)[:, few]) + np.count_nonzero(few)
    assert shown.num_nonmissing() == cells + ROWS * np.count_nonzero(~few)


def test_categories_are_bounds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.maximum(rows()[:, MANY:], 0.0).round()
    names = [f"c{i}" for i in range(FEW)]
    data = RankingDataset.from_arrays(
        sparse.csr_matrix(codes), np.arange(ROWS) % 3, group=[10] * (ROWS // 10), feature_names=names,
        categorical_feature=names[:5],
    )  # fmt: skip
    ours = bins(data).get_quantile_cut()
    monkeypatch.setattr(stream, "bounds_of", lambda *_: None)
    assert [part.tobytes() for part in ours] == [part.tobytes() for part in bins(data).get_quantile_cut()]


def test_where_a_sketch_takes_less_it_is_made() -> None:
    features = np.hstack([rows()[:, :MANY]] * 40 + [rows()[:, MANY : MANY + 2]])
    assert bounds_of(sparse.csr_matrix(features), {"max_bin": BINS, "nthread": 1}, None) is None
