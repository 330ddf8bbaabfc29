"""Linear start: what it gives on either engine, on the test files of every data set, over seeds.

    python -m experiments.start.run [--seeds 6]

See README.md in this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import Metric, paired_difference
from experiments.common import arguments, data_root, interval, markdown, save

SETS = {
    "lambdarank-example": ["lambdarank-example"],
    "mslr-sample": ["mslr-sample"],
    "ohsumed": [f"ohsumed/Fold{k}" for k in range(1, 6)],
    "sparse-long": ["sparse-long"],
}
ENGINES: dict[str, dict[str, Any]] = {
    "lightgbm": {"verbosity": -1, "bagging_freq": 1},
    "xgboost": {},
}
# Nothing is tuned.
TREES = {"learning_rate": 0.05, "num_leaves": 31, "feature_fraction": 0.7, "bagging_fraction": 0.8}
ROUNDS = 150
METRIC = Metric.parse("ndcg@10")


def main() -> None:
    """Train with a start and without, compare query by query, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "start.md")
    options = parser.parse_args()
    root = data_root(options.data_root)
    console = Console(stderr=True)
    rows, numbers = [], []
    gains: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for name, folders in SETS.items():
        for engine in ENGINES:
            with_start, without = (
                measured(root, folders, engine, start, options.seeds, options.threads)
                for start in ("auto", "none")
            )
            paired = paired_difference(with_start, without)
            gains[engine].append(paired.mean)
            rows.append(
                [
                    name,
                    engine,
                    interval(without),
                    f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}]",
                ]
            )
            numbers.append(
                {
                    "set": name,
                    "engine": engine,
                    "gain": paired.mean,
                    "low": paired.low,
                    "high": paired.high,
                }
            )
            console.print(f"{name}, {engine}: done")
    rows += [
        ["mean of the sets", engine, "-", f"{np.mean(gain):+.4f}"] for engine, gain in gains.items()
    ]
    save(
        options.out,
        markdown(["set", "engine", "ndcg@10 without", "gain by the start, paired"], rows),
        numbers,
    )
    print(options.out.read_text(), end="")


def measured(
    root: Path, folders: list[str], engine: str, start: str, seeds: int, threads: int | None
) -> Any:
    """NDCG@10 of every test query of all folders, the mean over seeds."""
    found = []
    for folder in folders:
        train = boostrank.read(root / folder / "train.txt")
        test = boostrank.read(root / folder / "test.txt", n_features=train.n_features)
        limits = {"num_threads": threads} if threads else {}
        values = []
        for seed in range(1, seeds + 1):
            params = {**TREES, **ENGINES[engine], **limits, "seed": seed}
            model = boostrank.train(params, train, ROUNDS, backend=engine, start=start)
            values.append(METRIC.evaluate(test.labels, model.predict(test), test.queries).per_query)
        found.append(np.mean(values, axis=0))
    return np.concatenate(found)


if __name__ == "__main__":
    main()
