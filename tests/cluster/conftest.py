"""A cluster on this machine, and shards for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank import cluster as clusters
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm

PARAMS = {
    "objective": "shf-sdcg",
    "sigma": "linear(2, 1)",
    "num_leaves": 7,
    "eval_at": [1, 10],
    "num_threads": 1,
}


def train(*arguments: Any, backend: str = "xgboost", **options: Any) -> Any:
    """As `boostrank.cluster.train`, by XGBoost unless said otherwise."""
    return clusters.train(*arguments, backend=backend, **options)


@pytest.fixture
def cluster(shared_cluster: Any) -> Any:
    """The client, once both workers are there: Dask starts those anew that a test lost."""
    shared_cluster.wait_for_workers(2, timeout=120)
    return shared_cluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of two worker processes of Dask on this machine, which all tests share.

    `LocalCluster` can wait for ever for a worker that a test has killed, so processes are started
    and killed here.
    """
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'boostrank[dask]'"
    )
    pytest.importorskip("xgboost", reason="XGBoost is not installed")
    # A scheduler, and two workers with their nannies.
    folder = tmp_path_factory.mktemp("dask")
    file = str(folder / "scheduler.json")
    dask = [sys.executable, "-m", "dask"]
    both = ["--scheduler-file", file, "--no-dashboard"]
    commands = (
        [*dask, "scheduler", *both, "--host", "127.0.0.1", "--port", "0"],
        [*dask, "worker", *both, "--nworkers", "2", "--nthreads", "1", "--memory-limit", "0"],
    )
    with open(folder / "log", "wb") as log:
        started = [
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            for command in commands
        ]
    try:
        client = distributed.Client(scheduler_file=file, timeout=120)
        client.wait_for_workers(2, timeout=120)
        yield client
        with contextlib.suppress(Exception):
            client.close(timeout=10)
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


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


def ndcg(model: boostrank.RankingModel, data: RankingDataset, **options: Any) -> float:
    """Mean ndcg@10 of a model on a dataset."""
    scores = model.predict(data, **options)
    return boostrank.Metric.parse("ndcg@10").evaluate(data.labels, scores, data.queries).mean
