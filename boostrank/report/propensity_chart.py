"""Chart of propensities, for the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.clicks.propensities import AnyPropensities, Propensities
from boostrank.core.types import Float64Array
from boostrank.report.charts import Chart, tooltips
from boostrank.report.result import pandas
from boostrank.report.vega import CATEGORY, COLOURS, alt

RATES = "clicks an impression"
_HEIGHT = 280
_Y = "looked at, relative to position 1"
# Offset between curves at the same position.
_APART = 0.12
_WIDEST = 0.6
MOST_CURVES = len(CATEGORY)
# Longer curves are drawn without points.
_MOST_POINTS = 40


def interval(curve: Propensities) -> tuple[Float64Array, Float64Array]:
    """Return the ends of the 95% intervals, float64[P] each; NaN without standard errors."""
    errors = np.full(curve.examination.size, np.nan) if curve.errors is None else curve.errors
    width = np.exp(1.96 * errors)
    return curve.examination / width, curve.examination * width


def curves_of(
    whose: str, curve: AnyPropensities, segments: Sequence[str] = (), most: int | None = None
) -> dict[str, Propensities]:
    """Return name -> curve for the chart.

    Args:
        whose: origin of the curves.
        curve: one curve, or one per segment.
        segments: segments to draw; empty means the first `most`.
        most: maximum number of segments; None means all.
    """
    if isinstance(curve, Propensities):
        return {whose: curve}
    names = segments or list(curve.curves)[:most]
    return {f"{name}, {whose}": curve.curves[name] for name in names if name in curve.curves}


def curve_chart(curves: Mapping[str, Propensities], rates: Float64Array | None = None) -> Chart:
    """Draw curves with intervals over positions, on a logarithmic scale.

    Args:
        curves: name -> curve, at most `MOST_CURVES`.
        rates: float64[P], click rate at each position relative to the first, drawn faintly; NaN where nothing was
            shown.
    """
    rows: list[tuple[Any, ...]] = []
    apart = min(_APART, _WIDEST / len(curves))
    for at, (name, curve) in enumerate(curves.items()):
        ends = interval(curve)
        for i in np.flatnonzero(np.isfinite(curve.examination)).tolist():
            low, high = (float(end[i]) if i else math.nan for end in ends)
            rows.append((name, i + 1, i + 1 + apart * at, float(curve.examination[i]), low, high))
    if rates is not None:
        shown = np.flatnonzero(rates > 0.0).tolist()
        rows += [(RATES, i + 1, float(i + 1), float(rates[i]), math.nan, math.nan) for i in shown]
    frame = pandas().DataFrame(rows, columns=["curve", "position", "x", "propensity", "low", "high"])
    names = [*curves, *([] if rates is None else [RATES])]
    colours = CATEGORY[: len(curves)] + [COLOURS["faint"]] * (rates is not None)
    smallest, largest = frame["propensity"].min(), max(frame["propensity"].max(), 1.0)
    # Clip very wide intervals, which would squeeze the others.
    low, high = max(frame["low"].min(), smallest / 3.0), min(frame["high"].max(), largest * 3.0)
    domain = [float(np.nanmin([low, smallest]) / 1.1), float(np.nanmax([high, largest]) * 1.1)]
    deepest = int(frame["position"].max())
    across = alt.Scale(domain=[0.7, deepest + 0.3 + apart * (len(curves) - 1)], nice=False, zero=False)
    x = alt.X("x:Q", title="position", axis=alt.Axis(format="d", tickMinStep=1), scale=across)
    scale = alt.Scale(type="log", domain=domain, clamp=True, nice=False)
    y = alt.Y("propensity:Q", title=_Y, scale=scale, axis=alt.Axis(format="~g", tickCount=6))
    series = alt.Scale(domain=names, range=colours)
    base = alt.Chart(frame).encode(
        x=x,
        color=alt.Color(
            "curve:N", title=None, sort=None, scale=series, legend=None if len(names) == 1 else alt.Legend()
        ),
        tooltip=tooltips("curve:N", "position:Q d", "propensity:Q .3f", "low:Q .3f from", "high:Q .3f to"),
    )
    known = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    layers = [
        known.mark_rule(strokeWidth=4, opacity=0.4).encode(y=alt.Y("low:Q", scale=scale, title=_Y), y2="high:Q"),
        base.mark_line(strokeWidth=1.5, opacity=0.8).encode(y=y),
    ]
    if deepest <= _MOST_POINTS:
        layers.append(base.mark_point(size=50).encode(y=y))
    title, words = "How likely each position is looked at", about(curves, rates is not None)
    return Chart("clicks-propensities", frame, alt.layer(*layers).properties(height=_HEIGHT), title, words)


def about(curves: Mapping[str, Propensities], rates: bool) -> str:
    """Describe the chart in words and numbers."""
    words = "; ".join(_in_words(name, curve) for name, curve in curves.items())
    subject = f"The propensities of the positions relative to position 1, {words}."
    lines = " Lines are 95% intervals." if any(one.errors is not None for one in curves.values()) else ""
    raw = (
        f" {RATES.capitalize()} fall for two reasons: lower positions are examined less (the propensity), and they "
        "show worse documents."
    )
    return subject + lines + raw * rates


def _in_words(name: str, curve: Propensities) -> str:
    low, high = interval(curve)
    known = np.flatnonzero(np.isfinite(curve.examination))
    chosen = [known[i] for i in dict.fromkeys((1, known.size // 2, known.size - 1)) if 0 < i < known.size]
    numbers = ", ".join(
        f"position {i + 1} {curve.examination[i]:.2f}"
        + (f" [{low[i]:.2f}, {high[i]:.2f}]" if np.isfinite(low[i]) else "")
        for i in sorted(set(chosen))
    )
    return f"{name}{': ' if numbers else ''}{numbers}"
