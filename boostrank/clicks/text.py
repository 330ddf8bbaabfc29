"""Click logs as text: `row position impressions clicks`, a line for each row and position.

Rows count the documents of the data from 1, in the order of the file; lines of one row and position are added up. The
first line may name the columns; what stands behind `#` is passed over.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from itertools import chain
from os import PathLike
from typing import Any, BinaryIO, TextIO

import numpy as np

from boostrank.clicks.log import ClickLog, impossible
from boostrank.core.errors import FileFormatError
from boostrank.core.files import replacing, write_all
from boostrank.core.types import Int64Array
from boostrank.data.libsvm.decompress import LONGEST_MAGIC, Unpacker, is_packed

HEADER = "row position impressions clicks"
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
    rows, positions, impressions, clicks = read_entries(
        os.fspath(path), MAX_ROWS if n_documents is None else n_documents
    )
    if n_documents is None:
        known, rows = np.unique(rows, return_inverse=True)
        n_documents = known.size
    return ClickLog(rows, positions, impressions, clicks, n_documents)


def read_entries(name: str, n_documents: int) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Rows from 0, positions, impressions, clicks, int64[m] each, in the order of the file.

    Raises:
        FileFormatError: as `read_clicks`.
    """
    try:
        numbers = _parse_fast(name)
        if numbers is None or impossible(*_columns(numbers), n_documents) is not None:
            numbers = _parse(name, n_documents)
    except OSError as error:
        raise FileFormatError(str(error.strerror or error), file=name) from None
    return _columns(numbers)


def write_clicks(path: str | PathLike[str], log: ClickLog) -> None:
    """Write a log as text, whole or not at all."""
    with replacing(path) as out:
        write_all(out, f"{HEADER}\n".encode())
        for start in range(0, log.rows.size, _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            columns = (log.rows[part] + 1, log.positions[part], log.impressions[part], log.clicks[part])
            lines = (" ".join(map(str, line)) + "\n" for line in zip(*(c.tolist() for c in columns), strict=True))
            write_all(out, "".join(lines).encode())


def _columns(numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Rows from 0, positions, impressions, clicks."""
    rows, positions, impressions, clicks = np.ascontiguousarray(numbers.T)
    return rows - 1, positions, impressions, clicks


def _parse_fast(name: str) -> Int64Array | None:
    """int64[m, 4] by NumPy's reader; None where it finds something else."""
    with _opened(name) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no entries at all
        first = file.readline()
        lines = file if " ".join(first.split()).lower() == HEADER else chain([first], file)
        try:
            numbers = np.loadtxt(lines, np.int64, comments="#", ndmin=2)
        except ValueError:
            return None
    return numbers if numbers.shape[1] == 4 else None


def _parse(name: str, n_documents: int) -> Int64Array:
    """int64[m, 4], a line at a time, so that the line is known that cannot be."""
    entries = []
    for _, entry in each_entry(name, n_documents):
        if isinstance(entry, FileFormatError):
            raise entry
        entries.append(entry)
    return np.concatenate([np.zeros((0, 4), np.int64), *entries])


def each_entry(name: str, n_documents: int) -> Iterator[tuple[int, Int64Array | FileFormatError]]:
    """(number of the line, int64[1, 4] or what is wrong with it) of each line that is no heading and not empty.

    Raises:
        FileFormatError: what is packed cannot be unpacked to its end.
    """
    for number, line, words in _lines(name):
        if len(words) != 4 or not all(word.isascii() and word.isdigit() for word in words):
            reason = f"{line.strip()[:60]!r} is no entry of a click log, which is `{HEADER}` in whole numbers"
            yield number, FileFormatError(reason, file=name, line=number)
            continue
        entry = np.array([[int(word) if len(word) < 17 else _LARGEST for word in words]], np.int64)
        found = impossible(*_columns(entry), n_documents)
        yield number, entry if found is None else FileFormatError(found[1], file=name, line=number)


def lines_of_entries(name: str) -> Int64Array:
    """int64[m], number of the line of each entry of a file whose entries can be."""
    return np.fromiter((number for number, _, _ in _lines(name)), np.int64)


def _lines(name: str) -> Iterator[tuple[int, str, list[str]]]:
    """(its number, the line, its words) of each line that is no heading and not empty."""
    with _opened(name) as file:
        for number, line in enumerate(file, start=1):
            words = line.partition("#")[0].split()
            if words and not (number == 1 and " ".join(words).lower() == HEADER):
                yield number, line, words


def _opened(name: str) -> TextIO:
    """The text of a file, unpacked by how it begins."""
    file = open(name, "rb")  # noqa: SIM115 (whoever reads the text closes it)
    head = file.read(LONGEST_MAGIC)
    if not is_packed(head):
        file.seek(0)
        return io.TextIOWrapper(file, encoding="utf-8-sig", errors="backslashreplace")
    packed = io.BufferedReader(_Unpacked(file, head, name))
    return io.TextIOWrapper(packed, encoding="utf-8-sig", errors="backslashreplace")


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
