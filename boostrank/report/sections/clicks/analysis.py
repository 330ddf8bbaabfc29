"""Click data looked at: how likely positions are looked at, what was seen, and what clicks over exposure change.

found = click_data(data, log, scores)
found.rows("positions"), found.rows("moves"), found.against.gate
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.estimation import NONSENSE, CurveCheck
from boostrank.clicks.gate import ClickGate, gate, moved_share, with_click_gains
from boostrank.clicks.log import PRIOR, ClickLog
from boostrank.clicks.propensities import AnyPropensities, SegmentPropensities, propensities_of_dict
from boostrank.clicks.segments import check as check_propensities
from boostrank.clicks.segments import estimate
from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.records import jsonable
from boostrank.report.documents import shown_name
from boostrank.report.frames import pandas

TOP = 10
"""Ranks at which two rankings are compared."""
MOST = 20
"""Documents, and queries, that are listed one by one."""
_DEEPEST = 30
_BINS = 24
_MOST_PRIOR = 2**53


@dataclass(frozen=True)
class Position:
    """What was seen and clicked at a position.

    Args:
        position: from 1.
        impressions, clicks: of all documents.
        rate: clicks an impression.
        propensity, low, high: how likely it is looked at, relative to position 1, and its 95% interval; NaN: unknown.
        segment: of the log, whose position it is; "" where propensities are not by segment.
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
    """A document whose rank by clicks over exposure is another than by the number of its clicks.

    Args:
        qid: of its query.
        document: its name, or `row 17`.
        position: mean of its impressions.
        impressions, clicks: of it.
        exposure: impressions that were looked at, by expectation.
        gain: clicks over exposure, with the prior.
        by_clicks, by_gain: its rank in its query among those that were shown; equal ones share the mean of their ranks.
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
        """By how many ranks it rises."""
        return self.by_clicks - self.by_gain


@dataclass(frozen=True)
class ChangeByPosition:
    """What clicks over exposure change for documents by where they stood.

    Args:
        position: mean of a document's impressions, rounded.
        documents: that stood there, of queries with clicks.
        change: by how many ranks they rise, as a mean.
    """

    position: int
    documents: int
    change: float


@dataclass(frozen=True)
class Disagreement:
    """A query, and how two rankers rank it.

    Args:
        qid: its id.
        documents: in its list.
        differs: share of the discounts of the top ten that fall on other documents: 0 the same list, 1 another one.
        old, new: exposure-DCG of the top ten; NaN without a click, or where the clicks do not tell.
        known: share of the new top ten that was ever shown.
    """

    qid: str
    documents: int
    differs: float
    old: float
    new: float
    known: float


@dataclass(frozen=True)
class Against:
    """The model against another ranker, by clicks.

    Args:
        name: of the other one.
        gate: what the clicks say; None: nothing, for the
        reason: given here.
        differs: mean of `Disagreement.differs` over all queries.
        queries: those that differ most.
    """

    name: str
    gate: ClickGate | None
    reason: str
    differs: float
    queries: tuple[Disagreement, ...]

    @property
    def verdict(self) -> str:
        """ "better", "worse", "unclear", or "" where clicks say nothing."""
        if self.gate is None:
            return ""
        d = self.gate.difference
        return "better" if d.low > 0.0 else "worse" if d.high < 0.0 else "unclear"


@dataclass(frozen=True, eq=False)
class ClickData:
    """What `click_data` found.

    Args:
        documents, shown, clicked: all, those that were shown, and clicked.
        impressions, clicks: in all.
        moved: share of the clicked documents that were shown at two positions or more.
        propensities: of the positions, or of those of each segment.
        origin: where they come from: "log", "given" or "model" (what the model was trained with).
        check: of propensities that are not the log's own; None: nothing tells.
        learnt: propensities that the model was trained with, where they are others.
        positions: each that was ever shown at; of each segment, where propensities are by segment.
        prior: exposure that is added to each document's.
        exposure_edges: float64[B + 1], powers of 2, and
        exposure_counts: int64[B], documents that were shown by their exposure.
        top_tenth: share of all exposure that goes to the tenth of the documents, of those shown, that has most.
        known: float64[K], share of the documents at the model's rank 1, 2, ... that was ever shown.
        moves: documents whose rank changes most, the largest change first.
        by_position: what changes by where documents stood.
        same_order: share of the queries with clicks in which no document changes its rank.
        against: another ranker; None: there is none.
        notes: what is missing, and why.
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

    def rows(self, what: str) -> list[dict[str, Any]]:
        """Rows of a frame: "positions", "moves", "by position", "exposure", "known" or "queries"."""
        if what == "positions":
            return [{key: value for key, value in asdict(one).items() if value != ""} for one in self.positions]
        if what == "moves":
            return [asdict(one) | {"change": one.change} for one in self.moves]
        if what == "by position":
            return [asdict(one) for one in self.by_position]
        if what == "exposure":
            edges = self.exposure_edges.tolist()
            bins = zip(edges[:-1], edges[1:], self.exposure_counts.tolist(), strict=True)
            return [{"begin": a, "end": b, "documents": n} for a, b, n in bins]
        if what == "known":
            return [{"rank": i, "shown": share} for i, share in enumerate(self.known.tolist(), start=1)]
        return [] if self.against is None else [asdict(one) for one in self.against.queries]

    def to_frame(self, what: str = "positions") -> Any:
        """A pandas data frame of `rows`.

        Raises:
            MissingDependency: pandas is not installed.
        """
        return pandas().DataFrame(self.rows(what))

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what is not a number is None."""
        names = ("documents", "shown", "clicked", "impressions", "clicks", "moved", "origin", "prior", "top_tenth",
                 "same_order", "notes")  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        found |= {
            "propensities": self.propensities.to_dict(),
            "check": None if self.check is None else vars(self.check),
        }
        found |= {what.replace(" ", "_"): self.rows(what) for what in ("positions", "exposure", "known", "moves")}
        against: dict[str, Any] | None = None
        if self.against is not None:
            one = self.against
            against = {name: getattr(one, name) for name in ("name", "verdict", "reason", "differs")}
            against |= {"gate": None if one.gate is None else asdict(one.gate), "queries": self.rows("queries")}
        return dict(jsonable(found | {"by_position": self.rows("by position"), "against": against}))


def click_data(
    data: RankingDataset,
    log: ClickLog,
    scores: npt.ArrayLike,
    propensities: AnyPropensities | None = None,
    *,
    learnt: AnyPropensities | None = None,
    prior: float = PRIOR,
    previous: tuple[str, npt.ArrayLike] | None = None,
    docnos: Sequence[str] | None = None,
    seed: int = 0,
) -> ClickData:
    """Look at clicks on documents that a model ranks.

    Args:
        data: the documents.
        log: of clicks on them, whose rows count them in the order in which they came in.
        scores: float[N] of the model, in the order of the data set's rows.
        propensities: of the positions; None: estimated from the log, by segment where it has some, or else what the
            model was trained with.
        learnt: what the model was trained with, if with any.
        prior: exposure that is added to each document's.
        previous: name and scores, likewise, of another ranker.
        docnos: a name a row, "" where there is none.
        seed: of the interval of the gate.

    Raises:
        DataError: another number of documents; no clicks; no propensities, or none of a segment.
    """
    if data.n_documents != log.n_documents:
        raise DataError(f"the click log is of {log.n_documents:,} documents, the data have {data.n_documents:,}")
    if not log.clicks.any():
        raise DataError("the click log has no clicks")
    # Its rows counted as those of the data set are.
    rows = log.renumbered(data.in_input_order(np.arange(data.n_documents)))
    curve, origin, check = _curve(rows, data.queries, propensities, learnt)
    with warnings.catch_warnings():  # of positions without a propensity, which a note says
        warnings.simplefilter("ignore", DataWarning)
        used = rows.up_to(curve)
        against = None if previous is None else _against(data, log, curve, scores, previous, seed)
    exposure = used.exposure(curve)
    if not used.clicks.any():
        raise DataError("no click of the log is at a position that has a propensity")
    seen = np.sort(exposure[used.shown])[::-1]
    edges, counts = _histogram(seen)
    moves, by_position, same_order = _changes(
        data, used, rows.total_clicks(), exposure, used.gains(curve, prior), docnos
    )
    return ClickData(
        documents=data.n_documents, shown=int(log.shown.sum()), clicked=int((log.total_clicks() > 0).sum()),
        impressions=int(log.impressions.sum()), clicks=int(log.clicks.sum()), moved=moved_share(log),
        propensities=curve, origin=origin, check=check, learnt=None if origin == "model" else learnt,
        positions=_positions(log, curve), prior=prior, exposure_edges=edges, exposure_counts=counts,
        top_tenth=float(seen[: math.ceil(seen.size / 10)].sum() / seen.sum()),
        known=_known(data.queries, scores, rows.shown), moves=moves, by_position=by_position, same_order=same_order,
        against=against, notes=tuple(_notes(log, used, curve)),
    )  # fmt: skip


def learnt_from(model: RankingModel) -> tuple[AnyPropensities | None, float]:
    """(propensities that a model was trained with, the prior); None, and the usual prior, where its record, which comes
    with its file, has none that can be."""
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
    """The propensities to go by, where they come from, and whether clicks contradict them."""
    if given is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # of wide intervals, which a note says
                return estimate(rows, queries), "log", None
        except DataError:
            if learnt is None:
                raise
    curve = given or learnt
    assert curve is not None
    try:
        check = check_propensities(rows, curve, queries)
    except (DataError, ParameterError):  # nothing moved; clicks that are taken off
        check = None
    return curve, "model" if given is None else "given", check


def _of_positions(values: Float64Array, depth: int) -> Float64Array:
    """float64[depth] of positions 1, 2, ...: NaN beyond what is known."""
    return np.append(values, np.full(depth, np.nan))[:depth]


def _positions(log: ClickLog, curve: AnyPropensities, segment: str = "") -> tuple[Position, ...]:
    if isinstance(curve, SegmentPropensities):
        parts = (_positions(log.of_segment(name), curve.curves[name], name) for name in log.segment_names)
        return tuple(one for part in parts for one in part)
    errors = np.full(curve.examination.size, np.nan) if curve.errors is None else curve.errors
    e, error = (_of_positions(values, log.depth) for values in (curve.examination, errors))
    shown, clicked = (np.bincount(log.positions - 1, counts, log.depth) for counts in (log.impressions, log.clicks))
    width = np.exp(1.96 * error)
    return tuple(
        Position(i + 1, int(shown[i]), int(clicked[i]), clicked[i] / shown[i], e[i], e[i] / width[i], e[i] * width[i],
                 segment)
        for i in np.flatnonzero(shown).tolist()
    )  # fmt: skip


def _notes(log: ClickLog, used: ClickLog, curve: AnyPropensities) -> list[str]:
    notes, all_of_them = [], int(log.impressions.sum())
    lost = all_of_them - int(used.impressions.sum())
    if lost:
        notes.append(f"{lost:,} of {all_of_them:,} impressions are at positions without a propensity, and left out.")
    vague = 0 if curve.errors is None else int((curve.errors > NONSENSE).sum())
    if vague:
        notes.append(f"The propensities of {vague:,} positions say nothing: they are known to a factor of 2.7 at best.")
    return notes


def _histogram(exposures: Float64Array) -> tuple[Float64Array, Int64Array]:
    """Bins between powers of 2, as many as the exposures need; the first holds all below, too."""
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
    data: RankingDataset, used: ClickLog, clicks: Int64Array, exposure: Float64Array, gains: Float64Array,
    docnos: Sequence[str] | None,
) -> tuple[tuple[MovedDocument, ...], tuple[ChangeByPosition, ...], float]:  # fmt: skip
    """What becomes of the ranks of documents that were shown, in queries with clicks."""
    owner, shown = data.queries.of_rows(), used.shown
    counted = np.flatnonzero(shown & (np.bincount(owner, clicks * shown)[owner] > 0))
    query = owner[counted]
    by_clicks, by_gain = (_mean_ranks(values[counted], query) for values in (clicks, gains))
    change = by_clicks - by_gain
    impressions = np.bincount(used.rows, used.impressions, used.n_documents)
    position = (np.bincount(used.rows, used.impressions * used.positions, used.n_documents)[counted]
                / impressions[counted])  # fmt: skip
    order = np.lexsort((-exposure[counted], -np.abs(change)))[:MOST]
    moves = tuple(
        MovedDocument(
            str(data.queries.qid[owner[row]]), shown_name(row, data, docnos), float(position[i]), int(impressions[row]),
            int(clicks[row]), float(exposure[row]), float(gains[row]), float(by_clicks[i]), float(by_gain[i]),
        )
        for i, row in zip(order.tolist(), counted[order].tolist(), strict=True) if change[i] != 0.0
    )  # fmt: skip
    at = np.rint(position).astype(np.int64)
    number, total = np.bincount(at), np.bincount(at, change)
    rows = tuple(ChangeByPosition(p, int(number[p]), total[p] / number[p]) for p in np.flatnonzero(number).tolist())
    moved = np.bincount(query, change != 0.0)[np.unique(query)] > 0
    return moves, rows, float(np.mean(~moved))


def _mean_ranks(values: npt.ArrayLike, query: Int64Array) -> Float64Array:
    """float64[n], rank of each value among those of its query, the largest 1; equal ones have the mean of theirs."""
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


def _against(
    data: RankingDataset, log: ClickLog, curve: AnyPropensities, scores: npt.ArrayLike,
    previous: tuple[str, npt.ArrayLike], seed: int,
) -> Against:  # fmt: skip
    name, (old, new) = previous[0], (np.asarray(one, np.float64) for one in (previous[1], scores))
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
        found = gate(data, log, curve, data.in_input_order(old), data.in_input_order(new), TOP, seed)
        metric, rules = Metric.parse(f"dcg@{TOP}"), Conventions(gain="linear")
        values = np.array([metric.evaluate(gains, one, queries, rules).per_query for one in (old, new)])
    except BoostrankError as error:
        reason = str(error)
    order = np.lexsort((-np.nan_to_num(np.abs(values[1] - values[0])), -differs))[:MOST]
    chosen = tuple(
        Disagreement(str(queries.qid[q]), int(queries.sizes[q]), *(float(v[q]) for v in (differs, *values, known)))
        for q in order.tolist() if differs[q] > 0.0
    )  # fmt: skip
    return Against(name, found, reason, float(differs.mean()), chosen)
