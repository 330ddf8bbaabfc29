"""Callbacks for early stopping and history, and those of a training. They take LightGBM's
`CallbackEnv` and work on either engine.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.engines.base import Callback, StopTraining
from boostrank.engines.engine_params import as_whole
from boostrank.fit.checkpoint import AS_ARGUMENT, Checkpoint
from boostrank.fit.settings import MIN_DELTA

if TYPE_CHECKING:
    from boostrank.fit.plan import Training


class EarlyStopping:
    """A callback that stops when a metric on a data set has not improved for a while, and keeps the
    best round.

    LightGBM's early stopping watches every metric and stops when any of them stalls. XGBoost's
    early stopping guesses the direction of a metric from its name. This callback watches a single
    metric in its actual direction.

    Args:
        stopping_rounds: number of rounds without improvement after which training stops.
        metric: name of the metric as logged, such as "ndcg@10"; None for the first metric.
        dataset: name of the validation set; None for the first data set that is neither the
            training set nor, if there are others, a copy of it.
        min_delta: change that an improvement must exceed.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> fresh = make_ranking_data(queries=30, seed=2, mean_length=8).dataset
        >>> stopping = boostrank.EarlyStopping(2, metric="ndcg@5")
        >>> model = boostrank.train(
        ...     params | {"eval_at": 5}, data, 30, valid_sets=[fresh], callbacks=[stopping]
        ... )
        >>> 0 < model.best_iteration <= 30
        True
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
    ) -> None:
        self.stopping_rounds = as_whole(stopping_rounds, "stopping_rounds", 1)
        self.min_delta = float(MIN_DELTA.parse(min_delta))
        self._metric, self._dataset = metric, dataset
        self.ignored: Sequence[str] = ()  # data sets of the training
        self.best_iteration: int | None = None
        self.best_score: list[Any] = []
        self._best = 0.0

    def __call__(self, env: Any) -> None:
        # A result is (data set, metric, value, whether higher is better).
        results = env.evaluation_result_list or []
        for result in results:
            considered = (
                result[0] == self._dataset if self._dataset else result[0] not in self.ignored
            )
            if considered and self._metric in (None, result[1]):
                break
        else:
            watched = f"{self._metric or 'a metric'} on {self._dataset or 'a validation set'}"
            evaluated = ", ".join(f"{result[0]}'s {result[1]}" for result in results) or "nothing"
            raise ParameterError(
                f"early stopping needs {watched}, but the evaluation returned {evaluated}"
            )
        value = result[2] if result[3] else -result[2]
        if value != value:
            raise ParameterError(
                f"early stopping needs numbers, but {result[0]}'s {result[1]} is NaN in round"
                f" {env.iteration + 1}"
            )
        if env.iteration == env.begin_iteration:  # a new training, such as the next fold
            self.best_iteration = None
        if self.best_iteration is None or value > self._best + self.min_delta:
            self._best, self.best_iteration = value, env.iteration
            self.best_score = list(results)
        stalled = env.iteration - self.best_iteration >= self.stopping_rounds
        if stalled or env.iteration == env.end_iteration - 1:
            raise StopTraining(self.best_iteration, self.best_score)


class Gated:
    """A stopping callback that is disabled until the objective has settled.

    An annealed or mixed objective changes in the first rounds. For example, REG-SHF-SDCG is a
    regression for half of its rounds. A plateau or a best round in that phase is meaningless.
    """

    before_iteration = False

    def __init__(self, callback: Callback, first_round: int) -> None:
        self.gated, self._first_round = callback, first_round
        self.order = getattr(callback, "order", 0)
        self.stopping_rounds = getattr(callback, "stopping_rounds", 0)

    def __call__(self, env: Any) -> None:
        if env.iteration < self._first_round:
            return
        first_round = max(self._first_round, env.begin_iteration)
        self.gated(replace(env, begin_iteration=first_round))


class StopRequest:
    """A request to stop a training.

    Attributes:
        pending: whether the training shall stop after its current round.
        stopped: whether it stopped because of the request, which has no effect in the last round.
    """

    pending = stopped = False


class StopWhenAsked:
    """A callback that stops training after the current round on request, which it reads in each
    round.
    """

    before_iteration = False
    order = 40  # last, after early stopping

    def __init__(self, request: Any) -> None:
        self._request = request
        self._stopper: Any = None
        self._checkpoint: Checkpoint | None = None

    def watch(self, stopper: Callback | None, checkpoint: Checkpoint | None = None) -> None:
        """Set the early stopping callback whose best round is kept (None keeps all rounds), and the
        checkpoint.
        """
        self._stopper, self._checkpoint = stopper, checkpoint

    def __call__(self, env: Any) -> None:
        if self._request.pending and env.iteration + 1 < env.end_iteration:
            if self._checkpoint is not None:
                self._checkpoint.try_to_write(env)
            self._request.stopped = True
            best_round = None if self._stopper is None else self._stopper.best_iteration
            if best_round is None:
                best_round = env.iteration
            raise StopTraining(best_round)


class LogRounds:
    """A callback that prints metrics every `period` rounds, like `lightgbm.log_evaluation`."""

    before_iteration = False
    order = 10

    def __init__(self, period: Any) -> None:
        if isinstance(period, bool):
            period = int(period)
        self._period = as_whole(period, "verbose", -1)

    def __call__(self, env: Any) -> None:
        results = env.evaluation_result_list or []
        if results and self._period > 0 and (env.iteration + 1) % self._period == 0:
            metrics = (f"{result[0]}'s {result[1]}: {result[2]:g}" for result in results)
            print(f"[{env.iteration + 1}]", *metrics, sep="\t")  # noqa: T201


class OfXGBoost:
    """A callback that calls an `xgboost.callback.TrainingCallback`, such as Optuna's.

    Rounds count from 0 in each training, as in `xgboost.train`. `before` is the callback for the
    start of a round.
    """

    before_iteration = False
    order = 30

    def __init__(self, callback: Any) -> None:
        if hasattr(callback, "rounds"):
            self.stopping_rounds = callback.rounds
        if type(callback).__name__ == "EarlyStopping":  # its state would go on in the next fold
            callback = copy.deepcopy(callback)
        self._callback, self._history, self._model = callback, History(), None

    def before(self, env: Any) -> None:
        """Begin the training or a round."""
        if self._model is None:
            self._model = self._callback.before_training(env.model.booster)
            self._begin = env.begin_iteration  # `Gated` moves it
        if self._callback.before_iteration(*self._arguments(env)):
            raise StopTraining(env.iteration - 1)

    before.before_iteration = True  # type: ignore[attr-defined]

    def __call__(self, env: Any) -> None:
        self._history(env)
        try:
            stops = self._callback.after_iteration(*self._arguments(env))
        except KeyError as error:
            results = ", ".join(f"{r[0]}-{r[1]}" for r in env.evaluation_result_list or [])
            raise ParameterError(
                f"{type(self._callback).__name__} needs {error}, but the evaluation returned"
                f" {results or 'nothing'}"
            ) from error
        if stops or env.iteration == env.end_iteration - 1:
            self._callback.after_training(self._model)
            # XGBoost's early stopping leaves its best round in the booster.
            best_round = env.model.booster.attr("best_iteration")
            env.model.booster.set_attr(best_iteration=None, best_score=None)
            if stops or best_round is not None:
                raise StopTraining(int(best_round or env.iteration))

    def _arguments(self, env: Any) -> tuple[Any, ...]:
        return self._model, env.iteration - self._begin, self._history.values


_INSTEAD = {
    "EarlyStopping": "early_stopping_rounds=",
    "EvaluationMonitor": "lightgbm.log_evaluation",
    "LearningRateScheduler": "lightgbm.reset_parameter(learning_rate=...)",
    "TrainingCheckPoint": "checkpoint=boostrank.Checkpoint(path)",
    "XGBoostPruningCallback": "LightGBMPruningCallback(trial, 'ndcg@10')",
}
"""The counterparts of callbacks that use methods of XGBoost's booster."""


class History:
    """A callback that records each metric in each round (data set -> metric -> values), and the
    number of rounds.
    """

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


def make_callbacks(
    training: Training, valid: Sequence[tuple[str, Any]], native_train: Any
) -> tuple[Callback | None, list[Callback]]:
    """Return boostrank's early stopping, if a parameter requests it, and the user's callbacks.

    Callbacks that stop are disabled until the objective has settled.
    """
    # Take callbacks for LightGBM's `CallbackEnv`, and convert those of XGBoost.
    callbacks: list[Callback] = []
    for callback in training.callbacks:
        if training.engine.name == "xgboost" and hasattr(callback, "after_iteration"):
            adapted = OfXGBoost(callback)
            callbacks += [adapted.before, adapted]
        elif isinstance(callback, Checkpoint):
            raise ParameterError(AS_ARGUMENT)
        elif callable(callback):
            callbacks.append(callback)
        else:
            kind = type(callback).__name__
            instead = _INSTEAD.get(kind, "a callable that takes a lightgbm.callback.CallbackEnv")
            raise ParameterError(
                f"{kind} is not a callback of backend={training.engine.name!r}: pass {instead}"
            )
    # Find the round at which the objective settles, unless stops before it are allowed.
    patience, objective, settled = training.patience, training.objective, 0
    if objective is not None and not training.stops_early:
        settled = objective.settled_round(objective.total_rounds or 0)
    # Refuse an early stop that would lose the best model, or has no held-out metric.
    stoppers = [callback for callback in callbacks if isinstance(callback, EarlyStopping)]
    if (patience or stoppers) and training.drops_trees:
        raise ParameterError(
            "dart does not support early stopping: later rounds rescale earlier trees, so the model"
            " of the best round is lost"
        )
    stopper: Callback | None = None
    trained_on = [name for name, data in valid if data is native_train]
    if patience:
        if len(trained_on) == len(valid):
            raise ParameterError(
                "early stopping needs a validation set other than the training set"
            )
        metric, min_delta = training.headline, training.min_delta
        stopper = EarlyStopping(patience, metric=metric, min_delta=min_delta)
        stoppers.append(stopper)
    # Ignore copies of the training set, such as X[names], where another set is left to watch.
    copies, train_set = trained_on, training.train_set
    if stoppers and training.collective.is_alone:  # workers may have other rows
        copies = [
            name
            for name, data in training.valid
            if np.array_equal(data.labels, train_set.labels)
            and data.fingerprint == train_set.fingerprint
        ]
    for early_stopping in stoppers:
        early_stopping.ignored = copies if len(copies) < len(valid) else trained_on
    for callback in callbacks:
        if isinstance(callback, StopWhenAsked):
            callback.watch(stopper, training.checkpoint)
    if settled:
        callbacks = [
            Gated(callback, settled) if hasattr(callback, "stopping_rounds") else callback
            for callback in callbacks
        ]
        stopper = stopper and Gated(stopper, settled)
    return stopper, callbacks
