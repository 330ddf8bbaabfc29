"""Output of tables, paragraphs, JSON, pages and progress."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

import click
from click import echo

from boostrank.cli.errors import erase_line, say, show_line
from boostrank.cli.signals import StopRequest, graceful_stop
from boostrank.reporting.table import Table

if TYPE_CHECKING:
    from boostrank.fit.execute import FoldSummary


def print_table(table: Table, top: int | None = None, remarks: Iterable[str] = ()) -> None:
    """Print the first rows of a table, indented, with remarks to the right of the rows."""
    for line, remark in zip_longest(table.lines(top), remarks, fillvalue=""):
        echo(f"  {line}  {remark}".rstrip())
    if top is not None and len(table) > top:
        echo(f"  ... and {len(table) - top} more (--top {len(table)})")


def width() -> int:
    """Return the number of columns of the terminal, or of the width that was set for help."""
    return click.get_current_context().terminal_width or shutil.get_terminal_size().columns


def print_wrapped(texts: Iterable[str], indent: str = "") -> None:
    """Print paragraphs as wide as the terminal."""
    for text in texts:
        echo(click.wrap_text(text, width(), "", indent))


def print_json(value: Any) -> None:
    """Print one JSON object, with NaN as null."""
    from boostrank.records import jsonable

    echo(json.dumps(jsonable(value), allow_nan=False))


def check_page(path: str) -> None:
    """Check that a page can be drawn and written, before any expensive work starts."""
    from boostrank.core.files import check_writable
    from boostrank.reporting.html import need_report_extra

    need_report_extra()
    check_writable(path, streams=True)


def write_page(path: str, html: str) -> None:
    """Write a page, and print its path to standard error."""
    from boostrank.core.files import write_atomically

    write_atomically(path, html.encode("utf-8", "backslashreplace"), streams=True)
    say(f"{path}: written")


def time_left() -> Callable[[int, int], str]:
    """Return a function that formats the remaining time, (steps done, total) -> "  12 s left", or
    "" at the end.
    """
    started = time.monotonic()

    def left(done: int, total: int) -> str:
        if done >= total:
            return ""
        return f"  {duration((time.monotonic() - started) / done * (total - done))} left"

    return left


# Without a terminal, a training prints about ten lines, and at least one per minute.
_LINES = 10
_AT_LEAST_EVERY = 60.0
_AT_MOST_EVERY = 1.0
_PATIENCE = 0.5
_READING_EVERY = 10.0


class _Progress:
    """A progress line that shows how much of the current step is done, its speed and the time left.

    On a terminal the line is updated in place. Elsewhere it is printed from time to time.
    """

    def __init__(self, step: str = "") -> None:
        self._step, self._first, self._last = step, 0, 0
        self._started = self._begun = self._told = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        erase_line()

    def show(self, text: str, due: bool) -> None:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            show_line(text[: shutil.get_terminal_size().columns - 1])
        elif due:
            say(text)

    def say(self, line: str) -> None:
        say(line)

    def _advance(self, step: str, done: int, total: int | None, unit: str) -> None:
        now = time.monotonic()
        if (
            step != self._step or done < self._last
        ):  # a step begins, or another pass over the same rows
            self._step, self._first, self._begun = step, done, now
        self._last = done
        if now - self._begun < _PATIENCE:
            return
        speed = (done - self._first) / (now - self._begun)
        scale, digits = (1e6, 1) if unit == "MB" else (1, 0)
        counts = [f"{count / scale:,.{digits}f}" for count in (done, total) if count is not None]
        text = f"{step}: {' of '.join(counts)} {unit}, {speed / scale:,.0f} {unit}/s"
        if total and speed:
            text += f", {duration((total - done) / speed)} left"
        due = now - self._told >= _READING_EVERY
        self.show(text, due)
        self._told = now if due else self._told


class RoundProgress(_Progress):
    """A training callback that shows the round, the main metric on each data set, the remaining
    time and the folds.

    `training`, `fold_ended` and `saving` are those of `boostrank.from_files.Observer`.
    """

    before_iteration = False
    order = 25  # before early stopping, which raises an exception

    def __init__(self) -> None:
        super().__init__()
        self.request, self.callbacks = StopRequest(), [self]
        self._fold = 1
        self._shown, self._shown_round = 0.0, 0
        self._begin: tuple[float, int] | None = None
        self.rounds = 0
        self.total = 0

    @contextlib.contextmanager
    def training(self, metric: str | None, names: Sequence[str], stops: bool) -> Iterator[None]:
        """Show a training, or several on folds with these names, which signals may stop."""
        self._metric, self._folds, self._stops = metric or "", len(names), stops
        self._width = max(map(len, names), default=0)
        self._every = _READING_EVERY if names else _AT_MOST_EVERY
        self._started = time.monotonic()
        with graceful_stop(self.request), self:
            self.show("compiling and binning", due=False)
            yield

    def saving(self) -> None:
        """Remove the line, as the model is being written."""
        erase_line()
        self.request.saving = True

    def __call__(self, env: Any) -> None:
        now = time.monotonic()
        self.rounds, self.total = env.iteration + 1, env.end_iteration
        if self._begin is None:
            self._begin = now, self.rounds
        fold = f"fold {self._fold}/{self._folds}, " if self._folds else ""
        results = [r for r in env.evaluation_result_list or [] if r[1] == self._metric]
        parts = [f"{fold}round {self.rounds}/{self.total}"]
        parts += [f"{r[0]} {r[1]} {r[2]:.4f}" for r in results]
        begin, first = self._begin  # the end of the first round, which also compiles
        if not self._stops and first < self.rounds < self.total:
            seconds = (now - begin) / (self.rounds - first) * (self.total - self.rounds)
            parts.append(f"{duration(seconds)} left")
        # Print the first and the last round, and some in between.
        self._shown = self._shown or (now if fold else 0.0)
        since, step = now - self._shown, max(1, self.total // _LINES)
        is_mark = self.rounds // step > self._shown_round // step and since >= self._every
        is_end = self.rounds in (1, self.total) and not fold
        due = is_mark or is_end or since >= _AT_LEAST_EVERY
        self.show("  ".join(parts), due)
        if due:
            self._shown, self._shown_round = now, self.rounds

    def fold_ended(self, fold: FoldSummary) -> None:
        """Print a row about a fold, and start the next training, whose rounds start at 1."""
        metric = self._metric
        value = f"{fold.metrics[metric]:.4f}" if metric in fold.metrics else ""
        rows = [(str(fold.fold + 1), fold.name, str(fold.rounds), value, duration(fold.seconds))]
        if not fold.fold:
            rows.insert(0, ("fold", "trained", "rounds", metric, "time"))
        width = max(8, len(metric))
        for number, name, rounds, score, seconds in rows:
            self.say(f"{number:<4}  {name:{self._width}}  {rounds:>6}  {score:>{width}}  {seconds}")
        self._fold += 1
        self._begin = None

    def binning(self, done: int, rows: int) -> None:
        """Show how many rows are binned. Engines may bin the same rows several times."""
        self._advance("binning", done, rows, "rows")


class ReadProgress(_Progress):
    """A callback that takes the bytes read and their total, and shows progress once reading takes a
    while.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"reading {path}")

    def __call__(self, done: int, total: int | None) -> None:
        self._advance(self._step, done, total, "MB")


class StepProgress(_Progress):
    """A callback that takes the step and its numbers of documents, and shows progress once the step
    takes a while.
    """

    def __call__(self, step: str, done: int, total: int) -> None:
        self._advance(step, done, total, "documents")


def duration(seconds: float) -> str:
    """Format a duration as `4.2 s`, `12 s`, `3:05` or `1:02:03`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    minutes, seconds = divmod(whole_seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
