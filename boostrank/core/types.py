"""Shared types, and labels, weights and scores as numbers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

ParamValues = Mapping[str, Any]
"""Parameters of an objective by name."""
Constants = tuple[Float64Array, Float64Array]
"""What an objective computes once per data set: of each document, float64[N, d], and of each query, float64[Q, c]."""


class HessianKind(enum.Enum):
    """What the second number a kernel returns is; each kind is tested for what it claims."""

    EXACT = "exact diagonal"
    MAJORISER = "majoriser"
    GAUSS_NEWTON = "Gauss-Newton"
    PROXY = "curvature proxy"


@runtime_checkable
class Schedule(Protocol):
    """A parameter that changes with the round: pure and serialisable."""

    def __call__(self, round: int) -> float:
        """Value at a 0-based round; defined for every round >= 0, also past its end."""
        ...

    def over(self, total: int) -> Schedule:
        """The same schedule with its length set to `total` rounds where none was given."""
        ...

    @property
    def needs_total(self) -> bool:
        """Whether `over` must be called before the schedule can be evaluated."""
        ...


def as_numbers(values: Any, what: str) -> Float64Array:
    """float64[N], NaN where one is missing; it may share memory with what is given.

    Args:
        values: an array, a list or a column.
        what: they are, for messages: "labels".

    Raises:
        DataError: no numbers, or too large ones.
    """
    try:
        given = values if np.ma.isMaskedArray(values) else np.asarray(values)
    except ValueError:
        raise DataError(f"{what} must be numbers, one each: these are lists of several lengths") from None
    check_real(given, what)
    try:
        found = masked_as_missing(given)
        if found.dtype.kind == "O":
            found = np.array([np.nan if one is None or str(one) == "<NA>" else one for one in found.flat], object)
        return found.astype(np.float64, copy=False).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{what} must be numbers: {error}") from None


def check_real(values: npt.NDArray[Any], what: str) -> None:
    """Refuse what NumPy would cast to a number that it is not: times count since 1970, complex numbers lose a half.

    Raises:
        DataError: so it would.
    """
    types = {values.dtype.type} if values.dtype.kind != "O" else set(map(type, values.flat))
    if any(issubclass(one, np.datetime64 | np.timedelta64 | np.complexfloating) for one in types):
        kind = values.dtype if values.dtype.kind != "O" else " and ".join(sorted(one.__name__ for one in types))
        raise DataError(f"{what} of type {kind} are no plain numbers; turn them into some")


def masked_as_missing(values: Any) -> npt.NDArray[Any]:
    """An array; what a masked one hides is NaN, not the number behind the mask."""
    if not np.ma.isMaskedArray(values):
        return np.asarray(values)
    if not np.ma.is_masked(values):
        return np.asarray(values.data)
    real = np.ma.asarray(values if values.dtype.kind == "f" else values.astype(np.float64))
    return np.asarray(real.filled(np.nan))
