"""Session logs, a row an impression, added up to click logs in one pass.

Tables of any size: what is held is one batch of rows and an entry for each document and position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import MAX_POSITION
from boostrank.core.errors import FileFormatError, InputError
from boostrank.core.types import Int64Array
from boostrank.data.tables.options import arrow

_BLOCK = 1 << 20
_BATCH = 1 << 17
_PENDING = 1 << 20
_LARGEST_ROW = 2**40
_ENDS_OF_CSV = {".csv": ",", ".tsv": "\t", ".txt": ","}


@dataclass(frozen=True)
class SessionColumns:
    """Columns of a session log.

    Args:
        position: of the list at which the document was shown, from 1.
        clicked: 1 or true where it was clicked, else 0 or false.
        row: row of the document in the data, from 1; not looked at where there are keys.
        keys: columns that name the document, in the log as in the data.
        where: column -> the text that it must hold, for a log of one segment.
    """

    position: str = "position"
    clicked: str = "clicked"
    row: str = "row"
    keys: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)


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
    columns = columns or SessionColumns()
    if columns.keys and data is None:
        raise InputError(f"the columns {', '.join(columns.keys)} name documents: give the table that has them (data)")
    known = _Documents.of(os.fspath(data), columns.keys) if columns.keys and data is not None else None
    names = [columns.position, columns.clicked, *(columns.keys or (columns.row,)), *columns.where]
    total = _Total()
    for path in [os.fspath(one) for one in sessions]:
        first = 1
        for batch in _batches(path, names, {columns.position: "int64", columns.clicked: "int64", columns.row: "int64"}):
            kept = _kept(batch, columns.where)
            at = _Place(path, first, kept)
            positions = _numbers(batch, columns.position, kept, at, 1, MAX_POSITION)
            clicked = _numbers(batch, columns.clicked, kept, at, 0, 1)
            if known is None:
                rows = _numbers(batch, columns.row, kept, at, 1, _LARGEST_ROW) - 1
            else:
                rows = known.rows(batch, kept, at)
            total.add(rows * (MAX_POSITION + 1) + positions, clicked)
            first += batch.num_rows
    keys, impressions, clicks = total.sums()
    rows, positions = np.divmod(keys, MAX_POSITION + 1)
    count = int(rows.max(initial=-1)) + 1 if known is None else known.count
    return ClickLog(rows, positions, impressions, clicks, count)


class _Total:
    """Sums by key, those of the last batches not yet among them."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int64Array, Int64Array, Int64Array]] = []
        self._size = self._merged = 0

    def add(self, keys: Int64Array, clicks: Int64Array) -> None:
        """An impression each."""
        self._parts.append(_summed(keys, np.ones(keys.size, np.int64), clicks))
        self._size += self._parts[-1][0].size
        if self._size > max(2 * self._merged, _PENDING):
            self.sums()

    def sums(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(keys ascending, impressions, clicks)."""
        parts = self._parts or [(np.zeros(0, np.int64),) * 3]
        self._parts = []
        columns = [np.concatenate([part[i] for part in parts]) for i in range(3)]
        del parts
        self._parts = [_summed(*columns)]
        self._size = self._merged = self._parts[0][0].size
        return self._parts[0]


def _summed(keys: Int64Array, impressions: Int64Array, clicks: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    if not starts.size:
        return keys, impressions, clicks
    return keys[starts], np.add.reduceat(impressions[order], starts), np.add.reduceat(clicks[order], starts)


@dataclass(frozen=True)
class _Place:
    """Where the rows of a batch stand."""

    path: str
    first: int
    kept: Any

    def refuse(self, number: int, reason: str) -> FileFormatError:
        """An error at the row of that number among those that are kept."""
        row = number if self.kept is None else int(np.flatnonzero(self.kept.to_numpy(zero_copy_only=False))[number])
        return FileFormatError(f"row {self.first + row:,} (behind the header): {reason}", file=self.path)


@dataclass(frozen=True)
class _Documents:
    """The documents of a table by the text of their keys."""

    keys: tuple[str, ...]
    count: int
    index: Any

    @classmethod
    def of(cls, path: str, keys: tuple[str, ...]) -> _Documents:
        """Those of a file.

        Raises:
            FileFormatError: two rows of the same keys.
        """
        pa, pc = arrow(), arrow(".compute")
        parts = [_joined(batch, keys) for batch in _batches(path, keys, {})]
        index = pa.chunked_array(parts or [pa.array([], pa.string())]).combine_chunks()
        if pc.count_distinct(index).as_py() != len(index):
            twice = pc.value_counts(index)
            name = next(one["values"] for one in twice.to_pylist() if one["counts"] > 1)
            raise FileFormatError(
                f"two rows have the keys {_shown(name)}: no impression says which is meant", file=path
            )
        return cls(keys, len(index), index)

    def rows(self, batch: Any, kept: Any, at: _Place) -> Int64Array:
        """int64: the row of the document of each impression."""
        pc, texts = arrow(".compute"), _joined(batch, self.keys)
        texts = texts if kept is None else texts.filter(kept)
        found = pc.index_in(texts, self.index)
        if found.null_count:
            missing = int(np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))[0])
            raise at.refuse(missing, f"the data have no document {_shown(texts[missing].as_py())}")
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


_BETWEEN = "\x1f"


def _shown(key: str | None) -> str:
    return "without a key" if key is None else ", ".join(key.split(_BETWEEN))[:80]


def _joined(batch: Any, keys: Sequence[str]) -> Any:
    """The keys of each row as one text; null where one is."""
    pc, pa = arrow(".compute"), arrow()
    texts = [pc.cast(batch.column(key), pa.string()) for key in keys]
    return pc.binary_join_element_wise(*texts, _BETWEEN) if len(texts) > 1 else texts[0]


def _kept(batch: Any, where: Mapping[str, str]) -> Any:
    """Which rows hold what they must; None: all."""
    pc, pa, kept = arrow(".compute"), arrow(), None
    for name, wanted in where.items():
        one = pc.fill_null(pc.equal(pc.cast(batch.column(name), pa.string()), wanted), False)
        kept = one if kept is None else pc.and_(kept, one)
    return kept


def _numbers(batch: Any, name: str, kept: Any, at: _Place, low: int, high: int) -> Int64Array:
    """int64 of a column, whole numbers from low to high."""
    pa, pc, column = arrow(), arrow(".compute"), batch.column(name)
    column = column if kept is None else column.filter(kept)
    wanted = "0 or 1 (or false, true)" if high == 1 else f"a whole number from {low} to {high:,}"
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise at.refuse(missing, f"{name} is missing, and must be {wanted}")
    try:
        values = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise FileFormatError(f"column {name!r}: {' '.join(str(error).split())}; {wanted}", file=at.path) from None
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        raise at.refuse(int(bad[0]), f"{name} is {values[bad[0]]}, and must be {wanted}")
    return np.asarray(values, np.int64)


def _batches(path: str, names: Sequence[str], types: Mapping[str, str]) -> Iterator[Any]:
    """Record batches with these columns; those of text are read as `types` say, or as text.

    Raises:
        FileFormatError: a file that cannot be read, or that lacks a column.
    """
    pa = arrow()
    try:
        for batch in _opened(path, list(dict.fromkeys(names)), types):
            batch.validate()  # of a damaged file: buffers as long as they should be
            yield batch
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        words = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise FileFormatError(f"cannot be read: {words}", file=path) from None


def _opened(path: str, names: list[str], types: Mapping[str, str]) -> Iterator[Any]:
    pa = arrow()
    stem, ending = os.path.splitext(path.lower())
    if ending == ".parquet":
        file = arrow(".parquet").ParquetFile(path, pre_buffer=False)
        _check(path, file.schema_arrow.names, names)
        yield from file.iter_batches(_BATCH, columns=names, use_threads=False)
        return
    if ending in (".arrow", ".feather", ".ipc", ".arrows"):
        with pa.OSFile(path, "rb") as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            reader = (arrow(".ipc").open_file if is_file else arrow(".ipc").open_stream)(source)
            _check(path, reader.schema.names, names)
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
        return
    csv = arrow(".csv")
    kind = os.path.splitext(stem)[1] if ending in (".gz", ".bz2", ".zst") else ending
    if kind not in _ENDS_OF_CSV:
        raise FileFormatError("neither CSV, TSV, Parquet nor Arrow by its name", file=path)
    texts = {name: getattr(pa, types[name])() if name in types else pa.string() for name in names}
    with pa.input_stream(path) as source:
        reader = csv.open_csv(
            source, csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            csv.ParseOptions(delimiter=_ENDS_OF_CSV[kind]),
            csv.ConvertOptions(column_types=texts, include_columns=names, strings_can_be_null=True),
        )  # fmt: skip
        yield from reader


def _check(path: str, there: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in names if name not in there]
    if missing:
        raise FileFormatError(f"no column {missing[0]!r}; it has {', '.join(there)}", file=path)
