"""Shapes of features: contributions, accumulated local effects, and interactions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from boostrank.core.errors import DataError, ModelError
from boostrank.core.types import Int64Array
from boostrank.data.rows import DenseRows
from boostrank.engines.trees import Trees
from boostrank.model.ranking_model import RankingModel
from boostrank.report.charts import SHARE, Chart, stretched, tooltips
from boostrank.report.effects import AleCurve, Interaction, accumulated_local_effects, interactions
from boostrank.report.html import Cell
from boostrank.report.result import Columns, Result, columns_of, joined, pandas, plain
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
# Use a stretched scale if the range exceeds this multiple of the median.
_SKEWED = 20.0


@dataclass(frozen=True, eq=False, repr=False)
class Shapes(Result):
    """Result of `shapes`.

    Args:
        top: features shown in detail.
        dependence: columns: TreeSHAP contributions of `top` to the scores of the same documents, minus the mean of the
            query; empty if the engine has none.
        curves: accumulated local effects of every feature in the trees: first `top`, then by `swing`.
        interactions: pairs of `top`, strongest first.
        documents, pair_documents, shap_documents: sample sizes of curves, interactions and dependence, in whole
            queries.
        by: "walk", or why the engine predicted instead.
        categories: categorical feature -> names of codes 0, 1, ...
    """

    top: tuple[str, ...]
    dependence: Columns
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
        "curves": lambda self: joined([_points(self, one) for one in self.curves]),
        "features": lambda self: {
            **columns_of(self.curves, "feature", "swing", "rising"),
            "lowest": [c.ends[0] for c in self.curves],
            "highest": [c.ends[1] for c in self.curves],
            "documents": [int(c.counts.sum()) for c in self.curves],
            **columns_of(self.curves, "zeros", "missing", "missing_effect", "query_level"),
        },
        "dependence": attrgetter("dependence"),
        "interactions": lambda self: columns_of(self.interactions, "first", "second", "size", "share", "error"),
    }

    def category(self, feature: str, value: float) -> str | None:
        """Return the name of a category code; None for numeric features and missing values."""
        names = self.categories.get(feature)
        if names is None or np.isnan(value):
            return None
        return names[int(value)] if 0.0 <= value < len(names) else f"{value:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        tables = {what: self.rows(what) for what in ("features", "curves", "interactions", "dependence")}
        return dict(plain({name: value for name, value in vars(self).items() if name != "categories"} | tables))


def _points(found: Shapes, c: AleCurve) -> Columns:
    """Return the edges of a curve as rows; the first one is its missing value."""
    # Row i holds the documents of the interval that ends at edge i.
    counts = [0, *c.counts.tolist()][: c.edges.size]
    columns: Columns = {"value": c.edges, "effect": c.effect, "low": c.low, "high": c.high, "documents": counts}
    if c.missing:
        lost = (np.nan, c.missing_effect, c.missing_low, c.missing_high, c.missing)
        columns = joined([{name: [one] for name, one in zip(columns, lost, strict=True)}, columns])
    named = [found.category(c.feature, value) for value in columns["value"].tolist()]
    return {"feature": [c.feature] * len(named), **columns, "category": named}


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
        bins: intervals of a curve, at least 1.
        points: maximum number of documents of the dependence.
        documents: sample size of curves and interactions, in whole queries; None means about 20 seconds on two cores,
            at most 20,000.
        shap_documents: likewise for contributions; 0 means none; None means about eight seconds.
    """
    model, data, seed = c.model, c.data, c.seed
    if not data.n_documents:
        raise DataError("no documents")
    trees = model.trees()
    # Use the names of the data: a booster may only number its columns.
    columns = data.feature_names
    chosen = _chosen(columns, trees, c.results.get("importance"), features)[:top]
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
    names: Sequence[str], trees: Trees, importance: Importance | None, features: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the features of the trees in the order to show them."""
    order: Int64Array = np.argsort(-trees.gain, kind="stable") if importance is None else importance.order
    used = [names[i] for i in order.tolist() if i in trees.used]
    return tuple(used if features is None else [name for name in dict.fromkeys(features) if name in used])


def _dependence(
    c: Context, chosen: Sequence[str], documents: int, points: int, notes: list[str]
) -> tuple[Columns, int]:
    """Return the dependence of some features, and the sample size of their contributions."""
    if not documents or not chosen:
        return {}, 0
    data = c.data
    columns = np.array([data.feature_names.index(name) for name in chosen], np.int64)
    rows, queries = DenseRows(data, columns, c.model.absent_is_missing), data.queries.sample(documents, c.seed)
    try:
        blocks = contributions_by_query(c.model, data, queries, c.workers, c.say)
        found = [(rows[numbers], parts[:, columns]) for _, numbers, parts in blocks]
    except ModelError as error:
        notes.append(str(error))
        return {}, 0
    values, parts = (np.concatenate(one).astype(np.float64) for one in zip(*found, strict=True))
    sizes = data.queries.sizes[queries]
    owner = np.repeat(np.arange(sizes.size), sizes)
    for column in parts.T:
        column -= (np.bincount(owner, column, sizes.size) / np.maximum(sizes, 1))[owner]
    kept = np.sort(np.random.default_rng(c.seed).permutation(len(values))[:points])
    columns_ = {"feature": np.repeat(chosen, kept.size), "document": np.tile(np.arange(kept.size), len(chosen))}
    return columns_ | {"value": values[kept].T.ravel(), "part": parts[kept].T.ravel()}, len(values)


def _parts(found: Shapes) -> dict[str, Any]:
    strongest = [one for one in found.interactions if one.share > ROUNDING][:_PAIRS]
    shown = {curve.feature: curve for curve in found.curves}
    points = pandas().DataFrame(found.dependence or {"feature": [], "value": [], "part": []})
    charts = [_chart(found, i, shown[name], points[points["feature"] == name]) for i, name in enumerate(found.top, 1)]
    return {
        "largest": max(found.curves, key=lambda curve: curve.swing, default=None),
        "swing": _swing,
        "charts": charts,
        "strongest": strongest,
        "pair_chart": _pair_chart(strongest) if strongest else None,
        "rows": [_row(found, curve) for curve in found.curves],
    }


def _chart(found: Shapes, number: int, curve: AleCurve, points: Any) -> Chart:
    """Draw a curve and the documents around it; those without a value stand at the left."""
    feature, nominal = curve.feature, curve.feature in found.categories
    frame = pandas().DataFrame(_points(found, curve)).drop(columns="feature").assign(kind="curve")
    documents = points.rename(columns={"part": "effect"})[["value", "effect"]].assign(kind="document")
    documents["category"] = [found.category(feature, value) for value in documents["value"]]
    frame = pandas().concat([frame, documents], ignore_index=True)
    missing = frame["value"].isna()
    if nominal:
        frame["category"] = frame["category"].where(~missing, "missing")
    else:
        frame = frame.drop(columns="category")
        frame.loc[missing & (frame["kind"] == "curve"), "kind"] = "missing"
        frame.loc[missing & (frame["kind"] == "document"), "kind"] = "missing document"
    ends = frame[["effect", "low", "high"]].to_numpy(float)
    scale = alt.Scale(domain=[float(np.nanmin(ends, initial=0.0)), float(np.nanmax(ends, initial=0.0))], nice=True)
    y, low = (alt.Y(f"{name}:Q", title="score", scale=scale) for name in ("effect", "low"))
    shown = alt.Tooltip(
        "category:N" if nominal else "value:Q", title=feature, **({} if nominal else {"format": ".5~g"})
    )
    tips = [shown, *tooltips("effect:Q +.4f score", "low:Q +.4f from", "high:Q +.4f to", "documents:Q ,d")]
    x = alt.X("category:N", title=None, sort=None, axis=alt.Axis(labelAngle=-35, labelLimit=110))
    if not nominal:
        x = _across(curve, frame.loc[~missing, "value"].to_numpy(float))
    base, main = alt.Chart(frame), COLOURS["main"]
    line = base.transform_filter("datum.kind == 'curve'").encode(x=x, tooltip=tips)
    dots = base.transform_filter("datum.kind == 'document'").encode(x=x)
    circles = dots.mark_circle(size=14, opacity=0.5, color=COLOURS["faint"]).encode(y=y)
    if nominal:
        bars = line.mark_rule(strokeWidth=4, opacity=0.35, color=main).encode(y=low, y2="high:Q")
        layers = [circles, bars, line.mark_point(size=60, color=main).encode(y=y)]
    else:
        layers = [
            line.mark_area(opacity=0.25, color=main).encode(y=low, y2="high:Q"),
            circles,
            line.mark_line(point=alt.OverlayMarkDef(size=16)).encode(y=y),
            dots.mark_tick(size=7, opacity=0.25).encode(y=alt.value(_HEIGHT - 3)),
        ]
    if curve.missing and not nominal:
        level = base.transform_filter("datum.kind == 'missing'").encode(x=alt.value(24), tooltip=tips)
        lost = base.transform_filter("datum.kind == 'missing document'").encode(x=alt.value(24), y=y)
        layers += [
            lost.mark_tick(orient="horizontal", size=16, opacity=0.35, color=COLOURS["faint"]),
            level.mark_rule(strokeWidth=2, color=COLOURS["bad"]).encode(y=low, y2="high:Q"),
            level.mark_point(shape="diamond", size=80, color=COLOURS["bad"]).encode(y=y),
            level.mark_text(baseline="top").encode(y=alt.value(_HEIGHT + 7), text=alt.value("missing")),
        ]
    slug = re.sub(r"[^a-z0-9]+", "-", feature.lower()).strip("-")[:40] or "feature"
    figure = alt.layer(*layers).properties(height=_HEIGHT)
    return Chart(f"shape-{number}-{slug}", frame, figure, feature, _about(found, curve))


def _across(curve: AleCurve, values: Any) -> Any:
    """Return the horizontal axis of a numeric feature, with room for missing values."""
    size = np.abs(curve.edges[curve.edges != 0.0])
    # SI prefixes for thousands, none for fractions.
    axis: dict[str, Any] = {"format": "~s" if size.max(initial=0.0) >= 1000.0 else ".3~g", "tickCount": 5}
    scale = alt.Scale(zero=False, nice=False)
    if size.size and size.max() > _SKEWED * np.median(size):
        small = 10.0 ** np.floor(np.log10(np.median(size)))
        scale, axis["values"] = stretched(small, (float(values.min()), float(values.max())))
        axis["format"] = "~g"
    if curve.missing:
        scale["range"] = [54, alt.ExprRef("width")]
    return alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(**axis))


def _about(found: Shapes, curve: AleCurve) -> str:
    text = f"{curve.direction.capitalize()}, by {curve.swing:.4g} from the lowest to the highest point."
    if curve.feature in found.categories:
        text = f"{len(found.categories[curve.feature]):,} categories, which differ by up to {curve.swing:.4g}."
    if curve.query_level:
        text += " Constant within queries: it does not rank documents by itself."
    if curve.missing:
        total = int(curve.counts.sum()) + curve.missing
        text += (
            f" Missing in {curve.missing / total:.0%} of the documents; losing a value changes the score by "
            f"{curve.missing_effect:+.4f} on average ({curve.missing_low:+.4f} to {curve.missing_high:+.4f})."
        )
    return text


def _swing(found: Shapes, curve: AleCurve) -> str:
    if curve.feature in found.categories:
        return f"differs by up to {curve.swing:.3g} between categories"
    return f"{curve.direction} by {curve.swing:.3g}"


def _pair_chart(strongest: Sequence[Interaction]) -> Chart:
    frame = pandas().DataFrame(columns_of(strongest, "share", "error"))
    frame.insert(0, "pair", [f"{one.first} and {one.second}" for one in strongest])
    frame["low"] = (frame["share"] - 1.96 * frame["error"]).clip(lower=0.0)
    frame["high"] = frame["share"] + 1.96 * frame.pop("error")
    tips = tooltips("pair:N", "share:Q .2%", "low:Q .2% from", "high:Q .2% to")
    base = alt.Chart(frame).encode(y=alt.Y("pair:N", sort=None, title=None))
    x = alt.X("share:Q", title="share of the score's variance within queries", axis=alt.Axis(format=SHARE))
    figure = base.mark_bar().encode(x=x, tooltip=tips) + base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    return Chart("interactions", frame, figure.properties(height=24 * len(strongest)))


def _row(found: Shapes, curve: AleCurve) -> list[Any]:
    """Return a row of the table of all features."""
    total = max(1, int(curve.counts.sum()) + curve.missing)
    direction = None if curve.feature in found.categories else curve.direction
    ends = [Cell(v, found.category(curve.feature, v)) for v in curve.ends] if curve.edges.size else [None, None]
    missing = [curve.missing / total, curve.missing_effect] if curve.missing else [None, None]
    look = Cell(direction, look="faint" if curve.query_level else "")
    return [curve.feature, look, curve.swing, *ends, curve.zeros / total, *missing]


SPEC = Section(
    "shapes",
    "Shapes",
    shapes,
    _parts,
    place=30,
    after=("importance",),
)
