"""A click log as its linter reads it: entries in the order of the file, lines that cannot be passed over."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath

import numpy as np
import numpy.typing as npt

from boostrank.clicks.columns import ClickColumns, ClickRows
from boostrank.clicks.estimation import estimate
from boostrank.clicks.files import MAX_ROWS, Entries, read_entries
from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import AnyPropensities, Propensities
from boostrank.core.errors import DataError, DataWarning, FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.doctor.finding import Finding, Severity

SHOWN_LINES = 5  # refused lines that are listed one by one


@dataclass(frozen=True, eq=False)
class ClickProfile:
    """A click log, and the queries of its documents.

    Args:
        file: its name.
        queries: of the documents.
        entries: of the log, in the order of the file, and those that are impossible.
        rows_of_table: int64[N], the row of each document, from 0, where clicks stand in the data's own table; None: the
            documents are the rows.
    """

    file: str
    queries: QueryIndex
    entries: Entries
    rows_of_table: Int64Array | None = None

    @classmethod
    def read(cls, path: str | PathLike[str], queries: QueryIndex, counted: bool = True) -> ClickProfile:
        """Read a log; lines that cannot be are passed over.

        Args:
            path: of the log.
            queries: of the documents.
            counted: whether these are all documents: the rows of others are refused.

        Raises:
            FileFormatError: the file cannot be read to its end.
        """
        most = queries.n_documents if counted else MAX_ROWS
        return cls(fspath(path), queries, read_entries(path, most, most_refused=SHOWN_LINES))

    @classmethod
    def of_table(cls, path: str | PathLike[str], columns: ClickColumns, queries: QueryIndex) -> ClickProfile:
        """Those in columns of the data's own table.

        Args:
            path: of the table.
            columns: that hold the clicks.
            queries: of its rows.

        Raises:
            FileFormatError: a cell that cannot be, by its place; other rows than those of `queries`.
        """
        name, clicks = fspath(path), ClickRows.read(path, columns)
        if clicks.positions.size != queries.n_documents:
            words = f"{clicks.positions.size:,} rows of clicks, of which {queries.n_documents:,} can be read as data"
            raise FileFormatError(words, file=name)
        owner = queries.of_rows()
        log, first = clicks.log(owner)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(owner[first], minlength=len(queries)))]).astype(np.int64)
        lines = np.zeros(log.rows.size, np.int64)
        entries = Entries(log.rows, log.positions, log.impressions, log.clicks, None, (), lines)
        return cls(name, QueryIndex(ptr, queries.qid), entries, np.flatnonzero(first))

    @cached_property
    def log(self) -> ClickLog:
        """Of the documents that the data have."""
        found = self.entries
        kept = found.rows < self.queries.n_documents
        return ClickLog(
            found.rows[kept],
            found.positions[kept],
            found.impressions[kept],
            found.clicks[kept],
            self.queries.n_documents,
            None if found.segments is None else found.segments[kept],
            found.names,
        )

    @cached_property
    def curve(self) -> AnyPropensities | None:
        """Propensities of the positions, by segment where there are some; None: no clicked document moved."""
        return estimated(self.log, self.queries)

    @cached_property
    def parts(self) -> list[tuple[str, ClickLog, Propensities]]:
        """(name, entries, curve) of each segment, all under "" where there are none; none without a curve."""
        if self.curve is None:
            return []
        if isinstance(self.curve, Propensities):
            return [("", self.log, self.curve)]
        return [(name, self.log.of_segment(name), one) for name, one in self.curve.curves.items()]

    @cached_property
    def owner(self) -> Int64Array:
        """int64[N], the query of each document."""
        return self.queries.of_rows()

    @cached_property
    def lists(self) -> Int64Array:
        """int64[Q], how often the list of each query was shown, as far as the log says."""
        cell, shown = self.cells
        most = np.zeros(len(self.queries), np.int64)
        np.maximum.at(most, cell // (self.log.depth + 1), shown)
        return most

    @cached_property
    def cells(self) -> tuple[Int64Array, Int64Array]:
        """(query times depth + 1, plus position; impressions of all documents there), ascending."""
        log = self.log
        cell, number = np.unique(self.owner[log.rows] * (log.depth + 1) + log.positions, return_inverse=True)
        return cell, np.bincount(number, log.impressions).astype(np.int64)

    def of_positions(self, values: npt.ArrayLike) -> Float64Array:
        """float64[P], what the log's entries have at each position."""
        return np.asarray(np.bincount(self.log.positions - 1, np.asarray(values, np.float64)), np.float64)

    def number(self, row: int) -> int:
        """The number of a document's row, from 1."""
        return 1 + (row if self.rows_of_table is None else int(self.rows_of_table[row]))

    def line(self, row: int | None = None, position: int | None = None, segment: str = "") -> int:
        """The line of the first entry of a row (from 0), at a position, of a segment; 0: there is none."""
        found = self.entries
        here = np.ones(found.rows.size, bool)
        here &= True if row is None else found.rows == row
        here &= True if position is None else found.positions == position
        if segment and found.segments is not None:
            here &= found.segments == found.names.index(segment)
        return self._first(here)

    def line_of_query(self, query: int, position: int | None = None) -> int:
        """The line of the first entry of a query, at a position."""
        a, b = self.queries.ptr[query : query + 2]
        here = (self.entries.rows >= a) & (self.entries.rows < b)
        return self._first(here if position is None else here & (self.entries.positions == position))

    def _first(self, here: npt.NDArray[np.bool_]) -> int:
        at = np.flatnonzero(here)
        return int(self.entries.lines[at[0]]) if at.size else 0

    def finding(
        self, check: str, severity: Severity, line: int, count: int, message: str, cost: str, fix: str
    ) -> Finding:
        """A finding at a line; 0 means the whole log."""
        return Finding(check, severity, self.file, line, 0, int(count), message, cost, fix)


def estimated(log: ClickLog, queries: QueryIndex) -> AnyPropensities | None:
    """Propensities of a log, by segment where it has some; None: no clicked document moved."""
    if not log.rows.size:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return estimate(log, queries)
    except DataError:
        return None
