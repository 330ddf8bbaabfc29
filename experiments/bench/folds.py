"""Cost of four folds beside one training of the same settings.

    python -m experiments.bench.folds [--threads 2] [--backend lightgbm] [--sets made,dense]
    [--repeats 3]

See README.md in this folder. Both are taken in turns, in one process; times are of this machine,
now.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

import boostrank
from boostrank import RankingDataset, train
from boostrank.core.errors import DataWarning
from boostrank.core.machine import resolve_threads
from boostrank.data.synthetic import make_ranking_data
from experiments.bench_scale.data import write_dense
from experiments.common import arguments, data_root, markdown, save

FOLDS = 4
REPEATS = 3
WAYS: dict[str, dict[str, Any]] = {
    "100 rounds": {"num_boost_round": 100},
    "early stopping": {"num_boost_round": 300, "early_stopping_round": 20},
}
REAL = {"mslr-sample": "mslr-sample/train.txt", "sparse-long": "sparse-long/train.txt"}
MADE_QUERIES, DENSE_ROWS = 6_000, 200_000
SETS = (*REAL, "made", "dense")


def main() -> None:
    """Measure, and write the table and its numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--backend", default="lightgbm")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "folds.md")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        threads = resolve_threads(options.threads)
        found += measured(
            name, options.data_root, threads, Console(stderr=True), options.backend, options.repeats
        )
    save(options.out, table(found), found)
    print(options.out.read_text(), end="")


def measured(
    name: str,
    root: Path | None,
    threads: int,
    console: Console,
    backend: str = "lightgbm",
    repeats: int = REPEATS,
) -> list[dict[str, Any]]:
    """A row each way: wall and CPU seconds of one training and of the folds, by turn; and their
    rounds.

    Both train on four fifths of the queries; the last fifth, as many as a fold has, stops the one
    training.
    """
    data = read(name, root)
    if data is None:
        console.print(f"{name}: no data, left out")
        return []
    part = np.random.default_rng(0).permutation(len(data.queries)) % (FOLDS + 1)
    trained, watched = data.take(np.flatnonzero(part)), data.take(np.flatnonzero(part == 0))
    own = {"verbosity": -1, "num_threads": threads}
    train(own, watched, 2, folds=2, backend=backend)  # compiles
    found = []
    for way, limits in WAYS.items():
        params = own | limits
        row: dict[str, Any] = {
            "set": name,
            "rows": trained.n_documents,
            "way": way,
            "threads": threads,
        }
        row |= {"backend": backend, "one": [], "folds": []}
        for _ in range(repeats):
            before = _clocks()
            stops = [watched] if "early_stopping_round" in limits else None
            one = train(params, trained, valid_sets=stops, backend=backend)
            between = _clocks()
            folds = train(params, trained, folds=FOLDS, backend=backend)
            after = _clocks()
            row["one"].append((between - before).tolist())
            row["folds"].append((after - between).tolist())
        row |= {
            "rounds of one": one.best_iteration,
            "rounds of folds": folds.info["folds"]["rounds"],
        }
        console.print(
            f"{name}, {way}, {threads} threads: {np.median(ratios(row), axis=0).round(2)} times"
            " (wall, CPU)"
        )
        found.append(row)
    return found


def read(name: str, root: Path | None) -> RankingDataset | None:
    """A set; None where it is not there."""
    if name == "made":
        return make_ranking_data(queries=MADE_QUERIES, seed=1).dataset
    if name == "dense":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "dense.txt"
            write_dense(path, DENSE_ROWS)
            return boostrank.read(path)
    try:
        path = data_root(root) / REAL[name]
    except SystemExit:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # its last line has no newline
        return boostrank.read(path)


def _clocks() -> npt.NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


def ratios(row: dict[str, Any]) -> npt.NDArray[np.float64]:
    """float64[turns, 2]: wall and CPU seconds of the folds over those of one training."""
    return np.asarray(np.array(row["folds"]) / np.array(row["one"]), dtype=np.float64)


def table(found: list[dict[str, Any]]) -> str:
    """A line each set and way."""
    lines = []
    for row in found:
        wall, cpu = ratios(row).T
        one, folds = (np.median(np.array(row[what]), axis=0) for what in ("one", "folds"))
        lines.append(
            [
                row["set"],
                f"{row['rows']:,}",
                row["way"],
                str(row["threads"]),
                f"{one[0]:.2f}",
                f"{folds[0]:.2f}",
                f"{np.median(wall):.2f} ({wall.min():.2f} to {wall.max():.2f})",
                f"{np.median(cpu):.2f} ({cpu.min():.2f} to {cpu.max():.2f})",
                f"{row['rounds of one']}; {', '.join(map(str, row['rounds of folds']))}",
            ]
        )
    head = [
        "set",
        "rows",
        "way",
        "threads",
        "one, s",
        "four folds, s",
        "times, wall",
        "times, CPU",
        "best rounds",
    ]
    engine = found[0]["backend"] if found else "-"
    return f"Four folds beside one training, {engine}, medians over the turns.\n\n" + markdown(
        head, lines
    )


if __name__ == "__main__":
    main()
