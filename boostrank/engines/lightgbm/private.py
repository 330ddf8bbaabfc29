"""LightGBM's private parts and C functions, tested with LightGBM 4.6 and 4.7 by
`tests/engines/test_private.py`.

The module `objective.description` uses one more private part, the stack of `lgb.train`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from lightgbm.basic import _LIB, _c_str, _InnerPredictor, _param_dict_to_str, _safe_call
from scipy import sparse

from boostrank.core.machine import return_memory
from boostrank.core.types import Array, Float64Array, Int64Array, ParamValues
from boostrank.data.arrays import Features
from boostrank.data.rows import Rows, dense_batches, dense_rows
from boostrank.engines.base import Peers
from boostrank.files.blocks import zeroed
from boostrank.files.store import Origin, entry_name, open_path

_FLOAT32, _INT32 = 0, 2  # C_API_DTYPE_*
ZERO = float(np.float32(1e-35))
"""Magnitude up to which LightGBM treats values as zero (kZeroThreshold)."""


def parameter_names() -> dict[str, str]:
    """Return the main name of every name and alias that the installed LightGBM has."""
    aliases: dict[str, list[str]] = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    return {name: main for main, other_names in aliases.items() for name in (main, *other_names)}


def use_one_thread() -> None:
    """Limit LightGBM to one thread in this process, whatever number of threads is requested
    later.
    """
    _safe_call(_LIB.LGBM_SetMaxThreads(1))


def has_nothing_to_split(error: Exception) -> bool:
    """Return True if a `LightGBMError` is the C++ check that fails for very small data."""
    return "num_features()" in str(error)


def create_booster(
    params: ParamValues,
    sets: Sequence[tuple[str, Any]],
    model: Any,
    scores_of_set: Mapping[int, Float64Array],
) -> Any:
    """Create a booster as `lgb.train` does.

    Args:
        sets: names and data sets, first the training set and then the validation sets, which may
            include it.
        model: model to continue, or None.
        scores_of_set: scores of the model by id of a data set, because LightGBM has no features of
            sets on disk and of subsets to compute them from.
    """
    if model is not None:
        model = _InnerPredictor.from_booster(
            booster=model, pred_parameter={**model.params, **params}
        )
    for _, data in sets:
        if data.used_indices is not None or id(data) in scores_of_set:
            data.construct()
        if id(data) in scores_of_set:
            data._predictor = model
            data.set_init_score(scores_of_set[id(data)])
    (_, train), *valid = sets
    booster = lightgbm.Booster(params, train)
    for name, data in valid:
        if data is train:
            booster.set_train_data_name(name)
        else:
            booster.add_valid(data.set_reference(train), name)
    return booster


def current_scores(booster: Any, data: Any) -> Array:
    """Return a booster's scores of its training set or of a validation set."""
    sets = [booster.train_set, *booster.valid_sets]
    position = next(i for i, dataset in enumerate(sets) if dataset is data)
    return np.asarray(booster._Booster__inner_predict(data_idx=position))


# Parameters that do not affect bins; any other one, including unknown ones, is part of the key of
# cached bins.
_INDIFFERENT_TO_BINS = frozenset(
    """
    num_threads verbosity objective metric learning_rate num_leaves num_iterations max_depth
    lambda_l1 lambda_l2 min_gain_to_split min_sum_hessian_in_leaf bagging_fraction bagging_freq
    bagging_seed feature_fraction feature_fraction_bynode feature_fraction_seed extra_trees
    extra_seed boosting drop_rate drop_seed max_drop skip_drop path_smooth deterministic
    force_col_wise force_row_wise histogram_pool_size early_stopping_round first_metric_only
    eval_at max_delta_step label_gain lambdarank_truncation_level lambdarank_norm sigmoid
""".split()
)


class StreamedDataset(lightgbm.Dataset):  # type: ignore[misc]
    """`lightgbm.Dataset` of rows on disk or on several workers, pushed into bins in pieces or
    loaded from the cache.

    The bin bounds come from the rows that LightGBM itself would sample, so trees are the same as
    for data in memory. (`lightgbm.Sequence` takes 2.3 times as long, supports neither sparse rows
    nor the cache, and copies the sample several times.)

    Args:
        data: all rows, or this worker's rows.
        peers: workers that share the bin bounds; None if this process has all rows.
    """

    def __init__(self, data: Features, *, peers: Peers | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        self._peers = peers
        self.cache_key: str | None = None
        """The cache key of the bins, on which the bins of a validation set depend; None if they
        cannot be cached.
        """

    def fill(self, data: Features, reference: Any) -> None:
        """Load the bins from the cache, or push the rows into new ones."""
        key = self._key(data, reference)
        if key is not None:
            self.cache_key = entry_name("id", key)
            if self._load(data.origin, key, reference):
                return
        rows = data.shape[0]
        if reference is None:
            self._create_bins(data)
        else:
            self._init_from_ref_dataset(rows, reference._handle)
        watch = getattr(data, "watch", None)
        for start, piece in pieces(data):
            self.push(piece, start)
            if watch is not None:
                watch(start + piece.shape[0], rows)
        return_memory()  # lists of pushed values: a tenth of the bins or more
        if key is not None:  # before labels and weights, which the cache of the rows stores
            data.origin.cache.save(self._name(data.origin, key), key, self.save_bins)

    def _create_bins(self, data: Features) -> None:
        """Create empty bins from a sample of all workers' rows."""
        rows, peers = int(data.shape[0]), self._peers
        first_row, n_rows = 0, rows
        if peers is not None:
            rows_of_workers = peers.share(rows)
            first_row, n_rows = sum(rows_of_workers[: peers.rank]), sum(rows_of_workers)
        sampled = self.sampled_rows(n_rows).astype(np.int64)
        own_rows = sampled[(sampled >= first_row) & (sampled < first_row + rows)] - first_row
        sample = _sample_columns(data, own_rows)
        if peers is not None:
            sample = _gather_columns(peers, sample, own_rows.size)
        lengths = np.array([values.size for values in sample.values], np.int32)
        addresses = [[array.ctypes.data for array in columns] for columns in sample]
        self._create(
            _LIB.LGBM_DatasetCreateFromSampledColumn,
            *((ctypes.c_void_p * len(pointers))(*pointers) for pointers in addresses),
            len(sample.values),
            _pointer(lengths),
            sampled.size,
            rows,
            ctypes.c_int64(n_rows),
            self._c_params(),
        )

    def _key(self, data: Features, reference: Any) -> dict[str, Any] | None:
        """Return what the bins depend on, or None if it is unknown."""
        reference_key = getattr(reference, "cache_key", None)
        is_unknown = reference is not None and reference_key is None
        if is_unknown or getattr(data, "origin", None) is None:
            return None
        aliases = parameter_names()
        engine_params = {aliases.get(name, name): value for name, value in self.params.items()}
        binning = {
            name: value
            for name, value in sorted(engine_params.items())
            if name not in _INDIFFERENT_TO_BINS
        }
        return {
            "engine": f"lightgbm {lightgbm.__version__}",
            "params": binning,
            "rows": data.origin.fingerprint,
            "reference": reference_key,
        }

    def _name(self, origin: Origin, key: dict[str, Any]) -> str:
        return entry_name("bins", origin.name, key["params"], key["reference"] is None)

    def _load(self, origin: Origin, key: dict[str, Any], reference: Any) -> bool:
        entry = origin.cache.load(self._name(origin, key), key)
        if entry is None:
            return False
        with entry:
            self.load_bins(open_path(entry), reference)
        return True

    def _lazy_init(self, **arguments: Any) -> StreamedDataset:
        self.params = arguments["params"] or {}
        self._has_non_default_feature_names = True
        if arguments["reference"] is not None:
            arguments["reference"].construct()
        self.fill(arguments["data"], arguments["reference"])
        self.set_label(arguments["label"]).set_group(arguments["group"])
        self.set_weight(arguments["weight"])
        self.set_feature_name(arguments["feature_name"])
        return self

    def sampled_rows(self, rows: int) -> Array:
        """Return the ascending numbers of the rows from which LightGBM finds the bin bounds."""
        params, size = self._c_params(), ctypes.c_int32(0)
        _safe_call(_LIB.LGBM_GetSampleCount(rows, params, ctypes.byref(size)))
        sampled = np.zeros(size.value, np.int32)
        _safe_call(_LIB.LGBM_SampleIndices(rows, params, _pointer(sampled), ctypes.byref(size)))
        return sampled[: size.value]

    def push(self, piece: Any, start: int) -> None:
        """Push rows, of which `start` is the first, into their bins: float32, dense or CSR with
        int32 indices.
        """
        if hasattr(piece, "indptr"):
            indptr, indices, data = map(_pointer, (piece.indptr, piece.indices, piece.data))
            shape_numbers = piece.indptr.size, piece.nnz, piece.shape[1], start
            sizes = map(ctypes.c_int64, shape_numbers)
            arguments = (indptr, _INT32, indices, data, _FLOAT32, *sizes)
            _safe_call(_LIB.LGBM_DatasetPushRowsByCSR(self._handle, *arguments))
        else:
            arguments = (_pointer(piece), _FLOAT32, *piece.shape, int(start))
            _safe_call(_LIB.LGBM_DatasetPushRows(self._handle, *arguments))

    def load_bins(self, path: str, reference: Any) -> None:
        """Load bins from LightGBM's binary file, with the bounds of `reference` if there is one."""
        bounds = None if reference is None else reference._handle
        self._create(_LIB.LGBM_DatasetCreateFromFile, _c_str(path), self._c_params(), bounds)

    def save_bins(self, path: str) -> bool:
        """Write the bins to a file, and return True if the file is complete."""
        _safe_call(_LIB.LGBM_DatasetSaveBinary(self._handle, _c_str(path)))
        return is_complete(path)

    def _create(self, function: Any, *arguments: Any) -> None:
        self._handle = ctypes.c_void_p()
        _safe_call(function(*arguments, ctypes.byref(self._handle)))

    def _c_params(self) -> Any:
        return _c_str(_param_dict_to_str(self.params))


def pieces(data: Features) -> Iterator[tuple[int, Any]]:
    """Iterate over pairs of a first row number and rows, float32 in memory."""
    if isinstance(data, Rows):
        yield from data.pieces()
    else:
        yield from ((start, dense_rows(data, start, stop)) for start, stop in dense_batches(data))


class SampledColumns(NamedTuple):
    """The nonzero values of each column of a sample, and their positions in it."""

    values: list[Array]
    positions: list[Array]


def _sample_columns(data: Features, sampled: Int64Array) -> SampledColumns:
    """Return the columns of the sample, in two passes to save memory."""
    # First pass: count the values of each column.
    column_counts = np.zeros(data.shape[1], np.int64)
    for _, piece in _sampled(data, sampled):
        column_counts += np.diff(piece.indptr)
    column_ends = np.cumsum(column_counts)
    n_values = int(column_ends[-1])
    values, positions = zeroed(n_values, np.float64), zeroed(n_values, np.int32)
    next_place = column_ends - column_counts
    # Second pass: fill them in.
    for start, piece in _sampled(data, sampled):
        for column, (begin, stop) in enumerate(itertools.pairwise(piece.indptr.tolist())):
            rows_of_column = slice(next_place[column], next_place[column] + stop - begin)
            values[rows_of_column] = piece.data[begin:stop]
            positions[rows_of_column] = piece.indices[begin:stop] + start
            next_place[column] += stop - begin
    return SampledColumns(np.split(values, column_ends[:-1]), np.split(positions, column_ends[:-1]))


def _sampled(data: Features, sampled: Int64Array) -> Iterator[tuple[int, Any]]:
    """Iterate over pairs of a position in the sample and sampled rows as CSC without zeros."""
    for start, rows in pieces(data):
        first, last = np.searchsorted(sampled, [start, start + rows.shape[0]]).tolist()
        if first < last:
            piece = sparse.csc_matrix(rows[sampled[first:last] - start])
            piece.data[np.abs(piece.data) <= ZERO] = 0.0  # NaN stays
            piece.eliminate_zeros()
            piece.sort_indices()
            yield first, piece


def _gather_columns(peers: Peers, sample: SampledColumns, n_rows: int) -> SampledColumns:
    """Return the columns of the samples of all workers, given this worker's sample of `n_rows`."""
    values = [column.astype(np.float32) for column in sample.values]
    all_values, all_positions, offset = [], [], np.int32(0)
    for count, worker_values, worker_positions in peers.share((n_rows, values, sample.positions)):
        all_values.append(worker_values)
        all_positions.append([positions + offset for positions in worker_positions])
        offset += np.int32(count)
    return SampledColumns(
        [np.concatenate(columns).astype(np.float64) for columns in zip(*all_values, strict=True)],
        [np.concatenate(columns) for columns in zip(*all_positions, strict=True)],
    )


def is_complete(path: str) -> bool:
    """Return True if the parts of a bin file add up to its length.

    LightGBM does not report a full disk (its issue 7334). The file starts with a mark of 40 bytes,
    followed by header, metadata and feature groups, each after its length.
    """
    size, offset, n_parts = os.path.getsize(path), 40, 0
    with open(path, "rb") as file:
        while offset < size:
            file.seek(offset)
            length = file.read(8)
            if len(length) < 8:
                return False
            offset += 8 + int.from_bytes(length, sys.byteorder)
            n_parts += 1
    return offset == size and n_parts > 2


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
