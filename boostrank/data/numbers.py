"""Numbers of any type as float32, which the engines are given: what does not fit is refused, what is rounded said."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, DataWarning, warn_user

EXACT = 2**24
"""Whole numbers up to it are float32 numbers."""


class Float32Cast:
    """Casts columns, and remembers whole numbers that were rounded: floating-point numbers are rounded anyway."""

    def __init__(self) -> None:
        self._rounded: dict[str, tuple[int, int]] = {}

    def cast(self, values: npt.NDArray[Any], name: str, *, whole: bool = False) -> npt.NDArray[np.float32]:
        """float32 of the same shape.

        Args:
            values: real numbers; the very array comes back where it is float32.
            name: of the column, for messages.
            whole: they are whole numbers, whatever the type of the array.

        Raises:
            DataError: a finite number that is too large.
        """
        if values.dtype == np.float32:
            return values
        with np.errstate(over="ignore"):
            out: npt.NDArray[np.float32] = values.astype(np.float32)
        lost = np.isinf(out) & np.isfinite(values)
        if bool(lost.any()):
            where = int(np.flatnonzero(lost)[0])
            raise DataError(f"column {name!r} holds {values[where]!r}, which does not fit in float32; rescale it")
        if (whole or values.dtype.kind in "iu") and values.size and np.nanmax(np.abs(out), initial=0.0) >= EXACT:
            changed = np.flatnonzero((out.astype(np.float64) != values) & ~np.isnan(out))
            if changed.size:
                count, example = self._rounded.get(name, (0, int(values[changed[0]])))
                self._rounded[name] = (count + changed.size, example)
        return out

    def warn(self) -> None:
        """Say what was rounded, once for all columns."""
        if not self._rounded:
            return
        name, (count, example) = next(iter(self._rounded.items()))
        more = f"; so are {len(self._rounded) - 1} more columns" if len(self._rounded) > 1 else ""
        warn_user(
            f"column {name!r}: {count:,} whole numbers are rounded to float32, {example} to "
            f"{int(np.float32(example))}{more}: subtract what they have in common, or count in a larger unit",
            DataWarning,
        )
