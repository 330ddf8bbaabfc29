"""Shared types, and conversion to numbers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

Json = dict[str, Any]
"""A JSON object."""
ParamValues = Mapping[str, Any]
"""Parameters by name."""
Constants = tuple[Float64Array, Float64Array]
"""Constants that an objective computes once per data set, float64[N, d] for documents and
float64[Q, c] for queries.
"""


class HessianKind(enum.Enum):
    """The meaning of a kernel's second output."""

    EXACT = "exact diagonal"
    MAJORISER = "majoriser"
    PROXY = "curvature proxy"


@runtime_checkable
class Schedule(Protocol):
    """A parameter that changes between rounds. Schedules are pure and serialisable."""

    def __call__(self, round: int) -> float:
        """Return the value at a round >= 0, which may be after the end of the schedule."""
        ...

    def scale_to(self, total: int) -> Schedule:
        """Return the schedule with a length of `total` rounds, if it does not have a length."""
        ...

    @property
    def needs_total(self) -> bool:
        """Whether `scale_to` must be called before the schedule can be evaluated."""
        ...


def as_numbers(values: Any, what: str) -> Float64Array:
    """Convert to float64[N], with NaN for missing values, or raise `DataError`. The result may
    share memory.
    """
    kind = type(values)
    if hasattr(kind, "columns") and not hasattr(kind, "__array__"):
        raise DataError(f"{what} must be numbers, not a {kind.__name__}; collect the column first")
    try:
        array = values if np.ma.isMaskedArray(values) else np.asarray(values)
    except ValueError:
        raise DataError(
            f"{what} must be numbers in a flat list, not lists of several lengths"
        ) from None
    check_real(array, what)
    if array.size not in (*array.shape, 1):  # not even a matrix of one row or column
        raise DataError(f"{what} must be one per row, not of shape {array.shape}")
    try:
        return with_nan(masked_as_missing(array)).astype(np.float64, copy=False).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{what} must be numbers: {error}") from None


def with_nan(values: Array) -> Array:
    """Return an array with NaN for pandas' NA and NaT, which only arrays of objects contain."""
    if values.dtype.kind != "O":
        return values
    missing = np.vectorize(lambda value: type(value).__name__ in ("NAType", "NaTType"), [bool])
    return np.where(missing(values), np.nan, values)


def pandas_index(values: Any) -> Any:
    """Return the index of a pandas Series or DataFrame, or None for anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "symmetric_difference") else None


_MAY_BE_FILES = ("X", "old", "new")  # arguments that are also paths


def check_in_step(**columns: Any) -> None:
    """Raise `DataError` for names instead of values, and for pandas objects with the same index in
    different orders, whose rows do not correspond.
    """
    first, first_index = "", None
    for name, column in columns.items():
        if isinstance(column, str) and name not in _MAY_BE_FILES:
            raise DataError(
                f"{name}={column!r} is a name: pass the values, {name}=X[{column!r}], and drop that"
                " column from X; RankingDataset.from_frame takes names"
            )
        index = pandas_index(column)
        if first_index is None:
            first, first_index = name, index
        elif (
            index is not None
            and len(index) == len(first_index)
            and not index.equals(first_index)
            and index.is_unique
            and not len(first_index.difference(index))
        ):
            raise DataError(
                f"{name}= has the index of {first}= in another order: pass"
                f" {name}.loc[{first}.index] to align the rows, or {name}.to_numpy() to ignore the"
                " index"
            )


def check_real(values: Array, what: str) -> None:
    """Raise `DataError` for times, complex numbers and structured arrays, which NumPy would
    silently cast to real numbers.
    """
    types = {values.dtype.type} if values.dtype.kind != "O" else set(map(type, values.flat))
    if any(
        issubclass(cls, np.datetime64 | np.timedelta64 | np.complexfloating | np.void)
        for cls in types
    ):
        kind = str(values.dtype)
        if values.dtype.kind == "O":
            kind = " and ".join(sorted(cls.__name__ for cls in types))
        raise DataError(
            f"{what} of type {kind} are not real numbers; convert them first, or pass one field of"
            " a structured array"
        )


def masked_as_missing(values: Any) -> Array:
    """Convert a masked array to a plain one, with NaN for masked values."""
    if not (np.ma.isMaskedArray(values) and np.ma.is_masked(values)):
        return np.asarray(values)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    return np.asarray(values.filled(np.nan))


def first_true(mask: BoolArray) -> int | None:
    """Return the position of the first true entry of a mask, bool[N], or None if there is none."""
    rows = np.flatnonzero(mask)
    return int(rows[0]) if rows.size else None
