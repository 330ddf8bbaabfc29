"""Time of `quick` to the NDCG that LightGBM's LambdaRank reaches with its own defaults.

    python -m experiments.bench.same_ndcg [--threads 2] [--sets mslr-sample,sparse-long,made]
    [--seeds 3]

See README.md in this folder. A third of the queries validates both, by NDCG as LightGBM counts it;
LightGBM stops after 50 rounds without gain, and the clock counts bins, the start and every round to
the first one that is as good.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from rich.console import Console

import boostrank
from boostrank import RankingDataset
from boostrank.core.machine import resolve_threads
from experiments.bench.folds import read
from experiments.common import arguments, markdown, save

METRIC, ROUNDS, PATIENCE = "ndcg@10", 1000, 50


class Clock:
    """Callback that keeps the time and the value of each round."""

    before_iteration = False
    order = 22

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self.times: list[float] = []
        self.values: list[float] = []

    def __call__(self, env: Any) -> None:
        self.times.append(time.perf_counter() - self._begun)
        self.values.append(float(env.evaluation_result_list[0][2]))

    def to(self, value: float) -> float:
        """Seconds to the first round with this value; NaN: never."""
        return next(
            (t for t, v in zip(self.times, self.values, strict=True) if v >= value), float("nan")
        )


def main() -> None:
    """Measure, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--sets", default="mslr-sample,sparse-long,made")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "same_ndcg.md")
    options = parser.parse_args()
    threads, console, rows = resolve_threads(options.threads), Console(stderr=True), []
    for name in options.sets.split(","):
        data = read(name, options.data_root)
        if data is None:
            console.print(f"{name}: no data, left out")
            continue
        times, values = [], []
        for seed in range(options.seeds + 1):  # the first one compiles
            part = np.random.default_rng(seed).permutation(len(data.queries)) % 3
            trained, watched = data.take(np.flatnonzero(part)), data.take(np.flatnonzero(part == 0))
            theirs = _lightgbm(trained, watched, seed, threads)
            best = max(theirs.values)
            ours = _quick(trained, watched, seed, threads)
            times.append([theirs.to(best), ours.to(best)])
            values.append([best, max(ours.values)])
        seconds, reached = np.array(times[1:]), np.array(values[1:])
        ratios = seconds[:, 1] / seconds[:, 0]
        each = ", ".join("never" if np.isnan(one) else f"{one:.2f}" for one in ratios)
        rows.append(
            [
                name,
                *(f"{one:.2f}" for one in np.nanmedian(seconds, axis=0)),
                each,
                *(f"{one:.4f}" for one in reached.mean(axis=0)),
            ]
        )
        console.print(f"{name}: {each}")
    head = [
        "set",
        "LightGBM, s",
        "quick to it, s",
        "times, each seed",
        "LightGBM's best NDCG",
        "quick's best",
    ]
    save(options.out, f"{threads} threads.\n\n{markdown(head, rows)}", rows)
    print(options.out.read_text(), end="")


def _quick(train: RankingDataset, valid: RankingDataset, seed: int, threads: int) -> Clock:
    own = {"verbosity": -1, "num_threads": threads, "seed": seed, "metric": METRIC}
    clock = Clock()
    boostrank.train(
        own, train, valid_sets=[valid], callbacks=[clock], conventions="lightgbm", quality="quick"
    )
    return clock


def _lightgbm(train: RankingDataset, valid: RankingDataset, seed: int, threads: int) -> Clock:
    params = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "verbosity": -1,
        "num_threads": threads,
    }
    clock = Clock()
    rows = lightgbm.Dataset(train.features, train.labels, group=train.queries.sizes)
    watched = lightgbm.Dataset(
        valid.features, valid.labels, group=valid.queries.sizes, reference=rows
    )
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    lightgbm.train(
        params | {"seed": seed}, rows, ROUNDS, valid_sets=[watched], callbacks=[clock, stop]
    )
    return clock


if __name__ == "__main__":
    main()
