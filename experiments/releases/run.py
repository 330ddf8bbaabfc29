"""Releases: MSLR, Yahoo and Istella as they are downloaded, by methods with published parameters,
beside their numbers.

    python -m experiments.releases.run mslr|yahoo|istella FOLDER [--folds 1] [--rounds 500]

Every training has a process of its own and is kept under out/: a run that was killed goes on where
it was. See README.md in this folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from boostrank.core.machine import resolve_threads
from boostrank.core.resampling import bootstrap_intervals
from boostrank.metrics import BoundMetrics, paired_difference
from boostrank.reporting.segments import holm
from experiments.common import arguments, interval, markdown, save
from experiments.defaults.run import code_of_boostrank
from experiments.peers.store import Run, Store, key_of
from experiments.releases.layouts import Release, Size, counted, faults, found, read
from experiments.releases.methods import PATIENCE, PUBLISHED, REFERENCE, Method, fit, methods

METRICS = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "err@20")
CONVENTIONS = {"mslr": ("default", "lightgbm", "mslr")}
"""Recipe -> conventions; the first also has intervals."""
OTHERS = ("default", "lightgbm")
COSTS = (("trees", 1, 0), ("seconds", 1, 1), ("peak", 1e9, 2))
"""Key of a run, unit, digits: the last columns of the table."""
HELD_OUT = 10
"""A release without a validation part lends every N-th training query to validation; this is N."""


def main() -> None:
    """Check the files, train what is missing, and write a table for each release."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("recipe", choices=("mslr", "yahoo", "istella"))
    parser.add_argument("folder", type=Path, help="as it was unpacked")
    parser.add_argument(
        "--release", default="", help="comma-separated, of those in the folder; default: all"
    )
    parser.add_argument("--folds", default="", help="comma-separated numbers; default: all")
    parser.add_argument("--methods", default="", help="regular expression; default: all")
    parser.add_argument(
        "--rounds", type=int, default=None, help="fewer rounds than published, for a trial"
    )
    parser.add_argument("--only-report", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    console, store = Console(stderr=True, highlight=False, soft_wrap=True), Store(options.out)
    store.forget_failures()
    for release in found(
        options.recipe, options.folder, [name for name in options.release.split(",") if name]
    ):
        folds = [
            fold
            for fold in release.folds
            if not options.folds or str(fold) in options.folds.split(",")
        ]
        counts = Counts(store, console)
        lines = [line for fold in folds for line in faults(release, options.folder, fold, counts)]
        if lines:
            raise SystemExit(
                "\n".join([*lines, f"{release.name} is not whole: download and unpack it again"])
            )
        cells = [
            Cell(release, options.folder, fold, method, counts)
            for fold in folds
            for method in chosen(options.recipe, options.methods, options.rounds, console)
        ]
        for i, cell in enumerate(() if options.only_report else cells):
            with store.claim(cell.key) as free:
                if free and store.get(cell.key) is None:
                    store.put(cell.key, cell.run(resolve_threads(options.threads)))
                    console.print(f"{i + 1} of {len(cells)}: {cell.name}")
        text, numbers = report(release, cells, store)
        save(options.out / f"{release.name}.md", text, numbers)
        print(text)


def chosen(recipe: str, pattern: str, rounds: int | None, console: Console) -> list[Method]:
    """The methods that match and whose library is installed; the reference always."""
    wanted = [m for m in methods(recipe) if m.name == REFERENCE or re.search(pattern, m.name)]
    missing = {m.library for m in wanted if not importlib.util.find_spec(m.library)}
    for library in sorted(missing):
        console.print(f"left out, not installed: {library}")
    cut = [
        m if rounds is None else replace(m, rounds=min(rounds, m.rounds or rounds)) for m in wanted
    ]
    return [method for method in cut if method.library not in missing]


class Counts:
    """Sizes of files, kept as long as a file has the same length and time of change."""

    def __init__(self, store: Store, console: Console) -> None:
        self._store, self._console = store, console

    def __call__(self, path: Path) -> Size:
        status = path.stat()
        key = key_of(
            {"file": str(path.resolve()), "bytes": status.st_size, "changed": status.st_mtime_ns}
        )
        if self._store.get(key) is None:
            self._console.print(f"counting {path}")
            self._store.put(key, {"size": list(counted(path))})
        return Size(*(self._store.get(key) or {})["size"])


class Cell(NamedTuple):
    """One training: a method on a fold of a release."""

    release: Release
    folder: Path
    fold: int
    method: Method
    counts: Callable[[Path], Size]

    @property
    def name(self) -> str:
        return f"{self.release.name}, fold {self.fold}, {self.method.name}"

    @property
    def key(self) -> str:
        """Of all that the result depends on: the files' sizes in place of their contents."""
        paths = self.release.paths(self.folder, self.fold)
        files = {part: [path.stat().st_size, *self.counts(path)] for part, path in paths.items()}
        ours = self.method.library == "boostrank"
        library = "lightgbm" if ours else self.method.library
        what = {
            "release": self.release.name,
            "fold": self.fold,
            "files": files,
            "method": asdict(self.method),
        }
        what |= {
            "library": importlib.import_module(library).__version__,
            "code": code_of_boostrank() if ours else "",
        }
        rules = CONVENTIONS.get(self.release.recipe, OTHERS)
        return key_of(
            what | {"how": [METRICS, rules, PATIENCE, HELD_OUT, dict(self.release.reading)]}
        )

    def run(self, threads: int) -> Run:
        """Train and measure in a fresh process; what goes wrong there is the result."""
        try:
            return apart(
                trained,
                self.release,
                self.release.paths(self.folder, self.fold),
                self.method,
                threads,
            )
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}


def apart(function: Callable[..., Run], *given: Any) -> Run:
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def trained(release: Release, paths: dict[str, Path], method: Method, threads: int) -> Run:
    """Train and measure.

    Returns:
        trees: of the model. seconds: of CPU, for the training. peak: bytes of memory until its end,
        data and libraries included. empty: test queries without a relevant document. test:
        conventions -> metric -> value of each query.
    """
    train, valid = read(release, paths["train"]), None
    features = train.feature_space
    if method.stops and "valid" in paths:
        valid = read(release, paths["valid"], features)
    elif method.stops:
        number = np.arange(len(train.queries))
        valid = train.take(number[number % HELD_OUT == 0])
        train = train.take(number[number % HELD_OUT != 0])
    begun = time.process_time()
    predict, trees = fit(method, train, valid, threads)
    run: Run = {
        "what": method.name,
        "trees": int(trees),
        "seconds": time.process_time() - begun,
        "peak": peak_memory(),
    }
    test = read(release, paths["test"], features)
    scores = np.asarray(predict(test.features), dtype=np.float64)
    run["test"] = {}
    for rules in CONVENTIONS.get(release.recipe, OTHERS):
        values = BoundMetrics(METRICS, test.labels, test.queries, rules, threads).per_query(scores)
        run["test"][rules] = {
            name: [None if np.isnan(v) else round(float(v), 6) for v in of]
            for name, of in values.items()
        }
    run["empty"] = int(sum(v is None for v in run["test"]["default"]["ndcg@10"]))
    return run


def peak_memory() -> int:
    """Largest memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` may be that of the process which started this one
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def report(release: Release, cells: Sequence[Cell], store: Store) -> tuple[str, Any]:
    """The table of a release: methods and published numbers, by conventions."""
    runs: dict[str, list[Run]] = {}
    lines = []
    for cell in cells:
        run = store.get(cell.key)
        if run is not None and "error" not in run:
            runs.setdefault(cell.method.name, []).append(run)
        else:
            lines.append(f"* {cell.name}: {'not trained' if run is None else run['error']}")
    folds = sorted({cell.fold for cell in cells})
    runs = {name: of for name, of in runs.items() if len(of) == len(folds)}
    if REFERENCE not in runs:
        return "\n".join(["Nothing is complete.", *lines]), {}
    empty = sum(run["empty"] for run in runs[REFERENCE])
    queries = sum(len(run["test"]["default"]["map"]) for run in runs[REFERENCE])
    rows: list[list[str]] = []
    numbers: dict[str, Any] = {"queries": queries, "without relevant": empty}
    for rules in CONVENTIONS.get(release.recipe, OTHERS):
        values = {name: values_of(of, rules) for name, of in runs.items()}
        compared = against(values) if rules == "default" else {}
        for name, of in runs.items():
            means = np.nanmean(values[name], axis=0)
            shown = [f"{mean:.4f}" for mean in means]
            if name == REFERENCE and rules == "default":
                shown = [interval(column) for column in values[name].T]
            elif name in compared:
                shown = [
                    f"{mean} ({gain})"
                    for mean, gain in zip(shown, compared[name].gains, strict=True)
                ]
            p = f"{compared[name].p:.3f}" if name in compared else ""
            cost = [
                f"{np.mean([run[key] for run in of]) / unit:.{digits}f}"
                for key, unit, digits in COSTS
            ]
            rows.append([rules, name, words(folds), *shown, p, *cost])
            numbers.setdefault(name, {})[rules] = dict(zip(METRICS, map(float, means), strict=True))
        for one in PUBLISHED[release.name]:
            if one.conventions == rules:
                theirs = [f"{one.values[m]:.4f}" if m in one.values else "" for m in METRICS]
                rows.append([rules, f"published: {one.source}", one.folds, *theirs, *[""] * 4])
    head = ["conventions", "method", "folds", *METRICS, "p, Holm", "trees", "CPU seconds", "GB"]
    title = (
        f"{release.name}: {queries:,} test queries, {empty:,} of them without a relevant document."
    )
    title += f" In brackets: minus {REFERENCE}, paired by query, 95% intervals."
    return "\n\n".join([title, markdown(head, rows), *lines]), numbers


class Compared(NamedTuple):
    """A method against the reference: the difference of each metric, and p of NDCG@10, corrected
    for all methods.
    """

    gains: list[str]
    p: float


def against(values: dict[str, Any]) -> dict[str, Compared]:
    """Every other method against the reference, query by query."""
    others = [name for name in values if name != REFERENCE]
    place = METRICS.index("ndcg@10")
    p = holm(
        [
            paired_difference(values[name][:, place], values[REFERENCE][:, place]).p
            for name in others
        ]
    )
    out = {}
    for name, corrected in zip(others, p, strict=True):
        difference = values[name] - values[REFERENCE]
        difference = difference[~np.isnan(difference).any(axis=1)]
        low, high = bootstrap_intervals(difference, np.ones(len(difference)))
        means = difference.mean(axis=0)
        gains = [f"{m:+.4f} [{a:+.4f}, {b:+.4f}]" for m, a, b in zip(means, low, high, strict=True)]
        out[name] = Compared(gains, float(corrected))
    return out


def values_of(runs: Sequence[Run], rules: str) -> Any:
    """float64[Q, metrics] of the test queries of all folds."""
    return np.concatenate(
        [np.array([run["test"][rules][m] for m in METRICS], dtype=np.float64).T for run in runs]
    )


def words(folds: Sequence[int]) -> str:
    """`1 to 5`, or `1, 3`."""
    if len(folds) > 2 and list(folds) == list(range(folds[0], folds[-1] + 1)):
        return f"{folds[0]} to {folds[-1]}"
    return ", ".join(map(str, folds))


if __name__ == "__main__":
    main()
