"""Cost of files larger than memory: reading, the way to a trained model, the second start.

    python -m experiments.bench_scale.run [--rows 1000000] [--folder DIR] [--limited GB]

See README.md in this folder. Every route runs in a process of its own; files are generated, and
removed afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.bench_scale.data import (
    BYTES_A_ROW,
    DENSE_FEATURES,
    SPARSE_FEATURES,
    write_dense,
    write_sparse,
)
from experiments.common import arguments, markdown, save

SMALL = 200_000
READERS = ("read_ours", "read_xgboost", "read_sklearn")
TRAININGS = (
    "lightgbm_memory",
    "lightgbm_stream",
    "lightgbm_stream_again",
    "xgboost_memory",
    "xgboost_stream",
    "xgboost_external",
)
_CHUNK = 8 << 20


def main() -> None:
    """Measure, and write table and numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large file")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the files go: 12 GB; default: TMPDIR"
    )
    parser.add_argument(
        "--limited",
        type=float,
        default=3.0,
        help="GB of text for the training under a third; 0: none",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "out" / "bench_scale.md"
    )
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="boostrank-bench-", dir=options.folder) as name:
        results = measure(Path(name), options.rows, console)
        if options.limited:
            results |= limited(Path(name), options.limited, console)
    save(options.out, report(results), results)
    print(options.out.read_text(), end="")


def measure(folder: Path, rows: int, console: Console) -> dict[str, Any]:
    """File -> route -> measurement."""
    results: dict[str, Any] = {}
    for name, write, size, readers in (
        ("dense small", write_dense, SMALL, READERS),
        ("dense", write_dense, rows, READERS[:2]),
        ("sparse", write_sparse, SMALL, READERS[:2]),
    ):
        file = folder / f"{name.replace(' ', '-')}.txt"
        console.print(f"writing {size:,} rows: {name}")
        write(file, size)
        found = results[name] = {"mb": file.stat().st_size / 1e6}
        for reader in readers:
            found[reader] = route(reader, file, folder, console)
        if name != "dense small":
            for training in TRAININGS:
                found[training] = route(training, file, folder, console)
            cache = [p for p in (folder / "cache").iterdir() if p.is_file()]
            columns = DENSE_FEATURES if name == "dense" else SPARSE_FEATURES
            found["cache_bytes_a_cell"] = sum(p.stat().st_size for p in cache) / (
                found["read_ours"]["rows"] * columns
            )
            shutil.rmtree(folder / "cache")
        file.unlink()
    return results


def limited(folder: Path, gigabytes: float, console: Console) -> dict[str, Any]:
    """A file three times as large as the memory that its training may take, streamed, and beside it
    in memory.
    """
    file = folder / "large.txt"
    write_dense(file, int(gigabytes * 1e9 / BYTES_A_ROW))
    found: dict[str, Any] = {"mb": file.stat().st_size / 1e6, "limit_mb": file.stat().st_size / 3e6}
    for training in ("lightgbm_stream", "lightgbm_memory", "xgboost_external", "xgboost_memory"):
        found[training] = route(training, file, folder, console)
        shutil.rmtree(folder / "cache", ignore_errors=True)
    file.unlink()
    return {"limited": found}


def route(name: str, file: Path, folder: Path, console: Console) -> dict[str, Any]:
    """One route in its own process, on a file that is in the page cache."""
    with file.open("rb") as source:
        while source.read(_CHUNK):
            pass
    real = name.removesuffix("_again")
    command = [
        sys.executable,
        "-m",
        "experiments.bench_scale.routes",
        real,
        str(file),
        str(folder / "cache"),
    ]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )
    if done.returncode:
        console.print(f"{name}: failed with status {done.returncode}")
        return {"failed": done.returncode}
    cost: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    console.print(
        f"{name}: {cost['seconds']:.1f} s ({cost['cpu_seconds']:.1f} of CPU),"
        f" {cost['peak_anon_mb']:.0f} MB"
    )
    return cost


def report(results: dict[str, Any]) -> str:
    """The tables."""
    parts = []
    for name, found in results.items():
        rows = []
        for route_name, cost in found.items():
            if not isinstance(cost, dict):
                continue
            if "failed" in cost:
                rows.append([route_name, "failed", "", "", "", "", ""])
                continue
            rows.append(
                [
                    route_name,
                    f"{cost['seconds']:.1f}",
                    f"{cost['cpu_seconds']:.1f}",
                    f"{found['mb'] / cost['seconds']:.0f}" if route_name.startswith("read") else "",
                    f"{cost['first_round_at']:.2f}" if "first_round_at" in cost else "",
                    f"{cost['peak_anon_mb']:.0f}",
                    f"{cost['ndcg@10']:.4f}" if "ndcg@10" in cost else "",
                ]
            )
        header = ["route", "s", "CPU s", "MB/s", "s to first round", "peak anonymous MB", "NDCG@10"]
        cache = (
            f"; cache {found['cache_bytes_a_cell']:.2f} bytes a cell"
            if "cache_bytes_a_cell" in found
            else ""
        )
        limit = f"; limit {found['limit_mb']:.0f} MB" if "limit_mb" in found else ""
        parts.append(
            f"## {name}: {found['mb']:,.0f} MB of text{cache}{limit}\n\n{markdown(header, rows)}"
        )
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
