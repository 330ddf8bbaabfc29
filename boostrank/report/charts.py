"""Altair (Vega-Lite) charts, drawn by the browser or saved as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from boostrank.records import jsonable
from boostrank.report.html import block
from boostrank.report.vega import COLOURS, alt, converted, need_report_extra, theme, vega_lite_version

if TYPE_CHECKING:
    import pandas as pd

SHARE = ".3~p"
"""Axis format of shares; small shares keep their digits."""
_DIGITS = 5
# Width of saved pictures. In a page, charts fill the available width.
_WIDTH = 680
# Limit on SVG elements: SVG is sharp in print, but many elements slow a page down.
_MOST_ELEMENTS = 2500
_COMPOSED = ("hconcat", "vconcat", "concat", "facet", "repeat")
_FACETS = ("row", "column", "facet")
# Characters kept at each end of a shortened name, so that the chart has room.
_SIDE = "(width < 480 ? 8 : 13)"
_MIDDLE_CUT = (
    f"length(datum.label) > 2 * {_SIDE} + 1 ? slice(datum.label, 0, {_SIDE}) + '…' + slice(datum.label, -{_SIDE}) : "
    "datum.label"
)


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart and its data.

    Args:
        name: unique on a page and valid as a file name: "learning-curve".
        frame: pandas data frame for CSV and JSON. If the figure uses this very object, the page embeds it once.
        figure: Altair chart with its height in pixels. The page sets its width and the colours of text, axes and
            background; views side by side keep their widths. Columns of its data need plain names, because Vega-Lite
            interprets dots and brackets.
        about: caption of one sentence, also read by screen readers.
    """

    name: str
    frame: pd.DataFrame
    figure: Any
    title: str = ""
    about: str = ""

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification with its data under `datasets`, rounded to five digits."""
        with alt.data_transformers.enable("default", max_rows=None, consolidate_datasets=True):
            spec: dict[str, Any] = self.figure.to_dict()
        spec.get("config", {}).pop("view", None)  # Altair's default size
        for key in ("title", "background", "padding"):
            spec.pop(key, None)
        _cut_names(spec)
        if "datasets" in spec:
            spec["datasets"] = jsonable(spec["datasets"], digits=_DIGITS)
        spec["description"] = self.description  # otherwise Vega writes a description of its own
        composed = any(key in spec for key in _COMPOSED) or any(key in spec.get("encoding", {}) for key in _FACETS)
        if not composed and "width" not in spec:
            spec |= {"width": _WIDTH, "autosize": {"type": "fit-x", "contains": "padding"}}
        return spec

    @property
    def description(self) -> str:
        """Title and caption, as alternative text."""
        return f"{self.title}. {self.about}"

    def __html__(self) -> str:
        """Return the element that the page's script draws into."""
        spec = self.spec()
        datasets = {name: _columns(rows) for name, rows in spec.pop("datasets", {}).items()}
        numbers = jsonable(self.frame.to_dict("list"), digits=_DIGITS)
        shared = next((name for name, columns in datasets.items() if columns == numbers), None)
        many = sum(len(next(iter(columns.values()), ())) for columns in datasets.values()) > _MOST_ELEMENTS
        kept = {"name": self.name, "spec": spec, "datasets": datasets, "numbers": shared or numbers}
        kept["renderer"] = "canvas" if many else "svg"
        return block("parts.html", "chart", chart=self, kept=kept, fits="autosize" in spec)

    def to_svg(self) -> str:
        """Return the chart as an SVG, 680 pixels wide.

        Raises:
            MissingDependency: the extra `report` is not installed.
            TrainingError: the chart cannot be drawn.
        """
        return svgs_of([self])[0]


def svgs_of(charts: Sequence[Chart]) -> list[str]:
    """Return several charts as SVG, as `Chart.to_svg`. One process draws all of them."""
    need_report_extra()
    how = {"vl_version": vega_lite_version(), "config": theme()}
    made = converted([("vegalite_to_svg", {"vl_spec": chart.spec(), **how}) for chart in charts])
    named = [f'<svg role="img" aria-label="{escape(chart.description, quote=True)}" ' for chart in charts]
    return [one.replace("<svg ", name, 1) for one, name in zip(made, named, strict=True)]


def _cut_names(spec: Any) -> None:
    """Shorten long axis names in the middle; the tooltip shows the full name."""
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


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Convert rows to columns, which take less space in a page."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in keys}


def stretched(small: float, ends: tuple[float, float], marks: tuple[int, ...] = (1,)) -> tuple[Any, list[float]]:
    """Return a scale that is linear up to +-`small` and logarithmic beyond, and its ticks.

    Ticks are 0 and, within `ends`, `small` times `marks` times powers of ten.
    """
    ticks = (sign * small * a * 10.0**i for sign in (-1, 1) for i in range(8) for a in marks)
    scale = alt.Scale(type="symlog", constant=small, nice=False, domain=list(ends))
    return scale, sorted([0.0, *(tick for tick in ticks if ends[0] <= tick <= ends[1])])


def lines(
    frame: pd.DataFrame, x: Any, y: str, tips: Sequence[str], *, band: Sequence[str] = (), height: int = 260, **how: Any
) -> Any:
    """Return lines of column `y` over the channel `x`, and the area between the two columns of `band`.

    Args:
        how: `color`, the channel of several lines; `dots`, the size of points; options of the vertical axis.
    """
    dots, channels = how.pop("dots", 18), {"color": how.pop("color")} if "color" in how else {}
    base = alt.Chart(frame).encode(x=x, tooltip=tooltips(*tips), **channels)
    line = base.mark_line(point=alt.OverlayMarkDef(size=dots) if dots else False)
    line = line.encode(y=alt.Y(f"{y}:Q", **how))
    if band:
        area = base.mark_area(opacity=0.2, color=COLOURS["main"])
        line = area.encode(y=alt.Y(f"{band[0]}:Q", **how), y2=f"{band[1]}:Q") + line
    return line.properties(height=height)


def histogram(frame: pd.DataFrame, x: str, count: str, format: str, *, height: int = 220, **how: Any) -> Any:
    """Return bars of the columns `begin`, `end` and `count`.

    Args:
        how: `color`, a channel; options of the horizontal axis.
    """
    channels = {"color": how.pop("color")} if "color" in how else {}
    bars = alt.Chart(frame).mark_bar(binSpacing=1)
    tips = tooltips(f"begin:Q {format} from", f"end:Q {format} to", f"{count}:Q ,d")
    y = alt.Y(f"{count}:Q", title=count, axis=alt.Axis(tickMinStep=1))
    drawn = bars.encode(x=alt.X("begin:Q", title=x, bin="binned", **how), x2="end:Q", y=y, tooltip=tips, **channels)
    return drawn.properties(height=height)


def ranges(base: Any, title: str, *, low: str = "low", value: str = "value", high: str = "high") -> Any:
    """Return the interval and the mean of each row of a chart, on a horizontal axis."""
    x = alt.X(f"{low}:Q", title=title, scale=alt.Scale(zero=False, nice=True))
    rule = base.mark_rule(strokeWidth=4, opacity=0.5).encode(x=x, x2=f"{high}:Q")
    return rule + base.mark_point(size=70).encode(x=f"{value}:Q")


def quantile_marks(base: Any, title: str) -> Any:
    """Return box marks of quantiles and means on a horizontal axis, one row each."""
    main = COLOURS["main"]
    return alt.layer(
        base.mark_rule(opacity=0.5).encode(x=alt.X("q05:Q", title=title), x2="q95:Q"),
        base.mark_bar(height=10, opacity=0.35, color=main).encode(x="q25:Q", x2="q75:Q"),
        base.mark_tick(thickness=2, size=13, color=main).encode(x="q50:Q"),
        base.mark_point(size=55, color=COLOURS["bad"], shape="diamond").encode(x="mean:Q"),
    )


def whole() -> Any:
    """Return an axis of whole numbers."""
    return alt.Axis(format=",d", tickMinStep=1)


def tooltips(*columns: str) -> list[Any]:
    """Return tooltips, given "name:type", optionally followed by a format and a title."""
    parts = [column.split(maxsplit=2) for column in columns]
    return [alt.Tooltip(name, **dict(zip(("format", "title"), rest, strict=False))) for name, *rest in parts]
