"""HTML rendering from templates, which escapes text and records charts and tables for the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from markupsafe import Markup

from boostrank.core.text import count_of


@cache
def environment() -> Any:
    """Return the Jinja environment. Its functions `table` and `draw` record the page's tables and charts in `drawn`."""
    import jinja2

    @jinja2.pass_context
    def table(context: Any, name: str, rows: Iterable[Any], columns: Sequence[Any], **options: Any) -> Table:
        made = Table.of(name, rows, columns, **options)
        context["drawn"].append(made)
        return made

    @jinja2.pass_context
    def draw(context: Any, part: Any, title: str = "", about: str = "") -> Any:
        if title:
            words = " ".join(Markup(about).unescape().split()) if isinstance(about, Markup) else about
            part = replace(part, title=str(title), about=words)
        context["drawn"].append(part)
        return part

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("boostrank.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.do"],
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"f": format, "data": data_text, "range": interval, "count": count_of}
    made.tests["nan"] = math.isnan
    made.globals |= {"cell": Cell, "table": table, "draw": draw, "ends": end_columns}
    made.globals |= {"look_of": look_of, "fixed": fixed}
    macros = made.get_template("macros.html").module
    made.globals |= {name: getattr(macros, name) for name in ("key", "names", "whisker", "chip")}
    return made


def block(template: str, name: str, **values: Any) -> Markup:
    """Render one template block, or return "" if it does not exist. Append its charts and tables to `drawn`."""
    one = environment().select_template([template, "section.html"])
    drawn = one.blocks.get(name)
    context = one.new_context({"drawn": []} | values)
    return Markup("" if drawn is None else "".join(drawn(context)).strip())


def data_text(value: Any) -> Markup:
    """Encode a value as JSON that is safe inside a `script` element."""
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def interval(low: float, high: float, spec: str = ".4f") -> str:
    """Format an interval as ` [low, high]`, or as "" if it is NaN."""
    return "" if math.isnan(low) else f" [{low:{spec}}, {high:{spec}}]"


@dataclass(frozen=True)
class Column:
    """A table column.

    Args:
        name: name in the table's CSV, which omits columns named "".
        format: number format, such as "+.4f". "" groups the digits of whole numbers and rounds other numbers to four
            digits. None marks a text column.
        help: tooltip for the heading.
        look: CSS class of the cells, which is "faint", or "sign" to colour them by sign.
    """

    name: str
    label: str
    format: str | None = None
    help: str = ""
    look: str = ""


@dataclass(frozen=True)
class Cell:
    """A table cell whose text differs from its sort value.

    Args:
        value: number, text or None, used for sorting and in CSV.
        shown: text or markup that is displayed instead of the value.
        look: CSS class of the cell, which is "better", "worse", "faint" or "strong".
    """

    value: Any
    shown: Any = None
    look: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """A sortable table that is also readable without scripts.

    Args:
        name: name that is unique on the page and valid as a file name.
        columns: columns of the table. The first one contains the row headings.
        rows: one value or `Cell` per column. Text is escaped. NaN and None appear as a dash.
        details: expandable markup for each row, or "".
        order: name of the initial sort column. A leading "-" sorts in descending order.
        caption: what the table shows. Screen readers also read it out.
        marked: positions of highlighted rows.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    search: bool = False
    details: Sequence[Markup | None] = ()
    note: str = ""
    order: str = ""
    caption: str = ""
    marked: frozenset[int] = frozenset()

    @classmethod
    def of(cls, name: str, rows: Iterable[Any], columns: Iterable[Any], **options: Any) -> Table:
        """Build a table.

        Args:
            rows: sequences, or mappings or objects with one entry per column.
            columns: arguments for `Column`, or lists of such arguments.
        """
        flat = [one for given in columns for one in ([given] if isinstance(given[0], str) else given)]
        made = [Column(*one) for one in flat]

        def listed(row: Any) -> Sequence[Any]:
            if isinstance(row, list | tuple):
                return row
            return [row[column.name] if isinstance(row, dict) else getattr(row, column.name) for column in made]

        return cls(name, made, [listed(row) for row in rows], **options)

    def __html__(self) -> str:
        rows = [[_cell(column, value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]
        return block("parts.html", "table", table=self, rows=rows)


def _cell(column: Column, given: Any) -> tuple[Any, str | None, str]:
    """Return a cell's content, sort key and CSS classes. A cell without a sort key is sorted by its content."""
    cell = given if isinstance(given, Cell) else Cell(given)
    value = cell.value.item() if hasattr(cell.value, "item") else cell.value
    look = cell.look or column.look
    if look == "sign":
        look = "" if value is None else look_of(value, value)
    look = f"{'' if column.format is None else 'number'} {look}".strip()
    shown, by = value, None if cell.shown is None else str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        shown, by = "–", ""  # noqa: RUF001  a dash
    elif isinstance(value, bool | int | float):
        shown = format(value, column.format or ("," if isinstance(value, int) else ".4g"))
        by = f"{value:.8g}"
    return shown if cell.shown is None else cell.shown, by, look


def end_columns(format: str, low: str = "low", high: str = "high", look: str = "faint") -> list[tuple[str, ...]]:
    """Return the two columns that show a 95% interval."""
    about = "{} end of the 95% interval"
    return [(low, "from", format, about.format("lower"), look), (high, "to", format, about.format("upper"), look)]


def look_of(low: float, high: float) -> str:
    """Return the CSS class for an interval, which is coloured only if it excludes 0."""
    return "better" if low > 0.0 else "worse" if high < 0.0 else ""


def fixed(values: Iterable[float], *, sign: bool = False) -> str:
    """Return a number format that aligns decimal points and shows three digits of the largest finite value."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    places = min(max(2 - math.floor(math.log10(largest)), 0), 8) if largest > 0.0 else 0
    return f"{'+' * sign}.{places}f"
