"""Some columns of a table by name, a batch of rows at a time: what is no training data, or stands beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError, did_you_mean
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.libsvm.sources import Opened
from boostrank.data.readers import reader_of
from boostrank.data.tables.columnar import open_columnar
from boostrank.data.tables.columns import Columns
from boostrank.data.tables.options import TableOptions, arrow
from boostrank.data.tables.parser import Cells
from boostrank.data.tables.text import open_text

_CHUNK_BYTES = 4 << 20
_NO, _YES = ("0", "false", "False", "FALSE"), ("1", "true", "True", "TRUE")
Kept = npt.NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a file.

    Args:
        file: its name.
        first: lines or rows in front of them.
        cells: of the columns that were asked for.
        places: name -> place of a column.
        by_row: whether the file has rows and no lines.
    """

    file: str
    first: int
    cells: Cells
    places: dict[str, int]
    by_row: bool

    def __len__(self) -> int:
        return int(self.cells.lines.size)

    def refuse(self, row: int, reason: str) -> FileFormatError:
        """An error about a row, counted from 0 in the batch."""
        number = self.first + int(self.cells.lines[row])
        if self.by_row:
            return FileFormatError(f"row {number:,}: {reason}", file=self.file)
        return FileFormatError(reason, file=self.file, line=number)

    def text(self, name: str) -> Any:
        """Arrow array of text, null where it is missing."""
        return self.cells.texts[self.places[name]]

    def number(self, name: str) -> Float64Array:
        """float64[n], NaN where it is missing."""
        return np.asarray(self.cells.numbers[self.places[name]], np.float64)

    def whole(self, name: str, low: int, high: int, kept: Kept = None) -> Int64Array:
        """int64[n] of a column of numbers.

        Args:
            name: of the column.
            low, high: the least and the largest that may be.
            kept: bool[n], rows that are looked at; others are `low`.

        Raises:
            FileFormatError: a number that is missing, no whole one, or out of range, by its row.
        """
        return whole_numbers(self.number(name), name, low, high, kept, self.refuse)

    def truth(self, name: str, kept: Kept = None) -> Int64Array:
        """int64[n], 0 or 1, of a column of these or of false and true, asked for as a truth.

        Raises:
            FileFormatError: anything else, by its row.
        """
        place = self.places[name]
        if place not in self.cells.texts:
            numbers = self.number(name)
            wrong = (numbers != 0.0) & (numbers != 1.0)
            shown: Any = numbers
        else:
            pa, pc, shown = arrow(), arrow(".compute"), self.cells.texts[place]
            found = pc.fill_null(pc.index_in(shown, pa.array([*_NO, *_YES])), -1).to_numpy(zero_copy_only=False)
            wrong, numbers = found < 0, found // len(_NO)
        bad = np.flatnonzero(wrong if kept is None else wrong & kept)
        if bad.size:
            value = shown[int(bad[0])]
            value = value.as_py() if hasattr(value, "as_py") else f"{value:.17g}"
            what = "is missing" if value in (None, "nan") else f"is {str(value)[:40]}"
            raise self.refuse(int(bad[0]), f"{name} {what}, and must be 0 or 1 (or false, true)")
        return np.where(wrong, 0, numbers).astype(np.int64)


def whole_numbers(
    values: Float64Array, name: str, low: int, high: int, kept: Kept, refuse: Callable[[int, str], Exception]
) -> Int64Array:
    """int64[n] of numbers that may be any, see `Batch.whole`; `refuse` makes the error about a row."""
    with np.errstate(invalid="ignore"):
        good = (values >= low) & (values <= high) & (values == np.floor(values))
    bad = np.flatnonzero(~good if kept is None else ~good & kept)
    if bad.size:
        value = values[bad[0]]
        what = "is missing" if np.isnan(value) else f"is {value:.17g}"
        raise refuse(int(bad[0]), f"{name} {what}, and must be a whole number from {low} to {high:,}")
    return np.asarray(values if kept is None else np.where(kept, values, low), np.int64)


def is_table(path: str | PathLike[str]) -> bool:
    """Whether a file is one, by its name or how it begins."""
    return reader_of(path).table is not None


def header_of(path: str | PathLike[str]) -> tuple[str, ...]:
    """Names of a table's columns.

    Raises:
        FileFormatError: no table, or one that cannot be read.
    """

    def choose(header: Sequence[str], *_: Any) -> Columns:
        return _no_features(header)

    file = os.fspath(path)
    with closing(_opened(file, _kind_of(file), choose, 1)) as opened:
        columns: Columns = opened.first.columns  # type: ignore[attr-defined]
        return columns.header


def _kind_of(file: str) -> Any:
    kind = reader_of(file).table
    if kind is None:
        raise FileFormatError("neither CSV, TSV, Parquet nor Arrow by its name and beginning", file=file)
    return kind


def _no_features(header: Sequence[str], places: Sequence[int] = ()) -> Columns:
    return Columns(tuple(header), (), (), None, None, None, frozenset(), {}, others=tuple(places))


def _opened(file: str, kind: Any, choose: Callable[..., Columns], threads: int) -> Opened:
    arrow()  # or it is said what is missing
    if kind.delimiter is not None:
        return Opened([file], None, partial(open_text, delimiter=kind.delimiter, choose=choose))
    return Opened([file], None, partial(open_columnar, kind=kind.source, choose=choose, threads=threads))


def batches(
    path: str | PathLike[str], *, numbers: Sequence[str] = (), texts: Sequence[str] = (), truths: Sequence[str] = (),
    chunk_bytes: int = _CHUNK_BYTES, threads: int = 1,
) -> Iterator[Batch]:  # fmt: skip
    """Columns of a CSV, TSV (plain or compressed), Parquet or Arrow file, in the order of its rows.

    Args:
        path: of the file.
        numbers, texts, truths: names of columns, read as such.
        chunk_bytes: of the rows of a batch, about.
        threads: that read a Parquet file.

    Raises:
        FileFormatError: no table, a column that is not there, or rows that cannot be read, the first by its place.
    """
    file = os.fspath(path)
    kind = _kind_of(file)
    wanted = tuple(dict.fromkeys((*numbers, *texts, *truths)))
    options = TableOptions(by_row=kind.delimiter is None)

    def choose(header: Sequence[str], name: str, path: str | None, declared: Collection[str] = ()) -> Columns:
        for one in wanted:
            if list(header).count(one) != 1:
                what = "several columns are" if one in header else "no column is"
                hint = "" if one in header else did_you_mean(one, header, list_all=len(header) < 13)
                raise FileFormatError(f"{what} called {one!r}.{hint}", file=name, line=options.header_lines)
        return _no_features(header, [list(header).index(one) for one in wanted])

    if kind.delimiter is not None:
        texts = (*texts, *truths)
    else:
        numbers = (*numbers, *truths)
    with closing(_opened(file, kind, choose, threads)) as opened:
        source, first = opened.first, options.header_lines
        columns: Columns = source.columns  # type: ignore[attr-defined]
        places = dict(zip(wanted, columns.others, strict=True))
        for _, load in opened.loads(chunk_bytes, 1):
            piece: Any = load(None)  # type: ignore[arg-type]
            if not hasattr(piece, "columns"):  # of a file without rows
                continue
            wanted_texts = [places[name] for name in texts]
            cells = piece.read([places[name] for name in numbers], None, options, exactly=False, texts=wanted_texts)
            if cells.faults:
                fault = min(cells.faults, key=lambda one: one.line)
                fault.by_row = options.by_row
                raise fault.error(file, first)
            yield Batch(file, first, cells, places, options.by_row)
            first += cells.n_lines
        opened.leave(source)
