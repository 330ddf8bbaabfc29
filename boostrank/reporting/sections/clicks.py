"""Clicks on the data, with position propensities."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from boostrank.clicks.estimation import estimate_propensities
from boostrank.clicks.gate import moved_share, shown_at_the_top
from boostrank.clicks.log import PRIOR, ClickLog, Propensities
from boostrank.core.errors import DataError, DataWarning
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.html import Chart, alt, lines, whole_numbers
from boostrank.reporting.result import Result
from boostrank.reporting.section import Context, Section
from boostrank.reporting.table import Data, Table, import_extra

TOP = 10
"""The number of top ranks whose documents are looked up in the log."""

_MOST_PRIOR = 2**53


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
        positions: table of the positions that have impressions, with the 95% interval of
            `propensity`.
        prior: exposure added to each document.
        top_shown: share of documents at the model's top ranks that were ever shown.
    """

    documents: int
    shown: int
    clicked: int
    impressions: int
    clicks: int
    moved: float
    propensities: Propensities
    origin: str
    positions: Data
    prior: float
    top_shown: float
    notes: tuple[str, ...]

    HIDDEN = ("positions",)

    def tables(self) -> tuple[Table, ...]:
        """Return the positions."""
        return (propensity_table("click positions", self.positions),)


def propensity_table(name: str, positions: Data) -> Table:
    """Return a table of the columns `position`, `propensity`, `low` and `high`, and possibly of
    clicks.
    """
    columns = (
        "position #",
        "impressions #",
        "clicks #",
        "rate .3f clicks per impression",
        "propensity .3f [low high] | probability of examination relative to position 1",
    )
    return Table(name, positions, columns)


def click_data(context: Context) -> ClickData:
    """Analyse clicks on the documents that a model ranks."""
    data, log, scores = context.data, context.clicks, context.scores
    if log is None:
        raise DataError("there is no click log; --clicks reads FILE.clicks next to the data")
    if data.n_documents != log.n_documents:
        raise DataError(
            f"the click log has {log.n_documents:,} documents, but the data has"
            f" {data.n_documents:,}"
        )
    if not log.clicks.any():
        raise DataError("the click log has no clicks")
    trained = read_trained_clicks(context.model)
    # Number the log's rows like the rows of the data set.
    data_log = log.renumbered(data.in_input_order(np.arange(data.n_documents)))
    propensities, origin = context.propensities, "given"
    if propensities is None:
        try:
            propensities, origin = estimate_propensities(data_log, data.queries), "log"
        except DataError:
            if trained.propensities is None:
                raise
            propensities, origin = trained.propensities, "model"
    notes = []
    with warnings.catch_warnings():  # a note reports positions without a propensity
        warnings.simplefilter("ignore", DataWarning)
        usable_log = data_log.up_to(propensities)
    if not usable_log.clicks.any():
        raise DataError("all clicks of the log are at positions without a propensity")
    impressions = int(log.impressions.sum())
    ignored = impressions - int(usable_log.impressions.sum())
    if ignored:
        notes.append(
            f"{ignored:,} of {impressions:,} impressions are ignored, as their positions have no"
            " propensity."
        )
    return ClickData(
        documents=data.n_documents,
        shown=int(log.shown.sum()),
        clicked=int((log.total_clicks() > 0).sum()),
        impressions=impressions,
        clicks=int(log.clicks.sum()),
        moved=moved_share(log),
        propensities=propensities,
        origin=origin,
        positions=_positions(log, propensities),
        prior=trained.prior,
        top_shown=float(shown_at_the_top(data, log, scores, TOP).mean()),
        notes=tuple(notes),
    )


class TrainedClicks(NamedTuple):
    """What the training on clicks used: its propensities, or None without a record, and the prior
    exposure of each document.
    """

    propensities: Propensities | None
    prior: float


def read_trained_clicks(model: RankingModel) -> TrainedClicks:
    """Return what the record of a model's training has, or the default prior."""
    record: Any = model.info.get("data")
    for key in ("reader", "clicks"):
        record = record.get(key) if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping):
        return TrainedClicks(None, PRIOR)
    prior: Any = record.get("prior")
    if not isinstance(prior, int | float) or not 0 <= prior < _MOST_PRIOR:
        prior = PRIOR
    propensities = None
    with suppress(ValueError, RecursionError):
        propensities = Propensities.from_dict(record.get("propensities"))
    return TrainedClicks(propensities, float(prior))


def propensities_by_position(propensities: Propensities) -> Data:
    """Return the propensities of positions 1, 2, ... with their 95% intervals, float64[P] each."""
    examination = propensities.examination
    factor = np.full(examination.size, np.nan)
    if propensities.errors is not None:
        factor = np.exp(1.96 * propensities.errors)
    return {"propensity": examination, "low": examination / factor, "high": examination * factor}


def _positions(log: ClickLog, curve: Propensities) -> Data:
    impressions, clicks = [
        np.bincount(log.positions - 1, row_counts, log.depth).astype(int)
        for row_counts in (log.impressions, log.clicks)
    ]
    displayed, unknown = np.flatnonzero(impressions), np.full(log.depth, np.nan)
    data: Data = {
        "position": displayed + 1,
        "impressions": impressions[displayed],
        "clicks": clicks[displayed],
    }
    data["rate"] = data["clicks"] / data["impressions"]
    propensities = propensities_by_position(curve).items()
    return data | {name: np.append(values, unknown)[displayed] for name, values in propensities}


def _template_variables(result: ClickData) -> dict[str, Any]:
    return {
        "top": TOP,
        "curve": curve_chart(result.positions),
    }


def curve_chart(positions: Data) -> Chart:
    """Draw the propensities and their intervals over positions, on a logarithmic scale."""
    frame = import_extra("pandas").DataFrame(positions)
    # Clip very wide intervals, which would squeeze the curve.
    propensities = frame["propensity"]
    low = np.fmax(frame["low"].min(), propensities.min() / 3.0)
    high = np.fmin(frame["high"].max(), propensities.max() * 3.0)
    domain = [float(low / 1.1), float(high * 1.1)]
    x = alt.X("position:Q", axis=whole_numbers(), scale=alt.Scale(nice=False, zero=False))
    y_options = {
        "title": "examined, relative to position 1",
        "scale": alt.Scale(type="log", domain=domain, clamp=True, nice=False),
        "axis": alt.Axis(format="~g", tickCount=6),
    }
    figure = lines(frame, x, "propensity", height=280, **y_options)
    return Chart("clicks-propensities", frame, figure)


SPEC = Section(
    "clicks",
    "Clicks",
    run=click_data,
    variables=_template_variables,
    position=60,
    after=("learning",),
    applies=lambda context: context.clicks is not None,
)
