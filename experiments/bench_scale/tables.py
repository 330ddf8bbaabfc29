"""Cost of reading a table: the same rows as libsvm text, CSV, Parquet and Arrow.

    python -m experiments.bench_scale.tables [--rows 1000000] [--folder DIR]

Each reading runs in a process of its own, with one thread, and once more in which features stay on
disk. User and system time of the CPU are told apart: memory that is touched first costs the
system's, whatever the format.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import boostrank
from experiments.bench_scale.data import write_dense
from experiments.common import arguments, markdown, save

ENDINGS = ("txt", "csv", "parquet", "feather")
_ROW_GROUP = 100_000


def main() -> None:
    """Measure, and write table and numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the files go: 3 GB; default: TMPDIR"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "tables.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="boostrank-bench-", dir=options.folder) as folder:
        subprocess.run(
            [sys.executable, "-m", __spec__.name, "write", folder, str(options.rows)], check=True
        )
        results = {}
        for ending in ENDINGS:
            file = Path(folder, f"rows.{ending}")
            for how in ("read", "stream"):
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", "-m", __spec__.name, how, str(file)],
                    stdout=subprocess.PIPE,
                    check=True,
                )
                results[f"{how} {ending}"] = json.loads(done.stdout) | {
                    "mb": file.stat().st_size / 1e6
                }
    rows = [
        [
            name,
            f"{cost['mb']:,.0f}",
            f"{cost['user']:.2f}",
            f"{cost['system']:.2f}",
            f"{cost['peak_mb']:,.0f}",
        ]
        for name, cost in results.items()
    ]
    save(
        options.out, markdown(["", "MB", "user s", "system s", "peak anonymous MB"], rows), results
    )
    print(options.out.read_text(), end="")


def write(folder: str, rows: int) -> None:
    """The rows in every format."""
    import pyarrow as pa
    from pyarrow import csv, feather, parquet

    write_dense(Path(folder, "rows.txt"), rows)
    data = boostrank.read(Path(folder, "rows.txt"))
    features = {name: data.features[:, i].copy() for i, name in enumerate(data.feature_names)}
    table = pa.table({"label": data.labels, "qid": data.queries.row_ids(), **features})
    csv.write_csv(table, Path(folder, "rows.csv"))
    parquet.write_table(table, Path(folder, "rows.parquet"), row_group_size=_ROW_GROUP)
    feather.write_feather(table, str(Path(folder, "rows.feather")))


def read(how: str, file: str) -> dict[str, Any]:
    """CPU seconds and the peak of memory of one reading, by a process that has read such a file
    before.
    """
    from experiments.bench_scale.routes import Peak

    with open(file, "rb") as source:  # into the page cache
        while source.read(1 << 23):
            pass
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "small.txt")
        small.write_text("1 qid:1 1:2 2:0.5\n0 qid:1 1:1\n")
        boostrank.read(small)
        if not file.endswith(".txt"):
            import pyarrow as pa
            from pyarrow import parquet

            parquet.write_table(
                pa.table({"label": [1], "qid": [1], "a": [0.5]}), small.with_suffix(".parquet")
            )
            boostrank.read(small.with_suffix(".parquet"))
    with Peak() as peak:
        before = os.times()
        if how == "read":
            boostrank.read(file, threads=1)
        else:
            boostrank.stream(file, threads=1, cache=False)
        after = os.times()
    return {
        "user": after.user - before.user,
        "system": after.system - before.system,
        "peak_mb": peak.mb,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] in (["read"], ["stream"]):
        print(json.dumps(read(sys.argv[1], sys.argv[2])))
    else:
        main()
