"""Charts of feature importance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, middle_cut, stretched, tooltips
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.sections.importance.result import Importance
from boostrank.report.start import START

if TYPE_CHECKING:
    import pandas as pd

_TOP = 20
# Larger heat maps cannot be read; the table of clusters names them all.
_MOST_DRAWN = 60
# A line of a list of features, in pixels.
_LINE = 22
_VERDICT_COLOURS = {
    "useful": COLOURS["main"], "unclear": COLOURS["faint"], "redundant": "#a873c9", "removable": "#b38b14",
    "harmful": COLOURS["bad"], "query-level": "#1b9e77", "start": "#459bab",
}  # fmt: skip


class Worth:
    """One number a feature and what the page shows of it; features in the order of their worth."""

    def __init__(self, found: Importance) -> None:
        self.found = found
        self.order: Int64Array = found.order
        exchanged = ~np.isnan(found.between)
        self.loss = np.where(exchanged, found.between, found.loss)
        self.low = np.where(exchanged, found.between_low, found.loss_low)
        self.high = np.where(exchanged, found.between_high, found.loss_high)
        self.gain: Float64Array = found.gain / (found.gain.sum() or 1.0)
        self.rank = np.empty(found.gain.size, np.int64)
        self.rank[np.argsort(-found.gain, kind="stable")] = np.arange(1, found.gain.size + 1)
        self.used = np.array([i for i in self.order.tolist() if found.verdicts[i] != "unused"], np.int64)

    def frame(self, which: Int64Array) -> pd.DataFrame:
        return pandas().DataFrame(
            {
                "feature": [self.found.feature_names[i] for i in which],
                "verdict": [self.found.verdicts[i] for i in which],
                "loss": self.loss[which], "low": self.low[which], "high": self.high[which],
                "gain": self.gain[which], "gain_rank": self.rank[which],
            }
        )  # fmt: skip


def _chart(frame: pd.DataFrame, **encoding: Any) -> Any:
    """Features in the colours of their verdicts."""
    here = {verdict: colour for verdict, colour in _VERDICT_COLOURS.items() if (frame["verdict"] == verdict).any()}
    colours = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=[*here], range=[*here.values()]))
    tooltip = tooltips(
        "feature:N", "verdict:N", "loss:Q +.4f", "low:Q +.4f from", "high:Q +.4f to", "gain:Q .2% share of gain",
        "gain_rank:Q d rank by gain",
    )  # fmt: skip
    return alt.Chart(frame).encode(color=colours, tooltip=tooltip, **encoding)


def _top(worth: Worth) -> pd.DataFrame:
    """The features that are worth most, and above them the start, which has no gain: nothing was split."""
    frame, start = worth.frame(worth.used[:_TOP]), worth.found.start
    if start is None:
        return frame
    row = {"feature": START, "verdict": "start", "loss": start.loss, "low": start.low, "high": start.high,
           "gain": 0.0, "gain_rank": 0}  # fmt: skip
    return pandas().concat([pandas().DataFrame([row]), frame], ignore_index=True)


def top_losses(worth: Worth) -> Chart:
    frame = _top(worth)
    base = _chart(frame, y=alt.Y("feature:N", sort=None, title=None))
    drawn = alt.layer(
        base.mark_rule(strokeWidth=3, opacity=0.55).encode(
            x=alt.X("low:Q", title=f"loss of {worth.found.metric}", scale=alt.Scale(zero=True)), x2="high:Q"
        ),
        base.mark_point(size=50).encode(x="loss:Q"),
    ).properties(height=_LINE * len(frame) + 10)
    return Chart(
        "importance-loss", "What the ranking loses without each feature",
        f"Loss of {worth.found.metric} when the feature is shuffled, with its 95% interval, for the "
        f"{min(_TOP, worth.used.size)} features that are worth most."
        + (f" Of {START}, when it is left out." if worth.found.start is not None else ""),
        frame, drawn,
    )  # fmt: skip


def top_gains(worth: Worth) -> Chart:
    frame = _top(worth)
    x = alt.X("gain:Q", title="share of gain", axis=alt.Axis(format="%"))
    bars = _chart(frame, x=x, y=alt.Y("feature:N", sort=None, title=None)).mark_bar(height=11, opacity=0.75)
    drawn = bars.properties(height=_LINE * len(frame) + 10)
    return Chart(
        "importance-gain", "What the trees gained by them",
        "Share of the gain of all splits, for the same features in the same order."
        + (f" {START.capitalize()} has none: it was fitted before the first split." if worth.found.start else ""),
        frame, drawn,
    )  # fmt: skip


def gain_against_loss(worth: Worth) -> Chart:
    frame = worth.frame(worth.used)
    small = max(worth.found.negligible, 1e-6)
    ends = float(min(frame["low"].min(), 0.0)), float(max(frame["high"].max(), small))
    scale, ticks = stretched(small, ends, (1, 3))
    frame["label"], frame["label_narrow"] = (_labels(frame, ends, small, pixels) for pixels in (800, 280))
    x = alt.X("gain_rank:Q", title="rank by gain (1: most)", scale=alt.Scale(zero=False, nice=False, padding=12),
              axis=alt.Axis(tickMinStep=1, format="d", grid=False))  # fmt: skip
    y = alt.Y("loss:Q", title=f"loss of {worth.found.metric}, stretched near 0", scale=scale,
              axis=alt.Axis(values=ticks, format="~g"))  # fmt: skip
    base = _chart(frame, x=x)
    drawn = alt.layer(
        base.mark_rule(opacity=0.35).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(size=50).encode(y=y),
        alt.Chart(frame)
        .mark_text(
            align="left", dx=7, dy=-6, fontSize=11, text=alt.ExprRef("width < 480 ? datum.label_narrow : datum.label")
        )
        .encode(x=x, y=y),
    ).properties(height=340)
    return Chart(
        "importance-gain-loss", "Gain against loss",
        "Each point is a feature: the further left, the more the trees gained by it; the higher, the more the ranking "
        "loses without it. On the left and near 0 are features that training used and ranking does not need.",
        frame, drawn,
    )  # fmt: skip


def _labels(frame: pd.DataFrame, ends: tuple[float, float], small: float, pixels: int) -> list[str]:
    """Names where they do not cover each other: the largest losses, and features of much gain and no worth.

    Args:
        ends, small: of the stretched scale of losses.
        pixels: how wide the chart is, about.
    """

    def height(loss: float) -> float:
        low, value, high = (math.copysign(math.log1p(abs(v) / small), v) for v in (ends[0], loss, ends[1]))
        return (value - low) / (high - low)

    wide = float(max(frame["gain_rank"].max() - 1, 1))
    places = [((r - 1) / wide, height(v)) for r, v in zip(frame["gain_rank"], frame["loss"], strict=True)]
    by_loss = list(range(len(frame)))
    idle = [i for i in frame["gain_rank"].argsort().tolist() if frame["verdict"].iloc[i] in ("removable", "harmful")]
    labels = [""] * len(frame)
    taken: list[tuple[float, float, float]] = []
    for i in [*by_loss[:12], *idle[:8]]:
        x, y = places[i]
        name = str(frame["feature"].iloc[i])
        width = (6 * min(len(name), 24) + 12) / pixels
        if x + width > 1.04 or any(x < b and a < x + width and abs(y - h) < 0.05 for a, b, h in taken):
            continue
        taken.append((x, x + width, y))
        labels[i] = middle_cut(name, 25)
    return labels


def heat_map(found: Importance, where: Mapping[str, int]) -> Chart:
    names = [name for cluster in found.clusters for name in cluster.features][:_MOST_DRAWN]
    at = [where[name] for name in names]
    matrix = found.correlation[np.ix_(at, at)]
    frame = pandas().DataFrame(
        {"feature": np.repeat(names, len(names)), "other": np.tile(names, len(names)), "correlation": matrix.ravel()}
    )
    side = max(14, min(28, 560 // len(names)))
    base = alt.Chart(frame).encode(
        x=alt.X("other:N", sort=names, title=None, axis=alt.Axis(labelAngle=-60, labelLimit=120)),
        y=alt.Y("feature:N", sort=names, title=None),
    )
    drawn = base.mark_rect().encode(
        color=alt.Color("correlation:Q", scale=alt.Scale(domain=[-1, 1], range="diverging", interpolate="lab"),
                        legend=alt.Legend(title="rank correlation within queries", gradientLength=160)),
        tooltip=tooltips("feature:N", "other:N", "correlation:Q .3f"),
    )  # fmt: skip
    if side >= 24:
        strong = alt.ExprRef("abs(datum.correlation) > 0.5 ? format(datum.correlation, '.2f') : ''")
        drawn += base.mark_text(fontSize=10, color="white", text=strong)
    more = sum(len(c.features) for c in found.clusters) - len(names)
    return Chart(
        "alike-map", "Correlation of redundant features",
        "Rank correlation within queries; squares along the diagonal are clusters"
        + (f". The {more} features of the smallest ones are not drawn." if more else "."),
        frame, drawn.properties(width=side * len(names), height=side * len(names)),
    )  # fmt: skip
