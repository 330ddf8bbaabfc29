"""Reliability of calibrated scores, which compares predicted and observed grades by prediction and by segment."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from boostrank.model.calibration import Reliability, reliability
from boostrank.model.ranking_model import calibrated_scores
from boostrank.reporting.charts import Chart, alt, tooltips
from boostrank.reporting.result import Result, result_class
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import segmentations

_COLUMNS = ("documents", "predicted", "observed", "low", "high")


@result_class
class Calibration(Result):
    """Result of `calibration`.

    Args:
        bins: reliability of the calibrated scores, by document bin.
        uncalibrated_error: calibration error of the raw scores.
        parts: table with the criterion, the segment, its numbers of queries and documents, the predicted and observed
            value, and the interval of the observed value.
        fitted_here: whether the map was fitted to these data.
    """

    bins: Reliability
    uncalibrated_error: float
    parts: tuple[tuple[Any, ...], ...]
    fitted_here: bool

    TABLES: ClassVar = {"calibration": lambda self: {name: getattr(self.bins, name) for name in _COLUMNS}}


def calibration(c: Context) -> Calibration:
    """Compare calibrated scores with the grades in the data."""
    record, grades, queries, parts = c.model.info.calibration, c.data.labels, c.data.queries, []
    values = calibrated_scores(record, c.scores)
    *cuts, _ = segmentations(c.segments, grades, queries)  # the last one, the best label, is what scores predict
    for cut in cuts:
        for i, name in enumerate(cut.names):
            index, rows = queries.take(np.flatnonzero(cut.of_query == i))
            if rows.size:
                one = reliability(values[rows], grades[rows], index, bins=1, seed=c.seed)
                parts.append((cut.kind, name, len(index), *(getattr(one, column).item() for column in _COLUMNS)))
    bins, raw = (reliability(one, grades, queries, seed=c.seed) for one in (values, c.scores))
    return Calibration(bins, raw.error[0], tuple(parts), record["fingerprint"] == c.data.fingerprint)


def _parts(found: Calibration) -> dict[str, Any]:
    frame = found.to_frame("calibration")
    tips = tooltips("predicted:Q .3f", "observed:Q .3f", "low:Q .3f from", "high:Q .3f to", "documents:Q ,d")
    base = alt.Chart(frame).encode(x=alt.X("predicted:Q", title="predicted mean grade"), tooltip=tips)
    y = alt.Y("predicted:Q", title="observed", scale=alt.Scale(zero=False))
    drawn = alt.layer(
        base.mark_line(strokeDash=[4, 4], strokeWidth=1).encode(y=y),
        base.mark_rule(opacity=0.6).encode(y="low:Q", y2="high:Q"),
        base.mark_point().encode(y="observed:Q"),
    )
    return {"chart": Chart("calibration-reliability", frame, drawn.properties(height=300))}


SPEC = Section(
    "calibration",
    "Calibration",
    calibration,
    _parts,
    place=55,
    after=("learning",),
    applies=lambda c: c.model.info.calibration is not None,
)
