"""Estimated and measured memory: the estimates of `boostrank.routes` for each route, and the peak of that
training.

    python -m experiments.bench_scale.estimates [--rows 60000] [--folder DIR]

Every training is a `boostrank train` of its own; its `RssAnon` is sampled from outside every 3 ms.
The last column is how far the estimate lies above the peak: it should stay between 0 and 40%.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from boostrank.routes import Work, routes_of, survey
from experiments.bench_scale.data import write_dense, write_sparse
from experiments.common import arguments, markdown, save

_EVERY = 0.003
_LEAVES = ("--num-leaves", "31")
_TRAIN = (*_LEAVES, "--threads", "2", "--rounds", "2")


def main() -> None:
    """Measure, and write table and numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the files go; default: TMPDIR"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "estimates.md")
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="boostrank-bench-", dir=options.folder) as name:
        for kind, write in (("dense", write_dense), ("sparse", write_sparse)):
            file = Path(name) / f"{kind}.txt"
            write(file, options.rows)
            results[kind] = measure(file)
            file.unlink()
    rows = [
        [
            kind,
            one["backend"],
            one["route"],
            f"{one['peak_bytes'] / 1e6:.0f}",
            f"{one['measured'] / 1e6:.0f}",
            f"{one['peak_bytes'] / one['measured'] - 1:+.0%}",
        ]
        for kind, routes in results.items()
        for one in routes
    ]
    save(
        options.out,
        markdown(["file", "engine", "route", "estimated MB", "measured MB", "error"], rows),
        results,
    )
    print(options.out.read_text(), end="")


def measure(file: Path) -> list[dict[str, Any]]:
    """The routes of the plan, each with the peak that was measured; the objective is compiled
    before.
    """
    work = Work(train=survey(str(file)))
    routes = [
        {"backend": r.backend, "route": r.name, "peak_bytes": r.peak} for r in routes_of(work)
    ]
    model = file.with_suffix(".model")
    _boostrank(
        "train",
        file,
        "--model",
        model,
        "--quality",
        "plain",
        "--cache",
        "none",
        "--route",
        "bins",
        *_TRAIN,
    )
    for one in routes:
        route = "bins" if one["route"] == "again" else one["route"]
        cache = [] if route == "memory" else ["--cache", file.with_suffix(".cache")]
        one["measured"] = _peak(
            "train",
            file,
            "--model",
            model,
            "--quality",
            "plain",
            "--backend",
            one["backend"],
            "--route",
            route,
            *cache,
            *_TRAIN,
        )
    return routes


def _boostrank(*arguments: object) -> None:
    command = [sys.executable, "-m", "boostrank", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _peak(*arguments: object) -> float:
    """Largest anonymous memory of a command, in bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "boostrank", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    status, peak = Path(f"/proc/{process.pid}/status"), 0.0
    while process.poll() is None:
        found = re.search(r"RssAnon:\s*(\d+)", status.read_text())
        peak = max(peak, 1024.0 * int(found.group(1)) if found else 0.0)
        time.sleep(_EVERY)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return peak


if __name__ == "__main__":
    main()
