"""Optuna's pruning: a trial that falls behind the others ends in the middle of its training."""

from __future__ import annotations

from typing import Any

from boostrank.core.errors import MissingDependency, ParameterError
from boostrank.tracking.rounds import chosen_result


class OptunaPruning:
    """A callback that reports one metric a round to a trial, and ends the training where the study's pruner says so.

    Args:
        trial: of Optuna.
        metric: its name as logged ("ndcg@10"); None for the first.
        dataset: name of the validation set; None for the first but "training".

    Raises:
        MissingDependency: no Optuna.
        ParameterError: at the first round: no such metric, or a study of the other direction.
        optuna.TrialPruned: where the trial is to end.
    """

    before_iteration = False
    order = 23  # before early stopping, which ends the round by an exception

    def __init__(self, trial: Any, metric: str | None = None, dataset: str | None = None) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingDependency("OptunaPruning needs Optuna: pip install 'boostrank[tune]'") from error
        self._pruned = optuna.TrialPruned
        self._maximize = optuna.study.StudyDirection.MAXIMIZE
        self._trial, self._metric, self._dataset = trial, metric, dataset

    def __call__(self, env: Any) -> None:
        results = env.evaluation_result_list or []
        found = chosen_result(results, self._metric, self._dataset)
        if found is None:
            wanted = f"{self._metric or 'a metric'} on {self._dataset or 'a validation set'}"
            seen = ", ".join(f"{r[0]}'s {r[1]}" for r in results) or "nothing"
            raise ParameterError(f"pruning needs {wanted}; evaluated here: {seen}")
        study = getattr(self._trial, "study", None)
        if study is not None and (study.direction == self._maximize) != bool(found[3]):
            raise ParameterError(
                f"of {found[1]} {'higher' if found[3] else 'lower'} is better: "
                f"optuna.create_study(direction={'maximize' if found[3] else 'minimize'!r})"
            )
        step = env.iteration + 1
        self._trial.report(float(found[2]), step)
        if self._trial.should_prune():
            raise self._pruned(f"pruned after round {step}")
