"""A cluster on this machine, and shards for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.data.synthetic import make_ranking_data
from boostrank.data.text.writer import write_libsvm


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A client of two worker processes of Dask on this machine, which all tests share."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'boostrank[dask]'")
    pytest.importorskip("xgboost", reason="XGBoost is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=50
        ) as processes,
        distributed.Client(processes) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt, also as three uneven shards s0.txt to s2.txt; valid.txt as v0.txt and v1.txt."""
    folder = tmp_path_factory.mktemp("shards")
    whole = make_ranking_data(queries=200, mean_length=12, seed=11).dataset
    train_set, valid = whole.take(np.arange(140)), whole.take(np.arange(140, 200))
    write_libsvm(folder / "train.txt", train_set)
    write_libsvm(folder / "valid.txt", valid)
    for i, (a, b) in enumerate([(0, 80), (80, 90), (90, 140)]):
        write_libsvm(folder / f"s{i}.txt", whole.take(np.arange(a, b)))
    for i, (a, b) in enumerate([(140, 145), (145, 200)]):
        write_libsvm(folder / f"v{i}.txt", whole.take(np.arange(a, b)))
    return folder
