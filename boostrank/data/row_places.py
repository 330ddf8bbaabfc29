"""Places of rows: the file and the line that each row of a data set was read from, for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.types import Int64Array


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Find (file, line) of a row, counted from 0: `places(row)`.

    Args:
        files: (name, lines and rows of the files before) of each.
        rows: int64[R], ascending: rows from which on rows and lines count alike.
        lines: int64[R], the line of each of these, counted from 1 through all files.
        header_lines: of each file, which are no lines here.
        by_row: whether lines are rows.
        order: int64[N] where row i of the data set is row order[i] of the files.
    """

    files: tuple[tuple[str, int, int], ...]
    rows: Int64Array
    lines: Int64Array
    header_lines: int = 0
    by_row: bool = False
    order: Int64Array | None = None

    def __post_init__(self) -> None:
        if not self.files or self.rows.shape != self.lines.shape:  # of a damaged entry of a cache
            raise ValueError("no places of rows")

    def __call__(self, row: int) -> tuple[str, int]:
        """Return file and line; the line is 0 where the file has none, and the name says the row."""
        row = row if self.order is None else int(self.order[row])
        file, lines_before, _ = next((one for one in reversed(self.files) if one[2] <= row), self.files[0])
        i = int(np.searchsorted(self.rows, row, "right")) - 1
        start, begin = (int(self.rows[i]), int(self.lines[i])) if i >= 0 else (0, 1)
        line = begin + row - start - lines_before
        return (f"{file}: row {line}", 0) if self.by_row else (file, line + self.header_lines)

    @property
    def record(self) -> dict[str, Any]:
        """All but the arrays, as plain data."""
        files = [list(one) for one in self.files]
        return {"files": files, "header_lines": self.header_lines, "by_row": self.by_row}

    @classmethod
    def from_record(cls, record: dict[str, Any], rows: Int64Array, lines: Int64Array) -> RowPlaces:
        """Make the places of `record` and the arrays."""
        files = tuple((str(name), int(before), int(rows_before)) for name, before, rows_before in record["files"])
        return cls(files, rows, lines, record["header_lines"], record["by_row"])


@dataclass(frozen=True, eq=False)
class InputRows:
    """Places of rows of arrays that were sorted on the way in: no file, and the row as it was given.

    Args:
        order: int64[N]: row i was row order[i].
    """

    order: Int64Array

    def __call__(self, row: int) -> tuple[str, int]:
        return "", int(self.order[row])
