"""Cost of the presets beside LightGBM's LambdaRank with its own defaults, to as many rounds.

    python -m experiments.bench.quality [--threads 2] [--rows 200000] [--rounds 100] [--presets
    quick,good]

See README.md in this folder. All are taken in turns, in one process; times are of this machine,
now, and of LightGBM's bins too, but not of reading.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from rich.console import Console

import boostrank
from boostrank import RankingDataset, train
from boostrank.core.machine import resolve_threads
from experiments.bench_scale.data import write_dense
from experiments.common import arguments, markdown, save

LIGHTGBM = "lightgbm lambdarank"


def main() -> None:
    """Measure, and write the table and its numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000, help="of 136 features")
    parser.add_argument("--rounds", type=int, default=100, help="of every training")
    parser.add_argument("--presets", default="quick,good")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "quality.md")
    options = parser.parse_args()
    threads, console = resolve_threads(options.threads), Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        write_dense(Path(folder) / "dense.txt", options.rows)
        data = boostrank.read(Path(folder) / "dense.txt")
    ways: dict[str, Callable[[], Any]] = {
        LIGHTGBM: lambda: _lightgbm(data, options.rounds, threads)
    }
    for preset in options.presets.split(","):
        ways[preset] = lambda preset=preset: _preset(data, options.rounds, threads, preset)
    warm = data.take(np.arange(60))
    for preset in options.presets.split(","):
        _preset(warm, 2, threads, preset)  # compiles
    seconds: dict[str, list[list[float]]] = {name: [] for name in ways}
    rounds: dict[str, int] = {}
    for _ in range(options.repeats):
        for name, way in ways.items():
            before = time.perf_counter(), time.process_time()
            rounds[name] = way()
            seconds[name].append([time.perf_counter() - before[0], time.process_time() - before[1]])
            console.print(
                f"{name}: {seconds[name][-1][0]:.1f} s, {seconds[name][-1][1]:.1f} s of CPU"
            )
    base, rows = np.array(seconds[LIGHTGBM]), []
    for name, found in seconds.items():
        times = np.array(found) / base
        each = [f"{np.median(one):.2f} ({one.min():.2f} to {one.max():.2f})" for one in times.T]
        rows.append([name, f"{np.median(np.array(found)[:, 0]):.1f}", *each, str(rounds[name])])
    head = ["", "seconds", "times, wall", "times, CPU", "rounds of the model"]
    about = (
        f"{data.n_documents:,} x {data.n_features}, {options.rounds} rounds of each training,"
        f" {threads} threads."
    )
    save(
        options.out,
        f"{about}\n\n{markdown(head, rows)}",
        {"seconds": seconds, "rows": data.n_documents},
    )
    print(options.out.read_text(), end="")


def _preset(data: RankingDataset, rounds: int, threads: int, preset: str) -> int:
    own = {"verbosity": -1, "num_threads": threads}
    return train(own, data, rounds, quality=preset).best_iteration


def _lightgbm(data: RankingDataset, rounds: int, threads: int) -> int:
    params = {"objective": "lambdarank", "metric": "none", "verbosity": -1, "num_threads": threads}
    rows = lightgbm.Dataset(data.features, data.labels, group=data.queries.sizes)
    return lightgbm.train(params, rows, rounds).current_iteration()


if __name__ == "__main__":
    main()
