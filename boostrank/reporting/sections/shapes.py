"""Feature shapes, shown by accumulated local effects.

Source: D. W. Apley, J. Zhu, "Visualizing the effects of predictor variables in black box supervised
learning models", JRSS B 82 (2020), equations 15 and 16. A feature's values are split into intervals
with about equal counts. The local effect for a document is the change of its score from the lower
to the upper end of its interval, with all other features fixed. The curve accumulates the mean
local effects from left to right. Unlike partial dependence, it never moves a feature far from its
own value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import DataError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.kernels.forest import Walker
from boostrank.reporting.html import Chart, alt, lines
from boostrank.reporting.result import Result
from boostrank.reporting.section import Context, Section
from boostrank.reporting.table import Table, table_of_rows

# Limit on documents times trees, about ten seconds on two cores.
_WALKS = 30_000_000
# More documents would not change a curve visibly.
_MOST_DOCUMENTS, _MOST_NUMBERS = 20_000, 20_000_000


@dataclass(frozen=True, eq=False)
class AleCurve:
    """The accumulated local effects of one feature.

    Args:
        edges: float64[K+1], interval ends in ascending order. They are values that occur in the
            data.
        effect: float64[K+1], effect at each edge, centred over the documents with a value. It is
            linear within intervals, as in the authors' R package ALEPlot.
        counts: int64[K], number of documents per interval. Intervals include their upper end, and
            the first interval also includes its lower end.
    """

    feature: str
    edges: Float64Array
    effect: Float64Array
    counts: Int64Array

    @property
    def swing(self) -> float:
        """The range of the curve, in score units."""
        return float(np.ptp(self.effect))


class Shapes(Result):
    """Result of `shapes`.

    Args:
        curves: accumulated local effects of the most important features, without categorical
            features, whose codes have no order, and features with one value.
        documents, queries: numbers of documents and queries in the sample.
        all_documents: number of documents in the data.
    """

    curves: tuple[AleCurve, ...]
    documents: int
    all_documents: int
    queries: int

    def tables(self) -> tuple[Table, ...]:
        """Return a row for each edge of each curve, with the number of documents in the interval
        that ends there.
        """
        rows = [
            {"feature": curve.feature, "value": value, "effect": effect, "documents": documents}
            for curve in self.curves
            for value, effect, documents in zip(
                curve.edges.tolist(),
                curve.effect.tolist(),
                [0, *curve.counts.tolist()],
                strict=True,
            )
        ]
        return (table_of_rows("curves", rows),)


def shapes(context: Context, *, top: int = 8, bins: int = 32) -> Shapes:
    """Measure how scores depend on the most important features, without using labels.

    The curves are measured on a sample of whole queries, which limits the work to about ten seconds
    on two cores.

    Args:
        top: number of features, the first ones of `importance` or else those with the largest gain.
        bins: number of intervals per curve, at least 1.
    """
    model, data, trees = context.model, context.data, context.trees
    if not data.n_documents:
        raise DataError("the data has no documents")
    importance = context.results.get("importance")
    order = np.argsort(-trees.gain, kind="stable") if importance is None else importance.order
    columns = [
        i
        for i in order.tolist()
        if i in trees.used and model.feature_names[i] not in model.categories
    ]
    # Each document of the sample is walked about three times.
    affordable = min(_WALKS // (3 * max(1, trees.count)), _MOST_NUMBERS // max(1, trees.used.size))
    sample = data.sample(max(1, min(affordable, _MOST_DOCUMENTS)), context.seed)
    rows, positions = context.rows_of(sample), np.searchsorted(trees.used, columns[:top])
    curves = accumulated_local_effects(
        context, context.make_walker(), rows, positions.tolist(), bins=bins
    )
    return Shapes(
        curves=tuple(curve for curve in curves if curve.edges.size > 1),
        documents=sample.n_documents,
        all_documents=data.n_documents,
        queries=len(sample.queries),
    )


def accumulated_local_effects(
    context: Context, walker: Walker, rows: DenseRows, positions: Sequence[int], *, bins: int
) -> list[AleCurve]:
    """Return the accumulated local effects of the columns at these positions in the rows."""
    values = rows[: rows.data.n_documents]
    # Split each column into intervals from 1, and move each value to the ends of its interval.
    lower, upper = values.copy(), values.copy()
    unit_of_column = np.full(rows.columns.size, -1, np.int64)
    edges, intervals = [], np.zeros((len(positions), len(values)), np.int64)
    for unit, column in enumerate(positions):
        unit_of_column[column] = unit
        has_value = ~np.isnan(values[:, column])
        present = values[has_value, column].astype(np.float64) + 0.0
        ends = _ends(present, bins)
        edges.append(ends)
        if ends.size > 1:
            interval = np.maximum(np.searchsorted(ends, present), 1)
            intervals[unit, has_value] = interval
            lower[has_value, column], upper[has_value, column] = ends[interval - 1], ends[interval]
    # Measure the change of each score from the lower to the upper end.
    across = np.zeros(intervals.shape)

    def measure_block(queries: slice, documents: slice) -> None:
        for moved, sign in ((lower, -1.0), (upper, 1.0)):
            block = values[documents], moved[documents]
            across[:, documents] += sign * walker.changes(*block, unit_of_column, len(positions))

    context.over_blocks(measure_block, rows, "local effects")
    # Accumulate the mean change of each interval, and centre the curve over the documents.
    curves = []
    for unit, column in enumerate(positions):
        counts = np.bincount(intervals[unit], minlength=edges[unit].size)[1:]
        sums = np.bincount(intervals[unit], across[unit], counts.size + 1)[1:]
        curve = np.append(0.0, np.cumsum(sums / np.maximum(counts, 1)))
        level = (curve[1:] + curve[:-1]) / 2.0 @ counts / max(counts.sum(), 1)
        name = rows.data.feature_names[rows.columns[column]]
        curves.append(AleCurve(name, edges[unit], effect=curve - level, counts=counts))
    return curves


def _ends(present: Float64Array, bins: int) -> Float64Array:
    """Return the interval ends: all values if they are few, otherwise the values that are frequent
    enough to fill an interval, and quantiles of the others.
    """
    values, counts = np.unique(present, return_counts=True)
    if values.size <= bins + 1:
        return values
    is_frequent = counts * bins > present.size
    rare_values = np.repeat(values[~is_frequent], counts[~is_frequent])
    shares = np.linspace(0.0, 1.0, bins + 1 - is_frequent.sum())
    quantiles = np.quantile(rare_values, shares, method="nearest")
    return np.union1d(values[is_frequent], quantiles)


def _template_variables(result: Shapes) -> dict[str, Any]:
    frame = result.to_frame()
    charts = [
        _chart(f"shape-{number}", frame[frame["feature"] == curve.feature])
        for number, curve in enumerate(result.curves, 1)
    ]
    return {
        "largest": max(result.curves, key=lambda curve: curve.swing, default=None),
        "charts": list(zip(charts, result.curves, strict=True)),
    }


def _chart(name: str, frame: Any) -> Chart:
    # Space the edges evenly, because intervals of skewed values differ much in width.
    labels = {"labelAngle": 0, "labelOverlap": True, "labelSeparation": 10}
    axis = alt.Axis(format=",.3~r", formatType="number", **labels)
    x = alt.X("value:O", title=None, axis=axis)
    return Chart(name, frame, lines(frame, x, "effect", height=220, title="score"))


SPEC = Section(
    "shapes",
    "Shapes",
    run=shapes,
    variables=_template_variables,
    position=30,
    after=("importance",),
)
