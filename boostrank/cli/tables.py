"""Tables of text, the same on a terminal and in a file; and text that is safe to show."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import click


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line a row: the first column flush left, the others, which hold numbers, flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """The rows, aligned and indented."""
    for line in aligned(rows):
        click.echo(f"  {line}")


def width_of(context: click.Context) -> int:
    """Columns of the terminal."""
    return context.terminal_width or shutil.get_terminal_size().columns


def shown(text: str) -> str:
    """Text from a file without what would steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
