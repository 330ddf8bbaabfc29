"""Impressions and clicks of documents by position, and the gains that they make.

A document that was shown n_p times at position p and clicked c times has the exposure x = sum_p n_p e_p, where e_p is
the probability that position p is looked at. E[c] = x r, so that c / x estimates r, the probability of a click on a
document that is looked at (T. Joachims, A. Swaminathan, T. Schnabel, "Unbiased learning-to-rank with biased feedback",
WSDM 2017; A. Agarwal, K. Takatsu, I. Zaitsev, T. Joachims, "A general framework for counterfactual learning-to-rank",
SIGIR 2019). Objectives take it as a real-valued gain.
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
from boostrank.data.candidates import Candidates
from boostrank.data.dataset import RankingDataset

PRIOR = 1.0
"""Exposure added to every document's: little that was seen is drawn to a gain of 0. It takes the bias away at 0."""


@dataclass(frozen=True, eq=False)
class ClickLog:
    """How often each document was shown at each position, and clicked there.

    Args:
        rows: int64[m], row of the document in the data, from 0.
        positions: int64[m], from 1.
        impressions: int64[m], at least 1.
        clicks: int64[m], 0 to the impressions. Entries of one row, position and segment are added up.
        n_documents: rows of the data.
        segments: int64[m], number of the segment, such as phones, that each entry is of; None: there are none.
        segment_names: of them, those that have entries, ascending.

    Raises:
        DataError: entries that cannot be, the first by number (from 0).
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
            raise DataError(f"a click log has as many of each: {sizes}")
        bad = impossible_entries(rows, positions, impressions, clicks, self.n_documents)
        if bad.size:
            i = int(bad[0])
            why = why_impossible(rows[i], positions[i], impressions[i], clicks[i], self.n_documents)
            raise DataError(f"entry {i} of the click log: {why}")
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
        """Their numbers, in the order of their names; names without entries are gone."""
        assert self.segments is not None
        given = _whole(self.segments, "segments")
        if given.size != entries or np.any((given < 0) | (given >= len(self.segment_names))):
            raise DataError(f"segments of a click log: the number of one of {len(self.segment_names)} of each entry")
        names = [str(one) for one in self.segment_names]
        unfit = first_unfit(names)
        if unfit is not None:
            raise DataError(f"the segment name {names[unfit]!r} holds {UNFIT_WORDS}: give the segment another")
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
        """The deepest position at which something was shown; 0 of an empty log."""
        return int(self.positions.max(initial=0))

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """bool[N]: the documents that were shown at all."""
        return np.bincount(self.rows, minlength=self.n_documents) > 0

    def total_clicks(self) -> Int64Array:
        """int64[N]: clicks of each document, at all positions together."""
        return self._sum(self.clicks).astype(np.int64)

    def exposure(self, propensities: AnyPropensities) -> Float64Array:
        """float64[N]: how often each document was looked at, by expectation: sum_p n_p e_p."""
        log = self.up_to(propensities)
        return log._sum(log.impressions * log.at(propensities)[0])

    def gains(self, propensities: AnyPropensities, prior: float = PRIOR) -> Float64Array:
        """float64[N]: clicks over exposure of each document, at least 0; NaN where it was never shown.

        Impressions at positions without a propensity are left out, with a warning. Clicks that irrelevant documents
        would have had too (`Propensities.false_clicks`) are taken off first.

        Args:
            propensities: of the positions.
            prior: impressions looked at, without a click, that every document is given besides; 0 is unbiased.

        Raises:
            ParameterError: a prior that is negative or no number.
        """
        if not 0.0 <= prior < np.inf:
            raise ParameterError(f"prior={prior!r}: a number of at least 0")
        log = self.up_to(propensities)
        clicks = log._sum(log.clicks - log.impressions * log.at(propensities)[1])
        looked_at = log.exposure(propensities) + prior
        return np.where(log.shown, np.maximum(clicks, 0.0) / np.where(log.shown, looked_at, 1.0), np.nan)

    def at(self, propensities: AnyPropensities) -> tuple[Float64Array, Float64Array]:
        """float64[m] of each entry: its propensity, NaN where there is none, and false clicks."""
        return propensities.at(self.positions, self.segments, self.segment_names)

    def up_to(self, propensities: AnyPropensities) -> ClickLog:
        """The entries at positions that have a propensity; what is left out is said in a `DataWarning`."""
        kept = np.isfinite(self.at(propensities)[0])
        if kept.all():
            return self
        lost, least = int(self.impressions[~kept].sum()), int(self.positions[~kept].min())
        warn_user(
            f"{lost:,} of {self.impressions.sum():,} impressions, at position {least} and others that have no "
            "propensity, are left out",
            DataWarning,
        )
        return self.where(kept)

    def where(self, kept: npt.NDArray[np.bool_]) -> ClickLog:
        """Some entries of it, bool[m]."""
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
        """The entries of a segment, which has none itself."""
        if self.segments is None or name not in self.segment_names:
            raise DataError(f"the click log has no segment {name!r}: it has {', '.join(self.segment_names) or 'none'}")
        return self.where(self.segments == self.segment_names.index(name)).pooled()

    def pooled(self) -> ClickLog:
        """The same with all segments together."""
        return self if self.segments is None else replace(self, segments=None, segment_names=())

    def renumbered(self, rows: Int64Array | None) -> ClickLog:
        """The same with row i called rows[i], int64[N]; None: as it is."""
        if rows is None:
            return self
        return replace(self, rows=rows[self.rows])

    def training_set(
        self, data: RankingDataset, propensities: AnyPropensities | None, prior: float = PRIOR
    ) -> RankingDataset:
        """The documents that were shown, their gains in place of labels: to be trained on with gain "linear".

        Columns within queries are computed of all documents, as where they are served. Rows on disk stay there.

        Args:
            data: the documents; rows of the log count them in the order in which they came in.
            propensities: of the positions; None: the number of clicks is the gain, which is biased to the top.
            prior: as of `gains`.

        Raises:
            DataError: another number of documents; no clicks at all.
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
        """Some whole queries of the data, and the log of their documents."""
        chosen = np.asarray(queries, np.int64)
        rows = data.queries.take(chosen)[1]
        number = np.full(self.n_documents, -1, np.int64)
        number[rows if data.input_rows is None else data.input_rows[rows]] = np.arange(rows.size)
        kept = number[self.rows] >= 0
        part = self.where(kept)
        return data.take(chosen), replace(part, rows=number[part.rows], n_documents=rows.size)

    def _sum(self, values: npt.ArrayLike) -> Float64Array:
        """float64[N]: what the entries of each document add up to."""
        return np.asarray(np.bincount(self.rows, np.asarray(values, np.float64), self.n_documents), np.float64)


MOST = 10**12
"""Impressions of one entry: as many as there may be entries add up."""
COLUMNS = ("rows", "positions", "impressions", "clicks")


def impossible_entries(
    rows: Int64Array, positions: Int64Array, impressions: Int64Array, clicks: Int64Array, n_documents: int
) -> Int64Array:
    """Return the numbers of the entries that are impossible, ascending."""
    bad = (rows < 0) | (rows >= n_documents) | (positions < 1) | (positions > MAX_POSITION)
    bad |= (impressions < 1) | (impressions > MOST) | (clicks < 0) | (clicks > impressions)
    return np.flatnonzero(bad).astype(np.int64)


def why_impossible(row: int, position: int, impressions: int, clicks: int, n_documents: int) -> str:
    """Say what is wrong with an impossible entry."""
    if not 0 <= row < n_documents:
        return f"there is no row {row + 1:,}: the data have {n_documents:,}"
    if not 1 <= position <= MAX_POSITION:
        return f"position {position}: positions count from 1, to {MAX_POSITION:,} at most"
    if impressions > MOST:
        return f"{impressions:,} impressions: more than can be added up"
    if impressions < 1:
        return f"{impressions} impressions: what was not shown has no entry"
    return f"{clicks} clicks of {impressions} impressions: count each impression as clicked or not"


def _ascending(*columns: Int64Array) -> bool:
    """Whether entries are in the order of the first column, those alike in it in that of the second, and so on."""
    later, alike = np.zeros(max(0, columns[0].size - 1), bool), np.ones(max(0, columns[0].size - 1), bool)
    for column in columns:
        step = np.diff(column)
        later |= alike & (step > 0)
        alike &= step == 0
    return bool(np.all(later))


def with_labels(data: RankingDataset, gains: Float64Array, how: dict[str, Any]) -> RankingDataset:
    """The same documents with gains of clicks in place of labels; `how` is kept with where the data came from."""
    options = {key: value for key, value in data.provenance.options.items() if key != "gain"} | {"clicks": how}
    return replace(data, labels=gains, provenance=replace(data.provenance, options=options))


def some_documents(data: RankingDataset, rows: Int64Array) -> RankingDataset:
    """Some documents of a data set, by their rows, ascending; queries without any are gone. On disk they stay there."""
    kept = np.zeros(data.n_documents + 1, np.int64)
    kept[rows] = 1
    sizes = np.add.reduceat(kept, data.queries.ptr[:-1])
    index, _ = data.queries.take(np.flatnonzero(sizes > 0))
    weights = None if data.document_weights is None else data.document_weights[rows]
    ptr = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    comments = None if data.comments is None else tuple(data.comments[row] for row in rows)
    features = data.features.take(rows) if data.on_disk else data.features[rows]
    return replace(
        data,
        features=features,
        labels=data.labels[rows],
        input_rows=None,
        comments=comments,
        queries=replace(index, ptr=ptr, document_weights=weights, places=_PlacesOf(data.queries.places, rows)),
    )


@dataclass(frozen=True)
class _PlacesOf:
    """Where the rows that are left were read; see `QueryIndex`."""

    places: Places | None
    rows: Int64Array

    def __call__(self, row: int) -> tuple[str, int]:
        """(file or nothing, line or row)."""
        row = int(self.rows[row])
        return ("", row) if self.places is None else self.places(row)


def _whole(values: npt.ArrayLike, name: str) -> Int64Array:
    """int64[m] of whole numbers.

    Raises:
        DataError: others.
    """
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise DataError(f"{name} of a click log: one-dimensional whole numbers, not {given.dtype}{list(given.shape)}")
    with np.errstate(invalid="ignore"):
        whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        at = int(np.flatnonzero(whole != given)[0])
        raise DataError(f"entry {at} of the click log: {name} {given[at]} is no whole number")
    return whole
