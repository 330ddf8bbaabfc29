"""Presets: `good` and `best` try several ways to train on folds of whole queries, and average what proved good.

Every candidate leaves out each fold once, so that all of them have scores of all queries that they have not seen. From
these, greedy selection makes the weights of an average. On large data, where trainings are dear and queries many, the
candidates meet on one fold first, and those that cannot be told from the best one share the others.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from boostrank.backends import get_backend
from boostrank.backends.events import Callback
from boostrank.core.errors import BoostrankError, DataError, ParameterError
from boostrank.core.params import find_param
from boostrank.core.resampling import bootstrap_intervals, paired_difference
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Conventions
from boostrank.objective.mixture import accepted_params
from boostrank.training.averaging import average
from boostrank.training.callbacks import EarlyStopping
from boostrank.training.folds import DealtFolds
from boostrank.training.model import RankingModel
from boostrank.training.params import ROUNDS_NAMES, STOPPING_NAMES, headline, pop_seed, split_params
from boostrank.training.price import Limit, Member, Prices, bind_metric, limited
from boostrank.training.provenance import describe_data
from boostrank.training.quality.candidates import GOOD, MORE, Candidate, candidates
from boostrank.training.quality.selection import deviation, selected
from boostrank.training.quality.trees import ROUNDS, Sizes, drops_trees, patience, quick, suited
from boostrank.training.single import run
from boostrank.training.start import AUTO_START
from boostrank.training.within_choice import choose_within_query
from boostrank.training.within_query import WithinQuery

FOLDS, FOLDS_OF_LARGE = 4, 3
PRESETS = ("quick", "good", "best")
FEWEST = 8
"""Queries in which grades differ, with which a choice is tried at all."""
LARGE = 4_000_000
"""Rows x features from which on candidates meet on one fold first: all of it takes about three trainings' time."""
SECONDS = 1800.0
"""Limit of `best`."""


def work_of(quality: str, cells: float) -> float:
    """What a preset takes at most, in trainings on all rows to the same number of rounds.

    Args:
        quality: "good" or "best", this one without its limit of time.
        cells: rows x features.
    """
    race = quality == "good" and cells > LARGE
    if race:
        return (sum(one.large for one in GOOD) + FOLDS_OF_LARGE - 1) * (1.0 - 1.0 / FOLDS_OF_LARGE)
    many = len(GOOD) + (len(MORE) if quality == "best" else 0)
    return many * FOLDS * (1.0 - 1.0 / FOLDS)


class Watch(Protocol):
    """Who wants to see, or to stop, what is tried."""

    def planned(self, plan: Plan) -> None:
        """What will be tried, before it is."""

    def callbacks(self, candidate: Candidate, fold: int, stopper: EarlyStopping) -> Sequence[Callback]:
        """Of one training."""

    def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
        """After each; whether to go on."""

    def tried(self, trial: Trial) -> None:
        """After all trainings of a candidate."""


@dataclass(frozen=True)
class Plan:
    """What a preset is going to do.

    Args:
        preset: its name.
        candidates: in the order of trying.
        folds: how many, and
        queries: that are dealt into them.
        rounds: of each training, at most.
        trees: parameters that stand in for the engine's defaults.
        race: whether the candidates meet on one fold first.
        seconds: after which no training begins; None: any.
    """

    preset: str
    candidates: tuple[Candidate, ...]
    folds: int
    queries: int
    rounds: int
    trees: Mapping[str, Any]
    race: bool
    seconds: float | None

    @property
    def trainings(self) -> int:
        """How many there will be, at most."""
        return len(self.candidates) + self.folds - 1 if self.race else len(self.candidates) * self.folds


@dataclass(eq=False)
class Trial:
    """What a candidate gave.

    Args:
        candidate: which.
        models: fold -> model that left it out.
        scores: float64[N], of held-out rows; NaN of folds that have no model.
        per_query: float64[Q], the headline metric; NaN where it is not counted or there is no model.
        value: its mean.
        deviation: of the scores within queries.
        weight: in the average.
        seconds: that its trainings took.
        difference: `mean`, `low` and `high` of its values less those of the best candidate, where both have some.
    """

    candidate: Candidate
    models: dict[int, RankingModel]
    scores: Float64Array
    per_query: Float64Array
    value: float = 0.0
    deviation: float = 1.0
    weight: float = 0.0
    seconds: float = 0.0
    difference: Mapping[str, float] = field(default_factory=dict)


def train_quality(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    num_boost_round: int | None = None,
    *,
    quality: str = "good",
    valid_sets: Sequence[RankingDataset] = (),
    time_limit: float | None = None,
    max_candidates: int | None = None,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    start: Any = AUTO_START,
    within_query: WithinQuery | str | Sequence[str] | None = None,
    watch: Watch | None = None,
    max_trees: int | None = None,
    max_microseconds: float | None = None,
) -> RankingModel:
    """Try several objectives and trees, and average what proved good into one model.

    Args:
        params: as for `boostrank.train`; what is given stays as it is, and only what is open is chosen.
        train_set: features in memory.
        num_boost_round: of each training, at most; None: 1,000. Each stops early on the fold that it leaves out.
        quality: "good" or "best".
        valid_sets: their queries are dealt into the folds with those of the training set: each of them is held out by a
            quarter of the models, and trained on by the others.
        time_limit: seconds after which `best` begins no further candidate; None: half an hour, with `max_candidates`
            none.
        max_candidates: how many are tried, at most: what a model's record says repeats a training that a limit of time
            has stopped.
        backend, conventions, start, within_query: as for `boostrank.train`.
        watch: sees what is done.
        max_trees: that a program walks for a document, at most, those of a linear start among them: the average is cut
            to them, see `boostrank.training.price`.
        max_microseconds: that a document may take, as measured here on one thread: comes to a number of trees, which
            the record holds and `max_trees` repeats.

    Returns:
        The average. `info.quality` holds what was tried, and what each got, `info.price` what it is worth with fewer
        trees.

    Raises:
        InputError: as `boostrank.train`; fewer queries than folds need.
    """
    if quality not in PRESETS[1:]:
        raise ParameterError(f"quality={quality!r}: here it is {' or '.join(PRESETS[1:])}")
    if time_limit is not None and not time_limit > 0.0:
        raise ParameterError(f"time_limit={time_limit}: seconds, above 0")
    if max_candidates is not None and max_candidates < 1:
        raise ParameterError(f"max_candidates={max_candidates}: at least 1")
    return _Search(
        params, train_set, num_boost_round, quality, valid_sets, time_limit, max_candidates, backend, conventions,
        start, within_query, watch, Limit(max_trees, max_microseconds),
    ).model()  # fmt: skip


def train_preset(
    quality: str, params: Mapping[str, Any] | None, train_set: Any, num_boost_round: int | None, valid_sets: Any,
    valid_names: Any, alone: Mapping[str, Any], *, backend: str, conventions: Any, start: Any, within_query: Any,
    time_limit: float | None, max_candidates: int | None, limit: Limit,
) -> RankingModel:  # fmt: skip
    """What `boostrank.train` does with a preset.

    Args:
        quality: its name.
        alone: arguments of one training by name.
        params, train_set, num_boost_round, valid_sets, valid_names, backend, conventions, start, within_query,
            time_limit, max_candidates: as for `boostrank.train`.
        limit: what the model may cost.

    Raises:
        ParameterError: no preset; arguments that do not go with it.
        DataError: data that it cannot choose by.
    """
    if quality not in PRESETS:
        raise ParameterError(f"quality={quality!r}: there are {', '.join(['plain', *PRESETS])}")
    if quality != "best" and (time_limit is not None or max_candidates is not None):
        raise ParameterError("time_limit and max_candidates are limits of quality='best'")
    if not isinstance(train_set, RankingDataset):
        raise ParameterError(f"quality={quality!r} looks at the rows: give a RankingDataset")
    sets = [] if valid_sets is None else list(valid_sets) if isinstance(valid_sets, list | tuple) else [valid_sets]
    held_out = [one for one in sets if one is not train_set]
    if quality == "quick":
        engine = get_backend(backend)
        checked = split_params(params, num_boost_round or ROUNDS, engine)
        if num_boost_round is None and checked.rounds != ROUNDS:  # by a parameter
            num_boost_round = checked.rounds
        sizes = Sizes(train_set.n_documents, len(train_set.queries), train_set.n_features)
        watched = len(held_out[0].queries) if held_out and isinstance(held_out[0], RankingDataset) else 0
        stops = any(name in (params or {}) for name in STOPPING_NAMES)
        watched = watched if checked.metrics else 0
        found = quick(engine, sizes, checked.engine, num_boost_round, watched, stops)
        stopping = {"early_stopping_round": found.patience} if found.patience else {}
        model = run(
            {**(params or {}), **found.trees, **stopping}, train_set, found.rounds, valid_sets, valid_names, **alone,
            backend=backend, conventions=conventions, start=start, within_query=within_query,
        )  # fmt: skip
        return limited(model, limit, train_set)
    given = [name for name, value in alone.items() if value]
    if given:
        raise ParameterError(f"{given[0]}= is for one training, and quality={quality!r} makes many: 'quick' is one")
    reason = unfit(train_set)
    if reason is not None:
        raise DataError(f"quality={quality!r}: the data set {reason}")
    return train_quality(
        params, train_set, num_boost_round, quality=quality, valid_sets=held_out, time_limit=time_limit,
        max_candidates=max_candidates, backend=backend, conventions=conventions, start=start, within_query=within_query,
        max_trees=limit.trees, max_microseconds=limit.microseconds,
    )  # fmt: skip


def unfit(data: RankingDataset) -> str | None:
    """Why a data set cannot be dealt into folds to choose by, after "the data set"; None: it can."""
    if data.on_disk:
        return "lies on disk, where folds cannot be taken of it"
    begins = data.queries.ptr[:-1][data.queries.sizes > 0]
    differ = np.zeros(0, bool)
    if begins.size:
        differ = np.maximum.reduceat(data.labels, begins) > np.minimum.reduceat(data.labels, begins)
    count = int(differ.sum())
    return None if count >= FEWEST else f"has {count} queries whose labels differ, and a choice needs {FEWEST}"


class _Search:
    """One call of `train_quality`."""

    def __init__(
        self, params: Mapping[str, Any] | None, train_set: RankingDataset, rounds: int | None, quality: str,
        valid_sets: Sequence[RankingDataset], time_limit: float | None, most: int | None, backend: str,
        conventions: Conventions | str | None, start: Any, within_query: Any, watch: Watch | None, price: Limit,
    ) -> None:  # fmt: skip
        price.check(backend, train_set)
        self._begun = time.monotonic()
        self._engine, self._limit = get_backend(backend), price
        self._rest = dict(params or {})
        self._seed = pop_seed(self._rest)
        self._data = train_set
        self._valid_from = [len(train_set.queries)]
        for one in valid_sets:
            if not isinstance(one, RankingDataset):
                raise ParameterError(f"quality={quality!r} deals validation queries into folds: give a RankingDataset")
            self._data = self._data.joined(one.with_features(train_set.feature_names, whose="the training set"))
            self._valid_from.append(len(self._data.queries))
        self._conventions, self._start, self._watch = conventions, start, watch
        self._within = WithinQuery.given(within_query)
        checked = split_params(self._rest, rounds or ROUNDS, self._engine)
        self._threads = checked.threads
        if rounds is None and checked.rounds != ROUNDS:  # by a parameter
            rounds = checked.rounds
        for name in ROUNDS_NAMES:
            self._rest.pop(name, None)
        if drops_trees(self._engine, checked.engine):
            raise ParameterError(f"quality={quality!r} stops trainings early and averages them, which dart cannot have")
        stopping_given = [self._rest.pop(name, None) for name in STOPPING_NAMES] != [None] * len(STOPPING_NAMES)
        metric = headline(checked.metrics)
        if metric is None:
            raise ParameterError(f"quality={quality!r} chooses by a metric: metric='ndcg'")
        self._metric, self._metrics = metric, checked.metrics
        self._rules = Conventions.of(conventions, checked.gain)
        sizes = Sizes(self._data.n_documents, len(self._data.queries), self._data.n_features)
        trees = suited(self._engine, sizes, rounds, checked.engine)
        race = quality == "good" and sizes.rows * sizes.features > LARGE
        listed = (*GOOD, *MORE) if quality == "best" else [one for one in GOOD if one.large or not race]
        found = candidates(self._engine, listed, self._rest, start, checked.engine)
        found = [one for one in found if self._takes(one)]
        folds = FOLDS_OF_LARGE if race else FOLDS
        limit = SECONDS if time_limit is None and most is None else time_limit
        limit = limit if quality == "best" else None
        self.plan = Plan(
            quality, tuple(found[:most] if most else found), folds, sizes.queries, checked.rounds, trees, race, limit
        )
        self._patience = checked.stopping_rounds if stopping_given else patience(sizes.queries // folds)
        self._min_delta = checked.min_delta
        self._bound = BoundMetrics(
            self._metrics, self._data.labels, self._data.queries, self._rules, self._threads
        )  # fmt: skip
        counted = np.isfinite(self._bound.per_query(np.zeros(sizes.rows))[metric])
        self._dealt = DealtFolds(self._data, folds, self._seed, self._engine, counted=counted)
        self._fold_of_row = np.repeat(self._dealt.fold, self._data.queries.sizes)
        self._stopped = self._complete = False
        self._failed: list[tuple[str, BoostrankError]] = []

    def model(self) -> RankingModel:
        """Try, choose, average."""
        if self._within is not None and self._within.is_auto:
            self._within = choose_within_query(
                run, self._within, self._rest | {"seed": self._seed}, self._data, self.plan.rounds,
                backend=self._engine.name, conventions=self._conventions, start=self._start,
            )  # fmt: skip
        if self._watch is not None:
            self._watch.planned(self.plan)
        trials = self._raced() if self.plan.race else self._all()
        return self._averaged(trials)

    def _all(self) -> list[Trial]:
        """Every candidate on every fold, as far as time goes; weights by greedy selection."""
        trials: list[Trial] = []
        for number, candidate in enumerate(self.plan.candidates):
            if trials and self.plan.seconds is not None:
                spent = time.monotonic() - self._begun
                if spent + max(trial.seconds for trial in trials) > self.plan.seconds:
                    break
            trial = self._try(candidate, number, range(self.plan.folds))
            if trial is None:
                continue
            if len(trial.models) == self.plan.folds or not trials:
                trials.append(trial)
                self._complete = True
            if self._stopped or self._late:
                break
        self._check(trials)
        self._compare(trials)
        seen = np.isfinite(trials[0].scores)  # all, unless somebody stopped the first candidate
        scores = np.stack([np.where(seen, trial.scores / trial.deviation, 0.0) for trial in trials])
        for trial, weight in zip(
            trials, selected(scores, lambda one: self._mean(self._values(one, seen))), strict=True
        ):
            trial.weight = float(weight)
        return trials

    def _raced(self) -> list[Trial]:
        """Every candidate on the first fold; those that cannot be told from the best one share the others."""
        trials: list[Trial] = []
        for number, candidate in enumerate(self.plan.candidates):
            trial = self._try(candidate, number, [0])
            trials += [] if trial is None else [trial]
            if self._stopped:
                break
        self._check(trials)
        self._compare(trials)
        trials.sort(key=lambda trial: -trial.value)
        left = [trial for trial in trials if trial.difference.get("high", 0.0) >= 0.0]
        for fold in range(1, self.plan.folds):
            if self._stopped:
                break
            trial = left[(fold - 1) % len(left)]
            more = self._try(trial.candidate, self.plan.candidates.index(trial.candidate), [fold])
            if more is None:
                continue
            trial.models |= more.models
            trial.scores = np.where(np.isfinite(more.scores), more.scores, trial.scores)
            trial.seconds += more.seconds
            trial.deviation = deviation(trial.scores, self._data.queries)
        for trial in left:
            trial.weight = 1.0 / len(left)
        return trials

    @property
    def _late(self) -> bool:
        """Whether the limit of time has passed, and there is a model already."""
        spent = time.monotonic() - self._begun
        return self._complete and self.plan.seconds is not None and spent > self.plan.seconds

    def _try(self, candidate: Candidate, number: int, folds: Sequence[int]) -> Trial | None:
        """As `_trial`; None, and a reason in `failed`, where it cannot be trained: what others gave is not lost."""
        try:
            return self._trial(candidate, number, folds)
        except BoostrankError as error:
            self._failed.append((candidate.name, error))
            return None

    def _check(self, trials: Sequence[Trial]) -> None:
        """Raise what the first candidate has raised, if none could be trained."""
        if not trials:
            raise self._failed[0][1]

    def _takes(self, candidate: Candidate) -> bool:
        """Whether a candidate's objective knows what parameters of an objective were given."""
        try:
            split_params(self._params(candidate), 1, self._engine)
        except ParameterError:
            return False
        return True

    def _params(self, candidate: Candidate) -> dict[str, Any]:
        objective, own = {}, dict(candidate.params)
        if candidate.objective is not None:
            objective = {"objective": candidate.objective}
        if own:  # what an option says, by whichever name, stays
            takes = accepted_params(candidate.objective)
            given = {find_param(name, takes) for name in self._rest}
            own = {name: value for name, value in own.items() if find_param(name, takes) not in given}
        return {**self._rest, **own, **objective}

    def _trial(self, candidate: Candidate, number: int, folds: Sequence[int]) -> Trial:
        """The trainings of a candidate that leave out these folds, until somebody stops them."""
        begun = time.monotonic()
        trial = Trial(candidate, {}, np.full(self._data.n_documents, np.nan), np.full(len(self._data.queries), np.nan))
        rounds = min(self.plan.rounds, candidate.rounds or self.plan.rounds)
        params = {**self._params(candidate), **self.plan.trees, **candidate.trees}
        for fold in folds:
            if trial.models and self._late:
                break
            stopper = EarlyStopping(self._patience, metric=self._metric, min_delta=self._min_delta)
            shown = () if self._watch is None else self._watch.callbacks(candidate, fold, stopper)
            model, scores = self._dealt.train(
                fold, params | {"seed": self._seed + self.plan.folds * number + fold}, rounds,
                callbacks=[*shown, *([_AtOnce(stopper)] if self._patience else [])], conventions=self._conventions,
                start=candidate.start, within_query=self._within,
            )  # fmt: skip
            trial.models[fold] = model
            trial.scores[self._fold_of_row == fold] = scores
            if self._watch is not None and not self._watch.trained(candidate, fold, model):
                self._stopped = True
                break
        trial.seconds = time.monotonic() - begun
        self._measure(trial)
        if self._watch is not None:
            self._watch.tried(trial)
        return trial

    def _measure(self, trial: Trial) -> None:
        """Value and deviation of what was held out so far."""
        seen = np.isfinite(trial.scores)
        trial.per_query = self._values(trial.scores, seen)
        trial.value = self._mean(trial.per_query)
        trial.deviation = deviation(trial.scores, self._data.queries)

    def _values(self, scores: Float64Array, seen: npt.NDArray[np.bool_]) -> Float64Array:
        """float64[Q], the headline metric; NaN of queries that have no scores."""
        values = self._bound.per_query(np.where(seen, scores, 0.0))[self._metric]
        values[~np.logical_and.reduceat(seen, self._data.queries.ptr[:-1])] = np.nan
        return values

    def _mean(self, per_query: Float64Array) -> float:
        """Over the queries that count, by their weights; NaN where none does."""
        counted = np.isfinite(per_query)
        weight = self._data.queries.each_weight[counted]
        return float(weight @ per_query[counted] / weight.sum()) if counted.any() else math.nan

    def _compare(self, trials: Sequence[Trial]) -> None:
        """Each with the best, query by query, where both have been measured."""
        best = max(trials, key=lambda trial: trial.value)
        for trial in trials:
            both = np.isfinite(trial.per_query) & np.isfinite(best.per_query)
            if trial is best or not both.any():
                continue
            weights = self._data.queries.each_weight[both]
            found = paired_difference(trial.per_query[both], best.per_query[both], weights=weights, seed=self._seed)
            trial.difference = {"mean": found.mean, "low": found.low, "high": found.high}

    def _averaged(self, trials: Sequence[Trial]) -> RankingModel:
        """One model of all that have a weight, on the scale of the scores of one training."""
        members = [Member(one.candidate.name, one.models, one.scores, one.weight) for one in trials]
        prices = Prices(
            members, self._data, self._dealt.fold, bind_metric(self._metric, self._rules, self._threads), self._threads
        )
        cut, trees = prices.whole, None
        if self._limit:
            whole = average(*prices.models(cut)) if self._limit.microseconds else trials[0].models[0]
            trees = self._limit.in_trees(whole, self._data)
            assert trees is not None
            cut = prices.at(trees)
        one = average(*prices.models(cut))
        price = prices.record(cut) | self._limit.record(trees)
        one.info |= {
            "data": describe_data(self._data, self._data.queries), "quality": self._record(trials, cut.together),
            "price": price | {"curve": [prices.record(point) for point in prices.curve()]},
        }  # fmt: skip
        return one

    def _record(self, trials: Sequence[Trial], scores: Float64Array) -> dict[str, Any]:
        """What the model's file says: nothing that changes from run to run."""
        seen = np.isfinite(scores)
        values = self._bound.per_query(np.where(seen, scores, 0.0))
        held_out = {name: self._interval(values[name], seen) for name in values}
        valid = []
        for first, last in itertools.pairwise(self._valid_from):
            of_set = np.full(len(self._data.queries), np.nan)
            of_set[first:last] = values[self._metric][first:last]
            valid.append(self._interval(of_set, seen))
        return {
            "preset": self.plan.preset, "folds": self.plan.folds, "metric": self._metric,
            "trees": dict(self.plan.trees), "patience": self._patience,
            "left": [one.name for one in self.plan.candidates[len(trials) + len(self._failed) :]],
            "failed": {name: str(error) for name, error in self._failed},
            "candidates": [self._described(trial) for trial in trials], "held_out": held_out, "valid": valid,
        }  # fmt: skip

    def _described(self, trial: Trial) -> dict[str, Any]:
        candidate = trial.candidate
        objective = {} if candidate.objective is None else {"objective": candidate.objective}
        return {
            "name": candidate.name, "parameters": dict(candidate.trees) | dict(candidate.params) | objective,
            "start": candidate.start if isinstance(candidate.start, str) else "a model",
            "rounds": [trial.models[fold].best_iteration for fold in sorted(trial.models)],
            "weight": trial.weight, "difference": dict(trial.difference),
        } | self._interval(trial.per_query, np.isfinite(trial.scores))  # fmt: skip

    def _interval(self, per_query: Float64Array, seen: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Mean and 95% interval over the queries that count and have scores."""
        counted = np.isfinite(per_query) & np.logical_and.reduceat(seen, self._data.queries.ptr[:-1])
        if not counted.any():
            return {"value": None, "low": None, "high": None, "queries": 0}
        weights = self._data.queries.each_weight[counted]
        low, high = bootstrap_intervals(per_query[counted][:, None], weights)
        mean = float(weights @ per_query[counted] / weights.sum())
        return {"value": mean, "low": float(low[0]), "high": float(high[0]), "queries": int(counted.sum())}


class _AtOnce:
    """Early stopping that does not wait until an objective has settled: what was held out tells what a round is worth.

    Args:
        stopper: that is asked.
    """

    before_iteration = False
    order = 30

    def __init__(self, stopper: EarlyStopping) -> None:
        self._stopper = stopper

    def __call__(self, env: Any) -> None:
        self._stopper(env)
