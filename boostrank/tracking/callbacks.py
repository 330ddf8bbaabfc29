"""Tracking callbacks: JSON lines, Optuna, Weights & Biases."""

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
    """Return the metrics after a round, as "valid_0/ndcg@10" -> value."""
    return {f"{result[0]}/{result[1]}": float(result[2]) for result in env.evaluation_result_list or []}


def plain_params(env: Any) -> dict[str, Any]:
    """Return the engine's parameters that are numbers, text, or lists of them."""
    plain = (str, int, float, bool, list, tuple)
    return {str(name): value for name, value in env.params.items() if isinstance(value, plain)}


def chosen_result(results: Sequence[Any], metric: str | None, dataset: str | None) -> Any | None:
    """Return the result of a metric (default: the first) on a data set (default: the first except "training")."""
    for result in results:
        in_set = result[0] == dataset if dataset is not None else result[0] != "training"
        if in_set and metric in (None, result[1]):
            return result
    return None


class JsonLines:
    """A callback that appends each round to a file of JSON lines. Consecutive trainings may share the file.

    A training starts with `{"event": "begin", "time", "first_round", "last_round", "params"}`. Each round is
    `{"round", "time", "metrics": {data set: {metric: value}}}`, with `time` in seconds since 1970. Lines are written
    immediately, so the file of a killed process holds all completed rounds. A line truncated by a full disk is removed,
    or else closed by a newline at the next write. A resumed training repeats the rounds since its checkpoint: the later
    line is valid.

    Args:
        path: the file, created if it does not exist.

    Raises:
        OSError: the file cannot be opened in the first round. Later failures disable the log with a warning.
    """

    before_iteration = False
    order = 22  # before early stopping, which raises an exception

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
                # Remove a partial line, unless another process has appended meanwhile.
                if size is not None and os.fstat(descriptor).st_size < size + len(line):
                    os.ftruncate(descriptor, size)
            self._break(error)
        finally:
            os.close(descriptor)

    def _break(self, error: OSError) -> None:
        self._broken = True
        warn_user(f"{self.path}: logging stopped: {error.strerror or error}", TrainingWarning)


class OptunaPruning:
    """A callback that reports a metric to an Optuna trial each round, and stops the training if the study's pruner
    decides so.

    Args:
        trial: the Optuna trial.
        metric: metric name as logged ("ndcg@10"); None for the first.
        dataset: name of the validation set; None for the first except "training".

    Raises:
        MissingDependency: Optuna is not installed.
        ParameterError: no such metric, or a study of the other direction (in the first round).
        optuna.TrialPruned: the trial is pruned.
    """

    before_iteration = False
    order = 23  # before early stopping, which raises an exception

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
                f"for {found[1]}, {'higher' if found[3] else 'lower'} is better: use "
                f"optuna.create_study(direction={'maximize' if found[3] else 'minimize'!r})"
            )
        step = env.iteration + 1
        self._trial.report(float(found[2]), step)
        if self._trial.should_prune():
            raise self._pruned(f"pruned after round {step}")


class Wandb:
    """A callback that logs metrics such as "valid_0/ndcg@10" each round, with the round as step.

    Args:
        run: the result of `wandb.init()`, or any object with the same `log` method.

    Raises:
        ParameterError: `run` has no `log` method.
    """

    before_iteration = False
    order = 22  # before early stopping, which raises an exception

    def __init__(self, run: Any) -> None:
        if not callable(getattr(run, "log", None)):
            raise ParameterError(f"Wandb takes an object with .log(values, step=), not {type(run).__name__}")
        self._run = run

    def __call__(self, env: Any) -> None:
        self._run.log(metrics_of(env), step=env.iteration + 1)
