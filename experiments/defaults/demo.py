"""Demo: boostrank with no options beside the other libraries with none, on queries that none of
them has seen.

    python -m experiments.defaults.demo TRAIN VALID TEST [--truth SCORES] [--model FILE]

`make demo` runs it on generated data, whose truth is known; any three libsvm files with `qid:` will
do. All tools get the same queries and as many threads. The others train on TRAIN and stop by VALID
as people use them (`tools.py`): after 50 rounds without gain in NDCG@10, at most 1,000. boostrank
does what `boostrank train TRAIN --valid VALID` does, to the same bytes. TEST is measured on and
nothing else. Seconds are of the training alone, from rows in memory; boostrank's kernels are
compiled before, which a line says.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.core.errors import DataWarning
from boostrank.core.machine import resolve_threads
from boostrank.metrics import BoundMetrics, MetricResult, PairedDifference, paired_difference
from boostrank.model.averaging import count_trees
from boostrank.model.scores import read_scores
from experiments.common import arguments
from experiments.defaults.tools import TOOLS, Data
from experiments.peers.engines import METRIC

FEW = 40  # queries that are enough to compile kernels
SLOW = 5.0  # seconds from which on compiling is mentioned
LINES = {
    "boostrank quick": ("boostrank, quick", ""),
    "lightgbm, 4 folds, trees that suit": ("LightGBM, 4 folds", "four of LightGBM's"),
    "lightgbm": ("LightGBM lambdarank", "LightGBM"),
    "xgboost": ("XGBoost rank:ndcg", "XGBoost"),
    "catboost": ("CatBoost YetiRank", "CatBoost"),
}
"""Tool -> its line in the table and its name in sentences, in the table's order. Four folds have
trees that suit.
"""


def main() -> None:
    """Train, measure, and print a line a tool."""
    parser = arguments(__doc__.split("\n")[0])
    for name, what in (("train", "train on"), ("valid", "stop by"), ("test", "measure on")):
        parser.add_argument(
            name, metavar=name.upper(), help=f"libsvm file with qid: queries to {what}"
        )
    parser.add_argument(
        "--truth", help="the true relevance of TEST's documents, one a line: the best possible"
    )
    parser.add_argument("--model", type=Path, help="where boostrank's model goes")
    options = parser.parse_args()
    threads = resolve_threads(options.threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of missing values
        train = boostrank.read(options.train)
        valid, test = (boostrank.read(path, like=train) for path in (options.valid, options.test))
    metric = BoundMetrics(METRIC, test.labels, test.queries, threads=threads)

    def measured(scores: npt.NDArray[np.float64]) -> MetricResult:
        return metric.results(scores)[METRIC]

    def few(data: Data) -> Data:
        return data.take(np.arange(min(FEW, len(data.queries))))

    begin = time.perf_counter()
    ours(few(train), few(valid), threads, rounds=2)
    compiled = time.perf_counter() - begin
    if compiled > SLOW:
        print(
            f"boostrank's kernels compiled in {compiled:.0f} s; they are kept for the next time\n"
        )
    begin = time.perf_counter()
    model = ours(train, valid, threads)
    own = time.perf_counter() - begin
    if options.model:
        model.save(options.model)
    best = measured(model.predict(test, threads=threads))
    sizes = [len(data.queries) for data in (train, valid)]
    print(
        f"Learnt from {sum(sizes):,} queries ({sizes[0]:,} to train, {sizes[1]:,} to stop by), "
        f"measured on {best.queries:,} others"
    )
    _print_row("", f"{METRIC.upper()}       ", "boostrank minus it", "trees", "seconds")
    _print_row("boostrank", _interval(best), "", f"{count_trees(model):,}", f"{own:.1f}")
    differences, times = {}, {}
    tools = {tool.name: tool for tool in TOOLS}
    for listed, (line, name) in LINES.items():
        tool = tools[listed]
        if tool.missing:
            continue
        importlib.import_module(tool.library)
        begin = time.perf_counter()
        fitted = tool.fit(train, valid, seed=0, threads=threads)
        seconds = time.perf_counter() - begin
        result = measured(fitted.predict(test.features))
        difference = paired_difference(best.per_query, result.per_query)
        if tool.library != "boostrank":
            differences[name] = difference
            if not tool.folds:
                times[name] = own / seconds
        _print_row(
            line,
            _interval(result),
            _interval(difference, "+"),
            f"{fitted.trees:,}",
            f"{seconds:.1f}",
        )
    if options.truth:
        _print_row("best possible", _interval(measured(read_scores(options.truth, test))))
    chance = measured(np.zeros(test.n_documents))  # ties: the mean over their orders
    _print_row("random order", _interval(chance))
    print(f"{verdict(differences)}")
    ratios = ", ".join(f"{ratio:.1f} times as long as {name}" for name, ratio in times.items())
    print(f"Training boostrank took {ratios}.\n" if ratios else "")


def ours(
    train: Data, valid: Data, threads: int, rounds: int | None = None
) -> boostrank.RankingModel:
    """The model of `boostrank train TRAIN --valid VALID`."""
    params = {"num_threads": threads, "verbosity": -1}
    return boostrank.train(params, train, rounds, valid_sets=[valid], quality="good")


def verdict(differences: Mapping[str, PairedDifference]) -> str:
    """A sentence: whom boostrank is ahead of, level with and behind, by the 95% intervals of
    boostrank minus them.
    """
    places: dict[str, list[str]] = {"ahead of": [], "level with": [], "behind": []}
    for name, d in differences.items():
        places["ahead of" if d.low > 0 else "behind" if d.high < 0 else "level with"].append(name)
    standing = [f"{place} {' and '.join(names)}" for place, names in places.items() if names]
    return (
        f"boostrank is {', '.join(standing)} (95% intervals over queries)."
        if standing
        else "No other tool is installed."
    )


def _interval(value: MetricResult | PairedDifference, sign: str = "") -> str:
    return f"{value.mean:{sign}.4f} ±{(value.high - value.low) / 2:.4f}"


def _print_row(name: str, *cells: str) -> None:
    aligned = (f"{cell:>{width}}" for cell, width in zip(cells, (14, 18, 6, 8), strict=False))
    print("  ".join([f"{name:19}", *aligned]).rstrip(), flush=True)


if __name__ == "__main__":
    main()
