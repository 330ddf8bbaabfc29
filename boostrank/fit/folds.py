"""Folds of whole queries. `each` trains a model without each fold, and `train_folds` averages the models.

Each of the K models is stopped early on a different fold, so their mean is trained on all queries (Breiman 1996,
"Bagging predictors"). `make selection` measures the improvement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Gain
from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError, warn_user
from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Whole
from boostrank.engines.params import Limits
from boostrank.fit.plan import Member, Plan
from boostrank.fit.run import describe_data, run
from boostrank.fit.start.cross_fit import CrossFitted, FoldStarts
from boostrank.fit.start.ridge import FOLDS
from boostrank.metrics import BoundMetrics
from boostrank.model.averaging import average, capped, count_trees, deviation
from boostrank.model.ranking_model import RankingModel

FoldEnded = Callable[[int, Member, RankingModel], bool]
"""Called after each fold with its number, from 0; returns False to skip the remaining folds."""
HELD_OUT = "held out"
"""Name of a fold when it is the validation set."""


def fold_numbers(
    data: RankingDataset, folds: int, seed: int, counted: npt.NDArray[np.bool_] | None = None
) -> Int64Array:
    """Number the queries from 0 to Q - 1 at random, int64[Q], so that the numbers modulo `folds` are the folds.

    Args:
        counted: bool[Q], the queries included in the metric. If a fold would have fewer than two of them, they are
            distributed first, so that each fold gets the same number. With None, all queries are treated alike.
    """
    count = len(data.queries)
    if not 2 <= folds <= count:
        raise ParameterError(f"folds={folds} must be at least 2 and at most the number of training queries, {count}")
    if data.on_disk:
        raise DataError("rows on disk cannot be split into folds: read them into memory (--route memory)")
    numbers = np.random.default_rng(seed).permutation(count)
    if counted is not None and np.bincount(numbers[counted] % folds, minlength=folds).min() < 2:
        numbers[np.lexsort((numbers, ~counted))] = np.arange(count)
    return numbers


class Deal:
    """Assignment of a plan's training queries to folds.

    Args:
        shares: whether the trainings share bins and linear starts. Otherwise, each copies its rows.

    Attributes:
        fold: int64[Q], the fold of each query.
        count: number of folds.
    """

    def __init__(
        self, plan: Plan, folds: int, counted: npt.NDArray[np.bool_] | None = None, *, shares: bool = True
    ) -> None:
        numbers = fold_numbers(plan.train_set, folds, plan.seed, counted)
        self.fold, self.count, self._data = numbers % folds, folds, plan.train_set
        binned = plan.engine.shares_bins and shares
        self._part = Whole(plan.train_set).part if binned else plan.train_set.take
        inner = (numbers // folds + self.fold) % FOLDS  # shifted to vary the inner folds between folds
        self._starts = FoldStarts(self.fold, inner) if binned else None
        self._made: dict[Any, CrossFitted] = {}

    def plan(self, plan: Plan, fold: int, *, watched: bool) -> Plan:
        """Return a training plan that leaves out a fold. If `watched`, the fold is the validation set."""
        train_set = self._part(np.flatnonzero(self.fold != fold))
        valid = ((HELD_OUT, self._part(np.flatnonzero(self.fold == fold))),) if watched else ()
        fitted = None if self._starts is None else partial(self._start, fold)
        return replace(plan, train_set=train_set, valid=valid, measured=watched, fitted=fitted)

    def held_out(self, fold: int) -> RankingDataset:
        """Return a copy of the queries in a fold."""
        return self._data.take(np.flatnonzero(self.fold == fold))

    def rows(self, fold: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows in a fold, bool[N]."""
        return np.repeat(self.fold == fold, self._data.queries.sizes)

    def _start(self, fold: int, data: RankingDataset, gain: Gain, threads: int, limits: Limits) -> CrossFitted:
        """Return the linear start that leaves out a fold, cached by gain and limits."""
        assert self._starts is not None
        key = fold, gain, data.n_features, limits.direction.tobytes(), limits.unused
        if key not in self._made:
            self._made[key] = self._starts.without(fold, data, gain, threads, limits)
        return self._made[key]


@dataclass(frozen=True)
class Variant:
    """A training that leaves out a fold. If it fails, `instead` replaces it."""

    name: Any
    plan: Plan
    instead: Variant | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model from a training that left out a fold."""

    fold: int
    variant: Variant
    model: RankingModel
    held_out: RankingDataset

    @cached_property
    def scores(self) -> Float64Array:
        """Scores of the rows in the fold, float64[n]."""
        return self.model.predict(self.held_out, threads=self.variant.plan.settings.threads)


def each(
    plan: Plan, deal: Deal | None, variants: Callable[[Plan, int], Iterable[Variant]], *, watched: bool, folds: int = 0
) -> Iterator[Fitted]:
    """Train every variant once for each fold, without the queries in that fold.

    Args:
        deal: assignment of queries to folds; if None, the plan's validation set is the only fold.
        folds: number of folds to leave out, starting with the first fold; 0 for all folds.
    """
    for fold in range(1 if deal is None else folds or deal.count):
        if deal is None:
            held_out, of_fold = plan.others[0], replace(plan, valid=plan.valid if watched else (), measured=watched)
        else:
            held_out, of_fold = deal.held_out(fold), deal.plan(plan, fold, watched=watched)
        for variant in variants(of_fold, fold):
            try:
                model = run(variant.plan)
            except BoostrankError as error:
                if variant.instead is None:
                    raise
                other = variant.instead
                warn_user(f"fold {fold + 1}: {variant.name}: {error}; trained as {other.name} instead", DataWarning)
                variant, model = other, run(other.plan)
            yield Fitted(fold, variant, model, held_out)


def train_folds(plan: Plan, fold_ended: FoldEnded | None = None) -> RankingModel:
    """Train each member of the recipe on the queries outside its fold, and average the models.

    Queries in validation sets are added to the folds. Each model is stopped early on its fold. The seed increases by 1
    for each model. Models from different members are scaled by the deviation of their scores within held-out queries
    before they are averaged. Bins, and the quantiles of linear starts, are computed once from all rows, without their
    labels.

    Returns:
        The averaged model. `info["folds"]` contains the members, the number of rounds of each, and each metric over all
        held-out queries, which were scored by the models trained without them.
    """
    joined, ends = join_validation(plan)
    data, members, trees, seed = joined.train_set, plan.recipe.members, plan.options.max_trees, plan.seed
    engine, settings, options = plan.engine, joined.settings, plan.options
    bound = BoundMetrics(settings.metrics, data.labels, data.queries, joined.rules, settings.threads)
    metric, main, counted = joined.metric, joined.watched, None
    if main is not None and main.function is None:
        of_main = BoundMetrics(main, data.labels, data.queries, joined.rules, settings.threads)
        counted = np.isfinite(of_main.per_query(np.zeros(data.n_documents))[str(main)])
    deal = Deal(joined, plan.recipe.folds, counted)
    trained: list[Member] = []

    def variants(of_fold: Plan, fold: int) -> Iterator[Variant]:
        def variant(member: Member, instead: Variant | None = None) -> Variant:
            rounds = min(plan.rounds, member.rounds or plan.rounds)
            one = replace(of_fold, params=member.over(of_fold.params), rounds=rounds).seeded(seed + fold)
            one = replace(one, begins_linear=member.begins_linear, at_once=member.objective is not None)
            return Variant(member, one.with_options(start=member.start, checkpoint=checkpoint), instead)

        checkpoint = options.checkpoint and options.checkpoint.of_fold(fold)
        member = members[fold]
        yield variant(member, None if member in (members[0], *trained) else variant(members[0]))

    kinds = {"boosting", "booster"} & engine.params.named(settings.engine).keys()
    watched = bool(options.callbacks or fold_ended or options.feval or settings.stopping_rounds)
    fitted: list[Fitted] = []
    for one in each(joined, deal, variants, watched=watched, folds=len(members)):
        if not fitted and kinds:
            average([one.model])  # refuse models that cannot be averaged, such as dart, after the first fold
        fitted.append(one)
        trained.append(one.variant.name)
        if fold_ended is not None and not fold_ended(one.fold, one.variant.name, one.model):
            break
    models = [one.model for one in fitted]
    models = models if trees is None else capped(models, trees)
    # Score each fold with the model trained without it.
    scores, apart = np.zeros(data.n_documents), []
    for one, model in zip(fitted, models, strict=True):
        own = replace(one, model=model).scores
        scores[deal.rows(one.fold)] = own
        apart.append(deviation(own, one.held_out.queries))
    # Average the models; bring different members to a common scale first.
    alike = all(member == trained[0] for member in trained)
    scale = None if alike else float(np.mean(apart)) / len(models)
    mean = average(models, None if scale is None else [scale / each_one for each_one in apart])
    if trees is not None:
        mean.info |= {"price": {"trees": count_trees(mean), "max_trees": trees}}
    values = bound.per_query(scores)
    seen, weights = np.isin(deal.fold, np.arange(len(models))), data.queries.each_weight

    def measured(name: str, queries: slice = slice(None)) -> dict[str, Any]:
        return _mean(np.where(seen, values[name], np.nan)[queries], weights[queries])

    of_sets = [slice(a, b) for a, b in itertools.pairwise(ends)]
    record = {
        "folds": plan.recipe.folds,
        "metric": metric,
        "rounds": [model.best_iteration for model in models],
        "members": [member.name for member in trained],
        "held_out": {name: measured(name) for name in values},
        "valid": [] if metric is None else [measured(metric, part) for part in of_sets],
    }
    mean.info |= {"folds": record, "data": describe_data(data)}
    return mean


def join_validation(plan: Plan) -> tuple[Plan, list[int]]:
    """Append the validation queries to the training queries, and return the plan and the end of each set's queries."""
    data, ends = plan.train_set, [len(plan.train_set.queries)]
    for one in plan.others:
        data = data.joined(one.like(plan.train_set))
        ends.append(len(data.queries))
    return replace(plan, train_set=data, valid=()), ends


def _mean(per_query: Float64Array, weights: Float64Array) -> dict[str, Any]:
    """Return the weighted mean over the included queries and its 95% interval."""
    counted = np.isfinite(per_query)
    if not counted.any():
        return {"value": None, "low": None, "high": None, "queries": 0}
    share = weights[counted] / weights[counted].sum()
    low, high = bootstrap_intervals(per_query[counted][:, None], weights[counted])
    value = float(share @ per_query[counted])
    return {"value": value, "low": float(low[0]), "high": float(high[0]), "queries": int(counted.sum())}
