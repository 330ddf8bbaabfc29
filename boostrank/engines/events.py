"""Training events: what a callback sees of a round, how it ends a training, and in which order callbacks run.

Callbacks are LightGBM's: callables that take a `CallbackEnv`, with `order` and `before_iteration`, that may raise an
exception with `best_iteration` and `best_score` to stop. Every engine calls them, so `lgb.early_stopping`,
`lgb.log_evaluation`, `lgb.record_evaluation` and `lgb.reset_parameter` work on any of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Callback = Callable[[Any], None]

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
