"""Callbacks of our own: early stopping and history. They take LightGBM's `CallbackEnv` and work on either engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boostrank.core.errors import ParameterError
from boostrank.engines.rounds import Callback, StopTraining, beginning_at

if TYPE_CHECKING:
    from boostrank.fit.checkpoint import Checkpoint


class EarlyStopping:
    """Stop when one named metric on one named data set has not improved for a while; keep the best round.

    LightGBM's own watches every metric and stops on whichever stalls first; XGBoost's guesses the direction from the
    metric's name. This one watches one metric, or else the first metric of the first set that is not trained on,
    and the direction comes with the metric.

    Args:
        stopping_rounds: rounds without improvement after which training ends.
        metric: its name as logged ("ndcg@10"); None for the first.
        dataset: name of the validation set; None for the first that is not in `ignore`.
        min_delta: an improvement by less does not count.
        ignore: names of sets that are trained on.
    """

    before_iteration = False
    order = 30

    def __init__(
        self,
        stopping_rounds: int,
        *,
        metric: str | None = None,
        dataset: str | None = None,
        min_delta: float = 0.0,
        ignore: tuple[str, ...] = (),
    ) -> None:
        self.stopping_rounds, self.min_delta = stopping_rounds, min_delta
        self._metric, self._dataset, self._ignore = metric, dataset, ignore
        self.best_iteration: int | None = None
        self.best_score: list[Any] = []
        self._best = 0.0

    def __call__(self, env: Any) -> None:
        results = env.evaluation_result_list or []
        for result in results:
            trained_on = self._dataset is None and result[0] in self._ignore
            if not trained_on and self._dataset in (None, result[0]) and self._metric in (None, result[1]):
                break
        else:
            wanted = f"{self._metric or 'a metric'} on {self._dataset or 'a validation set'}"
            seen = ", ".join(f"{r[0]}'s {r[1]}" for r in results) or "nothing"
            raise ParameterError(f"early stopping needs {wanted}; evaluated here: {seen}")
        value = result[2] if result[3] else -result[2]
        if env.iteration == env.begin_iteration:  # a training of its own, as of the next fold
            self.best_iteration = None
        if self.best_iteration is None or value > self._best + self.min_delta:
            self._best, self.best_iteration = value, env.iteration
            self.best_score = list(env.evaluation_result_list)
        stalled = env.iteration - self.best_iteration >= self.stopping_rounds
        if stalled or env.iteration == env.end_iteration - 1:
            raise StopTraining(self.best_iteration, self.best_score)


class Gated:
    """A stopping callback held back until the objective has settled.

    An annealed or mixed objective is not itself at first (REG-SHF-SDCG is regression for half of its rounds): a
    plateau there says nothing, and a best round from there is not a model of the objective asked for.

    Args:
        callback: the one to hold back.
        first_round: 0-based round from which it is called.
    """

    before_iteration = False

    def __init__(self, callback: Callback, first_round: int) -> None:
        self.gated, self._first_round = callback, first_round
        self.order = getattr(callback, "order", 0)
        self.stopping_rounds = getattr(callback, "stopping_rounds", 0)

    def __call__(self, env: Any) -> None:
        if env.iteration < self._first_round:
            return
        self.gated(beginning_at(env, max(self._first_round, env.begin_iteration)))


class StopWhenAsked:
    """Ends the training after the round in which somebody asked for it.

    Args:
        request: `made`: whether there is one, asked in every round; `heeded`: set when the training ends because of it.
    """

    before_iteration = False
    order = 40  # the last: early stopping has seen this round

    def __init__(self, request: Any) -> None:
        self._request = request
        self._stopper: Any = None
        self._checkpoint: Checkpoint | None = None

    def watch(self, stopper: Callback | None, checkpoint: Checkpoint | None = None) -> None:
        """Called by the training.

        Args:
            stopper: its early stopping, whose best round so far counts; None keeps every round.
            checkpoint: to write before the end.
        """
        self._stopper, self._checkpoint = getattr(stopper, "gated", stopper), checkpoint

    def __call__(self, env: Any) -> None:
        if self._request.made and env.iteration + 1 < env.end_iteration:
            if self._checkpoint is not None:
                self._checkpoint.try_to_write(env)
            self._request.heeded = True
            best = None if self._stopper is None else self._stopper.best_iteration
            raise StopTraining(env.iteration if best is None else best)


class History:
    """Records every metric of every round: data set -> metric -> values; and how many rounds the model has."""

    before_iteration = False
    order = 20
    remembers_rounds = True

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = {}
        self.rounds = 0

    def __call__(self, env: Any) -> None:
        self.rounds = env.iteration + 1
        for result in env.evaluation_result_list or []:
            self.values.setdefault(result[0], {}).setdefault(result[1], []).append(float(result[2]))
