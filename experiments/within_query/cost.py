"""Columns within queries: the time that they take beside reading the file that they are of.

    python -m experiments.within_query.cost [--copies 12]

See README.md in this folder.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import boostrank
from boostrank.model.query_columns import WithinQuery
from experiments.common import arguments, data_root, markdown

REPEATS = 15


def main() -> None:
    """Read copies of the MSLR sample, compute the columns of all its features, and print the least
    times.
    """
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--copies", type=int, default=12)
    options = parser.parse_args()
    text = (data_root(options.data_root) / "mslr-sample" / "train.txt").read_text().splitlines()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        with path.open("w") as file:
            for copy in range(options.copies):
                file.writelines(
                    f"{line.replace('qid:', f'qid:{copy + 1}00000', 1)}\n" for line in text
                )
        seconds: dict[str, list[float]] = {}
        for _ in range(REPEATS):
            started = time.perf_counter()
            data = boostrank.read(path, threads=options.threads)
            seconds.setdefault("reading the file", []).append(time.perf_counter() - started)
            for kinds in ("rank", "zscore", "best,mean", "rank,zscore"):
                columns = WithinQuery(kinds).columns(data.feature_names, 1)
                started = time.perf_counter()
                columns.dataset(data, options.threads or len(os.sched_getaffinity(0)))
                seconds.setdefault(kinds, []).append(time.perf_counter() - started)
    rows = [
        [name, f"{min(took):.3f} s", f"{data.n_documents / min(took):,.0f}"]
        for name, took in seconds.items()
    ]
    print(
        markdown(
            [
                f"{data.n_documents:,} rows x {data.n_features} features",
                f"least of {REPEATS}",
                "rows a second",
            ],
            rows,
        )
    )


if __name__ == "__main__":
    main()
