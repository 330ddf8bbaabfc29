"""Rounds of a training: callbacks, snapshots between rounds, seeds."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

Callback = Callable[[Any], None]
"""LightGBM's callback, which every engine calls with a `CallbackEnv`.

It may have `order` and `before_iteration`, and may stop the training by an exception with `best_iteration` and
`best_score`.
"""

_MARKS = ("stopping_rounds", "eval_result", "remembers_rounds")
"""Attributes that mark callbacks with memory: LightGBM's early stopping and recorder, and ours."""


class EvalResult(NamedTuple):
    """Value of one metric on one data set: LightGBM 4.7's five fields, with the length of its earlier four."""

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool
    metric_std_dev: float | None = None

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:4])

    def is_cv_result(self) -> bool:
        """Return False: results never stand for several folds; LightGBM's callbacks ask."""
        return False


@dataclass
class CallbackEnv:
    """Environment of a callback, with LightGBM's fields.

    Args:
        model: the booster (LightGBM) or a stand-in with `reset_parameter` (XGBoost).
        params: engine parameters, in LightGBM's names.
        iteration: 0-based round, counting the rounds of a continued model.
        begin_iteration, end_iteration: first round of this training, and one past its last.
        evaluation_result_list: metrics after this round; None before it.
    """

    model: Any
    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: list[Any] | None


class StopTraining(Exception):
    """Raised by a callback to stop training normally.

    Args:
        best_iteration: 0-based round of the model to use.
    """

    def __init__(self, best_iteration: int, best_score: Sequence[Any] = ()) -> None:
        super().__init__(best_iteration)
        self.best_iteration, self.best_score = best_iteration, list(best_score)


def beginning_at(env: Any, round: int) -> Any:
    """Return the environment, ours or LightGBM's, of a training that began in this round."""
    return dataclasses.replace(env, begin_iteration=round)


def later(env: Any, rounds: int) -> Any:
    """Return the environment with every round shifted."""
    names = ("iteration", "begin_iteration", "end_iteration")
    return dataclasses.replace(env, **{name: getattr(env, name) + rounds for name in names})


def ordered(callbacks: Sequence[Callback], *, before: bool) -> list[Callback]:
    """Return the callbacks before or after a round in LightGBM's order: by `order`, those without it first."""
    kind = [cb for cb in callbacks if bool(getattr(cb, "before_iteration", False)) == before]
    first = -len(callbacks)
    return sorted(kind, key=lambda cb: getattr(cb, "order", first))


def run_callbacks(callbacks: Sequence[Callback], env: Any) -> int | None:
    """Call each callback; if one stops the training, return the number of rounds to use."""
    for callback in callbacks:
        try:
            callback(env)
        except Exception as stop:  # recognised by its attribute: LightGBM may not be installed
            if not hasattr(stop, "best_iteration"):
                raise
            return int(stop.best_iteration) + 1
    return None


def remembers(callback: Callback) -> bool:
    """Return True if a callback keeps state between rounds."""
    return any(hasattr(callback, mark) for mark in _MARKS)


# Trees and scores are kept; everything else of a round follows from its number. Neither engine exposes its random
# state, so both are seeded anew in each round, with or without a checkpoint.
@dataclass(frozen=True)
class Snapshot:
    """State of a training between two rounds, from which its engine can resume.

    Args:
        model: model file of all rounds so far.
        scores: scores of the training set and then each validation set, if trees do not reproduce them bit for bit.
        scores_sha256: hash of the training set's scores, if the engine recomputes them from the trees.
    """

    model: bytes
    scores: tuple[npt.NDArray[Any], ...] = ()
    scores_sha256: str = ""


@dataclass(frozen=True)
class Resumed:
    """Training to resume.

    Args:
        snapshot: state after its last round.
        begin: first round of the training; 0 unless it continued a model.
        results: metrics of every round since `begin`, for callbacks with memory.
    """

    snapshot: Snapshot
    begin: int
    results: list[list[EvalResult]] = field(default_factory=list)


def round_seed(name: str, seed: int, round: int) -> int:
    """Return a seed below 2^30 for one use in one round; LightGBM adds the number of a block of rows to it."""
    digest = hashlib.blake2b(f"{name} {seed} {round}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 2
