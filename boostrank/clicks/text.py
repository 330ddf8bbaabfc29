"""Click logs as text: `row position impressions clicks`, a line for each row and position.

Rows count the documents of the data from 1, in the order of the file; lines of one row and position are added up. The
first line may name the columns; what stands behind `#` is passed over. A log by segment begins with the names of its
columns, the fifth of which is `segment`: a word each, in which `%20`, `%25` and `%23` stand for a blank, `%` and `#`.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import chain
from os import PathLike
from typing import Any, BinaryIO, TextIO
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import ClickLog, impossible
from boostrank.core.errors import DataError, FileFormatError
from boostrank.core.files import LONGEST_LINE, replacing, write_all
from boostrank.core.text import first_unfit
from boostrank.core.types import Int64Array
from boostrank.data.libsvm.decompress import LONGEST_MAGIC, Unpacker, is_packed

HEADER = "row position impressions clicks"
BY_SEGMENT = f"{HEADER} segment"
_LONGEST = 64
MAX_ROWS = 2**40
_LARGEST = 2**53
_AT_A_TIME = 1 << 16


def read_clicks(path: str | PathLike[str], n_documents: int | None = None) -> ClickLog:
    """The click log of a file, plain or compressed (gzip, bzip2, xz, zstd).

    Args:
        path: of the file.
        n_documents: of the data; None: those of the log alone, numbered anew.

    Raises:
        FileFormatError: a line that cannot be, or a file that cannot be read.
    """
    name, most = os.fspath(path), MAX_ROWS if n_documents is None else n_documents
    (rows, positions, impressions, clicks), words = read_entries(name, most)
    if n_documents is None:
        known, rows = np.unique(rows, return_inverse=True)
        n_documents = known.size
    return ClickLog(rows, positions, impressions, clicks, n_documents, *numbered(words))


def numbered(words: npt.NDArray[Any] | None) -> tuple[Int64Array | None, tuple[str, ...]]:
    """Segments and their names, as of a `ClickLog`, by the word of each entry."""
    if words is None:
        return None, ()
    named, segments = np.unique(words, return_inverse=True)
    return np.asarray(segments, np.int64), tuple(map(unquote, named.tolist()))


def read_entries(
    name: str, n_documents: int
) -> tuple[tuple[Int64Array, Int64Array, Int64Array, Int64Array], npt.NDArray[Any] | None]:
    """(Rows from 0, positions, impressions, clicks, int64[m] each, in the order of the file; word of the segment of
    each, None: there are no segments).

    Raises:
        FileFormatError: as `read_clicks`.
    """
    try:
        numbers, words = _parse_fast(name) or (None, None)
        if numbers is None or impossible(*_columns(numbers), n_documents) is not None:
            numbers, words = _parse(name, n_documents)
    except OSError as error:
        raise FileFormatError(str(error.strerror or error), file=name) from None
    return _columns(numbers), words


def write_clicks(path: str | PathLike[str], log: ClickLog) -> None:
    """Write a log as text, whole or not at all."""
    words = [_quoted(name) for name in log.segment_names]
    with replacing(path) as out:
        write_all(out, f"{HEADER if log.segments is None else BY_SEGMENT}\n".encode())
        for start in range(0, log.rows.size, _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            columns = [log.rows[part] + 1, log.positions[part], log.impressions[part], log.clicks[part]]
            lists: list[list[Any]] = [column.tolist() for column in columns]
            lists += [] if log.segments is None else [[words[number] for number in log.segments[part].tolist()]]
            lines = (" ".join(map(str, line)) + "\n" for line in zip(*lists, strict=True))
            write_all(out, "".join(lines).encode())


def _columns(numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Rows from 0, positions, impressions, clicks."""
    rows, positions, impressions, clicks = np.ascontiguousarray(numbers.T)
    return rows - 1, positions, impressions, clicks


def _quoted(name: str) -> str:
    """A segment's name as a word."""
    word = quote(name, safe="!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~")
    if not word:
        raise DataError("a segment without a name cannot be written")
    return word


def _is_name(word: str) -> bool:
    """Whether a word stands for text that can name a segment."""
    try:
        return first_unfit([unquote(word, errors="strict")]) is None
    except UnicodeDecodeError:
        return False


def _parse_fast(name: str) -> tuple[Int64Array, npt.NDArray[Any] | None] | None:
    """(int64[m, 4], word of the segment of each or None) by NumPy's reader; None where it finds something else."""
    with _opened(name) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no entries at all
        first = file.readline(LONGEST_LINE)
        words = " ".join(first.split()).lower()
        rest = iter(partial(file.readline, LONGEST_LINE), "")
        lines = map(_plain, rest if words in (HEADER, BY_SEGMENT) else chain([first], rest))
        by_segment = words == BY_SEGMENT
        kind = np.dtype([("numbers", np.int64, (4,)), ("segment", f"U{_LONGEST}")]) if by_segment else np.int64
        try:
            found: Any = np.loadtxt(lines, kind, comments="#", ndmin=1 if by_segment else 2)
        except ValueError:
            return None
    if not by_segment:
        return (found, None) if found.shape[1] == 4 else None
    if np.any(np.char.str_len(found["segment"]) >= _LONGEST):  # and may have been cut off
        return None
    if not all(map(_is_name, np.unique(found["segment"]).tolist())):
        return None
    return np.ascontiguousarray(found["numbers"]), found["segment"]


def _parse(name: str, n_documents: int) -> tuple[Int64Array, npt.NDArray[Any] | None]:
    """As `_parse_fast`, a line at a time, so that the line is known that cannot be."""
    entries, segments = [np.zeros((0, 4), np.int64)], []
    for _, entry, segment in each_entry(name, n_documents):
        if isinstance(entry, FileFormatError):
            raise entry
        entries.append(entry)
        segments.append(segment)
    return np.concatenate(entries), np.array(segments, str) if segments and segments[0] is not None else None


def each_entry(name: str, n_documents: int) -> Iterator[tuple[int, Int64Array | FileFormatError, str | None]]:
    """(number of the line, int64[1, 4] or what is wrong with it, word of the segment or None) of each line
    that is no heading and not empty.

    Raises:
        FileFormatError: what is packed cannot be unpacked to its end.
    """
    for number, line, words, header in _lines(name):
        whole = words[:4]
        if len(words) != len(header.split()) or not all(word.isascii() and word.isdigit() for word in whole):
            reason = f"{line.strip()[:60]!r} is no entry of a click log, which is `{header}` in whole numbers"
            if len(words) == 5 and header == HEADER:
                reason += f"; of a log by segment the first line is `{BY_SEGMENT}`"
            yield number, FileFormatError(reason, file=name, line=number), None
            continue
        entry = np.array([[int(word) if len(word) < 17 else _LARGEST for word in whole]], np.int64)
        found = impossible(*_columns(entry), n_documents)
        wrong = None if found is None else FileFormatError(found[1], file=name, line=number)
        if header == BY_SEGMENT and not _is_name(words[4]):
            reason = f"segment {words[4][:60]!r} is not UTF-8, or holds a NUL: names are text"
            wrong = FileFormatError(reason, file=name, line=number)
        yield number, wrong or entry, words[4] if header == BY_SEGMENT else None


def lines_of_entries(name: str) -> Int64Array:
    """int64[m], number of the line of each entry of a file whose entries can be."""
    return np.fromiter((number for number, *_ in _lines(name)), np.int64)


def _plain(line: str) -> str:
    """The line, unless it is a part of one, or holds a NUL, which NumPy would drop at the end of a word."""
    if len(line) >= LONGEST_LINE or "\0" in line:
        raise ValueError
    return line


def _lines(name: str) -> Iterator[tuple[int, str, list[str], str]]:
    """(its number, the line, its words, the heading) of each line that is no heading and not empty."""
    header = HEADER
    with _opened(name) as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), start=1):
            if len(line) >= LONGEST_LINE:
                reason = f"the line is longer than {LONGEST_LINE:,} characters, which no entry of a click log is"
                raise FileFormatError(reason, file=name, line=number)
            words = line.partition("#")[0].split()
            if number == 1 and " ".join(words).lower() in (HEADER, BY_SEGMENT):
                header = " ".join(words).lower()
            elif words:
                yield number, line, words, header


def _opened(name: str) -> TextIO:
    """The text of a file, unpacked by how it begins."""
    file = open(name, "rb")  # noqa: SIM115 (whoever reads the text closes it)
    head = file.read(LONGEST_MAGIC)
    if not is_packed(head):
        file.seek(0)
        return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape")
    packed = io.BufferedReader(_Unpacked(file, head, name))
    return io.TextIOWrapper(packed, encoding="utf-8-sig", errors="surrogateescape")


class _Unpacked(io.RawIOBase):
    """What lies packed in a file, as a file."""

    def __init__(self, file: BinaryIO, head: bytes, name: str) -> None:
        self._file, self._unpacker = file, Unpacker(file.read, head, name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes that were put into the buffer."""
        text = self._unpacker.read(len(buffer))
        buffer[: len(text)] = text
        return len(text)

    def close(self) -> None:
        self._file.close()
        super().close()
