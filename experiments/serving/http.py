"""Latency of `boostrank serve` against calling the library, and its memory over a million rows.

    python -m experiments.serving.http

One client on the same machine, one connection, one thread. The library gets the same rows as an
array in memory; HTTP also pays for JSON.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from boostrank.data.synthetic import make_ranking_data

PARAMS = {"objective": "listnet", "num_leaves": 31, "num_threads": 1, "verbosity": -1}
REQUESTS = 300
ROWS = 1_000_000


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Milliseconds: p50 and p99."""
    return tuple(1e3 * np.percentile(seconds, [50, 99]))  # type: ignore[return-value]


def memory(process: subprocess.Popen[Any]) -> float:
    """Resident megabytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1e3


def main() -> None:
    data = make_ranking_data(queries=300, seed=1, mean_length=20).dataset
    model = boostrank.train(PARAMS, data, 100)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        model.save(path)
        command = [
            sys.executable,
            "-m",
            "boostrank",
            "serve",
            path,
            "--port",
            "0",
            "--threads",
            "1",
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            measure(model, process)
        finally:
            process.terminate()
            process.wait()


def measure(model: boostrank.RankingModel, process: subprocess.Popen[Any]) -> None:
    host, port = process.stderr.readline().split("http://")[1].split("/")[0].split(":")  # type: ignore[union-attr]
    connection = http.client.HTTPConnection(host, int(port))

    def post(body: bytes) -> list[float]:
        connection.request("POST", "/score", body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())["scores"]  # type: ignore[no-any-return]

    rng = np.random.default_rng(0)
    print(
        "| rows | library p50 | p99 | HTTP p50 | p99 | ratio p50 | p99 |\n|---|---|---|---|---|---|---|"
    )
    for count in (1, 10, 100, 1000):
        rows = rng.normal(size=(count, model.n_features))
        body = json.dumps({"rows": rows.tolist()}).encode()
        expected = model.predict(rows, threads=1).tolist()
        library, served = [], []
        for _ in range(REQUESTS):
            began = time.perf_counter()
            model.predict(rows, threads=1)
            library.append(time.perf_counter() - began)
            began = time.perf_counter()
            scores = post(body)
            served.append(time.perf_counter() - began)
            assert scores == expected
        (a, b), (c, d) = percentiles(library), percentiles(served)
        print(f"| {count} | {a:.3f} ms | {b:.3f} | {c:.3f} | {d:.3f} | {c / a:.1f} | {d / b:.1f} |")
    for done in range(0, ROWS, 1000):
        if done % 200_000 == 0:
            print(f"{done:,} rows: {memory(process):.0f} MB")
        post(body)
    print(f"{ROWS:,} rows: {memory(process):.0f} MB")


if __name__ == "__main__":
    main()
