"""File and line of each row of a data set, for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.types import Int64Array


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Map from row (from 0) to (file, line): `places(row)`.

    Args:
        files: (name, lines and rows of the previous files) of each file.
        rows: int64[R], ascending: rows from which rows and lines advance together.
        lines: int64[R], line of each of these rows, from 1, counted over all files.
        header_lines: header lines of each file, which are not counted.
        by_row: whether lines are rows.
        order: int64[N] if row i of the data set is row order[i] of the files.
    """

    files: tuple[tuple[str, int, int], ...]
    rows: Int64Array
    lines: Int64Array
    header_lines: int = 0
    by_row: bool = False
    order: Int64Array | None = None

    def __post_init__(self) -> None:
        if not self.files or self.rows.shape != self.lines.shape:  # a damaged cache entry
            raise ValueError("no places of rows")

    def __call__(self, row: int) -> tuple[str, int]:
        """Return file and line; the line is 0 if the file has rows only, and the name contains the row."""
        row = row if self.order is None else int(self.order[row])
        file, lines_before, _ = next((one for one in reversed(self.files) if one[2] <= row), self.files[0])
        i = int(np.searchsorted(self.rows, row, "right")) - 1
        start, begin = (int(self.rows[i]), int(self.lines[i])) if i >= 0 else (0, 1)
        line = begin + row - start - lines_before
        return (f"{file}: row {line}", 0) if self.by_row else (file, line + self.header_lines)

    @property
    def record(self) -> dict[str, Any]:
        """Return everything except the arrays, as plain data."""
        files = [list(one) for one in self.files]
        return {"files": files, "header_lines": self.header_lines, "by_row": self.by_row}

    @classmethod
    def from_record(cls, record: dict[str, Any], rows: Int64Array, lines: Int64Array) -> RowPlaces:
        """Return the places of a record and its arrays."""
        files = tuple((str(name), int(before), int(rows_before)) for name, before, rows_before in record["files"])
        return cls(files, rows, lines, record["header_lines"], record["by_row"])


@dataclass(frozen=True, eq=False)
class InputRows:
    """Places of array rows that were sorted: no file, and the row as given.

    Args:
        order: int64[N]: row i was row order[i].
    """

    order: Int64Array

    def __call__(self, row: int) -> tuple[str, int]:
        return "", int(self.order[row])
