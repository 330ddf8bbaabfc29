"""Parsed cells into matrices (compiled)."""

from __future__ import annotations

import math

from numba import types

from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.libsvm.parser import N1, S1, S2, Int32Array
from boostrank.kernels.runtime.jit import I1, INT, entry_point


@entry_point(types.void(I1, INT, N1, S1, INT, S2))
def fill_dense(
    row_ends: Int64Array, rows: int, ids: Int32Array, values: Float32Array, limit: int, out: Float32Array
) -> None:
    """Write parsed cells with a feature number up to `limit` into zeroed out[rows, columns]."""
    begin = 0
    for row in range(rows):
        for i in range(begin, row_ends[row]):
            if ids[i] <= limit:
                out[row, ids[i]] = values[i]
        begin = row_ends[row]


@entry_point(INT(I1, INT, N1, S1, INT, I1, N1, S1))
def fill_sparse(
    row_ends: Int64Array, rows: int, ids: Int32Array, values: Float32Array, limit: int, out_ends: Int64Array,
    out_ids: Int32Array, out_values: Float32Array,
) -> int:  # fmt: skip
    """Copy parsed cells up to `limit` that are not +0.0 (what a sparse row does not name is zero); returns how many.

    `out_ids` and `out_values` may be the arrays they are copied from.
    """
    begin, kept = 0, 0
    for row in range(rows):
        for i in range(begin, row_ends[row]):
            if ids[i] <= limit and (values[i] != 0.0 or math.copysign(1.0, values[i]) < 0.0):
                out_ids[kept], out_values[kept] = ids[i], values[i]
                kept += 1
        begin = row_ends[row]
        out_ends[row] = kept
    return kept


@entry_point(types.void(I1, INT, INT, N1, S1, N1, S2))
def fill_columns(
    row_ends: Int64Array, first: int, stop: int, ids: Int32Array, values: Float32Array, column: Int32Array,
    out: Float32Array,
) -> None:  # fmt: skip
    """Write the parsed cells of rows `first` to `stop` into zeroed out[rows, columns].

    Args:
        column: of each feature number that occurs; -1: it is left out.
    """
    begin = row_ends[first - 1] if first > 0 else 0
    for row in range(first, stop):
        for i in range(begin, row_ends[row]):
            if column[ids[i]] >= 0:
                out[row - first, column[ids[i]]] = values[i]
        begin = row_ends[row]
