"""Callbacks that tell other programs of every round: JSON lines, Optuna, Weights & Biases."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from boostrank.core.errors import MissingDependency, ParameterError, TrainingWarning, warn_user
from boostrank.core.files import write_all
from boostrank.records import jsonable


def metrics_of(env: Any) -> dict[str, float]:
    """Metrics after a round, as "valid_0/ndcg@10" -> value."""
    return {f"{result[0]}/{result[1]}": float(result[2]) for result in env.evaluation_result_list or []}


def plain_params(env: Any) -> dict[str, Any]:
    """The engine's parameters that are numbers, words, or lists of them; an objective that is code is none."""
    plain = (str, int, float, bool, list, tuple)
    return {str(name): value for name, value in env.params.items() if isinstance(value, plain)}


def chosen_result(results: Sequence[Any], metric: str | None, dataset: str | None) -> Any | None:
    """The metric that is asked for, or the first, on the set that is asked for, or the first but "training"."""
    for result in results:
        in_set = result[0] == dataset if dataset is not None else result[0] != "training"
        if in_set and metric in (None, result[1]):
            return result
    return None


class JsonLines:
    """A callback that appends to a file, which several trainings may share one after another.

    A training begins with `{"event": "begin", "time", "first_round", "last_round", "params"}`; each round is
    `{"round", "time", "metrics": {data set: {metric: value}}}`, `time` in seconds since 1970. Every line is written at
    once: of a killed process the file holds all rounds but the one in work. A line that a full disk has cut is taken
    back, or else closed by a newline the next time. A training that is resumed repeats the rounds since its checkpoint:
    the later line counts.

    Args:
        path: of the file, made where it is not there.

    Raises:
        OSError: at the first round, where it cannot be opened. Where it cannot be written later, training goes on
            without, and a warning says so.
    """

    before_iteration = False
    order = 22  # before early stopping, which ends the round by an exception

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._begun = self._written = self._broken = False

    def __call__(self, env: Any) -> None:
        if not self._begun or env.iteration == env.begin_iteration:
            self._begun = True
            self._append(
                {
                    "event": "begin",
                    "time": time.time(),
                    "first_round": env.iteration + 1,
                    "last_round": env.end_iteration,
                    "params": plain_params(env),
                }
            )
        metrics: dict[str, dict[str, float]] = {}
        for result in env.evaluation_result_list or []:
            metrics.setdefault(result[0], {})[result[1]] = float(result[2])
        self._append({"round": env.iteration + 1, "time": time.time(), "metrics": metrics})

    def _append(self, record: dict[str, Any]) -> None:
        if self._broken:
            return
        line = json.dumps(jsonable(record), allow_nan=False).encode() + b"\n"
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            if not self._written:
                raise
            self._break(error)
            return
        size: int | None = None
        try:
            size = os.fstat(descriptor).st_size
            if size and os.lseek(descriptor, -1, os.SEEK_END) >= 0 and os.read(descriptor, 1) != b"\n":
                line = b"\n" + line
            write_all(descriptor, line)
            self._written = True
        except OSError as error:
            with contextlib.suppress(OSError):
                if size is not None and os.fstat(descriptor).st_size < size + len(line):  # another has appended nothing
                    os.ftruncate(descriptor, size)  # no half of a line
            self._break(error)
        finally:
            os.close(descriptor)

    def _break(self, error: OSError) -> None:
        """Write no more, and say why."""
        self._broken = True
        warn_user(f"{self.path}: the log ends here: {error.strerror or error}", TrainingWarning)


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


class Wandb:
    """A callback that logs "valid_0/ndcg@10" and its like each round; the round is the step.

    Args:
        run: of `wandb.init()`, or what logs as it does.

    Raises:
        ParameterError: it has no `log`.
    """

    before_iteration = False
    order = 22  # before early stopping, which ends the round by an exception

    def __init__(self, run: Any) -> None:
        if not callable(getattr(run, "log", None)):
            raise ParameterError(f"Wandb takes an object with .log(values, step=), not {type(run).__name__}")
        self._run = run

    def __call__(self, env: Any) -> None:
        self._run.log(metrics_of(env), step=env.iteration + 1)
