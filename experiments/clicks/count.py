"""Cost of adding up session logs: `count-clicks`, and the same sums by polars, DuckDB and Arrow, one after the other.

    python -m experiments.clicks.count [--rows 100000000] [--folder DIR] [--python PYTHON]

PYTHON is an interpreter with polars, duckdb and pyarrow; what it lacks is left out. See README.md in this folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench_scale.routes import Peak

DOCUMENTS, POSITIONS = 250_000, 10
PEERS = ("polars", "duckdb", "pyarrow")
_ROW_GROUP = 1_000_000


def main() -> None:
    """Measure, and write table and numbers."""
    from experiments.common import arguments, markdown, save  # which PYTHON needs no packages for

    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000_000, help="impressions")
    parser.add_argument("--folder", type=Path, default=None, help="where the file goes: 0.6 GB; default: TMPDIR")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has polars and duckdb")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "count.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="boostrank-count-", dir=options.folder) as folder:
        file = Path(folder, "sessions.parquet")
        write(file, options.rows)
        results = {}
        for name in ("count-clicks", *PEERS):
            python = sys.executable if name == "count-clicks" else options.python
            done = subprocess.run(
                [python, "-m", __spec__.name, "sum", name, str(file)], stdout=subprocess.PIPE, check=False, text=True
            )
            if done.returncode == 0:
                results[name] = json.loads(done.stdout)
    rows = [
        [name, f"{cost['entries']:,}", f"{cost['cpu']:.1f}", f"{cost['wall']:.1f}", f"{cost['peak_mb']:,.0f}"]
        for name, cost in results.items()
    ]
    save(options.out, markdown(["", "entries", "CPU s", "wall s", "peak anonymous MB"], rows), results)
    print(options.out.read_text(), end="")


def write(file: Path, rows: int) -> None:
    """Impressions of documents, some much more often shown than others."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"row": pa.int64(), "position": pa.int8(), "clicked": pa.bool_(), "device": pa.string()}
    schema, rng = pa.schema(kinds), np.random.default_rng(0)
    with parquet.ParquetWriter(file, schema) as writer:
        for first in range(0, rows, _ROW_GROUP):
            n = min(_ROW_GROUP, rows - first)
            row = (DOCUMENTS * rng.random(n) ** 1.5).astype(np.int64) + 1
            position = rng.integers(1, POSITIONS + 1, n).astype(np.int8)
            devices = np.array(["desktop", "mobile", "tablet"])[rng.integers(0, 3, n)]
            columns = [row, position, rng.random(n) < 0.3 / position, devices]
            writer.write_table(pa.table([pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)],
                                        schema=schema))  # fmt: skip


def entries(name: str, file: str) -> int:
    """Sums of impressions and clicks by document and position; their number."""
    if name == "count-clicks":
        from boostrank.clicks.sessions import count_clicks

        return int(count_clicks([file]).rows.size)
    if name == "polars":
        import polars as pl

        sums = [pl.len().alias("impressions"), pl.col("clicked").sum()]
        return int(pl.scan_parquet(file).group_by("row", "position").agg(*sums).collect(engine="streaming").height)
    if name == "duckdb":
        import duckdb  # type: ignore[import-not-found, unused-ignore]

        query = f"select row, position, count(*) as n, sum(clicked::int) as c from '{file}' group by row, position"
        return len(duckdb.sql(query).fetchnumpy()["n"])
    from pyarrow import acero, compute, dataset

    fields = {column: compute.field(column) for column in ("row", "position", "clicked")}
    scan = acero.Declaration("scan", acero.ScanNodeOptions(dataset.dataset(file), columns=fields))
    counts: Any = [("clicked", "hash_count", None, "n"), ("clicked", "hash_sum", None, "c")]
    summed = acero.Declaration("aggregate", acero.AggregateNodeOptions(counts, keys=["row", "position"]))
    return int(acero.Declaration.from_sequence([scan, summed]).to_table().num_rows)


def cost(name: str, file: str) -> dict[str, Any]:
    """Entries, CPU and wall seconds and the peak of memory, imports included; the file is in the page cache."""
    with open(file, "rb") as source:
        while source.read(1 << 23):
            pass
    with Peak() as peak:
        before, started = os.times(), time.perf_counter()
        found = entries(name, file)
        after, wall = os.times(), time.perf_counter() - started
    cpu = after.user + after.system - before.user - before.system
    return {"entries": found, "cpu": cpu, "wall": wall, "peak_mb": peak.mb}


if __name__ == "__main__":
    if sys.argv[1:2] == ["sum"]:
        print(json.dumps(cost(sys.argv[2], sys.argv[3])))
    else:
        main()
