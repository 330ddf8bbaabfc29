"""A single training: engine, objective, metrics, linear start and checkpoint."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, DataWarning, ParameterError, TrainingError, warn_user
from boostrank.core.gains import MAX_EXPONENTIAL_LABEL
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend, Callback, TrainRequest
from boostrank.engines.params import refusal
from boostrank.fit.callbacks import EarlyStopping, Gated, History, StopWhenAsked
from boostrank.fit.checkpoint import AS_ARGUMENT, Checkpoint, settings_of
from boostrank.fit.gradient import GuardedGradient, RoundMetrics
from boostrank.fit.params import AUTO_START, TrainingParameters, headline, is_auto, say_left_out
from boostrank.fit.plan import Plan
from boostrank.fit.provenance import describe_data, describe_identity, describe_training
from boostrank.fit.start.begin import Beginning, beginning, limits_of, say_without_start
from boostrank.model import constraints
from boostrank.model.averaging import check_start
from boostrank.model.ranking_model import RankingModel, TrainingSummary
from boostrank.model.within_query import WithinColumns
from boostrank.objective.description import TrainingObjective
from boostrank.records import ModelInfo

_SEEDS_APART = 1 << 42
"""Above every seed that people choose, and away from those that `kernels.options` derives from them."""
_BASIC = "; monotone_constraints_method='basic' keeps it, also where other features are missing"


def run(plan: Plan) -> RankingModel:
    """Train a single model.

    Raises:
        InputError: invalid parameters or data; nothing was trained.
        TrainingError: a gradient that is not finite, or nothing to learn; `model` holds the previous rounds.
    """
    started = time.perf_counter()
    ready = _prepared(plan)
    engine, given, objective = plan.engine, ready.given, ready.objective
    with _engine_errors(engine, ready.train_set):
        native, valid = _native(ready, engine)
    sources = dict(zip([id(native), *(id(data) for _, data in valid)], ready.rows, strict=True))

    def labels_of(data: Any) -> tuple[npt.NDArray[Any], QueryIndex]:
        return sources[id(data)].labels, sources[id(data)].queries

    gradient = None
    if objective is not None or given.function is not None:
        gradient = GuardedGradient(objective, labels_of, given.function, plan.peers.all_reduce)
        gradient.bind(native)  # check the labels before binning the features
    measured = given.metrics if plan.measured else ()
    metrics = RoundMetrics(measured, labels_of, plan.rules, given.threads, plan.functions, plan.peers.all_reduce)
    history = History()
    settles = None if plan.at_once else objective
    stopper, late = stopping(given, settles, ready.before, valid, native, plan.callbacks)
    for one in late:
        if isinstance(one, StopWhenAsked):
            one.watch(stopper, plan.checkpoint)
    info = _info(plan, ready)
    for one in late:
        if hasattr(one, "begins"):
            one.begins(info)

    def finished(booster: Any, best: int) -> RankingModel:
        """Return the model of a trained booster; `best` is the best number of rounds, 0 for all."""
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
        made = _finished(plan, ready, booster)
        return RankingModel(made, best_rounds=best, info=info, evals_result=history.values, summary=summary)

    with contextlib.ExitStack() as held:
        resumed = None
        if plan.checkpoint is not None:
            identity = _identity(plan, ready, [name for name, _ in valid], [*late, stopper])
            held.enter_context(plan.checkpoint.reserved())
            resumed = plan.checkpoint.begin(engine, identity)
        request = TrainRequest(
            params=given.engine,
            train=native,
            valid=valid,
            rows=ready.rows,
            rounds=given.rounds,
            gradient=gradient,
            native_objective=given.native_objective,
            metrics=[metrics] if metrics else [],
            init_model=ready.booster,
            start_scores=() if ready.begin is None else ready.begin.scores_of(ready.rows, plan.threads),
            callbacks=[history, *late, *filter(None, [stopper, plan.checkpoint])],
            resumed=resumed,
            objective=objective,
            evaluate=None if gradient is None or objective is None else gradient.evaluate,
        )
        try:
            with _engine_errors(engine, ready.train_set):
                grown = engine.train(request)
        except TrainingError as error:
            if error.model is not None:
                grew = error.model.rounds > ready.before
                error.model = finished(error.model, 0) if grew else None
            raise
    return finished(*grown)


def check(plan: Plan) -> None:
    """Check the data as `run` does, without training."""
    ready = _prepared(plan)
    with _engine_errors(plan.engine, ready.train_set):
        plan.engine.check(_native(ready, plan.engine)[0], ready.given.engine)
    if ready.objective is not None:
        ready.objective.bind(ready.train_set.labels, ready.train_set.queries).check_gains()


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A training ready for the engine."""

    given: TrainingParameters
    train_set: RankingDataset
    valid: tuple[tuple[str, RankingDataset], ...]
    within: WithinColumns | None
    begin: Beginning | None
    booster: Any
    before: int
    objective: TrainingObjective | None

    @property
    def rows(self) -> list[RankingDataset]:
        """The training set, followed by the validation sets."""
        return [self.train_set, *(data for _, data in self.valid)]


def _prepared(plan: Plan) -> _Prepared:
    """Resolve everything that depends on the features: limits, columns within queries, the start."""
    engine, data, names = plan.engine, plan.train_set, plan.train_set.feature_names
    params = engine.params.of_columns(plan.settings.engine, names, codes=data.categorical)
    limits_of(engine, params, names, data)  # validates the parameters, also without a start
    # By default, the engines use all cores and ignore CPU quotas.
    params.setdefault("num_threads", plan.threads)
    booster = _booster_to_continue(plan)
    within = _columns_within(plan, booster, params)
    valid = tuple((name, one if one is data else one.like(data)) for name, one in plan.valid)
    train_set = data
    if within is not None:
        params = engine.params.of_columns(params, names, followed=within.sources)
        train_set = within.dataset(data, plan.threads)
        valid = tuple((n, train_set if one is data else within.dataset(one, plan.threads)) for n, one in valid)
    given = replace(plan.settings, engine=params)
    begin = None
    if booster is None:
        begin = beginning(
            plan.start,
            engine,
            train_set,
            given,
            is_auto=plan.begins_linear or is_auto(plan.params, engine.name),
            fitted=plan.fitted,
        )
        if begin is not None:
            booster = begin.booster
            if plan.max_trees is not None:
                check_start(len(begin.made.start.curves), plan.max_trees)
    elif plan.start not in (None, AUTO_START, "none"):
        raise ParameterError("init_model has its own start: pass init_model or start, not both")
    if begin is None and booster is not None:
        if plan.start == AUTO_START:
            say_without_start(engine, booster, plan.params)
        broken = constraints.broken(engine, booster, params, booster.feature_names)
        if broken:
            raise ParameterError(f"init_model contradicts these parameters: {broken}")
    before = 0 if booster is None else booster.rounds
    objective = given.objective
    if objective is not None and objective.total_rounds is None:  # already set for a stage of a longer training
        objective = objective.over(before + given.rounds)
    if objective is not None and plan.peers.rank:
        objective = _reseeded(objective, plan.peers.rank * _SEEDS_APART)
    return _Prepared(given, train_set, valid, within, begin, booster, before, objective)


def _reseeded(objective: TrainingObjective, shift: int) -> TrainingObjective:
    """Copy the objective to draw other random numbers."""
    objective = copy.deepcopy(objective)
    for part in objective.parts:
        for values in (part.params, part.options):
            if "seed" in values:
                values["seed"] = int(values["seed"]) + shift
    return objective


def _native(ready: _Prepared, engine: Backend) -> tuple[Any, list[tuple[str, Any]]]:
    given = ready.given
    weights = given.native_objective is not None
    train = engine.dataset(ready.train_set, given.engine, reference=None, weights=weights)
    valid: list[tuple[str, Any]] = []
    for name, data in ready.valid:
        if data is ready.train_set:
            valid.append((name, train))
        else:
            valid.append((name, engine.dataset(data, given.engine, reference=train, weights=weights)))
    return train, valid


def _identity(plan: Plan, ready: _Prepared, names: Sequence[str], callbacks: Sequence[Any]) -> dict[str, Any]:
    """Return the identity of the training for its checkpoint."""
    reason = plan.engine.params.unresumable(ready.given.engine, ready.given.native_objective)
    if reason:
        raise ParameterError(f"no checkpoint with these parameters: {reason}")
    sets = dict(zip(names, (data for _, data in plan.valid), strict=True))
    identity = describe_identity(
        plan.engine, ready.given, ready.objective, plan.rules, ready.booster, sets, plan.train_set
    )
    if ready.within is not None:
        identity["within_query"] = ready.within.record
        if plan.train_set.candidates is not None:
            identity["candidates"] = plan.train_set.candidates.data.fingerprint
    return identity | {"stopping": settings_of(callbacks)}


def _finished(plan: Plan, ready: _Prepared, booster: Any) -> Any:
    """Return the trained booster as it is saved."""
    data = plan.train_set
    booster = booster.finished({data.feature_names.index(name): one for name, one in data.categories.items()})
    broken = constraints.broken(plan.engine, booster, ready.given.engine, booster.feature_names)
    if broken:
        warn_user(f"the engine's trees break a constraint: {broken}{_BASIC}", DataWarning)
    return booster


def _info(plan: Plan, ready: _Prepared) -> ModelInfo:
    """Return the record of the model."""
    engine, data = plan.engine, plan.train_set
    record = dict(plan.params if plan.record is None else plan.record)
    described = describe_data(data)
    info = describe_training(engine, ready.given, ready.objective, plan.rules, described, ready.before, record)
    choice = None if plan.within is None else plan.within.choice
    if ready.within is not None or choice is not None:
        kinds = {"kinds": []} if ready.within is None else ready.within.record
        info |= {"within_query": kinds | ({} if choice is None else {"choice": dict(choice)})}
    if ready.begin is not None:
        info |= {"start": ready.begin.made.description}
    return info


@contextlib.contextmanager
def _engine_errors(engine: Backend, train_set: RankingDataset) -> Iterator[None]:
    """Convert an engine's exceptions to ours."""
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
    """Return the booster to continue, truncated to the rounds used in prediction; None if there is none."""
    model, engine = plan.init_model, plan.engine
    if model is None:
        return None
    if not isinstance(model, RankingModel):
        if engine.booster_type is None or not isinstance(model, engine.booster_type):
            raise ParameterError(
                f"init_model must be a path, a RankingModel or {engine.name}'s Booster, not {type(model).__name__}"
            )
        return engine.booster(model)
    if model.backend != engine.name:
        raise ParameterError(f"a model of {model.backend} cannot be continued by {engine.name}")
    if model.check_features(plan.train_set).feature_names != plan.train_set.feature_names:
        raise DataError("the training data have the model's features in another order: reorder them")
    booster = model._booster
    return booster if model.best_iteration >= booster.rounds else engine.load(booster.to_bytes(model.best_iteration))


def _columns_within(plan: Plan, booster: Any, params: dict[str, Any]) -> WithinColumns | None:
    """Return the requested columns within queries, or those of the continued model."""
    asked, model, engine, data = plan.within, plan.init_model, plan.engine, plan.train_set
    names = data.feature_names
    before = None
    if isinstance(model, RankingModel):
        before = model.within_query
    elif booster is not None:
        before = WithinColumns.from_names(booster.feature_names)
    if asked is None:
        return before and replace(before, features=names)
    if booster is not None and asked.is_auto:
        raise ParameterError("init_model already has its columns within queries: remove 'auto'")
    # This also holds for a continued model: categories are the only unused features.
    unused = limits_of(engine, params, names, data).unused
    within = asked.columns(names, data.provenance.index_base, unused)
    if asked.of is None:
        say_left_out(data, "within_query")
    if booster is not None and within != (before and replace(before, features=names)):
        theirs = "has no columns within queries" if before is None else f"has {before.words()}"
        raise ParameterError(f"init_model {theirs}, which cannot change: remove within_query")
    return within


def stopping(
    given: TrainingParameters,
    objective: TrainingObjective | None,
    before: int,
    valid: Sequence[tuple[str, Any]],
    native_train: Any,
    callbacks: Sequence[Callback],
) -> tuple[Callback | None, list[Callback]]:
    """Return our early stopping, if requested by parameter, and the user's callbacks; both wait until the objective
    settles.
    """
    if any(isinstance(callback, Checkpoint) for callback in callbacks):
        raise ParameterError(AS_ARGUMENT)
    settled = 0 if objective is None else objective.settled_round(objective.total_rounds or before + given.rounds)
    stopper: Callback | None = None
    ours = given.stopping_rounds or any(isinstance(callback, EarlyStopping) for callback in callbacks)
    names = ("boosting", "boosting_type", "boost", "booster")
    if ours and "dart" in (str(given.engine.get(name, "")) for name in names):
        raise ParameterError(
            "dart does not support early stopping: later rounds rescale earlier trees, so the model of the best "
            "round is lost"
        )
    if given.stopping_rounds:
        trained_on = tuple(name for name, data in valid if data is native_train)
        if len(trained_on) == len(valid):
            raise ParameterError("early stopping needs a validation set other than the training set")
        stopper = EarlyStopping(
            given.stopping_rounds, metric=headline(given.metrics), min_delta=given.min_delta, ignore=trained_on
        )

    def held_back(callback: Callback) -> Callback:
        return Gated(callback, settled) if settled and hasattr(callback, "stopping_rounds") else callback

    return (None if stopper is None else held_back(stopper)), [held_back(cb) for cb in callbacks]
