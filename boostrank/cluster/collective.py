"""Collective operations of the workers of one training: sums over all of them, and failure of all where one fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from boostrank.core.types import Float64Array


class WorkerFailed(Exception):
    """Another worker has failed and says what was wrong; this one has nothing to add."""


class Collective:
    """The workers of one training.

    A worker that fails by itself would leave the others waiting for it. So before they exchange anything they tell each
    other whether all is well, and stop together if it is not.

    Args:
        all_reduce: sums float64 arrays over all workers; every one of them must call it, in the same order.
        lost: what it raises when one of them does not answer.
    """

    def __init__(self, all_reduce: Callable[[Float64Array], Float64Array], lost: type[Exception]) -> None:
        self._all_reduce, self._lost = all_reduce, lost

    def all_reduce(self, sums: Float64Array) -> Float64Array:
        """The sums over all workers.

        Raises:
            WorkerFailed: one of them has failed.
        """
        self._synchronise(failed=False)
        return self._all_reduce(np.asarray(sums, dtype=np.float64))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is done in here succeeds on all workers or on none.

        Raises:
            WorkerFailed: it failed on another one.
        """
        try:
            yield
        except (WorkerFailed, self._lost):
            raise  # everybody knows already
        except Exception:
            with contextlib.suppress(WorkerFailed):
                self._synchronise(failed=True)
            raise
        self._synchronise(failed=False)

    def _synchronise(self, *, failed: bool) -> None:
        if self._all_reduce(np.array([float(failed)]))[0]:
            raise WorkerFailed
