"""Vega-Lite: the versions that fit together, the theme of all charts, and the script that draws them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from boostrank.core.errors import MissingDependency
from boostrank.core.process import with_docstrings
from boostrank.report.html.drawing import converted


class _Altair:
    """The module `altair`, imported when a chart is drawn."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("altair"), name)


alt: Any = _Altair()

COLOURS = {"main": "#3b7fc4", "good": "#1b9e77", "bad": "#d95f02", "faint": "#8b929a"}
"""Colours that are told apart on white and on black, also by those who do not see red or green."""

CATEGORY = ["#3b7fc4", "#d95f02", "#1b9e77", "#a873c9", "#b38b14", "#d4587d", "#459bab", "#8b929a"]


def need_report_extra() -> None:
    """Find out before the work whether charts can be drawn.

    Raises:
        MissingDependency: pandas, altair or vl-convert-python is not installed, or they do not fit together.
    """
    for module in ("pandas", "altair", "vl_convert"):
        with with_docstrings(f"{module}, which charts need,"):
            try:
                import_module(module)
            except ImportError as error:
                raise MissingDependency(f"charts need {module}: pip install 'boostrank[report]'") from error
    vega_lite_version()


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Vega-Lite's `config`: what all charts look like."""
    text, faint, line, back, middle = (
        ("#e6e8ea", "#9ba1a8", "#363b41", "#15181b", "#2b3036") if dark
        else ("#1c2024", "#60666d", "#d9dde1", "#ffffff", "#f1f2f4")
    )  # fmt: skip
    main = COLOURS["main"]
    axis = {"labelColor": faint, "titleColor": faint, "gridColor": line, "domainColor": line, "tickColor": line,
            "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 190,
            "gridOpacity": 0.7}  # fmt: skip
    return {
        "background": back, "padding": 2, "font": "system-ui, sans-serif",
        "aria": False,  # the element around it is named; thousands of marks are not worth reading out
        "view": {"stroke": None},
        "axis": axis,
        # The default puts a number every 40 pixels.
        "axisXQuantitative": {"tickCount": {"expr": "clamp(ceil(width / 80), 3, 12)"}},
        "axisBand": {"grid": False, "domain": False, "ticks": False, "labelPadding": 6},
        "legend": {"orient": "top", "labelColor": text, "titleColor": faint, "labelFontSize": 12, "titleFontSize": 12,
                   "titleFontWeight": "normal", "symbolType": "circle", "symbolOpacity": 1, "offset": 8,
                   "labelLimit": 260, "titleLimit": 400},
        "header": {"labelColor": text, "titleColor": faint, "labelFontSize": 12, "titleFontSize": 12},
        "title": {"color": text, "fontSize": 13, "anchor": "start"},
        "mark": {"color": main},
        "bar": {"color": main},
        "line": {"color": main, "strokeWidth": 2},
        "point": {"color": main, "filled": True, "size": 36, "opacity": 0.9},
        "circle": {"color": main, "opacity": 0.75},
        "rule": {"color": faint},
        "text": {"color": text, "fontSize": 12},
        "range": {
            "category": CATEGORY,
            "diverging": [COLOURS["bad"], middle, main],
            "heatmap": [middle, main],
            "ramp": [middle, main],
            "ordinal": ["#9bbfe3", "#6f9fd1", "#3b7fc4", "#2a62a0", "#1e4a7d"],
        },
    }  # fmt: skip


@cache
def vega_script() -> str:
    """What draws charts in a browser, as `window.vegaEmbed`: about 0.9 MB; it takes two seconds to make.

    Raises:
        MissingDependency: the extra `report` is not installed.
        TrainingError: as `converted`.
    """
    need_report_extra()
    arguments = {"snippet": "window.vegaEmbed = vegaEmbed;", "vl_version": vega_lite_version()}
    (made,) = converted([("javascript_bundle", arguments)])
    # Their licence (BSD, 3 clauses) wants to be named where they are passed on.
    notice = "/* Vega, Vega-Lite, Vega-Embed: copyright University of Washington Interactive Data Lab, BSD-3-Clause */"
    return f"{notice}(() => {{{made}\n}})();"


@cache
def vega_lite_version() -> str:
    """The version that Altair writes."""
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    if version not in vl_convert.get_vegalite_versions():
        raise MissingDependency(
            f"altair writes Vega-Lite {version}, which this vl-convert-python does not draw: "
            "pip install --upgrade 'boostrank[report]'"
        )
    return version
