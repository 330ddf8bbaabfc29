"""Folds of whole queries: `each`, the one loop that trains without each of them, and what is made of such models.

`train_folds` averages the models; `choose_within_query` cross-validates.

A validation set chooses the round and is lost to the trees. Here each of K models stops on a fold of its own, and their
mean has learnt from all queries (Breiman 1996, "Bagging predictors"; van der Laan et al. 2007, "Super learner", for the
cross-validated choice). `make selection` measures what that is worth.

Columns within queries are chosen by the same loop, all or none. They help where what a document has beside others tells
more than what it has. Elsewhere they cost: trees of few queries find more in them that is not there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError, warn_user
from boostrank.core.gains import Gain
from boostrank.core.resampling import bootstrap_intervals, paired_difference
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Whole
from boostrank.engines.params import Limits
from boostrank.fit.observe import SILENT, Observer
from boostrank.fit.plan import Member, Plan
from boostrank.fit.provenance import describe_data
from boostrank.fit.run import run
from boostrank.fit.start.cross_fit import CrossFitted, FoldStarts
from boostrank.fit.start.rows import FOLDS
from boostrank.metric import BoundMetrics
from boostrank.model.averaging import average, deviation
from boostrank.model.price import capped, count_trees
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery

CHOICE_FOLDS = 4
"""Number of folds by which columns within queries are chosen."""
HELD_OUT = "held out"
"""Name of the validation set that a fold is."""


def fold_numbers(
    data: RankingDataset, folds: int, seed: int, counted: npt.NDArray[np.bool_] | None = None
) -> Int64Array:
    """Number the queries from 0 to Q - 1 at random, int64[Q]; modulo `folds` they are the folds.

    Args:
        data: in memory.
        folds: at least 2.
        seed: of the permutation.
        counted: bool[Q], the queries that a metric counts: where chance would leave a fold with less than two of them,
            they are dealt first, so that each fold gets as many; None: all are alike.

    Raises:
        ParameterError: less than two folds, or more than queries.
        DataError: rows that lie on disk.
    """
    count = len(data.queries)
    if not 2 <= folds <= count:
        raise ParameterError(f"folds={folds}: from 2 to the number of training queries, {count}")
    if data.on_disk:
        raise DataError("rows that lie on disk cannot be put into folds: read them to memory (--route memory)")
    numbers = np.random.default_rng(seed).permutation(count)
    if counted is not None and np.bincount(numbers[counted] % folds, minlength=folds).min() < 2:
        numbers[np.lexsort((numbers, ~counted))] = np.arange(count)
    return numbers


class Deal:
    """Whole queries of a plan's training set, dealt into folds.

    Args:
        plan: a training on all queries.
        folds: at least 2.
        counted: as for `fold_numbers`.
        shares: what the trainings have in common: "starts" (bins and linear starts), "bins", "" (nothing: each
            fold's rows are copied).

    Attributes:
        fold: int64[Q], of each query.
        count: number of folds.
    """

    def __init__(
        self, plan: Plan, folds: int, counted: npt.NDArray[np.bool_] | None = None, *, shares: str = "starts"
    ) -> None:
        numbers = fold_numbers(plan.train_set, folds, plan.seed, counted)
        self.fold, self.count, self._data = numbers % folds, folds, plan.train_set
        binned = plan.engine.shares_bins and shares != ""
        self._part = Whole(plan.train_set).part if binned else plan.train_set.take
        inner = (numbers // folds + self.fold) % FOLDS  # shifted: folds of one query have different ones
        self._starts = FoldStarts(self.fold, inner) if binned and shares == "starts" else None
        self._made: dict[Any, CrossFitted] = {}

    def plan(self, plan: Plan, fold: int, *, watched: bool) -> Plan:
        """The training that leaves out a fold; `watched`: with the fold as its validation set."""
        inside = ((HELD_OUT, self._part(np.flatnonzero(self.fold == fold))),) if watched else ()
        fitted = None if self._starts is None else partial(self._start, fold)
        return replace(
            plan,
            train_set=self._part(np.flatnonzero(self.fold != fold)),
            valid=inside,
            measured=watched,
            fitted=fitted,
        )

    def held_out(self, fold: int) -> RankingDataset:
        """The queries of a fold, with rows of their own."""
        return self._data.take(np.flatnonzero(self.fold == fold))

    def rows(self, fold: int) -> npt.NDArray[np.bool_]:
        """bool[N], the rows of a fold."""
        return np.repeat(self.fold == fold, self._data.queries.sizes)

    def _start(self, fold: int, data: RankingDataset, gain: Gain, threads: int, limits: Limits) -> CrossFitted:
        """The start of trainings that leave out a fold: the same for all that have the same gain and limits."""
        assert self._starts is not None
        key = fold, gain, data.n_features, limits.direction.tobytes(), limits.unused
        if key not in self._made:
            self._made[key] = self._starts.without(fold, data, gain, threads, limits)
        return self._made[key]


@dataclass(frozen=True)
class Variant:
    """A training of a fold.

    Args:
        name: whatever tells it from the fold's other trainings.
        plan: the training.
        instead: another one if it fails; None: the failure is raised.
    """

    name: Any
    plan: Plan
    instead: Variant | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model that has not seen a fold.

    Args:
        fold: its number, from 0.
        variant: how it was trained.
        model: the model.
        held_out: the queries of the fold.
    """

    fold: int
    variant: Variant
    model: RankingModel
    held_out: RankingDataset

    @cached_property
    def scores(self) -> Float64Array:
        """float64[n], of the rows of the fold."""
        return self.model.predict(self.held_out, threads=self.variant.plan.settings.threads)


def each(
    plan: Plan, deal: Deal | None, variants: Callable[[Plan, int], Iterable[Variant]], *, watched: bool, folds: int = 0
) -> Iterator[Fitted]:
    """Train every variant without each fold, one fold after another.

    Args:
        plan: a training on all queries.
        deal: their folds; None: the plan's validation set is the one fold, of which no query is trained on.
        variants: the trainings of a fold, from its plan and its number.
        watched: whether the fold is the validation set of its trainings.
        folds: number of folds that are left out, the first ones; 0: all.

    Raises:
        InputError, TrainingError: as `run`.
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


def train_folds(plan: Plan, observer: Observer = SILENT) -> RankingModel:
    """Train a model for each member of the recipe on the queries outside of its fold, and average the models.

    Each model stops on its fold. The k-th model's seed is larger by k. Models of different members are averaged on a
    common scale: scores divided by their deviation within held-out queries. Features are binned once: bins, and the
    quantiles of linear starts, are computed from all rows, including held-out ones. Labels are not used.

    Args:
        plan: whose recipe has folds. The queries of its validation sets are dealt into the folds too.
        observer: told of each model.

    Returns:
        The averaged model. `info["folds"]` holds the members, the rounds of each, and each metric over all held-out
        queries, every query scored by the model that had not seen it.

    Raises:
        InputError: as `run` and `fold_numbers`.
    """
    joined, ends = _joined(plan)
    data, members, limit, seed = joined.train_set, plan.recipe.members, plan.limit, plan.seed
    engine, settings = plan.engine, joined.settings
    bound = BoundMetrics(settings.metrics, data.labels, data.queries, joined.rules, settings.threads)
    metric = joined.metric
    counted = None if metric is None else np.isfinite(bound.per_query(np.zeros(data.n_documents))[metric])
    deal = Deal(joined, plan.recipe.folds, counted)
    trained: list[Member] = []

    def variants(of_fold: Plan, fold: int) -> Iterator[Variant]:
        def variant(member: Member, instead: Variant | None = None) -> Variant:
            rounds = min(plan.rounds, member.rounds or plan.rounds)
            one = replace(of_fold, params=member.over(of_fold.params), rounds=rounds).seeded(seed + fold)
            return Variant(
                member,
                replace(
                    one,
                    start=member.start,
                    begins_linear=member.begins_linear,
                    at_once=member.objective is not None,
                    checkpoint=checkpoint,
                ),
                instead,
            )

        checkpoint = None if plan.checkpoint is None else plan.checkpoint.of_fold(fold)
        member = members[fold]
        yield variant(member, None if member in (members[0], *trained) else variant(members[0]))

    kinds = {"boosting", "booster"} & engine.params.named(settings.engine).keys()
    watched = bool(plan.callbacks or observer is not SILENT or plan.functions or settings.stopping_rounds)
    fitted: list[Fitted] = []
    for one in each(joined, deal, variants, watched=watched, folds=len(members)):
        if not fitted and kinds:
            average([one.model])  # what cannot be averaged, such as dart, is refused before the others are trained
        fitted.append(one)
        trained.append(one.variant.name)
        if not observer.fold_ended(one.fold, one.variant.name, one.model):
            break
    models = [one.model for one in fitted]
    trees = limit.in_trees(average(models), data) if limit else None
    models = models if trees is None else capped(models, trees)
    scores, apart = np.zeros(data.n_documents), []
    for one, model in zip(fitted, models, strict=True):
        own = replace(one, model=model).scores
        scores[deal.rows(one.fold)] = own
        apart.append(deviation(own, one.held_out.queries))
    # The mean of the models; of different members on the scale of one of them.
    alike = all(member == trained[0] for member in trained)
    scale = None if alike else float(np.mean(apart)) / len(models)
    mean = average(models, None if scale is None else [scale / each_one for each_one in apart])
    if trees is not None:
        mean.info |= {"price": {"trees": count_trees(mean)} | limit.record(trees)}
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


def _joined(plan: Plan) -> tuple[Plan, list[int]]:
    """The plan with its validation queries behind the training queries; and where each set's queries end."""
    data, ends = plan.train_set, [len(plan.train_set.queries)]
    for one in plan.others:
        data = data.joined(one.like(plan.train_set))
        ends.append(len(data.queries))
    return replace(plan, train_set=data, valid=()), ends


def _mean(per_query: Float64Array, weights: Float64Array) -> dict[str, Any]:
    """Weighted mean over the queries that count, with its 95% interval."""
    counted = np.isfinite(per_query)
    if not counted.any():
        return {"value": None, "low": None, "high": None, "queries": 0}
    share = weights[counted] / weights[counted].sum()
    low, high = bootstrap_intervals(per_query[counted][:, None], weights[counted])
    value = float(share @ per_query[counted])
    return {"value": value, "low": float(low[0]), "high": float(high[0]), "queries": int(counted.sum())}


def choose_within_query(plan: Plan, observer: Observer = SILENT) -> WithinQuery:
    """Train with and without the columns on the queries outside of each fold, and compare on those inside.

    The columns are used where the 95% interval of the mean difference lies above 0.

    Args:
        plan: one training, whose `within` asks for all features; early stopping watches the fold.
        observer: told before and after.

    Returns:
        What was asked for, or no columns; `choice` holds the difference, its interval and the number of queries.

    Raises:
        InputError: as `run` and `fold_numbers`; no metric.
    """
    asked, metric, seed = plan.within, plan.metric, plan.seed
    assert asked is not None
    if metric is None:
        raise ParameterError("within_query: 'auto' compares by a metric: metric='ndcg'")
    observer.choosing(2 * CHOICE_FOLDS)
    alone = replace(plan, valid=(), functions=(), callbacks=(), checkpoint=None, keep_training_booster=False)
    deal = Deal(alone, CHOICE_FOLDS, shares="bins")

    def variants(of_fold: Plan, fold: int) -> Iterator[Variant]:
        of_fold = replace(of_fold.seeded(seed + fold), measured=True)
        yield Variant(False, replace(of_fold, within=None))
        yield Variant(True, replace(of_fold, within=replace(asked, of=None)))

    values: dict[bool, list[Any]] = {False: [], True: []}
    weights = []
    watched = bool(plan.settings.stopping_rounds)
    for one in each(alone, deal, variants, watched=watched):
        held = one.held_out
        measured = BoundMetrics([metric], held.labels, held.queries, plan.rules, plan.settings.threads)
        values[one.variant.name].append(measured.per_query(one.scores)[metric])
        if one.variant.name:
            weights.append(held.queries.each_weight)
    difference = paired_difference(
        np.concatenate(values[True]), np.concatenate(values[False]), weights=np.concatenate(weights), seed=seed
    )
    choice = {
        "kinds": list(asked.kinds),
        "used": bool(difference.low > 0.0),
        "metric": metric,
        "folds": CHOICE_FOLDS,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "queries": difference.queries,
    }
    observer.chosen(choice)
    return WithinQuery(asked.kinds if choice["used"] else (), None, choice)


def choice_words(choice: Mapping[str, Any]) -> str:
    """Describe the outcome in one line."""
    kinds = ", ".join(choice["kinds"])
    verdict = "used" if choice["used"] else "left out: no gain beyond chance"
    return (
        f"within queries, {kinds}: {choice['metric']} {choice['difference']:+.4f} [{choice['low']:+.4f}, "
        f"{choice['high']:+.4f}] with them on {choice['queries']:,} queries of {choice['folds']} folds: {verdict}"
    )
