"""Raw lines, query by query: for tools that pass rows on as they are."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np

from boostrank.core.errors import DataWarning, FileFormatError, warn_user
from boostrank.core.types import Int64Array
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.chunks import LineTooLong, Text
from boostrank.data.libsvm.reasons import NO_ROWS, BadRow, check_no_table
from boostrank.data.libsvm.side_files import WEIGHT_SUFFIX, find_sidecar
from boostrank.data.libsvm.sources import AnySource, Opened, expand
from boostrank.data.options import Progress

CHUNK_BYTES = 4 << 20
_SHORTEST_ROW = 8  # "0 qid:1\n"
_MOST_COMMENTS = 16 << 20  # that wait for the row that they belong to
_FIRST_CHECK = 1 << 10


class Piece(NamedTuple):
    """Whole lines of one query, as they are in the file; comments and blank lines go with the row that follows.

    Args:
        qid: of the query.
        text: the lines.
        rows: how many of them are rows.
        begins: whether the query begins here; otherwise it goes on from the piece before.
        file: where it lies.
        line: of its first row.
    """

    qid: bytes
    text: memoryview
    rows: int
    begins: bool
    file: str
    line: int


class _Scanner:
    """`scan_lines` with its arrays, which grow with the chunks."""

    def __init__(self) -> None:
        self.options = np.zeros(parse.N_OPTIONS, np.int64)
        self.options[parse.EXPECT_QID] = 1
        self.state = np.zeros(2 * parse.N_STATE, np.int64)
        self.fault = np.zeros(parse.N_BAD, np.int64)
        self._size = -1

    def __call__(self, text: Text) -> tuple[Int64Array, Int64Array]:
        """(runs, where each ends); `fault` and `state` tell the rest."""
        if text.end - text.start > self._size:
            self._size = text.end - text.start
            room = self._size // _SHORTEST_ROW + 2
            self.runs, self.ends = np.empty((room, parse.N_RUN), np.int64), np.empty(room, np.int64)
            self.labels = np.empty(room, np.float64)
        self.state[:] = 0
        parse.scan_lines(
            np.frombuffer(text.buffer, np.uint8), text.start, text.end, self.options, self.labels, self.runs,
            self.ends, self.fault, self.state,
        )  # fmt: skip
        count = int(self.state[parse.RUNS])
        return self.runs[:count], self.ends[:count]


def pieces(source: AnySource, progress: Progress = None) -> Iterator[Piece]:
    """The queries of the files, in order, in pieces of at most a chunk (or a line).

    Label and query id are read as strictly as by `read_libsvm`; the rest of a row is not looked at. A last line
    without newline gets one.

    Args:
        source, progress: as of `read_libsvm`.

    Raises:
        FileFormatError: a file or a row that cannot be read, or no rows at all.
    """
    with closing(Opened(expand(source))) as opened:
        yield from _pieces(opened, progress)


def _pieces(opened: Opened, progress: Progress) -> Iterator[Piece]:
    scan, current, last, lines, rows, carry = _Scanner(), None, b"", 0, 0, b""
    latest = b""  # query, of whatever file: comments behind the last row of all stay with it
    for source, load in opened.loads(CHUNK_BYTES, 1):
        if source is not current:
            if current is not None:
                yield from _tail(last, carry, current.name, lines)
                carry = carry if not last else b""
                opened.leave(current)
            current, last, lines = source, b"", 0
            check_no_table(source.head, source.name)
            if (weights := find_sidecar(source.path, (WEIGHT_SUFFIX,))) is not None:
                warn_user(f"{weights}: weights are not carried along", DataWarning)
        try:
            text = load(None)  # a new buffer: pieces of the old one may be in use
        except LineTooLong as error:
            raise error.within(source.name, lines) from None
        runs, ends = scan(text)
        end = text.end + text.unterminated  # the padding begins with the newline that is missing
        if text.unterminated:
            warn_user(f"{source.name}: the last line has no newline: maybe truncated", DataWarning)
        view, begin = memoryview(text.buffer), text.start
        counts = np.diff(runs[:, parse.RUN_ROW], append=scan.state[parse.ROWS]).tolist()
        for (_, line, id_start, id_end, _, _), stop, count in zip(runs.tolist(), ends.tolist(), counts, strict=True):
            qid = bytes(view[id_start:id_end])
            part = memoryview(carry + view[begin:stop]) if carry else view[begin:stop]
            yield Piece(qid, part, count, qid != last, source.name, lines + line)
            begin, last, latest, rows, carry = stop, qid, qid, rows + count, b""
        if scan.state[parse.BAD_ROWS]:
            raise BadRow.of(scan.fault.tolist(), text).error(source.name, lines)
        carry += view[begin:end]
        if len(carry) > _MOST_COMMENTS:
            if not last:
                raise FileFormatError(f"no row in the first {_MOST_COMMENTS >> 20} MiB", file=source.name)
            yield from _tail(last, carry, source.name, lines)
            carry = b""
        lines += int(scan.state[parse.LINES])
        if progress is not None:
            progress(opened.done, opened.total)
    yield from _tail(latest, carry, source.name, lines)
    opened.leave(source)
    if rows == 0:
        raise FileFormatError(NO_ROWS, file=opened.first.name)


def _tail(qid: bytes, carry: bytes, file: str, line: int) -> Iterator[Piece]:
    """Comments behind the last row of a file stay with it."""
    if carry and qid:
        yield Piece(qid, memoryview(carry), 0, False, file, line)


def draw(qid: bytes, seed: int, purpose: bytes) -> int:
    """A number below 2^64 that query id and seed decide: the same wherever the query stands, and in every file.

    Draws for two purposes are independent.
    """
    digest = hashlib.blake2b(qid, digest_size=8, key=str(seed).encode()[:64], person=purpose)
    return int.from_bytes(digest.digest(), "little")


class Whole:
    """Refuses a query whose rows do not follow each other, in about 40 bytes a query.

    Args:
        mend: what mends it.

    Two different ids are taken for one with a chance of 3e-8 in a million queries; the refusal then names them.
    """

    def __init__(self, mend: str) -> None:
        self._mend = mend
        self._keys, self._lines, self._ends = array("q"), array("q"), array("q")
        self._names = bytearray()
        self._files: list[tuple[int, str]] = []
        self._next_check = _FIRST_CHECK

    def add(self, piece: Piece) -> None:
        """The next piece; `check` when the number of queries has doubled."""
        if not piece.begins:
            return
        if not self._files or self._files[-1][1] != piece.file:
            self._files.append((len(self._keys), piece.file))
        self._keys.append(hash(piece.qid))
        self._lines.append(piece.line)
        self._names += piece.qid
        self._ends.append(len(self._names))
        if len(self._keys) >= self._next_check:
            self.check()
            self._next_check *= 2

    def check(self) -> None:
        """Look at all queries so far.

        Raises:
            FileFormatError: one came back.
        """
        keys = np.array(self._keys)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
        if not same.size:
            return
        again = int(order[same + 1].min())
        first = int(np.flatnonzero(keys == keys[again])[0])
        name = self._names[self._ends[again - 1] if again else 0 : self._ends[again]].decode()
        seen = f"line {self._lines[first]}" if len(self._files) == 1 else f"{self._file(first)}:{self._lines[first]}"
        words = f"qid {name} comes back; it was first seen on {seen}: {self._mend}"
        raise FileFormatError(words, file=self._file(again), line=self._lines[again])

    def _file(self, query: int) -> str:
        return next(name for begin, name in reversed(self._files) if begin <= query)
