"""A click log prepared for its linter: entries in file order, with invalid lines skipped."""

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

SHOWN_LINES = 5  # invalid lines listed individually


@dataclass(frozen=True, eq=False)
class ClickProfile:
    """A click log with the queries of its documents.

    Args:
        rows_of_table: int64[N], table row of each document, from 0, if the clicks are in the data's own table; None if
            documents are the rows.
    """

    file: str
    queries: QueryIndex
    entries: Entries
    rows_of_table: Int64Array | None = None

    @classmethod
    def read(cls, path: str | PathLike[str], queries: QueryIndex, counted: bool = True) -> ClickProfile:
        """Read a log, skipping invalid lines.

        Args:
            counted: these are all documents, so other rows are invalid.
        """
        most = queries.n_documents if counted else MAX_ROWS
        return cls(fspath(path), queries, read_entries(path, most, most_refused=SHOWN_LINES))

    @classmethod
    def of_table(cls, path: str | PathLike[str], columns: ClickColumns, queries: QueryIndex) -> ClickProfile:
        """Read the click columns of the data's own table."""
        name, clicks = fspath(path), ClickRows.read(path, columns)
        if clicks.positions.size != queries.n_documents:
            words = f"{clicks.positions.size:,} rows of clicks, but {queries.n_documents:,} rows of data"
            raise FileFormatError(words, file=name)
        owner = queries.of_rows()
        log, first = clicks.log(owner)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(owner[first], minlength=len(queries)))]).astype(np.int64)
        lines = np.zeros(log.rows.size, np.int64)
        entries = Entries(log.rows, log.positions, log.impressions, log.clicks, None, (), lines)
        return cls(name, QueryIndex(ptr, queries.qid), entries, np.flatnonzero(first))

    @cached_property
    def log(self) -> ClickLog:
        """Log of the documents in the data."""
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
        """Propensities of the positions, by segment if there are any; None if no clicked document moved."""
        return estimated(self.log, self.queries)

    @cached_property
    def parts(self) -> list[tuple[str, ClickLog, Propensities]]:
        """Name, entries and curve of each segment that has a curve; "" without segments."""
        if self.curve is None:
            return []
        if isinstance(self.curve, Propensities):
            return [("", self.log, self.curve)]
        return [(name, self.log.of_segment(name), one) for name, one in self.curve.curves.items()]

    @cached_property
    def owner(self) -> Int64Array:
        """Query of each document, int64[N]."""
        return self.queries.of_rows()

    @cached_property
    def lists(self) -> Int64Array:
        """Largest number of impressions at a position of each query, int64[Q]."""
        cell, shown = self.cells
        most = np.zeros(len(self.queries), np.int64)
        np.maximum.at(most, cell // (self.log.depth + 1), shown)
        return most

    @cached_property
    def cells(self) -> tuple[Int64Array, Int64Array]:
        """Keys query * (depth + 1) + position, ascending, and the impressions there."""
        log = self.log
        cell, number = np.unique(self.owner[log.rows] * (log.depth + 1) + log.positions, return_inverse=True)
        return cell, np.bincount(number, log.impressions).astype(np.int64)

    def of_positions(self, values: npt.ArrayLike) -> Float64Array:
        """Sum values of entries by position, float64[P]."""
        return np.asarray(np.bincount(self.log.positions - 1, np.asarray(values, np.float64)), np.float64)

    def number(self, row: int) -> int:
        """Return the row number of a document, from 1."""
        return 1 + (row if self.rows_of_table is None else int(self.rows_of_table[row]))

    def line(self, row: int | None = None, position: int | None = None, segment: str = "") -> int:
        """Return the line of the first entry of a row (from 0), position and segment; 0 if there is none."""
        found = self.entries
        here = np.ones(found.rows.size, bool)
        here &= True if row is None else found.rows == row
        here &= True if position is None else found.positions == position
        if segment and found.segments is not None:
            here &= found.segments == found.names.index(segment)
        return self._first(here)

    def line_of_query(self, query: int, position: int | None = None) -> int:
        """Return the line of the first entry of a query, optionally at a position."""
        a, b = self.queries.ptr[query : query + 2]
        here = (self.entries.rows >= a) & (self.entries.rows < b)
        return self._first(here if position is None else here & (self.entries.positions == position))

    def _first(self, here: npt.NDArray[np.bool_]) -> int:
        at = np.flatnonzero(here)
        return int(self.entries.lines[at[0]]) if at.size else 0


def estimated(log: ClickLog, queries: QueryIndex) -> AnyPropensities | None:
    """Estimate the propensities of a log, ignoring warnings; None if no clicked document moved."""
    if not log.rows.size:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return estimate(log, queries)
    except DataError:
        return None
