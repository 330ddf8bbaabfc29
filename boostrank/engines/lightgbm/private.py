"""Private parts of LightGBM that this package uses, tested with LightGBM 4.3 to 4.7.

`objective.description` reads one more: the stack of `lgb.train`. `tests/engines/test_private.py` checks each part and
says what breaks without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call

from boostrank.core.types import Float64Array

_FLOAT32, _INT32 = 0, 2  # C_API_DTYPE_*
ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold: its samples leave out smaller magnitudes."""


def parameter_names() -> dict[str, str]:
    """Return every parameter name and alias of the installed LightGBM -> its main name; empty if not available."""
    try:
        aliases: dict[str, list[str]] = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:
        return {}
    return {name: main for main, others in aliases.items() for name in (main, *others)}


def main_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters under their main names."""
    known = parameter_names()
    return {known.get(name, name): value for name, value in params.items()}


def use_one_thread() -> None:
    """Limit LightGBM to one thread in this process, whatever number it is given later."""
    _safe_call(_LIB.LGBM_SetMaxThreads(ctypes.c_int(1)))


def has_nothing_to_split(error: Exception) -> bool:
    """Return True if a `LightGBMError` is the C++ check that fails for very small data."""
    return "num_features()" in str(error)


@contextlib.contextmanager
def starting_at(dataset: Any, scores: Float64Array) -> Iterator[None]:
    """Make a data set that continues a model start from these scores, inside the context.

    LightGBM would predict them from the features: slower, not always bit-identical (bagging by query), and impossible
    if the features are no longer in memory.
    """

    def start(**_: Any) -> Any:
        return dataset.set_init_score(scores)

    def take(predictor: Any) -> Any:
        dataset._predictor = predictor
        return dataset if dataset._handle is None or predictor is None else start()

    dataset._set_init_score_by_predictor, dataset._set_predictor = start, take
    try:
        yield
    finally:
        del dataset._set_init_score_by_predictor, dataset._set_predictor


class HandleDataset(lightgbm.Dataset):  # type: ignore[misc]
    """`lightgbm.Dataset` that a subclass bins itself, through LightGBM's C functions.

    The C functions are documented; `lightgbm.basic` reaches them from Python, and `_lazy_init` creates a data set.
    """

    def fill(self, data: Any, reference: Any) -> None:
        """Bin `data`, with the bounds of a constructed `reference` if given."""
        raise NotImplementedError

    def start_scores(self, predictor: Any, data: Any) -> npt.NDArray[Any]:
        """Return the scores of the rows under a model to be continued."""
        raise NotImplementedError

    def _lazy_init(self, **given: Any) -> HandleDataset:
        self.params = given["params"] or {}
        self._has_non_default_feature_names = True
        if given["reference"] is not None:
            given["reference"].construct()
        self.fill(given["data"], given["reference"])
        self.set_label(given["label"]).set_group(given["group"])
        if given["weight"] is not None:
            self.set_weight(given["weight"])
        if given["predictor"] is not None:
            self._set_init_score_by_predictor(predictor=given["predictor"], data=given["data"], used_indices=None)
        self.set_feature_name(given["feature_name"])
        return self

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> HandleDataset:
        if predictor is not None:
            self.set_init_score(self.start_scores(predictor, self.data))
        elif self.init_score is not None:
            self.set_init_score(np.zeros_like(self.init_score))
        return self

    def sampled_rows(self, rows: int) -> npt.NDArray[np.int32]:
        """Return the rows from which LightGBM finds the bounds of bins, ascending."""
        params, count, taken = self._c_params(), ctypes.c_int(0), ctypes.c_int32(0)
        _safe_call(_LIB.LGBM_GetSampleCount(ctypes.c_int32(rows), params, ctypes.byref(count)))
        chosen = np.zeros(count.value, np.int32)
        _safe_call(_LIB.LGBM_SampleIndices(ctypes.c_int32(rows), params, _pointer(chosen), ctypes.byref(taken)))
        return chosen[: taken.value]

    def create_from_sample(
        self,
        values: Sequence[Float64Array],
        places: Sequence[npt.NDArray[np.int32]],
        sampled: int,
        rows: int,
        all_rows: int | None = None,
    ) -> None:
        """Create empty bins from a sample of each column.

        Args:
            values, places: nonzero values of each column, and their positions in the sample.
            sampled: number of sampled rows.
            all_rows: number of rows of all workers, if they share the sample.
        """
        columns = len(values)
        lengths = np.array([v.size for v in values], dtype=np.int32)
        self._create(
            _LIB.LGBM_DatasetCreateFromSampledColumn,
            (ctypes.c_void_p * columns)(*(v.ctypes.data for v in values)),
            (ctypes.c_void_p * columns)(*(p.ctypes.data for p in places)),
            ctypes.c_int32(columns),
            _pointer(lengths),
            ctypes.c_int32(sampled),
            ctypes.c_int32(rows),
            ctypes.c_int64(all_rows or rows),
            self._c_params(),
        )

    def create_like(self, reference: Any, rows: int) -> None:
        """Create empty bins with the bounds of another data set."""
        self._create(_LIB.LGBM_DatasetCreateByReference, reference._handle, ctypes.c_int64(rows))

    def push(self, piece: Any, start: int) -> None:
        """Push rows from `start` on into their bins: float32, dense or CSR with int32 indices."""
        kind = ctypes.c_int(_FLOAT32)
        if hasattr(piece, "indptr"):
            failed = _LIB.LGBM_DatasetPushRowsByCSR(
                self._handle,
                _pointer(piece.indptr),
                ctypes.c_int(_INT32),
                _pointer(piece.indices),
                _pointer(piece.data),
                kind,
                ctypes.c_int64(piece.indptr.size),
                ctypes.c_int64(piece.nnz),
                ctypes.c_int64(piece.shape[1]),
                ctypes.c_int64(start),
            )
        else:
            rows, columns = map(ctypes.c_int32, piece.shape)
            first = ctypes.c_int32(start)
            failed = _LIB.LGBM_DatasetPushRows(self._handle, _pointer(piece), kind, rows, columns, first)
        _safe_call(failed)

    def load_bins(self, path: str, reference: Any) -> None:
        """Load bins from a file of `save_bins`."""
        bounds = None if reference is None else reference._handle
        self._create(_LIB.LGBM_DatasetCreateFromFile, _c_str(path), self._c_params(), bounds)

    def save_bins(self, path: str) -> bool:
        """Write the bins; return True if the file is complete."""
        _safe_call(_LIB.LGBM_DatasetSaveBinary(self._handle, _c_str(path)))
        return is_complete(path)

    def _create(self, function: Any, *arguments: Any) -> None:
        self._handle = ctypes.c_void_p()
        _safe_call(function(*arguments, ctypes.byref(self._handle)))

    def _c_params(self) -> Any:
        return _c_str(_param_dict_to_str(self.params))


def is_complete(path: str) -> bool:
    """Return True if the parts of a file of bins add up to its length.

    LightGBM does not report a full disk (its issue 7334). The file is a mark, then header, metadata and feature groups,
    each preceded by its length.
    """
    size, at = os.path.getsize(path), -(-len(b"______LightGBM_Binary_File_Token______\n") // 8) * 8
    parts = 0
    with open(path, "rb") as file:
        while at < size:
            file.seek(at)
            length = file.read(8)
            if len(length) < 8:
                return False
            at += 8 + struct.unpack("<Q" if sys.byteorder == "little" else ">Q", length)[0]
            parts += 1
    return at == size and parts > 2


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
