"""Rounds of a training: callbacks, snapshots between rounds, seeds."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

Callback = Callable[[Any], None]
"""LightGBM's callback: takes a `CallbackEnv`, may have `order` and `before_iteration`, and may stop the training by an
exception with `best_iteration` and `best_score`. Every engine calls them."""

_MARKS = ("stopping_rounds", "eval_result", "remembers_rounds")
"""What callbacks have that keep something from round to round: LightGBM's early stopping, its recorder, and ours."""


class EvalResult(NamedTuple):
    """One metric on one data set, as LightGBM 4.7 has it: five fields, and as long as the tuple of four before that."""

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
        """Whether it stands for several folds; never, here. LightGBM's callbacks ask."""
        return False


@dataclass
class CallbackEnv:
    """What a callback sees; the same fields as LightGBM's.

    Args:
        model: the booster (LightGBM) or a stand-in with `reset_parameter` (XGBoost).
        params: engine parameters, in LightGBM's names.
        iteration: 0-based round, earlier rounds of a continued model included.
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
    """Raised by a callback to end training in good order.

    Args:
        best_iteration: 0-based round of the model to use.
        best_score: metrics at that round.
    """

    def __init__(self, best_iteration: int, best_score: Sequence[Any] = ()) -> None:
        super().__init__(best_iteration)
        self.best_iteration, self.best_score = best_iteration, list(best_score)


def beginning_at(env: Any, round: int) -> Any:
    """The same environment, ours or LightGBM's, of a training that began in this round."""
    return dataclasses.replace(env, begin_iteration=round)


def later(env: Any, rounds: int) -> Any:
    """The same environment with every round counted from another one."""
    names = ("iteration", "begin_iteration", "end_iteration")
    return dataclasses.replace(env, **{name: getattr(env, name) + rounds for name in names})


def ordered(callbacks: Sequence[Callback], *, before: bool) -> list[Callback]:
    """Callbacks of one kind in the order LightGBM runs them: by `order`, unset ones first as given."""
    kind = [cb for cb in callbacks if bool(getattr(cb, "before_iteration", False)) == before]
    first = -len(callbacks)
    return sorted(kind, key=lambda cb: getattr(cb, "order", first))


def run_callbacks(callbacks: Sequence[Callback], env: Any) -> int | None:
    """Call each; where one ends the training, by LightGBM's exception or ours, the rounds of the model to use."""
    for callback in callbacks:
        try:
            callback(env)
        except Exception as stop:  # told by what it carries: LightGBM may not be there
            if not hasattr(stop, "best_iteration"):
                raise
            return int(stop.best_iteration) + 1
    return None


def remembers(callback: Callback) -> bool:
    """Whether a callback keeps something from earlier rounds."""
    return any(hasattr(callback, mark) for mark in _MARKS)


# Trees and scores are kept; everything else of a round is a function of its number. Neither engine shows the state of
# its random numbers, so both are seeded anew in each round, with or without a checkpoint.
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
