"""Callbacks that report each round to other programs, for every engine. Rounds are numbered from 1."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core.errors import MissingDependency, ParameterError, TrainingWarning, warn_user
from boostrank.core.files import write_all
from boostrank.records import jsonable

if TYPE_CHECKING:
    from boostrank.model.ranking_model import RankingModel

__all__ = ["JsonLines", "MLflow", "OptunaPruning", "Wandb", "log_model"]

_FILE, _QID = "model.boostrank", "qid"
_LONGEST_LINE = 1 << 20


def __dir__() -> list[str]:
    return __all__


def _metrics_of(env: Any) -> dict[str, float]:
    """Return the metrics after a round as a mapping such as "valid_0/ndcg@10" -> value."""
    return {f"{result[0]}/{result[1]}": float(result[2]) for result in env.evaluation_result_list or []}


def _plain_params(env: Any) -> dict[str, Any]:
    """Return the engine parameters that are numbers, text, or lists of numbers or text."""
    plain = (str, int, float, bool, list, tuple)
    return {str(name): value for name, value in env.params.items() if isinstance(value, plain)}


def _imported(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependency(f"{module} is not installed: pip install 'boostrank[{extra}]'") from error


class _Callback:
    before_iteration = False
    order = 22  # before early stopping, which raises an exception


def _torn_line(file: Any, size: int) -> bytes:
    """Return what follows the last line feed of a file, or one byte of it if that is complete JSON."""
    file.seek(max(0, size - 1))
    if not size or file.read(1) == b"\n":
        return b""
    file.seek(max(0, size - _LONGEST_LINE))
    rest = bytes(file.read(_LONGEST_LINE).rpartition(b"\n")[2])
    try:
        json.loads(rest)
    except ValueError:
        return rest
    return rest[-1:]


class JsonLines(_Callback):
    """A callback that appends each round to a file of JSON lines. Consecutive trainings may share the file.

    A training starts with `{"event": "begin", "time", "first_round", "last_round", "params"}`. Each round is
    `{"round", "time", "metrics": {data set: {metric: value}}}`, with `time` in seconds since 1970. Lines are written
    immediately, so the file of a killed process contains all completed rounds. A resumed training logs only the rounds
    that the file lacks, after a line "begin" with the first of them. A truncated last line is removed.

    Args:
        path: path of the file, which is created if it does not exist.

    Raises:
        OSError: the file cannot be opened in the first round. Later failures disable the log with a warning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._begun = self._written = self._broken = self._resumed = False
        self._logged: dict[int, Any] | None = None

    def begins(self, info: Any) -> None:
        """Prepare for a training, whose first round may follow a checkpoint."""
        self._begun, self._logged = False, None

    def __call__(self, env: Any) -> None:
        metrics: dict[str, dict[str, float]] = {}
        for result in env.evaluation_result_list or []:
            metrics.setdefault(result[0], {})[result[1]] = float(result[2])
        record = jsonable({"round": env.iteration + 1, "time": time.time(), "metrics": metrics})
        # Skip the rounds that an interrupted training logged after its last checkpoint.
        first = env.iteration == env.begin_iteration
        if first or self._logged is None:
            self._begun, self._resumed = False, self._resumed or not first
            self._logged = self._interrupted(record, last=first) if self._resumed else {}
        if self._logged.get(record["round"]) == record["metrics"]:
            return
        if not self._begun:
            self._begun = True
            self._append(
                {
                    "event": "begin",
                    "time": time.time(),
                    "first_round": env.iteration + 1,
                    "last_round": env.end_iteration,
                    "params": _plain_params(env),
                }
            )
        self._append(record)

    def _interrupted(self, record: dict[str, Any], *, last: bool) -> dict[int, Any]:
        """Return the metrics by round of the last logged training, or of the last one that has the round in `record`.

        Return no rounds if that round is not logged.
        """
        trainings: list[dict[int, Any]] = [{}]
        with contextlib.suppress(OSError), open(self.path, "rb") as file:
            for line in file:
                with contextlib.suppress(ValueError, TypeError, AttributeError):  # not a line of ours
                    logged = json.loads(line)
                    if logged.get("event") == "begin":
                        before = logged["first_round"] - 1
                        goes_on = [
                            {},
                            *(rounds for rounds in trainings if before in rounds and before + 1 not in rounds),
                        ]
                        trainings.append(goes_on[-1])
                    elif "round" in logged:
                        trainings[-1][logged["round"]] = logged["metrics"]
        number, metrics = record["round"], record["metrics"]
        searched = trainings[-1:] if last else reversed(trainings)
        return next((rounds for rounds in searched if rounds.get(number) == metrics), {})

    def _append(self, record: dict[str, Any]) -> None:
        if self._broken:
            return
        line = json.dumps(jsonable(record), allow_nan=False).encode() + b"\n"
        size: int | None = None
        try:
            with open(self.path, "ab+", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                torn = _torn_line(file, size)
                if torn.startswith((b"{", b"\0")):
                    size = file.truncate(size - len(torn))
                elif torn:
                    line = b"\n" + line
                try:
                    write_all(file.fileno(), line)
                except OSError:
                    # Remove a partial line, unless another process appended to the file.
                    with contextlib.suppress(OSError):
                        if os.fstat(file.fileno()).st_size < size + len(line):
                            file.truncate(size)
                    raise
            self._written = True
        except OSError as error:
            if size is None and not self._written:
                raise
            self._broken = True
            warn_user(f"{self.path}: logging stopped: {error.strerror or error}", TrainingWarning)


class OptunaPruning(_Callback):
    """A callback that reports a metric to an Optuna trial each round, and stops the training if the study's pruner
    decides so.

    Args:
        trial: the Optuna trial.
        metric: metric name as logged ("ndcg@10"), or None for the first metric.
        dataset: name of the validation set, or None for the first set except "training".

    Raises:
        MissingDependency: Optuna is not installed.
        ParameterError: the metric does not exist, or the study optimises in the other direction (in the first round).
        optuna.TrialPruned: the trial is pruned.
    """

    order = 23

    def __init__(self, trial: Any, metric: str | None = None, dataset: str | None = None) -> None:
        optuna = _imported("optuna", "tune")
        self._pruned = optuna.TrialPruned
        self._maximize = optuna.study.StudyDirection.MAXIMIZE
        self._trial, self._metric, self._dataset = trial, metric, dataset

    def __call__(self, env: Any) -> None:
        results = env.evaluation_result_list or []
        in_sets = (r for r in results if (r[0] == self._dataset if self._dataset else r[0] != "training"))
        found = next((r for r in in_sets if self._metric in (None, r[1])), None)
        if found is None:
            wanted = f"{self._metric or 'a metric'} on {self._dataset or 'a validation set'}"
            seen = ", ".join(f"{r[0]}'s {r[1]}" for r in results) or "nothing"
            raise ParameterError(f"pruning needs {wanted}; evaluated here: {seen}")
        study = getattr(self._trial, "study", None)
        if study is not None and (study.direction == self._maximize) != bool(found[3]):
            raise ParameterError(
                f"for {found[1]}, {'higher' if found[3] else 'lower'} is better; use "
                f"optuna.create_study(direction={'maximize' if found[3] else 'minimize'!r})"
            )
        step = env.iteration + 1
        self._trial.report(float(found[2]), step)
        if self._trial.should_prune():
            raise self._pruned(f"pruned after round {step}")


class Wandb(_Callback):
    """A callback that logs metrics such as "valid_0/ndcg@10" in each round, with the round as the step.

    Args:
        run: result of `wandb.init()`, or any object with the same `log` method.

    Raises:
        ParameterError: `run` has no `log` method.
    """

    def __init__(self, run: Any) -> None:
        if not callable(getattr(run, "log", None)):
            raise ParameterError(f"Wandb needs an object with .log(values, step=), but got {type(run).__name__}")
        self._run = run

    def __call__(self, env: Any) -> None:
        self._run.log(_metrics_of(env), step=env.iteration + 1)


class MLflow(_Callback):
    """A callback that logs the engine's parameters, and each round's metrics with the round as the step.

    MLflow forbids "@" in names, so "ndcg@10" on "valid_0" becomes "valid_0/ndcg_at_10". The callback logs to the active
    run, or starts one.

    Raises:
        MissingDependency: MLflow is not installed.
    """

    def __init__(self) -> None:
        self._mlflow = _imported("mlflow", "mlflow")
        self._begun = False

    def __call__(self, env: Any) -> None:
        if not self._begun:
            self._begun = True
            self._mlflow.log_params({name: str(value)[:500] for name, value in _plain_params(env).items()})
        found = {re.sub(r"[^\w\-. /]", "_", name.replace("@", "_at_")): v for name, v in _metrics_of(env).items()}
        self._mlflow.log_metrics(found, step=env.iteration + 1)


def log_model(model: RankingModel, name: str = "model", **options: Any) -> Any:
    """Log a model and its record to the active run. Its signature has one column per feature and returns scores.

    `mlflow.pyfunc.load_model` loads the model for data frames and matches columns by name. Models that depend on whole
    queries read the query ids from the column "qid". Nothing is pickled.

    Args:
        model: model that is logged.
        name: name as in `mlflow.pyfunc.log_model`.
        options: other arguments of `mlflow.pyfunc.log_model`.

    Returns:
        The result of `mlflow.pyfunc.log_model`.

    Raises:
        MissingDependency: MLflow is not installed.
    """
    mlflow = _imported("mlflow", "mlflow")
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    import boostrank
    from boostrank.data.arrays import default_feature_names
    from boostrank.engines import get_backend

    # Accept any type: MLflow rejects integers for "double", and numbers for "string".
    names = [*model.feature_names, *([] if model.scores_rows_alone else [_QID])]
    # Arrays need columns without names. The columns of a data frame are matched by name in any case.
    numbered = model.scores_rows_alone and model.feature_names == default_feature_names(model.n_features)
    columns = [ColSpec(AnyType(), None if numbered else name) for name in names]
    signature = ModelSignature(Schema(columns), Schema([TensorSpec(np.dtype(np.float64), (-1,))]))
    engine = get_backend(model.backend)
    needs = [f"boostrank=={boostrank.__version__}"]
    needs += [f"{engine.name}=={engine.version}"] if engine.grows_trees else []
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / _FILE)
        given = {"signature": signature, "pip_requirements": needs} | options
        return mlflow.pyfunc.log_model(name=name, loader_module=__name__, data_path=folder, **given)


def _load_pyfunc(path: str) -> _Served:
    """Load a model for MLflow."""
    from boostrank.model.ranking_model import RankingModel

    return _Served(RankingModel.load(os.path.join(path, _FILE)))


class _Served:
    """The interface between MLflow and a model."""

    def __init__(self, model: RankingModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: Any = None) -> Any:
        """Return the scores of the rows in a data frame or an array, float64[N]."""
        if list(getattr(model_input, "columns", ())) == list(range(self.model.n_features)):
            model_input = model_input.to_numpy()  # MLflow converted an array to a data frame
        alone = self.model.scores_rows_alone or not hasattr(model_input, "columns")
        return self.model.predict(model_input, qid=None if alone else model_input[_QID])
