"""Parsed text as batches of whole queries, with the line of every row."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.blocks import Block, Parser, Scratch
from boostrank.data.libsvm.chunks import Text
from boostrank.data.libsvm.parser import Int32Array
from boostrank.data.libsvm.reasons import STAND_INS, BadRow
from boostrank.data.tables.categories import LARGEST_CODE
from boostrank.data.tables.parser import TableParser

CHUNK_BYTES = 4 << 20


@dataclass
class LinedBlock(Block):
    """A parsed chunk, its cells sparse.

    Args:
        lines: the 1-based line, in the chunk, of each row.
        stand_ins: word for a missing value -> the first row with it.
        stand_in_rows: rows that cannot be read but for these words.
    """

    lines: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    stand_ins: dict[bytes, BadRow] = field(default_factory=dict)
    stand_in_rows: int = 0


class LinedParser(Parser):
    """Skips rows that cannot be read, reads stand-ins for missing values as such, and tells both."""

    may_be_dense = False

    def __init__(self, options: Int64Array, missing_tokens: Sequence[bytes]) -> None:
        options = options.copy()
        options[[parse.SKIP, parse.KEEP_COMMENTS]] = 1  # where a comment would begin tells the line
        options[parse.STRICT] = 0
        super().__init__(options, missing_tokens)
        self._missing_tokens = list(missing_tokens)

    def _parse(self, text: Text, scratch: Scratch, keep_comments: bool) -> LinedBlock:
        block = LinedBlock(**vars(super()._parse(text, scratch, False)))
        block.lines = np.arange(1, block.n_rows + 1)
        if block.counts[parse.LINES] != block.n_rows:
            newlines = np.frombuffer(text.buffer, np.uint8, text.end - text.start, text.start) == parse.NEWLINE
            ends = np.flatnonzero(newlines) + text.start
            block.lines = np.searchsorted(ends, scratch.comments[: block.n_rows, 0]) + 1
        words: dict[bytes, BadRow] = {}  # those that stand for a missing value, and the first row of each
        for row in reversed(block.bad):
            if row.code == parse.VALUE:
                word = row.text[row.at :].split(maxsplit=1)[0].partition(b":")[2].partition(b"#")[0]
                words |= {word: row} if word.lower() in STAND_INS else {}
        if words:
            again = LinedParser(self.options, [*self._missing_tokens, *words])._parse(text, scratch, False)
            again.stand_ins = words | again.stand_ins
            again.stand_in_rows += int(block.counts[parse.BAD_ROWS] - again.counts[parse.BAD_ROWS])
            return again
        return block


class LinedTables:
    """The same of tables: what a `TableParser` makes, with sparse cells."""

    def __init__(self, parser: TableParser) -> None:
        self._parser = parser

    def __call__(self, load: Callable[[None], Any]) -> LinedBlock:
        block = self._parser(load)
        lined = LinedBlock(block.labels, block.counts, runs=block.runs, names=block.names, bad=block.bad)
        lined.lines, lined.unterminated = block.lines, block.unterminated
        rows = np.zeros((0, 1), np.float32) if block.dense is None else block.dense
        for j, values in block.values.items():  # codes that are the same in every set
            codes = [zlib.crc32(str(value).encode()) % LARGEST_CODE for value in values]
            known = ~np.isnan(rows[:, j])
            rows[known, j] = np.array([*codes, 0], np.float32)[rows[known, j].astype(np.int64)]
        stored = rows.view(np.uint32) != 0
        ends = np.cumsum(np.count_nonzero(stored, axis=1), dtype=np.int64)
        lined.sparse = ends, np.nonzero(stored)[1].astype(np.int32), rows[stored]
        return lined


@dataclass
class Rows:
    """Some rows: labels, lines (counted through all files), and where the cells of each end; the cells."""

    labels: Float64Array
    lines: Int64Array
    ends: Int64Array
    ids: Int32Array
    values: Float32Array

    def part(self, a: int, b: int) -> Rows:
        """Rows a to b."""
        begin = int(self.ends[a - 1]) if a else 0
        end = int(self.ends[b - 1]) if b else 0
        return Rows(self.labels[a:b], self.lines[a:b], self.ends[a:b] - begin, self.ids[begin:end],
                    self.values[begin:end])  # fmt: skip


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    shift = np.cumsum([0, *(part.ids.size for part in parts)])
    return Rows(
        np.concatenate([p.labels for p in parts]), np.concatenate([p.lines for p in parts]),
        np.concatenate([p.ends + s for p, s in zip(parts, shift, strict=False)]),
        np.concatenate([p.ids for p in parts]), np.concatenate([p.values for p in parts]),
    )  # fmt: skip


Batch = tuple[Rows, Int64Array]
"""Whole queries: the rows, and ptr; query q has the rows ptr[q] to ptr[q+1]."""


class Cutter:
    """Cuts rows that come in chunks between queries: the last query of a chunk waits for its rest."""

    def __init__(self) -> None:
        self._waiting: list[Rows] = []

    def add(self, rows: Rows, starts: Int64Array) -> Iterator[Batch]:
        """The next rows; `starts` says where queries begin, the rows before the first continue the query before."""
        before = sum(part.labels.size for part in self._waiting)
        if not starts.size:
            self._waiting.append(rows)
            return
        last, ptr = int(starts[-1]), np.append([0] if self._waiting else [], starts + before).astype(np.int64)
        complete = _joined([*self._waiting, rows.part(0, last)])
        self._waiting = [rows.part(last, rows.labels.size)]
        if complete.labels.size:
            yield complete, ptr

    def rest(self) -> Iterator[Batch]:
        """The last query."""
        if self._waiting:
            rows = _joined(self._waiting)
            yield rows, np.array([0, rows.labels.size], np.int64)
