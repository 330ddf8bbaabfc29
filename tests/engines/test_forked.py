"""Engines in a forked process, where OpenMP waits for ever for threads that the parent has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import multiprocessing, os, signal, sys, warnings
import numpy as np
import boostrank
from boostrank.metrics import evaluate

signal.alarm(500)  # ends what hangs
backend, path = sys.argv[1:]
rng = np.random.default_rng(0)
features = rng.normal(size=(2000, 8)).astype(np.float32)
labels = np.digitize(features[:, 0] + rng.normal(size=2000), [0.0, 1.0])
data = boostrank.RankingDataset.from_arrays(features, labels, qid=np.arange(2000) // 10)
params = {"num_leaves": 7, "verbosity": -1, "num_threads": 2}


def results(model):
    yield "predict", model.predict(features, threads=2)
    yield "contributions", model.contributions(features[:500], threads=2)
    yield "load", boostrank.RankingModel.load(path).predict(features, threads=2)
    yield "train", boostrank.train(params, data, 2, backend=backend).predict(features, threads=1)
    yield "go on", boostrank.train(params, data, 2, backend=backend, init_model=model).predict(features, threads=1)
    measured = evaluate("ndcg@10", labels, features[:, 0], np.arange(2000) // 10)
    yield "metric", np.array([one.mean for one in measured.values()])


model = boostrank.train(params, data, 2, backend=backend)
model.save(path)
expected = dict(results(model))


def child(_=None):
    signal.alarm(200)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, found in results(model):
            assert np.array_equal(found, expected[name]), name
    warned = [str(one.message) for one in caught if "forked" in str(one.message)]
    assert len(warned) == 1 and "'spawn'" in warned[0], warned
    return "done"


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks of processes with threads
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(child, [0]).get(220) == ["done"]
    if (pid := os.fork()) == 0:
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_a_forked_process_scores_and_trains_as_its_parent_and_says_that_it_takes_one_thread(
    backend: str, tmp_path: Path
) -> None:
    pytest.importorskip(backend)
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", SCRIPT, backend, str(tmp_path / "model")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stderr
