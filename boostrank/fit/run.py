"""One training: an engine with an objective of whole queries, our metrics, a start, a checkpoint."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.errors import DataError, DataWarning, ParameterError, TrainingError, warn_user
from boostrank.core.gains import MAX_EXPONENTIAL_LABEL
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.base import Backend, TrainRequest
from boostrank.engines.params import refusal
from boostrank.engines.rounds import Callback
from boostrank.fit.callbacks import EarlyStopping, Gated, History, StopWhenAsked
from boostrank.fit.categories import say_left_out, with_categories
from boostrank.fit.checkpoint import AS_ARGUMENT, Checkpoint, settings_of
from boostrank.fit.choose import choose_within_query
from boostrank.fit.gain import with_gain, with_gain_of
from boostrank.fit.gradient import GuardedGradient
from boostrank.fit.params import OBJECTIVE_NAMES, TrainingParameters, headline, is_auto, split_params
from boostrank.fit.provenance import describe_identity, describe_training
from boostrank.fit.round_metrics import RoundMetrics
from boostrank.fit.start.begin import AUTO_START, beginning, limits_of, same_order, say_without_start
from boostrank.metric import Conventions
from boostrank.model import constraints
from boostrank.model.price import check_start
from boostrank.model.ranking_model import RankingModel, TrainingSummary
from boostrank.model.within_query import WithinColumns, WithinQuery
from boostrank.objective.description import TrainingObjective
from boostrank.objective.mixture import objective_from_dict

if TYPE_CHECKING:
    from boostrank.fit.start.begin import Fitted

_MANY_FEATURES = 2**20
_BASIC = "; monotone_constraints_method='basic' keeps it, also where other features are missing"


def run(
    params: Mapping[str, Any] | None, train_set: RankingDataset, num_boost_round: int = 100, valid_sets: Any = None,
    valid_names: Sequence[str] | str | None = None, feval: Any = None, init_model: Any = None,
    keep_training_booster: bool = False, callbacks: Sequence[Callback] | None = None, *, backend: str = "lightgbm",
    conventions: Conventions | str | None = None, checkpoint: Checkpoint | None = None,
    start: RankingModel | str | os.PathLike[str] | None = AUTO_START,
    within_query: WithinQuery | str | Sequence[str] | None = None, fitted: Fitted | None = None, measured: bool = True,
    max_trees: int | None = None, at_once: bool = False, begins_linear: bool = False,
) -> RankingModel:  # fmt: skip
    """As `boostrank.train` of quality "plain", and for trainings that share work.

    Args:
        fitted: as of `beginning`.
        measured: whether metrics are measured each round.
        max_trees: that the model may have; a start that has as many is refused before the first round.
        begins_linear: with start="auto", begin with a linear start where one can be, whatever the objective.
        at_once: stop early in any round, also before an objective that changes over the rounds has settled.
    """
    started = time.perf_counter()
    engine = get_backend(backend)
    if isinstance(init_model, str | os.PathLike):
        init_model = RankingModel.load(init_model)
    left, train_set, valid_sets = with_categories(params, train_set, valid_sets, init_model)
    left = with_gain_of(init_model, with_objective_of(init_model, left), train_set)
    left, train_set, valid_sets, conventions = with_gain(left, train_set, valid_sets, conventions)
    given = split_params(left, num_boost_round, engine)
    if train_set.document_weights is not None:
        given.check_document_weights()
    if not train_set.n_documents:
        raise DataError("the training data have no rows")
    if not train_set.n_features:  # the engines fail in words of their own
        raise DataError("the training data have no features: no row holds a number:value pair")
    names = train_set.feature_names
    given = replace(given, engine=engine.by_column(given.engine, names))
    if train_set.categorical:
        given = replace(given, engine=engine.with_categories(given.engine, train_set.categorical))
    asked, within = WithinQuery.given(within_query), None
    if asked is not None and asked.is_auto and init_model is None:
        asked = choose_within_query(
            run, asked, left, train_set, num_boost_round, backend=backend, conventions=conventions, start=start
        )
    limits_of(engine, given.engine, names, train_set)  # which go together, whether or not there will be a start
    # Left alone, the engines take every core that they see; they see no quota.
    given.engine.setdefault("num_threads", resolve_threads(given.threads))
    booster = _booster_to_continue(init_model, engine, train_set)
    within = _columns_within(asked, init_model, booster, engine, given, train_set)
    originals: dict[int, Any] = {}
    if within is not None:
        given = replace(given, engine=engine.with_followers(given.engine, names, within.sources))
        train_set, valid_sets, originals = _with_columns(within, train_set, valid_sets, resolve_threads(given.threads))
    source = train_set if within is None else originals[id(train_set)]
    begin = None
    if booster is None:
        auto = begins_linear or is_auto(params, engine.name)
        begin = beginning(
            start, engine, train_set, given.gain, given.engine,
            objective=given.objective, is_auto=auto, threads=resolve_threads(given.threads), fitted=fitted,
            source=None if within is None else source,
        )  # fmt: skip
        booster = None if begin is None else begin.booster
        if begin is not None and max_trees is not None:
            check_start(len(begin.start.curves), max_trees)
    elif start not in (None, AUTO_START, "none"):
        raise ParameterError("a model that is continued has its own start: give init_model or start, not both")
    if begin is None and booster is not None:
        if start == AUTO_START:
            say_without_start(engine, booster, with_objective_of(init_model, params))
        broken = constraints.broken(engine, booster, given.engine, engine.feature_names(booster))
        if broken:
            raise ParameterError(f"the model that is continued does not go with these parameters: {broken}")
    before = 0 if booster is None else engine.rounds_of(booster)
    objective = given.objective
    if objective is not None and objective.total_rounds is None:  # else: this is one stage of a longer training
        objective = objective.over(before + given.rounds)

    warn_of_gaps(train_set)
    with _engine_errors(engine, train_set):
        native_train, valid, sources_of_valid, rows = _datasets(train_set, valid_sets, valid_names, engine, given)
    sources = {id(native_train): train_set} | {id(d): s for (_, d), s in zip(valid, sources_of_valid, strict=True)}

    def labels_of(native: Any) -> tuple[npt.NDArray[Any], QueryIndex]:
        source = sources[id(native)]
        return source.labels, source.queries

    gradient = None
    if objective is not None or given.function is not None:
        gradient = GuardedGradient(objective, labels_of, given.function)
        gradient.bind(native_train)  # errors of the labels come before the features are binned
    rules = Conventions.of(conventions, given.gain)
    functions = [] if feval is None else list(feval) if isinstance(feval, list | tuple) else [feval]
    metrics = RoundMetrics(given.metrics if measured else (), labels_of, rules, given.threads, functions)
    history = History()
    stopper, late = stopping(given, None if at_once else objective, before, valid, native_train, callbacks or ())
    for one in late:
        if isinstance(one, StopWhenAsked):
            one.watch(stopper, checkpoint)

    def finished(booster: Any, best: int) -> RankingModel:
        """The model of what was grown, whose best round this is; 0: all of them."""
        booster = engine.with_even_leaves(booster)
        columns = {source.feature_names.index(name): one for name, one in source.categories.items()}
        booster = engine.keep_categories(booster, columns) if columns else booster
        broken = constraints.broken(engine, booster, given.engine, engine.feature_names(booster))
        if broken:
            warn_user(f"the engine's trees do not keep what they promise: {broken}{_BASIC}", DataWarning)
        labels, queries = labels_of(native_train)
        stats = None if gradient is None else gradient.stats
        summary = TrainingSummary(
            rows=int(labels.size), queries=len(queries), dead_queries=None if stats is None else stats.dead_queries,
            floored=None if stats is None else stats.floored,
            rounds=history.rounds, best_round=best or engine.rounds_of(booster), seconds=time.perf_counter() - started,
            kernel_seconds=0.0 if gradient is None else gradient.seconds, metric_seconds=metrics.seconds,
        )  # fmt: skip
        info = describe_training(engine, given, objective, rules, source, queries, before, dict(params or {}))
        if within is not None or (asked is not None and asked.choice is not None):
            choice = {} if asked is None or asked.choice is None else {"choice": dict(asked.choice)}
            info |= {"within_query": ({"kinds": []} if within is None else within.record) | choice}
        if begin is not None:
            info |= {"start": begin.description}
        return RankingModel(engine, booster, best_rounds=best, info=info, evals_result=history.values, summary=summary)

    with contextlib.ExitStack() as held:
        resumed = None
        if checkpoint is not None:
            reason = engine.unresumable(given.engine, given.native_objective)
            if reason:
                raise ParameterError(f"no checkpoint with these parameters: {reason}")
            sets = dict(zip([n for n, _ in valid], (originals.get(id(d), d) for d in sources_of_valid), strict=True))
            identity = describe_identity(engine, given, objective, rules, booster, sets, source)
            if within is not None:
                identity["within_query"] = within.record
                if source.candidates is not None:
                    identity["candidates"] = source.candidates.data.fingerprint
            identity["stopping"] = settings_of([*late, stopper])
            held.enter_context(checkpoint.reserved())
            resumed = checkpoint.begin(engine, identity)
        request = TrainRequest(
            params=given.engine, train=native_train, valid=valid, rows=rows, rounds=given.rounds, gradient=gradient,
            native_objective=given.native_objective, metrics=[metrics] if metrics else [], init_model=booster,
            start_scores=() if begin is None else begin.scores_of(rows, resolve_threads(given.threads)),
            callbacks=[history, *late, *filter(None, [stopper, checkpoint])],
            keep_training_booster=keep_training_booster, resumed=resumed, objective=objective,
            evaluate=None if gradient is None or objective is None else gradient.evaluate,
        )  # fmt: skip
        try:
            with _engine_errors(engine, train_set):
                grown = engine.train(request)
        except TrainingError as error:
            if error.model is not None:
                error.model = finished(error.model, 0) if engine.rounds_of(error.model) > before else None
            raise
    return finished(*grown)


@contextlib.contextmanager
def _engine_errors(engine: Backend, train_set: RankingDataset) -> Iterator[None]:
    """Inside, what an engine raises in words of its own is told in a line of ours.

    Raises:
        DataError: it does not take the labels; names the first that is no whole number from 0 to 31, if one is.
        TrainingError: anything else.
    """
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


def warn_of_gaps(data: RankingDataset) -> None:
    """Say so where nearly all of very many features never occur: the engines take time and memory for each."""
    features: Any = data.features
    if not sparse.issparse(features) or features.shape[1] <= _MANY_FEATURES:
        return
    found = np.unique(features.indices).size
    if 100 * found < features.shape[1]:
        warn_user(
            f"{found:,} of {features.shape[1]:,} features occur, and the engine takes memory (some 600 bytes) and time "
            "for each of them, which may be GBs and many minutes: number the features without gaps, or take out rows "
            "with stray numbers (--max-feature refuses them)",
            DataWarning,
        )


def warn_of_weights(*sets: RankingDataset) -> None:
    """Say that metrics do not take the weights of documents, where a data set that they measure has some."""
    if any(one.document_weights is not None for one in sets):
        warn_user("metrics weigh queries alone: the weights of documents do not count in them", DataWarning)


def with_objective_of(init_model: Any, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters; the objective of a model that is continued goes on unless another one is given.

    Raises:
        ParameterError: the model was trained with code that only its author has.
    """
    given = dict(params or {})
    before = init_model.info.objective if isinstance(init_model, RankingModel) else None
    if not before or any(name in given for name in OBJECTIVE_NAMES):
        return given
    name = str(before.get("name"))
    if ":" in name:
        return given | {"objective": name}
    try:
        return given | {"objective": objective_from_dict(before)}
    except ParameterError as error:
        raise ParameterError(
            f"the model that is continued was trained with objective {name[:40]!r}, which cannot be made again "
            "from its file: give objective="
        ) from error


def _booster_to_continue(init_model: Any, engine: Backend, train_set: RankingDataset) -> Any:
    """The booster to add to, cut to the rounds that prediction uses.

    Raises:
        ParameterError: of the other engine, or made for other features.
    """
    if init_model is None:
        return None
    if not isinstance(init_model, RankingModel):
        return engine.load_booster(init_model)
    if init_model.backend != engine.name:
        raise ParameterError(f"a model of {init_model.backend} cannot be continued by {engine.name}")
    same_order(init_model, train_set)
    rounds = init_model.best_iteration
    if rounds < engine.rounds_of(init_model.booster):
        return engine.from_bytes(engine.to_bytes(init_model.booster, rounds=rounds))
    return init_model.booster


def _columns_within(
    asked: WithinQuery | None,
    init_model: Any,
    booster: Any,
    engine: Backend,
    given: TrainingParameters,
    train_set: RankingDataset,
) -> WithinColumns | None:
    """The columns within queries of a training: what was asked for, or those of the model that is continued.

    Raises:
        ParameterError: both, and not the same.
    """
    before = None
    if isinstance(init_model, RankingModel):
        before = init_model.within_query
    elif booster is not None:
        before = WithinColumns.from_names(engine.feature_names(booster))
    if asked is None and before is None:
        return None
    names = train_set.feature_names
    if asked is None or (booster is not None and asked.is_auto):
        if asked is not None:
            raise ParameterError("the model that is continued has chosen its columns within queries: leave 'auto' out")
        return before and replace(before, features=names)
    # One thing alone is unused of a continued model too: categories.
    unused = limits_of(engine, given.engine, names, train_set).unused
    within = asked.columns(names, train_set.provenance.index_base, unused)
    if asked.of is None:
        say_left_out(train_set, "within_query")
    if booster is not None and within != (before and replace(before, features=names)):
        theirs = "has no columns within queries" if before is None else f"has {before.words()}"
        raise ParameterError(f"the model that is continued {theirs}, and goes on with that: leave within_query out")
    return within


def _with_columns(
    within: WithinColumns, train_set: RankingDataset, valid_sets: Any, threads: int
) -> tuple[RankingDataset, list[Any], dict[int, Any]]:
    """Training and validation sets with their columns within queries; and by the `id` of each what it was made of."""
    wide = within.dataset(train_set, threads)
    given = [] if valid_sets is None else list(valid_sets) if isinstance(valid_sets, list | tuple) else [valid_sets]
    found: list[Any] = []
    for one in given:
        if one is train_set:
            found.append(wide)
            continue
        found.append(within.dataset(one.like(train_set), threads))
    return wide, found, {id(wide): train_set} | {id(a): b for a, b in zip(found, given, strict=True)}


def _datasets(
    train_set: RankingDataset, valid_sets: Any, valid_names: Any, engine: Backend, given: TrainingParameters
) -> tuple[Any, list[tuple[str, Any]], list[Any], list[Any]]:
    """Every data set in the engine's own form: training, (name, validation); validation sets as they were given; and
    training and validation sets with the features of the first."""

    def native(data: RankingDataset, reference: Any) -> Any:
        return engine.dataset(data, given.engine, reference=reference, weights=given.native_objective is not None)

    sources = [] if valid_sets is None else list(valid_sets) if isinstance(valid_sets, list | tuple) else [valid_sets]
    names = [] if valid_names is None else [valid_names] if isinstance(valid_names, str) else list(valid_names)
    if len(names) > len(sources):
        raise ParameterError(f"{len(names)} valid_names for {len(sources)} valid_sets")
    train = native(train_set, None)
    valid: list[tuple[str, Any]] = []
    rows = [train_set]
    for i, source in enumerate(sources):
        same = source is train_set
        name = names[i] if i < len(names) else "training" if same else f"valid_{i}"
        if not source.n_documents:
            raise DataError(f"the validation set {name!r} has no rows")
        if not same:
            source = source.like(train_set)
        valid.append((name, train if same else native(source, train)))
        rows.append(source)
    if len({n for n, _ in valid}) < len(valid):
        raise ParameterError(f"valid_names must be distinct: {', '.join(n for n, _ in valid)}")
    return train, valid, sources, rows


def stopping(
    given: TrainingParameters, objective: TrainingObjective | None, before: int, valid: list[tuple[str, Any]],
    native_train: Any, callbacks: Sequence[Callback],
) -> tuple[Callback | None, list[Callback]]:  # fmt: skip
    """Our early stopping if it was asked for by parameter, and the user's callbacks, held back until settled."""
    if any(isinstance(callback, Checkpoint) for callback in callbacks):
        raise ParameterError(AS_ARGUMENT)
    settled = 0 if objective is None else objective.settled_round(objective.total_rounds or before + given.rounds)
    stopper: Callback | None = None
    ours = given.stopping_rounds or any(isinstance(callback, EarlyStopping) for callback in callbacks)
    names = ("boosting", "boosting_type", "boost", "booster")
    if ours and "dart" in (str(given.engine.get(name, "")) for name in names):
        raise ParameterError(
            "early stopping does not go with dart: later rounds rescale earlier trees, so the model of the best "
            "round is gone when it is known"
        )
    if given.stopping_rounds:
        trained_on = tuple(name for name, data in valid if data is native_train)
        if len(trained_on) == len(valid):
            raise ParameterError("early stopping needs a validation set that is not the training set")
        stopper = EarlyStopping(
            given.stopping_rounds, metric=headline(given.metrics), min_delta=given.min_delta, ignore=trained_on
        )

    def held_back(callback: Callback) -> Callback:
        return Gated(callback, settled) if settled and hasattr(callback, "stopping_rounds") else callback

    return (None if stopper is None else held_back(stopper)), [held_back(cb) for cb in callbacks]
