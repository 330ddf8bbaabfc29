"""XGBoost's matrices from rows in pieces, with bins in memory or on disk."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost
from scipy import sparse

from boostrank.core.files import mark_alive, remove_if_dead
from boostrank.core.machine import return_memory
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Rows, dense_batches, dense_rows
from boostrank.engines.model_format import engine_names
from boostrank.engines.xgboost.params import translate

# XGBoost's sketch of a column takes some 60 KB and grows with all rows, however sparse the column. If a column has
# fewer numbers than bins, these numbers are its bounds, so XGBoost gets each of them once, and one zero. Constants:
# bytes of a sketch entry, maximum number of entries per bin, and bytes of a cell of sparse bins.
_SKETCH_ENTRY, _ROWS_A_BIN, _CELL = 16, 8, 6


def bounds_of(features: Features, options: Mapping[str, Any], types: list[str] | None) -> Any:
    """Return a small matrix whose bin bounds equal those of all cells bit for bit, for use as `ref`.

    Args:
        features: float32[N, d], sparse.
        options: options of `QuantileDMatrix`, `ref` None.
        types: types of the columns, from `types_of`.

    Returns:
        The matrix; None if it would take more memory than the sketches.
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
    """Iterate over rows in CSR; in blocks if they are on disk or part of a data set."""
    if sparse.issparse(features):
        yield features
        return
    for start, stop in dense_batches(features):
        yield features[start:stop]


def _listed(features: Features, counts: Int64Array, few: npt.NDArray[np.bool_]) -> Any:
    """Return a float32 CSR matrix that lists the numbers of the `few` columns, and a zero if a row has one."""
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
    """Iterator that passes the listed numbers, then every row of the other columns."""

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
            rows[:, self._few] = np.nan  # NaN counts as no cell
            input_data(data=rows, **self._known)
        self._next += 1
        return True

    def reset(self) -> None:
        self._next = -1


_PREFIX = "boostrank-xgboost-"


class DenseBatches(xgboost.DataIter):  # type: ignore[misc]
    """Iterator that passes sparse features, rows on disk or shards to XGBoost in dense pieces.

    XGBoost's own sparse route would treat absent entries as missing.

    Args:
        parts: features, in order; empty: one piece without rows.
        columns: number of columns of each part.
        cache_prefix: path prefix of XGBoost's bins; None: in memory.
        types: type of each column, see `types_of`; None: all are numbers.
    """

    def __init__(
        self, parts: Sequence[Features], columns: int, cache_prefix: str | None = None, types: list[str] | None = None
    ) -> None:
        self._types = {} if types is None else {"feature_types": types}
        self._pieces = [(part, *span) for part in parts for span in dense_batches(part)]
        if not self._pieces:
            self._pieces = [(np.zeros((0, columns), np.float32), 0, 0)]
        self._next = 0
        super().__init__(cache_prefix=cache_prefix)

    def next(self, input_data: Any) -> bool:
        """Pass the next piece and return True, or return False at the end."""
        if self._next == len(self._pieces):
            return False
        features, start, stop = self._pieces[self._next]
        return_memory()  # memory of the last batch's sketches
        input_data(data=dense_rows(features, start, stop), **self._types)
        self._next += 1
        if isinstance(features, Rows) and features.watch is not None:
            features.watch(stop, features.shape[0])
        return True

    def reset(self) -> None:
        """Restart the iteration."""
        self._next = 0


def types_of(data: RankingDataset) -> list[str] | None:
    """Return XGBoost's type of each column, "c" for codes of categories; None without categories."""
    codes = set(data.categorical)
    return ["c" if i in codes else "float" for i in range(data.n_features)] if codes else None


def matrix_info(labels: Float64Array, queries: QueryIndex, names: Sequence[str], *, weights: bool) -> dict[str, Any]:
    """Return the fields of a matrix other than features; query weights only if `weights`."""
    return {
        "label": labels.astype(np.float32),
        "group": queries.sizes,
        "weight": queries.weights if weights else None,
        "feature_names": list(engine_names(names)),
    }


def matrix_options(params: dict[str, Any], reference: Any, *, categories: bool = False) -> dict[str, Any]:
    """Return the options of `QuantileDMatrix`.

    Args:
        reference: bins of the training set, for a validation set; otherwise None.
    """
    translated = translate(params)
    known = {"enable_categorical": True} if categories else {}
    return {"ref": reference, "max_bin": translated["max_bin"], "nthread": translated.get("nthread"), **known}


def matrix_in_pieces(data: RankingDataset, options: dict[str, Any]) -> Any:
    """Return a quantile matrix without labels.

    Args:
        data: sparse or on disk. With external memory its bins are on disk, in a folder that is deleted with the matrix.
    """
    parts, columns, types = [data.features], data.features.shape[1], types_of(data)
    if data.is_sparse and options["ref"] is None:
        options = options | {"ref": bounds_of(data.features, options, types)}
    if not (data.on_disk and data.features.external):
        return xgboost.QuantileDMatrix(DenseBatches(parts, columns, types=types), **options)
    folder = _Folder(data.features.store.folder)
    try:
        matrix = xgboost.ExtMemQuantileDMatrix(DenseBatches(parts, columns, f"{folder.path}/bins", types), **options)
    except BaseException:
        folder.remove()
        raise
    weakref.finalize(matrix, folder.remove)
    return matrix


class _Folder:
    """Folder for XGBoost's bins; removes those that killed processes left."""

    def __init__(self, parent: str) -> None:
        for left in glob.glob(os.path.join(glob.escape(parent), f"{_PREFIX}*")):
            with contextlib.suppress(OSError):
                remove_if_dead(left)
        self._descriptor: int | None = None
        while True:
            self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
            if os.name == "nt":  # Windows cannot open folders
                return
            self._descriptor = os.open(self.path, os.O_RDONLY)
            if mark_alive(self._descriptor, self.path):
                return
            os.close(self._descriptor)

    def remove(self) -> None:
        """Delete the folder, ignoring errors."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
