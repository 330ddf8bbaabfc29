"""Frames that hold the query of each row as a column beside the features."""

from __future__ import annotations

from typing import Any

QID = "qid"
"""Name of that column."""


def is_frame(X: Any) -> bool:
    """Whether this is a table whose columns have names: of pandas, polars, pyarrow or their like."""
    return hasattr(X, "columns")


def has_qid(X: Any) -> bool:
    """Whether this is a frame with a column of query ids."""
    return is_frame(X) and QID in list(getattr(X, "column_names", X.columns))


def without_qid(X: Any) -> Any:
    """A frame that has such a column, without it."""
    if hasattr(X, "drop_columns"):  # pyarrow
        return X.drop_columns([QID])
    return X.drop(columns=QID) if hasattr(X, "iloc") else X.drop(QID)
