"""The command `boostrank train`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, StopRequest, graceful_stop, say
from boostrank.cli.reading import name_of, say_read
from boostrank.cli.show import ReadProgress, RoundProgress, duration
from boostrank.core.text import aligned
from boostrank.options import FileOptions, OutputOptions, TrainFilesOptions, TrainOptions

if TYPE_CHECKING:
    from boostrank.fit.folds import FoldSummary
    from boostrank.model.ranking_model import RankingModel


@command("train", replaceable=("init_model",))
def train(
    files: TrainFilesOptions, options: TrainOptions, reading: FileOptions, output: OutputOptions
) -> int:
    """Train a ranker on TRAIN: libsvm text with `qid:`, CSV, TSV, Parquet or Arrow.

    TRAIN is one or more files, plain or compressed (.gz, .bz2, .xz, .zst), a quoted pattern
    ('shards/*.gz'), or `-` for standard input. Several files are read as one data set. All rows of
    a query must be in the same file.

    The path of the model is printed. Ctrl-C and SIGTERM finish the round and write the model and
    the checkpoint, if any. A second Ctrl-C exits at once.
    """
    from boostrank.from_files import from_files

    screen: Any = _Screen()
    model, request = from_files(files, options, reading, screen), screen.request
    if request.saving:  # otherwise, another rank writes the model
        screen.print_outcome(model, files, as_json=output.as_json)
    return request.exit_status if request.stopped else DONE


class _Screen:
    """Shows a training on the terminal, as a `boostrank.from_files.Observer`."""

    def __init__(self) -> None:
        self.request, self._progress = StopRequest(), RoundProgress()
        self.callbacks, self.binning, self.say = (
            [self._progress],
            self._progress.binning,
            self._progress.say,
        )
        self._quality, self._metric, self._width = "", "", 0

    def has_chosen(self, options: TrainOptions) -> None:
        from boostrank.cli.setup import compile_aside

        self._quality = str(options.quality)
        compile_aside(options.objective, options.quality)

    @contextlib.contextmanager
    def reading(self, paths: Sequence[str]) -> Iterator[ReadProgress]:
        with ReadProgress(name_of(paths)) as progress:
            yield progress

    def has_read(self, paths: Sequence[str], data: Any, seconds: float) -> None:
        say_read(paths, data, seconds)

    @contextlib.contextmanager
    def training(self, metric: str | None, names: Sequence[str], stops: bool) -> Iterator[None]:
        self._metric, self._width = metric or "", max(map(len, names), default=0)
        with graceful_stop(self.request), self._progress.begin(metric, len(names), stops):
            yield

    def fold_ended(self, fold: FoldSummary) -> None:
        held_out = fold.metrics.get(self._metric)
        value = "" if held_out is None else f"{held_out:.4f}"
        rows = [(str(fold.fold + 1), fold.name, str(fold.rounds), value, duration(fold.seconds))]
        if not fold.fold:
            rows.insert(0, ("fold", "trained", "rounds", self._metric, "time"))
        width = max(8, len(self._metric))
        for number, name, rounds, score, taken in rows:
            self.say(f"{number:<4}  {name:{self._width}}  {rounds:>6}  {score:>{width}}  {taken}")
        self._progress.next_fold()

    def saving(self) -> None:
        self._progress.stop()
        self.request.saving = True

    def print_outcome(
        self, model: RankingModel, files: TrainFilesOptions, *, as_json: bool
    ) -> None:
        """Print the trained model's metric, size and path."""
        from boostrank.model.averaging import count_trees
        from boostrank.model.ranking_model import tree_counts

        info, summary, stopped = model.info, model.summary, self.request.stopped
        fields: dict[str, Any] = {"model": files.model, "backend": model.backend}
        fields |= {"quality": self._quality, "stopped": stopped}
        # Report the folds, or the rounds of a single training.
        if info.folds is not None:
            fields |= dict(info.folds)
            self._report_folds(info.folds, files)
        elif summary is not None:
            fields |= dataclasses.asdict(summary) | {"tree_seconds": summary.tree_seconds}
            fields |= {"objective": info["objective"]["name"], "metrics": model.best_score}
            fields["rounds"] = self._progress.rounds
            self._report_training(model)
        if info.renewed is not None:
            fields["renewed"] = count = info.renewed["queries"]
            say(
                f"leaves computed again from all {count:,} queries, after these metrics: test on"
                " other queries"
            )
        grows_trees = model._engine.grows_trees
        # Print the record, which is all of the output with --json.
        if as_json:
            fields |= {"trees": count_trees(model)} if grows_trees else {}
            fields |= {} if info.price is None else {"price": info.price}
            click.echo(json.dumps(fields))
            return
        # Print the size of the model and, for folds, the metric on held-out queries.
        if grows_trees:
            start = tree_counts(model)[0]
            of_start = f", {start:,} of them the linear start's" if start else ""
            say(
                f"{count_trees(model):,} trees{of_start}; trained in"
                f" {duration(self._progress.seconds)}"
            )
        if info.folds is not None and info.folds["metric"] is not None:
            value = info.folds["held_out"][info.folds["metric"]]
            click.echo(
                f"{_score(info.folds, value)}, each scored by the model that was not trained on it"
            )
        click.echo(f"model written to {files.model}")

    def _report_folds(self, folds: Mapping[str, Any], files: TrainFilesOptions) -> None:
        from boostrank.from_files import name_sets_of_files

        if self.request.stopped:
            say(f"stopped in fold {len(folds['rounds'])}; the model contains the folds so far")
        names = name_sets_of_files(files.valid)
        for name, value in zip(
            names, folds["valid"], strict=False
        ):  # without a metric there are no values
            say(
                f"{name}: {_score(folds, value)}, each scored by the model that was not trained"
                " on it"
            )

    def _report_training(self, model: RankingModel) -> None:
        summary, progress = model.summary, self._progress
        assert summary is not None  # it was just trained
        if self.request.stopped:
            say(f"stopped after round {progress.rounds} of {progress.total}")
        dead = (
            ""
            if summary.dead_queries is None
            else f", {summary.dead_queries:,} of them dead (no gradient)"
        )
        floored = (
            f"; {summary.floored:,} hessians raised to the minimum in the last round"
            if summary.floored
            else ""
        )
        say(f"{summary.rows:,} rows, {summary.queries:,} queries{dead}{floored}")
        grown = "trees" if model._engine.grows_trees else "steps"
        times = {
            "kernels": summary.kernel_seconds,
            grown: summary.tree_seconds,
            "metrics": summary.metric_seconds,
        }
        parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in times.items())
        say(f"{duration(summary.seconds)}: {parts}")
        best, sets = (
            "best round" if summary.best_round < progress.rounds else "last round",
            model.best_score,
        )
        names = list(next(iter(sets.values()), {}))
        rows = [
            [name, *(f"{metrics[metric]:.4f}" for metric in names)]
            for name, metrics in sets.items()
        ]
        for line in aligned([[f"{best} {summary.best_round}", *names], *rows]) if rows else []:
            say(line)


def _score(folds: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    if not value["queries"]:
        return f"{folds['metric']}: every query is excluded"
    interval = f"[{value['low']:.4f}, {value['high']:.4f}]"
    return f"{folds['metric']} {value['value']:.4f} {interval} on {value['queries']:,} queries"
