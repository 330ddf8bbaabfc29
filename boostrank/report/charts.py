"""Charts by Altair (Vega-Lite): drawn in a page by the browser, or here as a picture."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from boostrank.core.errors import ParameterError, TrainingError
from boostrank.core.files import AnyPath, write_atomically
from boostrank.records import jsonable
from boostrank.report.html import PageSection, block, page
from boostrank.report.result import csv_bytes
from boostrank.report.vega import Call, alt, converted, need_report_extra, theme, vega_lite_version

if TYPE_CHECKING:
    import pandas as pd

SHARE = ".3~p"
"""Format of shares on an axis, also of small ones."""
_DIGITS = 5
# Of a picture made here; in a page charts are as wide as there is room.
_WIDTH = 680
# Elements of the document make a chart sharp in print, and many of them a page slow.
_MOST_ELEMENTS = 2500
_COMPOSED = ("hconcat", "vconcat", "concat", "facet", "repeat")
_FACETS = ("row", "column", "facet")
# Characters on either side of what is left out of a name, beside which there is room for the chart.
_SIDE = "(width < 480 ? 10 : 13)"
_MIDDLE_CUT = (
    f"length(datum.label) > 2 * {_SIDE} + 1 ? slice(datum.label, 0, {_SIDE}) + '…' + slice(datum.label, -{_SIDE}) : "
    "datum.label"
)


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart, and the numbers behind it.

    Args:
        name: unique on a page, fit for a file name: "learning-curve".
        frame: pandas data frame of the numbers, for CSV and JSON. If the figure is drawn from this very frame, the page
            carries it once.
        figure: an Altair chart of a height in pixels. Width and the colours of text, axes and background are those of
            the page; several views side by side keep their widths. Columns of its data have names of our own:
            Vega-Lite reads dots and brackets in them.
        title: in words.
        about: one sentence: the caption, which screen readers read.
    """

    name: str
    frame: pd.DataFrame
    figure: Any
    title: str = ""
    about: str = ""

    def spec(self) -> dict[str, Any]:
        """The figure in Vega-Lite, with its data, rounded to five digits, as rows under `datasets`."""
        with alt.data_transformers.enable("default", max_rows=None, consolidate_datasets=True):
            spec: dict[str, Any] = self.figure.to_dict()
        spec.get("config", {}).pop("view", None)  # Altair's default size
        for key in ("title", "background", "padding"):
            spec.pop(key, None)
        _cut_names(spec)
        if "datasets" in spec:
            spec["datasets"] = jsonable(spec["datasets"], digits=_DIGITS)
        spec["description"] = self.description  # Vega puts it, or words of its own, into the element that it draws in
        composed = any(key in spec for key in _COMPOSED) or any(key in spec.get("encoding", {}) for key in _FACETS)
        if not composed and "width" not in spec:
            spec |= {"width": _WIDTH, "autosize": {"type": "fit-x", "contains": "padding"}}
        return spec

    @property
    def description(self) -> str:
        """Title and caption, for those who cannot see the chart."""
        return f"{self.title}. {self.about}"

    def rows(self) -> list[dict[str, Any]]:
        """The frame, a dictionary a row, rounded likewise; None for what is not a number."""
        return list(jsonable(self.frame.to_dict("records"), digits=_DIGITS))

    def __html__(self) -> str:
        """Return the element that the page's script draws into."""
        spec = self.spec()
        datasets = {name: _columns(rows) for name, rows in spec.pop("datasets", {}).items()}
        numbers = _columns(self.rows())
        shared = next((name for name, columns in datasets.items() if columns == numbers), None)
        many = sum(len(next(iter(columns.values()), ())) for columns in datasets.values()) > _MOST_ELEMENTS
        kept = {"name": self.name, "spec": spec, "datasets": datasets, "numbers": shared or numbers}
        kept["renderer"] = "canvas" if many else "svg"
        return block("parts.html", "chart", chart=self, kept=kept, fits="autosize" in spec)

    def to_svg(self, *, dark: bool = False) -> str:
        """The picture, 680 pixels wide.

        Raises:
            MissingDependency: the extra `report` is not installed.
            TrainingError: it cannot be drawn.
        """
        return svgs_of([self], dark=dark)[0]

    def save(self, path: AnyPath) -> None:
        """Write the chart, whole or not at all: .svg, .png or .html the picture, .csv or .json the numbers.

        Raises:
            ParameterError: another ending.
            MissingDependency: the extra `report` is not installed.
            TrainingError: it cannot be drawn, or the file not be written.
        """
        need_report_extra()
        ending = Path(path).suffix.lower()
        if ending in (".svg", ".png"):
            try:
                made = self._to_png() if ending == ".png" else self.to_svg().encode()
            except TrainingError as error:
                raise TrainingError(f"{os.fspath(path)}: {error}") from error
        elif ending == ".html":
            made = page(self.title, [PageSection("chart", "", Markup(self), drawn=[self])]).encode(
                "utf-8", "backslashreplace"
            )
        elif ending == ".csv":
            made = csv_bytes(self.frame)
        elif ending == ".json":
            made = json.dumps(self.rows(), allow_nan=False).encode()
        else:
            raise ParameterError(f"{os.fspath(path)}: a chart is written as .svg, .png, .html, .csv or .json")
        write_atomically(path, made)

    def _to_png(self) -> bytes:
        return bytes.fromhex(converted([self._call("vegalite_to_png", scale=2)])[0])

    def _call(self, function: str, *, dark: bool = False, **more: Any) -> Call:
        arguments = {"vl_spec": self.spec(), "vl_version": vega_lite_version(), "config": theme(dark=dark)}
        return function, arguments | more


def svgs_of(charts: Sequence[Chart], *, dark: bool = False) -> list[str]:
    """The pictures of several charts, in little more time than that of one.

    Raises:
        MissingDependency, TrainingError: as `Chart.to_svg`.
    """
    need_report_extra()
    made = converted([chart._call("vegalite_to_svg", dark=dark) for chart in charts])
    named = [f'<svg role="img" aria-label="{escape(chart.description, quote=True)}" ' for chart in charts]
    return [one.replace("<svg ", name, 1) for one, name in zip(made, named, strict=True)]


def _cut_names(spec: Any) -> None:
    """Long names on axes are cut in the middle, where they differ least; the pointer shows them whole."""
    if isinstance(spec, list):
        for one in spec:
            _cut_names(one)
    elif isinstance(spec, dict):
        for place in ("x", "y"):
            channel = spec.get("encoding", {}).get(place, {})
            if channel.get("type") == "nominal" and channel.get("axis", {}) is not None:
                channel["axis"] = {"labelExpr": _MIDDLE_CUT, **channel.get("axis", {})}
        for key in ("layer", *_COMPOSED):
            _cut_names(spec.get(key))


def middle_cut(name: str, most: int = 40) -> str:
    """A name with its middle left out where it is longer than `most` characters."""
    side = (most - 1) // 2
    return name if len(name) <= most else f"{name[:side]}…{name[-side:]}"


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows of the same keys, which a page carries in less space."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in keys}


def stretched(small: float, ends: tuple[float, float], marks: tuple[int, ...] = (1,)) -> tuple[Any, list[float]]:
    """A scale that is linear up to `small` on either side of 0 and logarithmic beyond, and its ticks: 0 and, as far as
    `ends`, `small` times these marks times powers of ten."""
    ticks = (sign * small * a * 10.0**i for sign in (-1, 1) for i in range(8) for a in marks)
    scale = alt.Scale(type="symlog", constant=small, nice=False, domain=list(ends))
    return scale, sorted([0.0, *(tick for tick in ticks if ends[0] <= tick <= ends[1])])


def logarithmic(ends: tuple[float, float]) -> tuple[Any, list[float]]:
    """A logarithmic scale between two positive ends, and its ticks."""
    low, high = (math.floor(math.log10(end)) for end in ends)
    marks = (1.0,) if high - low > 3 else (1.0, 3.0) if high > low else (1.0, 2.0, 5.0)
    ticks = (mark * 10.0**i for i in range(low, high + 1) for mark in marks)
    return alt.Scale(type="log", nice=False, domain=list(ends)), [one for one in ticks if ends[0] <= one <= ends[1]]


def tooltips(*columns: str) -> list[Any]:
    """What is shown where the pointer rests: of each column "name:type", and then its format and its title, if any."""
    parts = [column.split(maxsplit=2) for column in columns]
    return [alt.Tooltip(name, **dict(zip(("format", "title"), rest, strict=False))) for name, *rest in parts]
