"""Session logs, a row an impression, added up to click logs in one pass.

Tables of any size: what is held is one batch of rows and an entry for each document and position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.counting import Sums
from boostrank.clicks.log import MOST, ClickLog
from boostrank.clicks.propensities import MAX_POSITION
from boostrank.core.errors import FileFormatError, InputError
from boostrank.core.machine import resolve_threads
from boostrank.core.text import UNFIT_WORDS, first_unfit
from boostrank.core.types import Int64Array
from boostrank.data.tables.batches import Batch, batches
from boostrank.data.tables.options import arrow

_LARGEST_ROW = 2**40
_SEGMENTS = 2**9  # rows, positions and segments are one key below 2^63


@dataclass(frozen=True)
class SessionColumns:
    """Columns of a session log.

    Args:
        position: of the list at which the document was shown, from 1.
        clicked: 1 or true where it was clicked, else 0 or false; with `impressions`, how often it was.
        row: row of the document in the data, from 1; not looked at where there are keys.
        keys: columns that name the document, in the log as in the data.
        where: column -> the text that it must hold, for a log of one segment.
        impressions: how many impressions a row stands for; None: one each.
        by: names the segment of a row, for a log by segment.
    """

    position: str = "position"
    clicked: str = "clicked"
    row: str = "row"
    keys: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    impressions: str | None = None
    by: str | None = None


def count_clicks(
    sessions: Sequence[str | PathLike[str]], columns: SessionColumns | None = None,
    data: str | PathLike[str] | None = None,
) -> ClickLog:  # fmt: skip
    """Impressions and clicks of each document at each position.

    Args:
        sessions: CSV, TSV (plain or compressed), Parquet or Arrow files.
        columns: what they are called.
        data: the table of the documents; needed where keys name them.

    Raises:
        FileFormatError: a cell that cannot be, with file and row; a document that the data do not have, or have twice.
        InputError: keys without data.
    """
    c = columns or SessionColumns()
    if c.keys and data is None:
        raise InputError(f"the columns {', '.join(c.keys)} name documents: give the table that has them (data)")
    known = _Documents.of(data, c.keys) if c.keys and data is not None else None
    counted = () if c.impressions is None else (c.impressions, c.clicked)
    numbers = (c.position, *counted, *(() if c.keys else (c.row,)))
    segmented = () if c.by is None else (c.by,)
    total, segments = Sums(), dict[str, int]()
    for path in sessions:
        for batch in batches(
            path, numbers=numbers, truths=() if counted else (c.clicked,), texts=(*c.keys, *c.where, *segmented),
            threads=resolve_threads(None),
        ):  # fmt: skip
            kept = _kept(batch, c.where)
            positions = batch.whole(c.position, 1, MAX_POSITION, kept)
            rows = batch.whole(c.row, 1, _LARGEST_ROW, kept) - 1 if known is None else known.rows(batch, kept)
            if c.impressions is None:
                shown, clicks = np.ones(len(batch), np.int64), batch.truth(c.clicked, kept)
            else:
                shown, clicks = batch.whole(c.impressions, 1, MOST, kept), batch.whole(c.clicked, 0, MOST, kept)
                more = np.flatnonzero(clicks > shown)
                if more.size:
                    words = f"{clicks[more[0]]} clicks of {shown[more[0]]} impressions: an impression is clicked or not"
                    raise batch.refuse(int(more[0]), words)
            keys = rows * (MAX_POSITION + 1) + positions
            if c.by is not None:
                keys = keys * _SEGMENTS + _numbers(batch, c.by, kept, segments)
            total.add(*(one if kept is None else one[kept] for one in (keys, shown, clicks)))
    keys, impressions, clicks = total.sums()
    number: Int64Array | None = None
    if c.by is not None:
        number, keys = keys % _SEGMENTS, keys // _SEGMENTS
    rows, positions = np.divmod(keys, MAX_POSITION + 1)
    del keys
    count = int(rows.max(initial=-1)) + 1 if known is None else known.count
    return ClickLog(rows, positions, impressions, clicks, count, number, tuple(segments))


@dataclass(frozen=True)
class _Documents:
    """The documents of a table by the text of their keys."""

    keys: tuple[str, ...]
    count: int
    index: Any

    @classmethod
    def of(cls, path: str | PathLike[str], keys: tuple[str, ...]) -> _Documents:
        """Those of a file.

        Raises:
            FileFormatError: two rows of the same keys.
        """
        pa, pc = arrow(), arrow(".compute")
        parts = [_joined(batch, keys) for batch in batches(path, texts=keys)]
        index = pa.chunked_array(parts or [pa.array([], pa.string())]).combine_chunks()
        if pc.count_distinct(index).as_py() != len(index):
            twice = pc.value_counts(index)
            name = next(one["values"] for one in twice.to_pylist() if one["counts"] > 1)
            words = f"two rows have the keys {_shown(name)}: no impression says which is meant"
            raise FileFormatError(words, file=str(path))
        return cls(keys, len(index), index)

    def rows(self, batch: Batch, kept: npt.NDArray[np.bool_] | None) -> Int64Array:
        """int64: the row of the document of each impression."""
        pc, texts = arrow(".compute"), _joined(batch, self.keys)
        found = pc.fill_null(pc.index_in(texts, self.index, skip_nulls=True), -1).to_numpy(zero_copy_only=False)
        missing = np.flatnonzero((found < 0) if kept is None else (found < 0) & kept)
        if missing.size:
            row = int(missing[0])
            raise batch.refuse(row, f"the data have no document {_shown(texts[row].as_py())}")
        return np.asarray(np.maximum(found, 0), np.int64)


_BETWEEN = "\x1f"


def _shown(key: str | None) -> str:
    return "without a key" if key is None else ", ".join(key.split(_BETWEEN))[:80]


def _joined(batch: Batch, keys: Sequence[str]) -> Any:
    """The keys of each row as one text; null where one is."""
    texts = [batch.text(key) for key in keys]
    return arrow(".compute").binary_join_element_wise(*texts, _BETWEEN) if len(texts) > 1 else texts[0]


def _numbers(batch: Batch, by: str, kept: npt.NDArray[np.bool_] | None, known: dict[str, int]) -> Int64Array:
    """int64[n]: number of the segment of each row; new ones are added to those that are known."""
    coded = batch.text(by).dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    missing = np.flatnonzero((codes < 0) if kept is None else (codes < 0) & kept)
    if missing.size:
        raise batch.refuse(int(missing[0]), f"{by} is missing, and names the segment")
    used = np.unique(codes if kept is None else codes[kept]).tolist()
    names = coded.dictionary.to_pylist()
    at = first_unfit(names[code] for code in used)
    if at is not None:
        row = int(np.flatnonzero(codes == used[at])[0])
        raise batch.refuse(row, f"{by} {names[used[at]]!r} holds {UNFIT_WORDS}, and names the segment")
    own = np.zeros(len(names) + 1, np.int64)
    for code in used:
        own[code] = known.setdefault(names[code], len(known))
    if len(known) > _SEGMENTS:
        raise FileFormatError(f"column {by!r} has more than {_SEGMENTS} segments: name one with fewer", file=batch.file)
    return np.asarray(own[codes], np.int64)


def _kept(batch: Batch, where: Mapping[str, str]) -> npt.NDArray[np.bool_] | None:
    """bool[n]: which rows hold what they must; None: all."""
    pc, kept = arrow(".compute"), None
    for name, wanted in where.items():
        one = pc.fill_null(pc.equal(batch.text(name), wanted), False).to_numpy(zero_copy_only=False)
        kept = one if kept is None else kept & one
    return kept
