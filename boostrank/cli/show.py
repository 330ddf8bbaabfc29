"""Output of tables, paragraphs, JSON, pages and progress."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any, Self

import click
from click import echo

from boostrank.cli.errors import erase_line, say, show_line
from boostrank.core.errors import InputError
from boostrank.reporting.table import Table


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
    if path.endswith("/"):
        raise InputError(f"{path}: a page is one file; write a name such as {path}report.html")
    check_writable(path)


def write_page(path: str, html: str) -> None:
    """Write a page, and print its path to standard error."""
    from boostrank.core.files import write_atomically

    write_atomically(path, html.encode("utf-8", "backslashreplace"))
    say(f"{path}: written")


def time_left() -> Callable[[int, int], str]:
    """Return a function that formats the remaining time, (steps done, total) -> "  12 s left", or
    "" at the beginning and at the end.
    """
    started = time.monotonic()

    def describe(done: int, total: int) -> str:
        if not 0 < done < total:
            return ""
        return f"  {duration((time.monotonic() - started) / done * (total - done))} left"

    return describe


_PATIENCE = 0.5
LINE_INTERVAL = 10.0
"""Seconds between two lines without a terminal."""


class Progress:
    """A progress line that shows how much of the current step is done.

    On a terminal the line is updated in place. Elsewhere it is printed from time to time.
    """

    def __init__(self) -> None:
        self._started = self._printed = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        erase_line()

    def show(self, text: str, every: float) -> bool:
        """Show a text on a terminal, or print it elsewhere if the last line is `every` seconds old.
        Return whether it is.
        """
        now = time.monotonic()
        due = now - self._printed >= every
        if due:
            self._printed = now
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            show_line(text[: shutil.get_terminal_size().columns - 1])
        elif due:
            say(text)
        return due

    def advance(self, step: str, done: int, total: int | None, unit: str) -> None:
        """Show how much of a step is done, unless the command has just begun."""
        if self.seconds < _PATIENCE:
            return
        scale, digits = (1e6, 1) if unit == "MB" else (1, 0)
        counts = [f"{count / scale:,.{digits}f}" for count in (done, total) if count is not None]
        self.show(f"{step}: {' of '.join(counts)} {unit}", LINE_INTERVAL)


class ReadProgress(Progress):
    """A callback that takes the bytes read and their total, and shows progress once reading takes a
    while.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._step = f"reading {path}"

    def __call__(self, done: int, total: int | None) -> None:
        self.advance(self._step, done, total, "MB")


class StepProgress(Progress):
    """A callback that takes the step and its numbers of documents, and shows progress once they
    take a while.
    """

    def __call__(self, step: str, done: int, total: int) -> None:
        self.advance(step, done, total, "documents")


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
