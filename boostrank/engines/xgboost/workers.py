"""XGBoost on several workers: inside `member`, it bins the rows of all workers and adds up its histograms over them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy.typing as npt
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

from boostrank.core.errors import TrainingError
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import LostContact, TrainRequest
from boostrank.engines.xgboost.adapter import XGBoost, XGBoostBooster, is_of_connection, last_line, together

# How long a worker waits for the slowest one, which may be reading or compiling. One that dies is noticed at once.
_PATIENCE_SECONDS = 1800
# How long it may take until all workers have said hello.
_GATHERING_SECONDS = 120


class Tracker:
    """Rendezvous of the workers; open during the whole training.

    Args:
        workers: how many will come.
        host: address of this machine that all of them reach.

    Raises:
        TrainingError: no such address on this machine.
    """

    def __init__(self, workers: int, host: str) -> None:
        try:
            self._tracker = RabitTracker(n_workers=workers, host_ip=host, port=0, timeout=_GATHERING_SECONDS)
            self._tracker.start()
        except xgboost.core.XGBoostError as error:
            reason = last_line(error).rpartition("error:")[2].strip()
            raise TrainingError(f"workers cannot meet at {host}: {reason}") from error
        self.arguments: dict[str, Any] = dict(self._tracker.worker_args())
        threading.Thread(target=self._wait, daemon=True).start()

    def close(self) -> None:
        """Tell those who still wait for the others that they will not come."""
        with contextlib.suppress(xgboost.core.XGBoostError):  # it was in the middle of listening
            self._tracker.free()

    def _wait(self) -> None:
        with contextlib.suppress(xgboost.core.XGBoostError, ValueError, AttributeError):  # the last: closed before
            self._tracker.wait_for()


@contextlib.contextmanager
def member(peers: Any) -> Iterator[Member]:
    """Inside, this thread's XGBoost is one of the workers.

    Raises:
        LostContact: the others could not be found, or not be taken leave of.
    """
    tracker = Tracker(peers.size, peers.host) if peers.rank == 0 else None
    try:
        # Whoever has lost another asks the tracker, which may be gone too, and those that wait for him wait: once.
        names = {"dmlc_task_id": f"{peers.rank:06d}", "dmlc_timeout": _PATIENCE_SECONDS, "dmlc_retry": 1}
        arguments = peers.share(tracker and tracker.arguments)[0]
        context = collective.CommunicatorContext(**arguments, **names)
        with _contact(every=True):
            context.__enter__()
        try:
            yield Member(peers)
        except BaseException:
            peers.close()  # before the leave-taking, which waits for the others
            with contextlib.suppress(xgboost.core.XGBoostError):  # they may be gone: what went wrong here says more
                context.__exit__()
            raise
        with _contact(every=True):
            context.__exit__()
        peers.share(None)  # the tracker is needed until all have left
    finally:
        if tracker is not None:
            tracker.close()


@contextlib.contextmanager
def _contact(*, every: bool = False) -> Iterator[None]:
    """An error of XGBoost's own in here is `LostContact` where it comes from the workers' connection; or every one."""
    try:
        yield
    except xgboost.core.XGBoostError as error:
        if every or is_of_connection(error):
            raise LostContact(last_line(error)) from error
        raise


class Member(XGBoost):
    """XGBoost on one of several workers.

    Args:
        peers: the workers.
    """

    def __init__(self, peers: Any) -> None:
        self._peers = peers
        self._start: XGBoostBooster | None = None

    def _dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        data = replace(data, queries=replace(data.queries, weights=data.queries.each_weight))  # others may have weights
        with _contact():
            return super()._dataset(data, params, reference=reference, weights=weights)

    def train(self, request: TrainRequest) -> tuple[XGBoostBooster, int]:
        gradient = request.gradient

        def in_step(scores: npt.NDArray[Any], matrix: Any, round: int) -> Any:
            """Return the gradient. XGBoost's own sums begin only after it has succeeded on all workers."""
            assert gradient is not None
            found = gradient(scores, matrix, round)
            self._peers.share(None)
            return found

        with _contact():
            return super().train(replace(request, gradient=gradient and in_step))

    def so_far(self, model: Any) -> bytes:
        """Return the model file of the rounds so far, from what a callback has as `model`."""
        return together(self._start, XGBoostBooster(model.booster)).to_bytes()

    def _begin(self, request: TrainRequest, start: XGBoostBooster) -> None:
        self._start = start
        super()._begin(request, start)
