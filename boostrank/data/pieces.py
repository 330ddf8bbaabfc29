"""Whole queries of data files of any size, in pieces of lines or record batches that are copied unchanged."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.errors import DataWarning, FileFormatError, warn_user
from boostrank.data import blocks as slots
from boostrank.data.assemble import NO_ROWS
from boostrank.data.blocks import Fault
from boostrank.data.options import Progress
from boostrank.data.side_files import WEIGHT_SUFFIX, find_sidecar
from boostrank.data.source import AnySource, LineTooLong, Reading, Source, expand, format_of
from boostrank.data.tables.columnar import ColumnarSource
from boostrank.data.tables.source import arrow

STANDARD_STREAM = "-"
SORT = "boostrank data sort brings its rows together"
CHUNK_BYTES = 4 << 20
# Matches rows; a label is a number, so the first qid is the query id.
_ROW_TO_QID = re.compile(rb"^[ \t]*[^ \t\r\n#].*?qid:", re.MULTILINE)
_MOST_COMMENTS = 16 << 20  # waiting for the next row
_LINE_BITS = 48


class DataFiles:
    """Files of one format and how to read them; arguments as for `split`."""

    def __init__(self, source: AnySource, progress: Progress, reading: Mapping[str, Any]) -> None:
        self.files, self._progress = expand(source), progress
        self._reading = {name: value for name, value in reading.items() if name != "format"}
        self.spec = format_of(self.files, reading.get("format", "auto"))

    @contextmanager
    def again(self, needed: bool = True) -> Iterator[None]:
        """Copy streams to temporary files, so that `pieces` can read them again."""
        with ExitStack() as stack:
            for i, one in enumerate(self.files if needed else ()):
                if isinstance(one, str | os.PathLike) and os.path.isfile(one):
                    continue
                copy, name = stack.enter_context(tempfile.TemporaryFile()), getattr(one, "name", "<stream>")
                if isinstance(one, str | os.PathLike):
                    name = "<stdin>" if one == STANDARD_STREAM else os.fspath(one)
                    one = sys.stdin.buffer if one == STANDARD_STREAM else stack.enter_context(open(one, "rb"))
                shutil.copyfileobj(one, copy)
                self.files[i] = SimpleNamespace(name=name, read=copy.read, seek=copy.seek)  # type: ignore[call-overload]
            yield

    @property
    def columnar(self) -> bool:
        """Whether rows are read as record batches."""
        return issubclass(self.spec.source, ColumnarSource)

    def pieces(self) -> Iterator[Piece]:
        """Yield the queries of the files, in order, in pieces of at most a chunk (or a line).

        Query ids are parsed as strictly as by `read_files`, as are the labels of libsvm text; the rest of a row is not
        parsed. A missing final newline is added.
        """
        for one in self.files:
            if isinstance(one, SimpleNamespace):
                one.seek(0)
        with closing(self.spec.source(self.files, Reading(**self._reading, whole=True))) as opened:
            yield from _pieces(opened, self._progress)

    def whole(self) -> Iterator[Piece]:
        """Yield the pieces of contiguous queries."""
        whole = Whole(SORT)
        for piece in self.pieces():
            whole.add(piece)
            yield piece


class Piece(NamedTuple):
    """Rows of one query, unchanged.

    Args:
        text: whole lines, with the comments and blank lines before each row; or a record batch.
        begins: whether the query begins here; otherwise it continues the previous piece.
        line: line of the first row.
        head: header of the file: a line, or a schema.
        column: position of the query ids in a table.
        delimiter: separator of the cells of a text table.
    """

    qid: bytes
    text: Any
    rows: int
    begins: bool
    file: str
    line: int
    head: Any = b""
    column: int = 0
    delimiter: str = ""

    def renamed(self, prefix: str) -> Piece:
        """Return the piece with a prefix before its query ids; those of columns become text."""
        start, text, head = prefix.encode(), self.text, self.head
        if isinstance(text, memoryview):
            row = _ROW_TO_QID
            if self.delimiter:
                cell = rf'(?:"(?:[^"\n]|"")*"|[^{self.delimiter}\n]*){self.delimiter}'
                row = re.compile(rf'^(?=[^\r\n])(?:{cell}){{{self.column}}}[ \t]*"?'.encode(), re.MULTILINE)
            text = memoryview(row.sub(rb"\g<0>" + start, bytes(text)))
        else:
            pa, name = arrow(), head.names[self.column]
            ids = pa.array([prefix + self.qid.decode()]).take(pa.array(np.zeros(self.rows, np.int64)))
            head = head.set(self.column, pa.field(name, pa.string()))
            columns = [*text.columns[: self.column], ids, *text.columns[self.column + 1 :]]
            text = pa.RecordBatch.from_arrays(columns, schema=head)
        return self._replace(qid=start + self.qid, text=text, head=head)


def _pieces(opened: Source, progress: Progress) -> Iterator[Piece]:
    current, last, before, rows, carry = None, b"", 0, 0, b""
    latest = b""  # last query of any file: trailing comments stay with it
    for file, load in opened.loads(CHUNK_BYTES, 1):
        if file is not current:
            if current is not None:
                yield from _tail(last, carry, current.name, before)
                carry = carry if not last else b""
                opened.leave(current)
            current, last, before = file, b"", opened.header_lines
            if (weights := find_sidecar(file.path, (WEIGHT_SUFFIX,))) is not None:
                warn_user(f"{weights}: weights are not copied", DataWarning)
        if load is None:
            continue
        try:
            chunk = opened.whole_rows(load)  # in a new buffer: pieces of the old one may still be in use
        except LineTooLong as error:
            raise error.within(file.name, before) from None
        if chunk.unterminated:
            warn_user(f"{file.name}: the last line has no newline; the file may be truncated", DataWarning)
        begin, starts = 0, chunk.runs[:, slots.RUN_ROW].tolist()
        for i, (start, stop) in enumerate(pairwise([*starts, chunk.rows])):
            qid, line = (
                chunk.names.get(i) or b"%d" % chunk.runs[i, slots.RUN_ID],
                before + int(chunk.runs[i, slots.RUN_LINE]),
            )
            end, text = chunk.ends[i], chunk.text
            text = text[begin:end] if isinstance(text, memoryview) else text.slice(begin, end - begin)
            text, carry = memoryview(carry + text) if carry else text, b""
            delimiter = getattr(opened, "delimiter", "")
            yield Piece(qid, text, stop - start, qid != last, file.name, line, chunk.head, chunk.column, delimiter)
            begin, last, latest, rows = end, qid, qid, rows + stop - start
        if chunk.fault is not None:
            raise chunk.fault.error(file.name, before, by_row=opened.by_row)
        if isinstance(chunk.text, memoryview):
            carry += chunk.text[begin:]  # comments and blank lines stay with the next row
        if len(carry) > _MOST_COMMENTS:
            if not last:
                raise FileFormatError(f"no row in the first {_MOST_COMMENTS >> 20} MiB", file=file.name)
            yield from _tail(last, carry, file.name, before)
            carry = b""
        before += chunk.lines
        if progress is not None:
            progress(opened.done, opened.total)
    yield from _tail(latest, carry, file.name, before)
    opened.leave(file)
    if rows == 0:
        raise FileFormatError(NO_ROWS, file=opened.first.name)


def _tail(qid: bytes, carry: bytes, file: str, line: int) -> Iterator[Piece]:
    """Yield comments after the last row of a file, which stay with it."""
    if carry and qid:
        yield Piece(qid, memoryview(carry), 0, False, file, line)


def draw(qid: bytes, seed: int, purpose: bytes) -> int:
    """Return a hash below 2^64 of query id, seed and purpose, independent of the file."""
    digest = hashlib.blake2b(qid, digest_size=8, key=str(seed).encode()[:64], person=purpose)
    return int.from_bytes(digest.digest(), "little")


class Whole:
    """Check that queries are contiguous, in about 150 bytes per query; `mend` is the remedy for the message."""

    def __init__(self, mend: str) -> None:
        self._mend = mend
        self._seen: dict[bytes, int] = {}  # number of the file and line of the first row
        self._files: list[str] = []

    def add(self, piece: Piece) -> None:
        """Add the next piece."""
        if self._files[-1:] != [piece.file]:
            self._files.append(piece.file)
        here = (len(self._files) - 1 << _LINE_BITS) + piece.line
        first = self._seen.setdefault(piece.qid, here) if piece.begins else here
        if first != here:
            by_row, line = not isinstance(piece.head, bytes), first & ((1 << _LINE_BITS) - 1)
            seen = f"{'row' if by_row else 'line'} {line}"
            if len(self._files) > 1:
                seen = f"{self._files[first >> _LINE_BITS]}:{f' row {line}' if by_row else line}"
            words = f"qid {piece.qid.decode()} reappears; it was first seen on {seen}: {self._mend}"
            raise Fault(piece.line, words).error(piece.file, 0, by_row=by_row)
