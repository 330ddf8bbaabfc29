"""Training snapshots: what an engine needs to go on after any round as if it had not stopped.

Trees and scores are kept; whatever else a round depends on is a function of the round alone: schedules and noise are,
and sampling is made so. Neither engine shows the state of its random numbers, so both are seeded anew in each round,
with or without a checkpoint: the result does not depend on where, or whether, a training stopped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from boostrank.engines.events import EvalResult


@dataclass(frozen=True)
class Snapshot:
    """A training between two rounds, as its engine needs it to go on.

    Args:
        model: the model file of all rounds so far.
        scores: of the training set and then each validation set, where trees alone would not give back every bit.
        scores_sha256: of the training set's scores, where the engine makes them again from the trees.
    """

    model: bytes
    scores: tuple[npt.NDArray[Any], ...] = ()
    scores_sha256: str = ""


@dataclass(frozen=True)
class Resumed:
    """A training to go on with.

    Args:
        snapshot: after its last round.
        begin: first round of the training, 0 unless that continued a model.
        results: metrics of every round since `begin`, for callbacks that remember.
    """

    snapshot: Snapshot
    begin: int
    results: list[list[EvalResult]] = field(default_factory=list)


def round_seed(name: str, seed: int, round: int) -> int:
    """A seed for one use in one round, below 2^30: LightGBM adds the number of a block of rows to it."""
    digest = hashlib.blake2b(f"{name} {seed} {round}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 2
