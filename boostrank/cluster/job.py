"""A worker's part in one training, as long as the training lasts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.core.types import Float64Array
    from boostrank.data.dataset import RankingDataset

# A client that has not been heard of for so long is gone: the training ends, and the worker is free.
CLIENT_SILENCE_SECONDS = 60.0


@dataclass
class Job:
    """A worker's part in one training.

    Args:
        token: of the training.
        name: of this worker, for messages.
    """

    token: str
    name: str
    threads: int = 1
    paths: tuple[str, ...] = ()
    training: list[RankingDataset] = field(default_factory=list)
    validation: list[list[RankingDataset]] = field(default_factory=list)
    scores: list[Float64Array] = field(default_factory=list)
    """What the rows of each set begin with, where there is a start: of the training set, then of the others."""
    news: list[Any] = field(default_factory=list)
    """Of each round so far: (round, rounds in all, metrics), on the first worker."""
    checkpoint: tuple[int, bytes] | None = None
    stop: bool = False
    running: bool = False
    tracker: Any = None
    last_contact: float = field(default_factory=time.monotonic)

    @property
    def abandoned(self) -> bool:
        """Whether the client is gone."""
        return time.monotonic() - self.last_contact > CLIENT_SILENCE_SECONDS

    @property
    def files(self) -> str:
        """The shards, for messages."""
        more = len(self.paths) - 3
        return ", ".join(self.paths[:3]) + (f" and {more} more" if more > 0 else "")
