"""Bounds of the bins of sparse columns that hold few numbers, from these numbers alone.

XGBoost's sketch of a column takes memory by the rows of a dense one, some 60 KB each, however few of them are not 0:
6.7 GB for 2,000 rows x 100,000 columns. Of a column with fewer numbers than bins the bounds are these numbers, how
often each occurs does not count; so XGBoost is shown each of them once, and one zero, and takes a thousandth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from scipy import sparse

from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.arrays import Features
from boostrank.data.dense import dense_batches, dense_rows

# Bytes of the sketch a column and row, up to so many rows a bin; and of bins that are not dense, a cell.
_SKETCH_ENTRY, _ROWS_A_BIN, _CELL = 16, 8, 6


def bounds_of(features: Features, options: Mapping[str, Any], types: list[str] | None) -> Any:
    """A matrix of few cells with the bounds that the bins of all cells would have, to the bit: their `ref`.

    Args:
        features: float32[N, d], sparse.
        options: of `QuantileDMatrix`, `ref` None.
        types: of the columns, as of `types_of`.

    Returns:
        The matrix; None where it would take more memory than the sketches.
    """
    rows, columns = features.shape
    counts = sum(
        (np.bincount(piece.indices, minlength=columns) for piece in _pieces(features)), np.zeros(columns, np.int64)
    )
    few = counts < options["max_bin"]
    sketches = _SKETCH_ENTRY * min(_ROWS_A_BIN * options["max_bin"], rows) * np.count_nonzero(few)
    if sketches <= _CELL * rows * np.count_nonzero(~few):
        return None
    known = {} if types is None else {"feature_types": types}
    listed = _listed(features, counts, few)
    if few.all():
        return xgboost.QuantileDMatrix(listed, **known, **options)
    return xgboost.QuantileDMatrix(_Listed(listed, features, few, known), **options)


def _pieces(features: Features) -> Iterator[Any]:
    """Rows in CSR; those on disk and those of a part a few at a time."""
    if sparse.issparse(features):
        yield features
        return
    for start, stop in dense_batches(features):
        yield features[start:stop]


def _listed(features: Features, counts: Int64Array, few: npt.NDArray[np.bool_]) -> Any:
    """float32 CSR whose columns begin with the numbers of those of few, and a zero where a row has one."""
    columns: list[Any] = [np.flatnonzero(few & (counts < features.shape[0]))]
    values: list[Float32Array] = [np.zeros(columns[0].size, np.float32)]
    for piece in _pieces(features):
        kept = few[piece.indices]
        columns.append(piece.indices[kept])
        values.append(piece.data[kept])
    column, value = np.concatenate(columns), np.concatenate(values)
    order = np.argsort(column, kind="stable")
    column, value = column[order], value[order]
    row = np.arange(column.size) - np.searchsorted(column, column)
    shape = (int(row.max(initial=0)) + 1, features.shape[1])
    return sparse.csr_matrix((value, (row, column)), shape=shape)


class _Listed(xgboost.DataIter):  # type: ignore[misc]
    """Feeds what is listed, and of the other columns every row."""

    def __init__(self, listed: Any, features: Features, few: npt.NDArray[np.bool_], known: dict[str, Any]) -> None:
        self._listed, self._features, self._few, self._known = listed, features, few, known
        self._spans, self._next = dense_batches(features), -1
        super().__init__()

    def next(self, input_data: Any) -> bool:
        if self._next == len(self._spans):
            return False
        if self._next < 0:
            input_data(data=self._listed, **self._known)
        else:
            rows = dense_rows(self._features, *self._spans[self._next])
            rows[:, self._few] = np.nan  # which counts as no cell
            input_data(data=rows, **self._known)
        self._next += 1
        return True

    def reset(self) -> None:
        self._next = -1
