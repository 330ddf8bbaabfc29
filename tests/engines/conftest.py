"""A dataset whose features are on different scales, and trees on top of a linear start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.data.dataset import RankingDataset

TREES = {"objective": "lambdarank", "num_leaves": 5, "num_threads": 1, "eval_at": 10}


def make_scaled_dataset(
    seed: int = 0, queries: int = 40, size: int = 15, gaps: bool = False
) -> RankingDataset:
    """Labels follow two of five features, on very different scales; the last feature never changes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * size, 6)) * [1.0, 30.0, 0.01, 1.0, 5.0, 0.0] + [
        0.0,
        100.0,
        0.0,
        3.0,
        0.0,
        7.0,
    ]
    signal = X[:, 0] + (X[:, 1] - 100.0) / 30.0 + 1.2 * rng.normal(size=len(X))
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return RankingDataset.from_arrays(
        X.astype(np.float32), np.digitize(signal, [0.5, 1.5, 2.5]), group=[size] * queries
    )


@pytest.fixture(scope="module")
def start_data() -> tuple[RankingDataset, RankingDataset]:
    """Training and validation set, with missing values."""
    return make_scaled_dataset(0, gaps=True), make_scaled_dataset(1, gaps=True)


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of an engine that is installed."""
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def boosted(backend: str, start_data: Any) -> boostrank.RankingModel:
    """Six rounds of trees on top of a linear start."""
    train, valid = start_data
    return boostrank.train(TREES, train, 6, valid_sets=[valid], start="linear", backend=backend)


def add_empty_rows(data: RankingDataset) -> np.ndarray:
    """The features, a row of missing values, and a row of zeros."""
    return np.vstack(
        [data.features, np.full((1, 6), np.nan, np.float32), np.zeros((1, 6), np.float32)]
    )
