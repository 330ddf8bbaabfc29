"""A single training with its engine, objective, metrics, early stopping, linear start and
checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from boostrank.core import __version__
from boostrank.core.conventions import MAX_EXPONENTIAL_LABEL
from boostrank.core.errors import (
    DataError,
    ModelError,
    ParameterError,
    TrainingError,
)
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend, TrainRequest
from boostrank.engines.engine_params import refusal
from boostrank.fit.callbacks import History, make_callbacks
from boostrank.fit.gradient import GuardedGradient, RoundMetrics, by_arguments
from boostrank.fit.plan import Training
from boostrank.fit.settings import METRIC_NAMES
from boostrank.fit.start.cross_fit import CrossFitted, cross_fitted, start_together
from boostrank.fit.tree_limit import check_limit
from boostrank.metrics import Metric
from boostrank.model.files import content_sha256
from boostrank.model.ranking_model import RankingModel, TrainingSummary
from boostrank.records import ModelInfo, TrainingRecord


def run(training: Training) -> RankingModel:
    """Train a single model."""
    started = time.perf_counter()
    engine, rows = training.engine, training.rows
    booster, start = begin(training, rows[0])
    with _engine_errors(engine, rows[0]):
        native, valid = _convert(training, rows)
    info = _describe_model(training, start)
    sources = dict(zip([id(native), *(id(data) for _, data in valid)], rows, strict=True))

    def labels_of(data: Any) -> tuple[Array, QueryIndex]:
        return sources[id(data)].labels, sources[id(data)].queries

    # The gradient by boostrank's or the user's objective, or None for the engine's own.
    gradient, all_reduce = None, training.collective.all_reduce
    if training.objective is not None:
        bound = training.objective.bind(*labels_of(native), all_reduce)
        gradient = GuardedGradient(bound, all_reduce=all_reduce)
    elif training.function is not None:
        function = by_arguments(training.function, labels_of, "objective")
        gradient = GuardedGradient(None, function, all_reduce)
    metrics = RoundMetrics(training, gradient, labels_of)
    history = History()
    stopper, callbacks = make_callbacks(training, valid, native)
    for callback in callbacks:
        if hasattr(callback, "begins"):
            callback.begins(info)

    # Train, from the checkpoint if there is one.
    checkpoint, resumed = training.checkpoint, None
    start_scores = () if start is None else start.scores_of(rows, training.n_threads)
    with contextlib.nullcontext() if checkpoint is None else checkpoint.reserved():
        if checkpoint is not None:
            identity = _identify(training, booster, info)
            resumed = checkpoint.begin(engine, identity, [*callbacks, stopper])
        request = TrainRequest(
            params=training.params,
            train=native,
            valid=valid,
            rows=rows,
            rounds=training.rounds,
            gradient=gradient,
            native_objective=training.native_objective,
            metrics=[*filter(None, [metrics])],
            earlier=booster,
            start_scores=start_scores,
            callbacks=[history, *callbacks, *filter(None, [stopper, checkpoint])],
            resumed=resumed,
            objective=training.objective,
        )
        booster, best_round = _grow(training, request)
    # Summarise the training.
    data, stats = training.train_set, getattr(gradient, "stats", None)
    summary = TrainingSummary(
        rows=data.n_documents,
        queries=len(data.queries),
        dead_queries=getattr(stats, "dead_queries", None),
        floored=getattr(stats, "floored", None),
        kernel_seconds=getattr(gradient, "seconds", 0.0),
        rounds=history.rounds,
        best_round=best_round or booster.rounds,  # 0 stands for all rounds
        seconds=time.perf_counter() - started,
        metric_seconds=metrics.seconds,
    )
    # Round the leaves, and put the fills into the splits.
    booster = booster.finished(training.categories_by_column)
    if training.fill:
        filled = engine.format.filled(booster.to_bytes(), training.fill_values)
        booster = engine.load(filled)
    return RankingModel(
        booster,
        best_rounds=best_round,
        info=info,
        evals_result=history.values,
        summary=summary,
    )


def _grow(training: Training, request: TrainRequest) -> tuple[Any, int]:
    """Train with the engine, anew if it does not reproduce the checkpoint on this machine."""
    with _engine_errors(training.engine, request.rows[0]):
        try:
            return training.engine.train(request)
        except ModelError as error:
            if request.resumed is None or training.checkpoint is None:
                raise
            training.checkpoint.start_over(error)
            return training.engine.train(replace(request, resumed=None))


def check(training: Training) -> None:
    """Make the same checks of the data as `run`, without training."""
    rows = training.rows
    begin(training, rows[0])
    with _engine_errors(training.engine, rows[0]):
        training.engine.check(_convert(training, rows)[0], training.params)
    if training.objective is not None:
        training.objective.bind(rows[0].labels, rows[0].queries).check_gains()


def begin(training: Training, train_set: RankingDataset) -> tuple[Any, CrossFitted | None]:
    """Return the booster that the trees are added to, and the linear start that it contains, if
    there are any.

    Args:
        train_set: the complete training set, with its columns within queries.

    Raises:
        ParameterError: the booster leaves no tree within the limit.
    """
    engine, model = training.engine, training.init_model
    if model is not None:
        earlier, rounds = model._booster, training.rounds_before
        if training.tree_limit is not None:
            trees = model.tree_counts.after(rounds) if engine.grows_trees else 0
            check_limit(training.tree_limit, engine, earlier=trees)
        if rounds < earlier.rounds:
            earlier = engine.load(earlier.to_bytes(rounds))
        return earlier, None
    start: CrossFitted | None = None
    booster = None
    if training.starts_linear:
        fit_start = training.fit_start or cross_fitted
        if not training.collective.is_alone:
            fit_start = partial(start_together, training.collective)
        start = fit_start(train_set, training.gain, training.n_threads, training.limits)
        booster = engine.begin_with(start.start)
    if training.tree_limit is not None:
        start_trees = 0 if start is None else len(start.start.curves)
        check_limit(training.tree_limit, engine, start=start_trees)
    return booster, start


def _convert(
    training: Training, rows: Sequence[RankingDataset]
) -> tuple[Any, list[tuple[str, Any]]]:
    """Convert the training and validation sets for the engine."""
    is_native = training.native_objective is not None
    convert = partial(training.engine.dataset, params=training.params, weights=is_native)
    train, valid = convert(rows[0], reference=None), []
    for (name, _), data in zip(training.valid, rows[1:], strict=True):
        native = train if data is rows[0] else convert(data, reference=train)
        valid.append((name, native))
    return train, valid


@contextlib.contextmanager
def _engine_errors(engine: Backend, train_set: RankingDataset) -> Iterator[None]:
    try:
        yield
    except engine.error_types as error:
        message = f"{engine.name}: {refusal(error)}"
        if "label" not in message.lower():
            raise TrainingError(message) from error
        # Engines refuse labels without their rows. Find the first odd one.
        labels = train_set.labels
        odd = np.flatnonzero(
            (labels < 0) | (labels > MAX_EXPONENTIAL_LABEL) | (labels != np.floor(labels))
        )
        if odd.size:
            row = int(odd[0])
            raise train_set.queries.row_error(row, f"label {labels[row]:g}: {message}") from error
        raise DataError(message) from error


# Provenance: the record in the sidecar, and the identity of a training.

_INDIFFERENT = {"num_threads", "nthread", "verbosity", "verbose"}
"""Parameters that do not affect the model."""
_STEPS = {"learning_rate": 0.1, "lambda_l2": 0.0, "reg_lambda": 0.0}
"""Parameters in the equation of `fit.renewal`, with their defaults."""
_CHANGE_STEPS = ("_ResetParameterCallback", "LearningRateScheduler")
"""Classes of the engines' callbacks that change the learning rate between rounds."""


def _describe_model(training: Training, start: CrossFitted | None) -> ModelInfo:
    """Return the model's record without values that change between runs, so that equal trainings
    give equal bytes.
    """
    if training.objective is not None:
        objective = training.objective.to_dict()
    elif training.native_objective is not None:
        objective = {"name": f"{training.engine.name}:{training.native_objective}"}
    else:
        function = training.function
        name = getattr(function, "__qualname__", type(function).__name__)
        objective = {"name": "custom", "function": name}
    recorded, metrics = dict(training.recorded), training.all_metrics
    if any(isinstance(metric, Metric) for metric in training.metrics):
        # Functions are recorded by their names.
        recorded |= dict.fromkeys(recorded.keys() & METRIC_NAMES, metrics)
    for name, value in recorded.items():
        if hasattr(value, "tolist"):  # an array or a NumPy number
            recorded[name] = value.tolist()
    plain = (str, int, float, list, tuple, dict)
    info = ModelInfo(
        backend=training.engine.name,
        objective=objective,
        metrics=metrics,
        conventions=dataclasses.asdict(training.conventions),
        parameters={name: value for name, value in recorded.items() if isinstance(value, plain)},
        training=_record_rounds(training, objective),
        data=training.train_set.record,
        versions={"python": platform.python_version(), **_versions(training.engine)},
        start=getattr(start, "description", None),
        fill=dict(training.fill) or None,
    )
    return info | training.columns.record


def _record_rounds(training: Training, objective: dict[str, Any]) -> TrainingRecord:
    record: TrainingRecord = {"rounds": training.rounds, "rounds_before": training.rounds_before}
    is_mixed = any(type(callback).__name__ in _CHANGE_STEPS for callback in training.callbacks)

    def find_rule(params: Any, objective: Any) -> list[Any]:
        step = training.engine.params.resolve_names(params or {})
        steps = [step.get(name, default) for name, default in _STEPS.items()]
        return [*steps, re.sub(r'"total_rounds": \w+', "", json.dumps(objective, sort_keys=True))]

    if training.init_model is not None:
        earlier = training.init_model.info
        earlier_rule = find_rule(earlier.parameters, earlier.objective)
        is_mixed |= earlier_rule != find_rule(training.recorded, objective)
        is_mixed |= (earlier.training or {}).get("mixed_steps", False)
        # Schedules of the earlier rounds may have spanned another number of rounds.
        parts = getattr(training.objective, "parts", ())
        values = [getattr(training.objective, "mix", None)]
        values += [value for part in parts for value in {**part.params, **part.options}.values()]
        if any(getattr(value, "needs_total", False) for value in values):
            is_mixed |= (earlier.objective or {}).get("total_rounds") != objective["total_rounds"]
    return {**record, "mixed_steps": True} if is_mixed else record


def _identify(training: Training, booster: Any, info: ModelInfo) -> dict[str, Any]:
    """Return everything that determines a model's bytes, except callbacks, for its checkpoint."""
    params, engine, train_set = training.params, training.engine, training.train_set
    reason = engine.params.unresumable(params, training.native_objective)
    if reason:
        raise ParameterError(f"no checkpoint with these parameters: {reason}")
    valid: dict[str, Any] = {name: data.hashes for name, data in training.valid}
    valid |= {name: "the training set" for name, data in training.valid if data is train_set}
    identity = {
        "versions": _versions(engine),
        "objective": info.objective,
        "rounds": training.rounds,
        "parameters": {name: value for name, value in params.items() if name not in _INDIFFERENT},
        "metrics": info.metrics,
        "conventions": info.conventions,
        "init_model": None if booster is None else content_sha256(booster.to_bytes()),
        "train": train_set.hashes,
        "valid": valid,
    }
    return identity | training.columns.record


def _versions(engine: Backend) -> dict[str, str]:
    return {engine.name: engine.version, **package_versions("numpy", "numba")}


def package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of boostrank and of the installed packages."""
    versions = {"boostrank": __version__}  # package metadata of a checkout may be outdated
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            versions[package.removesuffix("-cpu")] = version(package)
    return versions
