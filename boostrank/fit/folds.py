"""Training on folds, averaged: every query trains, every query is held out once, and one model file comes of it.

A validation set chooses the round and is lost to the trees. Here each of K models stops on a fold of its own, and their
mean has learnt from all queries (Breiman 1996, "Bagging predictors"; van der Laan et al. 2007, "Super learner", for the
cross-validated choice). `make selection` measures what that is worth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import BoostrankError, DataWarning, ParameterError, warn_user
from boostrank.core.gains import Gain
from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.part import Whole
from boostrank.engines import get_backend
from boostrank.engines.base import Backend
from boostrank.engines.params import Limits
from boostrank.engines.rounds import Callback
from boostrank.fit.categories import with_categories
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.choose import choose_within_query
from boostrank.fit.gain import with_gain
from boostrank.fit.params import headline, pop_seed, split_params
from boostrank.fit.presets import Member
from boostrank.fit.provenance import describe_data
from boostrank.fit.query_folds import fold_numbers
from boostrank.fit.run import run, warn_of_weights
from boostrank.fit.start.begin import AUTO_START
from boostrank.fit.start.cross_fit import CrossFitted, FoldStarts
from boostrank.fit.start.rows import FOLDS
from boostrank.metric import BoundMetrics, Conventions
from boostrank.model.averaging import average, deviation
from boostrank.model.price import Limit, capped, count_trees
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery

OfFold = Callable[[int, Member, RankingModel], bool]
"""Called with the number of a fold, from 0, its member and its model; returns whether to train the next fold."""


def train_folds(
    params: Mapping[str, Any] | None, train_set: RankingDataset, num_boost_round: int, members: Sequence[Member],
    valid_sets: Sequence[RankingDataset] = (), feval: Any = None, callbacks: Sequence[Callback] = (), *,
    after: OfFold | None = None, backend: str = "lightgbm", conventions: Conventions | str | None = None,
    checkpoint: Checkpoint | None = None, within_query: WithinQuery | str | Sequence[str] | None = None,
    limit: Limit | None = None, folds: int | None = None,
) -> RankingModel:  # fmt: skip
    """Train a model for each fold on the queries outside of it, stop it on those inside, and average the models.

    Args:
        params: as for `boostrank.train`; `early_stopping_round` stops each model on its fold. The k-th model's seed
            is larger by k.
        train_set: features in memory. They are binned once: bins, and the quantiles of linear starts, are computed from
            all rows, including held-out ones. Labels are not used.
        num_boost_round: maximum of each model.
        members: of each fold, how it is trained; at least 2. Models of different members are averaged on a common
            scale: scores divided by their deviation within held-out queries.
        valid_sets: their queries are dealt into the folds with those of the training set.
        feval, callbacks: as for `boostrank.train`; called in every fold's training.
        after: called with each model.
        backend, conventions, within_query: as for `boostrank.train`; "auto" is asked once, of all queries.
        checkpoint: each fold writes a file of its own, `PATH.1`, `PATH.2`, ...
        limit: on the trees of the average: its models are cut to fewer rounds.
        folds: that queries are dealt into, where there are more than members: the last ones are never left out.

    Returns:
        The averaged model. `info["folds"]` holds the members, the rounds of each, and each metric over all held-out
        queries, every query scored by the model that had not seen it.

    Raises:
        InputError: as `boostrank.train` and `query_folds`.
    """
    folds, limit = folds or len(members), limit or Limit()
    rest, train_set, others = with_categories(params, train_set, list(valid_sets))
    rest, train_set, others, conventions = with_gain(rest, train_set, others, conventions)
    engine = get_backend(backend)
    limit.check(backend, train_set)
    if not engine.format.averages:
        raise ParameterError(f"folds: their models are averaged, and models of {backend} cannot be")
    data, ends = train_set, [len(train_set.queries)]
    for one in others:
        data = data.joined(one.like(train_set))
        ends.append(len(data.queries))
    warn_of_weights(data)
    seed = pop_seed(rest)
    checked = split_params(rest, num_boost_round, engine)
    metric = headline(checked.metrics)
    within = WithinQuery.given(within_query)
    if within is not None and within.is_auto:
        within = choose_within_query(
            run, within, rest | {"seed": seed}, data, num_boost_round, backend=backend, conventions=conventions,
            start=members[0].start,
        )  # fmt: skip
    bound = BoundMetrics(
        checked.metrics, data.labels, data.queries, Conventions.of(conventions, checked.gain), checked.threads
    )  # fmt: skip
    counted = None if metric is None else np.isfinite(bound.per_query(np.zeros(data.n_documents))[metric])
    dealt = DealtFolds(data, folds, seed, engine, counted)
    kinds = {"boosting", "booster"} & engine.main_names(checked.engine).keys()
    watched = bool(callbacks or after or feval or checked.stopping_rounds)  # otherwise no metric is measured
    models: list[RankingModel] = []
    trained: list[Member] = []
    for k, member in enumerate(members):

        def train(member: Member, k: int = k) -> RankingModel:
            return dealt.train(
                k, member.over(rest) | {"seed": seed + k}, min(num_boost_round, member.rounds or num_boost_round),
                feval=feval, callbacks=callbacks, conventions=conventions, start=member.start, within_query=within,
                watched=watched, max_trees=limit.trees, at_once=member.objective is not None,
                begins_linear=member.begins_linear,
                checkpoint=None if checkpoint is None else checkpoint.of_fold(k),
            )  # fmt: skip

        try:
            model = train(member)
        except BoostrankError as error:
            if member in (members[0], *trained):
                raise
            warn_user(f"fold {k + 1}: {member.name}: {error}; trained as {members[0].name} instead", DataWarning)
            member = members[0]
            model = train(member)
        if not models and kinds:
            average([model])  # what cannot be averaged, such as dart, is refused before the others are trained
        models.append(model)
        trained.append(member)
        if after is not None and not after(k, member, model):
            break
    trees = limit.in_trees(average(models), data) if limit else None
    models = models if trees is None else capped(models, trees)
    scores, apart = np.zeros(data.n_documents), []
    for k, model in enumerate(models):
        inside = dealt.held_out(k, copied=True)
        scores[dealt.rows(k)] = own = model.predict(inside, threads=checked.threads)
        apart.append(deviation(own, inside.queries))
    # The mean of the models; of different members on the scale of one of them.
    scale = None if all(member == trained[0] for member in trained) else float(np.mean(apart)) / len(models)
    one = average(models, None if scale is None else [scale / each for each in apart])
    if trees is not None:
        one.info |= {"price": {"trees": count_trees(one)} | limit.record(trees)}
    values = bound.per_query(scores)
    seen, weights = np.isin(dealt.fold, np.arange(len(models))), data.queries.each_weight

    def measured(name: str, queries: slice = slice(None)) -> dict[str, Any]:
        return _mean(np.where(seen, values[name], np.nan)[queries], weights[queries])

    of_sets = [slice(a, b) for a, b in itertools.pairwise(ends)]
    one.info |= {
        "folds": {
            "folds": folds, "metric": metric, "rounds": [model.best_iteration for model in models],
            "members": [member.name for member in trained], "held_out": {name: measured(name) for name in values},
            "valid": [] if metric is None else [measured(metric, part) for part in of_sets],
        },
        "data": describe_data(data, data.queries),
    }  # fmt: skip
    return one


class DealtFolds:
    """Whole queries of a data set dealt into folds; trainings that leave one out share bins and starts.

    Args:
        data: features in memory.
        folds: at least 2.
        seed: of the deal.
        engine: that trains.
        counted: as for `fold_numbers`.

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

    def held_out(self, fold: int, *, copied: bool = False) -> RankingDataset:
        """The queries of a fold; `copied`: with rows of their own, which can be predicted."""
        return (self._data.take if copied else self._part)(np.flatnonzero(self.fold == fold))

    def rows(self, fold: int) -> npt.NDArray[np.bool_]:
        """bool[N], the rows of a fold."""
        return np.repeat(self.fold == fold, self._data.queries.sizes)

    def train(
        self, fold: int, params: Mapping[str, Any], num_boost_round: int, *, feval: Any = None,
        callbacks: Sequence[Callback] = (), conventions: Conventions | str | None = None,
        start: RankingModel | str | None = AUTO_START, within_query: WithinQuery | None = None, watched: bool = True,
        max_trees: int | None = None, checkpoint: Checkpoint | None = None, **own: bool,
    ) -> RankingModel:  # fmt: skip
        """Train on the queries outside of a fold.

        Args:
            fold: that is left out.
            params, num_boost_round, feval, callbacks, conventions, start, within_query, checkpoint: as for
                `boostrank.train`.
            watched: measure metrics on the fold each round.
            max_trees, own: as for `run`.
        """
        outside = self._part(np.flatnonzero(self.fold != fold))
        valid = {"held out": self.held_out(fold)} if watched else {}
        return run(
            params, outside, num_boost_round, list(valid.values()), list(valid), feval, callbacks=callbacks,
            backend=self._engine.name, conventions=conventions, start=start, within_query=within_query,
            fitted=partial(self._start, fold) if self._engine.shares_bins else None, measured=watched,
            max_trees=max_trees, checkpoint=checkpoint, **own,
        )  # fmt: skip

    def _start(self, fold: int, data: RankingDataset, gain: Gain, threads: int, limits: Limits) -> CrossFitted:
        """The start of trainings that leave out a fold: the same for all that have the same gain and limits."""
        key = fold, gain, data.n_features, limits.direction.tobytes(), limits.unused
        if key not in self._made:
            self._made[key] = self._starts.without(fold, data, gain, threads, limits)
        return self._made[key]


def _mean(per_query: Float64Array, weights: Float64Array) -> dict[str, Any]:
    """Weighted mean over the queries that count, with its 95% interval."""
    counted = np.isfinite(per_query)
    if not counted.any():
        return {"value": None, "low": None, "high": None, "queries": 0}
    share = weights[counted] / weights[counted].sum()
    low, high = bootstrap_intervals(per_query[counted][:, None], weights[counted])
    return {
        "value": float(share @ per_query[counted]), "low": float(low[0]), "high": float(high[0]),
        "queries": int(counted.sum()),
    }  # fmt: skip
