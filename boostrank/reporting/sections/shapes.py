"""Feature shapes, shown by accumulated local effects.

Source: D. W. Apley, J. Zhu, "Visualizing the effects of predictor variables in black box supervised
learning models", JRSS B 82 (2020), equations 15 and 16. A feature's values are split into intervals
with about equal counts. The local effect for a document is the change of its score from the lower
to the upper end of its interval, with all other features fixed. The curve accumulates the mean
local effects from left to right. Unlike partial dependence, it never moves a feature far from its
own value. One pass over the trees computes the curves of all features.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from boostrank.core.errors import DataError
from boostrank.core.types import Array, Float32Array, Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.reporting.charts import COLOURS, Chart, alt, stretched, tooltips
from boostrank.reporting.result import Result, concatenate
from boostrank.reporting.scoring import (
    DocumentProgress,
    Scorer,
    in_batches,
    over_blocks,
    units_of,
    walker_of,
)
from boostrank.reporting.section import Context, Section
from boostrank.reporting.sections.importance import Importance
from boostrank.reporting.table import Cell, Column, Data, Table, pandas, table_of_objects

# Limit on documents times trees, about ten seconds on two cores.
_WALKS = 30_000_000
# More documents would not change a curve visibly.
_MOST_DOCUMENTS, _MOST_NUMBERS = 20_000, 20_000_000
_HEIGHT = 220
# The scale is stretched if the range exceeds this multiple of the median.
_SKEWED = 20.0
_RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class AleCurve:
    """The accumulated local effects of one feature, with pointwise 95% bootstrap intervals over
    queries.

    Categories are in the arbitrary order of their codes, so the shape of their curve has no
    meaning.

    Args:
        edges: float64[K+1], interval ends in ascending order. They are values that occur in the
            data. A constant feature has one edge or none.
        effect: float64[K+1], effect at each edge, centred over the documents with a value. It is
            linear within intervals, as in the authors' R package ALEPlot.
        low, high: float64[K+1], interval of `effect`.
        counts: int64[K], number of documents per interval. Intervals include their upper end, and
            the first interval also includes its lower end.
        missing: number of documents without a value.
        missing_effect: mean change in the score when the value is removed, or NaN if no value is
            missing.
        query_level: whether the feature is constant within every query, so that it ranks no
            documents by itself.
    """

    feature: str
    edges: Float64Array
    effect: Float64Array
    low: Float64Array
    high: Float64Array
    counts: Int64Array
    missing: int
    missing_effect: float
    query_level: bool

    @property
    def swing(self) -> float:
        """The range of the curve, in score units."""
        return float(np.ptp(self.effect)) if self.effect.size else 0.0

    @property
    def rising(self) -> float:
        """The fraction of the total variation that is upward, between 0 and 1, or NaN if the curve
        is constant.
        """
        steps = np.diff(self.effect)
        total = float(np.abs(steps).sum())
        return float(steps[steps > 0.0].sum()) / total if total > 0.0 else math.nan

    @property
    def direction(self) -> str:
        """The direction of the curve in words. A curve rises or falls if at least 90% of its
        variation does.
        """
        if np.isnan(self.rising):
            return "flat"
        if self.rising > 0.9:
            return "rises"
        return "falls" if self.rising < 0.1 else "rises and falls"

    @property
    def lowest(self) -> float:
        """The feature's lowest value, or NaN if all values are missing."""
        return float(self.edges[0]) if self.edges.size else math.nan

    @property
    def highest(self) -> float:
        """The feature's highest value, or NaN if all values are missing."""
        return float(self.edges[-1]) if self.edges.size else math.nan

    @property
    def documents(self) -> int:
        """The number of documents with a value."""
        return int(self.counts.sum())

    @property
    def share_missing(self) -> float:
        """The share of documents without a value, or NaN if none is missing."""
        return self.missing / (self.documents + self.missing) if self.missing else math.nan


class Shapes(Result):
    """Result of `shapes`.

    Args:
        top: names of the features that have a chart.
        curves: accumulated local effects of every feature in the trees, first those of `top`, then
            by `swing`.
        documents, queries: numbers of documents and queries in the sample.
        all_documents: number of documents in the data.
        categories: names of the codes 0, 1, ... of each categorical feature.
    """

    top: tuple[str, ...]
    curves: tuple[AleCurve, ...]
    documents: int
    all_documents: int
    queries: int
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def tables(self) -> tuple[Table, ...]:
        """Return the curves and the features."""
        columns = (
            "feature",
            Column(
                "direction",
                help="Direction of at least 90% of the curve's movement. Categories have none.",
            ),
            Column("swing", format=".4f", help="range of the curve, in score units"),
            Column("lowest", "from", ".5g", "lowest value"),
            Column("highest", "to", ".5g", "highest value"),
            Column("share_missing", "missing", ".1%", "share of documents without a value"),
            Column(
                "missing_effect", "if missing", "+.4f", "mean change of the score without the value"
            ),
        )
        # Add what JSON has besides the columns.
        keys = (
            "feature",
            "swing",
            "rising",
            "lowest",
            "highest",
            "documents",
            "missing",
            "missing_effect",
        )
        features = table_of_objects("features", self.curves, columns, *keys, "query_level")
        cells: Data = {"share_missing": [curve.share_missing for curve in self.curves]}
        for end in ("lowest", "highest"):
            values = zip(self.curves, features.data[end], strict=True)
            cells[end] = [
                Cell(value, self.category(curve.feature, value)) for curve, value in values
            ]
        directions = [
            None if curve.feature in self.categories else curve.direction for curve in self.curves
        ]
        looks = ["faint" if curve.query_level else "" for curve in self.curves]
        cells["direction"] = list(map(Cell, directions, directions, looks))
        return (
            Table("curves", concatenate([_points(self, curve) for curve in self.curves])),
            replace(features, cells=cells),
        )

    def category(self, feature: str, value: float) -> str | None:
        """Return the name of a category code, or None for numeric features and missing values."""
        names = self.categories.get(feature)
        if names is None or np.isnan(value):
            return None
        return names[int(value)] if 0.0 <= value < len(names) else f"{value:g}"


def _points(shapes: Shapes, curve: AleCurve) -> Data:
    """Return the edges of a curve as rows, preceded by a row for missing values if there are
    any.
    """
    # Row i has the number of documents in the interval that ends at edge i.
    counts = [0, *curve.counts.tolist()][: curve.edges.size]
    data: Data = {
        "value": curve.edges,
        "effect": curve.effect,
        "low": curve.low,
        "high": curve.high,
    }
    data["documents"] = counts
    if curve.missing:
        missing = (np.nan, curve.missing_effect, np.nan, np.nan, curve.missing)
        row = {name: [value] for name, value in zip(data, missing, strict=True)}
        data = concatenate([row, data])
    categories = [shapes.category(curve.feature, value) for value in data["value"].tolist()]
    return {"feature": [curve.feature] * len(categories), **data, "category": categories}


def shapes(
    c: Context,
    *,
    top: int = 8,
    bins: int = 32,
    documents: int | None = None,
) -> Shapes:
    """Measure how scores depend on each feature, without using labels.

    Args:
        top: number of features to show, the first ones of `importance` or else those with the
            largest gain.
        bins: maximum number of intervals per curve, at least 1.
        documents: number of documents in the sample for curves, which consists of whole queries.
            None limits the work to about ten seconds on two cores, with at most 20,000 documents.
    """
    model, data, seed = c.model, c.data, c.seed
    if not data.n_documents:
        raise DataError("the data has no documents")
    trees = model.trees()
    # Use the feature names in the data, because a booster may only number its columns.
    columns = data.feature_names
    worth: Importance | None = c.results.get("importance")
    order = np.argsort(-trees.gain, kind="stable") if worth is None else worth.order
    chosen = tuple(columns[i] for i in order.tolist() if i in trees.used)[:top]
    walker = walker_of(model, trees, data, c.workers)
    names = tuple(columns[i] for i in trees.used)
    # Each document is walked about three times.
    most = min(_WALKS // (3 * max(1, trees.count)), _MOST_NUMBERS // max(1, trees.used.size))
    sample = data.sample(documents or max(1, min(most, _MOST_DOCUMENTS)), seed)
    rows = DenseRows(sample, trees.used, model.absent_is_missing)
    curves = accumulated_local_effects(
        walker,
        rows,
        names,
        bins=bins,
        seed=seed,
        threads=c.workers,
        progress=partial(c.progress, "local effects"),
    )
    first = {name: i for i, name in enumerate(chosen)}
    # Look up category names by the data's column names.
    of_columns = zip(columns, map(model.categories.get, model.feature_names), strict=True)
    categories = {
        name: tuple(map(str, of.values or ())) for name, of in of_columns if of is not None
    }
    return Shapes(
        top=chosen,
        curves=tuple(
            sorted(curves, key=lambda curve: (first.get(curve.feature, len(first)), -curve.swing))
        ),
        documents=rows.data.n_documents,
        all_documents=data.n_documents,
        queries=len(rows.data.queries),
        categories=categories,
    )


def _parts(result: Shapes) -> dict[str, Any]:
    curves = {curve.feature: curve for curve in result.curves}
    features = enumerate(result.top, 1)
    charts = [(_chart(result, n, curves[feature]), curves[feature]) for n, feature in features]
    return {
        "largest": max(result.curves, key=lambda curve: curve.swing, default=None),
        "charts": charts,
    }


def _chart(shapes: Shapes, number: int, curve: AleCurve) -> Chart:
    """Draw a curve and its interval."""
    feature, main = curve.feature, COLOURS["main"]
    frame = pandas().DataFrame(_points(shapes, curve)).drop(columns="feature")
    tips = ["effect:Q +.4f score", "low:Q +.4f from", "high:Q +.4f to", "documents:Q ,d"]
    y = {"title": "score", "scale": alt.Scale(zero=True)}
    if feature in shapes.categories:
        # Draw a point for each category, including the missing values.
        frame["category"] = frame["category"].where(frame["value"].notna(), "missing")
        axis = alt.Axis(labelAngle=-35, labelLimit=110)
        x = alt.X("category:N", title=None, sort=None, axis=axis)
        name = alt.Tooltip("category:N", title=feature)
        base = alt.Chart(frame).encode(x=x, tooltip=[name, *tooltips(*tips)])
        interval = base.mark_rule(strokeWidth=4, opacity=0.35, color=main)
        line = base.mark_point(size=60, color=main)
    else:
        # Missing values have no place on the axis; the caption states their effect.
        frame = frame[frame["value"].notna()].drop(columns="category")
        name = alt.Tooltip("value:Q", title=feature, format=".5~g")
        base = alt.Chart(frame).encode(x=_across(curve), tooltip=[name, *tooltips(*tips)])
        interval = base.mark_area(opacity=0.25, color=main)
        line = base.mark_line(point=alt.OverlayMarkDef(size=16))
    slug = re.sub(r"[^a-z0-9]+", "-", feature.lower()).strip("-")[:40] or "feature"
    figure = alt.layer(
        interval.encode(y=alt.Y("low:Q", **y), y2="high:Q"), line.encode(y=alt.Y("effect:Q", **y))
    )
    return Chart(f"shape-{number}-{slug}", frame, figure.properties(height=_HEIGHT))


def _across(curve: AleCurve) -> Any:
    """Return the horizontal axis of a numeric feature."""
    size = np.abs(curve.edges[curve.edges != 0.0])
    # SI prefixes for thousands, none for fractions.
    axis: dict[str, Any] = {
        "format": "~s" if size.max(initial=0.0) >= 1000.0 else ".3~g",
        "tickCount": 5,
    }
    scale = alt.Scale(zero=False, nice=False)
    if size.size and size.max() > _SKEWED * np.median(size):
        small = 10.0 ** np.floor(np.log10(np.median(size)))
        scale, axis["values"] = stretched(small, (curve.lowest, curve.highest))
        axis["format"] = "~g"
    return alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(**axis))


def accumulated_local_effects(
    scorer: Scorer,
    rows: DenseRows,
    names: tuple[str, ...],
    *,
    bins: int,
    seed: int,
    threads: int,
    progress: DocumentProgress | None = None,
) -> tuple[AleCurve, ...]:
    """Return the accumulated local effects of each column, with at most `bins` intervals."""
    values = rows[: rows.data.n_documents]
    lost, edges = np.isnan(values), []
    # The intervals are numbered from 1, and 0 stands for missing values.
    intervals = np.zeros(values.shape, np.int16)
    for c in range(values.shape[1]):
        column = values[:, c].astype(np.float64)
        edges.append(_ends(column[~lost[:, c]] + 0.0, bins))
        if edges[c].size > 1:
            at = np.maximum(np.searchsorted(edges[c], column), 1)
            intervals[:, c] = np.where(lost[:, c], 0, at)
    change, to_missing = _walk(scorer, rows, values, edges, intervals, threads, progress)
    constant = set(rows.constant_within_queries(threads).tolist())
    # Count how often each query is drawn, float64[_RESAMPLES, Q].
    queries, n = rows.data.queries, len(rows.data.queries)
    draws = np.random.default_rng(seed).integers(0, max(1, n), size=(_RESAMPLES, n))
    times = np.array([np.bincount(draw, minlength=n) for draw in draws], dtype=np.float64)
    owner, curves = queries.of_rows(), []
    for c, name in enumerate(names):
        # Sum and count the local effects per query and interval, without missing values.
        width = max(1, edges[c].size)
        key = owner * width + intervals[:, c]
        sums, counts = [
            np.bincount(key, weights, n * width).reshape(n, width)[:, 1:]
            for weights in (change[:, c], np.ones(key.size))
        ]
        # Compute the curve, and its bootstrap interval from the redrawn sums.
        total = counts.sum(axis=0)
        mean = _means(sums.sum(axis=0), total, 0.0)
        again = _accumulated(_means(times @ sums, times @ counts, mean), times @ counts)
        curve = _accumulated(mean[None], total[None])
        ends = np.stack([*curve, *np.quantile(again, [0.025, 0.975], axis=0)])
        effect, low, high = ends[:, : edges[c].size]
        loss = float(to_missing[c][~lost[:, c]].mean()) if c in to_missing else math.nan
        missing, is_constant = int(lost[:, c].sum()), c in constant and width > 1
        documents = total.astype(np.int64)
        numbers = documents, missing, loss, is_constant
        curves.append(AleCurve(name, edges[c], effect, low, high, *numbers))
    return tuple(curves)


def _ends(present: Float64Array, bins: int) -> Float64Array:
    """Return the interval ends: values that are frequent enough to fill an interval, and quantiles
    of the others.
    """
    values, counts = np.unique(present, return_counts=True)
    if values.size <= bins + 1:
        return values
    many = np.zeros(values.size, np.bool_)
    while (more := ~many & (counts * (bins - many.sum()) > counts[~many].sum())).any():
        many |= more
    others = np.repeat(values[~many], counts[~many])
    at = np.rint(np.linspace(0, others.size - 1, bins - many.sum() + 1)).astype(int)
    return np.unique(np.concatenate([values[many], others[at]]))


def _walk(
    scorer: Scorer,
    rows: DenseRows,
    values: Float32Array,
    edges: list[Float64Array],
    intervals: Array,
    threads: int,
    progress: DocumentProgress | None,
) -> tuple[Float64Array, dict[int, Float64Array]]:
    """Return the local effects, float64[n, c], and the effects of removing values from columns that
    lack some.
    """
    n, c = values.shape
    lost = np.isnan(values)
    gone = np.flatnonzero(lost.any(axis=0) & ~lost.all(axis=0))
    change = np.zeros((n, c))
    to_missing = {int(at): np.zeros(n) for at in gone}

    def block(queries: slice, documents: slice) -> None:
        block_rows, at = values[documents], intervals[documents]
        # Move each value to the ends of its interval.
        lower, upper = block_rows.copy(), block_rows.copy()
        for j in range(c):
            inside = at[:, j] > 0
            lower[inside, j] = edges[j][at[inside, j] - 1]
            upper[inside, j] = edges[j][at[inside, j]]
        for batch in in_batches(np.arange(c), block_rows.shape[0]):
            to_lower, to_upper = [
                scorer.changes(block_rows, end, units_of(batch, c), batch.size)
                for end in (lower, upper)
            ]
            change[documents, batch] = (to_upper - to_lower).T
        if gone.size:
            base = scorer.scores(block_rows)
            nothing = np.full_like(block_rows, np.nan)
            for batch in in_batches(gone, block_rows.shape[0]):
                changed = scorer.changes(block_rows, nothing, units_of(batch, c), batch.size)
                for j, scores in zip(batch.tolist(), changed, strict=True):
                    to_missing[j][documents] = scores - base

    over_blocks(block, rows, threads, progress)
    return change, to_missing


def _means(sums: Float64Array, counts: Float64Array, instead: Float64Array | float) -> Float64Array:
    """Return `sums / counts`, or `instead` where the count is 0."""
    return np.asarray(np.where(counts > 0.0, sums / np.maximum(counts, 1.0), instead))


def _accumulated(means: Float64Array, counts: Float64Array) -> Float64Array:
    """Accumulate mean local effects, float64[r, K], into centred curves, float64[r, K+1]."""
    curve = np.concatenate([np.zeros((means.shape[0], 1)), np.cumsum(means, axis=1)], axis=1)
    middle = (curve[:, 1:] + curve[:, :-1]) / 2.0
    return np.asarray(
        curve
        - (middle * counts).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1), 1)[:, None]
    )


SPEC = Section("shapes", "Shapes", shapes, _parts, position=30, after=("importance",))
