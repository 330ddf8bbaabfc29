"""Reader of selected columns of a table in batches, for side data and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.source import format_of, open_files
from boostrank.data.tables.source import Cells, TableSource, arrow

_CHUNK_BYTES = 4 << 20
_NO, _YES = ("0", "0.0", "false", "False", "FALSE"), ("1", "1.0", "true", "True", "TRUE")
Kept = npt.NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a file, after `first` lines or rows."""

    cells: Cells
    first: int
    by_row: bool

    def __len__(self) -> int:
        return int(self.cells.lines.size)

    def refuse(self, row: int, reason: str) -> FileFormatError:
        """Return an error about a row, counted from 0 in the batch."""
        number = self.first + int(self.cells.lines[row])
        if self.by_row:
            return FileFormatError(f"row {number:,}: {reason}", file=self.cells.file)
        return FileFormatError(reason, file=self.cells.file, line=number)

    def text(self, name: str) -> Any:
        """Return an Arrow array of text, without surrounding blanks in CSV; null is missing."""
        text = self.cells.text(self._place(name))
        return text if self.by_row else arrow(".compute").utf8_trim_whitespace(text)

    def number(self, name: str) -> Float64Array:
        """Return float64[n]; NaN is missing."""
        return np.asarray(self.cells.numbers(self._place(name)), np.float64)

    def whole(self, name: str, low: int, high: int) -> Int64Array:
        """Return a column of integers within a range, int64[n]."""
        return whole_numbers(self.number(name), name, low, high, None, self.refuse)

    def truth(self, name: str) -> Int64Array:
        """Return a Boolean column (0 and 1, or false and true) as int64[n]."""
        pa, pc, shown = arrow(), arrow(".compute"), self.text(name)
        found = pc.fill_null(pc.index_in(shown, pa.array([*_NO, *_YES])), -1).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(found < 0)
        if bad.size:
            value = shown[int(bad[0])].as_py()
            what = "is missing" if value in (None, "nan") else f"is {value[:40]}"
            raise self.refuse(int(bad[0]), f"{name} {what}, and must be 0 or 1 (or false, true)")
        return np.asarray(found // len(_NO), np.int64)

    def _place(self, name: str) -> int:
        return self.cells.columns.header.index(name)


def whole_numbers(
    values: Float64Array, name: str, low: int, high: int, kept: Kept, refuse: Callable[[int, str], Exception]
) -> Int64Array:
    """Return numbers as int64[n]; rows that are not kept are not checked, and become `low`. See `Batch.whole`."""
    with np.errstate(invalid="ignore"):
        good = (values >= low) & (values <= high) & (values == np.floor(values))
    bad = np.flatnonzero(~good if kept is None else ~good & kept)
    if bad.size:
        value = values[bad[0]]
        what = "is missing" if np.isnan(value) else f"is {value:.17g}"
        raise refuse(int(bad[0]), f"{name} {what}, and must be a whole number from {low} to {high:,}")
    return np.asarray(values if kept is None else np.where(kept, values, low), np.int64)


def is_table(path: str | PathLike[str]) -> bool:
    """Return whether a file is a table, by its name or content."""
    return format_of(path).is_table


def header_of(path: str | PathLike[str]) -> tuple[str, ...]:
    """Return the column names of a table."""
    with closing(_opened(path, (), ())) as source:
        return source.columns.header


def _opened(path: str | PathLike[str], numbers: Sequence[str], texts: Sequence[str]) -> TableSource:
    if not is_table(path):
        words = "not recognised as CSV, TSV, Parquet or Arrow by name or content"
        raise FileFormatError(words, file=fspath(path))
    source = open_files(path, pick=(tuple(numbers), tuple(texts)))[1]
    assert isinstance(source, TableSource)
    return source


def batches(
    path: str | PathLike[str],
    *,
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
    truths: Sequence[str] = (),
    chunk_bytes: int = _CHUNK_BYTES,
) -> Iterator[Batch]:
    """Yield columns of a CSV, TSV (plain or compressed), Parquet or Arrow file, in row order."""
    texts = dict.fromkeys((*texts, *truths))
    with closing(_opened(path, tuple(dict.fromkeys(numbers)), tuple(texts))) as source:
        first = source.header_lines
        for _, load in source.loads(chunk_bytes, 1):
            if load is None:  # a file without rows
                continue
            cells = source.cells(load)
            if cells.faults:
                raise min(cells.faults, key=lambda one: one.line).error(cells.file, first, by_row=source.by_row)
            yield Batch(cells, first, source.by_row)
            first += cells.n_lines
        source.leave(source.first)
