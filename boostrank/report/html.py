"""HTML: escaping templates, tables, and self-contained pages."""

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
def _environment() -> Any:
    """Return the Jinja environment. `table`, `draw` and `side_by_side` record the parts of the page in `drawn`."""
    import jinja2

    @jinja2.pass_context
    def table(context: Any, name: str, rows: Iterable[Any], columns: Sequence[Any], **options: Any) -> Table:
        flat = [one for given in columns for one in ([given] if isinstance(given[0], str) else given)]
        made = Table.of(name, rows, [Column(*one) for one in flat], **options)
        context["drawn"].append(made)
        return made

    @jinja2.pass_context
    def draw(context: Any, part: Any, title: str = "", about: str = "") -> Any:
        if title:
            words = " ".join(Markup(about).unescape().split()) if isinstance(about, Markup) else about
            part = replace(part, title=str(title), about=words)
        context["drawn"].append(part)
        return part

    @jinja2.pass_context
    def side_by_side(context: Any, parts: Sequence[Any]) -> Markup:
        """Place parts next to each other if there is room, else below each other."""
        known = list(map(id, context["drawn"]))
        context["drawn"].extend(part for part in parts if id(part) not in known)
        return Markup('<div class="beside">{}</div>').format(Markup("").join(parts))

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("boostrank.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.do"],
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"f": format, "data": data_text, "names": names, "range": interval, "count": count_of}
    made.tests["nan"] = math.isnan
    made.globals |= {
        "key": key_number,
        "cell": Cell,
        "table": table,
        "draw": draw,
        "side_by_side": side_by_side,
        "ends": end_columns,
    }
    return made


def block(template: str, name: str, **values: Any) -> Markup:
    """Render one block of a template; "" if the template has no such block.

    Charts and tables are appended to the value `drawn`, if given.
    """
    one = _environment().select_template([template, "section.html"])
    drawn = one.blocks.get(name)
    context = one.new_context({"drawn": []} | values)
    return Markup("" if drawn is None else "".join(drawn(context)).strip())


def data_text(value: Any) -> Markup:
    """Return JSON that is safe inside a `script` element."""
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def names(some: Sequence[str], most: int = 12) -> Markup:
    """Return the first names, isolated for bidirectional text, and the number of further ones."""
    more = f" and {len(some) - most:,} more" if len(some) > most else ""
    return Markup(", ").join(Markup("<bdi>{}</bdi>").format(name) for name in some[:most]) + more


def key_number(label: str, value: Any, note: str = "") -> Markup:
    """Return an entry of a list of key numbers."""
    small = Markup("<span>{}</span>").format(note) if note else ""
    return Markup("<div><dt>{}</dt><dd><b>{}</b>{}</dd></div>").format(label, value, small)


def interval(low: float, high: float, spec: str = ".4f") -> str:
    """Format ` [low, high]`; "" for NaN."""
    return "" if math.isnan(low) else f" [{low:{spec}}, {high:{spec}}]"


@dataclass(frozen=True)
class Column:
    """A table column.

    Args:
        name: name in the table's CSV; "" leaves the column out.
        format: None for text, or a format spec such as "+.4f"; "" groups digits of whole numbers and rounds others
            to four digits. Numbers are right-aligned and sort numerically.
        help: tooltip of the heading, one sentence.
        look: class of the cells: "faint", or "sign" to colour by sign.
    """

    name: str
    label: str
    format: str | None = None
    help: str = ""
    look: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell whose text differs from its sort value.

    Args:
        value: number, text or None, for sorting and CSV.
        shown: text or markup; None shows the value.
        look: class of the cell: "better", "worse", "faint" or "strong".
    """

    value: Any
    shown: Any = None
    look: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """A sortable table, complete without scripts.

    Args:
        name: unique on a page and valid as a file name.
        columns: the first one is the row heading.
        rows: a value or a `Cell` per column. Text is escaped; NaN and None show as a dash.
        details: expandable markup per row; None or "" for rows without.
        order: initial sort column; a leading "-" sorts in descending order.
        caption: subject of the table, for screen readers.
        marked: numbers of highlighted rows.
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
    def of(cls, name: str, rows: Iterable[Any], columns: Sequence[Column], **options: Any) -> Table:
        """Return a table from sequences, or from objects whose attributes are the columns."""
        listed = [
            row
            if isinstance(row, list | tuple)
            else [row[column.name] if isinstance(row, dict) else getattr(row, column.name) for column in columns]
            for row in rows
        ]
        return cls(name, columns, listed, **options)

    def __html__(self) -> str:
        rows = [[_cell(column, value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]
        return block("parts.html", "table", table=self, rows=rows)


def _cell(column: Column, given: Any) -> tuple[Any, str | None, str]:
    """Return a cell's content, sort key (None: its text) and classes."""
    cell = given if isinstance(given, Cell) else Cell(given)
    value = cell.value.item() if hasattr(cell.value, "item") else cell.value
    look = cell.look or column.look
    if look == "sign":
        look = "" if value is None else look_of(value, value)
    look = f"{'' if column.format is None else 'number'} {look}".strip()
    shown, by = cell.shown, str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–" if shown is None else shown, "", look  # noqa: RUF001  a dash
    if isinstance(value, bool | int | float):
        by = f"{value:.8g}"
        spec = column.format or ("," if isinstance(value, int) else ".4g")
        return format(value, spec) if shown is None else shown, by, look
    return value if shown is None else shown, None if shown is None else by, look


def end_columns(format: str, low: str = "low", high: str = "high", look: str = "faint") -> list[tuple[str, ...]]:
    """Return the two columns of a 95% interval."""
    about = "{} end of the 95% interval"
    return [(low, "from", format, about.format("lower"), look), (high, "to", format, about.format("upper"), look)]


def look_of(low: float, high: float) -> str:
    """Return the look of an interval: coloured only if it excludes 0."""
    return "better" if low > 0.0 else "worse" if high < 0.0 else ""


def fixed(values: Iterable[float], *, sign: bool = False) -> str:
    """Return a format that aligns decimal points, with three digits for the largest finite value."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    places = min(max(2 - math.floor(math.log10(largest)), 0), 8) if largest > 0.0 else 0
    return f"{'+' * sign}.{places}f"


def whisker(mean: float, low: float, high: float, ends: tuple[float, float], look: str = "") -> Markup:
    """Draw a mean and its interval on a scale with these ends, in SVG; a NaN interval is left out."""

    def x(value: float) -> str:
        return f"{(min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0]) * 120:.1f}"

    marks = f'<line x1="{x(0.0)}" x2="{x(0.0)}" y1="0" y2="16" class="zero"/>'
    label = f"{mean:+.4f}"
    if math.isfinite(low + high):
        marks += f'<line x1="{x(low)}" x2="{x(high)}" y1="8" y2="8" class="span"/>'
        label += f", {low:+.4f} to {high:+.4f}"
    if math.isfinite(mean):
        marks += f'<circle cx="{x(mean)}" cy="8" r="3"/>'
    return Markup(
        f'<svg viewBox="-4 0 128 16" width="128" height="16" class="whisker {look or "faint"}" role="img" '
        f'aria-label="{label}">{marks}</svg>'
    )


def chip(text: str, look: str = "") -> Markup:
    """Return a framed word, such as a verdict.

    Args:
        look: as for `Cell`.
    """
    return Markup('<span class="{}">{}</span>').format(f"chip {look}".rstrip(), text)
