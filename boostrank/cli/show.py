"""Output of commands: tables, paragraphs, JSON and pages."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from boostrank.cli.errors import say
from boostrank.cli.progress import duration


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row: the first column flush left, the others, which hold numbers, flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows, aligned and indented."""
    for line in aligned(rows):
        click.echo(f"  {line}")


def width() -> int:
    """Number of columns of the terminal."""
    return click.get_current_context().terminal_width or shutil.get_terminal_size().columns


def print_wrapped(texts: Iterable[str], indent: str = "  ") -> None:
    """Print paragraphs as wide as the terminal."""
    for text in texts:
        click.echo(click.wrap_text(text, width(), "", indent))


def print_json(value: Any) -> None:
    """Print one JSON object; NaN becomes null."""
    from boostrank.records import jsonable

    click.echo(json.dumps(jsonable(value), allow_nan=False))


def shown(text: str) -> str:
    """Text from a file without characters that control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def listed(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def check_page(path: str | None) -> None:
    """Check early that a page can be drawn and written."""
    if path is None:
        return
    from boostrank.core.files import check_output
    from boostrank.report.charts import need_report_extra

    need_report_extra()
    check_output(path)


def write_page(path: str, html: str) -> None:
    """Write a page, and say so."""
    from boostrank.core.files import write_output

    write_output(path, html.encode("utf-8", "backslashreplace"))
    say(f"{path}: written")


def time_left() -> Callable[[int, int], str]:
    """Return a function (steps done, total) -> "  12 s left", empty at the end."""
    started = time.monotonic()

    def left(done: int, total: int) -> str:
        if done >= total:
            return ""
        return f"  {duration((time.monotonic() - started) / done * (total - done))} left"

    return left
