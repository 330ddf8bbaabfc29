"""The XGBoost engine on several workers, which bin their rows together and sum their histograms."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

from boostrank.core.errors import TrainingError
from boostrank.core.types import Array, ParamValues
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import LostContact, Peers, Trained, TrainRequest
from boostrank.engines.xgboost.adapter import XGBoost, is_of_connection, last_line

# Time for the slowest worker, which may be reading or compiling. A worker that dies is noticed at
# once.
_PATIENCE_SECONDS = 1800
# Time until all workers have connected.
_GATHERING_SECONDS = 120


@contextlib.contextmanager
def tracker(workers: int, host: str) -> Iterator[dict[str, Any]]:
    """Start XGBoost's tracker, which connects the workers, and yield its arguments, or raise
    TrainingError.
    """
    try:
        rabit_tracker = RabitTracker(
            n_workers=workers, host_ip=host, port=0, timeout=_GATHERING_SECONDS
        )
        rabit_tracker.start()
    except xgboost.core.XGBoostError as error:
        reason = last_line(error).rpartition("error:")[2].strip()
        raise TrainingError(f"workers cannot connect at {host}: {reason}") from error

    def wait() -> None:
        # AttributeError if closed
        with contextlib.suppress(xgboost.core.XGBoostError, ValueError, AttributeError):
            rabit_tracker.wait_for()

    threading.Thread(target=wait, daemon=True).start()
    try:
        yield dict(rabit_tracker.worker_args())
    finally:
        with contextlib.suppress(xgboost.core.XGBoostError):  # the tracker was still listening
            rabit_tracker.free()


@contextlib.contextmanager
def member(peers: Peers) -> Iterator[Member]:
    """Connect XGBoost in this thread to the other workers.

    Raises:
        LostContact: the worker could not connect to or disconnect from the others.
    """
    with (
        tracker(peers.size, peers.host) if peers.rank == 0 else contextlib.nullcontext()
    ) as tracker_arguments:
        # A worker that has lost another asks the tracker, which may be gone too, so it retries
        # once.
        worker_arguments = {
            "dmlc_task_id": f"{peers.rank:06d}",
            "dmlc_timeout": _PATIENCE_SECONDS,
            "dmlc_retry": 1,
        }
        arguments = peers.share(tracker_arguments)[0]
        context = collective.CommunicatorContext(**arguments, **worker_arguments)
        with _contact(all_errors=True):
            context.__enter__()
        try:
            yield Member(peers)
        except BaseException:
            peers.close()  # first, because disconnecting waits for the others
            # The others may be gone; keep the first error.
            with contextlib.suppress(xgboost.core.XGBoostError):
                context.__exit__()
            raise
        with _contact(all_errors=True):
            context.__exit__()
        peers.share(None)  # the tracker is needed until all workers have disconnected


@contextlib.contextmanager
def _contact(*, all_errors: bool = False) -> Iterator[None]:
    """Convert XGBoost's connection errors, or all its errors if `all_errors` is true, to
    `LostContact`.
    """
    try:
        yield
    except xgboost.core.XGBoostError as error:
        if all_errors or is_of_connection(error):
            raise LostContact(last_line(error)) from error
        raise


class Member(XGBoost):
    """The XGBoost engine on one worker, which is connected to its `peers`."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def dataset(
        self, data: RankingDataset, params: ParamValues, *, reference: Any, weights: bool
    ) -> Any:
        """Create this worker's matrix, with weights, because other workers may have them."""
        data = replace(data, queries=replace(data.queries, weights=data.queries.each_weight))
        with _contact():
            return super().dataset(data, params, reference=reference, weights=weights)

    def train(self, request: TrainRequest) -> Trained:
        """Train with sums over all workers, whose gradients wait for each other."""
        gradient = request.gradient

        def compute_in_step(scores: Array, matrix: Any, round: int) -> Any:
            """Return the gradient once all workers have computed theirs, because XGBoost then sums
            over the workers.
            """
            assert gradient is not None
            gradient_pair = gradient(scores, matrix, round)
            self._peers.share(None)
            return gradient_pair

        with _contact():
            return super().train(replace(request, gradient=gradient and compute_in_step))

    def so_far(self, model: Any) -> bytes:
        """Return the model file of the completed rounds from the `model` that a callback
        receives.
        """
        return bytes(model.with_start().to_bytes())
