"""Step functions of single features, which are evaluated on documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.jit import F1, F2, I1, S1, S2, allocates, entry_point, inline

LOWEST = float(np.finfo(np.float64).min)
"""The smallest finite number; -infinity, below it, is missing, because a LightGBM tree sends both
the same way.
"""

ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold in float32, below which magnitudes are treated as 0."""

# Documents processed together.
_CHUNK = 256

_NEAR, _NO_SIZE, _MISSING = np.float32(ZERO), np.float32(0.0), np.float32(np.nan)
_NONE, _ONE, _TWO = np.uint32(0), np.uint32(1), np.uint32(2)
_LEAST = np.float32(np.finfo(np.float32).min)


@dataclass(frozen=True, eq=False)
class Curve:
    """A step function with the value constant[i] in piece i, which includes its end, bounds[i].

    Args:
        bounds: float64[k], ends of all pieces but the last, ascending.
        constant: float64[k + 1].
        missing: value for a missing feature.
        documents: float64[k + 2], number of documents in each piece, last of those without a value;
            None if unknown.
    """

    bounds: Float64Array
    constant: Float64Array
    missing: float
    documents: Float64Array | None = None

    def times(self, factor: float) -> Curve:
        """Return the curve with all its values, those of missing too, times `factor`."""
        return replace(self, constant=factor * self.constant, missing=factor * self.missing)

    def on(self, bounds: Float64Array) -> Curve:
        """Return the same function with a superset of its bounds."""
        piece = np.append(np.searchsorted(self.bounds, bounds), self.bounds.size)
        documents = self.documents
        if documents is not None:  # parts of a piece get equal shares
            parts = np.bincount(piece, minlength=self.constant.size)
            documents = np.append((documents[:-1] / parts)[piece], documents[-1])
        return Curve(bounds, self.constant[piece], self.missing, documents)


def rounded_down(numbers: Float64Array) -> Float32Array:
    """Round each number down to the largest float32 number that is not above it."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def combined(curves: Sequence[Curve], weights: Sequence[float]) -> Curve:
    """Return the weighted sum of functions of the same feature."""
    bounds = np.unique(np.concatenate([curve.bounds for curve in curves]))
    refined = [curve.on(bounds) for curve in curves]
    counts = [curve.documents for curve in refined if curve.documents is not None]
    documents = np.mean(counts, axis=0) if len(counts) == len(refined) else None
    return Curve(
        bounds,
        np.sum([w * c.constant for w, c in zip(weights, refined, strict=True)], axis=0),
        float(sum(w * c.missing for w, c in zip(weights, refined, strict=True))),
        documents,
    )


@dataclass(frozen=True, eq=False)
class Curves:
    """Several step functions in shared arrays.

    Args:
        feature: int64[m], column of each function.
        ptr: int64[m + 1], start of each function's pieces.
        bounds: float64[p], end of each piece, which is infinity for the last piece of a function.
        constant: float64[p].
        missing: float64[m].
    """

    feature: Int64Array
    ptr: Int64Array
    bounds: Float64Array
    constant: Float64Array
    missing: Float64Array

    @classmethod
    def from_pairs(cls, curves: Sequence[tuple[int, Curve]]) -> Curves:
        """Create from (column, function) pairs."""
        pieces = [curve.constant.size for _, curve in curves]

        def join(parts: Sequence[npt.NDArray[np.float64]]) -> Float64Array:
            return np.concatenate([np.zeros(0), *parts])

        return cls(
            np.array([feature for feature, _ in curves], np.int64),
            np.concatenate([[0], np.cumsum(pieces)]).astype(np.int64),
            join([np.append(curve.bounds, np.inf) for _, curve in curves]),
            join([curve.constant for _, curve in curves]),
            np.array([curve.missing for _, curve in curves], np.float64),
        )

    def __iter__(self) -> Iterator[tuple[int, Curve]]:
        for j, feature in enumerate(self.feature.tolist()):
            a, b = self.ptr[j], self.ptr[j + 1]
            yield feature, Curve(self.bounds[a : b - 1], self.constant[a:b], float(self.missing[j]))

    def values(self, rows: Float32Array) -> Float64Array:
        """Return the value of each function on each row, float64[n, m]; rows are float32[n, c], NaN
        where missing.
        """
        out = np.empty((rows.shape[0], self.feature.size))
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        curve_values(
            rows,
            self.feature,
            self.ptr,
            self._below,
            self.constant,
            self.missing,
            out,
        )
        return out

    @property
    def levels(self) -> Float64Array:
        """The values of the functions in each piece, and then for missing features, float64[p +
        m].
        """
        return np.concatenate([self.constant, self.missing])

    def summed(
        self, rows: Float32Array, levels: Float64Array, which: Int64Array | None = None
    ) -> tuple[Float64Array, Int64Array]:
        """Return the sum of the functions on each row, float64[n], and the number of rows in each
        piece, int64[p + m].

        The last m numbers are those of rows without a value.

        Args:
            rows: float32[n, c].
            levels: float64[k, p + m], the `levels` of several sets of functions with the same
                pieces.
            which: int64[n], the set of functions for each row; None for the first set.
        """
        out, row_counts = np.zeros(rows.shape[0]), np.zeros(levels.shape[1], np.int64)
        which = np.zeros(rows.shape[0], np.int64) if which is None else which
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        curve_scores(
            rows,
            self.feature,
            self.ptr,
            self._below,
            np.ascontiguousarray(levels),
            which,
            out,
            row_counts,
        )
        return out, row_counts

    def with_documents(self, row_counts: Int64Array) -> list[tuple[int, Curve]]:
        """Return the column and the function of each, with the document counts that `summed`
        returns.
        """
        missing = row_counts[self.bounds.size :].astype(np.float64)
        curves = []
        for j, (feature, curve) in enumerate(self):
            in_pieces = row_counts[self.ptr[j] : self.ptr[j + 1]]
            documents = np.append(in_pieces, missing[j])
            curves.append((feature, replace(curve, documents=documents)))
        return curves

    @cached_property
    def _below(self) -> Float32Array:
        return rounded_down(self.bounds)

    @property
    def largest(self) -> float:
        """The largest possible magnitude of the sum of the functions."""
        return sum(
            max(abs(curve.missing), float(np.abs(curve.constant).max())) for _, curve in self
        )


@inline
def _find_pieces(
    rows: Float32Array,
    start: int,
    size: int,
    column: int,
    bounds: Float32Array,
    x: Float32Array,
    piece: npt.NDArray[np.uint32],
) -> None:
    """Write the values of a column to `x` (NaN where missing), and the piece of each other value to
    `piece`.
    """
    for i in range(size):
        value = rows[start + i, column]
        x[i] = _NO_SIZE if -_NEAR <= value <= _NEAR else _MISSING if value < _LEAST else value
        piece[i] = 0
    remaining = np.uint32(bounds.size)
    # Binary search in all rows at once, so that searches do not wait for memory.
    while remaining > 0:
        half = np.uint32((remaining + _ONE) // _TWO)
        for i in range(size):
            piece[i] += half if bounds[piece[i] + np.uint32(half - _ONE)] < x[i] else _NONE
        remaining = np.uint32(remaining - half)


@entry_point(types.void(S2, I1, I1, S1, F1, F1, F2))
@allocates
def curve_values(rows, feature, ptr, below, constant, missing, out):
    """Write the value of each curve in each row to `out`, float64[N, j]."""
    x, piece = np.empty(_CHUNK, np.float32), np.empty(_CHUNK, np.uint32)
    for start in range(0, rows.shape[0], _CHUNK):
        size = min(_CHUNK, rows.shape[0] - start)
        for j in range(feature.shape[0]):
            _find_pieces(rows, start, size, feature[j], below[ptr[j] : ptr[j + 1] - 1], x, piece)
            for i in range(size):
                out[start + i, j] = missing[j] if x[i] != x[i] else constant[ptr[j] + piece[i]]


@entry_point(types.void(S2, I1, I1, S1, F2, I1, F1, I1))
@allocates
def curve_scores(rows, feature, ptr, below, levels, set_of_row, out, row_counts):
    """Add the level of each curve to the scores, float64[N], and count the rows of each piece."""
    x, piece = np.empty(_CHUNK, np.float32), np.empty(_CHUNK, np.uint32)
    for start in range(0, rows.shape[0], _CHUNK):
        size = min(_CHUNK, rows.shape[0] - start)
        for j in range(feature.shape[0]):
            _find_pieces(rows, start, size, feature[j], below[ptr[j] : ptr[j + 1] - 1], x, piece)
            for i in range(size):
                level = ptr[j] + piece[i] if x[i] == x[i] else below.size + j
                row_counts[level] += 1
                out[start + i] += levels[set_of_row[start + i], level]
