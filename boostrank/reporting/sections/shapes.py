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
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.errors import DataError
from boostrank.core.types import Array, BoolArray, Float32Array, Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.reporting.charts import COLOURS, Chart, alt, stretch, tooltips
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
        variation = float(np.abs(steps).sum())
        return float(steps[steps > 0.0].sum()) / variation if variation > 0.0 else math.nan

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
            Column("lowest", "from", format=".5g", help="lowest value"),
            Column("highest", "to", format=".5g", help="highest value"),
            Column(
                "share_missing", "missing", format=".1%", help="share of documents without a value"
            ),
            Column(
                "missing_effect",
                "if missing",
                format="+.4f",
                help="mean change of the score without the value",
            ),
        )
        # Add what JSON has besides the columns.
        keys = ("feature", "swing", "rising", "lowest", "highest", "documents", "missing")
        more_keys = ("missing_effect", "query_level")
        features = table_of_objects("features", self.curves, columns, *keys, *more_keys)
        cells: Data = {"share_missing": [curve.share_missing for curve in self.curves]}
        for column in ("lowest", "highest"):
            values = zip(self.curves, features.data[column], strict=True)
            cells[column] = [
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
    documents = [0, *curve.counts.tolist()][: curve.edges.size]
    data: Data = {
        "value": curve.edges,
        "effect": curve.effect,
        "low": curve.low,
        "high": curve.high,
    }
    data["documents"] = documents
    if curve.missing:
        missing_row = (np.nan, curve.missing_effect, np.nan, np.nan, curve.missing)
        first_row = {name: [value] for name, value in zip(data, missing_row, strict=True)}
        data = concatenate([first_row, data])
    categories = [shapes.category(curve.feature, value) for value in data["value"].tolist()]
    return {"feature": [curve.feature] * len(categories), **data, "category": categories}


def shapes(
    context: Context,
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
    model, data, seed = context.model, context.data, context.seed
    if not data.n_documents:
        raise DataError("the data has no documents")
    trees = model.trees()
    # Use the feature names in the data, because a booster may only number its columns.
    columns = data.feature_names
    importance: Importance | None = context.results.get("importance")
    order = np.argsort(-trees.gain, kind="stable") if importance is None else importance.order
    top_features = tuple(columns[i] for i in order.tolist() if i in trees.used)[:top]
    walker = walker_of(model, trees, data, context.workers)
    names = tuple(columns[i] for i in trees.used)
    # Each document is walked about three times.
    affordable = min(_WALKS // (3 * max(1, trees.count)), _MOST_NUMBERS // max(1, trees.used.size))
    sample = data.sample(documents or max(1, min(affordable, _MOST_DOCUMENTS)), seed)
    rows = DenseRows(sample, trees.used, model.absent_is_missing)
    curves = accumulated_local_effects(
        walker,
        rows,
        names,
        bins=bins,
        seed=seed,
        threads=context.workers,
        progress=partial(context.progress, "local effects"),
    )
    position = {name: i for i, name in enumerate(top_features)}
    # Look up category names by the data's column names.
    of_model = model.categories
    categories = {
        column: tuple(map(str, of_model[name].values or ()))
        for column, name in zip(columns, model.feature_names, strict=True)
        if name in of_model
    }
    return Shapes(
        top=top_features,
        curves=tuple(
            sorted(curves, key=lambda curve: (position.get(curve.feature, top), -curve.swing))
        ),
        documents=rows.data.n_documents,
        all_documents=data.n_documents,
        queries=len(rows.data.queries),
        categories=categories,
    )


def _template_variables(result: Shapes) -> dict[str, Any]:
    curves = {curve.feature: curve for curve in result.curves}
    features = enumerate(result.top, 1)
    charts = [
        (_chart(result, number, curves[feature]), curves[feature]) for number, feature in features
    ]
    return {
        "largest": max(result.curves, key=lambda curve: curve.swing, default=None),
        "charts": charts,
    }


def _chart(shapes: Shapes, number: int, curve: AleCurve) -> Chart:
    """Draw a curve and its interval."""
    feature, colour = curve.feature, COLOURS["main"]
    frame = pandas().DataFrame(_points(shapes, curve)).drop(columns="feature")
    tips = ["effect:Q +.4f score", "low:Q +.4f from", "high:Q +.4f to", "documents:Q ,d"]
    y_options = {"title": "score", "scale": alt.Scale(zero=True)}
    if feature in shapes.categories:
        # Draw a point for each category, including the missing values.
        frame["category"] = frame["category"].where(frame["value"].notna(), "missing")
        axis = alt.Axis(labelAngle=-35, labelLimit=110)
        x = alt.X("category:N", title=None, sort=None, axis=axis)
        value_tooltip = alt.Tooltip("category:N", title=feature)
        base = alt.Chart(frame).encode(x=x, tooltip=[value_tooltip, *tooltips(*tips)])
        interval = base.mark_rule(strokeWidth=4, opacity=0.35, color=colour)
        line = base.mark_point(size=60, color=colour)
    else:
        # Missing values have no place on the axis; the caption states their effect.
        frame = frame[frame["value"].notna()].drop(columns="category")
        value_tooltip = alt.Tooltip("value:Q", title=feature, format=".5~g")
        base = alt.Chart(frame).encode(x=_across(curve), tooltip=[value_tooltip, *tooltips(*tips)])
        interval = base.mark_area(opacity=0.25, color=colour)
        line = base.mark_line(point=alt.OverlayMarkDef(size=16))
    slug = re.sub(r"[^a-z0-9]+", "-", feature.lower()).strip("-")[:40] or "feature"
    figure = alt.layer(
        interval.encode(y=alt.Y("low:Q", **y_options), y2="high:Q"),
        line.encode(y=alt.Y("effect:Q", **y_options)),
    )
    return Chart(f"shape-{number}-{slug}", frame, figure.properties(height=_HEIGHT))


def _across(curve: AleCurve) -> Any:
    """Return the horizontal axis of a numeric feature."""
    magnitudes = np.abs(curve.edges[curve.edges != 0.0])
    # SI prefixes for thousands, none for fractions.
    axis: dict[str, Any] = {
        "format": "~s" if magnitudes.max(initial=0.0) >= 1000.0 else ".3~g",
        "tickCount": 5,
    }
    scale = alt.Scale(zero=False, nice=False)
    if magnitudes.size and magnitudes.max() > _SKEWED * np.median(magnitudes):
        linear_up_to = 10.0 ** np.floor(np.log10(np.median(magnitudes)))
        scale, axis["values"] = stretch(linear_up_to, (curve.lowest, curve.highest))
        axis["format"] = "~g"
    return alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(**axis))


@dataclass(frozen=True, eq=False)
class _BinnedValues:
    """Feature values and their intervals.

    Args:
        values: float32[n, c].
        is_missing: bool[n, c].
        edges: interval ends by column.
        intervals: int16[n, c], interval numbers from 1, or 0 for missing values and constant
            columns.
    """

    values: Float32Array
    is_missing: BoolArray
    edges: list[Float64Array]
    intervals: Array

    @classmethod
    def from_values(cls, values: Float32Array, bins: int) -> _BinnedValues:
        """Split each column into at most `bins` intervals."""
        is_missing, edges = np.isnan(values), []
        intervals = np.zeros(values.shape, np.int16)
        for column in range(values.shape[1]):
            missing_rows = is_missing[:, column]
            column_values = values[:, column].astype(np.float64)
            edges.append(_ends(column_values[~missing_rows] + 0.0, bins))
            if edges[column].size > 1:
                interval_numbers = np.maximum(np.searchsorted(edges[column], column_values), 1)
                intervals[:, column] = np.where(missing_rows, 0, interval_numbers)
        return cls(values, is_missing, edges, intervals)


class _LocalEffects(NamedTuple):
    """Changes of scores.

    Args:
        across: float64[n, c], change from the lower to the upper end of the value's interval.
        without_value: float64[n] by column that lacks some values, change when the value is
            removed.
    """

    across: Float64Array
    without_value: dict[int, Float64Array]


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
    binned = _BinnedValues.from_values(rows[: rows.data.n_documents], bins)
    effects = _measure_local_effects(scorer, rows, binned, threads=threads, progress=progress)
    constant = set(rows.constant_within_queries(threads).tolist())
    # Count how often each query is drawn, float64[_RESAMPLES, Q].
    queries, n_queries = rows.data.queries, len(rows.data.queries)
    draws = np.random.default_rng(seed).integers(0, max(1, n_queries), size=(_RESAMPLES, n_queries))
    times = np.array([np.bincount(draw, minlength=n_queries) for draw in draws], dtype=np.float64)
    query_of_row, curves = queries.of_rows(), []
    for column, name in enumerate(names):
        edges, missing_rows = binned.edges[column], binned.is_missing[:, column]
        # Sum and count the local effects per query and interval, without missing values.
        width = max(1, edges.size)
        cell = query_of_row * width + binned.intervals[:, column]
        sums, counts = [
            np.bincount(cell, weights, n_queries * width).reshape(n_queries, width)[:, 1:]
            for weights in (effects.across[:, column], np.ones(cell.size))
        ]
        # Compute the curve, and its bootstrap interval from the redrawn sums.
        documents = counts.sum(axis=0)
        means = _means(sums.sum(axis=0), documents, 0.0)
        drawn_counts = times @ counts
        drawn_curves = _accumulated(_means(times @ sums, drawn_counts, means), drawn_counts)
        (effect,) = _accumulated(means[None], documents[None])
        low, high = np.quantile(drawn_curves, [0.025, 0.975], axis=0)
        missing_effect = math.nan
        if column in effects.without_value:
            missing_effect = float(effects.without_value[column][~missing_rows].mean())
        curves.append(
            AleCurve(
                name,
                edges=edges,
                effect=effect[: edges.size],
                low=low[: edges.size],
                high=high[: edges.size],
                counts=documents.astype(np.int64),
                missing=int(missing_rows.sum()),
                missing_effect=missing_effect,
                query_level=column in constant and width > 1,
            )
        )
    return tuple(curves)


def _ends(present: Float64Array, bins: int) -> Float64Array:
    """Return the interval ends: values that are frequent enough to fill an interval, and quantiles
    of the others.
    """
    values, counts = np.unique(present, return_counts=True)
    if values.size <= bins + 1:
        return values
    is_frequent = np.zeros(values.size, np.bool_)
    while (
        also_frequent := ~is_frequent
        & (counts * (bins - is_frequent.sum()) > counts[~is_frequent].sum())
    ).any():
        is_frequent |= also_frequent
    rare_values = np.repeat(values[~is_frequent], counts[~is_frequent])
    quantile_positions = np.rint(
        np.linspace(0, rare_values.size - 1, bins - is_frequent.sum() + 1)
    ).astype(int)
    return np.unique(np.concatenate([values[is_frequent], rare_values[quantile_positions]]))


def _measure_local_effects(
    scorer: Scorer,
    rows: DenseRows,
    binned: _BinnedValues,
    *,
    threads: int,
    progress: DocumentProgress | None,
) -> _LocalEffects:
    n_documents, n_columns = binned.values.shape
    lacking = np.flatnonzero(binned.is_missing.any(axis=0) & ~binned.is_missing.all(axis=0))
    across = np.zeros((n_documents, n_columns))
    without_value = {int(column): np.zeros(n_documents) for column in lacking}

    def measure_block(queries: slice, documents: slice) -> None:
        values, intervals = binned.values[documents], binned.intervals[documents]
        # Move each value to the ends of its interval.
        lower, upper = values.copy(), values.copy()
        for column in range(n_columns):
            has_interval = intervals[:, column] > 0
            interval_numbers = intervals[has_interval, column]
            lower[has_interval, column] = binned.edges[column][interval_numbers - 1]
            upper[has_interval, column] = binned.edges[column][interval_numbers]
        for batch in in_batches(np.arange(n_columns), values.shape[0]):
            units = units_of(batch, n_columns)
            to_lower, to_upper = [
                scorer.changes(values, moved_rows, units, batch.size)
                for moved_rows in (lower, upper)
            ]
            across[documents, batch] = (to_upper - to_lower).T
        # Remove the values of columns that lack some.
        if lacking.size:
            scores = scorer.scores(values)
            nothing = np.full_like(values, np.nan)
            for batch in in_batches(lacking, values.shape[0]):
                units = units_of(batch, n_columns)
                changed = scorer.changes(values, nothing, units, batch.size)
                for column, changed_scores in zip(batch.tolist(), changed, strict=True):
                    without_value[column][documents] = changed_scores - scores

    over_blocks(measure_block, rows, threads, progress)
    return _LocalEffects(across, without_value)


def _means(
    sums: Float64Array, counts: Float64Array, without_count: Float64Array | float
) -> Float64Array:
    """Return `sums / counts`, or `without_count` where the count is 0."""
    return np.asarray(np.where(counts > 0.0, sums / np.maximum(counts, 1.0), without_count))


def _accumulated(means: Float64Array, counts: Float64Array) -> Float64Array:
    """Accumulate mean local effects, float64[r, K], into centred curves, float64[r, K+1]."""
    curve = np.concatenate([np.zeros((means.shape[0], 1)), np.cumsum(means, axis=1)], axis=1)
    mid_effects = (curve[:, 1:] + curve[:, :-1]) / 2.0
    return np.asarray(
        curve
        - (mid_effects * counts).sum(axis=1, keepdims=True)
        / np.maximum(counts.sum(axis=1), 1)[:, None]
    )


SPEC = Section(
    "shapes",
    "Shapes",
    run=shapes,
    variables=_template_variables,
    position=30,
    after=("importance",),
)
