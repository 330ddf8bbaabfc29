"""Places of rows: the file and the line that each row of a data set was read from, for messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.types import Int64Array


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """(file, line) of a row, counted from 0: `places(row)`. Two numbers a query say where all its rows are.

    Args:
        files: (name, lines and rows of the files before) of each.
        rows: int64[R], ascending: rows from which on lines are counted.
        lines: int64[R], the line of each of these, counted from 1 through all files.
        end: (rows, lines) of all files.
        header_lines: of each file, which are no lines here.
        by_row: whether lines are rows.
        exact: whether nothing but rows stands between one of these and the next; else as far as the numbers say.
        order: int64[N] where row i of the data set is row order[i] of the files.
    """

    files: tuple[tuple[str, int, int], ...]
    rows: Int64Array
    lines: Int64Array
    end: tuple[int, int]
    header_lines: int = 0
    by_row: bool = False
    exact: bool = False
    order: Int64Array | None = None

    def __post_init__(self) -> None:
        if not self.files or self.rows.shape != self.lines.shape:  # of a cache's entry that is none
            raise ValueError("no places of rows")

    def __call__(self, row: int) -> tuple[str, int]:
        """The line is 0 where the name says it: of a row of a table that is not text, or among lines that hold none."""
        row = row if self.order is None else int(self.order[row])
        file, lines_before, rows_before = next((one for one in reversed(self.files) if one[2] <= row), self.files[0])
        i = int(np.searchsorted(self.rows, row, "right")) - 1
        start, begin = (int(self.rows[i]), int(self.lines[i])) if i >= 0 else (0, 1)
        next_row, next_line = self.end[0], self.end[1] + 1
        if i + 1 < self.rows.size:
            next_row, next_line = int(self.rows[i + 1]), int(self.lines[i + 1])
        line = begin + row - start - lines_before
        if self.by_row:
            return f"{file}: row {line}", 0
        line += self.header_lines
        if self.exact or next_line - begin == next_row - start:
            return file, line
        return f"{file}: row {row - rows_before + 1}, on line {line} or a later one", 0

    @property
    def record(self) -> dict[str, Any]:
        """All but the arrays, as plain data."""
        return {
            "files": [list(one) for one in self.files], "end": list(self.end), "header_lines": self.header_lines,
            "by_row": self.by_row, "exact": self.exact,
        }  # fmt: skip

    @classmethod
    def from_record(cls, record: dict[str, Any], rows: Int64Array, lines: Int64Array) -> RowPlaces:
        """Back from `record` and the arrays."""
        files = tuple((str(name), int(before), int(rows_before)) for name, before, rows_before in record["files"])
        own = {name: record[name] for name in ("header_lines", "by_row", "exact")}
        return cls(files, rows, lines, (int(record["end"][0]), int(record["end"][1])), **own)

    def in_order(self, order: Int64Array | None) -> RowPlaces:
        """Those of the rows in this order."""
        return self if order is None else replace(self, order=order)


@dataclass(frozen=True, eq=False)
class InputRows:
    """Places of rows of arrays that were sorted on the way in: no file, and the row as it was given.

    Args:
        order: int64[N]: row i was row order[i].
    """

    order: Int64Array

    def __call__(self, row: int) -> tuple[str, int]:
        return "", int(self.order[row])
