"""Section on the shapes of features: `Shapes` drawn."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Beside, Fold, Part
from boostrank.report.html.tables import Cell, Column, Table
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.section import Section
from boostrank.report.sections.shapes.ale import AleCurve
from boostrank.report.sections.shapes.analysis import ROUNDING, Dependence, Shapes, shapes

_HEIGHT = 220
# Pairs in the chart; the table has all.
_PAIRS = 12
_LINE = 24
# A partner whose values colour the points accounts for that much of the variance at least.
_WORTH_A_COLOUR = 0.002
# Values that reach that many times as far as the middle one of them are shown on a scale that widens near zero.
_SKEWED = 20.0
# Pixels of a curve in a cell, and below a row.
_SMALL, _LARGE = (120, 18), (420, 130)


def draw(found: Shapes) -> list[Part]:
    """Charts of what `boostrank.report.sections.shapes.analysis.shapes` found."""
    if not found.curves:
        return ["The trees split by no feature."]
    parts: list[Part] = [
        tag("p", "What the score does along one feature. ", tag("b", "The line"), " adds up how much the score of the "
            "documents there changes over a small step, all else as it is (accumulated local effects), with its 95% "
            "interval. ", tag("b", "A point"), " is what the feature adds to one document's score beyond the mean of "
            "its query (SHAP): points far from the line are documents for which other features matter too. ",
            tag("b", "A dashed line"), " is where documents without a value stand."),
        Beside([_chart(found, number, name) for number, name in enumerate(found.top, 1)]),
    ]  # fmt: skip
    if found.interactions:
        parts += [tag("h3", "Pairs of features"), *_pairs(found)]
    parts += [tag("h3", "All features in the trees"), _table(found)]
    parts += [tag("p", f"{note}.", class_="faint") for note in found.notes]
    parts.append(Fold("How this was measured", [_method(found)]))
    return parts


def _brief(found: Shapes) -> Markup:
    if not found.curves:
        return join()
    largest = max(found.curves, key=lambda curve: curve.swing)
    if math.isnan(largest.rising):
        return join("No feature moves the score.")
    parts = ["The score moves most along ", bdi(largest.feature), f": it {_direction(largest)} by {largest.swing:.3g}."]
    pair = max(found.interactions, key=lambda one: one.share, default=None)
    if pair is not None and pair.share > ROUNDING:
        parts += [" Of pairs, ", bdi(pair.first), " and ", bdi(pair.second), " act together most: "
                  f"{pair.share:.2%} of the variance within queries."]  # fmt: skip
    return join(*parts)


def _chart(found: Shapes, number: int, feature: str) -> Chart:
    curve = found.curve(feature)
    points = next((one for one in found.dependence if one.feature == feature), None)
    partner = found.partner(feature)
    other = None
    if points is not None and partner is not None and partner.share - 2.0 * partner.error > _WORTH_A_COLOUR:
        other = partner.second if partner.first == feature else partner.first
    frame = _frame(found, curve, points, other)
    size = np.abs(curve.edges[curve.edges != 0.0])
    scale = alt.Scale(zero=False, nice=False)
    if size.size and size.max() > _SKEWED * np.median(size):
        scale = alt.Scale(type="symlog", constant=float(np.median(size)), nice=False)
    # Thousands with a letter, fractions without.
    ticks = "~s" if np.abs(curve.edges).max(initial=0.0) >= 1000.0 else ".3~g"
    x = alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(tickCount=5, format=ticks))
    y = alt.Y("effect:Q", title="score")
    base = alt.Chart(frame)
    of_curve = base.transform_filter("datum.kind == 'curve'").encode(x=x)
    layers = [
        of_curve.mark_area(opacity=0.25, color=COLOURS["main"]).encode(y=alt.Y("low:Q", title="score"), y2="high:Q")
    ]
    if points is not None:
        colour: Any = alt.value(COLOURS["faint"])
        if other is not None:
            colours = alt.Scale(domain=[0, 1], range=[COLOURS["faint"], COLOURS["bad"]], interpolate="rgb")
            legend = alt.Legend(values=[], gradientLength=90, titleLimit=220)
            colour = alt.Color("partner:Q", title=f"{other}: low to high", scale=colours, legend=legend)
        dots = base.transform_filter("datum.kind == 'document' && isValid(datum.value)").mark_circle(
            size=14, opacity=0.6
        )
        layers.append(dots.encode(x=x, y=y, color=colour))
    of_level = tooltips("effect:Q +.4f score", "low:Q +.4f from", "high:Q +.4f to", "documents:Q ,d")
    tooltip = [alt.Tooltip("value:Q", format=".5~g", title=feature), *of_level]
    layers.append(of_curve.mark_line(point=alt.OverlayMarkDef(size=16)).encode(y=y, tooltip=tooltip))
    if curve.missing:
        gone = base.transform_filter("datum.kind == 'missing'")
        layers.append(
            gone.mark_rule(strokeDash=[5, 4], strokeWidth=2, color=COLOURS["bad"]).encode(y=y, tooltip=of_level)
        )
    figure = alt.layer(*layers).properties(height=_HEIGHT)
    slug = re.sub(r"[^a-z0-9]+", "-", feature.lower()).strip("-")[:40] or "feature"
    return Chart(f"shape-{number}-{slug}", feature, _about(found, curve, other), frame, figure)


def _frame(found: Shapes, curve: AleCurve, points: Dependence | None, other: str | None) -> Any:
    """Rows of three kinds: the curve, what is missing, documents."""
    rows: list[list[Any]] = [
        ["curve", *point, None]
        for point in zip(curve.edges, curve.effect, curve.low, curve.high, [0, *curve.counts], strict=False)
    ]
    if curve.missing:
        level = [curve.missing_effect, curve.missing_low, curve.missing_high]
        rows.append(["missing", np.nan, *level, curve.missing, None])
    if points is not None:
        places: Any = [None] * points.values.size
        if other is not None:
            # 0 for the lowest, 1 for the highest; equal values have one rank; None for what is missing.
            theirs = next(one for one in found.dependence if one.feature == other).values
            present = np.unique(theirs[~np.isnan(theirs)])
            ranks = np.searchsorted(present, theirs) / max(1, present.size - 1)
            places = [None if math.isnan(v) else float(rank) for v, rank in zip(theirs, ranks, strict=True)]
        rows += [
            ["document", value, part, np.nan, np.nan, 1, place]
            for value, part, place in zip(points.values, points.parts, places, strict=True)
        ]
    return pandas().DataFrame(rows, columns=["kind", "value", "effect", "low", "high", "documents", "partner"])


def _about(found: Shapes, curve: AleCurve, other: str | None) -> str:
    text = f"{_direction(curve).capitalize()}, by {curve.swing:.4g} from the lowest to the highest point."
    if curve.query_level:
        text += " The same for all documents of a query: it orders none by itself."
    if curve.missing:
        total = int(curve.counts.sum()) + curve.missing
        text += (
            f" Missing in {curve.missing / total:.0%} of the documents; losing a value changes the score by "
            f"{curve.missing_effect:+.4f} on average ({curve.missing_low:+.4f} to {curve.missing_high:+.4f})."
        )
    if other is not None:
        text += f" Points are coloured by {other}, with which it interacts most."
    return text


def _direction(curve: AleCurve) -> str:
    if math.isnan(curve.rising):
        return "flat"
    if curve.rising > 0.9:
        return "rises"
    if curve.rising < 0.1:
        return "falls"
    return "rises and falls"


def _pairs(found: Shapes) -> list[Part]:
    strongest = [one for one in found.interactions if one.share > ROUNDING][:_PAIRS]
    parts: list[Part] = []
    if not strongest:
        parts.append("No two of them act together: the score is a sum of what each of them says.")
    else:
        bars = [
            [f"{one.first} and {one.second}", one.share, max(0.0, one.share - margin), one.share + margin]
            for one, margin in ((one, 1.96 * one.error) for one in strongest)
        ]
        frame = pandas().DataFrame(bars, columns=["pair", "share", "low", "high"])
        base = alt.Chart(frame).encode(y=alt.Y("pair:N", sort=None, title=None))
        title = "share of the score's variance within queries"
        figure = alt.layer(
            base.mark_bar().encode(
                x=alt.X("share:Q", title=title, axis=alt.Axis(format=".2~%")),
                tooltip=tooltips("pair:N", "share:Q .2%", "low:Q .2% from", "high:Q .2% to"),
            ),
            base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        ).properties(height=_LINE * len(strongest))  # fmt: skip
        parts.append(
            Chart(
                "interactions", "What features do together",
                "How much of the score's variance within queries is due to two features together and to neither alone, "
                "with 95% intervals.", frame, figure,
            )
        )  # fmt: skip
    columns = [
        Column("first", "feature"), Column("second", "and feature"),
        Column("share", "share", "number", ".2%", "of the score's variance within queries"),
        Column("error", "±", "number", ".2%", "standard error of the share"),
        Column("size", "size", "number", ".4f", "root of that variance, in units of the score"),
    ]  # fmt: skip
    rows = [[one.first, one.second, one.share, one.error, one.size] for one in found.interactions]
    table = Table("pairs", columns, rows, search=True, order="-share", caption="Pairs of features, strongest first")
    parts.append(Fold(f"All {len(rows):,} pairs of the features above", [table]))
    return parts


def _table(found: Shapes) -> Table:
    columns = [
        Column("feature", "feature"),
        Column("", "curve"),
        Column("way", "way", help="Rises or falls: nine tenths of all ups and downs, at least."),
        Column("swing", "swing", "number", ".4f", "from the lowest to the highest point, in units of the score"),
        Column("lowest", "from", "number", ".5g", help="lowest value"),
        Column("highest", "to", "number", ".5g", help="highest value"),
        Column("missing", "missing", "number", ".1%", "share of documents without a value"),
        Column("missing_effect", "if missing", "number", "+.4f", "mean change of the score without the value"),
    ]
    rows, details = [], []
    for curve in found.curves:
        total = int(curve.counts.sum()) + curve.missing
        drawn = curve.edges.size > 1
        rows.append(
            [
                curve.feature, Cell(None, _drawing(curve, *_SMALL)) if drawn else None,
                Cell(_direction(curve), look="faint" if curve.query_level else ""), curve.swing,
                *([float(curve.edges[0]), float(curve.edges[-1])] if curve.edges.size else [None, None]),
                curve.missing / total if curve.missing else None, curve.missing_effect if curve.missing else None,
            ]
        )  # fmt: skip
        details.append(_detail(curve) if drawn else None)
    return Table("shapes-table", columns, rows, search=True, details=details,
                 note="The features above, then the others by swing.", caption="All features in the trees")  # fmt: skip


def _detail(curve: AleCurve) -> Markup:
    middle = curve.edges.size // 2
    marks = ", ".join(f"{curve.effect[i]:+.4f} at {curve.edges[i]:.5g}" for i in (0, middle, curve.edges.size - 1))
    query = "The same for all documents of a query. " if curve.query_level else ""
    return join(
        _drawing(curve, *_LARGE),
        tag("p", f"{query}The score relative to its mean: {marks}; each step to the right holds about as many "
            "documents as any other, save where many have one value."),
    )  # fmt: skip


def _drawing(curve: AleCurve, width: int, height: int) -> Markup:
    """The curve with its interval, its values by their ranks; small enough for every row."""
    low, high = float(curve.low.min()), float(curve.high.max())
    span = (high - low) or 1.0

    def line(values: Any, backwards: bool = False) -> str:
        at = [
            f"{i * width / (curve.edges.size - 1):.0f} {(high - value) / span * height:.1f}"
            for i, value in enumerate(values.tolist())
        ]
        return "L".join(reversed(at) if backwards else at)

    zero = high / span * height
    return tag(
        "svg",
        tag("line", x1=0, x2=width, y1=f"{zero:.1f}", y2=f"{zero:.1f}", stroke=COLOURS["faint"], stroke_width=1)
        if 0.0 <= zero <= height else None,
        tag("path", d=f"M{line(curve.low)}L{line(curve.high, True)}Z", fill=COLOURS["main"], fill_opacity=0.3),
        tag("path", d=f"M{line(curve.effect)}", fill="none", stroke=COLOURS["main"], stroke_width=1.5),
        viewBox=f"-2 -2 {width + 4} {height + 4}", width=width, height=height, role="img",
        aria_label=f"{_direction(curve)}, {curve.effect[0]:+.3g} to {curve.effect[-1]:+.3g}",
    )  # fmt: skip


def _method(found: Shapes) -> Markup:
    of = f"of {found.all_documents:,}" if found.documents < found.all_documents else "all of them"
    return join(
        tag("p", f"Curves: accumulated local effects (Apley and Zhu, 2020) over {found.documents:,} documents, {of}, "
            f"in {found.queries:,} whole queries drawn at random; intervals by bootstrap over queries, point by point. "
            "The zero is the mean over the documents that have a value."),
        tag("p", "Points: the engine's TreeSHAP, less its mean over the query, of documents drawn from "
            f"{found.shap_documents:,}.") if found.dependence else None,
        tag("p", f"Pairs: {found.pair_documents:,} documents, each with another one of its query, whose values of "
            "either feature and of both it is given: the total interaction index of Liu and Owen (2006), as a share "
            "of the variance of scores within queries. Parts of three features count in three pairs."),
        None if found.by == "walk" else tag("p", "Scored by the engine: ", bdi(found.by), "."),
    )  # fmt: skip


SPEC = Section(
    "shapes", "Shapes",
    lambda c: shapes(
        c.model, c.data, importance=c.results.get("importance"), seed=c.seed, threads=c.threads, progress=c.progress
    ),
    draw, lambda found: {name: found.to_frame(name) for name in ("curves", "dependence", "interactions")}, _brief,
    place=30, after=("importance",),
)  # fmt: skip
