"""Callbacks that report each round to other programs, for every engine. Rounds are numbered from
1.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core import __version__
from boostrank.core.errors import MissingDependency, ParameterError, TrainingWarning, warn_user
from boostrank.core.files import write_all
from boostrank.core.queries import QueryIndex, checked_ids, query_numbers
from boostrank.fit.run import package_versions
from boostrank.fit.settings import OBJECTIVE_NAMES, ROUNDS_NAMES, SEED_NAMES, default_objective
from boostrank.metrics import BoundMetrics, Conventions, Metric
from boostrank.model.query_columns import WithinQuery
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.objective.mixture import objective_from_dict
from boostrank.options import KEYWORDS
from boostrank.records import jsonable

if TYPE_CHECKING:
    from boostrank.fit.plan import Plan

__all__ = [
    "JsonLines",
    "MLflow",
    "log_model",
    "logged_arguments",
    "mlflow_metrics",
]

_FILE, _RECORD, _QID = "model.boostrank", "boostrank.json", "qid"
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "objective": objective_from_dict,
    "conventions": lambda fields: Conventions(**fields),
    "within_query": lambda fields: WithinQuery(**fields),
}
"""Functions that restore objects from JSON data."""
_LONGEST_LINE = 1 << 20


def __dir__() -> list[str]:
    return __all__


def _mlflow_name(name: str) -> str:
    """Return a metric name that MLflow allows: "ndcg@10" becomes "ndcg_at_10"."""
    return re.sub(r"[^\w\-. /]", "_", name.replace("@", "_at_"))


def _as_json(value: Any) -> Any:
    """Convert an objective, conventions or columns within queries to JSON data, others to text."""
    if hasattr(value, "to_dict"):
        return jsonable(value.to_dict())
    if isinstance(value, Conventions | WithinQuery):
        return jsonable(vars(value))
    return getattr(value, "__qualname__", str(value))


def _mlflow() -> Any:
    try:
        return import_module("mlflow")
    except ImportError as error:
        raise MissingDependency(
            "mlflow is not installed: pip install 'boostrank[mlflow]'"
        ) from error


class _Callback:
    before_iteration = False
    order = 22  # before early stopping, which raises an exception

    def planned(self, plan: Plan) -> None:
        """Describe a training, once for all folds. Later calls log its rounds."""
        options, params = plan.options, plan.options.flat()
        changed_names = options.changed.keys() & KEYWORDS.keys() - {"callbacks", "checkpoint"}
        keywords = {name: getattr(options, name) for name in sorted(changed_names)}
        defaults = {name: getattr(options, name) for name in ("backend", "quality", "start")}
        # Log these even if they are not given.
        if not params.keys() & OBJECTIVE_NAMES:
            defaults["objective"] = default_objective(plan.engine.name)
        if not params.keys() & ROUNDS_NAMES:
            defaults["num_boost_round"] = plan.settings.rounds
        if not params.keys() & SEED_NAMES:
            defaults["seed"] = plan.seed
        merged = {**defaults, **plan.preset.trees, **params, **keywords}
        self.params = jsonable(merged, other=_as_json)
        record = {
            "arguments": {"params": params, "num_boost_round": options.rounds, **keywords},
            "data": plan.train_set.record,
            "valid": {name: data.fingerprint for name, data in plan.valid},
            "versions": {plan.engine.name: plan.engine.version, **package_versions()},
        }
        self.record = jsonable(record, other=_as_json)


def _torn_line(file: Any, size: int) -> bytes:
    """Return what follows the last line feed of a file, or one byte of it if that is complete
    JSON.
    """
    file.seek(max(0, size - 1))
    if not size or file.read(1) == b"\n":
        return b""
    file.seek(max(0, size - _LONGEST_LINE))
    last_line = bytes(file.read(_LONGEST_LINE).rpartition(b"\n")[2])
    try:
        json.loads(last_line)
    except ValueError:
        return last_line
    return last_line[-1:]


class JsonLines(_Callback):
    """A callback that appends each round to a file of JSON lines. Consecutive trainings may share
    the file.

    A training starts with `{"event": "begin", "time", "first_round", "last_round", "params"}`. Each
    round is `{"round", "time", "metrics": {data set: {metric: value}}}`, with `time` in seconds
    since 1970. Lines are written immediately, so the file of a killed process contains all
    completed rounds. A resumed training logs only the rounds that the file lacks, after a line
    "begin" with the first of them. A truncated last line is removed.

    Args:
        path: path of the file, which is created if it does not exist.

    Raises:
        OSError: the file cannot be opened in the first round. Later failures disable the log with a
            warning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._begun = self._written = self._broken = self._resumed = False
        self._logged: dict[int, Any] | None = None

    def begins(self, info: Any) -> None:
        """Prepare for a training, whose first round may follow a checkpoint."""
        self._logged = None

    def __call__(self, env: Any) -> None:
        metrics: dict[str, dict[str, float]] = {}
        for result in env.evaluation_result_list or []:
            metrics.setdefault(result[0], {})[result[1]] = float(result[2])
        record = jsonable({"round": env.iteration + 1, "time": time.time(), "metrics": metrics})
        # Skip the rounds that an interrupted training logged after its last checkpoint.
        first = env.iteration == env.begin_iteration
        if first or self._logged is None:
            self._begun, self._resumed = False, self._resumed or not first
            self._logged = self._interrupted(record, last_only=first) if self._resumed else {}
        if self._logged.get(record["round"]) == record["metrics"]:
            return
        if not self._begun:
            self._begun = True
            begin_record = {"event": "begin", "time": time.time(), "first_round": env.iteration + 1}
            params = {**env.params, **getattr(self, "params", {})}
            self._append(begin_record | {"last_round": env.end_iteration, "params": params})
        self._append(record)

    def _interrupted(self, record: dict[str, Any], *, last_only: bool) -> dict[int, Any]:
        """Return the metrics by round of the last logged training, or of the last one that has the
        round in `record`.

        Return no rounds if that round is not logged.
        """
        trainings: list[dict[int, Any]] = [{}]
        with contextlib.suppress(OSError), open(self.path, "rb") as file:
            for line in file:
                # Skip lines that are not ours.
                with contextlib.suppress(ValueError, TypeError, AttributeError):
                    logged = json.loads(line)
                    if logged.get("event") == "begin":
                        first = logged["first_round"]
                        resumed = [
                            rounds
                            for rounds in trainings
                            if first - 1 in rounds and first not in rounds
                        ]
                        trainings.append([{}, *resumed][-1])
                    elif "round" in logged:
                        trainings[-1][logged["round"]] = logged["metrics"]
        number, metrics = record["round"], record["metrics"]
        searched = trainings[-1:] if last_only else reversed(trainings)
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


class MLflow(_Callback):
    """A callback that logs the training's arguments, and the metrics with the round as the step.

    Parameters are text. The artifact `boostrank.json`, which `logged_arguments` reads, has all
    arguments, the digest of the data and the versions. MLflow forbids "@" in names, so "ndcg@10"
    on "valid_0" becomes "valid_0/ndcg_at_10". The active run is used, or else started.

    Raises:
        MissingDependency: MLflow is not installed.
    """

    def __init__(self) -> None:
        self._mlflow = _mlflow()

    def planned(self, plan: Plan) -> None:
        """Log the arguments, the digest of the data and the versions."""
        super().planned(plan)
        try:
            self._mlflow.log_params({name: str(value)[:500] for name, value in self.params.items()})
        except self._mlflow.MlflowException:
            message = (
                "MLflow's run keeps the parameters of an earlier training; start a run for each"
            )
            warn_user(message, TrainingWarning)
        self._mlflow.set_tag("boostrank.data", self.record["data"]["fingerprint"])
        self._mlflow.log_dict(self.record, _RECORD)

    def __call__(self, env: Any) -> None:
        values = {
            _mlflow_name(f"{result[0]}/{result[1]}"): float(result[2])
            for result in env.evaluation_result_list or []
        }
        self._mlflow.log_metrics(values, step=env.iteration + 1)


def logged_arguments(run_id: str) -> dict[str, Any]:
    """Return what `MLflow` logged for `boostrank.train(train_set=data, **arguments)`.

    Pass validation sets, which early stopping needs, callbacks and functions again.

    Raises:
        MissingDependency: MLflow is not installed.
        ParameterError: the objective is from a user's file.
    """
    record = _mlflow().artifacts.load_dict(f"runs:/{run_id}/{_RECORD}")
    arguments: dict[str, Any] = record["arguments"]
    for values in (arguments, arguments["params"]):
        for name, make in _MAKERS.items():
            if isinstance(values.get(name), dict):
                values[name] = make(values[name])
    return arguments


def mlflow_metrics(
    *metrics: Metric | str | Callable[..., Any],
    group: str = _QID,
    conventions: Conventions | str = "default",
) -> list[Any]:
    """Return metrics, means over queries, for `mlflow.models.evaluate(..., extra_metrics=...)`.

    Args:
        metrics: metrics or functions as in `boostrank.metrics.evaluate`; "ndcg@10" is named
            "ndcg_at_10".
        group: column of the evaluated data with the query ids.
        conventions: as in `boostrank.metrics.evaluate`.

    Raises:
        MissingDependency: MLflow is not installed.
        ParameterError: a metric or convention is unknown, or the column's name contains blanks or
            signs.
    """
    make_metric, rules = _mlflow().models.make_metric, Conventions.of(conventions)
    if not group.isidentifier():
        raise ParameterError(
            f"group={group!r}: MLflow needs a column name without blanks or signs; rename it"
        )
    kind = inspect.Parameter.POSITIONAL_ONLY
    columns = [inspect.Parameter(name, kind) for name in ("predictions", "targets", group)]

    def metric_of(metric: Metric, name: str) -> Any:
        measured = metric if metric.function else Metric.parse(name)

        def measure(scores: Any, labels: Any, ids: Any) -> float:
            ids = checked_ids(ids)
            order = np.argsort(query_numbers(ids), kind="stable")
            queries = QueryIndex.from_ids(ids[order])
            # MLflow first tries one row, which may lack a relevant document
            bound = BoundMetrics(measured, np.asarray(labels)[order], queries, rules, partial=True)
            ordered = np.asarray(scores)[order]
            included = np.isfinite(bound.per_query(ordered)[name])
            return bound.values(ordered)[name] if included.any() else math.nan

        measure.__signature__ = inspect.Signature(columns)  # type: ignore[attr-defined]
        is_better = {"greater_is_better": metric.higher_is_better}
        return make_metric(eval_fn=measure, name=_mlflow_name(name), **is_better)

    return [metric_of(metric, name) for metric in Metric.all_of(metrics) for name in metric.names]


def log_model(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a model and its record to the active run. Its signature has one column per feature and
    returns scores.

    `mlflow.pyfunc.load_model` loads the model for data frames and matches columns by name. Models
    that depend on whole queries read the query ids from the column "qid". Nothing is pickled.

    Args:
        model: a model, a booster or a fitted ranker. `mlflow.sklearn.log_model(ranker,
            serialization_format="cloudpickle")` logs a ranker as a pickle.
        name: name as in `mlflow.pyfunc.log_model`.
        options: other arguments of `mlflow.pyfunc.log_model`.

    Returns:
        The result of `mlflow.pyfunc.log_model`.

    Raises:
        MissingDependency: MLflow is not installed.
    """
    mlflow = _mlflow()
    model = as_model(model)
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    from boostrank.data.arrays import default_feature_names
    from boostrank.engines import get_backend

    # Accept any type: MLflow rejects integers for "double", and numbers for "string".
    # Arrays need columns without names. The columns of a data frame are matched by name in any
    # case.
    names: list[Any] = list(model.feature_names)
    if not model.scores_rows_alone:
        names.append(_QID)
    elif model.feature_names == default_feature_names(model.n_features):
        names = [None] * model.n_features
    columns = [ColSpec(AnyType(), name) for name in names]
    signature = ModelSignature(Schema(columns), Schema([TensorSpec(np.dtype(np.float64), (-1,))]))
    engine = get_backend(model.backend)
    needs = [f"boostrank=={__version__}"]
    needs += [f"{engine.name}=={engine.version}"] if engine.grows_trees else []
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / _FILE)
        arguments = {"signature": signature, "pip_requirements": needs} | options
        return mlflow.pyfunc.log_model(
            name=name, loader_module=__name__, data_path=folder, **arguments
        )


def _load_pyfunc(path: str) -> _Served:
    """Load a model for MLflow."""
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
        qid = None if alone else model_input[_QID]
        return self.model.predict(model_input, qid=qid)
