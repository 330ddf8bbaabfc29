"""A single training with its engine, objective, metrics, early stopping, linear start and checkpoint."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core import __version__
from boostrank.core.conventions import MAX_EXPONENTIAL_LABEL
from boostrank.core.errors import DataError, DataWarning, ModelError, ParameterError, TrainingError, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.data.categories import to_record
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import quoted
from boostrank.data.rows import missing_columns
from boostrank.engines.base import Backend, Callback, TrainRequest
from boostrank.engines.params import refusal
from boostrank.fit.callbacks import EarlyStopping, Gated, History, StopWhenAsked, as_callables
from boostrank.fit.checkpoint import AS_ARGUMENT, Checkpoint, settings_of
from boostrank.fit.fill import array_of
from boostrank.fit.gradient import GuardedGradient, RoundMetrics, by_arguments
from boostrank.fit.params import (
    AUTO_START,
    METRIC_NAMES,
    TrainingParameters,
    as_list,
    drops_trees,
    headline,
    is_auto,
)
from boostrank.fit.plan import Plan
from boostrank.fit.start.cross_fit import CrossFitted, limits_of, start_of
from boostrank.metrics import Metric
from boostrank.model import constraints
from boostrank.model.averaging import check_start
from boostrank.model.files import content_sha256
from boostrank.model.query_columns import WithinColumns
from boostrank.model.ranking_model import RankingModel, TrainingSummary
from boostrank.objective.description import TrainingObjective
from boostrank.records import DataRecord, ModelInfo, TrainingRecord, jsonable

_SEEDS_APART = 1 << 42
"""Seed offset that is larger than usual seeds, and differs from the seeds that `kernels.options` derives from them."""
_BASIC = "; monotone_constraints_method='basic' keeps it, also where other features are missing"


def run(plan: Plan) -> RankingModel:
    """Train a single model."""
    started = time.perf_counter()
    ready = prepare_training(plan)
    engine, given, objective, options = plan.engine, ready.given, ready.objective, plan.options
    with _engine_errors(engine, ready.train_set):
        native, valid = _native(ready, engine)
    sources = dict(zip([id(native), *(id(data) for _, data in valid)], ready.rows, strict=True))

    def labels_of(data: Any) -> tuple[npt.NDArray[Any], QueryIndex]:
        return sources[id(data)].labels, sources[id(data)].queries

    gradient, all_reduce = None, plan.peers.all_reduce
    if objective is not None:  # checks the labels before the features are binned
        gradient = GuardedGradient(objective.bind(*labels_of(native), all_reduce), all_reduce=all_reduce)
    elif given.function is not None:
        gradient = GuardedGradient(None, by_arguments(given.function, labels_of, "objective"), all_reduce)
    measured, functions = given.metrics if plan.measured else (), as_list(options.feval)
    if given.losses and plan.measured and gradient is not None:
        functions.append(partial(gradient.loss, labels_of))
    metrics = RoundMetrics(measured, labels_of, plan.rules, given.threads, functions, all_reduce)
    history = History()
    stopper, late = _stopping(plan, ready, valid, native)
    info = _info(plan, ready)
    for one in late:
        if isinstance(one, StopWhenAsked):
            one.watch(stopper, options.checkpoint)
        if hasattr(one, "begins"):
            one.begins(info)

    def finished(booster: Any, best: int) -> RankingModel:
        """Return the model for a trained booster, where `best` is the best number of rounds, or 0 for all rounds."""
        stats = None if gradient is None else gradient.stats
        summary = TrainingSummary(
            rows=plan.train_set.n_documents,
            queries=len(plan.train_set.queries),
            dead_queries=None if stats is None else stats.dead_queries,
            floored=None if stats is None else stats.floored,
            rounds=history.rounds,
            best_round=best or booster.rounds,
            seconds=time.perf_counter() - started,
            kernel_seconds=0.0 if gradient is None else gradient.seconds,
            metric_seconds=metrics.seconds,
        )
        categories = {plan.train_set.feature_names.index(name): one for name, one in plan.train_set.categories.items()}
        booster = booster.finished(categories)
        if plan.fill:
            values = array_of(plan.fill, plan.train_set.feature_names)
            booster = engine.load(engine.format.filled(booster.to_bytes(), values))
        broken = constraints.broken(engine, booster, given.engine)
        if broken:
            warn_user(f"the engine's trees break a constraint: {broken}{_BASIC}", DataWarning)
        return RankingModel(booster, best_rounds=best, info=info, evals_result=history.values, summary=summary)

    with contextlib.ExitStack() as held:
        resumed = None
        if options.checkpoint is not None:
            identity = _identity(plan, ready, [*late, stopper])
            held.enter_context(options.checkpoint.reserved())
            resumed = options.checkpoint.begin(engine, identity)
        request = TrainRequest(
            params=given.engine,
            train=native,
            valid=valid,
            rows=ready.rows,
            rounds=given.rounds,
            gradient=gradient,
            native_objective=given.native_objective,
            metrics=[metrics] if metrics else [],
            earlier=ready.booster,
            start_scores=() if ready.begin is None else ready.begin.scores_of(ready.rows, plan.threads),
            callbacks=[history, *late, *filter(None, [stopper, options.checkpoint])],
            resumed=resumed,
            objective=objective,
            evaluate=None if gradient is None or objective is None else gradient.evaluate,
        )
        try:
            with _engine_errors(engine, ready.train_set):
                try:
                    grown = engine.train(request)
                except ModelError as error:  # the engine does not reproduce the checkpoint on this machine
                    if resumed is None or options.checkpoint is None:
                        raise
                    options.checkpoint.start_over(error)
                    grown = engine.train(replace(request, resumed=None))
        except TrainingError as error:
            if error.model is not None:
                grew = error.model.rounds > ready.before
                error.model = finished(error.model, 0) if grew else None
            raise
    return finished(*grown)


def check(plan: Plan) -> None:
    """Make the same checks of the data as `run`, without training."""
    ready = prepare_training(plan)
    with _engine_errors(plan.engine, ready.train_set):
        plan.engine.check(_native(ready, plan.engine)[0], ready.given.engine)
    if ready.objective is not None:
        ready.objective.bind(ready.train_set.labels, ready.train_set.queries).check_gains()


@dataclass(frozen=True, eq=False)
class PreparedTraining:
    """A training whose columns, start and engine parameters are complete."""

    given: TrainingParameters
    train_set: RankingDataset
    valid: tuple[tuple[str, RankingDataset], ...]
    within: WithinColumns | None
    begin: CrossFitted | None
    booster: Any
    before: int
    objective: TrainingObjective | None

    @property
    def rows(self) -> list[RankingDataset]:
        """The training set, followed by the validation sets."""
        return [self.train_set, *(data for _, data in self.valid)]


def prepare_training(plan: Plan) -> PreparedTraining:
    """Determine everything that depends on the features, which is limits, columns within queries, and the start."""
    engine, data, names = plan.engine, plan.train_set, plan.train_set.feature_names
    params = engine.params.of_columns(plan.settings.engine, names, codes=data.categorical)
    limits_of(engine, params, names, data)  # validates the parameters, also without a start
    # By default, the engines use all cores and ignore CPU quotas.
    params.setdefault("num_threads", plan.threads)
    booster = _booster_to_continue(plan)
    within = _columns_within(plan, booster, params)
    completed = plan.converted(lambda rows: rows)
    if within is not None:
        params = engine.params.of_columns(params, names, followed=within.sources)
        completed = completed.converted(lambda rows: within.dataset(rows, plan.threads))
    train_set, given = completed.train_set, replace(plan.settings, engine=params)
    begin = None
    if booster is None:
        begin = start_of(
            plan.options.start,
            engine,
            train_set,
            given,
            is_auto=plan.begins_linear or is_auto(plan.params, engine.name),
            fitted=plan.fitted,
        )
        if begin is not None:
            booster = engine.begin_with(begin.start)
            if plan.options.max_trees is not None:
                check_start(len(begin.start.curves), plan.options.max_trees)
    elif plan.options.start not in (None, AUTO_START, "none"):
        raise ParameterError("init_model has its own start: pass init_model or start, not both")
    if begin is None and booster is not None:
        auto = plan.options.start == AUTO_START and is_auto(plan.params, engine.name)
        if auto and engine.starts_linear and not booster.start_trees:
            warn_user("the model to continue has no linear start, and start='auto' does not add one", DataWarning)
        broken = constraints.broken(engine, booster, params)
        if broken:
            raise ParameterError(f"init_model contradicts these parameters: {broken}")
    before = 0 if booster is None else booster.rounds
    objective = given.objective
    if objective is not None and objective.total_rounds is None:  # already set for a stage of a longer training
        objective = objective.over(before + given.rounds)
    if objective is not None and plan.peers.rank:
        objective = _reseeded(objective, plan.peers.rank * _SEEDS_APART)
    return PreparedTraining(given, train_set, completed.valid, within, begin, booster, before, objective)


def _reseeded(objective: TrainingObjective, shift: int) -> TrainingObjective:
    """Return a copy of the objective with different random numbers."""
    objective = copy.deepcopy(objective)
    for part in objective.parts:
        for values in (part.params, part.options):
            if "seed" in values:
                values["seed"] = int(values["seed"]) + shift
    return objective


def _native(ready: PreparedTraining, engine: Backend) -> tuple[Any, list[tuple[str, Any]]]:
    """Convert the training and validation sets for the engine."""
    given = ready.given
    convert = partial(engine.dataset, params=given.engine, weights=given.native_objective is not None)
    train = convert(ready.train_set, reference=None)
    others = ((name, data, data is ready.train_set) for name, data in ready.valid)
    return train, [(name, train if is_train else convert(data, reference=train)) for name, data, is_train in others]


@contextlib.contextmanager
def _engine_errors(engine: Backend, train_set: RankingDataset) -> Iterator[None]:
    try:
        yield
    except engine.error_types as error:
        words = f"{engine.name}: {refusal(error)}"
        if "label" not in words.lower():
            raise TrainingError(words) from error
        labels = train_set.labels
        odd = np.flatnonzero((labels < 0) | (labels > MAX_EXPONENTIAL_LABEL) | (labels != np.floor(labels)))
        if odd.size:
            row = int(odd[0])
            raise train_set.queries.row_error(row, f"label {labels[row]:g}: {words}") from error
        raise DataError(words) from error


def _booster_to_continue(plan: Plan) -> Any:
    """Return the booster to continue, truncated to the rounds used in prediction, or None if there is none."""
    model, engine = plan.earlier, plan.engine
    if model is None:
        return None
    if model.backend != engine.name:
        raise ParameterError(f"a model of {model.backend} cannot be continued by {engine.name}")
    if model.check_features(plan.train_set).feature_names != plan.train_set.feature_names:
        raise DataError("the training data have the model's features in another order: reorder them")
    booster = model._booster
    return booster if model.best_iteration >= booster.rounds else engine.load(booster.to_bytes(model.best_iteration))


def _columns_within(plan: Plan, booster: Any, params: dict[str, Any]) -> WithinColumns | None:
    """Return the requested columns within queries, or the columns of the continued model."""
    asked, data, names = plan.within, plan.train_set, plan.train_set.feature_names
    before = None if plan.earlier is None else plan.earlier.within_query
    if asked is None:
        return before and replace(before, features=names)
    # This also holds for a continued model: categories are the only unused features.
    unused = limits_of(plan.engine, params, names, data).unused
    within = asked.columns(names, data.provenance.index_base, unused)
    if asked.of is None and data.categorical:
        listed = quoted([names[i] for i in data.categorical])
        warn_user(
            f"within_query ignores {listed}: codes of categories are not numbers; name the columns by of=", DataWarning
        )
    if booster is not None and within != (before and replace(before, features=names)):
        theirs = "has no columns within queries" if before is None else f"has {before.words()}"
        raise ParameterError(f"init_model {theirs}, which cannot change: remove within_query")
    return within


def _stopping(
    plan: Plan, ready: PreparedTraining, valid: Sequence[tuple[str, Any]], native_train: Any
) -> tuple[Callback | None, list[Callback]]:
    """Return boostrank's early stopping, if a parameter requests it, and the user's callbacks.

    Callbacks that stop are disabled until the objective has settled.
    """
    given = ready.given
    callbacks = as_callables(plan.options.callbacks or (), plan.engine.name)
    objective = None if plan.at_once else ready.objective
    if any(isinstance(callback, Checkpoint) for callback in callbacks):
        raise ParameterError(AS_ARGUMENT)
    settled = 0 if objective is None else objective.settled_round(objective.total_rounds or ready.before + given.rounds)
    stopper: Callback | None = None
    ours = given.stopping_rounds or any(isinstance(callback, EarlyStopping) for callback in callbacks)
    if ours and drops_trees(plan.engine, given.engine):
        raise ParameterError(
            "dart does not support early stopping: later rounds rescale earlier trees, so the model of the best "
            "round is lost"
        )
    if given.stopping_rounds:
        trained_on = tuple(name for name, data in valid if data is native_train)
        if len(trained_on) == len(valid):
            raise ParameterError("early stopping needs a validation set other than the training set")
        stopper = EarlyStopping(
            given.stopping_rounds, metric=headline(given.measures), min_delta=given.min_delta, ignore=trained_on
        )

    def held_back(callback: Callback) -> Callback:
        return Gated(callback, settled) if settled and hasattr(callback, "stopping_rounds") else callback

    return (None if stopper is None else held_back(stopper)), [held_back(cb) for cb in callbacks]


# Provenance: the record in the sidecar, and the identity of a training.

_INDIFFERENT = {"num_threads", "nthread", "verbosity", "verbose"}
"""Parameters that do not affect the model."""
_STEPS = {"learning_rate": 0.1, "lambda_l2": 0.0, "reg_lambda": 0.0}
"""Parameters that determine the values of leaves, with their defaults."""
_CHANGE_STEPS = ("_ResetParameterCallback", "LearningRateScheduler")
"""Classes of the engines' callbacks that change the learning rate between rounds."""


def _info(plan: Plan, ready: PreparedTraining) -> ModelInfo:
    """Return the model's record without values that change between runs, so that equal trainings give equal bytes."""
    record = plan.params if plan.record is None else plan.record
    if any(isinstance(metric, Metric) for metric in ready.given.metrics):  # functions are recorded by their names
        names = ready.given.measures
        record = {**record, **{name: names for name in METRIC_NAMES if name in record}}
    return ModelInfo(
        backend=plan.engine.name,
        objective=_described(plan.engine, ready),
        metrics=ready.given.measures,
        conventions=dataclasses.asdict(plan.rules),
        parameters={k: v for k, v in record.items() if isinstance(v, str | int | float | bool | list | tuple | dict)},
        training=_training_record(plan, ready),
        data=describe_data(plan.train_set),
        versions={"python": platform.python_version(), **_versions(plan.engine)},
        within_query=None if ready.within is None else ready.within.record,
        start=None if ready.begin is None else ready.begin.description,
        fill=dict(plan.fill) or None,
    )


def _training_record(plan: Plan, ready: PreparedTraining) -> TrainingRecord:
    record: TrainingRecord = {"rounds": ready.given.rounds, "rounds_before": ready.before}
    mixed = any(type(callback).__name__ in _CHANGE_STEPS for callback in plan.options.callbacks or ())
    if plan.earlier is not None:
        before, named = plan.earlier.info, plan.engine.params.named
        steps = [
            {**_STEPS, **{name: value for name, value in named(params or {}).items() if name in _STEPS}}
            for params in (before.parameters, plan.params)
        ]
        objectives = [
            {**(described or {}), "total_rounds": None}
            for described in (before.objective, _described(plan.engine, ready))
        ]
        mixed |= objectives[0] != objectives[1] or steps[0] != steps[1]
        mixed |= (before.training or {}).get("mixed_steps", False)
    return {**record, "mixed_steps": True} if mixed else record


def describe_data(train_set: RankingDataset) -> DataRecord:
    """Create the description of the training set that the sidecar stores."""
    options = dict(train_set.provenance.options)
    data: DataRecord = {
        "rows": train_set.n_documents,
        "queries": len(train_set.queries),
        "absent": options.pop("absent", "zero"),
        "files": list(train_set.provenance.files),
        "index_base": train_set.provenance.index_base,
        "reader": options,
        "features": train_set.n_features,
        "feature_names": list(train_set.feature_names),
        "fingerprint": train_set.fingerprint,
        "missing": [train_set.feature_names[i] for i in missing_columns(train_set.features).tolist()],
    }
    if train_set.categories:
        data["categories"] = to_record(train_set.categories)
    return data


def _described(engine: Backend, ready: PreparedTraining) -> dict[str, Any]:
    function = ready.given.function
    if ready.objective is not None:
        return ready.objective.to_dict()
    if ready.given.native_objective is not None:
        return {"name": f"{engine.name}:{ready.given.native_objective}"}
    return {"name": "custom", "function": getattr(function, "__qualname__", type(function).__name__)}


def _identity(plan: Plan, ready: PreparedTraining, callbacks: Sequence[Any]) -> dict[str, Any]:
    """Return everything that determines a model's bytes, as plain data, for its checkpoint."""
    given, train_set = ready.given, plan.train_set
    reason = plan.engine.params.unresumable(given.engine, given.native_objective)
    if reason:
        raise ParameterError(f"no checkpoint with these parameters: {reason}")
    identity = {
        "versions": _versions(plan.engine),
        "objective": _described(plan.engine, ready),
        "rounds": given.rounds,
        "parameters": {name: value for name, value in given.engine.items() if name not in _INDIFFERENT},
        "metrics": given.measures,
        "conventions": dataclasses.asdict(plan.rules),
        "init_model": None if ready.booster is None else content_sha256(ready.booster.to_bytes()),
        "train": _fingerprints(train_set),
        "valid": {name: "the training set" if d is train_set else _fingerprints(d) for name, d in plan.valid},
    }
    if ready.within is not None:
        identity["within_query"] = ready.within.record
        if train_set.candidates is not None:
            identity["candidates"] = train_set.candidates.data.fingerprint
    plain: dict[str, Any] = jsonable(identity)
    return plain | {"stopping": settings_of(callbacks)}


def _fingerprints(data: RankingDataset) -> dict[str, Any]:
    known: dict[str, Any] = {"categories": to_record(data.categories)} if data.categories else {}
    if data.document_weights is not None:
        known["document_weights"] = _digest(data.document_weights)
    return {
        "data": data.fingerprint,
        "features": content_sha256("\n".join(data.feature_names).encode())[:32],
        "weights": _digest(data.queries.weights),
        "k": _digest(data.queries.k),
        **known,
    }


def _digest(values: npt.ArrayLike | None) -> str | None:
    return None if values is None else content_sha256(np.asarray(values, dtype=np.float64).tobytes())[:32]


def _versions(engine: Backend) -> dict[str, str]:
    return {engine.name: engine.version, **package_versions("numpy", "numba")}


def package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of boostrank and of the installed packages."""
    found = {"boostrank": __version__}  # package metadata of a checkout may be outdated
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package.removesuffix("-cpu")] = version(package)
    return found
