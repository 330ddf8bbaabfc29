"""Clicks on the data, with position propensities and a comparison with another ranker by clicks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.clicks.estimation import (
    NONSENSE,
    CurveCheck,
    check_propensities,
    estimate_propensities,
)
from boostrank.clicks.gate import ClickGate, Judged, gate, moved_share, shown_at_the_top
from boostrank.clicks.log import PRIOR, ClickLog, Propensities
from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.charts import Chart, alt, lines, whole_numbers
from boostrank.reporting.html import look_of
from boostrank.reporting.result import Result
from boostrank.reporting.scoring import START
from boostrank.reporting.section import Context, Section
from boostrank.reporting.table import Column, Data, Table, pandas

TOP = 10
"""The number of top ranks over which rankers are compared."""

_MOST_PRIOR = 2**53


@dataclass(frozen=True)
class Against:
    """The comparison of the model with another ranker by clicks.

    Args:
        gate: result of the comparison, or None if the clicks cannot compare the rankers.
        reason: reason why there is no result, or "".
    """

    name: str
    gate: ClickGate | None
    reason: str

    @property
    def verdict(self) -> str:
        """The verdict "better", "worse" or "unclear", or "" without a result."""
        if self.gate is None:
            return ""
        return look_of(self.gate.difference.low, self.gate.difference.high) or "unclear"


class ClickData(Result):
    """Result of `click_data`.

    Args:
        documents, shown, clicked: numbers of all documents, of shown documents and of clicked
            documents.
        impressions, clicks: total numbers of impressions and clicks.
        moved: share of clicked documents that were shown at several positions.
        propensities: examination propensities by position.
        origin: source of the propensities, which is "log", "given" or "model" (the model's
            training).
        check: test of propensities from another source than this log, or None if the log cannot
            test them.
        positions: table of the positions that have impressions, with the 95% interval of
            `propensity`.
        prior: exposure added to each document.
        top_shown: share of documents at the model's top ranks that were ever shown.
        against: comparison with another ranker, or None without another ranker.
    """

    documents: int
    shown: int
    clicked: int
    impressions: int
    clicks: int
    moved: float
    propensities: Propensities
    origin: str
    check: CurveCheck | None
    positions: Data
    prior: float
    top_shown: float
    against: Against | None
    notes: tuple[str, ...] = ()

    HIDDEN = ("positions",)

    def tables(self) -> tuple[Table, ...]:
        """Return the positions."""
        return (propensity_table("click positions", self.positions),)


def propensity_table(name: str, positions: Data) -> Table:
    """Return a table of the columns `position`, `propensity`, `low` and `high`, and possibly of
    clicks.
    """
    help = "probability of examination relative to position 1"
    columns = (
        "position #",
        "impressions #",
        "clicks #",
        "rate .3f clicks per impression",
        Column("propensity", format=".3f", help=help, ends=("low", "high")),
    )
    return Table(name, positions, columns)


def click_data(c: Context) -> ClickData:
    """Analyse clicks on the documents that a model ranks."""
    data, log, scores = c.data, c.clicks, c.scores
    if log is None:
        raise DataError("there is no click log; --clicks reads FILE.clicks next to the data")
    if data.n_documents != log.n_documents:
        raise DataError(
            f"the click log has {log.n_documents:,} documents, but the data has"
            f" {data.n_documents:,}"
        )
    if not log.clicks.any():
        raise DataError("the click log has no clicks")
    previous = c.previous or (None if c.start is None else (START, c.start))
    learnt, prior = learnt_from(c.model)
    # Number the log's rows like the rows of the data set.
    rows = log.renumbered(data.in_input_order(np.arange(data.n_documents)))
    curve, origin, check = _curve(rows, data.queries, c.propensities, learnt)
    with warnings.catch_warnings():  # a note reports positions without a propensity
        warnings.simplefilter("ignore", DataWarning)
        used, against = rows.up_to(curve), None
        if previous is not None:
            name, before = previous
            old = data.in_input_order(np.asarray(before, np.float64))
            judged = Judged(data, log, curve, old, data.in_input_order(scores))
            try:
                against = Against(name, gate(judged, k=TOP, seed=c.seed), "")
            except BoostrankError as error:
                against = Against(name, None, str(error))
    if not used.clicks.any():
        raise DataError("all clicks of the log are at positions without a propensity")
    return ClickData(
        documents=data.n_documents,
        shown=int(log.shown.sum()),
        clicked=int((log.total_clicks() > 0).sum()),
        impressions=int(log.impressions.sum()),
        clicks=int(log.clicks.sum()),
        moved=moved_share(log),
        propensities=curve,
        origin=origin,
        check=check,
        positions=_positions(log, curve),
        prior=prior,
        top_shown=float(shown_at_the_top(data, log, scores, TOP).mean()),
        against=against,
        notes=tuple(_notes(log, used, curve)),
    )


def learnt_from(model: RankingModel) -> tuple[Propensities | None, float]:
    """Return the propensities and the prior from a model's training, or None and the default prior
    without a record.
    """
    record: Any = model.info.get("data")
    for key in ("reader", "clicks"):
        record = record.get(key) if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping):
        return None, PRIOR
    prior: Any = record.get("prior")
    if not isinstance(prior, int | float) or not 0 <= prior < _MOST_PRIOR:
        prior = PRIOR
    try:
        return Propensities.from_dict(record.get("propensities")), float(prior)
    except (ValueError, RecursionError):
        return None, float(prior)


def _curve(
    rows: ClickLog, queries: QueryIndex, requested: Propensities | None, learnt: Propensities | None
) -> tuple[Propensities, str, CurveCheck | None]:
    """Return the propensities to use, their origin, and their test against the logged clicks."""
    if requested is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # a note reports wide intervals
                return estimate_propensities(rows, queries), "log", None
        except DataError:
            if learnt is None:
                raise
    curve = requested or learnt
    assert curve is not None
    try:
        check = check_propensities(rows, curve, queries)
    except (
        DataError,
        ParameterError,
    ):  # no document moved, or clicks at all positions were excluded
        check = None
    origin = "model" if requested is None else "given"
    return curve, origin, check


def propensities_by_position(curve: Propensities) -> Data:
    """Return the propensities of positions 1, 2, ... with their 95% intervals, float64[P] each."""
    value = curve.examination
    width = np.full(value.size, np.nan)
    if curve.errors is not None:
        width = np.exp(1.96 * curve.errors)
    return {"propensity": value, "low": value / width, "high": value * width}


def _positions(log: ClickLog, curve: Propensities) -> Data:
    impressions, clicks = [
        np.bincount(log.positions - 1, counts, log.depth).astype(int)
        for counts in (log.impressions, log.clicks)
    ]
    used, unknown = np.flatnonzero(impressions), np.full(log.depth, np.nan)
    data: Data = {"position": used + 1, "impressions": impressions[used], "clicks": clicks[used]}
    data["rate"] = data["clicks"] / data["impressions"]
    propensities = propensities_by_position(curve).items()
    return data | {name: np.append(values, unknown)[used] for name, values in propensities}


def _notes(log: ClickLog, used: ClickLog, curve: Propensities) -> list[str]:
    notes, all_of_them = [], int(log.impressions.sum())
    lost = all_of_them - int(used.impressions.sum())
    if lost:
        notes.append(
            f"{lost:,} of {all_of_them:,} impressions are ignored, as their positions have no"
            " propensity."
        )
    vague = 0 if curve.errors is None else int((curve.errors > NONSENSE).sum())
    if vague:
        notes.append(
            f"The propensities of {vague:,} positions are unreliable, with an uncertainty of a"
            " factor of 2.7 or more."
        )
    return notes


def _parts(result: ClickData) -> dict[str, Any]:
    return {
        "top": TOP,
        "depths": len(result.positions["position"]),
        "curve": curve_chart(result.positions),
    }


def curve_chart(positions: Data) -> Chart:
    """Draw the propensities and their intervals over positions, on a logarithmic scale."""
    frame = pandas().DataFrame(positions)
    # Clip very wide intervals, which would squeeze the curve.
    values = frame["propensity"]
    low = np.fmin(values.min(), max(frame["low"].min(), values.min() / 3.0))
    high = np.fmax(values.max(), min(frame["high"].max(), max(values.max(), 1.0) * 3.0))
    domain = [float(low / 1.1), float(high * 1.1)]
    along = alt.Scale(nice=False, zero=False, padding=12)
    x = alt.X("position:Q", axis=whole_numbers(), scale=along)
    y = {
        "title": "examined, relative to position 1",
        "scale": alt.Scale(type="log", domain=domain, clamp=True, nice=False),
        "axis": alt.Axis(format="~g", tickCount=6),
    }
    interval = ("low:Q .3f from", "high:Q .3f to")
    tips = ("position:Q d", "propensity:Q .3f", *interval, "rate:Q .3f clicks per impression")
    figure = lines(frame, x, "propensity", tips, band=("low", "high"), height=280, **y)
    return Chart("clicks-propensities", frame, figure)


SPEC = Section(
    "clicks",
    "Clicks",
    click_data,
    _parts,
    position=60,
    after=("learning",),
    applies=lambda c: c.clicks is not None,
)
