"""Examination probabilities of positions (propensities), and their file format."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from boostrank.core.errors import DataError, FileFormatError, ParameterError
from boostrank.core.files import read_text, write_atomically
from boostrank.core.types import Float64Array, Int64Array
from boostrank.records import PropensityRecord, SegmentRecord, as_record, from_json, jsonable

MAX_POSITION = 10_000


@dataclass(frozen=True, eq=False)
class Propensities:
    """Examination probability of each position, relative to the first.

    Args:
        examination: float64[P], e of positions 1, 2, ..., positive, the first 1; NaN if unknown.
        false_clicks: float64[P], clicks per impression on irrelevant documents, less than 1. `examination` is then the
            additional click rate of relevant ones (affine correction of A. Vardasbi, H. Oosterhuis, M. de Rijke, "When
            inverse propensity scoring does not work", CIKM 2020).
        errors: float64[P], standard errors of log e, 0 for the first; None for a given curve.
        method: description of the method.
        moved: number of clicked documents shown at two or more positions; 0 for other methods.
    """

    examination: Float64Array
    false_clicks: Float64Array = field(default_factory=lambda: np.zeros(0))
    errors: Float64Array | None = None
    method: str = "given"
    moved: int = 0

    def __post_init__(self) -> None:
        e = np.array(self.examination, np.float64).reshape(-1)
        false = np.array(self.false_clicks, np.float64).reshape(-1)
        false = np.zeros(e.size) if false.size == 0 else false
        if not 1 <= e.size <= MAX_POSITION:
            raise ParameterError(f"propensities of {e.size} positions: expected 1 to {MAX_POSITION:,}")
        known = np.isfinite(e)
        if not np.all(e[known] > 0.0) or np.isinf(e).any() or not known[0] or abs(e[0] - 1.0) > 1e-9:
            raise ParameterError("propensities are relative to position 1: the first is 1, and all are above 0")
        if false.shape != e.shape or not np.all((false >= 0.0) & (false < 1.0)):
            raise ParameterError(f"false_clicks: expected {e.size} numbers from 0 to below 1, one per position")
        object.__setattr__(self, "examination", e)
        object.__setattr__(self, "false_clicks", false)
        if self.errors is not None:
            errors = np.array(self.errors, np.float64).reshape(-1)
            if errors.shape != e.shape:
                raise ParameterError(f"{errors.size} standard errors for {e.size} propensities")
            object.__setattr__(self, "errors", errors)

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.3g}" for value in self.examination[:10])
        more = ", ..." if self.examination.size > 10 else ""
        return f"Propensities({shown}{more}; {self.method})"

    def at(
        self, positions: Int64Array, segments: Int64Array | None = None, names: Sequence[str] = ()
    ) -> tuple[Float64Array, Float64Array]:
        """Return the propensity (NaN if unknown) and the false clicks of each entry of a log, float64[m] each.

        Args:
            positions: int64[m], from 1.
            segments, names: ignored: all segments share this curve.
        """
        at = np.minimum(positions - 1, self.examination.size)
        return np.append(self.examination, np.nan)[at], np.append(self.false_clicks, 0.0)[at]

    @classmethod
    def power(cls, eta: float, positions: int = 100) -> Propensities:
        """Return e_p = p^-eta, the usual assumption; eta is 1 for a list read from the top."""
        if not 0.0 <= eta <= 10.0:
            raise ParameterError(f"eta={eta!r}: 0 (no position bias) to 10")
        return cls(np.arange(1, positions + 1, dtype=np.float64) ** -eta, method=f"position to the power of -{eta:g}")

    def write(self, path: str | PathLike[str]) -> None:
        """Write as JSON, atomically."""
        write_atomically(path, (json.dumps(self.to_dict(), indent=1) + "\n").encode())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with null for unknown values."""

        return dict(msgspec.to_builtins(self._record()))

    def _record(self) -> PropensityRecord:
        return PropensityRecord(
            examination=jsonable(self.examination),
            false_clicks=jsonable(self.false_clicks) if self.false_clicks.any() else UNSET,
            errors=UNSET if self.errors is None else jsonable(self.errors),
            method=self.method,
            moved=self.moved,
        )

    @classmethod
    def _of_record(cls, record: PropensityRecord) -> Propensities:
        return cls(
            np.array(record.examination, np.float64),
            np.array(record.false_clicks or (), np.float64),
            np.array(record.errors, np.float64) if record.errors else None,
            record.method,
            record.moved,
        )


@dataclass(frozen=True, eq=False)
class SegmentPropensities:
    """Propensities of each segment of a log.

    Args:
        curves: segment -> its propensities, at least one.
    """

    curves: Mapping[str, Propensities]

    def __repr__(self) -> str:
        return "; ".join(f"{name}: {curve!r}" for name, curve in self.curves.items())

    @property
    def errors(self) -> Float64Array | None:
        """Standard errors of all curves, concatenated; None if a curve has none."""
        every = [curve.errors for curve in self.curves.values()]
        return None if any(one is None for one in every) else np.concatenate([one for one in every if one is not None])

    @property
    def false_clicks(self) -> Float64Array:
        """False clicks of all curves, concatenated."""
        return np.concatenate([curve.false_clicks for curve in self.curves.values()])

    def at(
        self, positions: Int64Array, segments: Int64Array | None = None, names: Sequence[str] = ()
    ) -> tuple[Float64Array, Float64Array]:
        """Evaluate each entry with the curve of its segment, as `Propensities.at`."""
        if segments is None:
            raise DataError("these propensities are by segment, but the click log has none: pass a single curve")
        missing = [name for name in names if name not in self.curves]
        if missing:
            raise DataError(f"no propensities for segment {missing[0]!r}; known segments: {', '.join(self.curves)}")
        e, false = np.full(positions.size, np.nan), np.zeros(positions.size)
        for number, name in enumerate(names):
            own = segments == number
            e[own], false[own] = self.curves[name].at(positions[own])
        return e, false

    def write(self, path: str | PathLike[str]) -> None:
        """Write as JSON, atomically."""
        write_atomically(path, (json.dumps(self.to_dict(), indent=1) + "\n").encode())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        records = {name: curve._record() for name, curve in self.curves.items()}
        return dict(msgspec.to_builtins(SegmentRecord(segments=records)))


AnyPropensities = Propensities | SegmentPropensities


def propensities_of_dict(content: Any) -> AnyPropensities:
    """Create propensities from the result of `to_dict` of either class."""
    if isinstance(content, Mapping) and "segments" in content:
        curves = as_record(SegmentRecord, content).segments
        return SegmentPropensities({name: Propensities._of_record(one) for name, one in curves.items()})
    return Propensities._of_record(as_record(PropensityRecord, content))


def read_propensities(path: str | PathLike[str]) -> AnyPropensities:
    """Read a file of propensities, of either class.

    Raises:
        FileFormatError: an invalid entry, with its key.
    """
    name = os.fspath(path)
    text = read_text(name)
    try:
        return propensities_of_dict(from_json(text))
    except ValueError as error:
        raise FileFormatError(f"not a file of propensities: {error}", file=name) from None
