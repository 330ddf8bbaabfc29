"""One route in one process: what it costs in time and in anonymous memory.

    python -m experiments.bench_scale.routes ROUTE FILE [FOLDER]

Prints one JSON object. The peak is of `RssAnon` (/proc/self/status), sampled every few
milliseconds: memory that the kernel cannot drop, without the pages of files.
"""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boostrank

ROUNDS = 5
_EVERY = 0.004
_PARAMS = {
    "objective": "shf-sdcg",
    "num_leaves": 63,
    "learning_rate": 0.1,
    "verbosity": -1,
    "num_threads": 2,
}


class Peak:
    """The largest `RssAnon` while the block runs, in MB."""

    def __enter__(self) -> Peak:
        self.mb, self._done = _anonymous(), threading.Event()
        self.before, self.at, self._started = self.mb, 0.0, time.perf_counter()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_EVERY):
            now = _anonymous()
            if now > self.mb:
                self.mb, self.at = now, time.perf_counter() - self._started


def _anonymous() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1000
    return float("nan")


def read_ours(file: str, folder: str) -> dict[str, Any]:
    """The reader, two threads."""
    from boostrank.files.assemble import read_files as read_libsvm

    data = read_libsvm(file, threads=2)
    size = data.features.data.nbytes if data.is_sparse else data.features.nbytes
    return {"rows": data.n_documents, "result_mb": size * (2 if data.is_sparse else 1) / 1e6}


def read_xgboost(file: str, folder: str) -> dict[str, Any]:
    """XGBoost's text reader, two threads."""
    import xgboost

    return {"rows": xgboost.DMatrix(f"{file}?format=libsvm", nthread=2).num_row()}


def read_sklearn(file: str, folder: str) -> dict[str, Any]:
    """scikit-learn's."""
    from sklearn.datasets import load_svmlight_file

    return {"rows": load_svmlight_file(file, query_id=True)[0].shape[0]}


def lightgbm_memory(file: str, folder: str) -> dict[str, Any]:
    """LightGBM, floats in memory."""

    return _trained(boostrank.read(file, threads=2), "lightgbm")


def lightgbm_stream(file: str, folder: str) -> dict[str, Any]:
    """LightGBM, streamed into bins; the cache is written, or used."""
    return _trained(_stream(file, folder), "lightgbm")


def xgboost_memory(file: str, folder: str) -> dict[str, Any]:
    """XGBoost, floats in memory."""

    return _trained(boostrank.read(file, threads=2), "xgboost")


def xgboost_stream(file: str, folder: str) -> dict[str, Any]:
    """XGBoost, streamed into bins in memory."""
    return _trained(_stream(file, folder), "xgboost")


def xgboost_external(file: str, folder: str) -> dict[str, Any]:
    """XGBoost, streamed into bins on disk."""
    return _trained(_stream(file, folder, external_memory=True), "xgboost")


def _stream(file: str, folder: str, **options: Any) -> Any:

    return boostrank.stream(file, cache=folder, threads=2, **options)


def _trained(data: Any, backend: str) -> dict[str, Any]:
    import boostrank

    read = time.perf_counter()
    first: list[float] = []

    def note(env: Any) -> None:
        first.append(time.perf_counter())

    note.before_iteration = True  # type: ignore[attr-defined]
    model = boostrank.train(
        _PARAMS, data, ROUNDS, valid_sets=[data], callbacks=[note], backend=backend
    )
    done, ndcg = time.perf_counter(), model.evals_result["training"]["ndcg@10"][-1]
    return {
        "rows": data.n_documents,
        "read_at": read,
        "first_round_at": first[0],
        "trained_at": done,
        "ndcg@10": ndcg,
    }


ROUTES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    f.__name__: f
    for f in (
        read_ours,
        read_xgboost,
        read_sklearn,
        lightgbm_memory,
        lightgbm_stream,
        xgboost_memory,
        xgboost_stream,
        xgboost_external,
    )
}


def _load(engine: str) -> None:
    """A route is measured from loaded packages and compiled kernels on."""
    import numpy as np

    import boostrank
    from boostrank.data.dataset import RankingDataset
    from boostrank.files.assemble import read_files as read_libsvm

    read_libsvm(io.BytesIO(b"1 qid:1 1:2 2:0.5\n0 qid:1 1:1\n"))
    if engine != "read":
        rng = np.random.default_rng(1)
        data = RankingDataset.from_arrays(
            rng.random((200, 3)), rng.integers(0, 5, 200), group=[100, 100]
        )
        boostrank.train(_PARAMS, data, 1, valid_sets=[data], backend=engine)


def main() -> None:
    """Run the route that the command line names."""
    name, file, *folder = sys.argv[1:]
    _load(name.split("_")[0])
    with Peak() as peak:
        started, worked = time.perf_counter(), time.process_time()
        result = ROUTES[name](file, folder[0] if folder else "")
        result["seconds"] = time.perf_counter() - started
        result["cpu_seconds"] = time.process_time() - worked
    for key in [k for k in result if k.endswith("_at")]:
        result[key] -= started
    print(
        json.dumps(
            result
            | {"route": name, "peak_anon_mb": peak.mb, "before_mb": peak.before, "peak_s": peak.at}
        )
    )


if __name__ == "__main__":
    main()
