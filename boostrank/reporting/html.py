"""HTML of pages: templates, which escape text, tables, and Altair (Vega-Lite) charts with a shared
theme, which are recorded for the page.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from string import Template
from typing import Any

from markupsafe import Markup

from boostrank.core.errors import MissingDependency, TrainingError
from boostrank.core.text import count_of
from boostrank.records import jsonable
from boostrank.reporting.table import Cell, Column, Table, fixed, import_extra, interval


@cache
def environment() -> Any:
    """Return the Jinja environment. Its function `draw` records charts in `drawn`."""
    import jinja2

    @jinja2.pass_context
    def draw(context: Any, element: Any, title: str = "", about: str = "") -> Any:
        if isinstance(element, Table):  # of a section without a template
            return table_html(element)
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
            numbers = [cell.value for cells in intervals for cell in cells if not cell.missing]
            finite = [0.0, *filter(math.isfinite, numbers)]
            scale = min(finite), max(finite)  # a common one, which includes 0
            drawings = []
            for mean, low, high in intervals:
                drawing = None
                if not mean.missing:
                    drawing = draw(mean.value, low.value, high.value, scale, mean.look)
                drawings.append(Cell(mean.value, drawing))
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
        sort_key = f"{value:.12g}"
    return text, sort_key, f"{css_class} {css_look}".strip()


def look_of(low: float, high: float) -> str:
    """Return the CSS class for an interval, which is coloured only if it excludes 0."""
    if low > 0.0:
        return "better"
    return "worse" if high < 0.0 else ""


class _Altair:
    """A proxy that imports the module `altair` on first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("altair"), name)


alt: Any = _Altair()

_MAIN = "#3b7fc4"  # visible on white and black

# Colours in the light and the dark theme, as in style.css.
_THEMES = {
    "text": ("#1c2024", "#e6e8ea"),
    "faint": ("#60666d", "#9ba1a8"),
    "line": ("#d9dde1", "#363b41"),
    "back": ("#ffffff", "#15181b"),
}

# vl-convert's V8 reserves 64 GB of address space. It aborts the process under an address limit
# (`ulimit -v`), and in a process forked after drawing. So it runs in a separate process.
_CHILD = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request["path"]
import vl_convert
json.dump(vl_convert.javascript_bundle(**request["arguments"]), sys.stdout)
"""


def need_report_extra() -> None:
    """Check that charts can be drawn, before any expensive work starts."""
    for module in ("pandas", "altair", "vl_convert"):
        import_extra(module)
    vega_lite_version()


def vega_lite_version() -> str:
    """Return the Vega-Lite version that Altair writes."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    if version not in import_module("vl_convert").get_vegalite_versions():
        raise MissingDependency(
            f"altair writes Vega-Lite {version}, which the installed vl-convert-python does not"
            " support: pip install --upgrade 'boostrank[report]'"
        )
    return version


@cache
def vega_script() -> str:
    """Return the browser script `window.vegaEmbed` of about 0.9 MB, which takes two seconds to
    build.

    Raises:
        TrainingError: the process that builds the script cannot be started, or fails.
    """
    need_report_extra()
    arguments = {"snippet": "window.vegaEmbed = vegaEmbed;", "vl_version": vega_lite_version()}
    folders = [os.path.abspath(folder) for folder in sys.path]
    request = json.dumps({"path": folders, "arguments": arguments})
    try:  # -P: import nothing from the current folder
        process = subprocess.run(
            [sys.executable, "-P", "-c", _CHILD],
            input=request.encode(),
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", b"").decode(errors="replace").strip()
        raise TrainingError(
            "the script of charts cannot be built; give the process 64 GB of address space (ulimit"
            f" -v), of which it uses little: {output.rpartition(chr(10))[2] or error}"
        ) from error
    # Notice required by the BSD licence.
    notice = (
        "/* Vega, Vega-Lite, Vega-Embed: copyright University of Washington Interactive Data Lab,"
        " BSD-3-Clause */"
    )
    return f"{notice}(() => {{{json.loads(process.stdout)}\n}})();"


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Return the shared Vega-Lite `config`."""
    colours = {"main": _MAIN} | {
        name: light_and_dark[dark] for name, light_and_dark in _THEMES.items()
    }
    config: dict[str, Any] = json.loads(Template(read_template("theme.json")).substitute(colours))
    return config


_DIGITS = 9  # distinguish all values of float32
# Width in pixels outside a page. In a page, charts fill the available width.
_WIDTH = 680


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart and its data.

    Args:
        name: name that is unique on the page and valid as a file name.
        frame: pandas data frame of the figure, for CSV.
        figure: Altair chart with a single view, possibly layered, and with a height in pixels. The
            page sets its width and the colours of text, axes and background. Column names must not
            contain dots or brackets, because Vega-Lite interprets them.
        about: caption, which screen readers also read out.
    """

    name: str
    frame: Any
    figure: Any
    title: str = ""
    about: str = ""

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification with its data under `datasets`, rounded to nine
        digits.
        """
        with alt.data_transformers.enable("default", max_rows=None, consolidate_datasets=True):
            spec: dict[str, Any] = self.figure.to_dict()
        spec.pop("config", None)  # Altair's default size
        spec["datasets"] = jsonable(spec["datasets"], digits=_DIGITS)
        spec["description"] = self.description  # otherwise Vega writes a description of its own
        return spec | {"width": _WIDTH, "autosize": {"type": "fit-x", "contains": "padding"}}

    @property
    def description(self) -> str:
        """The title and the caption, used as alternative text."""
        return f"{self.title}. {self.about}"

    def __html__(self) -> str:
        """Return the element that the page's script draws into."""
        spec = self.spec()
        # The largest data set can be saved from the page.
        numbers = max(spec["datasets"], key=lambda name: sum(map(len, spec["datasets"][name])))
        data = {"name": self.name, "spec": spec, "numbers": numbers}
        return block("parts.html", "chart", chart=self, data=data)


def lines(
    frame: Any,
    x: Any,
    y: str,
    *,
    height: int = 260,
    **y_options: Any,
) -> Any:
    """Draw column `y` as lines over the channel `x`, and shade the area between the columns `low`
    and `high`, if there are any.

    Args:
        y_options: options for the vertical axis, `color` (the channel that separates lines) and
            `dots` (the point size).
    """
    dots, color = y_options.pop("dots", 18), y_options.pop("color", alt.Undefined)
    base = alt.Chart(frame).encode(x=x, color=color)
    points = alt.OverlayMarkDef(size=dots) if dots else False
    line = base.mark_line(point=points).encode(y=alt.Y(f"{y}:Q", **y_options))
    if "low" in frame:
        area = base.mark_area(opacity=0.2, color=_MAIN)
        line = area.encode(y=alt.Y("low:Q", **y_options), y2="high:Q") + line
    return line.properties(height=height)


def whole_numbers() -> Any:
    """Return an axis that shows whole numbers only."""
    return alt.Axis(format=",d", tickMinStep=1)
