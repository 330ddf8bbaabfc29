"""Metrics: for NDCG, MAP, MRR and ERR, LambdaRank on NDCG against objectives of that metric, with
the same trees.

    python -m experiments.metrics.run [--sets ohsumed] [--set NAME=FILE,...] [--metrics map,mrr]

Every training is kept under out/: a run that was killed goes on where it was. See README.md in this
folder.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import BoundMetrics
from experiments.common import arguments, interval, markdown, save
from experiments.defaults.run import code_of_boostrank
from experiments.defaults.splits import STAGES, folds
from experiments.defaults.tools import LARGE, Data, Scores, suited
from experiments.peers.engines import Stopping
from experiments.peers.splits import Fold, read_sets
from experiments.peers.statistics import against
from experiments.peers.store import Run, Store, key_of

ROUNDS, PATIENCE = 400, 50
REFERENCE, DEFAULT = "lambdarank", "auto"
TOOLS = {
    "ndcg@10": (
        "lambdarank(k=10)",
        "shf-sdcg",
        "query-rmse",
        "yetirank",
        "yetirank(mode=ndcg)",
        "catboost:YetiRank:mode=NDCG",
    ),
    "map": (
        "lambdarank(metric=map)",
        "lambdarank(metric=map, k=1000)",
        "smooth-ap",
        "yetirank",
        "yetirank(mode=map)",
        "xgboost:rank:map",
        "catboost:YetiRank:mode=MAP",
    ),
    "mrr": (
        "lambdarank(metric=mrr)",
        "smooth-mrr",
        "yetirank",
        "yetirank(mode=mrr)",
        "catboost:YetiRank:mode=MRR",
    ),
    "err": (
        "lambdarank(metric=err)",
        "yetirank",
        "yetirank(mode=err)",
        "catboost:YetiRank:mode=ERR",
    ),
}
"""Metric -> objectives to compare with `REFERENCE` and `DEFAULT`: ours, and other libraries' after
a colon.
"""


def main() -> None:
    """Train what is missing, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(threads=1)
    parser.add_argument(
        "--stage", choices=STAGES, default="choice", help="confirmation: once, at the end"
    )
    parser.add_argument("--sets", default="ohsumed,lambdarank-example", help="comma-separated")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=FILE,...", help="a further set, libsvm"
    )
    parser.add_argument("--metrics", default=",".join(TOOLS), help="comma-separated")
    parser.add_argument("--only-report", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    console, store = Console(stderr=True), Store(options.out)
    places = read_sets(options.sets, options.set, options.data_root)
    cells = [
        Cell(tool, metric, name, data, fold)
        for name, data in places.items()
        for metric in options.metrics.split(",")
        for tool in (REFERENCE, DEFAULT, *TOOLS[metric])
        if ":" not in tool or importlib.util.find_spec(tool.partition(":")[0])
        for fold in folds(data, options.stage)
    ]
    for i, cell in enumerate(() if options.only_report else cells):
        with store.claim(cell.key) as free:
            if free and store.get(cell.key) is None:
                store.put(cell.key, cell.run(options.threads))
                console.print(
                    f"{i + 1} of {len(cells)}: {cell.name}", highlight=False, soft_wrap=True
                )
    text, numbers = report(cells, store)
    save(options.out / f"metrics-{options.stage}.md", text, numbers)
    print(text)


class Cell:
    """One training: a tool on a fold of a set, stopped and measured by a metric."""

    def __init__(self, tool: str, metric: str, place: str, data: Data, fold: Fold) -> None:
        self.tool, self.metric, self.place, self._data, self._fold = tool, metric, place, data, fold
        self.name = f"{metric}, {place}, {tool}"
        code = {} if ":" in tool else {"code": code_of_boostrank()}
        queries = {"test": fold.test.tolist(), "parts": [part.tolist() for part in fold.parts]}
        ending = {"rounds": ROUNDS, "patience": PATIENCE}
        self.key = key_of(
            {"data": data.fingerprint, "tool": tool, "metric": metric, **queries, **code, **ending}
        )

    def run(self, threads: int) -> Run:
        """Train and measure; what a library raises is the result."""
        train, valid = (self._data.take(queries) for queries in self._fold.inner(0))
        test = self._data.take(self._fold.test)
        library, _, objective = (
            self.tool.rpartition(":") if ":" not in self.tool else self.tool.partition(":")
        )
        begun = time.process_time()
        try:
            fit = {"xgboost": _xgboost, "catboost": _catboost}.get(library, _boostrank)
            scores = fit(objective, self.metric, train, valid, test, threads)
        except Exception as error:
            return {"what": {"cell": self.name}, "error": f"{type(error).__name__}: {error}"}
        seconds = time.process_time() - begun
        values = BoundMetrics(self.metric, test.labels, test.queries, threads=1).per_query(scores)[
            self.metric
        ]
        kept = [None if np.isnan(v) else round(float(v), 6) for v in values]
        return {"what": {"cell": self.name}, "test": kept, "seconds": seconds}


def _trees(library: str, train: Data) -> dict[str, Any]:
    return suited(library, len(train.queries) >= LARGE)


def _boostrank(
    objective: str, metric: str, train: Data, valid: Data, test: Data, threads: int
) -> Scores:
    own = {
        "objective": objective,
        "metric": metric,
        "eval_at": (),
        "early_stopping_round": PATIENCE,
    }
    own |= {"num_threads": threads, "seed": 0, "verbosity": -1} | _trees("boostrank", train)
    return boostrank.train(own, train, ROUNDS, valid_sets=[valid]).predict(
        test.features, threads=threads
    )


def _best_round(metric: str, valid: Data, staged: Iterable[Any]) -> int:
    stopping = Stopping(valid, PATIENCE, metric)
    stopping.read(staged)
    return stopping.best_round


def _xgboost(
    objective: str, metric: str, train: Data, valid: Data, test: Data, threads: int
) -> Scores:
    import xgboost as xgb

    params = {"objective": objective, "nthread": threads, "seed": 0, "verbosity": 0} | _trees(
        "xgboost", train
    )
    # rank:map takes binary labels.
    data = xgb.DMatrix(train.features, train.labels > 0, group=train.queries.sizes, nthread=threads)
    booster = xgb.train(params, data, ROUNDS)

    def scores(of: Data, rounds: int) -> Any:
        return booster.inplace_predict(
            of.features, iteration_range=(0, rounds), predict_type="margin"
        )

    best = _best_round(metric, valid, (scores(valid, r) for r in range(1, ROUNDS + 1)))
    return np.asarray(scores(test, best), dtype=np.float64)


def _catboost(
    objective: str, metric: str, train: Data, valid: Data, test: Data, threads: int
) -> Scores:
    import catboost

    # Its ERR takes labels as probabilities.
    labels = (
        (np.exp2(train.labels) - 1.0) / np.exp2(train.labels.max())
        if metric == "err"
        else train.labels
    )
    groups = np.repeat(np.arange(len(train.queries)), train.queries.sizes)
    model = catboost.CatBoost(
        {
            "loss_function": objective,
            "iterations": ROUNDS,
            "thread_count": threads,
            "random_seed": 0,
            "verbose": False,
            "allow_writing_files": False,
            **_trees("catboost", train),
        }
    )
    model.fit(catboost.Pool(train.features, labels, group_id=groups, thread_count=threads))
    best = _best_round(metric, valid, model.staged_predict(valid.features, thread_count=threads))
    return np.asarray(model.predict(test.features, ntree_end=best, thread_count=threads))


def report(cells: list[Cell], store: Store) -> tuple[str, Any]:
    """Two tables a metric, with 95% intervals over queries: differences pooled over the sets, and
    of each set.
    """
    texts: list[str] = []
    numbers = {}
    for metric in dict.fromkeys(cell.metric for cell in cells):
        found: dict[str, dict[str, list[Any]]] = {}
        seconds: dict[str, list[float]] = {}
        for cell in cells:
            run = store.get(cell.key)
            if cell.metric == metric and run is not None and "test" in run:
                found.setdefault(cell.tool, {}).setdefault(cell.place, []).append(
                    np.array(run["test"], np.float64)
                )
                seconds.setdefault(cell.tool, []).append(run["seconds"])
        wanted = [len(values) for values in found.get(REFERENCE, {}).values()]
        whole = {
            name: of
            for name, of in found.items()
            if [len(values) for values in of.values()] == wanted
        }
        measured = {
            name: {place: np.concatenate(v) for place, v in of.items()}
            for name, of in whole.items()
        }
        if not {REFERENCE, DEFAULT} <= measured.keys():
            continue
        models = {
            name: [(p, v[None]) for p, values in of.items() for v in values]
            for name, of in whole.items()
        }
        compared, other = (against(measured, models, name) for name in (REFERENCE, DEFAULT))
        rows, places = [], []
        for name, of in measured.items():
            one, auto = compared.get(name), other.get(name)
            each = [
                f"{np.nanmean(v):.4f} ({_interval(one.each[p])})" if one else interval(v)
                for p, v in of.items()
            ]
            places.append([name, *each])
            means = {place: float(np.nanmean(values)) for place, values in of.items()}
            pooled = ["", "", ""]
            if one:
                pooled = [
                    _interval(one.by_query),
                    f"{one.holm_by_query:.3f}",
                    _interval(one.by_set),
                ]
            pooled.append(_interval(auto.by_query) if auto else "")
            rows.append(
                [
                    name,
                    f"{np.mean([*means.values()]):.4f}",
                    *pooled,
                    f"{np.mean(seconds[name]):.1f}",
                ]
            )
            numbers[f"{metric}, {name}"] = means
        head = [
            metric,
            "mean of the sets",
            f"minus {REFERENCE}, every query",
            "p, Holm",
            "every set alike",
        ]
        texts.append(markdown([*head, f"minus {DEFAULT}, every query", "CPU seconds"], rows))
        texts.append(markdown([metric, *measured[REFERENCE]], places))
    return "\n\n".join(texts) or "Nothing is complete.", numbers


def _interval(one: Any) -> str:
    return f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


if __name__ == "__main__":
    main()
