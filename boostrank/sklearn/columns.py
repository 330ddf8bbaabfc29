"""Tables that hold the query of each row as a column beside the features."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from boostrank.core.errors import DataError
from boostrank.data.frames import as_frame, names_of, values_of

QID = "qid"
"""Name of that column."""


def split_table(X: Any) -> tuple[Any, npt.NDArray[Any] | None, bool]:
    """Features, the column of query ids, and whether this is a table of any library, with names.

    Without such a column the features are X, and the ids None.

    Raises:
        DataError: a table that cannot be read.
    """
    table = as_frame(X)
    if table is None:
        return X, None, False
    names = names_of(table)
    if QID not in names:
        return table.to_native(), None, True
    kept = [i for i, name in enumerate(names) if name != QID]
    return table[:, kept].to_native(), values_of(table, names.index(QID)), True


def column_of(X: Any, name: str) -> npt.NDArray[Any]:
    """A column of a table.

    Raises:
        DataError: this is none, or it has no such column.
    """
    table = as_frame(X)
    if table is None or name not in names_of(table):
        raise DataError(f"X has no column {name!r}")
    return values_of(table, names_of(table).index(name))
