"""Defaults: what every tool gives with no options, and with trees that suit, on queries that it did
not see.

    python -m experiments.defaults.run [--stage choice] [--sets ohsumed] [--tools
    "defaults;boostrank, 4 folds"]

Every training is kept under out/: a run that was killed goes on where it was, and several processes
started with the same command share the work. See README.md in this folder.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import BoundMetrics
from experiments.common import arguments, markdown, save
from experiments.defaults.splits import STAGES, folds
from experiments.defaults.tools import GROUPS, TOOLS, Tool
from experiments.peers.engines import METRIC
from experiments.peers.splits import SETS, Fold, read_sets
from experiments.peers.statistics import Values, against
from experiments.peers.store import Run, Store, key_of

REFERENCE = "lightgbm"


def main() -> None:
    """Train what is missing, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(threads=1)
    parser.add_argument(
        "--stage", choices=STAGES, default="choice", help="confirmation: once, at the end"
    )
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=FILE,...", help="a further set, libsvm"
    )
    parser.add_argument(
        "--tools", default=";".join(GROUPS), help="names, groups of tools.py; semicolons between"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="trainings a fold, whose NDCG is averaged"
    )
    parser.add_argument(
        "--against", default=REFERENCE, help="the tool that the others are compared with"
    )
    parser.add_argument("--only-report", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    console, store = Console(stderr=True), Store(options.out)
    places = read_sets(options.sets, options.set, options.data_root)
    of = {name: folds(data, options.stage) for name, data in places.items()}
    tools = chosen(options.tools, console)
    cells = [
        Cell(tool, name, data, fold, seed)
        for seed in range(options.seeds)  # all tools alike, as far as it came
        for name, data in places.items()
        for fold in of[name]
        for tool in tools
    ]
    for i, cell in enumerate(cells if not options.only_report else ()):
        with store.claim(cell.key) as free:
            if free and store.get(cell.key) is None:
                cell.run(store, options.threads)
                console.print(
                    f"{i + 1} of {len(cells)}: {cell.name}", highlight=False, soft_wrap=True
                )
    text, numbers = report(cells, store, options.against)
    save(options.out / f"defaults-{options.stage}.md", text, numbers)
    print(text)


def chosen(words: str, console: Console) -> list[Tool]:
    """The tools of a choice such as `defaults;boostrank, 4 folds`; what is not installed is left
    out with a line.

    Raises:
        SystemExit: a word that is no name and no group.
    """
    asked = [word.strip() for word in words.split(";") if word.strip()]
    unknown = [
        word for word in asked if word not in GROUPS and word not in {tool.name for tool in TOOLS}
    ]
    if unknown:
        raise SystemExit(
            f"no tool {unknown[0]!r}; there are:"
            f" {'; '.join([*GROUPS, *(tool.name for tool in TOOLS)])}"
        )
    found = [tool for tool in TOOLS if tool.name in asked or tool.group in asked]
    for tool in found:
        if tool.missing:
            console.print(f"{tool.name}: skipped, {tool.library} is not installed", highlight=False)
    return [tool for tool in found if not tool.missing]


@cache
def code_of_boostrank() -> str:
    """Hash of the package: what it trains may change with any line of it."""
    folder = Path(boostrank.__file__).parent
    files = (path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(b"".join(files)).hexdigest()[:16]


class Cell:
    """One training: a tool on a fold of a set, with a seed, which also says which part validates."""

    def __init__(
        self, tool: Tool, place: str, data: boostrank.RankingDataset, fold: Fold, seed: int
    ) -> None:
        self.tool, self.place, self.fold, self.seed, self._data = tool, place, fold, seed, data
        self.name = f"{place}, {tool.name}, seed {seed}"
        code = {"code": code_of_boostrank()} if tool.library == "boostrank" else {}
        queries = {"test": fold.test.tolist(), "parts": [part.tolist() for part in fold.parts]}
        what = {"data": data.fingerprint, "seed": seed, **tool.identity, **queries, **code}
        self.key = key_of(what)

    def run(self, store: Store, threads: int) -> None:
        """Train, measure, keep; what a library raises is kept as its result."""
        train, valid = (self._data.take(queries) for queries in self.fold.inner(self.seed))
        test = self._data.take(self.fold.test)
        begun = time.perf_counter(), time.process_time()
        run: Run = {"what": {"cell": self.name}}
        try:
            fitted = self.tool.fit(train, valid, self.seed, threads)
            run |= {
                "wall": time.perf_counter() - begun[0],
                "seconds": time.process_time() - begun[1],
            }
            scores = np.asarray(fitted.predict(test.features), dtype=np.float64)
        except Exception as error:
            store.put(self.key, run | {"error": f"{type(error).__name__}: {error}"})
            return
        values = BoundMetrics(METRIC, test.labels, test.queries, threads=1).per_query(scores)[
            METRIC
        ]
        run |= {
            "trees": fitted.trees,
            "test": [None if np.isnan(v) else round(float(v), 6) for v in values],
        }
        store.put(self.key, run)


def report(cells: Sequence[Cell], store: Store, reference: str) -> tuple[str, Any]:
    """The tables, and the numbers behind them."""
    runs: dict[str, dict[str, dict[int, list[Run]]]] = {}
    incomplete: dict[str, str] = {}
    for cell in cells:
        run = store.get(cell.key)
        if run is None or "error" in run:
            incomplete[cell.tool.name] = "not finished" if run is None else run["error"]
        else:
            of_fold = runs.setdefault(cell.tool.name, {}).setdefault(cell.place, {})
            of_fold.setdefault(id(cell.fold), []).append(run)
    runs = {name: places for name, places in runs.items() if name not in incomplete}
    measured = {
        name: {
            place: np.concatenate([_values(found).mean(axis=0) for found in of.values()])
            for place, of in p.items()
        }
        for name, p in runs.items()
    }
    models = {
        name: [(place, _values(found)) for place, of in p.items() for found in of.values()]
        for name, p in runs.items()
    }
    lines = [f"* {name}: {words}" for name, words in incomplete.items()]
    if not measured:
        return "\n".join(["Nothing is complete.", *lines]), {}
    anchor = reference if reference in measured else next(iter(measured))
    compared = against(measured, models, anchor)
    places = list(measured[anchor])
    mean = {
        name: float(np.mean([np.nanmean(v) for v in of.values()])) for name, of in measured.items()
    }
    rows, numbers = [], {}
    for name in sorted(measured, key=lambda name: -mean[name]):
        every = [run for of in runs[name].values() for found in of.values() for run in found]
        trees, seconds = (
            float(np.mean([run[key] for run in every])) for key in ("trees", "seconds")
        )
        one = compared.get(name)
        differences = ["", "", ""]
        if one is not None:
            differences = [
                _interval(one.by_set),
                _interval(one.by_query),
                f"{one.luck_by_query:.4f}",
            ]
        each = [f"{np.nanmean(measured[name][place]):.4f}" for place in places]
        rows.append(
            [name, *each, f"{mean[name]:.4f}", *differences, f"{trees:.0f}", f"{seconds:.1f}"]
        )
        numbers[name] = {
            "mean": mean[name],
            "trees": trees,
            "seconds": seconds,
            "sets": {place: float(np.nanmean(measured[name][place])) for place in places},
        }
    head = [
        "tool",
        *places,
        "mean",
        f"minus {anchor}, every set alike",
        "every query alike",
        "p, luck",
        "trees",
        "CPU seconds",
    ]
    return "\n\n".join([markdown(head, rows), *(["\n".join(lines)] if lines else [])]), numbers


def _values(runs: Sequence[Run]) -> Values:
    return np.array([run["test"] for run in runs], dtype=np.float64)


def _interval(difference: Any) -> str:
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


if __name__ == "__main__":
    main()
