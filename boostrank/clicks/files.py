"""Click log files: tables with columns `row,position,impressions,clicks`, one row per document and position.

Rows number the documents of the data from 1, in file order. Entries with the same row and position are summed. Logs by
segment have a fifth column, `segment`. CSV, TSV (plain or compressed), Parquet and Arrow files are supported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import ClickLog, impossible_entries, why_impossible
from boostrank.core.errors import DataError, FileFormatError
from boostrank.core.files import replacing, write_all
from boostrank.core.text import UNFIT_WORDS, first_unfit
from boostrank.core.types import Int64Array
from boostrank.data.tables import Batch, batches, header_of

COLUMNS = ("row", "position", "impressions", "clicks")
SEGMENT = "segment"
MAX_ROWS = 2**40
MAX_SEGMENTS = 2**9
_AT_A_TIME = 1 << 16
_QUOTED = re.compile(r'[,"]|^\s|\s$')


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of a click log in file order.

    Args:
        rows, positions, impressions, clicks: int64[m]; rows count from 0.
        segments: int64[m], segment of each entry, by index; None without segments.
        lines: int64[m], line of each entry; 0 in files without lines.
        refused: errors of the first invalid entries.
    """

    rows: Int64Array
    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    segments: Int64Array | None
    names: tuple[str, ...]
    lines: Int64Array
    refused: Sequence[FileFormatError] = ()
    n_refused: int = 0


def read_clicks(path: str | PathLike[str], n_documents: int | None = None) -> ClickLog:
    """Read a click log.

    Args:
        path: the file.
        n_documents: number of rows of the data; None to renumber the rows of the log.

    Raises:
        FileFormatError: an invalid entry, with its line, or an unreadable file.
    """
    found = read_entries(path, MAX_ROWS if n_documents is None else n_documents)
    rows = found.rows
    if n_documents is None:
        known, rows = np.unique(rows, return_inverse=True)
        n_documents = known.size
    return ClickLog(rows, found.positions, found.impressions, found.clicks, n_documents, found.segments, found.names)


def read_entries(path: str | PathLike[str], n_documents: int, *, most_refused: int = 0) -> Entries:
    """Read the entries of a click log.

    Args:
        most_refused: number of errors to collect; 0 to raise the first one.
    """
    texts = (SEGMENT,) if SEGMENT in header_of(path) else ()
    parts: list[list[Int64Array]] = [[np.zeros(0, np.int64)] for _ in range(6)]
    known: dict[str, int] = {}
    refused: list[FileFormatError] = []
    n_refused = 0
    for batch in batches(path, numbers=COLUMNS, texts=texts):
        values = [batch.number(name) for name in COLUMNS]
        # Find entries that are not whole numbers, or are impossible, and keep the others.
        with np.errstate(invalid="ignore"):
            whole = [(one == np.floor(one)) & (np.abs(one) < 2.0**53) for one in values]
        columns = [np.where(good, one, -1).astype(np.int64) for good, one in zip(whole, values, strict=True)]
        rows, positions, impressions, clicks = columns
        bad = np.flatnonzero(~np.logical_and.reduce(whole))
        bad = np.union1d(bad, impossible_entries(rows - 1, positions, impressions, clicks, n_documents))
        for i in bad[: max(1, most_refused) - len(refused)].tolist():
            odd = next((n for n, good in enumerate(whole) if not good[i]), None)
            if odd is None:
                reason = why_impossible(rows[i] - 1, positions[i], impressions[i], clicks[i], n_documents)
            else:
                reason = f"{COLUMNS[odd]} {values[odd][i]:g} is not a whole number"
            refused.append(batch.refuse(i, reason))
        if refused and not most_refused:
            raise refused[0]
        n_refused += bad.size
        kept = np.ones(len(batch), bool)
        kept[bad] = False
        segments = segment_numbers(batch, SEGMENT, known, kept) if texts else np.zeros(len(batch), np.int64)
        lines = np.zeros(len(batch), np.int64) if batch.by_row else batch.first + batch.cells.lines
        for part, one in zip(parts, (rows - 1, positions, impressions, clicks, segments, lines), strict=True):
            part.append(np.asarray(one, np.int64)[kept])
    rows, positions, impressions, clicks, segments, lines = map(np.concatenate, parts)
    by = segments if texts else None
    return Entries(rows, positions, impressions, clicks, by, tuple(known), lines, refused, n_refused)


def segment_numbers(
    batch: Batch, by: str, known: dict[str, int], kept: npt.NDArray[np.bool_] | None = None
) -> Int64Array:
    """Return the segment of each row by index, int64[n]; add new names to `known`."""
    coded = batch.text(by).dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    missing = np.flatnonzero((codes < 0) if kept is None else (codes < 0) & kept)
    if missing.size:
        raise batch.refuse(int(missing[0]), f"the segment name in {by} is missing")
    used = np.unique(codes if kept is None else codes[kept]).tolist()
    names = coded.dictionary.to_pylist()
    at = first_unfit(names[code] for code in used)
    if at is not None:
        row = int(np.flatnonzero(codes == used[at])[0])
        raise batch.refuse(row, f"the segment name in {by}, {names[used[at]]!r}, contains {UNFIT_WORDS}")
    own = np.zeros(len(names) + 1, np.int64)
    for code in used:
        own[code] = known.setdefault(names[code], len(known))
    if len(known) > MAX_SEGMENTS:
        raise batch.refuse(0, f"column {by!r} has more than {MAX_SEGMENTS} segments: choose one with fewer")
    return np.asarray(own[codes], np.int64)


def write_clicks(path: str | PathLike[str], log: ClickLog) -> None:
    """Write a log as CSV, atomically."""
    names = [_cell(name) for name in log.segment_names]
    header = COLUMNS if log.segments is None else (*COLUMNS, SEGMENT)
    with replacing(path) as out:
        write_all(out, (",".join(header) + "\n").encode())
        for start in range(0, log.rows.size, _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            columns = [log.rows[part] + 1, log.positions[part], log.impressions[part], log.clicks[part]]
            lists: list[list[Any]] = [column.tolist() for column in columns]
            lists += [] if log.segments is None else [[names[number] for number in log.segments[part].tolist()]]
            write_all(out, "".join(",".join(map(str, line)) + "\n" for line in zip(*lists, strict=True)).encode())


def _cell(name: str) -> str:
    if not name or re.search(r"[\r\n]", name):
        raise DataError(f"the segment name {name!r} cannot be written: it is empty or has a line break")
    return '"' + name.replace('"', '""') + '"' if _QUOTED.search(name) else name
