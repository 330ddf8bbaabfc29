"""Functions of one feature that are linear in pieces, and what they say of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.runtime.jit import F1, F2, I1, entry_point

LOWEST = float(np.finfo(np.float64).min)
"""What is below this, -infinity, counts as missing: a LightGBM tree sends both the same way."""

ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold, a float32 there: what is that near to 0 counts as 0."""

# Documents that are looked at together.
_CHUNK = 256

_S2 = types.Array(types.float32, 2, "C")


@dataclass(frozen=True, eq=False)
class Curve:
    """One function: in piece i, which ends with bound i inclusive, constant[i] + slope[i] * x.

    Args:
        bounds: float64[k], ascending: of all pieces but the last.
        constant, slope: float64[k + 1].
        missing: what it says of a missing value.
    """

    bounds: Float64Array
    constant: Float64Array
    slope: Float64Array
    missing: float

    @classmethod
    def line(cls, slope: float, constant: float, missing: float) -> Curve:
        """One piece."""
        return cls(np.zeros(0), np.array([constant]), np.array([slope]), missing)

    @classmethod
    def through(cls, x: Float64Array, y: Float64Array, missing: float) -> Curve:
        """Straight from point to point, and level beyond the first and the last.

        Args:
            x: float64[k], ascending, distinct, at least one.
            y: float64[k].
            missing: as above.
        """
        slope = np.diff(y) / np.diff(x)
        constant = np.concatenate([y[:1], y[:-1] - slope * x[:-1], y[-1:]])
        return cls(x, constant, np.concatenate([[0.0], slope, [0.0]]), missing)

    def on(self, bounds: Float64Array) -> Curve:
        """The same with more bounds: its own are among them."""
        at = np.append(np.searchsorted(self.bounds, bounds), self.bounds.size)
        return Curve(bounds, self.constant[at], self.slope[at], self.missing)


def combined(curves: Sequence[Curve], weights: Sequence[float]) -> Curve:
    """The weighted sum of several, at least one, functions of the same feature."""
    bounds = np.unique(np.concatenate([curve.bounds for curve in curves]))
    same = [curve.on(bounds) for curve in curves]
    return Curve(
        bounds,
        np.sum([w * c.constant for w, c in zip(weights, same, strict=True)], axis=0),
        np.sum([w * c.slope for w, c in zip(weights, same, strict=True)], axis=0),
        float(sum(w * c.missing for w, c in zip(weights, same, strict=True))),
    )


@dataclass(frozen=True, eq=False)
class Curves:
    """Several functions, one after another.

    Args:
        feature: int64[m], the column that each looks at.
        ptr: int64[m + 1], where the pieces of each begin.
        bounds: float64[p], the end of each piece; infinity for a last one.
        constant, slope: float64[p].
        missing: float64[m].
    """

    feature: Int64Array
    ptr: Int64Array
    bounds: Float64Array
    constant: Float64Array
    slope: Float64Array
    missing: Float64Array

    @classmethod
    def of(cls, curves: Sequence[tuple[int, Curve]]) -> Curves:
        """From (column, function)."""
        pieces = [curve.constant.size for _, curve in curves]

        def joined(parts: Sequence[npt.NDArray[np.float64]]) -> Float64Array:
            return np.concatenate([np.zeros(0), *parts])

        return cls(
            np.array([feature for feature, _ in curves], np.int64),
            np.concatenate([[0], np.cumsum(pieces)]).astype(np.int64),
            joined([np.append(curve.bounds, np.inf) for _, curve in curves]),
            joined([curve.constant for _, curve in curves]),
            joined([curve.slope for _, curve in curves]),
            np.array([curve.missing for _, curve in curves], np.float64),
        )

    def __iter__(self) -> Iterator[tuple[int, Curve]]:
        for j, feature in enumerate(self.feature.tolist()):
            a, b = self.ptr[j], self.ptr[j + 1]
            curve = Curve(self.bounds[a : b - 1], self.constant[a:b], self.slope[a:b], float(self.missing[j]))
            yield feature, curve

    def values(self, rows: Float32Array) -> Float64Array:
        """float64[n, m] of float32[n, c], NaN where missing: what each says of each row."""
        out = np.empty((rows.shape[0], self.feature.size))
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        _values(rows, self.feature, self.ptr, self.bounds, self.constant, self.slope, self.missing, out)
        return out

    def largest(self, reach: Float64Array) -> float:
        """The largest size that their sum can have.

        Args:
            reach: float64[c], the largest size of a value in each column.
        """
        total = 0.0
        for feature, curve in self:
            ends = np.clip(np.concatenate([[-np.inf], curve.bounds, [np.inf]]), -reach[feature], reach[feature])
            both, level = np.stack([ends[:-1], ends[1:]]), curve.slope == 0.0
            values = curve.constant + curve.slope * np.where(level, 0.0, both)
            total += max(abs(curve.missing), float(np.abs(values).max()))
        return total


@entry_point(types.void(_S2, I1, I1, F1, F1, F1, F1, F2))
def _values(
    rows: Float32Array,
    feature: Int64Array,
    ptr: Int64Array,
    bounds: Float64Array,
    constant: Float64Array,
    slope: Float64Array,
    missing: Float64Array,
    out: Float64Array,
) -> None:
    n = rows.shape[0]
    x, piece = np.empty(_CHUNK), np.empty(_CHUNK, np.int64)
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        for j in range(feature.shape[0]):
            for i in range(size):
                value = float(rows[start + i, feature[j]])
                x[i] = 0.0 if -ZERO <= value <= ZERO else value
                piece[i] = ptr[j]
            # Bounds that are passed are counted: many at a time by SIMD, which beats a search that waits for each.
            for b in range(ptr[j], ptr[j + 1] - 1):
                bound = bounds[b]
                for i in range(size):
                    piece[i] += 1 if x[i] > bound else 0
            for i in range(size):
                if x[i] != x[i] or x[i] < LOWEST:
                    out[start + i, j] = missing[j]
                else:
                    # Level pieces are what they are at infinity too.
                    s = slope[piece[i]]
                    out[start + i, j] = constant[piece[i]] if s == 0.0 else constant[piece[i]] + s * x[i]
