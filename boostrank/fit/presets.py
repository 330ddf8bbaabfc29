"""Presets for trees, rounds, folds and objectives, with the evidence for each rule.

`quick` trains once, with trees suited to the data. `good` trains a different member on each fold
and averages the models with equal weights. Averaging different models helps more than choosing
among them. On eight data sets, plain folds were level with a race among candidates, in a quarter of
its time (`experiments/defaults`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import find_param
from boostrank.core.types import ParamValues
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.fit.plan import ALONE, Collective, Member, Plan, Preset
from boostrank.fit.settings import AUTO_START, OBJECTIVE_NAMES, ROUNDS_NAMES, split_params
from boostrank.objective.mixture import accepted_params
from boostrank.options import DEFAULT_ROUNDS, GOOD, PLAIN

MANY_QUERIES = 1_000
"""Minimum number of queries for trees with 31 instead of 15 leaves."""
LARGE = 4_000_000
"""Rows x features above which data are large and get LambdaRank, all features per tree, more
patience and fewer folds.

If the truth has interactions, sampling half of the features costs up to .04 NDCG@10, and XE-NDCG
.005. Neither helps if it is smooth. More than 31 leaves do not help up to a million rows
(`experiments/large`)."""
FEW_ROWS = 400
"""Number of rows below which the minimum rows in a leaf are a twentieth of all rows."""
_TOO_FEW_ROWS = 40
"""Number of rows below which LightGBM's minimum of 20 rows per leaf allows no split."""
ROUNDS = 1_000
"""Maximum number of rounds with early stopping."""
FOLDS, FOLDS_OF_LARGE = 4, 3
FEWEST_QUERIES = 8
"""Minimum number of queries with different labels for folds."""
PATIENCE = 50
_REACH = 10.0  # minimum of learning rate x rounds

_RANDOM = {"extra_trees": True}
_REG = {"train_discount": "linear"}  # seldom matters: it stops as a regression
_AUTO, _LAMBDARANK = Member("auto"), Member("lambdarank", begins_linear=True)
_REG_SHF = Member("reg-shf-sdcg", params=_REG, rounds=400)
_REG_LINEAR = replace(_REG_SHF, begins_linear=True)
FEW_MEMBERS = (_AUTO, _REG_LINEAR, replace(_AUTO, trees=_RANDOM), _REG_SHF)
"""Members below `MANY_QUERIES`: four different models, because few queries are not enough to choose
among them.
"""
MANY_MEMBERS = (_LAMBDARANK, _REG_LINEAR, replace(_LAMBDARANK, trees=_RANDOM), _AUTO)
"""Members for at least `MANY_QUERIES`. Trees without a linear start make the average worse.
LambdaRank is as good as `auto` in three quarters of the time."""
LARGE_MEMBERS = (_LAMBDARANK, _LAMBDARANK)
"""Members for large data, on two of three folds. They are .017 [.013, .021] above LightGBM if the
truth has interactions, and level with it if it is smooth, .003 [-.000, .006]. With `auto` as the
second member, they are .004 and .001 lower (`experiments/large`)."""


@dataclass(frozen=True)
class Sizes:
    """Number of rows, queries and features in the training data. Wide sparse data only count
    features that occur.
    """

    rows: int
    queries: int
    features: int

    @classmethod
    def of_sets(cls, *sets: RankingDataset, collective: Collective = ALONE) -> Sizes:
        """Return the total size of several data sets over all workers."""
        columns = sets[0].occurring_columns if collective.is_alone else None
        features = sets[0].n_features if columns is None else columns.size
        rows = sum(data.n_documents for data in sets)
        rows, queries = collective.sum(rows, sum(len(data.queries) for data in sets))
        return cls(rows, queries, features)

    @property
    def are_large(self) -> bool:
        """Whether the rules for large data apply."""
        return self.rows * self.features > LARGE


def choose_preset(plan: Plan) -> Preset:
    """Apply the quality in a plan's options to its data.

    Folds use the queries in all data sets. A single training is stopped early on the first
    validation set.
    """
    engine, settings, options, collective = (
        plan.engine,
        plan.settings,
        plan.options,
        plan.collective,
    )
    train_set, valid_sets = plan.train_set, plan.valid_sets
    quality, folds = options.quality or PLAIN, options.folds or 0
    rounds = settings.rounds if options.rounds or plan.params.keys() & set(ROUNDS_NAMES) else None
    note = why_no_folds(train_set, collective) if quality == GOOD and not folds else ""
    on_folds = folds > 0 or (quality == GOOD and not note)
    # Refuse folds that cannot be stopped early, averaged or split.
    if on_folds and not engine.grows_trees:
        raise ParameterError(
            f"folds: models of {engine.name} cannot be averaged: use quality='plain', no folds"
        )
    if on_folds and plan.init_model is not None:
        raise ParameterError(
            "init_model continues a single training: use quality='quick' or 'plain', and no folds"
        )
    drops_trees = engine.params.drops_trees(settings.params)
    if on_folds and options.quality != PLAIN and drops_trees:
        raise ParameterError(
            "folds need early stopping, which dart does not support: use quality='quick', no folds"
        )
    # Folds with a quality include the queries of all data sets.
    sets = [train_set, *valid_sets] if on_folds and quality != PLAIN else [train_set]
    sizes = Sizes.of_sets(*sets, collective=collective)
    if quality == PLAIN:
        trees: dict[str, Any] = {}
        if sizes.rows < _TOO_FEW_ROWS:
            trees = _without_set(engine, _few_in_leaf(sizes.rows), settings.params)
        members = (Member(),) * (folds or 1)
        return Preset(PLAIN, rounds or DEFAULT_ROUNDS, trees, members=members, folds=folds)
    # Choose the members by the size of the data.
    candidates: tuple[Member, ...] = (_LAMBDARANK if sizes.are_large else _AUTO,)
    if plan.init_model is not None or not engine.grows_trees:
        candidates = (Member(),)  # keeps the objective of a continued model
    elif quality == GOOD and on_folds:
        candidates = FEW_MEMBERS if sizes.queries < MANY_QUERIES else MANY_MEMBERS
        if sizes.are_large:
            candidates = LARGE_MEMBERS
    members = _apply_options(candidates, plan)
    if on_folds:
        count = folds or len(candidates)
        folds = folds or (FOLDS_OF_LARGE if sizes.are_large else FOLDS)
        members = tuple(members[k % len(members)] for k in range(count))
        held_out = sizes.queries // folds
    else:
        members = members[:1]
        (held_out,) = collective.sum(sum(len(data.queries) for data in valid_sets[:1]))
    # Early stopping decides the number of rounds where it can.
    if not settings.metrics or drops_trees:
        held_out = 0
    max_rounds = rounds or (ROUNDS if held_out else DEFAULT_ROUNDS)
    fixed_rounds = max_rounds if rounds or not held_out else None
    trees = suited(engine, sizes, fixed_rounds, settings.params, on_folds)
    wait = 0
    if held_out and not settings.patience and (rounds is None or on_folds):
        wait = PATIENCE if on_folds and not sizes.are_large else patience(held_out, sizes)
    return Preset(quality, max_rounds, trees, wait, members, folds, note)


def _apply_options(candidates: tuple[Member, ...], plan: Plan) -> tuple[Member, ...]:
    """Apply the options to a preset's members. A parameter that is set takes precedence, under any
    name.
    """
    engine, params = plan.engine, plan.params
    members: list[Member] = []
    for member in candidates:
        if params.keys() & set(OBJECTIVE_NAMES):
            member = Member(trees=member.trees)
        if plan.options.start != AUTO_START:
            member = replace(member, begins_linear=False)
        if member.params:
            accepted = accepted_params(str(member.objective))
            options = {find_param(name, accepted) for name in params}
            names = [name for name in member.params if find_param(name, accepted) not in options]
            member = replace(member, params={name: member.params[name] for name in names})
        member = replace(member, trees=_without_set(engine, member.trees, plan.settings.params))
        try:
            split_params(member.update(params), 1, engine)
        except ParameterError:
            continue  # the objective of this member does not support the parameters
        members.append(member)
    return tuple(members) or (Member(),)


def why_no_folds(data: RankingDataset, collective: Collective = ALONE) -> str:
    """Return the reason why a data set cannot be split into folds, or an empty string."""
    if data.on_disk:
        return "rows on disk cannot be split into folds"
    begins, differing = data.queries.ptr[:-1][data.queries.sizes > 0], 0
    if begins.size:
        highest = np.maximum.reduceat(data.labels, begins)
        differing = int(np.sum(highest > np.minimum.reduceat(data.labels, begins)))
    (count,) = collective.sum(differing)
    if count >= FEWEST_QUERIES:
        return ""
    return f"folds need {FEWEST_QUERIES} queries whose labels differ, not {count}"


def suited(
    engine: Backend,
    sizes: Sizes,
    rounds: int | None,
    params: ParamValues,
    on_folds: bool = False,
) -> dict[str, Any]:
    """Return suitable tree parameters, except those that `params` sets.

    Args:
        rounds: number of rounds, or None if it is determined by early stopping.
        on_folds: whether models from several folds are averaged. In that case, with many queries, a
            learning rate of .1 ranks as well in half of the time. On large data, .05 would not
            converge within `ROUNDS`. A single training with half of the features misses products of
            two (`experiments/defaults`).
    """
    if not engine.grows_trees:
        return {}
    has_many_queries = sizes.queries >= MANY_QUERIES
    rate = 0.05 if rounds is None else min(0.1, max(0.05, _REACH / rounds))
    rate = 0.1 if sizes.are_large or (on_folds and has_many_queries) else rate
    trees: dict[str, Any] = {"learning_rate": rate, "num_leaves": 31 if has_many_queries else 15}
    if sizes.features > 3 and not sizes.are_large:
        trees["feature_fraction"] = 0.5 if on_folds else 0.75
    if sizes.rows < FEW_ROWS:
        trees |= _few_in_leaf(sizes.rows)
    return _without_set(engine, trees, params)


def _few_in_leaf(rows: int) -> dict[str, Any]:
    return {"min_data_in_leaf": max(1, rows // 20)}


def _without_set(
    engine: Backend, suggested: Mapping[str, Any], params: ParamValues
) -> dict[str, Any]:
    """Return the suggestions that the engine supports and that `params` does not set, under any
    name.
    """
    unset, names = dict[str, Any](), engine.params.resolve_names(params).keys()
    for name, value in suggested.items():
        try:
            engine.params.check({name: value})
        except ParameterError:
            continue
        if not engine.params.resolve_names({name: value}).keys() & names:
            unset[name] = value
    return unset


def patience(queries: int, sizes: Sizes) -> int:
    """Return the patience for early stopping of a single training.

    A mean over few queries varies by more than the improvement in a round. Averaged models on folds
    of small data need less patience. On large data with interactions, the learning curve rises
    slowly, and 50 rounds without gain can be chance (`experiments/large`).
    """
    return PATIENCE if queries >= MANY_QUERIES // 4 and not sizes.are_large else 2 * PATIENCE
