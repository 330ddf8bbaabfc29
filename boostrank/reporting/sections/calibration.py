"""Reliability of calibrated scores, which compares predicted and observed grades by prediction and
by segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.model.calibration import Reliability, reliability
from boostrank.model.ranking_model import calibrated_scores
from boostrank.reporting.html import Chart, alt, lines
from boostrank.reporting.result import Result
from boostrank.reporting.section import Context, Section
from boostrank.reporting.table import Table, table_of_rows

_COLUMNS = ("documents", "predicted", "observed", "low", "high")


class Calibration(Result):
    """Result of `calibration`.

    Args:
        bins: reliability of the calibrated scores, by document bin.
        uncalibrated_error: calibration error of the raw scores.
        parts: row of each segment: the criterion, its name, its numbers of queries and documents,
            the predicted and observed value, and the interval of the observed value.
        fitted_here: whether the map was fitted to these data.
    """

    bins: Reliability
    uncalibrated_error: float
    parts: Sequence[Mapping[str, Any]]
    fitted_here: bool

    HIDDEN = ("parts",)

    def tables(self) -> tuple[Table, ...]:
        """Return the reliability by bin and by segment."""
        number_columns = (
            "documents #",
            "predicted .3f",
            "observed .3f [low high]",
        )
        bins = {name: getattr(self.bins, name) for name in _COLUMNS}
        groups = ("by", "part", "queries #")
        return Table("calibration", bins, number_columns), table_of_rows(
            "calibration-parts", self.parts, (*groups, *number_columns)
        )


def calibration(context: Context) -> Calibration:
    """Compare calibrated scores with the grades in the data."""
    record = context.model.info.calibration
    grades = context.data.labels
    queries = context.data.queries
    values = calibrated_scores(record, context.scores)
    # The last segmentation, the best label, is what scores predict.
    rows = []
    for cut in context.cuts[:-1]:
        for name, is_included in cut.split(queries.sizes > 0):
            part, documents = queries.take(np.flatnonzero(is_included))
            measured = reliability(
                values[documents], grades[documents], part, bins=1, seed=context.seed
            )
            row = {"by": cut.kind, "part": name, "queries": len(part)}
            rows.append(row | {column: getattr(measured, column)[0] for column in _COLUMNS})
    return Calibration(
        bins=reliability(values, grades, queries, seed=context.seed),
        uncalibrated_error=reliability(context.scores, grades, queries, seed=context.seed).error[0],
        parts=rows,
        fitted_here=record["fingerprint"] == context.data.fingerprint,
    )


def _template_variables(result: Calibration) -> dict[str, Any]:
    frame = result.to_frame()
    x, scale = alt.X("predicted:Q", title="predicted mean grade"), alt.Scale(zero=False)
    figure = lines(frame, x, "observed", title="observed", scale=scale)
    figure += alt.Chart(frame).mark_line(strokeDash=[4, 4]).encode(x=x, y="predicted:Q")
    return {"chart": Chart("calibration-reliability", frame, figure)}


SPEC = Section(
    "calibration",
    "Calibration",
    run=calibration,
    variables=_template_variables,
    position=55,
    after=("learning",),
    applies=lambda context: context.model.info.calibration is not None,
)
