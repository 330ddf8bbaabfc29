"""Vega-Lite: chart theme, browser script, and vl-convert in a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from boostrank.core.errors import MissingDependency, TrainingError


class _Altair:
    """Lazy import of the module `altair`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("altair"), name)


alt: Any = _Altair()

COLOURS = {"main": "#3b7fc4", "good": "#1b9e77", "bad": "#d95f02", "faint": "#8b929a"}
"""Colours with contrast on white and black, distinguishable for red-green colour blindness."""

CATEGORY = ["#3b7fc4", "#d95f02", "#1b9e77", "#a873c9", "#b38b14", "#d4587d", "#459bab", "#8b929a"]

Call = tuple[str, dict[str, Any]]
"""Name of a vl-convert function and its arguments, as JSON data."""

# vl-convert's V8 reserves 64 GB of address space. It aborts the process under an address limit (`ulimit -v`), and in a
# process forked after drawing. So it runs in a separate process.
_CHILD = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request["path"]
import vl_convert
json.dump([getattr(vl_convert, name)(**arguments) for name, arguments in request["calls"]], sys.stdout)
"""
_OWN_END = (signal.SIGTRAP, signal.SIGABRT, signal.SIGILL, signal.SIGSEGV) if os.name != "nt" else ()
_NO_ADDRESSES = "it reserves 64 GB of address space but uses little of it: remove the limit on addresses (ulimit -v)"


def need_report_extra() -> None:
    """Check that charts can be drawn, before expensive work."""
    for module in ("pandas", "altair", "vl_convert"):
        try:
            import_module(module)
        except ImportError as error:
            raise MissingDependency(f"charts need {module}: pip install 'boostrank[report]'") from error
    vega_lite_version()


@cache
def vega_lite_version() -> str:
    """Return the Vega-Lite version that Altair writes."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    if version not in import_module("vl_convert").get_vegalite_versions():
        raise MissingDependency(
            f"altair writes Vega-Lite {version}, which the installed vl-convert-python does not support: "
            "pip install --upgrade 'boostrank[report]'"
        )
    return version


@cache
def vega_script() -> str:
    """Return the browser script `window.vegaEmbed`, about 0.9 MB; building it takes two seconds."""
    need_report_extra()
    arguments = {"snippet": "window.vegaEmbed = vegaEmbed;", "vl_version": vega_lite_version()}
    (made,) = converted([("javascript_bundle", arguments)])
    # Notice required by the BSD licence.
    notice = "/* Vega, Vega-Lite, Vega-Embed: copyright University of Washington Interactive Data Lab, BSD-3-Clause */"
    return f"{notice}(() => {{{made}\n}})();"


def converted(calls: Sequence[Call]) -> list[str]:
    """Call functions of vl-convert and return their results."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise TrainingError("drawing charts starts a Python process, but sys.executable is not set")
    request = json.dumps({"path": [os.path.abspath(folder) for folder in sys.path], "calls": calls})
    try:  # -P: import nothing from the current folder
        done = subprocess.run([sys.executable, "-P", "-c", _CHILD], input=request.encode(), capture_output=True)
    except OSError as error:
        raise TrainingError(f"the process that draws charts cannot be started: {error.strerror}") from error
    if done.returncode < 0:
        name = next((one.name for one in signal.Signals if one == -done.returncode), f"signal {-done.returncode}")
        mend = _NO_ADDRESSES if -done.returncode in _OWN_END else "is memory short?"
        raise TrainingError(f"the process that draws charts was killed by {name}: {mend}")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TrainingError(f"the chart cannot be drawn: {last}")
    made: list[str] = json.loads(done.stdout)
    return made


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Return the shared Vega-Lite `config`."""
    light_colours = ("#1c2024", "#60666d", "#d9dde1", "#ffffff", "#f1f2f4")
    dark_colours = ("#e6e8ea", "#9ba1a8", "#363b41", "#15181b", "#2b3036")
    text, faint, line, back, middle = dark_colours if dark else light_colours
    main, size = COLOURS["main"], {"labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": line, "domainColor": line, "tickColor": line, "gridOpacity": 0.7}
    plain = size | {"titleColor": faint, "titleFontWeight": "normal"}
    symbols = {"symbolType": "circle", "symbolOpacity": 1}
    return {
        "background": back,
        "padding": 2,
        "font": "system-ui, sans-serif",
        "aria": False,  # the element has a label; reading out thousands of marks would not help
        "view": {"stroke": None},
        "axis": plain | lines | {"labelColor": faint, "labelLimit": 190},
        # Vega's default is one tick every 40 pixels.
        "axisXQuantitative": {"tickCount": {"expr": "clamp(ceil(width / 80), 3, 12)"}},
        "axisBand": {"grid": False, "domain": False, "ticks": False, "labelPadding": 6},
        "legend": plain
        | symbols
        | {"orient": "top", "labelColor": text, "offset": 8, "labelLimit": 260, "titleLimit": 400},
        "header": size | {"labelColor": text, "titleColor": faint},
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
    }
