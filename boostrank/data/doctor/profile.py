"""Profile of a data set: what one pass over its text counts, from which the checks draw their conclusions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.doctor import column_stats
from boostrank.data.doctor.batches import CHUNK_BYTES, Batch, Cutter, LinedBlock, LinedParser, LinedTables, Rows
from boostrank.data.doctor.finding import Finding, Severity, percent
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.assemble import DataFiles
from boostrank.data.libsvm.chunks import open_source
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.libsvm.reader import parser_of
from boostrank.data.libsvm.reasons import NO_ROWS
from boostrank.data.libsvm.side_files import check_sizes, read_weights, some_sizes, weighted
from boostrank.data.libsvm.sources import AnySource, Opened, expand, parsed
from boostrank.data.names import names_in_head
from boostrank.data.options import FeatureSpace, Progress
from boostrank.data.tables.categories import Categories
from boostrank.data.tables.columns import Columns
from boostrank.data.tables.parser import TableParser

SHOWN_ROWS = 5  # refused rows that are listed one by one
MOST_LABELS = 1000  # different labels that are counted one by one
MOST_FEATURES = 1 << 20  # that are looked at one by one: 100 MiB

UInt64Array = npt.NDArray[np.uint64]
_ODD = np.uint64(0x9E3779B97F4A7C15)
_KINDS: dict[str, npt.DTypeLike] = {
    "line": np.int64, "ids": np.int64, "sizes": np.int64, "low": np.float64, "high": np.float64, "falling": np.bool_,
    "hashes": np.uint64,
}  # fmt: skip


@dataclass
class Label:
    """How many documents have it, and the line of the first."""

    count: int = 0
    line: int = 0

    def add(self, count: int, line: int) -> None:
        """More of them, and the line of their first."""
        self.count, self.line = self.count + int(count), self.line or int(line)


@dataclass
class Alike:
    """Documents that are like another one of their query: how many, in how many queries, the lines of the first two."""

    rows: int = 0
    queries: int = 0
    line: int = 0
    twin: int = 0

    def add(self, rows: Int64Array, groups: Int64Array, queries: Int64Array, lines: Int64Array) -> None:
        """More of them: their rows and which of these are alike; the query and the line of every row."""
        if rows.size:
            if not self.line:
                pair = np.sort(rows[groups == groups[np.argmin(rows)]])
                self.line, self.twin = int(lines[pair[0]]), int(lines[pair[1]])
            self.rows += rows.size
            self.queries += np.unique(queries[rows]).size


@dataclass
class StandIn:
    """A word for a missing value: the place of the first row with it."""

    word: str
    line: int
    column: int


class Profile(DataFiles):
    """One data set, read once.

    Args:
        role: "train", "valid" or "test".
        options: how it is read.
        gain: "exponential", "linear" or a table: what labels are worth.

    Attributes:
        parts: its files.
        counts: those of the reader, its N_STATE slots.
        broken: why files could not be read to the end, or do not fit what lies beside them.
        refused: the first rows that cannot be read.
        stand_ins, stand_in_rows: words for missing values that were not announced; rows with them.
        labels: how often each occurs, while there are no more than MOST_LABELS.
        negative, fractional, largest: documents with such a label.
        same, contradicting: documents with the features of another one of their query, and its label or another.
        empty_rows: documents without a feature that is not 0.
        live: queries with different labels.
        columns, extremes: the tables of `column_stats`, a row a feature.
        line: of each query, its first.
        ids: of each query, its id, or a hash of it when it is text.
        sizes, low, high: of each query, its documents, smallest and largest label.
        falling: of each query, whether its documents stand in order of falling labels.
        hashes: of each row, of its features.
        feature_names: number -> name of features; none where the files name none.
        space: the columns of a table, which later sets must have; None of libsvm text.
    """

    def __init__(self, role: str, options: LibsvmOptions, gain: str | tuple[float, ...]) -> None:
        super().__init__(options)
        self.role, self.gain = role, gain
        self.refused: list[FileFormatError] = []
        self.broken: list[FileFormatError] = []
        self.stand_ins: dict[str, StandIn] = {}
        self.stand_in_rows = 0
        self.labels: dict[float, Label] = {}
        self.many_labels = False
        self.negative, self.fractional, self.largest, self.empty_rows = Label(), Label(), Label(), Label()
        self.low_label, self.high_label = np.inf, -np.inf
        self.same, self.contradicting = Alike(), Alike()
        self.live = self._n_seen = 0
        self.unterminated: list[str] = []
        self.columns = np.zeros((0, column_stats.N_COUNTS), np.int64)
        self.extremes = np.zeros((0, column_stats.N_VALUES), np.float32)
        self._seen, self._first = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
        self._kept: dict[str, list[Any]] = {name: [] for name in _KINDS}
        self.grouped_by_file = False
        self.feature_names: dict[int, str] = {}
        self.space: FeatureSpace | None = None

    # Reading ---------------------------------------------------------------------------------------------------------

    def read(
        self, source: AnySource, threads: int, progress: Progress, table: Any = None, labelled: bool = True
    ) -> None:
        """Go over the files once; what cannot be read is noted, and ends the pass when nothing behind it can be.

        Args:
            source, threads, progress, labelled: as of `look_at`.
            table: `boostrank.data.readers.ReaderSpec.table`.
        """
        cutter = Cutter()
        try:
            open_one = open_source if table is None else table.open(self.options, labelled=labelled)
            with closing(Opened(expand(source), self.options.max_bytes, open_one)) as opened:
                for batch in self._batches(opened, cutter, threads, progress, table):
                    self._add(batch)
        except FileFormatError as error:
            self.broken.append(error)
        for batch in cutter.rest():
            self._add(batch)
        for name, arrays in self._kept.items():
            setattr(self, name, np.concatenate(arrays) if arrays else np.zeros(0, _KINDS[name]))
        self._kept.clear()
        if self.n_rows == 0 and not self.broken and self.parts:
            words = "no row can be read" if self.counts[parse.BAD_ROWS] else NO_ROWS
            self.broken.append(FileFormatError(words, file=self.parts[0].name))
        if not self.broken and not self.counts[parse.BAD_ROWS]:
            self._check_sidecars()

    def _batches(
        self, opened: Opened, cutter: Cutter, threads: int, progress: Callable[..., None] | None, table: Any
    ) -> Iterator[Batch]:
        parser: Any
        if table is None:
            parser = parser_of(self.options, opened.first, LinedParser)
            self.grouped_by_file = not parser.options[parse.EXPECT_QID]
            self.feature_names = names_in_head(opened.first.head, opened.first.name)
            given: Any = self.options.feature_names
            if given:
                self.feature_names = dict(enumerate(given, 1)) if isinstance(given, tuple) else given
        else:
            parser = LinedTables(TableParser(self.options))  # type: ignore[arg-type]
            columns: Columns = opened.first.columns  # type: ignore[attr-defined]
            self.grouped_by_file = columns.qid is None
            self.feature_names = dict(enumerate(columns.names))
            coded = {columns.names[columns.places.index(place)]: Categories(()) for place in columns.coded}
            self.space = FeatureSpace(None, len(columns.names), columns.names, columns.how, coded)
        current, ends = None, np.zeros(0, np.int64)
        for source, block in parsed(opened, parser, CHUNK_BYTES, threads):
            assert isinstance(block, LinedBlock)
            if source is not current:
                current = source
                self.enter(source.name, source.path)
                if self.grouped_by_file and (sizes := some_sizes(self.parts[-1].sizes_file)):
                    ends = self.n_rows + np.cumsum(sizes)
            self._count(block)
            self._note_faults(block)
            if block.n_rows:
                assert block.sparse is not None
                rows = Rows(self.options.relabelled(block.labels), block.lines + self.n_lines, *block.sparse)
                starts = self._starts_of_sizes(ends, rows) if self.grouped_by_file else self._starts_of_runs(block)
                yield from cutter.add(rows, starts)
            self.n_rows += block.n_rows
            self.n_lines += int(block.counts[parse.LINES])
            if progress is not None:
                progress(opened.done, opened.total)

    def _note_faults(self, block: LinedBlock) -> None:
        if block.unterminated:
            self.unterminated.append(self.parts[-1].name)
        self.stand_in_rows += block.stand_in_rows
        for word, row in block.stand_ins.items():
            token = row.text[row.at :].split(maxsplit=1)[0]
            column = row.at + token.index(b":") + 2
            self.stand_ins.setdefault(word.decode(), StandIn(word.decode(), self._through(row.line), column))
        self.refused += map(self._why_refused, block.bad[: SHOWN_ROWS - len(self.refused)])

    def _starts_of_runs(self, block: LinedBlock) -> Int64Array:
        """First row of each query that begins in the chunk."""
        before = self.n_queries
        runs, names = self._add_runs(block)
        ids = runs[:, parse.RUN_ID].copy()
        for i, name in names.items():
            ids[i - before] = hash(name)
        self._kept["ids"].append(ids)
        self._kept["line"].append(runs[:, parse.RUN_LINE])
        return runs[:, parse.RUN_ROW] - self.n_rows

    def _starts_of_sizes(self, ends: Int64Array, rows: Rows) -> Int64Array:
        """The same where sizes beside the file tell the queries; rows that they do not cover are one query."""
        begins = np.unique(np.concatenate([[self.parts[-1].rows], ends]))
        inside = (begins >= self.n_rows) & (begins < self.n_rows + rows.labels.size)
        starts = (begins[inside] - self.n_rows).astype(np.int64)
        self._kept["ids"].append(np.arange(starts.size) + self.n_queries)
        self.n_queries += starts.size
        self._kept["line"].append(rows.lines[starts])
        return starts

    def _check_sidecars(self) -> None:
        """Sizes and weights beside the files fit, as far as one file alone can tell."""
        for part, _, queries in self.spans():
            sizes, weights = np.asarray(self.sizes[queries], np.int64), part.weights_file
            try:
                if part.sizes_file is not None:
                    check_sizes(part.sizes_file, sizes, part.name)
                if weights is not None:
                    weighted(weights, read_weights(weights, int(sizes.sum())), QueryIndex.from_sizes(sizes))
            except FileFormatError as error:
                self.broken.append(error)

    # What is found in the rows ---------------------------------------------------------------------------------------

    def _add(self, batch: Batch) -> None:
        rows, ptr = batch
        query = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
        order = np.lexsort((rows.labels, query))
        hashes = np.empty(query.size, np.uint64)
        self._widen(self.top.top_id + 1)
        self.live = column_stats.add_queries(
            ptr, order, rows.labels, rows.ends, rows.ids, rows.values, rows.values.view(np.int32), self._n_seen,
            self.live, self.columns, self.extremes, self._seen, self._first, hashes,
        )  # fmt: skip
        labels = rows.labels
        steps_up = np.zeros(labels.size, np.int64)
        steps_up[1:] = labels[1:] > labels[:-1]
        steps_up[ptr[:-1]] = 0
        ranges = {
            "sizes": np.diff(ptr), "low": labels[order[ptr[:-1]]], "high": labels[order[ptr[1:] - 1]],
            "falling": np.add.reduceat(steps_up, ptr[:-1]) == 0, "hashes": hashes,
        }  # fmt: skip
        self._n_seen += ptr.size - 1
        for name, array in ranges.items():
            self._kept[name].append(array)
        self._add_labels(rows)
        self._add_alike(rows, query, hashes)
        empty = np.flatnonzero(hashes == column_stats.EMPTY)
        if empty.size:
            self.empty_rows.add(empty.size, rows.lines[empty[0]])

    def _widen(self, width: int) -> None:
        have = len(self.columns)
        more = min(max(width, 2 * have), MOST_FEATURES) - have
        if width <= have or more == 0:
            return
        self.columns = np.pad(self.columns, ((0, more), (0, 0)))
        extremes = np.tile(np.array([np.inf, -np.inf, -np.inf], np.float32), (more, 1))
        self.extremes = np.concatenate([self.extremes, extremes])
        self._seen = np.pad(self._seen, ((0, more), (0, 0)), constant_values=-1)
        self._first = np.pad(self._first, (0, more))

    def _add_labels(self, rows: Rows) -> None:
        found, first, counts = np.unique(rows.labels, return_index=True, return_counts=True)
        lines = rows.lines[first]
        for kind, which in ((self.negative, found < 0), (self.fractional, found != np.floor(found))):
            if which.any():
                kind.add(counts[which].sum(), lines[which].min())
        self.low_label = min(self.low_label, float(found[0]))
        if found[-1] > self.high_label:
            self.high_label, self.largest = float(found[-1]), Label()
        if found[-1] == self.high_label:
            self.largest.add(counts[-1], lines[-1])
        self.many_labels = self.many_labels or len(self.labels) + found.size > MOST_LABELS
        if not self.many_labels:
            for label, count, line in zip(found.tolist(), counts.tolist(), lines.tolist(), strict=True):
                self.labels.setdefault(label, Label()).add(count, line)

    def _add_alike(self, rows: Rows, query: Int64Array, hashes: UInt64Array) -> None:
        """Documents with the features of another one of the query, with another label or the same."""
        keys = np.sort(hashes ^ (query.astype(np.uint64) * _ODD))
        if not np.any(keys[1:] == keys[:-1]):
            return
        order = np.lexsort((rows.labels, hashes, query))
        group = np.ones(order.size, bool)
        group[1:] = (query[order[1:]] != query[order[:-1]]) | (hashes[order[1:]] != hashes[order[:-1]])
        starts, number = np.flatnonzero(group), np.cumsum(group) - 1
        sizes = np.diff(starts, append=order.size)
        contradict = rows.labels[order[starts]] != rows.labels[order[starts + sizes - 1]]
        for alike, which in ((self.contradicting, contradict), (self.same, ~contradict)):
            chosen = ((sizes > 1) & which)[number]
            alike.add(order[chosen], number[chosen], query, rows.lines)

    # What the checks ask ---------------------------------------------------------------------------------------------

    line: Int64Array
    ids: Int64Array
    sizes: Int64Array
    low: Float64Array
    high: Float64Array
    falling: npt.NDArray[np.bool_]
    hashes: UInt64Array

    @property
    def base(self) -> int:
        """The number of the first feature."""
        base = self.options.base
        return int(not self.has_zero) if base is None else base

    def feature(self, number: int) -> str:
        """What a feature is called: `feature 3`, or `feature 'bm25'`."""
        name = self.feature_names.get(number)
        return f"feature {number if name is None else repr(name)}"

    def finding(
        self, check: str, severity: Severity, line: int, count: int, message: str, cost: str, fix: str
    ) -> Finding:  # fmt: skip
        """A finding at a line counted through all files of the data set; 0 means the whole."""
        return Finding(check, severity, *self.place(int(line)), 0, int(count), message, cost, fix)

    def place(self, line: int) -> tuple[str, int]:
        return super().place(line) if self.parts else (self.role, 0)

    def qid(self, query: int) -> str:
        """Its id as it is in the file."""
        name = self.names.get(query)
        return str(self.ids[query]) if name is None else name.decode()

    def of_queries(self, count: int) -> str:
        """`12 of 300 queries (4.0%)`."""
        return f"{count:,} of {self.n_queries:,} queries ({percent(count, self.n_queries)})"

    def of_rows(self, count: int) -> str:
        """`12 of 300 documents (4.0%)`."""
        return f"{count:,} of {self.n_rows:,} documents ({percent(count, self.n_rows)})"
