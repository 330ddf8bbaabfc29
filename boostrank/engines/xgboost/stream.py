"""XGBoost's matrices from rows in pieces, with bins in memory or on disk."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost

from boostrank.core.files import mark_alive, remove_if_dead
from boostrank.core.machine import return_memory
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Rows, dense_batches, dense_rows
from boostrank.engines.model_format import engine_names
from boostrank.engines.xgboost.params import translate

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
