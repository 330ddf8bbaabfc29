"""Training on folds, averaged: every query trains, every query is held out once, and one model file comes of it.

With a validation set one part of the data chooses the round and is lost to the trees. Here each of K models stops on a
fold of its own, and their mean has learnt from all queries (Breiman 1996, "Bagging predictors"; van der Laan et al.
2007, "Super learner", for the cross-validated choice). `make selection` measures what that is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.backends import get_backend
from boostrank.backends.base import Backend
from boostrank.backends.events import Callback
from boostrank.backends.limits import Limits
from boostrank.core.arguments import takes
from boostrank.core.errors import ParameterError
from boostrank.core.gains import Gain
from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.part import Whole
from boostrank.metric import BoundMetrics, Conventions
from boostrank.training.averaging import average
from boostrank.training.categories import with_categories
from boostrank.training.cross_fit import CrossFitted, FoldStarts
from boostrank.training.gain import with_gain
from boostrank.training.model import RankingModel
from boostrank.training.params import headline, pop_seed, split_params
from boostrank.training.price import Limit, Member, Prices, bind_metric
from boostrank.training.provenance import describe_data
from boostrank.training.query_folds import fold_numbers
from boostrank.training.single import run, warn_of_weights
from boostrank.training.start import AUTO_START
from boostrank.training.start_rows import FOLDS
from boostrank.training.within_choice import choose_within_query
from boostrank.training.within_query import WithinQuery

OfFold = Callable[[int, RankingModel], bool]
"""Called with the number of a fold, from 0, and its model; whether the next fold is to be trained."""


@takes(
    params=Mapping | None, train_set=RankingDataset, folds=int, callbacks=Callable | None, after=Callable | None,
    backend=str,
)  # fmt: skip
def train_folds(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    num_boost_round: int = 100,
    *,
    folds: int = 5,
    callbacks: Callable[[int], Sequence[Callback]] | None = None,
    after: OfFold | None = None,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    start: RankingModel | str | None = AUTO_START,
    within_query: WithinQuery | str | Sequence[str] | None = None,
    max_trees: int | None = None,
    max_microseconds: float | None = None,
) -> RankingModel:
    """Train one model for each fold on the queries outside of it, stopped on those inside, and average the models.

    Args:
        params: as for `boostrank.train`; `early_stopping_round` stops each model on its fold. The k-th model's seed
            is larger by k.
        train_set: features in memory. They are binned once: LightGBM's bins, and the quantiles of starts, are those of
            all rows, held-out ones among them; XGBoost's bins are those of the first training's rows. None knows a
            label.
        num_boost_round: of each model, at most.
        folds: of whole queries, at least 2: as many trainings, and as many times the trees.
        callbacks: of the k-th training. Where there are none, nor `after` and early stopping, the metrics are measured
            once, after the last round.
        after: called with each model.
        backend: "lightgbm" or "xgboost".
        conventions: of the metrics.
        start, within_query: as for `boostrank.train`; "auto" is asked once, of all queries.
        max_trees, max_microseconds: as for `boostrank.train`, of the average: its models go with fewer rounds each, or
            one of them alone where held-out queries say surely that this is better.

    Returns:
        The averaged model. `info["folds"]` holds the rounds of each, and each metric over all queries that were held
        out, every one by the model that had not seen it: what single models are worth. The average is usually worth
        more.

    Raises:
        InputError: as `boostrank.train` and `query_folds`.
    """
    rest, train_set, _ = with_categories(params, train_set)
    rest, train_set, _, conventions = with_gain(rest, train_set, None, conventions)
    engine, limit = get_backend(backend), Limit(max_trees, max_microseconds)
    limit.check(backend, train_set)
    if not engine.format.averages:
        raise ParameterError(f"folds: their models are averaged, and models of {backend} cannot be")
    warn_of_weights(train_set)
    seed = pop_seed(rest)
    checked = split_params(rest, num_boost_round, engine)
    rules = Conventions.of(conventions, checked.gain)
    within = WithinQuery.given(within_query)
    if within is not None and within.is_auto:
        within = choose_within_query(
            run, within, rest | {"seed": seed}, train_set, num_boost_round, backend=backend, conventions=conventions,
            start=start,
        )  # fmt: skip
    models: list[RankingModel] = []
    together = np.full(train_set.n_documents, np.nan)
    values: dict[str, list[Float64Array]] = {}
    weights: list[Float64Array] = []
    dealt = DealtFolds(train_set, folds, seed, engine)
    # What nobody looks at is not measured.
    watched = bool(callbacks or after or checked.stopping_rounds)
    for k in range(folds):
        model, scores = dealt.train(
            k, rest | {"seed": seed + k}, num_boost_round, callbacks=callbacks(k) if callbacks else (),
            conventions=conventions, start=start, within_query=within, watched=watched,
            max_trees=max_trees,
        )  # fmt: skip
        if not models:
            average([model])  # what cannot be averaged is said before the others are trained
        models.append(model)
        together[np.repeat(dealt.fold == k, train_set.queries.sizes)] = scores
        inside = dealt.held_out(k)
        measured = BoundMetrics(checked.metrics, inside.labels, inside.queries, rules, checked.threads)
        for name, per_query in measured.per_query(scores).items():
            values.setdefault(name, []).append(per_query)
        weights.append(inside.queries.each_weight)
        if after is not None and not after(k, model):
            break
    one = average(models)
    price = {}
    if limit:
        metric = headline(checked.metrics)
        if metric is None:
            raise ParameterError("max_trees, max_microseconds: folds are cut by a metric: metric='ndcg'")
        prices = Prices(
            [Member("folds", dict(enumerate(models)), together)], train_set, dealt.fold,
            bind_metric(metric, rules, checked.threads), checked.threads,
        )  # fmt: skip
        trees = limit.in_trees(one, train_set)
        assert trees is not None
        cut = prices.at(trees)
        one = average(*prices.models(cut))
        price = {"price": prices.record(cut) | limit.record(trees)}
    held_out = {name: _mean(np.concatenate(v), np.concatenate(weights)) for name, v in values.items()}
    rounds = [model.best_iteration for model in models]
    one.info |= {"folds": {"folds": folds, "rounds": rounds, "held_out": held_out}} | price
    one.info |= {"data": describe_data(train_set, train_set.queries)}
    return one


class DealtFolds:
    """Whole queries of a data set dealt into folds; trainings that leave one out share bins and starts.

    Args:
        data: features in memory.
        folds: at least 2.
        seed: of the deal.
        engine: that trains.
        counted: as of `fold_numbers`.

    Attributes:
        fold: int64[Q], of each query.
    """

    def __init__(
        self, data: RankingDataset, folds: int, seed: int, engine: Backend,
        counted: npt.NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        numbers = fold_numbers(data, folds, seed, counted)
        self.fold = numbers % folds
        self._data, self._engine = data, engine
        self._part = Whole(data).part if engine.shares_bins else data.take
        inner = (numbers // folds + self.fold) % FOLDS  # shifted: folds of one query have different ones
        self._starts = FoldStarts(self.fold, inner)
        self._made: dict[Any, CrossFitted] = {}

    def held_out(self, fold: int) -> RankingDataset:
        """The queries of a fold."""
        return self._part(np.flatnonzero(self.fold == fold))

    def train(
        self, fold: int, params: Mapping[str, Any], num_boost_round: int, *, callbacks: Sequence[Callback] = (),
        conventions: Conventions | str | None = None, start: RankingModel | str | None = AUTO_START,
        within_query: WithinQuery | None = None, watched: bool = True, max_trees: int | None = None,
    ) -> tuple[RankingModel, Float64Array]:  # fmt: skip
        """Train on the queries outside of a fold; the model, and its scores of those inside, float64[n].

        Args:
            fold: that is left out.
            params, num_boost_round, callbacks, conventions, start, within_query: as for `boostrank.train`.
            watched: whether metrics of the fold are measured each round.
            max_trees: as of `run`.
        """
        outside, inside = self._part(np.flatnonzero(self.fold != fold)), self.held_out(fold)
        kept = _Kept()
        valid = {"held out": inside} if watched or self._engine.scores_bins else {}
        model = run(
            params, outside, num_boost_round, list(valid.values()), list(valid), kept.take,
            callbacks=[kept, *callbacks], backend=self._engine.name, conventions=conventions, start=start,
            within_query=within_query,
            fitted=partial(self._start, fold) if self._engine.shares_bins else None, measured=watched,
            max_trees=max_trees,
        )  # fmt: skip
        scores = kept.scores(model.best_iteration)
        if scores is None:
            scores = model.predict(self._data.take(np.flatnonzero(self.fold == fold)))
        return model, scores

    def _start(self, fold: int, data: RankingDataset, gain: Gain, threads: int, limits: Limits) -> CrossFitted:
        """The start of trainings that leave out a fold: the same for all that have the same gain and limits."""
        key = fold, gain, data.n_features, limits.direction.tobytes(), limits.unused
        if key not in self._made:
            self._made[key] = self._starts.without(fold, data, gain, threads, limits)
        return self._made[key]


class _Kept:
    """Callback that keeps the held-out scores of the last round, and of the best one by each metric.

    One of them is the model's: what the training has added up need not be predicted again.
    """

    before_iteration = False
    order = 26  # before early stopping, which ends the round by an exception

    def __init__(self) -> None:
        self._now = np.zeros(0)
        self._last = 0, self._now
        self._best: dict[str, tuple[float, int, Float64Array]] = {}

    def take(self, scores: npt.NDArray[Any], dataset: Any) -> list[Any]:
        """The scores of a round, as a metric that has no values."""
        self._now = np.array(scores, np.float64).reshape(-1)
        return []

    def __call__(self, env: Any) -> None:
        self._last = env.iteration + 1, self._now
        for _, name, value, *_ in env.evaluation_result_list or []:
            if name not in self._best or value > self._best[name][0]:
                self._best[name] = value, *self._last

    def scores(self, rounds: int) -> Float64Array | None:
        """float64[n] by so many rounds, where they are there."""
        kept = [self._last, *(one[1:] for one in self._best.values())]
        return next((scores for at, scores in kept if at == rounds and scores.size), None)


def _mean(per_query: Float64Array, weights: Float64Array) -> dict[str, float]:
    counted = ~np.isnan(per_query)
    share = weights[counted] / weights[counted].sum()
    low, high = bootstrap_intervals(per_query[counted][:, None], weights[counted])
    return {
        "value": float(share @ per_query[counted]), "low": float(low[0]), "high": float(high[0]),
        "queries": int(counted.sum()),
    }  # fmt: skip
