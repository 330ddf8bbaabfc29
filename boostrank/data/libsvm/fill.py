"""Parsed cells into matrices (compiled)."""

from __future__ import annotations

import math

import numba as nb

from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.libsvm.parser import Int32Array
from boostrank.kernels.runtime.jit import entry_point


@entry_point(nb.void(nb.int64[::1], nb.int64, nb.int32[::1], nb.float32[::1], nb.int64, nb.float32[:, ::1]))
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


@entry_point(
    nb.int64(
        nb.int64[::1], nb.int64, nb.int32[::1], nb.float32[::1], nb.int64, nb.int64[::1], nb.int32[::1], nb.float32[::1]
    )
)
def fill_sparse(
    row_ends: Int64Array,
    rows: int,
    ids: Int32Array,
    values: Float32Array,
    limit: int,
    out_ends: Int64Array,
    out_ids: Int32Array,
    out_values: Float32Array,
) -> int:
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
