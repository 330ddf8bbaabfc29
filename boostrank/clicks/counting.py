"""Sums by key of any number of entries, in memory for the distinct keys alone: an open hash table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Int64Array
from boostrank.kernels.runtime.jit import I1, INT, entry_point

_SMALLEST = 1 << 12
_FULL = 0.7  # of the places: beyond it looking for one takes long
_I2 = types.Array(INT, 2, "C")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (D. Knuth, The Art of Computer Programming 3, 6.4)
_HALF = np.uint64(32)


class Sums:
    """Impressions and clicks by key."""

    def __init__(self) -> None:
        self._table = np.zeros((_SMALLEST, 3), np.int64)
        self._used = 0

    def add(self, keys: Int64Array, impressions: Int64Array, clicks: Int64Array) -> None:
        """Entries, of which several may have one key; keys are above 0."""
        needed, places = self._used + keys.size, self._table.shape[0]
        while needed > _FULL * places:
            places *= 2
        if places > self._table.shape[0]:
            old, self._table = self._table, np.zeros((places, 3), np.int64)
            _add(*_columns(old), self._table)
        self._used += _add(keys, impressions, clicks, self._table)

    def sums(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(keys ascending, impressions, clicks); nothing can be added any more."""
        keys, impressions, clicks = _columns(self._table)
        self._table = np.zeros((0, 3), np.int64)
        order = np.argsort(keys)
        return keys[order], impressions[order], clicks[order]


def _columns(table: npt.NDArray[np.int64]) -> tuple[Int64Array, Int64Array, Int64Array]:
    used = table[:, 0] > 0
    keys, impressions, clicks = (np.ascontiguousarray(table[used, i]) for i in range(3))
    return keys, impressions, clicks


@entry_point(INT(I1, I1, I1, _I2))
def _add(keys: Int64Array, impressions: Int64Array, clicks: Int64Array, table: npt.NDArray[np.int64]) -> int:
    """Add entries to a table of 2^b rows of key (0: free) and sums; how many keys are new."""
    last, new = table.shape[0] - 1, 0
    for i in range(keys.size):
        key = keys[i]
        mixed = np.uint64(key) * _SPREAD
        at = np.int64((mixed ^ (mixed >> _HALF)) & np.uint64(last))
        while table[at, 0] != key:
            if table[at, 0] == 0:
                table[at, 0] = key
                new += 1
                break
            at = (at + 1) & last
        table[at, 1] += impressions[i]
        table[at, 2] += clicks[i]
    return new
