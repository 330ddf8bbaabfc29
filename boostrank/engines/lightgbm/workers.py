"""The LightGBM engine on several workers, which share a sample of all rows for their bins.

LightGBM's own network (`machines`) accepts connections without a key, and may notice a dead worker
only after its time-out. `LGBM_NetworkInitWithFunctions` sends the same bytes over protected links,
and the trees are the same.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from lightgbm.basic import _LIB, _safe_call

from boostrank.core.queries import QueryIndex
from boostrank.core.types import ParamValues
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Peers, Trained, TrainRequest
from boostrank.engines.lightgbm.adapter import LightGBM, LightGBMBooster
from boostrank.engines.lightgbm.private import StreamedDataset

_ADDRESS, _INT, _INTS = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
_REDUCE = ctypes.POINTER(ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS, _INT, _INT))
_SCATTER = ctypes.CFUNCTYPE(None, _ADDRESS, _INT, _INT, _INTS, _INTS, _INT, _ADDRESS, _INT, _REDUCE)
_GATHER = ctypes.CFUNCTYPE(None, _ADDRESS, _INT, _INTS, _INTS, _INT, _ADDRESS, _INT)


def member(peers: Peers) -> contextlib.nullcontext[Member]:
    """Return a context manager in which this process is one of the workers."""
    return contextlib.nullcontext(Member(peers))


class Member(LightGBM):
    """The LightGBM engine on one worker, which is connected to its `peers`."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        # Filtering depends on the rows of this worker, so the workers' histograms would differ in
        # length.
        self._network: dict[str, Any] = {"feature_pre_filter": False}
        if peers.size > 1:
            self._network |= {
                "tree_learner": "data",
                "num_machines": peers.size,
                "pre_partition": True,
            }
        self._error: Exception | None = None
        # LightGBM calls them during the training: they must live as long as this object.
        self._functions = (
            _SCATTER(self._store_error(self._scatter)),
            _GATHER(self._store_error(self._gather)),
        )

    def dataset(
        self, data: RankingDataset, params: ParamValues, *, reference: Any, weights: bool
    ) -> Any:
        """Create this worker's data set, with weights on all workers and a row on empty ones."""
        if data.n_documents:  # other workers may have weights
            data = replace(data, queries=replace(data.queries, weights=data.queries.each_weight))
        else:  # LightGBM does not accept an empty set
            row, query = np.zeros((1, data.n_features), np.float32), QueryIndex.from_sizes([1])
            data = replace(data, features=row, labels=np.zeros(1), queries=query)
        return super().dataset(data, params, reference=reference, weights=weights)

    def _create_dataset(self, data: RankingDataset, options: dict[str, Any]) -> Any:
        options["params"] |= self._network
        return StreamedDataset(data.features, peers=self._peers, **options).construct()

    def train(self, request: TrainRequest) -> Trained:
        """Train with sums over all workers, and raise the error of a callback of the network."""
        request = replace(request, params=request.params | self._network)
        if self._peers.size == 1:
            return super().train(request)
        functions = [ctypes.cast(function, ctypes.c_void_p) for function in self._functions]
        _safe_call(
            _LIB.LGBM_NetworkInitWithFunctions(self._peers.size, self._peers.rank, *functions)
        )
        try:
            return super().train(request)
        finally:
            _safe_call(_LIB.LGBM_NetworkFree())
            # LightGBM's own error says less than the network's.
            if self._error is not None:
                raise self._error

    def so_far(self, model: Any) -> bytes:
        """Return the model file of the completed rounds from the `model` that a callback
        receives.
        """
        return LightGBMBooster(model).to_bytes()

    def _store_error(self, function: Callable[..., None]) -> Callable[..., None]:
        """Wrap a function so that its exception, which ctypes would drop, is stored."""

        def call_stored(*arguments: Any) -> None:
            if self._error is None:
                try:
                    function(*arguments)
                except Exception as error:
                    self._error = error
                    self._peers.close()  # the next exchange fails on all workers

        return call_stored

    def _scatter(self, *arguments: Any) -> None:
        """Send each worker the sum of one block over all workers."""
        # LightGBM's ReduceScatterFunction: input and its size, size of a number, starts and lengths
        # of blocks, their number, output and its size, function that adds.
        address, _, number_size, starts, lengths, n_blocks, output, _, reducer = arguments
        blocks = [_memory(address + starts[i], lengths[i]) for i in range(n_blocks)]
        first_block, *other_blocks = self._peers.all_to_all(blocks)
        ctypes.memmove(output, _buffer(first_block), len(first_block))
        # Add in the order of the ranks, so that sums do not depend on the worker.
        for piece in other_blocks:
            addend = ctypes.cast(_buffer(piece), ctypes.c_void_p)
            reducer[0](addend, output, number_size, len(piece))

    def _gather(self, *arguments: Any) -> None:
        """Send all blocks to each worker."""
        # LightGBM's AllgatherFunction: input and its size, starts and lengths of blocks, their
        # number, output and its size.
        address, size, starts, _, n_blocks, output, _ = arguments
        for i, piece in enumerate(self._peers.all_to_all([_memory(address, size)] * n_blocks)):
            ctypes.memmove(output + starts[i], _buffer(piece), len(piece))


def _memory(address: int, size: int) -> Any:
    """Return memory as a ctypes array without copying it."""
    return (ctypes.c_char * size).from_address(address)


def _buffer(piece: Any) -> Any:
    """Return a block as a ctypes array: those of other workers arrive as bytes."""
    if isinstance(piece, bytearray):
        return (ctypes.c_char * len(piece)).from_buffer(piece)
    return piece
