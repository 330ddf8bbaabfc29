"""Search of a preset: candidates are trained on folds of whole queries, and what proved good is averaged.

Every candidate leaves out each fold once, so that all of them have scores of all queries that they have not seen. From
these, greedy selection makes the weights of an average. On large data, where trainings are dear and queries many, the
candidates meet on one fold first, and those that cannot be told from the best one share the others.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.backends import get_backend
from boostrank.core.errors import BoostrankError, ParameterError
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
from boostrank.training.price import Limit, Member, Prices, bind_metric
from boostrank.training.provenance import describe_data
from boostrank.training.quality.candidates import GOOD, MORE, Candidate, candidates
from boostrank.training.quality.plan import FOLDS, FOLDS_OF_LARGE, LARGE, SECONDS, Plan, Trial, Watch
from boostrank.training.quality.selection import deviation, selected
from boostrank.training.quality.trees import ROUNDS, Sizes, drops_trees, patience, suited
from boostrank.training.single import run
from boostrank.training.within_choice import choose_within_query
from boostrank.training.within_query import WithinQuery


class Search:
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
