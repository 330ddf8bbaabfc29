"""Cost of workers: two on one machine against one process of as many threads, in CPU seconds and
bytes a round.

    make experiment NAME=bench-clusters

Each run is a process, whose CPU seconds include those of its workers. Runs with few and with many
rounds alternate, so that the load of the machine hits all of them alike; a round costs the
difference. Bytes are those of the loopback device, which has no other traffic in a network
namespace of its own (`unshare`, where that is allowed).
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import boostrank

ROUNDS = (20, 80)
PARAMS = {"objective": "lambdarank", "num_leaves": 63, "metric": "none", "verbosity": -1}
_ALONE = [
    "unshare",
    "-rn",
    "sh",
    "-c",
    'ip link set lo up 2>/dev/null || ifconfig lo up; exec "$@"',
    "sh",
]


def one(how: str, engine: str, rounds: int, shards: list[str]) -> None:
    """Train, and print the bytes of the loopback device."""

    if how == "one":
        data = boostrank.read(shards)
        boostrank.train(PARAMS | {"num_threads": 2}, data, rounds, backend=engine)
    else:
        boostrank.cluster.train(
            "local:2", PARAMS | {"num_threads": 1}, shards, rounds, backend=engine
        )
    print(
        next(
            line.split()[1]
            for line in Path("/proc/net/dev").read_text().splitlines()
            if " lo:" in line
        )
    )


def measured(
    how: str, engine: str, rounds: int, shards: list[str], before: list[str]
) -> tuple[float, int]:
    """CPU seconds and bytes of one run."""
    command = [*before, sys.executable, "-W", "ignore", "-m", "experiments.bench_clusters.run"]
    process = subprocess.Popen(
        [*command, how, engine, str(rounds), *shards], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    words = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{how} {engine} ended with status {status}")
    return usage.ru_utime + usage.ru_stime, int(words.split()[-1])


def compared(engine: str, shards: list[str], before: list[str], repeats: int) -> dict[str, Any]:
    """Medians of paired runs."""
    cpu: dict[tuple[str, int], list[float]] = {}
    sent: dict[tuple[str, int], list[int]] = {}
    for _ in range(repeats):
        for rounds in ROUNDS:
            for how in ("one", "two"):
                seconds, size = measured(how, engine, rounds, shards, before)
                cpu.setdefault((how, rounds), []).append(seconds)
                sent.setdefault((how, rounds), []).append(size)
    few, many = ROUNDS
    rounds = many - few
    each = {
        how: [(b - a) / rounds for a, b in zip(cpu[how, few], cpu[how, many], strict=True)]
        for how in ("one", "two")
    }
    return {
        "engine": engine,
        "cpu": {how: statistics.median(cpu[how, many]) for how in ("one", "two")},
        "ratio": statistics.median(
            b / a for a, b in zip(cpu["one", many], cpu["two", many], strict=True)
        ),
        "round_cpu": {how: statistics.median(values) for how, values in each.items()},
        "round_ratio": statistics.median(
            b / a for a, b in zip(each["one"], each["two"], strict=True)
        ),
        "round_bytes": (
            (statistics.median(sent["two", many]) - statistics.median(sent["two", few])) / rounds
        ),
    }


def main(rows: int = 200_000, repeats: int = 3) -> None:
    """Measure both engines, and print a table."""
    from boostrank.data.synthetic import make_ranking_data

    isolated = (
        shutil.which("unshare") and subprocess.run([*_ALONE, "true"], check=False).returncode == 0
    )
    with tempfile.TemporaryDirectory() as folder:
        whole = make_ranking_data(queries=rows // 20, mean_length=20, seed=1).dataset
        shards = []
        for i, queries in enumerate(np.array_split(np.arange(len(whole.queries)), 2)):
            import pandas as pd

            part = whole.take(queries)
            frame = pd.DataFrame(np.asarray(part.features), columns=list(part.feature_names))
            shards.append(f"{folder}/{i}.parquet")
            ids = np.repeat(part.queries.qid, part.queries.sizes)
            frame.assign(label=part.labels, qid=ids).to_parquet(shards[-1])
        print(
            f"{whole.n_documents:,} rows, {whole.n_features} features, {ROUNDS[1]} rounds of 63"
            " leaves, 2 threads"
        )
        print(
            "| engine | CPU, one process | two workers | ratio | a round, one | two | ratio | bytes"
            " a round |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for engine in ("xgboost", "lightgbm"):
            found = compared(engine, shards, _ALONE if isolated else [], repeats)
            cpu, each = found["cpu"], found["round_cpu"]
            print(
                f"| {engine} | {cpu['one']:.1f} s | {cpu['two']:.1f} s | {found['ratio']:.2f} |"
                f" {each['one']:.3f} s | {each['two']:.3f} s | {found['round_ratio']:.2f} |"
                f" {found['round_bytes']:,.0f} |",
                flush=True,
            )
            print(json.dumps(found), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("one", "two"):
        one(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    else:
        main(*map(int, sys.argv[1:]))
