"""Notebook cells: what `_repr_html_` of models, data sets and results gives: a small table, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

_ROWS = 20
_CHARACTERS = 200


def cell(text: Any) -> str:
    """Text as HTML, cut where it is long."""
    words = str(text)
    return escape(words if len(words) <= _CHARACTERS else words[: _CHARACTERS - 1] + "…")


def small_table(title: str, rows: Sequence[Sequence[Any]], columns: Sequence[str] = ()) -> str:
    """A table; everything in it is escaped.

    Args:
        title: above it.
        rows: of which twenty are shown; the first of each names it.
        columns: names, or none.
    """
    head = "".join(f"<th>{cell(name)}</th>" for name in columns)
    body = "".join(
        f"<tr><th style='text-align:left'>{cell(row[0])}</th>"
        + "".join(f"<td style='text-align:left'>{cell(value)}</td>" for value in row[1:])
        + "</tr>"
        for row in rows[:_ROWS]
    )
    more = f"<p>and {len(rows) - _ROWS:,} more</p>" if len(rows) > _ROWS else ""
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<div><p><b>{cell(title)}</b></p><table>{head}<tbody>{body}</tbody></table>{more}</div>"
