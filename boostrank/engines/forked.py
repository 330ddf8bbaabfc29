"""Forked processes: the engines wait there for threads that the fork has left behind.

GNU's OpenMP keeps its threads between two calls, and does not notice that a child has none of them: whatever an engine
does there on more than one thread hangs for ever. So the engines of a child whose parent had loaded them use one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from boostrank.core.errors import TrainingWarning, warn_user

_warned: dict[str, bool] = {}
"""Engine that this process has from its parent -> whether a warning has named its one thread."""


def limit_in_children(engine: str, limit: Callable[[], object]) -> None:
    """Have an engine use one thread in all processes that are forked from now on.

    Args:
        engine: its name, for people.
        limit: makes it use one where it is not told how many.
    """

    def begin() -> None:
        limit()
        _warned[engine] = False

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)


def engine_threads(engine: str, threads: int) -> int:
    """Threads for an engine: as many as are wanted, but 1 in a forked process, with one warning.

    Args:
        engine: as of `limit_in_children`.
        threads: that are wanted.
    """
    if engine not in _warned or threads == 1:
        return threads
    if not _warned[engine]:
        _warned[engine] = True
        warn_user(
            f"{engine} uses one thread in this process: it was forked from one that had loaded {engine}, whose threads "
            "a fork leaves behind. Start processes by 'spawn' or 'forkserver', or load the model in the child alone",
            TrainingWarning,
        )
    return 1
