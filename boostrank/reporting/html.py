"""HTML rendering from templates, which escapes text and records charts and tables for the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from boostrank.core.text import count_of
from boostrank.reporting.table import Cell, Column, Table, fixed, interval


@cache
def environment() -> Any:
    """Return the Jinja environment. Its function `draw` records charts in `drawn`."""
    import jinja2

    @jinja2.pass_context
    def draw(context: Any, element: Any, title: str = "", about: str = "") -> Any:
        if title:
            if isinstance(about, Markup):
                about = " ".join(about.unescape().split())
            element = replace(element, title=str(title), about=about)
        context["drawn"].append(element)
        return element

    def table(table: Any, rows: Any = (), columns: Any = (), name: str = "", **options: Any) -> Any:
        if isinstance(table, str):  # a table of the page only, with the arguments of each `Column`
            declared = [Column(*arguments) for arguments in columns]
            names = [column.name for column in declared]
            data = dict(zip(names, zip(*rows, strict=True), strict=False))
            table = Table(table, data, declared)
        return table_html(replace(table, name=name or table.name), **options)

    jinja = jinja2.Environment(
        loader=jinja2.PackageLoader("boostrank.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.do"],
        undefined=jinja2.StrictUndefined,
    )
    jinja.filters |= {"f": format, "data": data_text, "to": interval, "count": count_of}
    jinja.tests["nan"] = math.isnan
    functions = {"cell": Cell, "table": table, "draw": draw, "look_of": look_of, "fixed": fixed}
    jinja.globals |= functions
    macros = jinja.get_template("macros.html").module
    jinja.globals |= {name: getattr(macros, name) for name in ("key", "names", "whisker")}
    return jinja


def block(template: str, name: str, **values: Any) -> Markup:
    """Render one template block, or return "" if it does not exist. Append its charts to
    `drawn`.
    """
    source = environment().select_template([template, "section.html"])
    if name not in source.blocks:
        return Markup("")
    return Markup("".join(source.blocks[name](source.new_context(values))).strip())


def read_template(name: str) -> str:
    """Return the text of a file in the folder of templates."""
    return files("boostrank.reporting").joinpath("templates", name).read_text("utf-8")


def data_text(value: Any) -> Markup:
    """Encode a value as JSON that is safe inside a `script` element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def table_html(table: Table, **options: Any) -> Markup:
    """Return a sortable table that is also readable without scripts.

    Args:
        options: `details` (expandable markup for each row, or ""), `search` (whether there is a
            search field), `note` (paragraph above the table), `order` (name of the initial sort
            column, after "-" for descending order), `caption` (what the table shows, also for
            screen readers), and `marked` (positions of highlighted rows).
    """
    columns: list[tuple[Column, list[Cell]]] = []
    draw = environment().globals["whisker"]
    for column in table.declared:
        cells = table.cells_of(column.name)
        columns.append((column, cells))
        # The ends of an interval are columns of their own, followed by a drawing.
        for name, label, side in zip(column.ends, ("from", "to"), ("lower", "upper"), strict=False):
            help = f"{side} end of the 95% interval"
            end_column = Column(name, label, column.format, help=help, look="faint")
            columns.append((end_column, table.cells_of(name)))
        if column.drawn:
            intervals = list(zip(cells, *map(table.cells_of, column.ends), strict=True))
            numbers = [cell.value for interval in intervals for cell in interval]
            finite = [0.0, *(number for number in numbers if math.isfinite(number))]
            scale = min(finite), max(finite)  # a common one, which includes 0
            drawings = [
                Cell(mean.value, draw(mean.value, low.value, high.value, scale, mean.look))
                for mean, low, high in intervals
            ]
            columns.append((Column("", "95% interval", ""), drawings))
    html_columns = [[_html_cell(column, cell) for cell in cells] for column, cells in columns]
    rows, declared = list(zip(*html_columns, strict=True)), [column for column, _ in columns]
    return block("parts.html", "table", table=table, columns=declared, rows=rows, **options)


def _html_cell(column: Column, cell: Cell) -> tuple[Any, str | None, str]:
    """Return a cell's content, sort key and CSS classes. A cell without a sort key is sorted by its
    content.
    """
    value = cell.value
    text = column.text(cell, "–")  # noqa: RUF001  a dash
    css_look = cell.look or column.look
    if css_look.startswith("chip"):
        text, css_look = Markup('<span class="{}">{}</span>').format(css_look, text), ""
    css_class = "" if column.format is None else "number"
    # Numbers are sorted by their value, and missing ones come last.
    sort_key = None if cell.display is None else str(value)
    if cell.missing:
        sort_key = ""
    elif isinstance(value, bool | int | float):
        sort_key = f"{value:.8g}"
    return text, sort_key, f"{css_class} {css_look}".strip()


def look_of(low: float, high: float) -> str:
    """Return the CSS class for an interval, which is coloured only if it excludes 0."""
    if low > 0.0:
        return "better"
    return "worse" if high < 0.0 else ""
