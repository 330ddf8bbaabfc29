"""Show progress: one live line on a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any, Self

from boostrank.cli.errors import say

# A plain log of one training has about ten lines; a long training still gives a sign of life every minute.
_LINES = 10
_AT_LEAST_EVERY = 60.0
_AT_MOST_EVERY = 1.0
# Time left is estimated from the last rounds: this many seconds, and at least this many rounds.
_RECENT_SECONDS = 10.0
_RECENT_ROUNDS = 20
_PATIENCE = 0.5
_READING_EVERY = 10.0


class _Line:
    """A line that is rewritten in place on a terminal, and printed elsewhere if it is due."""

    def __init__(self) -> None:
        self._live: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, text: str, due: bool) -> None:
        if not sys.stderr.isatty():
            if due:
                say(text)
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            console = Console(stderr=True, highlight=False)
            self._live = Live(console=console, transient=True, redirect_stdout=False)
            self._live.start()
        self._live.update(Text(text))

    def say(self, line: str) -> None:
        """Print a permanent line."""
        if self._live is None:
            say(line)
        else:
            self._live.console.print(line, markup=False, soft_wrap=True)


class RoundProgress(_Line):
    """A training callback that shows round, headline metric on each set, and time left.

    Args:
        metric: the headline metric; None shows no metric.
        folds: number of trainings, one after another; 0: one.
        stops: whether early stopping may end the training at any round, so that the time left is unknown.
    """

    before_iteration = False
    order = 25  # before early stopping, which ends the round by an exception

    def __init__(self, metric: str | None, *, folds: int = 0, stops: bool = False) -> None:
        super().__init__()
        self._metric, self._folds, self._stops = metric, folds, stops
        self._every = _READING_EVERY if folds else _AT_MOST_EVERY
        self._started, self._fold = time.monotonic(), 1
        self._shown, self._shown_round = 0.0, 0
        self._ends: deque[float] = deque()
        self._binning: tuple[float, int, int] | None = None
        self.rounds = 0
        self.total = 0

    def __enter__(self) -> Self:
        self.show("compiling and binning", due=False)
        return self

    def __call__(self, env: Any) -> None:
        now = time.monotonic()
        self._ends.append(now)
        while len(self._ends) > _RECENT_ROUNDS and now - self._ends[0] > _RECENT_SECONDS:
            self._ends.popleft()
        self.rounds, self.total = env.iteration + 1, env.end_iteration
        fold = f"fold {self._fold}/{self._folds}, " if self._folds else ""
        parts = [f"{fold}round {self.rounds}/{self.total}"]
        values = [f"{r[0]} {r[1]} {r[2]:.4f}" for r in env.evaluation_result_list or [] if r[1] == self._metric]
        parts += ["  ".join(values)] if values else []
        if len(self._ends) > 1 and not self._stops and self.rounds < self.total:  # the first round also compiles
            a_round = (now - self._ends[0]) / (len(self._ends) - 1)
            parts.append(f"{duration(a_round * (self.total - self.rounds))} left")
        # Plain lines: the first and last round, and some between.
        self._shown = self._shown or (now if fold else 0.0)
        since, step = now - self._shown, max(1, self.total // _LINES)
        due = since >= _AT_LEAST_EVERY or (self.rounds // step > self._shown_round // step and since >= self._every)
        due = due or (self.rounds in (1, self.total) and not fold)
        self.show("  ".join(parts), due)
        if due:
            self._shown, self._shown_round = now, self.rounds

    def next_fold(self) -> None:
        """Count the next training, whose rounds begin anew."""
        self._fold += 1
        self._ends.clear()

    @property
    def seconds(self) -> float:
        """Seconds since creation."""
        return time.monotonic() - self._started

    def binning(self, done: int, rows: int) -> None:
        """Show binned rows; engines may pass over them several times."""
        now = time.monotonic()
        if self._binning is None or done < self._binning[2]:  # a pass begins
            self._binning = (now, done, done)
        started, first, _ = self._binning
        self._binning = (started, first, done)
        speed = (done - first) / (now - started) if now > started else 0.0
        left = f", {duration((rows - done) / speed)} left" if speed else ""
        self._shown = self._shown or now
        due = now - self._shown >= _READING_EVERY
        self.show(f"binning: {done:,} of {rows:,} rows, {speed / 1e3:,.0f}k rows/s{left}", due)
        self._shown = now if due else self._shown


class _Status(_Line):
    def __init__(self) -> None:
        super().__init__()
        self._started = self._shown = time.monotonic()

    def _show(self, line: str, now: float) -> None:
        due = now - self._shown >= _READING_EVERY
        self.show(line, due)
        self._shown = now if due else self._shown


class ReadProgress(_Status):
    """Called with the bytes read and their total; shows the share once reading takes a while.

    Args:
        path: name of the file in the line.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._started < _PATIENCE:
            return
        speed = done / (now - self._started)
        share = f"{done / 1e6:,.1f}" + (f" of {total / 1e6:,.1f} MB" if total else " MB") + f", {speed / 1e6:,.0f} MB/s"
        if total and speed > 0:
            share += f", {duration((total - done) / speed)} left"
        self._show(f"reading {self._path}: {share}", now)


class StepProgress(_Status):
    """Called with the step, the documents done, and all documents; shows them once it takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self._step, self._first = "", 0

    def __call__(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if step != self._step:
            self._step, self._first, self._started = step, done, now
        if now - self._started < _PATIENCE:
            return
        since = done - self._first
        left = f", {duration((now - self._started) * (total - done) / since)} left" if since else ""
        self._show(f"{step}: {done:,} of {total:,} documents{left}", now)


def duration(seconds: float) -> str:
    """`0.42 s`, `12 s`, `3:05`, `1:02:03`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
