"""Profile of a data set: statistics from one pass over its rows, the input of the checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.errors import BoostrankError, FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data import blocks as slots
from boostrank.data.assemble import NO_ROWS, Totals
from boostrank.data.blocks import Block
from boostrank.data.doctor import column_stats
from boostrank.data.doctor.finding import Finding, Severity, percent
from boostrank.data.names import name_in
from boostrank.data.options import FeatureSpace, Progress
from boostrank.data.side_files import check_sizes, read_weights, some_sizes, weighted
from boostrank.data.source import AnySource, Reading, Source, open_files
from boostrank.data.tables.batches import batches
from boostrank.data.tables.source import TableSource
from boostrank.data.text.files import lines_of

CHUNK_BYTES = 4 << 20
SHOWN_ROWS = 5  # refused rows listed individually
MOST_LABELS = 1000  # distinct labels counted individually
_WIDTH = 2**31 - 1
MOST_FEATURES = 1 << 20  # features examined individually: 100 MiB

UInt64Array = npt.NDArray[np.uint64]
_QUOTED, _NUMBERS = re.compile(r"'.*?'(?=\W|$)|\".*?\""), re.compile(r"\d[\d.,]*")
_ODD = np.uint64(0x9E3779B97F4A7C15)
_KINDS: dict[str, npt.DTypeLike] = {
    "line": np.int64,
    "ids": np.int64,
    "sizes": np.int64,
    "low": np.float64,
    "high": np.float64,
    "hashes": np.uint64,
}


@dataclass
class Label:
    """Number of documents with a label, and line of the first."""

    count: int = 0
    line: int = 0

    def add(self, count: int, line: int) -> None:
        """Add documents and the line of their first."""
        self.count, self.line = self.count + int(count), self.line or int(line)


@dataclass
class Alike:
    """Documents that equal another one of their query: number, number of queries, lines of the first two."""

    rows: int = 0
    queries: int = 0
    line: int = 0
    twin: int = 0

    def add(self, rows: Int64Array, groups: Int64Array, queries: Int64Array, lines: Int64Array) -> None:
        """Add documents: rows and their groups of equal ones, with query and line of every row."""
        if rows.size:
            if not self.line:
                pair = np.sort(rows[groups == groups[np.argmin(rows)]])
                self.line, self.twin = int(lines[pair[0]]), int(lines[pair[1]])
            self.rows += rows.size
            self.queries += np.unique(queries[rows]).size


@dataclass
class Rows:
    """Rows: labels, lines (counted over all files), and the cells as a CSR matrix."""

    labels: Float64Array
    lines: Int64Array
    cells: Any

    def __getitem__(self, rows: Any) -> Rows:
        return Rows(self.labels[rows], self.lines[rows], self.cells[rows])


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    labels, lines = (np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "lines"))
    return Rows(labels, lines, sparse.vstack([part.cells for part in parts], format="csr"))


Batch = tuple[Rows, Int64Array]
"""Whole queries: the rows, and ptr; query q has rows ptr[q] to ptr[q+1]."""


class Cutter:
    """Splits a stream of rows between queries: the last query of a chunk waits for its remaining rows."""

    holds = False

    def __init__(self) -> None:
        self._waiting: list[Rows] = []
        self._starts: list[Int64Array] = []

    def add(self, rows: Rows, starts: Int64Array) -> Iterator[Batch]:
        """Add rows; `starts` are the starts of queries, and rows before the first continue the previous query."""
        before = sum(part.labels.size for part in self._waiting)
        if self.holds:
            self._starts.append(starts + before)
        if not starts.size or self.holds:
            self._waiting.append(rows)
            return
        last, ptr = int(starts[-1]), np.append([0] if self._waiting else [], starts + before).astype(np.int64)
        complete = _joined([*self._waiting, rows[:last]])
        self._waiting = [rows[last:]]
        if complete.labels.size:
            yield complete, ptr

    def rest(self) -> Iterator[Batch]:
        """Return the last query, or all held rows."""
        if self._waiting:
            rows = _joined(self._waiting)
            starts = self._starts or [np.zeros(1, np.int64)]
            yield rows, np.append(np.concatenate(starts), rows.labels.size).astype(np.int64)


def _cause(reason: str) -> str:
    """Return the common part of a refusal: its message without value and numbers."""
    return _NUMBERS.sub("#", _QUOTED.sub("''", reason, count=1))


class Profile:
    """Statistics of one data set from one pass.

    Attributes:
        totals: files, lines, rows and queries; None if no file could be opened.
        broken: errors of files that cannot be read to the end, or that contradict their side files.
        causes: errors of the first refused rows, one per cause.
        stand_ins: word that seems to mark a missing value -> line and column of the first.
        same, contradicting: documents with the features of another one of their query, and its label or another.
        live: queries with different labels.
        columns, extremes: tables of `column_stats`, one row per feature.
        line, ids: first line and id of each query; a hash of the id if it is text.
        sizes, low, high: number of documents, smallest and largest label of each query.
        hashes: hash of the features of each row.
        space: columns of a table, which later sets must have; None for libsvm text.
    """

    def __init__(self, role: str, reading: Reading, gain: str | tuple[float, ...]) -> None:
        self.role, self.gain, self.reading = role, gain, reading
        self.causes: dict[str, FileFormatError] = {}
        self.text: dict[str, int] = {}
        self.text_words = "", ""
        self.scattered = False
        self.broken: list[FileFormatError] = []
        self.stand_ins: dict[str, tuple[int, int]] = {}
        self.stand_in_rows = 0
        self.labels: dict[float, Label] = {}
        self.many_labels = False
        self.negative, self.largest, self.empty_rows = Label(), Label(), Label()
        self.low_label, self.high_label = np.inf, -np.inf
        self.same, self.contradicting = Alike(), Alike()
        self.live = 0
        self.unterminated: list[str] = []
        self.columns = np.zeros((0, column_stats.N_COUNTS), np.int64)
        self.extremes = np.zeros((0, column_stats.N_VALUES), np.float32)
        self._kept: dict[str, list[Any]] = {name: [] for name in _KINDS}
        self.grouped_by_file = False
        self.feature_names: dict[int, str] = {}
        self.space: FeatureSpace | None = None
        self.totals: Totals | None = None

    def read(self, source: AnySource, format: str, threads: int, progress: Progress) -> None:
        """Read the files once. Errors are recorded, and end the pass if reading cannot continue."""
        cutter = Cutter()
        try:
            options = {field.name: getattr(self.reading, field.name) for field in fields(self.reading)}
            _, opened = open_files(source, format, **options)
            with closing(opened):
                self.totals = Totals(opened)
                for batch in self._batches(opened, self.totals, cutter, threads, progress):
                    self._add(batch)
        except FileFormatError as error:
            self.broken.append(error)
        for rows, ptr in cutter.rest():
            self._add(self._regrouped(rows, ptr) if cutter.holds else (rows, ptr))
        for name, arrays in self._kept.items():
            setattr(self, name, np.concatenate(arrays) if arrays else np.zeros(0, _KINDS[name]))
        self._kept.clear()
        if self.n_rows == 0 and not self.broken and self.parts and not self.causes:
            self.broken.append(FileFormatError(NO_ROWS, file=self.parts[0].name))
        if not self.broken and not self.counts[slots.BAD_ROWS]:
            self._check_sidecars()

    def _batches(
        self, opened: Source, totals: Totals, cutter: Cutter, threads: int, progress: Progress
    ) -> Iterator[Batch]:
        self.grouped_by_file, ends, file = not opened.has_qid, np.zeros(0, np.int64), None
        cutter.holds = self.reading.regroup and opened.has_qid
        self.feature_names = dict(opened.numbered_names())
        for current, block in opened.blocks(CHUNK_BYTES, threads):
            if totals.n_rows == 0 or current is not file:
                self.space = opened.space()
            runs, names = totals.count(current, block)
            if current is not file:
                file = current
                if self.grouped_by_file and (sizes := some_sizes(self.parts[-1].sizes_file)):
                    ends = self.n_rows + np.cumsum(sizes)
            self._note_faults(block)
            if block.n_rows:
                row_ends, ids, values = block.cells()
                cells = sparse.csr_matrix((values, ids, np.append(0, row_ends)), (block.n_rows, _WIDTH))
                rows = Rows(self.reading.relabelled(block.labels), block.lines + self.n_lines, cells)
                by_file = self.grouped_by_file
                starts = self._starts_of_sizes(ends, rows) if by_file else self._starts_of_runs(runs, names)
                yield from cutter.add(rows, starts)
            totals.advance(block)
            if progress is not None:
                progress(opened.done, opened.total)
        self.space = opened.space()
        if isinstance(opened, TableSource) and opened.text:
            self.text, self.text_words = opened.text, opened.text_words(self.n_rows)

    def _note_faults(self, block: Block) -> None:
        assert self.totals is not None
        if block.unterminated:
            self.unterminated.append(self.parts[-1].name)
        self.stand_in_rows += block.stand_in_rows
        for word, (line, column) in block.stand_ins.items():
            self.stand_ins.setdefault(word, (self.totals.through(line), column))
        before = int(self.counts[slots.BAD_ROWS] - block.counts[slots.BAD_ROWS])
        for fault in block.bad[: max(0, slots.BAD_KEPT - before)]:  # independent of how the files are split into chunks
            self.causes.setdefault(_cause(fault.reason), self.totals.why_refused(fault))

    def _starts_of_runs(self, runs: Int64Array, names: dict[int, bytes]) -> Int64Array:
        """Return the first row of each query that begins in the block."""
        ids, before = runs[:, slots.RUN_ID].copy(), self.n_queries - len(runs)
        for i, name in names.items():
            ids[i - before] = hash(name)
        self._kept["ids"].append(ids)
        self._kept["line"].append(runs[:, slots.RUN_LINE])
        return runs[:, slots.RUN_ROW] - self.n_rows

    def _starts_of_sizes(self, ends: Int64Array, rows: Rows) -> Int64Array:
        """Return the same from the side file of sizes; rows beyond the sizes are one query."""
        assert self.totals is not None
        begins = np.unique(np.concatenate([[self.parts[-1].rows], ends]))
        inside = (begins >= self.n_rows) & (begins < self.n_rows + rows.labels.size)
        starts = (begins[inside] - self.n_rows).astype(np.int64)
        self._kept["ids"].append(np.arange(starts.size) + self.n_queries)
        self.totals.n_queries += starts.size
        self._kept["line"].append(rows.lines[starts])
        return starts

    def _regrouped(self, rows: Rows, ptr: Int64Array) -> Batch:
        """Bring the rows of each query together, as the reader does."""
        assert self.totals is not None
        ids, line = (np.concatenate(self._kept[name]) for name in ("ids", "line"))
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        owner, sizes = first[inverse], np.diff(ptr)
        self.scattered = bool(np.any(owner != np.arange(owner.size)))
        kept = np.sort(first)
        self._kept |= {"ids": [ids[kept]], "line": [line[kept]]}
        names = {new: self.names[old] for new, old in enumerate(kept.tolist()) if old in self.names}
        self.totals.names, self.totals.n_queries = names, kept.size
        order = np.argsort(np.repeat(owner, sizes), kind="stable")
        return rows[order], np.append(0, np.cumsum(np.bincount(owner, sizes)[kept])).astype(np.int64)

    def _check_sidecars(self) -> None:
        """Record sizes and weights that contradict the files, as far as single files show."""
        if self.scattered:
            return
        for part, _, queries in self.totals.spans() if self.totals else ():
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
        cells = rows.cells
        query = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
        order = np.lexsort((rows.labels, query))
        hashes = np.empty(query.size, np.uint64)
        self._widen(self.top.top_id + 1)
        self.live = column_stats.add_queries(
            ptr,
            order,
            rows.labels,
            cells.indptr[1:].astype(np.int64),
            cells.indices.astype(np.int32, copy=False),
            cells.data,
            cells.data.view(np.int32),
            self.live,
            self.columns,
            self.extremes,
            hashes,
        )
        labels = rows.labels
        ranges = {
            "sizes": np.diff(ptr),
            "low": labels[order[ptr[:-1]]],
            "high": labels[order[ptr[1:] - 1]],
            "hashes": hashes,
        }
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

    def _add_labels(self, rows: Rows) -> None:
        found, first, counts = np.unique(rows.labels, return_index=True, return_counts=True)
        lines = rows.lines[first]
        if found[0] < 0:
            self.negative.add(counts[found < 0].sum(), lines[found < 0].min())
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
        """Add documents with the features of another one of the query, with another label or the same."""
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
    hashes: UInt64Array

    n_rows = property(lambda self: self.totals.n_rows if self.totals else 0)
    n_lines = property(lambda self: self.totals.n_lines if self.totals else 0)
    n_queries = property(lambda self: self.totals.n_queries if self.totals else 0)
    parts = property(lambda self: self.totals.parts if self.totals else [])
    names = property(lambda self: self.totals.names if self.totals else {})
    counts = property(lambda self: self.totals.counts if self.totals else slots.no_counts())
    has_zero = property(lambda self: self.totals.has_zero if self.totals else False)
    top = property(lambda self: self.totals.top)
    at = property(lambda self: self.totals.at)

    @property
    def set_base(self) -> int | None:
        """Number of the first feature by options or training data; None if the files decide."""
        return self.totals.source.base if self.totals else 0

    @property
    def base(self) -> int:
        """Number of the first feature."""
        return int(not self.has_zero) if self.set_base is None else self.set_base

    def feature(self, number: int) -> str:
        """Format `feature 3`, or `feature 'bm25'`."""
        name = self.feature_names.get(number)
        return f"feature {number if name is None else repr(name)}"

    def finding(self, check: str, severity: Severity, line: int, count: int, *words: str) -> Finding:
        """Return a finding (message, cost, fix) at a line counted over all files of the data set; 0 means the whole."""
        return Finding(check, severity, *self.place(int(line)), 0, int(count), *words)

    def place(self, line: int) -> tuple[str, int]:
        """Return (file, line) of a line counted over all files."""
        return self.totals.place(line) if self.totals and self.parts else (self.role, 0)

    def document(self, line: int) -> str:
        """Format ` (D7)`, the name of the document at a line, for which its file is read again; "" if unknown."""
        assert self.totals is not None
        part = next(one for one in reversed(self.parts) if one.lines < line or one is self.parts[0])
        number, name = line - part.lines, ""
        column = None if self.space is None else self.space.columns.get("id")
        with suppress(BoostrankError, StopIteration):
            if part.path is not None and self.space is None:
                _, text = next(islice(lines_of(part.path), number - 1, None))
                name = name_in(text.partition(b"#")[2])
            elif part.path is not None and column is not None:
                for batch in batches(part.path, texts=[column]):
                    at = np.flatnonzero(batch.first + batch.cells.lines == number + self.totals.source.header_lines)
                    if at.size:
                        name = batch.cells.names(batch.cells.columns.header.index(column))[at[0]]
                        break
        return f" ({name})" if name else ""

    def qid(self, query: int) -> str:
        """Query id as in the file."""
        name = self.names.get(query)
        return str(self.ids[query]) if name is None else name.decode()

    def of_queries(self, count: int) -> str:
        """Format `12 of 300 queries (4.0%)`."""
        return f"{count:,} of {self.n_queries:,} queries ({percent(count, self.n_queries)})"

    def of_rows(self, count: int) -> str:
        """Format `12 of 300 documents (4.0%)`."""
        return f"{count:,} of {self.n_rows:,} documents ({percent(count, self.n_rows)})"
