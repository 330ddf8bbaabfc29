"""LightGBM on several workers: its network is an exchange of ours, and its bins come from one sample of all rows.

LightGBM's own network (`machines`) takes whoever calls its port, without a key, and may notice a dead worker only after
its time-out; `LGBM_NetworkInitWithFunctions` sends the same bytes over protected links. Both give the same trees.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from lightgbm.basic import _LIB, _safe_call
from scipy import sparse

from boostrank.core.errors import ParameterError
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import dense_batches, dense_rows
from boostrank.engines.base import TrainRequest
from boostrank.engines.lightgbm.adapter import LightGBM, _with_defaults
from boostrank.engines.lightgbm.booster import LightGBMBooster
from boostrank.engines.lightgbm.private import ZERO, HandleDataset, main_names
from boostrank.engines.model_format import engine_names

_SERIAL = {
    "linear_tree": "LightGBM grows linear trees on one machine alone",
    "forcedsplits_filename": "LightGBM forces splits on one machine alone",
    "cegb_tradeoff": "LightGBM does not add up what a feature costs over its workers",
    "cegb_penalty_split": "LightGBM does not add up what a feature costs over its workers",
    "cegb_penalty_feature_lazy": "LightGBM does not add up what a feature costs over its workers",
    "cegb_penalty_feature_coupled": "LightGBM does not add up what a feature costs over its workers",
}
_REDUCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
_INTS = ctypes.POINTER(ctypes.c_int)
_SCATTER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_int,
    _INTS,
    _INTS,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(_REDUCE),
)
_GATHER = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, _INTS, _INTS, ctypes.c_int, ctypes.c_void_p, ctypes.c_int
)


def check_params(params: Mapping[str, Any]) -> None:
    """Refuse what several workers cannot do.

    Raises:
        ParameterError: a parameter that LightGBM heeds on one machine alone.
    """
    for name, value in main_names(params).items():
        if name in _SERIAL and value not in (False, "false", 0, "", None):
            raise ParameterError(f"{name} on several workers: {_SERIAL[name]}")


@contextlib.contextmanager
def member(peers: Any) -> Iterator[Member]:
    """Inside, LightGBM is one of the workers."""
    yield Member(peers)


class Member(LightGBM):
    """LightGBM on one of several workers.

    Args:
        peers: the workers.
    """

    def __init__(self, peers: Any) -> None:
        self._peers = peers
        # Filtering drops features by this worker's own rows: histograms would not have the same length.
        self._network: dict[str, Any] = {"feature_pre_filter": False}
        if peers.size > 1:
            self._network |= {"tree_learner": "data", "num_machines": peers.size, "pre_partition": True}
        self._error: Exception | None = None
        self._functions = _SCATTER(self._kept(self._scatter)), _GATHER(self._kept(self._gather))

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        rows, labels, sizes = data.features, data.labels, data.queries.sizes
        heavy = np.repeat(data.queries.each_weight, sizes) if weights and labels.size else None
        if not labels.size:  # LightGBM takes no empty set
            rows, labels, sizes = np.zeros((1, data.n_features), np.float32), np.zeros(1), np.ones(1, np.int64)
        made = _SharedBins(
            rows,
            label=labels,
            group=sizes,
            weight=heavy,
            feature_name=list(engine_names(data.feature_names)),
            reference=reference,
            params=_with_defaults(params) | self._network,
            free_raw_data=False,  # it predicts where its rows begin
        )
        made.peers = self._peers
        return made.construct()

    def train(self, request: TrainRequest) -> tuple[LightGBMBooster, int]:
        request = replace(request, params=request.params | self._network)
        if self._peers.size == 1:
            return super().train(request)
        scatter, gather = (ctypes.cast(one, ctypes.c_void_p) for one in self._functions)
        _safe_call(_LIB.LGBM_NetworkInitWithFunctions(self._peers.size, self._peers.rank, scatter, gather))
        try:
            return super().train(request)
        finally:
            _safe_call(_LIB.LGBM_NetworkFree())
            if self._error is not None:
                raise self._error

    def so_far(self, model: Any) -> bytes:
        """Return the model file of the rounds so far, from what a callback has as `model`."""
        return LightGBMBooster(model).to_bytes()

    def _kept(self, function: Callable[..., None]) -> Callable[..., None]:
        """Wrap a function so that its error is kept: ctypes drops exceptions of callbacks."""

        def called(*arguments: Any) -> None:
            if self._error is None:
                try:
                    function(*arguments)
                except Exception as error:
                    self._error = error
                    self._peers.close()  # the next exchange fails on all workers

        return called

    def _scatter(
        self,
        given: int,
        size: int,
        width: int,
        start: Any,
        length: Any,
        n: int,
        found: int,
        found_size: int,
        reducer: Any,
    ) -> None:
        """Each worker gets the sum of one block."""
        pieces = [_memory(given + start[i], length[i]) for i in range(n)]
        received = [_buffer(piece) for piece in self._peers.all_to_all(pieces)]
        ctypes.memmove(found, received[0], len(received[0]))
        for piece in received[1:]:  # in the order of the ranks: the same bytes wherever a block is added up
            reducer[0](ctypes.cast(piece, ctypes.c_void_p), found, width, len(piece))

    def _gather(self, given: int, size: int, start: Any, length: Any, n: int, found: int, found_size: int) -> None:
        """Each worker gets the blocks of all."""
        for i, piece in enumerate(self._peers.all_to_all([_memory(given, size)] * n)):
            ctypes.memmove(found + start[i], _buffer(piece), len(piece))


def _memory(address: int, size: int) -> Any:
    """Return memory as an array of ctypes, without a copy."""
    return (ctypes.c_char * size).from_address(address)


def _buffer(piece: Any) -> Any:
    """Return bytes that a peer sent as an array of ctypes; this worker's own memory is one already."""
    return (ctypes.c_char * len(piece)).from_buffer(piece) if isinstance(piece, bytearray) else piece


def _some(features: Features, chosen: npt.NDArray[np.int64]) -> sparse.csr_matrix:
    """Some rows, ascending."""
    found = [sparse.csr_matrix((0, features.shape[1]), dtype=np.float32)]
    for start, stop in dense_batches(features):
        here = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, stop)]
        if here.size:
            found.append(sparse.csr_matrix(dense_rows(features, start, stop)[here - start]))
    return sparse.vstack(found, format="csr")


class _SharedBins(HandleDataset):
    """A data set of a worker's shards whose bins come from a sample of the rows of all workers.

    It is the sample that LightGBM would take of all rows on one machine, worker by worker.
    """

    peers: Any

    def fill(self, data: Features, reference: Any) -> None:
        """Make the bins of this worker's rows."""
        rows = data.shape[0]
        if reference is None:
            counts = np.zeros(self.peers.size)
            counts[self.peers.rank] = rows
            ends = np.cumsum(self.peers.all_reduce(counts)).astype(np.int64)
            first = int(ends[self.peers.rank]) - rows
            chosen = self.sampled_rows(int(ends[-1])).astype(np.int64)
            own = _some(data, chosen[(chosen >= first) & (chosen < first + rows)] - first)
            sample = _gathered(self.peers, own)
            values = [
                sample.data[a:b].astype(np.float64) for a, b in zip(sample.indptr, sample.indptr[1:], strict=False)
            ]
            places = [
                sample.indices[a:b].astype(np.int32) for a, b in zip(sample.indptr, sample.indptr[1:], strict=False)
            ]
            self.create_from_sample(values, places, sample.shape[0], rows, int(ends[-1]))
        else:
            self.create_like(reference, rows)
        for start, stop in dense_batches(data):
            self.push(dense_rows(data, start, stop), start)

    def start_scores(self, predictor: Any, data: Features) -> npt.NDArray[Any]:
        """What a model to be continued says of the rows, piece by piece."""
        pieces = (dense_rows(data, start, stop) for start, stop in dense_batches(data))
        return np.concatenate([predictor.predict(data=piece, raw_score=True).ravel() for piece in pieces])


def _gathered(peers: Any, own: sparse.csr_matrix) -> sparse.csc_matrix:
    """The sampled rows of all workers, by column, without zeros."""
    arrays = (own.indptr.astype(np.int64), own.indices.astype(np.int32), own.data.astype(np.float32))
    found = zip(*(peers.all_to_all([array.tobytes()] * peers.size) for array in arrays), strict=True)
    parts = []
    for indptr, indices, data in found:
        ptr = np.frombuffer(indptr, np.int64)
        cells = np.frombuffer(data, np.float32), np.frombuffer(indices, np.int32), ptr
        parts.append(sparse.csr_matrix(cells, shape=(ptr.size - 1, own.shape[1])))
    sample = sparse.vstack(parts, format="csc")
    sample.data[np.abs(sample.data) <= ZERO] = 0.0  # NaN stays
    sample.eliminate_zeros()
    sample.sort_indices()
    return sample
