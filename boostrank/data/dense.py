"""Dense rows: features in pieces of float32, as the engines take them; some columns, a few queries at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.kernels.runtime.jit import run_parallel

_DOCUMENTS_A_BLOCK = 4096  # that a thread works on at a time


def dense_batches(features: Features, batch_bytes: int = 16 << 20) -> list[tuple[int, int]]:
    """Row ranges whose dense float32 form takes about `batch_bytes` each."""
    rows, columns = features.shape
    step = max(1, batch_bytes // max(1, 4 * columns))
    return [(a, min(a + step, rows)) for a in range(0, rows, step)]


def dense_rows(features: Features, start: int, stop: int) -> npt.NDArray[np.float32]:
    """Some rows as a dense float32 array; what a sparse row does not name is zero."""
    part = features[start:stop]
    return np.ascontiguousarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float32)


class RowsWithGaps:
    """Features of which what a sparse row does not name is missing, not zero: slices are dense.

    Args:
        matrix: float32 CSR, [N, d].
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix, self.shape = matrix, matrix.shape

    def __getitem__(self, rows: slice) -> Float32Array:
        """float32[n, d], C order."""
        part = self._matrix[rows]
        dense = np.full(part.shape, np.nan, np.float32)
        dense[np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] = part.data
        return dense


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Some columns of a data set as dense rows, a few queries at a time.

    Args:
        data: the data set, in the model's order of features.
        columns: int64[c], which.
        absent_is_missing: what a sparse row does not name is missing, not zero.
    """

    data: RankingDataset
    columns: Int64Array
    absent_is_missing: bool = False

    def __getitem__(self, rows: slice | Int64Array) -> Float32Array:
        """float32[n, c], C order."""
        part = self.data.features[rows][:, self.columns]
        is_sparse = hasattr(part, "toarray")
        dense = np.ascontiguousarray(part.toarray() if is_sparse else part, dtype=np.float32)
        if is_sparse and self.absent_is_missing:
            part.data = np.ones_like(part.data)
            dense[part.toarray() == 0] = np.nan
        return dense

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of queries with some thousand documents each."""
        return self.data.queries.blocks(_DOCUMENTS_A_BLOCK)

    def reach(self, threads: int) -> Float64Array:
        """float64[c]: the largest size of a value in each column, 0 where there is none."""
        ptr = self.data.queries.ptr

        def largest(span: tuple[int, int]) -> Float64Array:
            rows = np.abs(self[int(ptr[span[0]]) : int(ptr[span[1]])])
            return np.asarray(np.fmax.reduce(rows, axis=0, initial=0.0), dtype=np.float64)

        found = run_parallel(largest, self.blocks(), threads)
        return np.asarray(np.max([np.zeros(self.columns.size), *found], axis=0), dtype=np.float64)

    def constant_within_queries(self, threads: int) -> Int64Array:
        """Columns (places) that no query has two values of."""
        ptr = self.data.queries.ptr

        def varies(span: tuple[int, int]) -> Float64Array:
            a, b = int(ptr[span[0]]), int(ptr[span[1]])
            rows = self[a:b]
            differs = rows[1:] != rows[:-1]
            differs &= ~(np.isnan(rows[1:]) & np.isnan(rows[:-1]))
            differs[ptr[span[0] + 1 : span[1]] - a - 1] = False  # from one query to the next
            return np.asarray(differs.any(axis=0))

        found = run_parallel(varies, self.blocks(), threads)
        return np.flatnonzero(~np.any([np.zeros(self.columns.size), *found], axis=0))
