"""Tables with the query ids in a column."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from boostrank.core.errors import DataError
from boostrank.data.frames import as_frame, names_of, values_of

QID = "qid"
"""Name of that column."""


def split_table(X: Any) -> tuple[Any, npt.NDArray[Any] | None, bool]:
    """Return the features, the query ids, and whether X is a table with column names.

    Without a column of query ids, the features are X, and the ids None.

    Raises:
        DataError: unreadable table.
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
    """Return a column of a table.

    Raises:
        DataError: X is not a table, or has no such column.
    """
    table = as_frame(X)
    if table is None or name not in names_of(table):
        raise DataError(f"X has no column {name!r}")
    return values_of(table, names_of(table).index(name))
