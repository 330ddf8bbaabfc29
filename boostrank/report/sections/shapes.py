"""Shapes of features: contributions, accumulated local effects, and interactions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from markupsafe import Markup

from boostrank.core.errors import DataError, ModelError, ParameterError, did_you_mean
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.engines.trees import Trees
from boostrank.model.ranking_model import RankingModel
from boostrank.report.charts import SHARE, Chart, logarithmic, middle_cut, stretched, tooltips
from boostrank.report.effects import AleCurve, Interaction, accumulated_local_effects, interactions
from boostrank.report.html import Cell, block
from boostrank.report.result import Columns, Result, columns_of, pandas, plain
from boostrank.report.scoring import contributions_by_query, scorer_of
from boostrank.report.section import Context, Section
from boostrank.report.sections.importance import Importance
from boostrank.report.vega import COLOURS, alt

# Limits on documents times trees: about ten seconds each on two cores. The second applies if the engine predicts, once
# per feature or pair.
_WALKS, _PREDICTIONS = 30_000_000, 200_000_000
# More documents would not change a curve visibly.
_MOST_DOCUMENTS, _MOST_NUMBERS = 20_000, 20_000_000
# TreeSHAP takes about 10 us per document and tree.
_EXPLAINED = 800_000
ROUNDING = 1e-12
"""Smaller shares of the variance are rounding: float32 sums have errors of 1e-7, squared."""
_HEIGHT = 220
# Limit on pairs in the chart; the table has all.
_PAIRS = 12
_LINE = 24
# Minimum share of the variance for an interaction partner to colour the points.
_WORTH_A_COLOUR = 0.002
# Use a stretched scale if the range exceeds this multiple of the median.
_SKEWED = 20.0
# Draw 0 apart from the curve if it has at least this share of the documents.
_APART = 0.05
# Size of a curve in a cell, and below a row, in pixels.
_SMALL, _LARGE = (120, 18), (420, 130)


@dataclass(frozen=True, eq=False)
class Dependence:
    """TreeSHAP contributions of one feature, minus the mean of the query.

    Args:
        values: float64[p], NaN is missing.
        parts: float64[p], in score units; centred over all documents of the query.
    """

    feature: str
    values: Float64Array
    parts: Float64Array


@dataclass(frozen=True, eq=False, repr=False)
class Shapes(Result):
    """Result of `shapes`.

    Args:
        top: features shown in detail.
        dependence: contributions of `top`, for the same documents; empty if the engine has none.
        curves: accumulated local effects of every feature in the trees: first `top`, then by `swing`.
        interactions: pairs of `top`, strongest first.
        documents, pair_documents, shap_documents: sample sizes of curves, interactions and dependence, in whole
            queries.
        by: "walk", or why the engine predicted instead.
        categories: categorical feature -> names of codes 0, 1, ...
    """

    top: tuple[str, ...]
    dependence: tuple[Dependence, ...]
    curves: tuple[AleCurve, ...]
    interactions: tuple[Interaction, ...]
    documents: int
    pair_documents: int
    shap_documents: int
    all_documents: int
    queries: int
    by: str
    notes: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    TABLES: ClassVar = {
        "curves": lambda self: _curve_columns(self),
        "features": lambda self: {
            "feature": [c.feature for c in self.curves],
            "swing": [c.swing for c in self.curves],
            "rising": [c.rising for c in self.curves],
            "lowest": [c.ends[0] for c in self.curves],
            "highest": [c.ends[1] for c in self.curves],
            "documents": [int(c.counts.sum()) for c in self.curves],
            **columns_of(self.curves, "zeros", "missing", "missing_effect", "query_level"),
        },
        "dependence": lambda self: {
            "feature": [one.feature for one in self.dependence for _ in one.values],
            "document": [i for one in self.dependence for i in range(one.values.size)],
            "value": [value for one in self.dependence for value in one.values.tolist()],
            "part": [part for one in self.dependence for part in one.parts.tolist()],
        },
        "interactions": lambda self: columns_of(self.interactions, "first", "second", "size", "share", "error"),
    }

    def curve(self, feature: str) -> AleCurve:
        """Return the curve of a feature.

        Raises:
            ParameterError: the trees do not use it.
        """
        known = {one.feature: one for one in self.curves}
        if feature not in known:
            raise ParameterError(f"no tree uses {feature!r}.{did_you_mean(feature, known, list_all=False)}")
        return known[feature]

    def category(self, feature: str, value: float) -> str | None:
        """Return the name of a category code; None for numeric features and missing values."""
        names = self.categories.get(feature)
        if names is None or np.isnan(value):
            return None
        return names[int(value)] if 0.0 <= value < len(names) else f"{value:g}"

    def partner(self, feature: str) -> Interaction | None:
        """Return the strongest interaction of a feature; None if it is only rounding."""
        pairs = (one for one in self.interactions if feature in (one.first, one.second) and one.share > ROUNDING)
        return next(pairs, None)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        names = ("documents", "pair_documents", "shap_documents", "all_documents", "queries", "by", "top", "notes")
        tables = {what: self.rows(what) for what in ("features", "curves", "interactions", "dependence")}
        return dict(plain({name: getattr(self, name) for name in names} | tables))


def _curve_columns(found: Shapes) -> Columns:
    """Return a row per feature and edge; the first row of a feature is its missing value."""
    rows: list[tuple[Any, ...]] = []
    for c in found.curves:
        if c.missing:
            rows.append((c.feature, np.nan, c.missing_effect, c.missing_low, c.missing_high, c.missing, None))
        # Row i holds the documents of the interval that ends at edge i.
        columns = c.edges.tolist(), c.effect.tolist(), c.low.tolist(), c.high.tolist(), [0, *c.counts.tolist()]
        named = [found.category(c.feature, value) for value in c.edges.tolist()]
        rows += [(c.feature, *point) for point in zip(*columns, named, strict=False)]
    names = ("feature", "value", "effect", "low", "high", "documents", "category")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def shapes(
    c: Context,
    *,
    features: Sequence[str] | None = None,
    top: int = 8,
    bins: int = 32,
    points: int = 500,
    documents: int | None = None,
    shap_documents: int | None = None,
) -> Shapes:
    """Measure how scores depend on each feature.

    Args:
        c: context of the report; labels are not used.
        features: features for `top`; None takes the first of `importance`, or else those with most gain.
        top: number of these, at least 1.
        bins: intervals of a curve, at least 1.
        points: maximum number of documents of the dependence.
        documents: sample size of curves and interactions, in whole queries; None means about 20 seconds on two cores,
            at most 20,000.
        shap_documents: likewise for contributions; 0 means none; None means about eight seconds.

    Raises:
        ParameterError: a number out of range, or an unknown feature.
        DataError: no documents.
    """
    least = {"top": 1, "bins": 1, "points": 1, "documents": 1, "shap_documents": 0}
    given = {"top": top, "bins": bins, "points": points, "documents": documents, "shap_documents": shap_documents}
    for name, value in given.items():
        if value is not None and value < least[name]:
            raise ParameterError(f"{name}={value} is out of range: {least[name]} or more")
    model, data, seed = c.model, c.data, c.seed
    if not data.n_documents:
        raise DataError("no documents")
    trees = model.trees()
    # Use the names of the data: a booster may only number its columns.
    columns = data.feature_names
    chosen = _chosen(columns, trees, c.results.get("importance"), features, top)
    scorer, by = scorer_of(model, trees, data, c.workers)
    walked = by == "walk"
    names = tuple(columns[i] for i in trees.used)

    def sampled(passes: int, units: int) -> DenseRows:
        """Return a sample that may be walked this often."""
        work = max(1, trees.count) * passes * (1 if walked else max(1, units))
        most = min((_WALKS if walked else _PREDICTIONS) // work, _MOST_NUMBERS // max(1, trees.used.size))
        some = data.sample(documents or max(1, min(most, _MOST_DOCUMENTS)), seed)
        return DenseRows(some, trees.used, model.absent_is_missing)

    rows, pair_rows = sampled(3, trees.used.size), sampled(max(2, len(chosen)), len(chosen))
    threads = c.workers if walked else 1
    curves = accumulated_local_effects(
        scorer, rows, names, bins=bins, seed=seed, threads=threads, progress=partial(c.say, "local effects")
    )
    at = [names.index(name) for name in chosen]
    pairs = interactions(
        scorer, pair_rows, names, at, seed=seed, threads=threads, progress=partial(c.say, "interactions")
    )
    sizes, notes = pair_rows.data.queries.sizes, list[str]()
    if shap_documents is None:
        shap_documents = max(1, _EXPLAINED // max(1, trees.count))
    dependence, explained = _dependence(c, chosen, shap_documents, points, notes)
    first = {name: i for i, name in enumerate(chosen)}
    return Shapes(
        top=chosen,
        dependence=dependence,
        curves=tuple(sorted(curves, key=lambda one: (first.get(one.feature, len(first)), -one.swing))),
        interactions=pairs,
        documents=rows.data.n_documents,
        pair_documents=int(sizes[sizes > 1].sum()),
        shap_documents=explained,
        all_documents=data.n_documents,
        queries=len(rows.data.queries),
        by=by,
        notes=tuple(notes),
        categories=_categories(model, columns),
    )


def _categories(model: RankingModel, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return category names by the data's column names; codes if there are only codes."""
    known = model.categories
    named = ((here, known[name]) for here, name in zip(columns, model.feature_names, strict=True) if name in known)
    return {here: tuple(map(str, one.values or ())) for here, one in named}


def _chosen(
    names: Sequence[str], trees: Trees, importance: Importance | None, features: Sequence[str] | None, top: int
) -> tuple[str, ...]:
    """Return the features for `top`, among those in the trees."""
    used = set(trees.used.tolist())
    if features is not None:
        for name in features:
            if name not in names:
                raise ParameterError(f"the model has no feature {name!r}.{did_you_mean(name, names, list_all=False)}")
        return tuple(name for name in dict.fromkeys(features) if names.index(name) in used)
    order: Int64Array = np.argsort(-trees.gain, kind="stable")
    if importance is not None:
        if importance.feature_names != tuple(names):
            raise ParameterError("the importance belongs to a model with other features")
        order = importance.order
    return tuple(names[i] for i in order.tolist() if i in used)[:top]


def _dependence(
    c: Context, chosen: Sequence[str], documents: int, points: int, notes: list[str]
) -> tuple[tuple[Dependence, ...], int]:
    """Return the dependence of some features, and the sample size of their contributions."""
    if not documents or not chosen:
        return (), 0
    data = c.data
    columns = np.array([data.feature_names.index(name) for name in chosen], np.int64)
    rows, queries = DenseRows(data, columns, c.model.absent_is_missing), data.queries.sample(documents, c.seed)
    try:
        blocks = contributions_by_query(c.model, data, queries, c.workers, c.say)
        found = [(rows[numbers], parts[:, columns]) for _, numbers, parts in blocks]
    except ModelError as error:
        notes.append(str(error))
        return (), 0
    values, parts = (np.concatenate(one).astype(np.float64) for one in zip(*found, strict=True))
    sizes = data.queries.sizes[queries]
    owner = np.repeat(np.arange(sizes.size), sizes)
    for column in parts.T:
        column -= (np.bincount(owner, column, sizes.size) / np.maximum(sizes, 1))[owner]
    kept = np.sort(np.random.default_rng(c.seed).permutation(len(values))[:points])
    return tuple(Dependence(name, values[kept, i], parts[kept, i]) for i, name in enumerate(chosen)), len(values)


def _parts(found: Shapes) -> dict[str, Any]:
    strongest = [one for one in found.interactions if one.share > ROUNDING][:_PAIRS]
    return {
        "largest": max(found.curves, key=lambda curve: curve.swing, default=None),
        "swing": _swing,
        "charts": [_chart(found, number, name) for number, name in enumerate(found.top, 1)] if found.curves else [],
        "strongest": strongest,
        "pair_chart": _pair_chart(strongest) if strongest else None,
        **_table(found),
    }


def _chart(found: Shapes, number: int, feature: str) -> Chart:
    curve = found.curve(feature)
    points = next((one for one in found.dependence if one.feature == feature), None)
    partner = found.partner(feature)
    other = None
    if points is not None and partner is not None and partner.share - 2.0 * partner.error > _WORTH_A_COLOUR:
        other = partner.second if partner.first == feature else partner.first
    frame = _frame(found, curve, points, other)
    x, specials = _across(found, curve, points)
    scale = alt.Scale(domain=list(_limits(curve, points)), nice=True)
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
    return Chart(f"shape-{number}-{slug}", frame, figure, feature, _about(found, curve, other))


def _across(found: Shapes, curve: AleCurve, points: Dependence | None) -> tuple[Any, dict[str, int]]:
    """Return the horizontal axis, and the pixel positions of special values to its left."""
    if curve.feature in found.categories:
        order = [found.category(curve.feature, value) for value in curve.edges.tolist()]
        order += ["missing"] if curve.missing else []
        return alt.X("category:N", title=None, sort=order, axis=alt.Axis(labelAngle=-35, labelLimit=110)), {}
    specials = {"missing": 24} if curve.missing else {}
    if _zero_apart(curve):
        specials["zero"] = 62 if curve.missing else 14
    # SI prefixes for thousands, none for fractions.
    axis: dict[str, Any] = {
        "format": "~s" if np.abs(curve.edges).max(initial=0.0) >= 1000.0 else ".3~g",
        "tickCount": 5,
    }
    shown = np.concatenate([curve.edges, [] if points is None else points.values[~np.isnan(points.values)]])
    shown = shown[shown != 0.0] if "zero" in specials else shown
    size = np.abs(curve.edges[curve.edges != 0.0])
    scale = alt.Scale(zero=False, nice=False)
    if size.size and size.max() > _SKEWED * np.median(size):
        ends = float(shown.min()), float(shown.max())
        scale, axis["values"] = stretched(10.0 ** np.floor(np.log10(np.median(size))), ends)
        if ends[0] > 0.0:
            scale, axis["values"] = logarithmic(ends)
    if specials:
        scale["range"] = [max(specials.values()) + 30, alt.ExprRef("width")]
    return alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(**axis)), specials


def _special(base: Any, name: str, place: int, y: Any, low: Any, colour: Any, tooltip: Any) -> list[Any]:
    """Return marks of documents with a special value: level, interval and label."""
    x, bad = alt.value(place), COLOURS["bad"]
    level = base.transform_filter(f"datum.kind == '{name}'").encode(x=x, tooltip=tooltip)
    text = alt.value("0" if name == "zero" else "missing")
    label = level.mark_text(fontSize=12, color=COLOURS["faint"], baseline="top")
    documents = base.transform_filter(f"datum.kind == 'document' && datum.place == '{name}'")
    ticks = documents.mark_tick(orient="horizontal", size=16, opacity=0.35).encode(x=x, y=y, color=colour)
    interval = level.mark_rule(strokeWidth=2, color=bad).encode(y=low, y2="high:Q")
    point = level.mark_point(shape="diamond", size=80, color=bad).encode(y=y)
    return [ticks, interval, point, label.encode(y=alt.value(_HEIGHT + 7), text=text)]


def _zero_apart(curve: AleCurve) -> bool:
    """Return whether many values are 0, which often means absence."""
    return curve.zeros >= _APART * curve.counts.sum() and curve.edges.size > 2 and bool((curve.edges == 0.0).any())


def _limits(curve: AleCurve, points: Dependence | None) -> tuple[float, float]:
    """Return the limits of the score axis."""
    ends = [0.0, curve.missing_low, curve.missing_high]
    every = np.concatenate([ends, curve.low, curve.high, [] if points is None else points.parts])
    return float(np.nanmin(every)), float(np.nanmax(every))


def _frame(found: Shapes, curve: AleCurve, points: Dependence | None, other: str | None) -> Any:
    """Return rows of several kinds: curve, zero, missing value, documents."""
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
            # Relative rank from 0 to 1; ties share a rank; None for missing values.
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
    text = f"{curve.direction.capitalize()}, by {curve.swing:.4g} from the lowest to the highest point."
    if nominal:
        text = f"{len(found.categories[curve.feature]):,} categories, which differ by up to {curve.swing:.4g}."
    if curve.query_level:
        text += " Constant within queries: it does not rank documents by itself."
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
    return f"{curve.direction} by {curve.swing:.3g}"


def _pair_chart(strongest: Sequence[Interaction]) -> Chart:
    margins = [1.96 * one.error for one in strongest]
    bars = {
        "pair": [f"{one.first} and {one.second}" for one in strongest],
        "share": [one.share for one in strongest],
        "low": [max(0.0, one.share - margin) for one, margin in zip(strongest, margins, strict=True)],
        "high": [one.share + margin for one, margin in zip(strongest, margins, strict=True)],
    }
    frame = pandas().DataFrame(bars)
    tips = tooltips("pair:N", "share:Q .2%", "low:Q .2% from", "high:Q .2% to")
    base = alt.Chart(frame).encode(y=alt.Y("pair:N", sort=None, title=None))
    x = alt.X("share:Q", title="share of the score's variance within queries", axis=alt.Axis(format=SHARE))
    figure = alt.layer(
        base.mark_bar().encode(x=x, tooltip=tips), base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    )
    return Chart("interactions", frame, figure.properties(height=_LINE * len(strongest)))


def _table(found: Shapes) -> dict[str, Any]:
    """Return rows of the table of all features, with their expandable details."""
    rows, details = [], []
    drawable = [curve for curve in found.curves if curve.edges.size > 1]
    lowest = min((float(curve.low.min()) for curve in drawable), default=0.0)
    highest = max((float(curve.high.max()) for curve in drawable), default=0.0)
    for curve in found.curves:
        total = int(curve.counts.sum()) + curve.missing
        direction = None if curve.feature in found.categories else curve.direction
        ends = [Cell(v, found.category(curve.feature, v)) for v in curve.ends] if curve.edges.size else [None, None]
        missing = [curve.missing / total, curve.missing_effect] if curve.missing else [None, None]
        drawing, detail = None, None
        if curve.edges.size > 1:
            drawing = Cell(None, _drawing(curve, *_SMALL, (lowest, highest)))
            large = _drawing(curve, *_LARGE, (float(curve.low.min()), float(curve.high.max())))
            at = (0, curve.edges.size // 2, curve.edges.size - 1)
            marks = ", ".join(f"{curve.effect[i]:+.4f} at {curve.edges[i]:.5g}" for i in at)
            detail = block("shapes.html", "detail", curve=curve, marks=marks, drawing=large)
        look = Cell(direction, look="faint" if curve.query_level else "")
        rows.append([curve.feature, drawing, look, curve.swing, *ends, curve.zeros / max(1, total), *missing])
        details.append(detail)
    return {"rows": rows, "details": details}


def _drawing(curve: AleCurve, width: int, height: int, limits: tuple[float, float]) -> Markup:
    """Draw the curve with its interval over the ranks of its values, in SVG."""
    low, high = limits
    span = (high - low) or 1.0

    def line(values: Float64Array, backwards: bool = False) -> str:
        at = [
            f"{i * width / (curve.edges.size - 1):.0f} {(high - value) / span * height:.1f}"
            for i, value in enumerate(values.tolist())
        ]
        return "L".join(reversed(at) if backwards else at)

    zero = high / span * height
    drawn = {
        "band": f"M{line(curve.low)}L{line(curve.high, True)}Z",
        "path": f"M{line(curve.effect)}",
        "zero": f"{zero:.1f}" if 0.0 <= zero <= height else "",
        "label": f"{curve.direction}, {curve.effect[0]:+.3g} to {curve.effect[-1]:+.3g}",
    }
    return block("shapes.html", "drawing", width=width, height=height, colours=COLOURS, **drawn)


SPEC = Section(
    "shapes",
    "Shapes",
    shapes,
    _parts,
    frames=lambda found: {name: found.to_frame(name) for name in ("curves", "dependence", "interactions")},
    place=30,
    after=("importance",),
)
