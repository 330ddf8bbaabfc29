"""Search of a preset: candidates are trained on folds of whole queries, and what proved good is averaged.

Every candidate leaves out each fold once, unless the folds so far have shown that another is better, as in a race
(Maron and Moore 1994, "Hoeffding races"). From the scores of queries that they have not seen, greedy selection makes
the weights of an average.
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
from boostrank.core.resampling import RESAMPLES, bootstrap_intervals, paired_difference
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Conventions
from boostrank.objective.mixture import accepted_params
from boostrank.training.averaging import average
from boostrank.training.callbacks import EarlyStopping
from boostrank.training.categories import with_categories
from boostrank.training.folds import DealtFolds
from boostrank.training.gain import with_gain
from boostrank.training.model import RankingModel
from boostrank.training.params import ROUNDS_NAMES, STOPPING_NAMES, headline, pop_seed, split_params
from boostrank.training.price import Limit, Member, Prices, bind_metric
from boostrank.training.provenance import describe_data
from boostrank.training.quality.candidates import GOOD, MORE, Candidate, candidates
from boostrank.training.quality.plan import FEWEST, SECONDS, Plan, Trial, Watch, folds_of, trainings_of
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
        rest, train_set, _ = with_categories(params, train_set)
        self._rest, train_set, valid_sets, conventions = with_gain(rest, train_set, list(valid_sets), conventions)
        self._seed = pop_seed(self._rest)
        self._data = train_set
        self._valid_from = [len(train_set.queries)]
        for one in valid_sets:
            if not isinstance(one, RankingDataset):
                raise ParameterError(f"quality={quality!r} deals validation queries into folds: give a RankingDataset")
            self._data = self._data.joined(one.like(train_set))
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
        cells = float(sizes.rows) * sizes.features
        few = trainings_of(quality, len(GOOD), cells) < 2 * len(GOOD)
        listed = (*GOOD, *MORE) if quality == "best" else [one for one in GOOD if one.large or not few]
        found = candidates(self._engine, listed, self._rest, start, checked.engine)
        found = [one for one in found if self._takes(one)]
        folds = folds_of(quality, cells)
        limit = SECONDS if time_limit is None and most is None else time_limit
        limit = limit if quality == "best" else None
        tried = tuple(found[:most] if most else found)
        many = len(tried) if quality == "best" else len(GOOD)
        trainings = min(trainings_of(quality, many, cells), len(tried) * folds)
        self.plan = Plan(quality, tried, folds, sizes.queries, checked.rounds, trees, trainings, limit)
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
        trials = self._by_candidate() if self.plan.preset == "best" else self._by_fold()
        if not trials:
            raise self._failed[0][1]
        return self._averaged(self._weighed(trials))

    def _by_candidate(self) -> list[Trial]:
        """One candidate after another, as far as time goes; those that had to stop for it are left out."""
        trials: list[Trial] = []
        for number, candidate in enumerate(self.plan.candidates):
            if trials and self.plan.seconds is not None:
                spent = time.monotonic() - self._begun
                if spent + max(trial.seconds for trial in trials) > self.plan.seconds:
                    break
            trial = self._new(candidate)
            for fold in range(self.plan.folds):
                if (trial.models and self._late) or not self._train(trial, number, fold):
                    break
                if self._stopped or (trials and self._lost(trial, self._best(trials))):
                    break
            if len(trial.models) == self.plan.folds or trial.lost or (trial.models and not trials):
                trials.append(trial)
                self._complete = True
            if self._stopped or self._late:
                break
        return trials

    def _by_fold(self) -> list[Trial]:
        """All candidates on one fold after another, without those that others have proved better than."""
        trials = [self._new(candidate) for candidate in self.plan.candidates]
        left, many = list(enumerate(trials)), 0
        for fold in range(self.plan.folds):
            for number, trial in sorted(left, key=lambda one: -one[1].value):
                if many == self.plan.trainings or self._stopped:
                    break
                many += 1
                if not self._train(trial, number, fold):
                    left.remove((number, trial))
            left = [one for one in left if not self._lost(one[1], self._best(trials))]
        return [trial for trial in trials if trial.models]

    def _best(self, trials: Sequence[Trial]) -> Trial:
        """Of the trials with the most folds, that of the highest value."""
        return max(trials, key=lambda trial: (len(trial.models), trial.value))

    def _lost(self, trial: Trial, best: Trial) -> bool:
        """Whether another is better beyond noise on the queries that both have left out; never after the last fold."""
        if len(trial.models) < self.plan.folds:
            self._compare(trial, best)
            trial.lost = trial.difference.get("high", 0.0) < 0.0
        return trial.lost

    def _weighed(self, trials: list[Trial]) -> list[Trial]:
        """Weights by greedy selection on the queries that all have left out; those that lost have none."""
        best = self._best(trials)
        for trial in trials:
            self._compare(trial, best)
        left = [trial for trial in trials if not trial.lost]
        seen = np.logical_and.reduce([np.isfinite(trial.scores) for trial in left])
        scores = np.stack([np.where(seen, trial.scores / trial.deviation, 0.0) for trial in left])
        weights = selected(scores, lambda one: self._mean(self._values(one, seen)))
        for trial, weight in zip(left, weights, strict=True):
            trial.weight = float(weight)
        return trials

    @property
    def _late(self) -> bool:
        """Whether the limit of time has passed, and there is a model already."""
        spent = time.monotonic() - self._begun
        return self._complete and self.plan.seconds is not None and spent > self.plan.seconds

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

    def _new(self, candidate: Candidate) -> Trial:
        """A trial before its first training."""
        rows, queries = self._data.n_documents, len(self._data.queries)
        return Trial(candidate, {}, np.full(rows, np.nan), np.full(queries, np.nan))

    def _train(self, trial: Trial, number: int, fold: int) -> bool:
        """The training of a candidate that leaves out this fold.

        Returns:
            Whether there is one: where a candidate cannot be trained the reason is kept, and what others gave not lost.
        """
        candidate, begun = trial.candidate, time.monotonic()
        rounds = min(self.plan.rounds, candidate.rounds or self.plan.rounds)
        params = {**self._params(candidate), **self.plan.trees, **candidate.trees}
        stopper = EarlyStopping(self._patience, metric=self._metric, min_delta=self._min_delta)
        shown = () if self._watch is None else self._watch.callbacks(candidate, fold, stopper)
        try:
            model, scores = self._dealt.train(
                fold, params | {"seed": self._seed + self.plan.folds * number + fold}, rounds,
                callbacks=[*shown, *([_AtOnce(stopper)] if self._patience else [])], conventions=self._conventions,
                start=candidate.start, within_query=self._within, max_trees=self._limit.trees,
            )  # fmt: skip
        except BoostrankError as error:
            self._failed.append((candidate.name, error))
            trial.models.clear()
            return False
        trial.models[fold] = model
        trial.scores[self._fold_of_row == fold] = scores
        self._measure(trial)
        if self._watch is not None and not self._watch.trained(candidate, fold, model):
            self._stopped = True
        trial.seconds += time.monotonic() - begun
        return True

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

    def _compare(self, trial: Trial, best: Trial) -> None:
        """One with the best, query by query, where both have been measured."""
        both = np.isfinite(trial.per_query) & np.isfinite(best.per_query)
        trial.difference = {}
        if trial is best or both.sum() < FEWEST:
            return
        weights = self._data.queries.each_weight[both]
        found = paired_difference(
            trial.per_query[both], best.per_query[both], weights=weights, resamples=RESAMPLES, seed=self._seed
        )
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
