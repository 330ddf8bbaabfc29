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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import DataError
from boostrank.core.resampling import resampled_sums
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.kernels.forest import Walker
from boostrank.reporting.html import Chart, alt, lines, row_chart
from boostrank.reporting.result import Result
from boostrank.reporting.scoring import changed_scores
from boostrank.reporting.section import Context, Section
from boostrank.reporting.table import Data, Table, import_extra, table_of_rows

# Limit on documents times trees, about ten seconds on two cores.
_WALKS = 30_000_000
# More documents would not change a curve visibly.
_MOST_DOCUMENTS, _MOST_NUMBERS = 20_000, 20_000_000
_RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class AleCurve:
    """The accumulated local effects of one feature, with pointwise 95% bootstrap intervals over
    queries.

    Args:
        edges: float64[K+1], interval ends in ascending order. They are values that occur in the
            data. A constant feature has one edge or none.
        effect: float64[K+1], effect at each edge, centred over the documents with a value. It is
            linear within intervals, as in the authors' R package ALEPlot.
        low, high: float64[K+1], interval of `effect`.
        counts: int64[K], number of documents per interval. Intervals include their upper end, and
            the first interval also includes its lower end.
        missing: number of documents without a value.
        query_level: whether the feature is constant within every query, so that it ranks no
            documents by itself.
        categories: names of the codes 0, 1, ... of a categorical feature, or None. Codes are in an
            arbitrary order, so the shape of their curve has no meaning.
    """

    feature: str
    edges: Float64Array
    effect: Float64Array
    low: Float64Array
    high: Float64Array
    counts: Int64Array
    missing: int
    query_level: bool
    categories: tuple[str, ...] | None = None

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
    def direction(self) -> str | None:
        """The direction of the curve in words, or None for categories. A curve rises or falls if at
        least 90% of its variation does.
        """
        if self.categories is not None:
            return None
        if math.isnan(self.rising):
            return "flat"
        if self.rising > 0.9:
            return "rises"
        return "falls" if self.rising < 0.1 else "rises and falls"

    @property
    def documents(self) -> int:
        """The number of documents with a value."""
        return int(self.counts.sum())

    @property
    def share_missing(self) -> float | None:
        """The share of documents without a value, or None if none is missing."""
        return self.missing / (self.documents + self.missing) if self.missing else None

    def summarise(self) -> Data:
        """Return the row of the feature. Its lowest and highest value are None without values or
        for categories.
        """
        lowest = highest = None
        if self.categories is None and self.edges.size:
            lowest, highest = float(self.edges[0]), float(self.edges[-1])
        return {
            "feature": self.feature,
            "direction": self.direction,
            "swing": self.swing,
            "rising": self.rising,
            "lowest": lowest,
            "highest": highest,
            "documents": self.documents,
            "missing": self.missing,
            "share_missing": self.share_missing,
            "query_level": self.query_level,
        }

    def list_points(self) -> Data:
        """Return a row for each edge, with the number of documents in the interval that ends
        there.
        """
        size = self.edges.size
        return {
            "feature": np.full(size, self.feature, object),
            "value": self.edges,
            "effect": self.effect,
            "low": self.low,
            "high": self.high,
            "documents": [0, *self.counts.tolist()][:size],
            "category": np.array(list(map(self._category, self.edges.tolist())), object),
        }

    def _category(self, code: float) -> str | None:
        if self.categories is None:
            return None
        is_known = 0.0 <= code < len(self.categories)
        return self.categories[int(code)] if is_known else f"{code:g}"


class Shapes(Result):
    """Result of `shapes`.

    Args:
        top: names of the features that have a chart.
        curves: accumulated local effects of every feature in the trees, first those of `top`, then
            by `swing`.
        documents, queries: numbers of documents and queries in the sample.
        all_documents: number of documents in the data.
    """

    top: tuple[str, ...]
    curves: tuple[AleCurve, ...]
    documents: int
    all_documents: int
    queries: int

    def tables(self) -> tuple[Table, ...]:
        """Return the curves and the features."""
        columns = (
            "feature",
            "direction | of at least 90% of the curve's movement",
            "swing .4f | range of the curve, in score units",
            "lowest .5g from",
            "highest .5g to",
            "share_missing .1% missing | share of documents without a value",
        )
        features = [curve.summarise() for curve in self.curves]
        points = [curve.list_points() for curve in self.curves]
        names = points[0] if points else ()
        curves = {name: np.concatenate([part[name] for part in points]) for name in names}
        return Table("curves", curves), table_of_rows("features", features, columns)


def shapes(
    context: Context, *, top: int = 8, bins: int = 32, documents: int | None = None
) -> Shapes:
    """Measure how scores depend on each feature, without using labels.

    Args:
        top: number of features to show, the first ones of `importance` or else those with the
            largest gain.
        bins: maximum number of intervals per curve, at least 1.
        documents: number of documents in the sample for curves, which consists of whole queries.
            None limits the work to about ten seconds on two cores, with at most 20,000 documents.
    """
    model, data = context.model, context.data
    if not data.n_documents:
        raise DataError("the data has no documents")
    trees = context.trees
    # Use the feature names in the data, because a booster may only number its columns.
    columns = data.feature_names
    importance = context.results.get("importance")
    order = np.argsort(-trees.gain, kind="stable") if importance is None else importance.order
    top_features = tuple(columns[i] for i in order.tolist() if i in trees.used)[:top]
    # Measure the curves on a sample, in which each document is walked about three times.
    affordable = min(_WALKS // (3 * max(1, trees.count)), _MOST_NUMBERS // max(1, trees.used.size))
    sample = data.sample(documents or max(1, min(affordable, _MOST_DOCUMENTS)), context.seed)
    curves = accumulated_local_effects(
        context, context.make_walker(), context.rows_of(sample), bins=bins
    )
    # Name the categories, and sort the curves.
    for i, column in enumerate(trees.used.tolist()):
        categories = model.categories.get(model.feature_names[column])
        if categories is not None:
            curves[i] = replace(curves[i], categories=tuple(map(str, categories.values or ())))
    position = {name: i for i, name in enumerate(top_features)}
    curves.sort(key=lambda curve: (position.get(curve.feature, top), -curve.swing))
    return Shapes(
        top=top_features,
        curves=tuple(curves),
        documents=sample.n_documents,
        all_documents=data.n_documents,
        queries=len(sample.queries),
    )


def _template_variables(result: Shapes) -> dict[str, Any]:
    curves = result.curves[: len(result.top)]
    return {
        "largest": max(result.curves, key=lambda curve: curve.swing, default=None),
        "charts": [(_chart(curve, number), curve) for number, curve in enumerate(curves, 1)],
    }


def _chart(curve: AleCurve, number: int) -> Chart:
    """Draw a curve and its interval, or a row for each category."""
    name, frame = f"shape-{number}", import_extra("pandas").DataFrame(curve.list_points())
    tips = ["effect:Q +.4f score", "low:Q +.4f from", "high:Q +.4f to", "documents:Q ,d"]
    if curve.categories is not None:
        tips = ["category:N", *tips]
        return row_chart(name, frame, tips, title="score", value="effect")
    frame = frame.drop(columns="category")
    tips = [f"value:Q .5~g {curve.feature}", *tips]
    # Space the edges evenly, because intervals of skewed values differ much in width.
    labels = {"labelAngle": 0, "labelOverlap": True, "labelSeparation": 10}
    axis = alt.Axis(format=",.3~r", formatType="number", **labels)
    x = alt.X("value:O", title=None, axis=axis)
    figure = lines(frame, x, "effect", tips, height=220, title="score")
    return Chart(name, frame, figure)


def accumulated_local_effects(
    context: Context, walker: Walker, rows: DenseRows, *, bins: int
) -> list[AleCurve]:
    """Return the accumulated local effects of each column, with at most `bins` intervals."""
    names = [rows.data.feature_names[column] for column in rows.columns]
    values = rows[: rows.data.n_documents]
    # Split each column into intervals from 1, and move each value to the ends of its interval.
    lower, upper, edges = values.copy(), values.copy(), []
    intervals = np.zeros(values.shape, np.int16)
    for column in range(len(names)):
        has_value = ~np.isnan(values[:, column])
        present = values[has_value, column].astype(np.float64) + 0.0
        ends = _ends(present, bins)
        edges.append(ends)
        if ends.size > 1:
            interval = np.maximum(np.searchsorted(ends, present), 1)
            intervals[has_value, column] = interval
            lower[has_value, column], upper[has_value, column] = ends[interval - 1], ends[interval]
    # Measure the change of each score from the lower to the upper end.
    across, columns = np.zeros(values.shape), np.arange(len(names))

    def measure_block(queries: slice, documents: slice) -> None:
        for moved, sign in ((lower, -1.0), (upper, 1.0)):
            block = values[documents], moved[documents]
            for column, scores in changed_scores(walker, *block, columns, columns.size):
                across[documents, column] += sign * scores

    context.over_blocks(measure_block, rows, "local effects")
    # Sum and count the changes per query and interval, and accumulate the means.
    constant = rows.constant_within_queries(context.workers)
    queries, query_of_row, curves = len(rows.data.queries), rows.data.queries.of_rows(), []
    for column, name in enumerate(names):
        size = edges[column].size
        width = max(1, size)
        cell = query_of_row * width + intervals[:, column]
        sums, counts = [
            np.bincount(cell, weights, queries * width).reshape(queries, width)[:, 1:]
            for weights in (across[:, column], np.ones(cell.size))
        ]
        documents = counts.sum(axis=0)
        means = sums.sum(axis=0) / np.maximum(documents, 1.0)
        (effect,) = _accumulate(means[None], documents[None])
        # Repeat this for redrawn queries. Intervals without documents keep their mean.
        drawn = resampled_sums(np.hstack([sums, counts]), resamples=_RESAMPLES, seed=context.seed)
        drawn_sums, drawn_counts = np.split(drawn, 2, axis=1)
        drawn_means = drawn_sums / np.maximum(drawn_counts, 1.0)
        drawn_means = np.where(drawn_counts > 0.0, drawn_means, means)
        low, high = np.quantile(_accumulate(drawn_means, drawn_counts), [0.025, 0.975], axis=0)
        curves.append(
            AleCurve(
                name,
                edges=edges[column],
                effect=effect[:size],
                low=low[:size],
                high=high[:size],
                counts=documents.astype(np.int64),
                missing=int(np.isnan(values[:, column]).sum()),
                query_level=column in constant and size > 1,
            )
        )
    return curves


def _ends(present: Float64Array, bins: int) -> Float64Array:
    """Return the interval ends: values that are frequent enough to fill an interval, and quantiles
    of the others.
    """
    values, counts = np.unique(present, return_counts=True)
    if values.size <= bins + 1:
        return values
    is_frequent = np.zeros(values.size, np.bool_)
    while True:
        left = bins - is_frequent.sum()
        fills_interval = ~is_frequent & (counts * left > counts[~is_frequent].sum())
        if not fills_interval.any():
            break
        is_frequent |= fills_interval
    rare_values = np.repeat(values[~is_frequent], counts[~is_frequent])
    positions = np.rint(np.linspace(0, rare_values.size - 1, left + 1)).astype(int)
    return np.unique(np.concatenate([values[is_frequent], rare_values[positions]]))


def _accumulate(means: Float64Array, counts: Float64Array) -> Float64Array:
    """Accumulate mean local effects, float64[r, K], into centred curves, float64[r, K+1]."""
    curve = np.concatenate([np.zeros((means.shape[0], 1)), np.cumsum(means, axis=1)], axis=1)
    mid_effects = (curve[:, 1:] + curve[:, :-1]) / 2.0
    total = (mid_effects * counts).sum(axis=1, keepdims=True)
    return np.asarray(curve - total / np.maximum(counts.sum(axis=1), 1)[:, None])


SPEC = Section(
    "shapes",
    "Shapes",
    run=shapes,
    variables=_template_variables,
    position=30,
    after=("importance",),
)
