"""Execution of a plan: a single training, or one for each fold, whose models are averaged.

Engines that store absent values train on the columns that occur. Models are cut to the limit of
trees.

With folds, each of the K models is stopped early on a different fold of whole queries, so their
mean is trained on all queries (Breiman 1996, "Bagging predictors"). `make experiment
NAME=selection` measures the improvement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from boostrank.core.errors import (
    BoostrankError,
    DataError,
    DataWarning,
    ParameterError,
    warn_user,
)
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.types import BoolArray, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Whole
from boostrank.engines.trees import engine_names
from boostrank.fit.plan import Collective, DataSets, Plan, Training
from boostrank.fit.renewal import renew_leaves
from boostrank.fit.run import run
from boostrank.fit.start.cross_fit import FoldStarts
from boostrank.fit.start.ridge import FOLDS
from boostrank.fit.tree_limit import cap_trees, check_limit
from boostrank.kernels.driver import AllReduce
from boostrank.metrics import BoundMetrics
from boostrank.model.averaging import average
from boostrank.model.ranking_model import RankingModel
from boostrank.options import QUICK


@dataclass(frozen=True)
class FoldSummary:
    """The model of a fold.

    Args:
        fold: number of the fold, from 0.
        name: name of the training.
        rounds: best number of rounds.
        metrics: each metric on the fold, if it was measured.
        seconds: wall time of the training.
    """

    fold: int
    name: str
    rounds: int
    metrics: Mapping[str, float]
    seconds: float

    @classmethod
    def of_model(cls, fold: int, training: Training, model: RankingModel) -> FoldSummary:
        """Summarise a model that was just trained."""
        assert model.summary is not None
        metrics = next(iter(model.best_score.values()), {})
        return cls(fold, training.name, model.best_iteration, metrics, model.summary.seconds)


FoldEnded = Callable[[int, Training, RankingModel], bool]
"""Called after each fold with its number, from 0; returns False to skip the remaining folds."""
HELD_OUT = "held out"
"""Name of a fold when it is the validation set."""


class Folds:
    """The queries of a data set in folds.

    Args:
        training: a training on all queries. Its workers divide their queries together.
        count: number of folds.
        seed: seed of the folds.
        counted: bool[Q], the queries included in the metric. If a fold would have fewer than two of
            them, they are distributed first, so that each fold gets the same number. With None, all
            queries are treated alike.
        measures: whether each training is measured on its fold.
        shares: whether the trainings share bins and linear starts. Otherwise, each copies its rows.

    Attributes:
        fold: int64[Q], the fold of each query.
    """

    def __init__(
        self,
        training: Training,
        count: int,
        seed: int,
        counted: BoolArray | None = None,
        *,
        shares: bool = True,
        measures: bool = True,
    ) -> None:
        self._data, self._collective = training.train_set, training.collective
        self._measures = measures
        sizes = self._collective.share(len(self._data.queries))
        total, first = sum(sizes), sum(sizes[: self._collective.rank])
        if not 2 <= count <= total:
            raise ParameterError(
                f"folds={count} must be at least 2 and at most the number of training queries,"
                f" {total}"
            )
        if self._data.on_disk:
            raise DataError(
                "rows on disk cannot be split into folds: read them into memory (--route memory)"
            )
        # Number all queries at random. The numbers modulo `count` are the folds.
        numbers = np.random.default_rng(seed).permutation(total)
        if counted is not None:
            counted = np.concatenate(self._collective.share(counted))
            if np.bincount(numbers[counted] % count, minlength=count).min() < 2:
                numbers[np.lexsort((numbers, ~counted))] = np.arange(total)
        numbers = numbers[first : first + len(self._data.queries)]
        self.fold = numbers % count
        self._part: Callable[..., RankingDataset] = self._data.take
        self._fold_starts: FoldStarts | None = None
        if shares and training.engine.shares_bins and self._collective.is_alone:
            self._part = Whole(self._data).part  # without copies of the rows
            # Inner folds are shifted, so that they vary between folds.
            self._fold_starts = FoldStarts(self.fold, (numbers // count + self.fold) % FOLDS)

    def training(self, training: Training, fold: int) -> Training:
        """Return the training without a fold, which is the validation set if it is measured."""
        train_set = self._part(np.flatnonzero(self.fold != fold))
        valid: DataSets = ()
        if self._measures:
            valid = ((HELD_OUT, self._part(np.flatnonzero(self.fold == fold))),)
        collective = self._collective
        if not collective.is_alone:
            rows = collective.share(train_set.n_documents)
            if not all(rows):
                raise DataError(
                    f"fold {fold + 1}: a worker has no other queries; use fewer workers, or more"
                    " folds"
                )
            order = [(rank, 0) for rank in range(len(rows))]
            collective = replace(collective, parts=(train_set,), order=order)
        fit_start = None
        if self._fold_starts is not None:
            fit_start = partial(self._fold_starts.without, fold)
        return replace(
            training, train_set=train_set, valid=valid, collective=collective, fit_start=fit_start
        )

    def held_out(self, fold: int) -> RankingDataset:
        """Return a copy of the queries in a fold."""
        return self._data.take(np.flatnonzero(self.fold == fold))


def execute(plan: Plan, fold_ended: FoldEnded | None = None) -> RankingModel:
    """Train according to a plan. `fold_ended` is called after each fold."""
    for callback in plan.options.callbacks:
        if hasattr(callback, "planned"):
            callback.planned(plan)
    # Train on the columns that occur.
    columns = plan.used_columns(plan.trainings[0])
    narrow = plan if columns is None else plan.select_columns(columns)
    if plan.preset.folds:
        model = _train_folds(narrow, fold_ended)
    else:
        model = _train_once(narrow)
    # Convert the model to all features.
    if columns is not None:
        engine, names = plan.engine, plan.train_set.feature_names
        body = model._booster.to_bytes()
        body = engine.format.widened(body, columns.tolist(), engine_names(names))
        record = dict(model.info.data or {})
        record |= {"features": len(names), "feature_names": list(names)}
        record["fingerprint"] = plan.train_set.fingerprint
        info = model.info | {"data": record}
        if plan.preset.folds or info.renewed:
            joined = reduce(RankingDataset.join, (plan.train_set, *plan.valid_sets))
            if info.renewed is None:
                record["fingerprint"] = joined.fingerprint
            else:
                info |= {"renewed": {**info.renewed, "fingerprint": joined.fingerprint}}
        model = model.altered(booster=engine.load(body), info=info)
    return model


def _train_once(plan: Plan) -> RankingModel:
    """Train a single model. The preset `quick` renews its leaves on the queries that stopped it,
    too.
    """
    (training,) = plan.trainings
    model, sets = run(training), [plan.train_set, *plan.valid_sets]
    renews = plan.preset.quality == QUICK and training.patience > 0 and len(sets) > 1
    if renews and plan.collective.is_alone and not any(data.on_disk for data in sets):
        joined = reduce(RankingDataset.join, sets)
        model = renew_leaves(model, replace(training, train_set=joined, valid=()))
    (model,), price = cap_trees([model], training.tree_limit)
    model.info |= {"price": price}
    return model


def _train_folds(plan: Plan, fold_ended: FoldEnded | None) -> RankingModel:
    """Train each member of the preset on the queries outside its fold, and average the models.

    Queries in validation sets are added to the folds. Each model is stopped early on its fold. The
    seed increases by 1 for each model. Models from different members are scaled by the deviation of
    their scores within held-out queries before they are averaged. Bins, and the quantiles of linear
    starts, are computed once from all rows, without their labels.

    Returns:
        The averaged model. `info["folds"]` contains the members, the number of rounds of each, and
        each metric over all held-out queries, which were scored by the models trained without them.
    """
    first = plan.trainings[0]
    sets = (plan.train_set, *plan.valid_sets)
    data = reduce(RankingDataset.join, sets)
    bind = partial(
        BoundMetrics,
        labels=data.labels,
        queries=data.queries,
        conventions=first.conventions,
        threads=first.threads,
        partial=not plan.collective.is_alone,
    )
    bound = bind(first.metrics)
    metric, main, measurable = first.main_metric, None, None
    if metric is not None:
        main = str(metric)
        if metric.function is None:  # a user's function may not accept equal scores
            per_query = bind([metric]).per_query(np.zeros(data.n_documents))
            measurable = np.isfinite(per_query[main])
    # Measure each fold only if something reads the values.
    measures = bool(first.callbacks or fold_ended or first.feval or first.patience)
    whole = replace(first, train_set=data)
    folds = Folds(whole, plan.preset.folds, plan.seed, measurable, measures=measures)
    models: list[RankingModel] = []
    for fold in range(len(plan.preset.members)):
        plan, model = _train_member(plan, folds, fold)
        if not models:
            # After the first fold, refuse models that cannot be averaged, such as linear ones, and
            # limits on trees that leave none for some fold.
            average([model])
            if first.tree_limit is not None:
                start, n_models = model.tree_counts.start, len(plan.preset.members)
                check_limit(first.tree_limit, plan.engine, start=start, models=n_models)
        models.append(model)
        if fold_ended is not None and not fold_ended(fold, plan.trainings[fold], model):
            break
    members = plan.preset.members[: len(models)]
    models, price = cap_trees(models, first.tree_limit)
    # Score each fold with the model trained without it.
    scores, deviations = np.zeros(data.n_documents), []
    for fold, model in enumerate(models):
        held_out = folds.held_out(fold)
        of_fold = model.predict(held_out, threads=first.threads)
        scores[np.repeat(folds.fold == fold, data.queries.sizes)] = of_fold
        deviations.append(_deviation(of_fold, held_out.queries, plan.collective.all_reduce))
    # Average the models; bring different members to a common scale first.
    weights = None
    if any(member != members[0] for member in members):
        scale = float(np.mean(deviations)) / len(models)
        weights = [scale / deviation for deviation in deviations]
    mean = average(models, weights)
    # Queries without a model are not measured.
    is_scored = folds.fold < len(models)
    per_query = {
        name: np.where(is_scored, values, np.nan)
        for name, values in bound.per_query(scores).items()
    }
    record = {
        "folds": plan.preset.folds,
        "metric": main,
        "rounds": [model.best_iteration for model in models],
        "members": [member.name for member in members],
        **_measure(per_query, sets, main, plan.collective),
    }
    mean.info |= {"folds": record, "price": price, "data": data.record}
    return mean


def _train_member(plan: Plan, folds: Folds, fold: int) -> tuple[Plan, RankingModel]:
    """Train the member of a fold. If it fails on this machine, and no earlier fold has the same
    member, train the first member instead.

    Returns:
        The plan with the member that was trained, and the model.
    """
    members, training = plan.preset.members, plan.trainings[fold]
    checkpoint = training.checkpoint
    if checkpoint is not None:
        checkpoint = checkpoint.of_fold(fold)
    try:
        return plan, run(replace(folds.training(training, fold), checkpoint=checkpoint))
    except BoostrankError as error:
        is_alone = plan.collective.is_alone  # other workers would go on with the member
        if fold == 0 or members[fold] in members[:fold] or not is_alone:
            raise
        message = f"fold {fold + 1}: {training.name}: {error}; trained as {members[0].name} instead"
        warn_user(message, DataWarning)
    members = (*members[:fold], members[0], *members[fold + 1 :])
    plan = replace(plan, preset=replace(plan.preset, members=members))
    part = folds.training(plan.trainings[fold], fold)
    return plan, run(replace(part, checkpoint=checkpoint))


def _deviation(scores: Float64Array, queries: QueryIndex, all_reduce: AllReduce) -> float:
    """Return the root mean square of scores minus the mean score in their query, at least 1e-12.

    Args:
        scores: float64[n], the scores of this worker's rows, or of all rows.
        all_reduce: function that sums arrays over all workers.
    """
    apart = np.zeros(0)
    if scores.size:
        means = np.add.reduceat(scores, queries.ptr[:-1]) / queries.sizes
        apart = scores - np.repeat(means, queries.sizes)
    squares, rows = all_reduce(np.array([np.sum(apart * apart), float(apart.size)]))
    return max(1e-12, float(np.sqrt(squares / rows)))


def _measure(
    per_query: dict[str, Float64Array],
    sets: Sequence[RankingDataset],
    metric: str | None,
    collective: Collective,
) -> dict[str, Any]:
    """Return each metric over all held-out queries, and the main one over those of each validation
    set.
    """
    of_set = np.repeat(np.arange(len(sets)), [len(data.queries) for data in sets])
    weights = np.concatenate([data.queries.each_weight for data in sets])
    shared = collective.share([*per_query.values(), weights, of_set])
    *columns, weights, of_set = map(np.concatenate, zip(*shared, strict=True))
    values = dict(zip(per_query, columns, strict=True))
    by_set = []
    if metric is not None:
        masks = [of_set == number for number in range(1, len(sets))]
        by_set = [_mean(values[metric][mask], weights[mask]) for mask in masks]
    return {"held_out": {name: _mean(values[name], weights) for name in values}, "valid": by_set}


def _mean(per_query: Float64Array, weights: Float64Array) -> dict[str, Any]:
    """Return the weighted mean over the included queries and its 95% interval."""
    counted = np.isfinite(per_query)
    if not counted.any():
        return {"value": None, "low": None, "high": None, "queries": 0}
    values, weights = per_query[counted], weights[counted]
    low, high = bootstrap_intervals(values[:, None], weights)
    value = float(weights / weights.sum() @ values)
    return {"value": value, "low": float(low[0]), "high": float(high[0]), "queries": values.size}
