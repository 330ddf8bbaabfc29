"""Working in step with the other workers of a training."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from boostrank.core.types import Float64Array


class PeerFailed(Exception):
    """Another worker has failed and says what was wrong; this one has nothing to add."""


class Peers:
    """The workers of one training.

    A worker that fails by itself would leave the others waiting for it. So before they exchange anything they tell each
    other whether all is well, and stop together if it is not.

    Args:
        add_up: adds up float64 arrays over all workers; every one of them must call it, in the same order.
        lost: what it raises when one of them does not answer.
    """

    def __init__(self, add_up: Callable[[Float64Array], Float64Array], lost: type[Exception]) -> None:
        self._add_up, self._lost = add_up, lost

    def add_up(self, sums: Float64Array) -> Float64Array:
        """The sums over all workers.

        Raises:
            PeerFailed: one of them has failed.
        """
        self._meet(failed=False)
        return self._add_up(np.asarray(sums, dtype=np.float64))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is done in here succeeds on all workers or on none.

        Raises:
            PeerFailed: it failed on another one.
        """
        try:
            yield
        except (PeerFailed, self._lost):
            raise  # everybody knows already
        except Exception:
            with contextlib.suppress(PeerFailed):
                self._meet(failed=True)
            raise
        self._meet(failed=False)

    def _meet(self, *, failed: bool) -> None:
        if self._add_up(np.array([float(failed)]))[0]:
            raise PeerFailed
