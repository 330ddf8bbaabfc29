"""Clicks on the data: propensities, exposure of documents, and the effect of dividing clicks by exposure."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from boostrank.clicks.estimation import NONSENSE, CurveCheck, estimate
from boostrank.clicks.estimation import check as check_propensities
from boostrank.clicks.gate import ClickGate, gate, moved_share, with_click_gains
from boostrank.clicks.log import PRIOR, ClickLog
from boostrank.clicks.propensities import AnyPropensities, SegmentPropensities, propensities_of_dict
from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.metric import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.report.charts import SHARE, Chart, tooltips
from boostrank.report.documents import shown_name
from boostrank.report.propensity_chart import curve_chart, curves_of
from boostrank.report.result import Columns, Result, columns_of, plain
from boostrank.report.scoring import START
from boostrank.report.section import Context, Section
from boostrank.report.vega import COLOURS, alt

TOP = 10
"""Number of top ranks at which rankers are compared."""
MOST = 20
"""Maximum number of listed documents and of listed queries."""
_DEEPEST = 30
_BINS = 24
_MOST_PRIOR = 2**53
_HEIGHT = 220
_SEGMENTS = 3
_LEARNT = "learnt with"
_ORIGINS = {"log": "of this log", "given": "given", "model": _LEARNT}


@dataclass(frozen=True)
class Position:
    """Impressions and clicks at a position.

    Args:
        position: from 1.
        impressions, clicks: totals over documents.
        propensity, low, high: probability of examination relative to position 1, and its 95% interval; NaN if unknown.
        segment: segment of the log; "" without propensities by segment.
    """

    position: int
    impressions: int
    clicks: int
    rate: float
    propensity: float
    low: float
    high: float
    segment: str = ""


@dataclass(frozen=True)
class MovedDocument:
    """A document whose rank changes when clicks are divided by exposure.

    Args:
        document: name, or `row 17`.
        position: mean position of its impressions.
        impressions, clicks: its totals.
        exposure: expected number of examined impressions.
        gain: clicks over exposure, with the prior.
        by_clicks, by_gain: ranks among the shown documents of its query; ties share their mean rank.
    """

    qid: str
    document: str
    position: float
    impressions: int
    clicks: int
    exposure: float
    gain: float
    by_clicks: float
    by_gain: float

    @property
    def change(self) -> float:
        """Number of ranks gained."""
        return self.by_clicks - self.by_gain


@dataclass(frozen=True)
class ChangeByPosition:
    """Effect of dividing clicks by exposure, by position.

    Args:
        position: mean position of a document's impressions, rounded.
        documents: documents at this position, in queries with clicks.
        change: mean number of ranks gained.
    """

    position: int
    documents: int
    change: float


@dataclass(frozen=True)
class Disagreement:
    """A query that two rankers rank differently.

    Args:
        differs: share of the top ten's discounts on other documents, from 0 (same top) to 1 (disjoint).
        old, new: exposure-DCG of the top ten; NaN without clicks, or if clicks are inconclusive.
        known: share of the new top ten that was ever shown.
    """

    qid: str
    documents: int
    differs: float
    old: float
    new: float
    known: float

    @property
    def change(self) -> float:
        """New minus old."""
        return self.new - self.old


@dataclass(frozen=True)
class Against:
    """Comparison of the model with another ranker, by clicks.

    Args:
        gate: result of the comparison; None if clicks cannot compare them.
        reason: why there is no result.
        differs: mean of `Disagreement.differs` over all queries.
    """

    name: str
    gate: ClickGate | None
    reason: str
    differs: float
    queries: tuple[Disagreement, ...]

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "unclear"; "" without a result."""
        if self.gate is None:
            return ""
        d = self.gate.difference
        return "better" if d.low > 0.0 else "worse" if d.high < 0.0 else "unclear"


@dataclass(frozen=True, eq=False, repr=False)
class ClickData(Result):
    """Result of `click_data`.

    Args:
        documents, shown, clicked: numbers of all, shown and clicked documents.
        impressions, clicks: totals.
        moved: share of clicked documents shown at several positions.
        propensities: propensities of positions, possibly by segment.
        origin: source of the propensities: "log", "given" or "model" (from the model's training).
        check: test of propensities from another source than this log; None if the log cannot test them.
        learnt: propensities of the model's training, if different.
        positions: positions with impressions, possibly by segment.
        prior: exposure added to each document.
        exposure_edges: float64[B + 1], powers of 2.
        exposure_counts: int64[B], shown documents by exposure.
        top_tenth: share of the exposure on the most exposed tenth of the shown documents.
        known: float64[K], share of documents at each rank of the model that were ever shown.
        moves: documents with the largest changes of rank, largest first.
        by_position: changes of rank by position.
        same_order: share of queries with clicks whose order does not change.
        against: comparison with another ranker; None without one.
    """

    documents: int
    shown: int
    clicked: int
    impressions: int
    clicks: int
    moved: float
    propensities: AnyPropensities
    origin: str
    check: CurveCheck | None
    learnt: AnyPropensities | None
    positions: tuple[Position, ...]
    prior: float
    exposure_edges: Float64Array
    exposure_counts: Int64Array
    top_tenth: float
    known: Float64Array
    moves: tuple[MovedDocument, ...]
    by_position: tuple[ChangeByPosition, ...]
    same_order: float
    against: Against | None
    notes: tuple[str, ...] = ()

    TABLES: ClassVar = {
        "positions": lambda self: _position_columns(self.positions),
        "moves": lambda self: columns_of(self.moves, *MovedDocument.__annotations__, "change"),
        "by position": lambda self: columns_of(self.by_position, *ChangeByPosition.__annotations__),
        "exposure": lambda self: {
            "begin": self.exposure_edges[:-1],
            "end": self.exposure_edges[1:],
            "documents": self.exposure_counts,
        },
        "known": lambda self: {"rank": np.arange(1, self.known.size + 1), "shown": self.known},
        "queries": lambda self: columns_of(self.against.queries if self.against else (), *Disagreement.__annotations__),
    }

    @property
    def segments(self) -> list[str]:
        """Segments with propensities of their own, by number of impressions, largest first."""
        shown: dict[str, int] = {}
        for one in self.positions:
            shown[one.segment] = shown.get(one.segment, 0) + one.impressions
        return sorted((name for name in shown if name), key=lambda name: -shown[name])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        counts = ("documents", "shown", "clicked", "impressions", "clicks", "moved")
        names = (*counts, "origin", "prior", "top_tenth", "same_order", "notes")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found |= {"propensities": self.propensities.to_dict(), "check": self.check}
        tables = ("positions", "exposure", "known", "moves", "by position")
        found |= {what.replace(" ", "_"): self.rows(what) for what in tables}
        one = self.against
        if one is None:
            return dict(plain(found | {"against": None}))
        against = {name: getattr(one, name) for name in ("name", "verdict", "reason", "differs", "gate")}
        return dict(plain(found | {"against": against | {"queries": self.rows("queries")}}))


def _position_columns(positions: Sequence[Position]) -> Columns:
    """Return the positions as columns, without `segment` if unused."""
    names = [name for name in Position.__annotations__ if name != "segment" or any(one.segment for one in positions)]
    return columns_of(positions, *names)


def click_data(c: Context) -> ClickData:
    """Analyse clicks on the documents that a model ranks.

    Raises:
        DataError: no log, a log of another number of documents, no clicks, or missing propensities.
    """
    data, log, scores = c.data, c.clicks, c.scores
    if log is None:
        raise DataError("no click log given (--clicks reads FILE.clicks, next to the data)")
    if data.n_documents != log.n_documents:
        raise DataError(f"the click log has {log.n_documents:,} documents, but the data have {data.n_documents:,}")
    if not log.clicks.any():
        raise DataError("the click log has no clicks")
    previous = c.previous or (None if c.start is None else (START, c.start))
    learnt, prior = learnt_from(c.model)
    # The log with rows in the order of the data set.
    rows = log.renumbered(data.in_input_order(np.arange(data.n_documents)))
    curve, origin, check = _curve(rows, data.queries, c.propensities, learnt)
    with warnings.catch_warnings():  # a note reports positions without a propensity
        warnings.simplefilter("ignore", DataWarning)
        used = rows.up_to(curve)
        against = None if previous is None else _against(c, log, curve, previous)
    exposure = used.exposure(curve)
    if not used.clicks.any():
        raise DataError("all clicks of the log are at positions without a propensity")
    seen = np.sort(exposure[used.shown])[::-1]
    edges, counts = _histogram(seen)
    moves, by_position, same_order = _changes(c, used, rows.total_clicks(), exposure, used.gains(curve, prior))
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
        learnt=None if origin == "model" else learnt,
        positions=_positions(log, curve),
        prior=prior,
        exposure_edges=edges,
        exposure_counts=counts,
        top_tenth=float(seen[: math.ceil(seen.size / 10)].sum() / seen.sum()),
        known=_known(data.queries, scores, rows.shown),
        moves=moves,
        by_position=by_position,
        same_order=same_order,
        against=against,
        notes=tuple(_notes(log, used, curve)),
    )


def learnt_from(model: RankingModel) -> tuple[AnyPropensities | None, float]:
    """Return (propensities of a model's training, prior); (None, default prior) without a valid record."""
    found: Any = model.info.get("data")
    for key in ("reader", "clicks"):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return None, PRIOR
    given: Any = found.get("prior")
    prior = float(given) if isinstance(given, int | float) and 0 <= given < _MOST_PRIOR else PRIOR
    try:
        return propensities_of_dict(found.get("propensities")), prior
    except (ValueError, RecursionError):
        return None, prior


def _curve(
    rows: ClickLog, queries: QueryIndex, given: AnyPropensities | None, learnt: AnyPropensities | None
) -> tuple[AnyPropensities, str, CurveCheck | None]:
    """Return the propensities to use, their origin, and whether clicks contradict them."""
    if given is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # a note reports wide intervals
                return estimate(rows, queries), "log", None
        except DataError:
            if learnt is None:
                raise
    curve = given or learnt
    assert curve is not None
    try:
        check = check_propensities(rows, curve, queries)
    except (DataError, ParameterError):  # no document moved, or clicks at all positions were excluded
        check = None
    return curve, "model" if given is None else "given", check


def _of_positions(values: Float64Array, depth: int) -> Float64Array:
    """Return values of positions 1 to `depth`, float64[depth]; NaN if unknown."""
    return np.append(values, np.full(depth, np.nan))[:depth]


def _positions(log: ClickLog, curve: AnyPropensities, segment: str = "") -> tuple[Position, ...]:
    if isinstance(curve, SegmentPropensities):
        parts = (_positions(log.of_segment(name), curve.curves[name], name) for name in log.segment_names)
        return tuple(one for part in parts for one in part)
    errors = np.full(curve.examination.size, np.nan) if curve.errors is None else curve.errors
    e, error = (_of_positions(values, log.depth) for values in (curve.examination, errors))
    shown, clicked = (np.bincount(log.positions - 1, counts, log.depth) for counts in (log.impressions, log.clicks))
    width = np.exp(1.96 * error)
    rates, low, high = clicked / np.maximum(shown, 1), e / width, e * width
    found = []
    for i in np.flatnonzero(shown).tolist():
        counts = i + 1, int(shown[i]), int(clicked[i])
        found.append(Position(*counts, float(rates[i]), float(e[i]), float(low[i]), float(high[i]), segment))
    return tuple(found)


def _notes(log: ClickLog, used: ClickLog, curve: AnyPropensities) -> list[str]:
    notes, all_of_them = [], int(log.impressions.sum())
    lost = all_of_them - int(used.impressions.sum())
    if lost:
        notes.append(f"{lost:,} of {all_of_them:,} impressions are ignored: their positions have no propensity.")
    vague = 0 if curve.errors is None else int((curve.errors > NONSENSE).sum())
    if vague:
        notes.append(
            f"The propensities of {vague:,} positions are unreliable: they are uncertain by a factor of 2.7 or more."
        )
    return notes


def _histogram(exposures: Float64Array) -> tuple[Float64Array, Int64Array]:
    """Return a histogram over powers of 2; the first bin includes all smaller values."""
    high = math.ceil(math.log2(exposures.max()) + 1e-9)
    low = max(math.floor(math.log2(exposures.min())), high - _BINS)
    edges = np.exp2(np.arange(low, max(high, low + 1) + 1))
    return edges, np.histogram(np.maximum(exposures, edges[0]), edges)[0].astype(np.int64)


def _known(queries: QueryIndex, scores: npt.ArrayLike, shown: npt.NDArray[np.bool_]) -> Float64Array:
    ranks = queries.ranks(scores)
    deepest = min(_DEEPEST, int(ranks.max()))
    counted = [np.bincount(ranks[rows], minlength=deepest + 1)[1 : deepest + 1] for rows in (shown, slice(None))]
    return np.asarray(counted[0] / counted[1], np.float64)


def _changes(
    c: Context, used: ClickLog, clicks: Int64Array, exposure: Float64Array, gains: Float64Array
) -> tuple[tuple[MovedDocument, ...], tuple[ChangeByPosition, ...], float]:
    """Return changes of rank of shown documents, in queries with clicks."""
    data = c.data
    owner, shown = data.queries.of_rows(), used.shown
    counted = np.flatnonzero(shown & (np.bincount(owner, clicks * shown)[owner] > 0))
    query = owner[counted]
    by_clicks, by_gain = (_mean_ranks(values[counted], query) for values in (clicks, gains))
    change = by_clicks - by_gain
    impressions = np.bincount(used.rows, used.impressions, used.n_documents)
    weighted = np.bincount(used.rows, used.impressions * used.positions, used.n_documents)
    position = weighted[counted] / impressions[counted]
    order = np.lexsort((-exposure[counted], -np.abs(change)))[:MOST]
    moves = tuple(
        MovedDocument(
            qid=data.queries.shown(owner[row]),
            document=shown_name(row, data),
            position=float(position[i]),
            impressions=int(impressions[row]),
            clicks=int(clicks[row]),
            exposure=float(exposure[row]),
            gain=float(gains[row]),
            by_clicks=float(by_clicks[i]),
            by_gain=float(by_gain[i]),
        )
        for i, row in zip(order.tolist(), counted[order].tolist(), strict=True)
        if change[i] != 0.0
    )
    at = np.rint(position).astype(np.int64)
    number, total = np.bincount(at), np.bincount(at, change)
    rows = tuple(ChangeByPosition(p, int(number[p]), total[p] / number[p]) for p in np.flatnonzero(number).tolist())
    moved = np.bincount(query, change != 0.0)[np.unique(query)] > 0
    return moves, rows, float(np.mean(~moved))


def _mean_ranks(values: npt.ArrayLike, query: Int64Array) -> Float64Array:
    """Return descending ranks within queries, float64[n]; ties share their mean rank."""
    values = np.asarray(values, np.float64)
    order = np.lexsort((-values, query))
    v, q = values[order], query[order]
    first = np.ones(v.size, dtype=bool)
    first[1:] = q[1:] != q[:-1]
    place = np.arange(v.size) - np.maximum.accumulate(np.where(first, np.arange(v.size), 0)) + 1.0
    first[1:] |= v[1:] != v[:-1]
    group = np.cumsum(first) - 1
    ranks = np.empty(v.size)
    ranks[order] = (np.bincount(group, place) / np.bincount(group))[group]
    return ranks


def _against(c: Context, log: ClickLog, curve: AnyPropensities, previous: tuple[str, npt.ArrayLike]) -> Against:
    data = c.data
    name, (old, new) = previous[0], (np.asarray(one, np.float64) for one in (previous[1], c.scores))
    queries = data.queries
    first, second = queries.ranks(old), queries.ranks(new)
    discounts = [np.where(ranks <= TOP, 1.0 / np.log2(ranks + 1.0), 0.0) for ranks in (first, second)]
    owner, count = queries.of_rows(), len(queries)
    moved = np.bincount(owner, np.abs(discounts[1] - discounts[0]), count)
    differs = moved / np.maximum(np.bincount(owner, discounts[0] + discounts[1], count), 1e-300)
    top = second <= TOP
    known = np.bincount(owner[top], data.in_row_order(log.shown)[top], count) / np.maximum(
        np.bincount(owner[top], minlength=count), 1
    )
    found, reason, values = None, "", np.full((2, count), np.nan)
    try:
        gains = with_click_gains(data, log, curve).labels
        found = gate(data, log, curve, data.in_input_order(old), data.in_input_order(new), TOP, c.seed)
        metric, rules = Metric.parse(f"dcg@{TOP}"), Conventions(gain="linear")
        values = np.array([metric.evaluate(gains, one, queries, rules).per_query for one in (old, new)])
    except BoostrankError as error:
        reason = str(error)
    order = np.lexsort((-np.nan_to_num(np.abs(values[1] - values[0])), -differs))[:MOST]
    numbers = (differs, *values, known)
    chosen = tuple(
        Disagreement(queries.shown(q), int(queries.sizes[q]), *(float(v[q]) for v in numbers))
        for q in order.tolist()
        if differs[q] > 0.0
    )
    return Against(name, found, reason, float(differs.mean()), chosen)


def _parts(found: ClickData) -> dict[str, Any]:
    most, least = (f(found.by_position, key=lambda one: one.change) for f in (max, min))
    return {
        "top": TOP,
        "depths": len({one.position for one in found.positions}),
        "by_segment": isinstance(found.propensities, SegmentPropensities),
        "drawn_segments": _SEGMENTS,
        "most": most,
        "least": least,
        "curve": _curve_chart(found),
        "exposure": _exposure(found),
        "known": _known_chart(found) if found.known.size > 1 else None,
        "changes": _by_position(found) if len(found.by_position) > 1 else None,
    }


def _curve_chart(found: ClickData) -> Chart:
    shown, clicked = np.zeros((2, max(one.position for one in found.positions)))
    for one in found.positions:  # over all segments
        shown[one.position - 1] += one.impressions
        clicked[one.position - 1] += one.clicks
    rates = np.divide(clicked, shown, out=np.full(shown.size, math.nan), where=shown > 0)
    rates = rates / rates[0] if rates[0] > 0.0 else np.full(shown.size, math.nan)
    segments = found.segments[:_SEGMENTS]
    curves = curves_of(_ORIGINS[found.origin], found.propensities, segments, _SEGMENTS)
    if found.learnt is not None:
        curves |= curves_of(_LEARNT, found.learnt, segments, _SEGMENTS)
    return curve_chart(curves, rates if np.isfinite(rates).any() else None)


def _exposure(found: ClickData) -> Chart:
    frame = found.to_frame("exposure")
    scale = alt.Scale(type="log", base=2, nice=False)
    bars = (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("begin:Q", title="exposure", bin="binned", scale=scale),
            x2="end:Q",
            y=alt.Y("documents:Q", title="documents", axis=alt.Axis(tickMinStep=1)),
            tooltip=tooltips("begin:Q .3~g from", "end:Q .3~g to", "documents:Q ,d"),
        )
    )
    return Chart("clicks-exposure", frame, bars.properties(height=_HEIGHT))


def _known_chart(found: ClickData) -> Chart:
    frame = found.to_frame("known")
    whole = alt.Axis(format="d", tickMinStep=1)
    line = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=40))
    drawn = line.encode(
        x=alt.X("rank:Q", title="rank by the model", axis=whole, scale=alt.Scale(nice=False, zero=False)),
        y=alt.Y("shown:Q", title="ever shown", axis=alt.Axis(format=SHARE), scale=alt.Scale(domain=[0, 1])),
        tooltip=tooltips("rank:Q d", "shown:Q .1% ever shown"),
    ).properties(height=_HEIGHT)
    return Chart("clicks-known", frame, drawn)


def _by_position(found: ClickData) -> Chart:
    frame = found.to_frame("by position")
    scale = alt.Scale(domain=[0.5, max(one.position for one in found.by_position) + 0.5], nice=False)
    axis = alt.Axis(format="d", tickMinStep=1)
    bars = (
        alt.Chart(frame)
        .mark_bar(size=14)
        .encode(
            x=alt.X("position:Q", title="mean position of the document", axis=axis, scale=scale),
            y=alt.Y("change:Q", title="ranks risen"),
            color=alt.condition("datum.change < 0", alt.value(COLOURS["bad"]), alt.value(COLOURS["main"])),
            tooltip=tooltips("position:Q d", "change:Q +.2f ranks", "documents:Q ,d"),
        )
    )
    return Chart("clicks-changes", frame, bars.properties(height=_HEIGHT))


def _frames(found: ClickData) -> dict[str, Any]:
    names = {"click positions": "positions", "click moves": "moves", "click changes": "by position"}
    more = {} if found.against is None else {"click queries": "queries"}
    return {name: found.to_frame(what) for name, what in (names | more).items()}


SPEC = Section("clicks", "Clicks", click_data, _parts, _frames, place=60, after=("learning",), needs_clicks=True)
