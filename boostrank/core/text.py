"""Formatting and parsing of names, numbers, sizes, counts, and small tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any

from boostrank.core.errors import ParameterError

_UNFIT = re.compile("[\0\ud800-\udfff]")

UNFIT_WORDS = "NUL or half a character (a lone surrogate)"
"""Characters that names must not contain: C and NumPy end text at NUL, and UTF-8 cannot encode lone
surrogates.
"""


def list_names(names: Sequence[str], most: int = 12) -> str:
    """Return the first names, followed by the number of other names."""
    remaining = len(names) - most
    ending = f" and {remaining:,} more" if remaining > 0 else ""
    return ", ".join(names[:most]) + ending


def first_unfit(names: Iterable[str]) -> int | None:
    """Return the position of the first name with forbidden characters, or None if there is none."""
    return next((number for number, name in enumerate(names) if _UNFIT.search(name)), None)


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number. `float` also accepts 1_000, digits of other scripts, and words such as nan."""
WRITTEN = re.compile(
    r"[+-]?[$€£]? ?(\d+|\d{1,3}([.,'_ \u00a0\u202f]\d{3})+)([.,]\d+)?([eE][+-]?\d+)? ?[%$€£]?"
)
"""A number as people write it: 0,5  1,234.5  1.234,5  12%  $3."""
NUMERIC = re.compile(rf"{NUMBER.pattern}|{WRITTEN.pattern}|[+-]?(nan|inf|infinity)", re.IGNORECASE)
"""A number, or what stands for one that is not finite."""
WHOLE = re.compile(r"(?<=\d)\.0*\Z", re.ASCII)
"""The decimals of a whole number."""
PLAIN_DIGITS = "write plain digits with a decimal point, without commas, blanks and units"


def number_in(word: str) -> float:
    """Return the finite number in a word, or NaN if there is none."""
    value = float(word) if NUMBER.fullmatch(word) else math.nan
    return value if math.isfinite(value) else math.nan


def as_name(value: Any) -> str:
    """Return a query id or a document name as text, which is empty if it is missing, and without
    the decimals of whole numbers."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return WHOLE.sub("", text) if isinstance(value, Decimal) else text


def no_number(word: str, remedy: str = "write a number") -> str:
    """Return the end of a message about a word in which `number_in` finds no number, with the
    remedy.
    """
    written = WRITTEN.fullmatch(word) and not NUMBER.fullmatch(word)
    return f"{word[:40]!r} is not a finite number: {PLAIN_DIGITS if written else remedy}"


_SIZE = re.compile(r"(.+?)\s*([KMGT]?)((?<=[KMGT])I)?\s*B?")


def parse_size(text: str) -> int:
    """Parse a size in bytes, such as `1.5 GB` (decimal), `2GiB` (binary) or `1000000`, or raise
    `ParameterError`.
    """
    parts = _SIZE.fullmatch(text.strip().upper())
    size = 0.0
    if parts:
        step = 1024 if parts[3] else 1000
        with suppress(ValueError):
            size = float(parts[1]) * step ** " KMGT".find(parts[2])
    if not 1.0 <= size < 2**63:
        raise ParameterError(f"{text!r} is not a size such as 800MB, 1.5GB or 2GiB")
    return int(size)


def typed_value(text: str) -> int | float | bool | str:
    """Convert text to a number or a bool if possible, or return the text otherwise."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


def count_of(number: int, noun: str, several: str = "") -> str:
    """Format a count, such as `1 worker` or `2,000 workers`, where `several` is an irregular
    plural.
    """
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def size_words(size: float) -> str:
    """Format a size, such as `310 MB` or `1.07 GB`."""
    return f"{size / 1e6:,.0f} MB" if size < 0.9995e9 else f"{size / 1e9:,.2f} GB"


_ROWS = 20


def aligned(rows: Sequence[Sequence[str]], numeric: Sequence[bool] = ()) -> list[str]:
    """Return one line per row, with numeric columns right-aligned: those in `numeric`, or all but
    the first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numeric = numeric or [False, *[True] * len(widths)]
    sides = [">" if right else "<" for right in numeric]
    lines = []
    for row in rows:
        columns = zip(row, sides, widths, strict=False)
        lines.append("  ".join(f"{text:{side}{width}}" for text, side, width in columns).rstrip())
    return lines


_TABLE = """<div><p><b>{{ title }}</b></p><table>
{%- for tag, row in rows -%}
<tr>
{%- for cell in row -%}
<{{ tag }} style='text-align:left'>{{ cell }}</{{ tag }}>
{%- endfor -%}
</tr>
{%- endfor -%}
</table>{% if more > 0 %}<p>and {{ "{:,}".format(more) }} more</p>{% endif %}</div>"""


def small_table(title: str, rows: Sequence[Sequence[Any]], columns: Sequence[str] = ()) -> str:
    """Render up to twenty rows as an HTML table. Text is escaped and truncated."""
    tagged = [("th", columns)] if columns else []
    tagged += [("td", [f"{cell!s:.200}" for cell in row]) for row in rows[:_ROWS]]
    table: str = _template().render(title=title, rows=tagged, more=len(rows) - _ROWS)
    return table


@cache
def _template() -> Any:
    from jinja2 import Template

    return Template(_TABLE, autoescape=True)
