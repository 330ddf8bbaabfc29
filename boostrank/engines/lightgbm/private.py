"""Private parts of LightGBM: all that this package uses, but for the stack of `lgb.train`, which `objective.caller`
reads. Tried with LightGBM 4.3 to 4.7.

`tests/engines/test_private.py` holds each of them, and says what a version that lacks one breaks.
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
"""LightGBM's kZeroThreshold: its samples leave out what is nearer to 0."""


def parameter_names() -> dict[str, str]:
    """Every parameter name and alias of the installed LightGBM -> its main name; empty if it does not tell."""
    try:
        aliases: dict[str, list[str]] = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:
        return {}
    return {name: main for main, others in aliases.items() for name in (main, *others)}


def main_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by their main names."""
    known = parameter_names()
    return {known.get(name, name): value for name, value in params.items()}


def use_one_thread() -> None:
    """Whatever LightGBM does from now on in this process takes one thread, also where it is told another number."""
    _safe_call(_LIB.LGBM_SetMaxThreads(ctypes.c_int(1)))


def has_nothing_to_split(error: Exception) -> bool:
    """Whether a `LightGBMError` is the C++ check that small data fail."""
    return "num_features()" in str(error)


@contextlib.contextmanager
def starting_at(dataset: Any, scores: Float64Array) -> Iterator[None]:
    """Inside, a data set that is to continue a model begins with these scores.

    LightGBM would predict them from the features: slower, not always the same to the last bit (bagging by query),
    and impossible for a data set whose features are gone.
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
    """A `lightgbm.Dataset` that a subclass bins by itself, through LightGBM's C functions.

    Those are documented; `lightgbm.basic` is how Python reaches them, and `_lazy_init` is where a data set is made.
    """

    def fill(self, data: Any, reference: Any) -> None:
        """Make the bins of `data`, by those of a constructed `reference` if there is one."""
        raise NotImplementedError

    def start_scores(self, predictor: Any, data: Any) -> npt.NDArray[Any]:
        """What a model to be continued says of the rows."""
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
        """The rows that LightGBM finds the bounds of bins in, ascending."""
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
        """Empty bins from the values of each column in a sample, without zeros, and their places in it.

        Args:
            values, places: of each column.
            sampled: rows of the sample.
            rows: of this data set.
            all_rows: of all workers, where the sample is of those.
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
        """Empty bins with the bounds of another data set's."""
        self._create(_LIB.LGBM_DatasetCreateByReference, reference._handle, ctypes.c_int64(rows))

    def push(self, piece: Any, start: int) -> None:
        """Put rows from `start` into their bins: float32, dense or CSR with int32 indices."""
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
        """Bins from a file of `save_bins`."""
        bounds = None if reference is None else reference._handle
        self._create(_LIB.LGBM_DatasetCreateFromFile, _c_str(path), self._c_params(), bounds)

    def save_bins(self, path: str) -> bool:
        """Write the bins; whether all of them are in the file."""
        _safe_call(_LIB.LGBM_DatasetSaveBinary(self._handle, _c_str(path)))
        return is_complete(path)

    def _create(self, function: Any, *arguments: Any) -> None:
        self._handle = ctypes.c_void_p()
        _safe_call(function(*arguments, ctypes.byref(self._handle)))

    def _c_params(self) -> Any:
        return _c_str(_param_dict_to_str(self.params))


def is_complete(path: str) -> bool:
    """Whether the parts of a file of bins add up to its length.

    LightGBM does not say when the disk is full (its issue 7334). The file is a mark, then header, metadata and feature
    groups, each with its length in front.
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
