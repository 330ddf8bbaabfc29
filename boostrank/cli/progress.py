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


class RoundProgress:
    """A training callback that shows round, headline metric on each set, and time left.

    Args:
        metric: the headline metric; None shows no metric.
        folds: number of trainings, one after another; 0: one.
        stops: whether early stopping may end the training at any round, so that the time left is unknown.
    """

    before_iteration = False
    order = 25  # before early stopping, which ends the round by an exception

    def __init__(self, metric: str | None, *, folds: int = 0, stops: bool = False) -> None:
        self._metric, self._folds, self._stops = metric, folds, stops
        plain = _PlainLines(every=_READING_EVERY if folds else _AT_MOST_EVERY)
        self._display: _LiveLine | _PlainLines = _LiveLine() if sys.stderr.isatty() else plain
        self._started, self._fold = time.monotonic(), 1
        self._ends: deque[float] = deque()
        self._binning: tuple[float, int, int] | None = None
        self.rounds = 0
        self.total = 0

    def __enter__(self) -> RoundProgress:
        self._display.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.stop()

    def __call__(self, env: Any) -> None:
        now = time.monotonic()
        self._ends.append(now)
        while len(self._ends) > _RECENT_ROUNDS and now - self._ends[0] > _RECENT_SECONDS:
            self._ends.popleft()
        self.rounds, self.total = env.iteration + 1, env.end_iteration
        values = [f"{r[0]} {r[1]} {r[2]:.4f}" for r in env.evaluation_result_list or [] if r[1] == self._metric]
        left = ""
        if len(self._ends) > 1 and not self._stops:  # the first round also compiles
            a_round = (now - self._ends[0]) / (len(self._ends) - 1)
            left = f"{duration(a_round * (self.total - self.rounds))} left"
        fold = f"fold {self._fold}/{self._folds}, " if self._folds else ""
        self._display.show(self.rounds, self.total, "  ".join(values), left, fold)

    def next_fold(self) -> None:
        """Count the next training, whose rounds begin anew."""
        self._fold += 1
        self._ends.clear()

    @property
    def seconds(self) -> float:
        """Seconds since creation."""
        return time.monotonic() - self._started

    def say(self, line: str) -> None:
        """Print a permanent line."""
        self._display.print(line)

    def binning(self, done: int, rows: int) -> None:
        """Show binned rows; engines may pass over them several times."""
        now = time.monotonic()
        if self._binning is None or done < self._binning[2]:  # a pass begins
            self._binning = (now, done, done)
        started, first, _ = self._binning
        self._binning = (started, first, done)
        speed = (done - first) / (now - started) if now > started else 0.0
        left = f", {duration((rows - done) / speed)} left" if speed else ""
        self._display.say(f"binning: {done:,} of {rows:,} rows, {speed / 1e3:,.0f}k rows/s{left}")


class _Status:
    """Progress line of a long step, rewritten in place on a terminal."""

    def __init__(self) -> None:
        self._started = self._shown = time.monotonic()
        self._live: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _show(self, line: str, now: float) -> None:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.markup import escape

            if self._live is None:
                self._live = Console(stderr=True, highlight=False).status("")
                self._live.start()
            self._live.update(escape(line))
        elif now - self._shown >= _READING_EVERY:
            say(line)
            self._shown = now


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


class _LiveLine:
    """`round 61/200 ━━━━━━━ vali ndcg@10 0.4312  12 s left`, rewritten in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[values]}  [dim]{task.fields[left]}"),
            console=Console(stderr=True, highlight=False),
            transient=True,
            redirect_stdout=False,
        )
        self._task = self._progress.add_task("round 0", values="compiling and binning", left="", total=None)

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self._progress.update(self._task, values=text)

    def print(self, line: str) -> None:
        self._progress.console.print(line, markup=False, soft_wrap=True)

    def show(self, rounds: int, total: int, values: str, left: str, fold: str) -> None:
        self._progress.update(
            self._task,
            description=f"{fold}round {rounds}/{total}",
            completed=rounds,
            total=total,
            values=values,
            left=left,
        )


class _PlainLines:
    """Print plain lines, rarely."""

    def __init__(self, every: float) -> None:
        self._last_round, self._last_time, self._every = 0, 0.0, every

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def say(self, text: str) -> None:
        now = time.monotonic()
        if now - (self._last_time or now) >= _READING_EVERY:
            say(text)
            self._last_time = now
        self._last_time = self._last_time or now

    def print(self, line: str) -> None:
        say(line)

    def show(self, rounds: int, total: int, values: str, left: str, fold: str) -> None:
        now = time.monotonic()
        since = now - (self._last_time or (now if fold else 0.0))
        self._last_time = self._last_time or (now if fold else 0.0)
        step = max(1, total // _LINES)
        due = since >= _AT_LEAST_EVERY or (rounds // step > self._last_round // step and since >= self._every)
        if due or (rounds in (1, total) and not fold):
            say("  ".join(filter(None, [f"{fold}round {rounds}/{total}", values, left if rounds < total else ""])))
            self._last_round, self._last_time = rounds, now


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
