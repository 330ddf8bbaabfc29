"""A click log as its linter reads it: entries in the order of the file, lines that cannot be passed over."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.columns import ClickColumns, ClickRows
from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import AnyPropensities, Propensities
from boostrank.clicks.segments import estimate
from boostrank.clicks.text import MAX_ROWS, each_entry, lines_of_entries, numbered, read_entries
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
        rows, positions, impressions, clicks: int64[m], of the entries that can be, in the order of the file.
        segments: str[m], word of the segment of each; None: there are none.
        lines: int64[m], of the entries; None: not looked for yet.
        refused, n_refused: what is wrong with the first lines that cannot be, and how many there are.
        rows_of_table: int64[N], the row of each document, from 0, where clicks stand in the data's own table; None: the
            documents are the rows.
    """

    file: str
    queries: QueryIndex
    rows: Int64Array
    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    segments: npt.NDArray[Any] | None = None
    lines: Int64Array | None = None
    refused: Sequence[FileFormatError] = ()
    n_refused: int = 0
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
        name, most = fspath(path), queries.n_documents if counted else MAX_ROWS
        try:
            columns, segments = read_entries(name, most)
            return cls(name, queries, *columns, segments)
        except FileFormatError as error:
            if not error.line:
                raise
        numbers, lines, wrong = [np.zeros((0, 4), np.int64)], [], 0
        refused: list[FileFormatError] = []
        words: list[str | None] = []
        for line, entry, segment in each_entry(name, most):
            if isinstance(entry, FileFormatError):
                refused, wrong = [*refused, entry][:SHOWN_LINES], wrong + 1
            else:
                numbers.append(entry)
                lines.append(line)
                words.append(segment)
        rows, positions, impressions, clicks = np.concatenate(numbers).T
        segments = np.array(words, str) if words and words[0] is not None else None
        return cls(
            name, queries, rows - 1, positions, impressions, clicks, segments, np.array(lines, np.int64), refused, wrong
        )

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
        return cls(
            name, QueryIndex(ptr, queries.qid), log.rows, log.positions, log.impressions, log.clicks,
            lines=np.zeros(log.rows.size, np.int64), rows_of_table=np.flatnonzero(first),
        )  # fmt: skip

    @cached_property
    def log(self) -> ClickLog:
        """Of the documents that the data have."""
        kept = self.rows < self.queries.n_documents
        return ClickLog(
            self.rows[kept],
            self.positions[kept],
            self.impressions[kept],
            self.clicks[kept],
            self.queries.n_documents,
            *numbered(None if self.segments is None else self.segments[kept]),
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
        here = np.ones(self.rows.size, bool)
        here &= True if row is None else self.rows == row
        here &= True if position is None else self.positions == position
        if segment:
            number, names = numbered(self.segments)
            here &= number == names.index(segment)
        at = np.flatnonzero(here)
        return int(self._lines[at[0]]) if at.size else 0

    def line_of_query(self, query: int, position: int | None = None) -> int:
        """The line of the first entry of a query, at a position."""
        a, b = self.queries.ptr[query : query + 2]
        here = (self.rows >= a) & (self.rows < b)
        at = np.flatnonzero(here if position is None else here & (self.positions == position))
        return int(self._lines[at[0]]) if at.size else 0

    @cached_property
    def _lines(self) -> Int64Array:
        if self.lines is not None:
            return self.lines
        return lines_of_entries(self.file)

    def finding(
        self, check: str, severity: Severity, line: int, count: int, message: str, cost: str, fix: str
    ) -> Finding:  # fmt: skip
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
