"""The command `boostrank train`."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import Running, erase_line, say
from boostrank.cli.reading import name_of, say_read
from boostrank.cli.show import (
    LINE_INTERVAL,
    Progress,
    ReadProgress,
    duration,
    print_json,
    time_left,
)
from boostrank.cli.signals import StopRequest, graceful_stop
from boostrank.core.text import aligned
from boostrank.options import FileOptions, OutputOptions, TrainFilesOptions, TrainOptions

if TYPE_CHECKING:
    from boostrank.fit.execute import FoldSummary
    from boostrank.model.ranking_model import RankingModel
    from boostrank.records import FoldsRecord

# Without a terminal, a training prints about ten lines, and at least one per minute.
_LINES = 10
_AT_LEAST_EVERY = 60.0
_AT_MOST_EVERY = 1.0


@partial(Command, replaceable=("init_model",))
def train(
    files: TrainFilesOptions, options: TrainOptions, reading: FileOptions, output: OutputOptions
) -> None:
    """Train a ranker on TRAIN: libsvm text with `qid:`, CSV, TSV, Parquet or Arrow.

    TRAIN is one or more files, plain or compressed (.gz), a quoted pattern
    ('shards/*.gz'), or `-` for standard input. Several files are read as one data set. All rows of
    a query must be in the same file.

    The path of the model is printed. Ctrl-C and SIGTERM finish the round and write the model and
    the checkpoint, if any. A second Ctrl-C exits at once.
    """
    from boostrank.from_files import from_files

    screen: Any = _Screen()
    model, request = from_files(files, options, reading, screen), screen.request
    if request.stopped:
        Running.status = request.exit_status
    if request.saving:  # otherwise, another rank writes the model
        screen.print_outcome(model, files, as_json=output.as_json)


class _Screen(Progress):
    """Shows a training on the terminal, as a `boostrank.from_files.Observer`: choices, data sets,
    folds, and as a callback the round, the main metric on each data set and the remaining time.
    """

    before_iteration = False
    order = 25  # before early stopping, which raises an exception
    say = staticmethod(say)

    def __init__(self) -> None:
        super().__init__()
        self.request, self.callbacks = StopRequest(), [self]
        self._quality, self._fold = "", 1
        self._left: Callable[[int, int], str] | None = None
        self._first_round = self._shown_round = self.rounds = self.total = 0

    def has_chosen(self, options: TrainOptions) -> None:
        from boostrank.cli.setup import compile_aside

        self._quality = str(options.quality)
        compile_aside(options.objective, options.quality)

    def reading(self, paths: Sequence[str]) -> ReadProgress:
        return ReadProgress(name_of(paths))

    def has_read(self, paths: Sequence[str], data: Any, seconds: float) -> None:
        say_read(paths, data, seconds)

    @contextlib.contextmanager
    def training(self, metric: str | None, names: Sequence[str], stops: bool) -> Iterator[None]:
        """Show a training, or several on folds with these names, which signals may stop."""
        self._metric, self._folds, self._stops = metric or "", len(names), stops
        self._width = max(map(len, names), default=0)
        self._every = LINE_INTERVAL if names else _AT_MOST_EVERY
        self._started = time.monotonic()
        with graceful_stop(self.request), self:
            self.show("compiling and binning", math.inf)
            yield

    def saving(self) -> None:
        """Remove the line, as the model is being written."""
        erase_line()
        self.request.saving = True

    def __call__(self, env: Any) -> None:
        self.rounds, self.total = env.iteration + 1, env.end_iteration
        is_end = not self._folds and (self._left is None or self.rounds == self.total)
        if self._left is None:  # the end of the first round, which also compiles
            self._left, self._first_round = time_left(), self.rounds
        fold = f"fold {self._fold}/{self._folds}, " if self._folds else ""
        results = [r for r in env.evaluation_result_list or [] if r[1] == self._metric]
        parts = [f"{fold}round {self.rounds}/{self.total}"]
        parts += [f"{r[0]} {r[1]} {r[2]:.4f}" for r in results]
        text = "  ".join(parts)
        if not self._stops:
            text += self._left(self.rounds - self._first_round, self.total - self._first_round)
        # Print the first and the last round, and some in between.
        step = max(1, self.total // _LINES)
        every = _AT_LEAST_EVERY
        if self.rounds // step > self._shown_round // step:
            every = self._every
        if is_end:
            every = 0.0
        if self.show(text, every):
            self._shown_round = self.rounds

    def fold_ended(self, fold: FoldSummary) -> None:
        """Print a row about a fold, and start the next training, whose rounds start at 1."""
        metric = self._metric
        value = f"{fold.metrics[metric]:.4f}" if metric in fold.metrics else ""
        rows = [(str(fold.fold + 1), fold.name, str(fold.rounds), value, duration(fold.seconds))]
        if not fold.fold:
            rows.insert(0, ("fold", "trained", "rounds", metric, "time"))
        width = max(8, len(metric))
        for number, name, rounds, score, seconds in rows:
            say(f"{number:<4}  {name:{self._width}}  {rounds:>6}  {score:>{width}}  {seconds}")
        self._fold += 1
        self._left = None

    def binning(self, done: int, rows: int) -> None:
        """Show how many rows are binned. Engines may bin the same rows several times."""
        self.advance("binning", done, rows, "rows")

    def print_outcome(
        self, model: RankingModel, files: TrainFilesOptions, *, as_json: bool
    ) -> None:
        """Print what was measured, and the model's size and path, or a record of it as JSON."""
        from boostrank.model.averaging import count_trees

        folds, renewed = model.info.folds, model.info.renewed
        if folds is not None:
            if self.request.stopped:
                say(f"stopped in fold {len(folds['rounds'])}; the model contains the folds so far")
            # Without a metric, folds have no values.
            for name, value in zip(files.valid_names, folds["valid"], strict=False):
                say(f"{name}: {_held_out(folds, value)}")
        elif model.summary is not None:
            summary = model.summary
            if self.request.stopped:
                say(f"stopped after round {self.rounds} of {self.total}")
            size = f"{summary.rows:,} rows, {summary.queries:,} queries"
            if summary.dead_queries is not None:
                size += f", {summary.dead_queries:,} of them dead (no gradient)"
            if summary.floored:
                size += f"; {summary.floored:,} hessians raised to the minimum in the last round"
            say(size)
            grown = "trees" if model._engine.grows_trees else "steps"
            say(
                f"{duration(summary.seconds)}: kernels {duration(summary.kernel_seconds)}, {grown}"
                f" {duration(summary.tree_seconds)}, metrics {duration(summary.metric_seconds)}"
            )
            # Print a line per data set.
            rows: list[list[str]] = []
            for name, metrics in model.best_score.items():
                if not rows:
                    best = "best" if summary.best_round < self.rounds else "last"
                    rows.append([f"{best} round {summary.best_round}", *metrics])
                rows.append([name, *(f"{value:.4f}" for value in metrics.values())])
            if rows:
                say("\n".join(aligned(rows)))
        if renewed is not None:
            say(
                f"leaves computed again from all {renewed['queries']:,} queries, after these"
                " metrics: test on other queries"
            )
        if as_json:
            print_json(self._describe(model, files.model))
            return
        # Print the size of the model and, for folds, the metric on held-out queries.
        if model._engine.grows_trees:
            start = model.tree_counts.start
            of_start = f", {start:,} of them the linear start's" if start else ""
            say(f"{count_trees(model):,} trees{of_start}; trained in {duration(self.seconds)}")
        if folds is not None and folds["metric"] is not None:
            echo(_held_out(folds, folds["held_out"][folds["metric"]]))
        echo(f"model written to {files.model}")

    def _describe(self, model: RankingModel, path: str) -> dict[str, Any]:
        """Return what --json prints."""
        from boostrank.model.averaging import count_trees

        info, summary = model.info, model.summary
        record: dict[str, Any] = {
            "model": path,
            "backend": model.backend,
            "quality": self._quality,
            "stopped": self.request.stopped,
        }
        if info.folds is not None:
            record |= info.folds
        elif summary is not None:
            record |= asdict(summary) | {
                "tree_seconds": summary.tree_seconds,
                "objective": info["objective"]["name"],
                "metrics": model.best_score,
                "rounds": self.rounds,
            }
        if info.renewed is not None:
            record["renewed"] = info.renewed["queries"]
        if model._engine.grows_trees:
            record["trees"] = count_trees(model)
        return record if info.price is None else record | {"price": info.price}


def _held_out(folds: FoldsRecord, value: Mapping[str, Any]) -> str:
    """Describe the metric on queries that no model was trained on which scores them."""
    if not value["queries"]:
        return f"{folds['metric']}: every query is excluded"
    return (
        f"{folds['metric']} {value['value']:.4f} [{value['low']:.4f}, {value['high']:.4f}] on"
        f" {value['queries']:,} queries, each scored by the model that was not trained on it"
    )
