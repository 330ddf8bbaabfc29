"""LightGBM's data set from rows on disk: pushed into bins piece by piece, or loaded from the cache.

The bounds of the bins come from the rows that LightGBM itself would sample, so that the trees are those of the same
data in memory. This goes through LightGBM's C functions, which are stable, where its Python layer would hold the sample
several times; the few helpers of that layer that it uses are imported here and nowhere else.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call
from scipy import sparse

from boostrank.core.machine import return_memory
from boostrank.core.types import Float64Array
from boostrank.data.cache import Entry, entry_name
from boostrank.data.libsvm.blocks import zeroed
from boostrank.data.libsvm.stream import Origin, tell_refusal
from boostrank.data.store import StoredFeatures

_FLOAT32, _INT32 = 0, 2  # C_API_DTYPE_*
_ZERO = float(np.float32(1e-35))  # kZeroThreshold: the samples leave out what is nearer to 0
_SAMPLED_ROWS = 1 << 13

# Parameters that bins do not depend on; any other, also one that is not known here, makes a cache of its own.
_NO_BINS = frozenset(
    {
        "num_threads", "verbosity", "objective", "metric", "learning_rate", "num_leaves", "num_iterations", "max_depth",
        "lambda_l1", "lambda_l2", "min_gain_to_split", "min_sum_hessian_in_leaf", "bagging_fraction", "bagging_freq",
        "bagging_seed", "feature_fraction", "feature_fraction_bynode", "feature_fraction_seed", "extra_trees",
        "extra_seed", "boosting", "drop_rate", "drop_seed", "max_drop", "skip_drop", "path_smooth", "deterministic",
        "force_col_wise", "force_row_wise", "histogram_pool_size", "early_stopping_round", "first_metric_only",
        "eval_at", "max_delta_step", "label_gain", "lambdarank_truncation_level", "lambdarank_norm", "sigmoid",
    }
)  # fmt: skip


class StreamedDataset(lightgbm.Dataset):  # type: ignore[misc]
    """A `lightgbm.Dataset` whose data are rows on disk; what it takes is what `lightgbm.Dataset` takes.

    Args:
        data: the rows.
        names: parameter names and aliases -> main name.
        options: those of `lightgbm.Dataset`.
    """

    def __init__(self, data: StoredFeatures, names: Mapping[str, str], **options: Any) -> None:
        super().__init__(data, **options)
        self._main_names = names
        self.cache_key: Any = None
        """What the bins were made from: those of a validation set depend on it. None without a cache."""

    def _lazy_init(
        self, data: StoredFeatures, label: Any, reference: Any, weight: Any, group: Any, predictor: Any,
        feature_name: Any, params: dict[str, Any] | None, **others: Any,
    ) -> StreamedDataset:  # fmt: skip
        self.params = {} if params is None else params
        self._has_non_default_feature_names = True
        if reference is not None:
            reference.construct()
        key = self._key(data, reference)
        if key is None or not self._load(data.origin, key, reference):
            self._push(data, reference)
            return_memory()  # lists of pushed values: a tenth of the bins or more
            if key is not None:  # before labels and weights, which the cache of the rows knows
                self._save(data.origin, key)
        self.set_label(label).set_group(group)
        if weight is not None:
            self.set_weight(weight)
        if predictor is not None:
            self._set_init_score_by_predictor(predictor=predictor, data=data, used_indices=None)
        self.set_feature_name(feature_name)
        return self

    # Bins from rows --------------------------------------------------------------------------------------------------

    def _push(self, data: StoredFeatures, reference: Any) -> None:
        rows, columns = data.shape
        self._handle = ctypes.c_void_p()
        if reference is None:
            self._handle_from_sample(data)
        else:
            _safe_call(
                _LIB.LGBM_DatasetCreateByReference(reference._handle, ctypes.c_int64(rows), ctypes.byref(self._handle))
            )
        for start, piece in data.pieces():
            if data.is_sparse:  # of one block, whose index arrays are int32
                _safe_call(
                    _LIB.LGBM_DatasetPushRowsByCSR(
                        self._handle, _pointer(piece.indptr), ctypes.c_int(_INT32), _pointer(piece.indices),
                        _pointer(piece.data), ctypes.c_int(_FLOAT32), ctypes.c_int64(piece.indptr.size),
                        ctypes.c_int64(piece.nnz), ctypes.c_int64(columns), ctypes.c_int64(start),
                    )
                )  # fmt: skip
            else:
                _safe_call(
                    _LIB.LGBM_DatasetPushRows(
                        self._handle, _pointer(piece), ctypes.c_int(_FLOAT32), ctypes.c_int32(len(piece)),
                        ctypes.c_int32(columns), ctypes.c_int32(start),
                    )
                )  # fmt: skip
            if data.watch is not None:
                data.watch(start + piece.shape[0], rows)

    def _handle_from_sample(self, data: StoredFeatures) -> None:
        rows, columns = data.shape
        params = _c_str(_param_dict_to_str(self.params))
        count = ctypes.c_int(0)
        _safe_call(_LIB.LGBM_GetSampleCount(ctypes.c_int32(rows), params, ctypes.byref(count)))
        chosen = np.zeros(count.value, np.int32)
        taken = ctypes.c_int32(0)
        _safe_call(_LIB.LGBM_SampleIndices(ctypes.c_int32(rows), params, _pointer(chosen), ctypes.byref(taken)))
        chosen = chosen[: taken.value]
        values, places = _by_column(data, chosen)
        value_pointers = (ctypes.c_void_p * columns)(*(v.ctypes.data for v in values))
        place_pointers = (ctypes.c_void_p * columns)(*(p.ctypes.data for p in places))
        lengths = np.array([v.size for v in values], dtype=np.int32)
        _safe_call(
            _LIB.LGBM_DatasetCreateFromSampledColumn(
                value_pointers, place_pointers, ctypes.c_int32(columns), _pointer(lengths),
                ctypes.c_int32(chosen.size), ctypes.c_int32(rows), ctypes.c_int64(rows), params,
                ctypes.byref(self._handle),
            )
        )  # fmt: skip

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> StreamedDataset:
        if predictor is not None:
            parts = [predictor.predict(data=piece, raw_score=True).ravel() for _, piece in self.data.pieces()]
            self.set_init_score(np.concatenate(parts))
        elif self.init_score is not None:
            self.set_init_score(np.zeros_like(self.init_score))
        return self

    # The cache -------------------------------------------------------------------------------------------------------

    def _key(self, data: StoredFeatures, reference: Any) -> dict[str, Any] | None:
        """What the bins are made from; None when that is not known, or LightGBM's file would not hold all of it."""
        binning = {self._main_names.get(name, name): value for name, value in self.params.items()}
        binning = {name: value for name, value in sorted(binning.items()) if name not in _NO_BINS}
        if data.origin is None or binning.get("linear_tree") or "forcedbins_filename" in binning:
            return None
        of_training = None
        if reference is not None:
            of_training = getattr(reference, "cache_key", None)
            if of_training is None:
                return None
        return {
            "engine": f"lightgbm {lightgbm.__version__}", "params": binning, "data": dict(data.origin.key),
            "fingerprint": data.known.get("fingerprints"), "reference": of_training,
        }  # fmt: skip

    def _name(self, origin: Origin, key: dict[str, Any]) -> str:
        return entry_name("bins", *origin.names, key["data"]["options"], key["data"]["like"], key["params"])

    def _load(self, origin: Origin, key: dict[str, Any], reference: Any) -> bool:
        entry: Entry | None = origin.cache.load(self._name(origin, key), key)
        if entry is None or entry.big is None:
            return False
        self._handle = ctypes.c_void_p()
        with entry.big:
            _safe_call(
                _LIB.LGBM_DatasetCreateFromFile(
                    _c_str(entry.big_path()), _c_str(_param_dict_to_str(self.params)),
                    None if reference is None else reference._handle, ctypes.byref(self._handle),
                )
            )  # fmt: skip
        self.cache_key = entry.note["id"]
        return True

    def _save(self, origin: Origin, key: dict[str, Any]) -> None:
        def write(path: str) -> bool:
            _safe_call(_LIB.LGBM_DatasetSaveBinary(self._handle, _c_str(path)))
            return _is_complete(path)

        made = entry_name("id", key)
        saved = origin.cache.save(self._name(origin, key), key, {"id": made}, {}, write)
        tell_refusal(origin, saved)
        if saved:
            self.cache_key = made


def _by_column(
    data: StoredFeatures, chosen: npt.NDArray[np.int32]
) -> tuple[list[Float64Array], list[npt.NDArray[np.int32]]]:
    """(values, their places in the sample) of each column, without zeros: two readings of the rows, no copy."""
    columns = data.shape[1]
    counts = np.zeros(columns, np.int64)
    for _, piece in _sampled(data, chosen):
        counts += np.diff(piece.indptr)
    ends = np.cumsum(counts)
    values, places = zeroed(int(ends[-1]), np.float64), zeroed(int(ends[-1]), np.int32)
    at = ends - counts
    for start, piece in _sampled(data, chosen):
        for column, (begin, stop) in enumerate(zip(piece.indptr[:-1].tolist(), piece.indptr[1:].tolist(), strict=True)):
            here = slice(at[column], at[column] + stop - begin)
            values[here] = piece.data[begin:stop]
            places[here] = piece.indices[begin:stop] + start
            at[column] += stop - begin
    return np.split(values, ends[:-1]), np.split(places, ends[:-1])


def _sampled(data: StoredFeatures, chosen: npt.NDArray[np.int32]) -> Iterator[tuple[int, Any]]:
    """(place in the sample, the next sampled rows as CSC without zeros)."""
    for start in range(0, chosen.size, _SAMPLED_ROWS):
        piece = sparse.csc_matrix(data[chosen[start : start + _SAMPLED_ROWS].astype(np.int64)])
        piece.data[np.abs(piece.data) <= _ZERO] = 0.0  # NaN stays
        piece.eliminate_zeros()
        yield start, piece


def _is_complete(path: str) -> bool:
    """Whether the parts of LightGBM's file add up to its length: it does not say when the disk is full (issue 7334).

    The file is a mark, then header, metadata and feature groups, each with its length in front.
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
