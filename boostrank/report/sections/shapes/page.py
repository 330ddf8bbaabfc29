"""Section on the shapes of features: `Shapes` drawn."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, middle_cut, tooltips
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
# From such a share of the documents on, 0 stands apart.
_APART = 0.05
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
            tag("b", "Diamonds"), " left of the line are documents without a value, and those with 0 where many have "
            "it. ", tag("b", "Ticks"), " along the bottom are where documents lie. The charts share one scale of the "
            "score."),
        Beside([_chart(found, number, name, _limits(found)) for number, name in enumerate(found.top, 1)]),
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
        return join("The score depends on no feature.")
    parts = ["The score depends most on ", bdi(largest.feature), f": it {_swing(found, largest)}."]
    pair = max(found.interactions, key=lambda one: one.share, default=None)
    if pair is not None and pair.share > ROUNDING:
        parts += [" Of pairs, ", bdi(pair.first), " and ", bdi(pair.second), " act together most: "
                  f"{pair.share:.2%} of the variance within queries."]  # fmt: skip
    return join(*parts)


def _chart(found: Shapes, number: int, feature: str, limits: tuple[float, float]) -> Chart:
    curve = found.curve(feature)
    points = next((one for one in found.dependence if one.feature == feature), None)
    partner = found.partner(feature)
    other = None
    if points is not None and partner is not None and partner.share - 2.0 * partner.error > _WORTH_A_COLOUR:
        other = partner.second if partner.first == feature else partner.first
    frame = _frame(found, curve, points, other)
    x, specials = _across(found, curve)
    scale = alt.Scale(domain=list(limits), nice=True)
    y, low = (alt.Y(f"{name}:Q", title="score", scale=scale) for name in ("effect", "low"))
    of_level = tooltips("effect:Q +.4f score", "low:Q +.4f from", "high:Q +.4f to", "documents:Q ,d")
    shown = alt.Tooltip("value:Q", format=".5~g", title=feature)
    if feature in found.categories:
        shown = alt.Tooltip("category:N", title=feature)
    tooltip = [shown, *of_level]
    base = alt.Chart(frame)
    colour: Any = alt.value(COLOURS["faint"])
    if other is not None:
        colours = alt.Scale(domain=[0, 1], range=[COLOURS["faint"], COLOURS["bad"]], interpolate="rgb")
        legend = alt.Legend(values=[], gradientLength=90, titleLimit=220)
        colour = alt.Color("partner:Q", title=f"{middle_cut(other)}: low to high", scale=colours, legend=legend)
    line = base.transform_filter("datum.kind == 'curve'").encode(x=x, tooltip=tooltip)
    documents = base.transform_filter("datum.kind == 'document' && datum.place == 'line'").encode(x=x)
    layers = []
    if feature in found.categories:
        layers.append(documents.mark_circle(size=14, opacity=0.4).encode(y=y, color=colour))
        layers.append(line.mark_rule(strokeWidth=4, opacity=0.35, color=COLOURS["main"]).encode(y=low, y2="high:Q"))
        layers.append(line.mark_point(size=60, color=COLOURS["main"]).encode(y=y))
    else:
        pieces = line.encode(detail="piece:N")
        layers.append(pieces.mark_area(opacity=0.25, color=COLOURS["main"]).encode(y=low, y2="high:Q"))
        layers.append(documents.mark_circle(size=14, opacity=0.6).encode(y=y, color=colour))
        layers.append(pieces.mark_line(point=alt.OverlayMarkDef(size=16)).encode(y=y))
        layers.append(documents.mark_tick(size=7, opacity=0.25).encode(y=alt.value(_HEIGHT - 3)))
    for name, place in specials.items():
        layers += _special(base, name, place, y, low, colour, of_level)
    if specials:
        edge = alt.Chart(frame.head(1)).mark_rule(strokeDash=[2, 3], opacity=0.5)
        layers.append(edge.encode(x=alt.value(max(specials.values()) + 18)))
    figure = alt.layer(*layers).properties(height=_HEIGHT)
    slug = re.sub(r"[^a-z0-9]+", "-", feature.lower()).strip("-")[:40] or "feature"
    return Chart(f"shape-{number}-{slug}", feature, _about(found, curve, other), frame, figure)


def _across(found: Shapes, curve: AleCurve) -> tuple[Any, dict[str, int]]:
    """The horizontal axis, and in pixels where the special values stand, left of it."""
    if curve.feature in found.categories:
        order = [found.category(curve.feature, value) for value in curve.edges.tolist()]
        order += ["missing"] if curve.missing else []
        return alt.X("category:N", title=None, sort=order, axis=alt.Axis(labelAngle=-35, labelLimit=110)), {}
    specials = {"missing": 24} if curve.missing else {}
    if _zero_apart(curve):
        specials["zero"] = 62 if curve.missing else 14
    size = np.abs(curve.edges[curve.edges != 0.0])
    scale: dict[str, Any] = {"zero": False, "nice": False}
    if size.size and size.max() > _SKEWED * np.median(size):
        scale = {"type": "symlog", "constant": float(np.median(size)), "nice": False}
    if specials:
        scale["range"] = [max(specials.values()) + 30, alt.ExprRef("width")]
    # Thousands with a letter, fractions without.
    ticks = "~s" if np.abs(curve.edges).max(initial=0.0) >= 1000.0 else ".3~g"
    return alt.X("value:Q", title=None, scale=alt.Scale(**scale), axis=alt.Axis(tickCount=5, format=ticks)), specials


def _special(base: Any, name: str, place: int, y: Any, low: Any, colour: Any, tooltip: Any) -> list[Any]:
    """Documents with a value that stands apart, their level with its interval, and its label below."""
    x = alt.value(place)
    level = base.transform_filter(f"datum.kind == '{name}'").encode(x=x, tooltip=tooltip)
    text = alt.value("0" if name == "zero" else "missing")
    label = level.mark_text(fontSize=12, color=COLOURS["faint"], baseline="top")
    return [
        base.transform_filter(f"datum.kind == 'document' && datum.place == '{name}'")
        .mark_tick(orient="horizontal", size=16, opacity=0.35).encode(x=x, y=y, color=colour),
        level.mark_rule(strokeWidth=2, color=COLOURS["bad"]).encode(y=low, y2="high:Q"),
        level.mark_point(shape="diamond", size=80, color=COLOURS["bad"]).encode(y=y),
        label.encode(y=alt.value(_HEIGHT + 7), text=text),
    ]  # fmt: skip


def _zero_apart(curve: AleCurve) -> bool:
    """Whether 0 stands apart from the line: many have it, as where 0 means that there is none."""
    return curve.zeros >= _APART * curve.counts.sum() and curve.edges.size > 2 and bool((curve.edges == 0.0).any())


def _limits(found: Shapes) -> tuple[float, float]:
    """Of all scores that the charts show: they have one scale."""
    curves = [found.curve(name) for name in found.top]
    numbers = [np.zeros(1), *(end for curve in curves for end in (curve.low, curve.high))]
    numbers += [np.array([curve.missing_low, curve.missing_high]) for curve in curves if curve.missing]
    every = np.concatenate([*numbers, *(one.parts for one in found.dependence)])
    return float(np.nanmin(every)), float(np.nanmax(every))


def _frame(found: Shapes, curve: AleCurve, points: Dependence | None, other: str | None) -> Any:
    """Rows of kinds: the curve, 0 where it stands apart, what is missing, documents."""
    apart, numeric = _zero_apart(curve), curve.feature not in found.categories
    rows: list[list[Any]] = []
    for point in zip(curve.edges, curve.effect, curve.low, curve.high, [0, *curve.counts], strict=False):
        kind = "zero" if apart and numeric and point[0] == 0.0 else "curve"
        rows.append([kind, *point[:4], curve.zeros if kind == "zero" else point[4], None, "line"])
    if curve.missing:
        level = [curve.missing_effect, curve.missing_low, curve.missing_high]
        rows.append(["missing" if numeric else "curve", np.nan, *level, curve.missing, None, "line"])
    if points is not None:
        places: Any = [None] * points.values.size
        if other is not None:
            # 0 for the lowest, 1 for the highest; equal values have one rank; None for what is missing.
            theirs = next(one for one in found.dependence if one.feature == other).values
            present = np.unique(theirs[~np.isnan(theirs)])
            ranks = np.searchsorted(present, theirs) / max(1, present.size - 1)
            places = [None if math.isnan(v) else float(rank) for v, rank in zip(theirs, ranks, strict=True)]
        for value, part, place in zip(points.values, points.parts, places, strict=True):
            gone = "missing" if math.isnan(value) else "zero" if apart and value == 0.0 else "line"
            rows.append(["document", value, part, np.nan, np.nan, 1, place, gone if numeric else "line"])
    frame = pandas().DataFrame(
        rows, columns=["kind", "value", "effect", "low", "high", "documents", "partner", "place"]
    )
    frame["piece"] = np.sign(frame["value"]).fillna(0.0).astype(int) if apart else 0
    if not numeric:
        named = (found.category(curve.feature, value) for value in frame["value"])
        frame["category"] = [name or "missing" for name in named]
    return frame


def _about(found: Shapes, curve: AleCurve, other: str | None) -> str:
    nominal = curve.feature in found.categories
    text = f"{_direction(curve).capitalize()}, by {curve.swing:.4g} from the lowest to the highest point."
    if nominal:
        text = f"{len(found.categories[curve.feature]):,} categories, which differ by up to {curve.swing:.4g}."
    if curve.query_level:
        text += " The same for all documents of a query: it orders none by itself."
    if not nominal and _zero_apart(curve):
        text += f" 0 in {curve.zeros / (int(curve.counts.sum()) + curve.missing):.0%} of the documents."
    if curve.missing:
        total = int(curve.counts.sum()) + curve.missing
        text += (
            f" Missing in {curve.missing / total:.0%} of the documents; losing a value changes the score by "
            f"{curve.missing_effect:+.4f} on average ({curve.missing_low:+.4f} to {curve.missing_high:+.4f})."
        )
    if other is not None:
        text += f" Points are coloured by {other}, with which it interacts most."
    return text


def _swing(found: Shapes, curve: AleCurve) -> str:
    if curve.feature in found.categories:
        return f"differs by up to {curve.swing:.3g} between categories"
    return f"{_direction(curve)} by {curve.swing:.3g}"


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
        Column(
            "direction",
            "direction",
            help="Rises or falls: nine tenths of all ups and downs, at least; categories have none.",
        ),
        Column("swing", "swing", "number", ".4f", "from the lowest to the highest point, in units of the score"),
        Column("lowest", "from", "number", ".5g", help="lowest value"),
        Column("highest", "to", "number", ".5g", help="highest value"),
        Column("zeros", "0", "number", ".1%", "share of documents with exactly 0"),
        Column("missing", "missing", "number", ".1%", "share of documents without a value"),
        Column("missing_effect", "if missing", "number", "+.4f", "mean change of the score without the value"),
    ]
    rows, details = [], []
    drawable = [curve for curve in found.curves if curve.edges.size > 1]
    limits = (
        min((float(curve.low.min()) for curve in drawable), default=0.0),
        max((float(curve.high.max()) for curve in drawable), default=0.0),
    )
    for curve in found.curves:
        total = int(curve.counts.sum()) + curve.missing
        drawn = curve.edges.size > 1
        direction = None if curve.feature in found.categories else _direction(curve)
        ends: list[Any] = [None, None]
        if curve.edges.size:
            ends = [Cell(v, found.category(curve.feature, v)) for v in curve.edges[[0, -1]].tolist()]
        rows.append(
            [
                curve.feature, Cell(None, _drawing(curve, *_SMALL, limits)) if drawn else None,
                Cell(direction, look="faint" if curve.query_level else ""), curve.swing,
                *ends, curve.zeros / max(1, total),
                curve.missing / total if curve.missing else None, curve.missing_effect if curve.missing else None,
            ]
        )  # fmt: skip
        details.append(_detail(curve) if drawn else None)
    note = "The features above, then the others by swing; the curves share one scale."
    caption = "All features in the trees"
    return Table("shapes-table", columns, rows, search=True, details=details, note=note, caption=caption)


def _detail(curve: AleCurve) -> Markup:
    middle = curve.edges.size // 2
    marks = ", ".join(f"{curve.effect[i]:+.4f} at {curve.edges[i]:.5g}" for i in (0, middle, curve.edges.size - 1))
    query = "The same for all documents of a query. " if curve.query_level else ""
    return join(
        _drawing(curve, *_LARGE, (float(curve.low.min()), float(curve.high.max()))),
        tag("p", f"{query}The score relative to its mean: {marks}; each step to the right holds about as many "
            "documents as any other, save where many have one value."),
    )  # fmt: skip


def _drawing(curve: AleCurve, width: int, height: int, limits: tuple[float, float]) -> Markup:
    """The curve with its interval, its values by their ranks; small enough for every row."""
    low, high = limits
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
