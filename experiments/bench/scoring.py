"""Cost of scoring: one row beside the bare booster, and files beside the engine on rows in memory.

    python -m experiments.bench.scoring [--rows 1000000] [--threads 2]

See README.md in this folder. 136 features, 100 trees of 63 leaves and a start, on both engines.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from experiments.bench_scale.data import write_dense
from experiments.common import arguments, markdown, save

TREES = {
    "objective": "auto",
    "num_leaves": 63,
    "learning_rate": 0.1,
    "max_depth": 8,
    "verbosity": -1,
}
ROUNDS = 100
TRAINED_ROWS = 40_000
ENGINES = ("lightgbm", "xgboost")
_CALLS, _REPEATS, _RUNS = 1000, 7, 3

# A process of its own: scores the file, and prints rows and megabytes of anonymous memory, at first
# and at most.
_SCORE = """
import json, sys
from boostrank.files.writer import score_text
from boostrank.data.feature_space import FeatureSpace
from boostrank.model.ranking_model import RankingModel
from boostrank.model.scores import scores_of_files
from experiments.bench_scale.routes import Peak
model = RankingModel.load(sys.argv[1])
like, threads = FeatureSpace(1, model.n_features, model.feature_names), int(sys.argv[3])
rows = 0
with Peak() as peak, open(sys.argv[4], "wb") as out:
    for scores in scores_of_files(model, sys.argv[2], like=like, threads=threads):
        out.write(score_text(scores))
        rows += scores.size
print(json.dumps({"rows": rows, "peak_mb": peak.mb, "before_mb": peak.before}))
"""


def main() -> None:
    """Measure, and write table and numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the larger file")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "scoring.md")
    options = parser.parse_args()
    console, found = Console(stderr=True), {}
    with tempfile.TemporaryDirectory(prefix="boostrank-bench-") as name:
        folder = Path(name)
        files = {}
        for rows in sorted({options.rows // 5, options.rows}):
            files[rows] = folder / f"{rows}.txt"
            write_dense(files[rows], rows)
        data = boostrank.read(files[min(files)])
        train = data.take(range(int(np.searchsorted(data.queries.ptr, TRAINED_ROWS))))
        for engine in ENGINES:
            model = boostrank.train(TREES, train, ROUNDS, backend=engine)
            model.save(folder / engine)
            found[engine] = one_row(model, data.features[:1].copy()) | {
                "memory": in_memory(model, data.features, options.threads or 2),
                "files": {
                    rows: file(folder, engine, path, options.threads or 2)
                    for rows, path in files.items()
                },
            }
            console.print(f"{engine}: {found[engine]}")
    save(options.out, report(found), found)
    print(options.out.read_text(), end="")


def one_row(model: boostrank.RankingModel, row: np.ndarray) -> dict[str, float]:
    """Microseconds a call, of one row on one thread: the best of several."""
    booster = model.booster
    if model.backend == "lightgbm":
        bare: Any = lambda: booster.predict(row, raw_score=True, num_threads=1)  # noqa: E731
    else:
        booster.set_param({"nthread": 1})
        bare = lambda: booster.inplace_predict(row, predict_type="margin", validate_features=False)  # noqa: E731

    def microseconds(call: Any) -> float:
        return 1e6 * min(timeit.repeat(call, number=_CALLS, repeat=_REPEATS)) / _CALLS

    return {
        "bare_us": microseconds(bare),
        "ours_us": microseconds(lambda: model.predict(row, threads=1)),
    }


def in_memory(model: boostrank.RankingModel, rows: np.ndarray, threads: int) -> float:
    """Rows a second of `RankingModel.predict`, by the engine."""
    model.predict(rows[:1000], threads=threads)
    return len(rows) / min(
        timeit.repeat(lambda: model.predict(rows, threads=threads), number=1, repeat=3)
    )


def file(folder: Path, engine: str, path: Path, threads: int) -> dict[str, float]:
    """Seconds of `boostrank predict` of a file, start and end of the process included: the best of
    several; and what memory it takes."""
    model, out = folder / engine, folder / "scores.txt"
    predict = [
        sys.executable,
        "-m",
        "boostrank",
        "predict",
        model,
        path,
        "-o",
        out,
        "--threads",
        str(threads),
    ]
    measured = [sys.executable, "-c", _SCORE, model, path, str(threads), out]
    done = subprocess.run(measured, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    run = lambda: subprocess.run(predict, stderr=subprocess.DEVNULL, check=True)  # noqa: E731
    return {**result, "seconds": min(timeit.repeat(run, number=1, repeat=_RUNS))}


def report(found: dict[str, Any]) -> str:
    """The tables."""
    single = [
        [
            engine,
            f"{one['bare_us']:.0f}",
            f"{one['ours_us']:.0f}",
            f"{one['ours_us'] / one['bare_us']:.2f}",
        ]
        for engine, one in found.items()
    ]
    files = [
        [
            engine,
            f"{one['rows']:,}",
            f"{one['seconds']:.1f}",
            f"{one['rows'] / one['seconds'] / 1e3:,.0f}",
            f"{results['memory'] / 1e3:,.0f}",
            f"{one['peak_mb'] - one['before_mb']:.0f}",
        ]
        for engine, results in found.items()
        for one in results["files"].values()
    ]
    head = [
        "engine",
        "rows",
        "s",
        "1000 rows/s",
        "1000 rows/s of the engine, in memory",
        "MB more than before",
    ]
    return "\n\n".join(
        [
            "## One row, microseconds\n\n"
            + markdown(["engine", "booster", "RankingModel.predict", "ratio"], single),
            "## Files: `boostrank predict`, whole processes\n\n" + markdown(head, files),
        ]
    )


if __name__ == "__main__":
    main()
