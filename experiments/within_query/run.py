"""Columns within queries: what they give on either engine, on the test files of every data set,
over seeds.

    python -m experiments.within_query.run [--seeds 3]

See README.md in this folder.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import Metric, paired_difference
from experiments.common import arguments, data_root, interval, markdown, save
from experiments.start.run import ENGINES, ROUNDS, SETS, TREES

KINDS = ("rank,zscore", "zscore")
METRIC = Metric.parse("ndcg@10")


def main() -> None:
    """Train with the columns and without, compare query by query, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "out" / "within_query.md"
    )
    options = parser.parse_args()
    root = data_root(options.data_root)
    console = Console(stderr=True)
    rows, numbers = [], []
    for name in options.sets:
        for engine in options.engines:
            params = {**TREES, **ENGINES[engine]} | (
                {"num_threads": options.threads} if options.threads else {}
            )
            began = time.monotonic()
            without, found = measured(root, SETS[name], engine, params, options.seeds)
            differences = [paired_difference(found[kinds], without) for kinds in KINDS]
            words = [f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]" for one in differences]
            rows.append([name, engine, interval(without), *words])
            numbers.append(
                {"set": name, "engine": engine}
                | {
                    kinds: [one.mean, one.low, one.high]
                    for kinds, one in zip(KINDS, differences, strict=True)
                }
            )
            console.print(f"{name}, {engine}: {time.monotonic() - began:.0f} s", rows[-1])
            save(options.out, markdown(["set", "engine", "ndcg@10 without", *KINDS], rows), numbers)
    print(options.out.read_text(), end="")


def measured(
    root: Path, folders: list[str], engine: str, params: dict[str, Any], seeds: int
) -> Any:
    """NDCG@10 of every test query of all folders, the mean over seeds: without, and with each kind."""
    found: dict[str | None, list[Any]] = {kinds: [] for kinds in (None, *KINDS)}
    for folder in folders:
        train = boostrank.read(root / folder / "train.txt")
        test = boostrank.read(root / folder / "test.txt", n_features=train.n_features)
        for kinds, values in found.items():
            scores = []
            for seed in range(1, seeds + 1):
                model = boostrank.train(
                    {**params, "seed": seed}, train, ROUNDS, backend=engine, within_query=kinds
                )
                scores.append(
                    METRIC.evaluate(test.labels, model.predict(test), test.queries).per_query
                )
            values.append(np.mean(scores, axis=0))
    joined = {kinds: np.concatenate(values) for kinds, values in found.items()}
    return joined.pop(None), joined


if __name__ == "__main__":
    main()
