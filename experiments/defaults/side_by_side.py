"""Train libraries side by side on the same queries, and print the cost and NDCG@10 of each.

All libraries get the same queries. The others stop as people use them (`tools.py`): after 50 rounds
without gain in NDCG@10, at most 1,000. boostrank does what `boostrank train TRAIN --valid VALID`
does, to the same bytes. CPU seconds are of the training alone, from rows in memory; boostrank's
kernels are compiled before. Each training has one thread, and as many run at once as there are
cores. CatBoost has a line where it is installed.
"""

from __future__ import annotations

import importlib
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.core.errors import DataWarning
from boostrank.core.machine import resolve_threads
from boostrank.files.tools import sample
from boostrank.metrics import BoundMetrics, MetricResult, PairedDifference, paired_difference
from boostrank.model.averaging import count_trees
from boostrank.model.scores import read_scores
from experiments.defaults.tools import TOOLS, Data
from experiments.peers.engines import METRIC

ENOUGH = 40  # queries to compile with
CONTROL = "four LightGBMs"
"""What anybody can build: each trained on three quarters of the queries and stopped by the rest,
with trees that suit; their scores are averaged.
"""
LABELS = {
    "lightgbm, 4 folds, trees that suit": CONTROL,
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "boostrank": "boostrank",
    "boostrank quick": "boostrank quick",
}
"""Tool -> its name in the table, in the order of training: boostrank's kernels compile meanwhile."""

Fit = Callable[[Data, Data], Any]
Trained = tuple[Any, float]


@dataclass(frozen=True)
class Line:
    """A line of the table: what a library cost and gave.

    Args:
        seconds: of CPU.
        result: NDCG@10 of the test queries.
    """

    seconds: float
    trees: int
    result: MetricResult


def compare(files: Sequence[str], options: Namespace) -> None:
    """Train and measure on files: a table for all queries, after one for few if asked."""
    paths = dict(zip(("train", "valid", "test"), files, strict=True))
    threads = resolve_threads(options.threads)
    # Read the files.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of missing values
        train = boostrank.read(paths["train"])
        valid = boostrank.read(paths["valid"], like=train)
        test = boostrank.read(paths["test"], like=train)
        pairs = [(train, valid)]
        if options.few:
            few = read_sample(paths["train"], options.few, train)
            pairs.insert(0, (few, read_sample(paths["valid"], options.few // 3, train)))
    metric = BoundMetrics(METRIC, test.labels, test.queries, threads=threads)

    def measure(scores: npt.NDArray[np.float64]) -> MetricResult:
        return metric.results(scores)[METRIC]

    limits = {"random order": measure(np.zeros(test.n_documents))}  # ties: the mean over orders
    if options.truth:
        limits["perfect order"] = measure(read_scores(options.truth, test))
    # Train side by side, each on one thread; boostrank's kernels are compiled meanwhile.
    fits = fits_by_label()
    with ThreadPoolExecutor(threads) as pool:
        compiled = pool.submit(ours, take_first(train), take_first(valid), 1, rounds=2)
        for label in ("boostrank", "boostrank quick"):
            fits[label] = partial(train_after, compiled, fits[label])
        trainings = [
            {label: pool.submit(train_timed, fit, *pair) for label, fit in fits.items()}
            for pair in pairs
        ]
        for pair, futures in zip(pairs, trainings, strict=True):
            lines = {}
            for label, future in futures.items():
                ranker, seconds = future.result()
                trees = count_trees(ranker) if label == "boostrank" else ranker.trees
                lines[label] = Line(seconds, trees, measure(ranker.predict(test.features)))
            learnt, counted = sum(len(data.queries) for data in pair), lines[CONTROL].result.queries
            print(f"Learnt from {learnt:,} judged queries, measured on {counted:,} others:\n")
            print_table(lines, limits)
    if options.model:
        model, _ = trainings[-1]["boostrank"].result()
        model.save(options.model)


def fits_by_label() -> dict[str, Fit]:
    """How each library that is installed trains, in the order of `LABELS`."""
    tools = {tool.name: tool for tool in TOOLS if not tool.missing}
    fits: dict[str, Fit] = {}
    for name, label in LABELS.items():
        if name in tools:
            importlib.import_module(tools[name].library)
            fits[label] = partial(tools[name].fit, seed=0, threads=1)
    fits["boostrank"] = partial(ours, threads=1)
    return fits


def train_after(compiled: Future[Any], fit: Fit, train: Data, valid: Data) -> Any:
    """What a function trains, once kernels are compiled. Waiting takes no CPU."""
    compiled.result()
    return fit(train, valid)


def train_timed(fit: Fit, train: Data, valid: Data) -> Trained:
    """What a function trains, and the seconds of CPU that its thread takes."""
    begin = time.thread_time()
    ranker = fit(train, valid)
    return ranker, time.thread_time() - begin


def take_first(data: Data) -> Data:
    """Queries enough to compile kernels with."""
    return data.take(np.arange(min(ENOUGH, len(data.queries))))


def read_sample(path: str, queries: int, like: Data) -> Data:
    """What `boostrank data sample PATH --queries N` keeps."""
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "sample.txt")
        sample(path, file, queries)
        return boostrank.read(file, like=like)


def ours(
    train: Data, valid: Data, threads: int, rounds: int | None = None
) -> boostrank.RankingModel:
    """The model of `boostrank train TRAIN --valid VALID`."""
    params = {"num_threads": threads, "verbosity": -1}
    return boostrank.train(params, train, rounds, valid_sets=[valid], quality="good")


def print_table(lines: Mapping[str, Line], limits: Mapping[str, MetricResult]) -> None:
    """Print a line a library, the cheapest first, then what boostrank adds to `CONTROL`."""
    control = lines[CONTROL]
    gains = {
        label: paired_difference(line.result.per_query, control.result.per_query)
        for label, line in lines.items()
    }
    _print_row("", "CPU seconds", "trees", "NDCG@10      ", f"minus {CONTROL}")
    _print_row("random order", "", "", _interval(limits["random order"]))
    for label in sorted(lines, key=lambda label: lines[label].seconds):
        line = lines[label]
        gain = _interval(gains[label], "+") if label != CONTROL else ""
        _print_row(label, f"{line.seconds:.1f}", f"{line.trees:,}", _interval(line.result), gain)
    if "perfect order" in limits:
        _print_row("perfect order", "", "", _interval(limits["perfect order"]))
    print()
    for label in ("boostrank quick", "boostrank"):
        share = lines[label].seconds / control.seconds
        print(f"{label} {verdict(gains[label])} {CONTROL}, for {share:.0%} of their CPU time.")
    print()


def verdict(difference: PairedDifference) -> str:
    """Where the 95% interval of the difference lies."""
    if difference.low > 0:
        return "is above"
    return "is below" if difference.high < 0 else "is level with"


def _interval(value: MetricResult | PairedDifference, sign: str = "") -> str:
    return f"{value.mean:{sign}.4f} ±{(value.high - value.low) / 2:.4f}"


def _print_row(name: str, *cells: str) -> None:
    widths = (11, 6, 15, 22)
    aligned = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False)]
    print("  ".join([f"{name:15}", *aligned]).rstrip())
