"""XGBoost on several workers: how they find each other, add up numbers, and bin the shards that each of them has.

The trees need nothing of this: inside `member`, `xgboost.train` adds up its histograms over all workers by itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

from boostrank.core.errors import TrainingError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.engines.base import LostContact
from boostrank.engines.xgboost.booster import XGBoostBooster, apart, together
from boostrank.engines.xgboost.private import is_of_connection, last_line
from boostrank.engines.xgboost.stream import DenseBatches, matrix_info, matrix_options

# How long a worker waits for the slowest one, which may be reading or compiling. One that dies is noticed at once.
_PATIENCE_SECONDS = 1800
# How long it may take until all workers have said hello.
_GATHERING_SECONDS = 120
_PORTS_TRIED = 10


NEEDS_MESH = NEEDS_ROWS = False


@dataclass(frozen=True)
class Member:
    """What a worker does together with the others: sums, bins; see the functions of this module."""

    all_reduce: Any
    bins_of: Any
    contact: Any
    params: Mapping[str, Any]


def check_params(params: Mapping[str, Any]) -> None:
    """Refuse what several workers cannot do: nothing."""


def start_of(booster: Any) -> Any:
    """The linear start of a booster, which workers keep apart from its trees; None if there is none."""
    return apart(XGBoostBooster(booster))[1]


def with_start(start: Any, booster: Any) -> Any:
    """A booster that was trained apart from its linear start, with it."""
    return together(start, booster)


class Tracker:
    """Where workers meet: it tells each who the others are. Lives as long as the training.

    Args:
        workers: how many will come.
        host: address of this machine that all of them reach.
        port: to listen on; if it is taken, the next free one of the nine after it. 0 lets the system choose.

    Raises:
        TrainingError: no such address on this machine, or every port is taken.
    """

    def __init__(self, workers: int, host: str, port: int = 0) -> None:
        ports = range(port, port + _PORTS_TRIED) if port else [0]
        for tried in ports:
            try:
                self._tracker = RabitTracker(
                    n_workers=workers, host_ip=host, port=tried, sortby="task", timeout=_GATHERING_SECONDS
                )
                self._tracker.start()
                break
            except (xgboost.core.XGBoostError, OSError) as error:
                reason = last_line(error).rpartition("error:")[2]
        else:
            where = f"ports {ports[0]} to {ports[-1]}" if port else "any port"
            raise TrainingError(f"workers cannot meet at {host}, {where}: {reason.strip()}")
        self.arguments: dict[str, Any] = dict(self._tracker.worker_args())
        threading.Thread(target=self._wait, daemon=True).start()

    def close(self) -> None:
        """Whoever still waits for the others learns that they will not come."""
        with contextlib.suppress(xgboost.core.XGBoostError):  # it was in the middle of listening
            self._tracker.free()

    def _wait(self) -> None:
        with contextlib.suppress(xgboost.core.XGBoostError, ValueError, AttributeError):  # the last: closed before
            self._tracker.wait_for()


@contextlib.contextmanager
def member(meeting: Sequence[Any], rank: int, mesh: Any = None) -> Iterator[Member]:
    """Inside, this thread is one of the workers.

    Args:
        meeting: of each worker; that of the first is the arguments of the `Tracker`.
        rank: 0, 1, ...: distinct.
        mesh: not needed.

    Raises:
        LostContact: the others could not be found, or not be taken leave of.
    """
    # Whoever has lost another asks the tracker, which may be gone too, and those that wait for him wait for that: once.
    names = {"dmlc_task_id": f"{rank:06d}", "dmlc_timeout": _PATIENCE_SECONDS, "dmlc_retry": 1}
    context = collective.CommunicatorContext(**meeting[0], **names)
    with contact(every=True):
        context.__enter__()
    try:
        yield Member(all_reduce, bins_of, contact, {})
    except BaseException:
        with contextlib.suppress(xgboost.core.XGBoostError):  # the others may be gone: what went wrong here says more
            context.__exit__()
        raise
    with contact(every=True):
        context.__exit__()


def all_reduce(sums: Float64Array) -> Float64Array:
    """Sums over all workers; the same bytes on each of them.

    Raises:
        LostContact: one of them does not answer.
    """
    with contact(every=True):
        total: Float64Array = collective.allreduce(np.ascontiguousarray(sums, dtype=np.float64), collective.Op.SUM)
    return total


@contextlib.contextmanager
def contact(*, every: bool = False) -> Iterator[None]:
    """An error of XGBoost's own in here is `LostContact` where it comes from the workers' connection; or every one."""
    try:
        yield
    except xgboost.core.XGBoostError as error:
        if every or is_of_connection(error):
            raise LostContact(last_line(error)) from error
        raise


def bins_of(
    rows: Any,
    labels: Float64Array,
    queries: QueryIndex,
    names: Sequence[str],
    params: dict[str, Any],
    *,
    reference: Any,
    weights: bool,
) -> Any:
    """This worker's rows in bins that are the same on all workers. All of them must call it.

    Args:
        rows: features of the shards of this worker, possibly none, as its `parts`; each has all features.
        labels, queries: of all of them.
        names: of the features.
        params: engine parameters.
        reference: the training set's bins, for a validation set.
        weights: whether the engine shall know the query weights, as in `Backend.dataset`; 1 where none is given.
    """
    with contact():
        matrix = xgboost.QuantileDMatrix(DenseBatches(rows.parts, len(names)), **matrix_options(params, reference))
    matrix.set_info(**matrix_info(labels, replace(queries, weights=queries.each_weight), names, weights=weights))
    return matrix
