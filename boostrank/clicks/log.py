"""Impressions and clicks of documents by position, and gains computed from them.

A document shown n_p times at position p and clicked c times has the exposure x = sum_p n_p e_p, where e_p is the
probability that position p is examined. E[c] = x r, so c / x estimates r, the probability of a click on an examined
document (T. Joachims, A. Swaminathan, T. Schnabel, "Unbiased learning-to-rank with biased feedback", WSDM 2017;
A. Agarwal, K. Takatsu, I. Zaitsev, T. Joachims, "A general framework for counterfactual learning-to-rank", SIGIR 2019).
Objectives use it as a real-valued gain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.propensities import MAX_POSITION, AnyPropensities
from boostrank.core.errors import DataError, DataWarning, ParameterError, warn_user
from boostrank.core.queries import Places
from boostrank.core.text import UNFIT_WORDS, first_unfit
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Candidates

PRIOR = 1.0
"""Click-free exposure added to every document. It shrinks the gains of rarely shown documents to 0; 0 is unbiased."""


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Impressions and clicks of each document at each position.

    Args:
        rows: int64[m], row of the document in the data, from 0.
        positions: int64[m], from 1.
        impressions: int64[m], at least 1.
        clicks: int64[m], from 0 to the impressions. Entries of the same row, position and segment are summed.
        n_documents: number of rows of the data.
        segments: int64[m], segment of each entry (such as phones), by index; None without segments.
        segment_names: names of the segments with entries, ascending.
    """

    rows: Int64Array
    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    n_documents: int
    segments: Int64Array | None = None
    segment_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rows, positions, impressions, clicks = columns = [_whole(getattr(self, name), name) for name in COLUMNS]
        segments = np.zeros(rows.size, np.int64) if self.segments is None else self._of_known_segments(rows.size)
        if len({column.size for column in columns}) > 1:
            sizes = ", ".join(f"{column.size} {name}" for name, column in zip(COLUMNS, columns, strict=True))
            raise DataError(f"the columns of a click log have different lengths: {sizes}")
        bad = impossible_entries(rows, positions, impressions, clicks, self.n_documents)
        if bad.size:
            i = int(bad[0])
            why = why_impossible(rows[i], positions[i], impressions[i], clicks[i], self.n_documents)
            raise DataError(f"entry {i} of the click log: {why}")
        # Sort by row, segment and position if necessary, then sum equal entries.
        if not _ascending(rows, segments, positions):
            order = np.lexsort((positions, segments, rows))
            rows, positions, impressions, clicks = (column[order] for column in columns)
            segments = segments[order]
        first = np.ones(rows.size, dtype=bool)
        first[1:] = (np.diff(rows) > 0) | (np.diff(positions) != 0) | (np.diff(segments) != 0)
        starts = np.flatnonzero(first)
        summed = [np.add.reduceat(c, starts) if starts.size else c for c in (impressions, clicks)]
        for name, column in zip(COLUMNS, (rows[starts], positions[starts], *summed), strict=True):
            object.__setattr__(self, name, column)
        if self.segments is not None:
            object.__setattr__(self, "segments", segments[starts])

    def _of_known_segments(self, entries: int) -> Int64Array:
        """Renumber the segments in the order of their names; drop names without entries."""
        assert self.segments is not None
        given = _whole(self.segments, "segments")
        if given.size != entries or np.any((given < 0) | (given >= len(self.segment_names))):
            raise DataError(f"segments of a click log: each entry needs an index below {len(self.segment_names)}")
        names = [str(one) for one in self.segment_names]
        unfit = first_unfit(names)
        if unfit is not None:
            raise DataError(f"the segment name {names[unfit]!r} contains {UNFIT_WORDS}: rename the segment")
        known, number = np.unique(np.array(names or [""])[given], return_inverse=True)
        object.__setattr__(self, "segment_names", tuple(known.tolist()))
        return np.asarray(number, np.int64)

    def __repr__(self) -> str:
        shown, clicks = int(self.impressions.sum()), int(self.clicks.sum())
        by = "" if self.segments is None else f", segments {', '.join(self.segment_names)}"
        return (
            f"ClickLog({shown:,} impressions and {clicks:,} clicks of {np.unique(self.rows).size:,} of "
            f"{self.n_documents:,} documents, {self.depth} positions{by})"
        )

    @property
    def depth(self) -> int:
        """Largest position; 0 for an empty log."""
        return int(self.positions.max(initial=0))

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Mask of the documents that were ever shown, bool[N]."""
        return np.bincount(self.rows, minlength=self.n_documents) > 0

    def total_clicks(self) -> Int64Array:
        """Return the clicks of each document over all positions, int64[N]."""
        return self._sum(self.clicks).astype(np.int64)

    def exposure(self, propensities: AnyPropensities) -> Float64Array:
        """Return the expected number of examinations of each document, sum_p n_p e_p, float64[N]."""
        log = self.up_to(propensities)
        return log._sum(log.impressions * log.at(propensities)[0])

    def gains(self, propensities: AnyPropensities, prior: float = PRIOR) -> Float64Array:
        """Return clicks over exposure of each document, float64[N], at least 0; NaN if never shown.

        Impressions at positions without a propensity are ignored, with a warning. Expected clicks on irrelevant
        documents (`Propensities.false_clicks`) are subtracted first.

        Args:
            propensities: propensities of the positions.
            prior: click-free exposure added to every document; 0 is unbiased.

        Raises:
            ParameterError: a prior that is negative or not a number.
        """
        if not 0.0 <= prior < np.inf:
            raise ParameterError(f"prior={prior!r}: expected a number of at least 0")
        log = self.up_to(propensities)
        clicks = log._sum(log.clicks - log.impressions * log.at(propensities)[1])
        looked_at = log.exposure(propensities) + prior
        return np.where(log.shown, np.maximum(clicks, 0.0) / np.where(log.shown, looked_at, 1.0), np.nan)

    def at(self, propensities: AnyPropensities) -> tuple[Float64Array, Float64Array]:
        """Return the propensity (NaN if unknown) and the false clicks of each entry, float64[m] each."""
        return propensities.at(self.positions, self.segments, self.segment_names)

    def up_to(self, propensities: AnyPropensities) -> ClickLog:
        """Select the entries at positions with a propensity; warn about the others."""
        kept = np.isfinite(self.at(propensities)[0])
        if kept.all():
            return self
        lost, least = int(self.impressions[~kept].sum()), int(self.positions[~kept].min())
        warn_user(
            f"{lost:,} of {self.impressions.sum():,} impressions are ignored: their positions (from {least}) have no "
            "propensity",
            DataWarning,
        )
        return self.where(kept)

    def where(self, kept: npt.NDArray[np.bool_]) -> ClickLog:
        """Select entries by a mask, bool[m]."""
        return ClickLog(
            self.rows[kept],
            self.positions[kept],
            self.impressions[kept],
            self.clicks[kept],
            self.n_documents,
            None if self.segments is None else self.segments[kept],
            self.segment_names,
        )

    def of_segment(self, name: str) -> ClickLog:
        """Return the entries of a segment, as a log without segments."""
        if self.segments is None or name not in self.segment_names:
            raise DataError(f"the click log has no segment {name!r}: it has {', '.join(self.segment_names) or 'none'}")
        return self.where(self.segments == self.segment_names.index(name)).pooled()

    def pooled(self) -> ClickLog:
        """Merge all segments."""
        return self if self.segments is None else replace(self, segments=None, segment_names=())

    def renumbered(self, rows: Int64Array | None) -> ClickLog:
        """Rename row i to rows[i], int64[N]; None changes nothing."""
        if rows is None:
            return self
        return replace(self, rows=rows[self.rows])

    def training_set(
        self, data: RankingDataset, propensities: AnyPropensities | None, prior: float = PRIOR
    ) -> RankingDataset:
        """Return the documents that were shown, labelled with their gains, for training with gain "linear".

        Columns within queries are computed over all documents, as in serving. Rows on disk stay there.

        Args:
            data: the documents; rows of the log number them in input order.
            propensities: propensities of the positions; None for click counts as gains, which are biased to the top.
            prior: see `gains`.

        Raises:
            DataError: a different number of documents; no clicks at all.
        """
        if data.n_documents != self.n_documents:
            raise DataError(f"the click log is of {self.n_documents:,} documents, the data have {data.n_documents:,}")
        log = self if propensities is None else self.up_to(propensities)
        gains = log.total_clicks().astype(np.float64) if propensities is None else log.gains(propensities, prior)
        gains, shown = data.in_row_order(gains), data.in_row_order(log.shown)
        if not np.any(gains[shown] > 0.0):
            raise DataError("the click log has no clicks to learn from")
        how = (
            {"propensities": None} if propensities is None else {"propensities": propensities.to_dict(), "prior": prior}
        )
        rows = np.flatnonzero(shown)
        found = some_documents(with_labels(data, np.where(shown, gains, 0.0), how), rows)
        return replace(found, candidates=Candidates(data, rows))

    def of_queries(self, data: RankingDataset, queries: npt.ArrayLike) -> tuple[RankingDataset, ClickLog]:
        """Select whole queries of the data, and the log of their documents."""
        chosen = np.asarray(queries, np.int64)
        rows = data.queries.take(chosen)[1]
        number = np.full(self.n_documents, -1, np.int64)
        number[rows if data.input_rows is None else data.input_rows[rows]] = np.arange(rows.size)
        kept = number[self.rows] >= 0
        part = self.where(kept)
        return data.take(chosen), replace(part, rows=number[part.rows], n_documents=rows.size)

    def _sum(self, values: npt.ArrayLike) -> Float64Array:
        """Sum values of entries by document, float64[N]."""
        return np.asarray(np.bincount(self.rows, np.asarray(values, np.float64), self.n_documents), np.float64)


MOST = 10**12
"""Maximum impressions of an entry; sums over all entries do not overflow."""
COLUMNS = ("rows", "positions", "impressions", "clicks")


def impossible_entries(
    rows: Int64Array, positions: Int64Array, impressions: Int64Array, clicks: Int64Array, n_documents: int
) -> Int64Array:
    """Return the numbers of the invalid entries, ascending."""
    bad = (rows < 0) | (rows >= n_documents) | (positions < 1) | (positions > MAX_POSITION)
    bad |= (impressions < 1) | (impressions > MOST) | (clicks < 0) | (clicks > impressions)
    return np.flatnonzero(bad).astype(np.int64)


def why_impossible(row: int, position: int, impressions: int, clicks: int, n_documents: int) -> str:
    """Describe an invalid entry."""
    if not 0 <= row < n_documents:
        return f"row {row + 1:,} does not exist: the data have {n_documents:,} rows"
    if not 1 <= position <= MAX_POSITION:
        return f"position {position}: positions count from 1, to {MAX_POSITION:,} at most"
    if impressions > MOST:
        return f"{impressions:,} impressions: more than {MOST:,}"
    if impressions < 1:
        return f"{impressions} impressions: documents that were not shown have no entry"
    return f"{clicks} clicks of {impressions} impressions: an impression has at most one click"


def _ascending(*columns: Int64Array) -> bool:
    """Return True if the entries are sorted by all columns lexicographically, without duplicates."""
    later, alike = np.zeros(max(0, columns[0].size - 1), bool), np.ones(max(0, columns[0].size - 1), bool)
    for column in columns:
        step = np.diff(column)
        later |= alike & (step > 0)
        alike &= step == 0
    return bool(np.all(later))


def with_labels(data: RankingDataset, gains: Float64Array, how: dict[str, Any]) -> RankingDataset:
    """Replace the labels by gains of clicks, and record `how` in the provenance."""
    options = {key: value for key, value in data.provenance.options.items() if key != "gain"} | {"clicks": how}
    return replace(data, labels=gains, provenance=replace(data.provenance, options=options))


def some_documents(data: RankingDataset, rows: Int64Array) -> RankingDataset:
    """Select documents by ascending rows; queries without any are dropped. Rows on disk stay there."""
    kept = np.zeros(data.n_documents + 1, np.int64)
    kept[rows] = 1
    sizes = np.add.reduceat(kept, data.queries.ptr[:-1])
    index, _ = data.queries.take(np.flatnonzero(sizes > 0))
    weights = None if data.document_weights is None else data.document_weights[rows]
    ptr = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    names = None if data.document_names is None else data.document_names[rows]
    features = data.features.take(rows) if data.on_disk else data.features[rows]
    return replace(
        data,
        features=features,
        labels=data.labels[rows],
        input_rows=None,
        document_names=names,
        queries=replace(index, ptr=ptr, document_weights=weights, places=_PlacesOf(data.queries.places, rows)),
    )


@dataclass(frozen=True)
class _PlacesOf:
    """Places of the selected rows; see `QueryIndex`."""

    places: Places | None
    rows: Int64Array

    def __call__(self, row: int) -> tuple[str, int]:
        row = int(self.rows[row])
        return ("", row) if self.places is None else self.places(row)


def _whole(values: npt.ArrayLike, name: str) -> Int64Array:
    """Convert to int64[m]."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise DataError(
            f"{name} of a click log must be one-dimensional whole numbers, not {given.dtype}{list(given.shape)}"
        )
    with np.errstate(invalid="ignore"):
        whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        at = int(np.flatnonzero(whole != given)[0])
        raise DataError(f"entry {at} of the click log: {name} {given[at]} is not a whole number")
    return whole
