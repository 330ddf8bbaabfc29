"""Presets: trees, rounds, folds and objectives where no option says them. All rules are here, each with its evidence.

`quick` trains once, with trees that suit the data. `good` trains once a fold, another member in each, and averages the
models with equal weights. Averaging different models is worth more than choosing among them: on eight sets, plain folds
were level with or above a race among candidates, at a tenth of its time (`experiments/defaults`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.params import find_param
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.fit.params import AUTO_START, OBJECTIVE_NAMES, TrainingParameters
from boostrank.fit.plan import FIXED_ROUNDS, PLAIN, Draft, Member, Plan, Recipe
from boostrank.fit.wide import named_columns
from boostrank.objective.mixture import accepted_params

QUICK, GOOD = "quick", "good"
PRESETS = (PLAIN, QUICK, GOOD)

MANY_QUERIES = 1_000
"""From here on trees have 31 leaves, before 15. Sets of 60 to 3,300 queries agree (`experiments/defaults`)."""
LARGE = 4_000_000
"""Rows x features from where on data are large: LambdaRank, all features in every tree, more patience, fewer folds.
Half of the features costs up to .04 NDCG@10 where the truth has interactions, XE-NDCG .005, and neither gains where it
is smooth; more leaves than 31 gain nothing up to 200,000 rows (`experiments/large`)."""
FEW_ROWS = 400
"""Rows below which leaves hold a twentieth of them."""
_TOO_FEW_ROWS = 40
"""Rows below which LightGBM's 20 rows a leaf leave no split."""
ROUNDS = 1_000
"""Maximum number of rounds where early stopping chooses the round."""
FOLDS, FOLDS_OF_LARGE = 4, 3
FEWEST_QUERIES = 8
"""Queries with different labels that folds need."""
PATIENCE = 50
_REACH = 10.0  # learning rate x rounds, at least


_RANDOM = {"extra_trees": True}
_REG = {"train_discount": "linear"}
_AUTO, _LAMBDARANK = Member("auto"), Member("lambdarank", begins_linear=True)
_REG_SHF = Member("reg-shf-sdcg", params=_REG, rounds=400)
_REG_LINEAR = replace(_REG_SHF, begins_linear=True)
FEW_MEMBERS = (_AUTO, _REG_LINEAR, replace(_AUTO, trees=_RANDOM), _REG_SHF)
"""Of each fold below `MANY_QUERIES`: four different models, which few queries cannot choose among."""
MANY_MEMBERS = (_LAMBDARANK, _REG_LINEAR, replace(_LAMBDARANK, trees=_RANDOM), _AUTO)
"""From there on trees without a start cost the average more than they add. LambdaRank is level with `auto`, in three
quarters of its time."""
LARGE_MEMBERS = (_LAMBDARANK, _LAMBDARANK)
"""Of two of three folds: .017 [.013, .021] above LightGBM where the truth has interactions, .003 [.000, .006] where it
is smooth. `auto` as the second has .004 and .001 less, others lose more (`experiments/large`)."""


@dataclass(frozen=True)
class Sizes:
    """Size of the data that a training sees.

    Args:
        rows, queries, features: numbers of them; of wide sparse data, of the features that some row names.
    """

    rows: int
    queries: int
    features: int

    @classmethod
    def of(cls, *sets: RankingDataset) -> Sizes:
        """Of several data sets together."""
        used = named_columns(sets[0])
        features = sets[0].n_features if used is None else used.size
        return cls(sum(one.n_documents for one in sets), sum(len(one.queries) for one in sets), features)

    @property
    def are_large(self) -> bool:
        """Whether the rules of large data hold."""
        return self.rows * self.features > LARGE


def choose_recipe(quality: str, plan: Plan, *, rounds: int | None = None, folds: int | None = None) -> Recipe:
    """Turn a preset into what is trained.

    Args:
        quality: one of `PRESETS`.
        plan: engine, parameters, start and data. Folds deal the queries of all sets; one training stops on the first
            validation set.
        rounds: that were given; None: none.
        folds: that were given; None: as many as the preset takes.

    Raises:
        ParameterError: an unknown preset; parameters that folds cannot have.
    """
    if quality not in PRESETS:
        raise ParameterError(f"unknown quality {quality!r}.{did_you_mean(str(quality), PRESETS)}")
    engine, checked, train_set, valid_sets = plan.engine, plan.settings, plan.train_set, plan.others
    if rounds is None and checked.rounds != FIXED_ROUNDS:  # by a parameter
        rounds = checked.rounds
    if quality == PLAIN:
        given = Member(start=plan.start)
        rows = train_set.n_documents
        trees = beside(engine, few_a_leaf(engine, rows), checked.engine) if rows < _TOO_FEW_ROWS else {}
        return Recipe(PLAIN, rounds or FIXED_ROUNDS, trees, members=(given,) * (folds or 1), folds=folds or 0)
    note = unfit(train_set) if quality == GOOD and folds is None else ""
    on_folds = bool(folds) or (quality == GOOD and not note)
    sizes = Sizes.of(train_set, *(valid_sets if on_folds else ()))
    listed: tuple[Member, ...] = (_LAMBDARANK if sizes.are_large else _AUTO,)
    if plan.init_model is not None or not engine.grows_trees:  # whose objective goes on
        listed = (Member(),)
    if quality == GOOD and on_folds:
        few = FEW_MEMBERS if sizes.queries < MANY_QUERIES else MANY_MEMBERS
        listed = LARGE_MEMBERS if sizes.are_large else few
    members = members_of(listed, engine, plan.params, checked.engine, plan.start)
    if on_folds:
        check_folds(engine, checked)
        many = folds or len(listed)
        folds = folds or (FOLDS_OF_LARGE if sizes.are_large else FOLDS)
        members = tuple(members[k % len(members)] for k in range(many))
        held_out = sizes.queries // folds
    else:
        folds, members = 0, members[:1]
        held_out = len(valid_sets[0].queries) if valid_sets else 0
    held_out = held_out if checked.metrics and not drops_trees(engine, checked.engine) else 0
    most = rounds if rounds is not None else ROUNDS if held_out else FIXED_ROUNDS
    trees = suited(engine, sizes, None if rounds is None and held_out else most, checked.engine, on_folds)
    waits = held_out and not checked.stopping_rounds and (rounds is None or on_folds)
    wait = PATIENCE if on_folds and not sizes.are_large else patience(held_out, sizes)
    return Recipe(quality, most, trees, wait if waits else 0, members, folds, note)


def check_folds(engine: Backend, checked: TrainingParameters) -> None:
    """Refuse parameters with which models of folds cannot be stopped or averaged.

    Raises:
        ParameterError: which, and what to give instead.
    """
    if not engine.format.averages:
        raise ParameterError(f"models of {engine.name} cannot be averaged over folds: give quality='plain', no folds")
    if drops_trees(engine, checked.engine):
        raise ParameterError("dart trees cannot be stopped early, as folds are: give quality='quick', no folds")


def members_of(
    listed: Sequence[Member], engine: Backend, params: Mapping[str, Any], given: Mapping[str, Any], start: Any
) -> tuple[Member, ...]:
    """Members as the options have them.

    Args:
        listed: of the preset.
        engine: that trains.
        params: as `boostrank.train` takes them; an objective among them is that of all members, and what
            parameters of an objective are given stay.
        given: those of the engine.
        start: that was given.
    """
    found: list[Member] = []
    for one in listed:
        if any(name in params for name in OBJECTIVE_NAMES):
            one = Member(trees=one.trees)
        if start != AUTO_START:
            one = replace(one, start=start)
        if one.params:  # an option wins, by whichever name
            takes = accepted_params(str(one.objective))
            options = {find_param(name, takes) for name in params}
            one = replace(one, params={k: v for k, v in one.params.items() if find_param(k, takes) not in options})
        found.append(replace(one, trees=beside(engine, one.trees, given) if _has(engine, one.trees) else {}))
    return tuple(one for one in found if _is_known(one, params, engine)) or (Member(start=start),)


def _has(engine: Backend, trees: Mapping[str, Any]) -> bool:
    """Return True if an engine has these parameters."""
    try:
        engine.params.check(dict(trees))
    except ParameterError:
        return False
    return True


def _is_known(member: Member, params: Mapping[str, Any], engine: Backend) -> bool:
    """Return True if a member's objective has the parameters of an objective that were given."""
    try:
        _ = Draft(engine=engine, params=member.over(params), rounds=1).settings
    except ParameterError:
        return False
    return True


def unfit(data: RankingDataset) -> str:
    """Reason why a data set cannot be dealt into folds; empty: it can."""
    if data.on_disk:
        return "the rows lie on disk, where folds cannot be taken"
    begins = data.queries.ptr[:-1][data.queries.sizes > 0]
    differ = np.zeros(0, bool)
    if begins.size:
        differ = np.maximum.reduceat(data.labels, begins) > np.minimum.reduceat(data.labels, begins)
    count = int(differ.sum())
    return "" if count >= FEWEST_QUERIES else f"folds need {FEWEST_QUERIES} queries whose labels differ, not {count}"


def drops_trees(engine: Backend, given: Mapping[str, Any]) -> bool:
    """Return True for dart, whose later rounds rescale earlier trees: it is not stopped early."""
    named = engine.params.named(given)
    return "dart" in (named.get("boosting"), named.get("booster"))


def suited(
    engine: Backend, sizes: Sizes, rounds: int | None, given: Mapping[str, Any], on_folds: bool = False
) -> dict[str, Any]:
    """Parameters of trees for data of these sizes, without those that are given.

    Args:
        engine: that grows them.
        sizes: of the training set.
        rounds: number that is trained; None: as many as early stopping finds.
        given: parameters of the engine, by any of their names.
        on_folds: whether models of folds are averaged: from many queries on, steps of .1 give them as much in half of
            the time. On large data steps of .05 would not arrive within `ROUNDS`.
    """
    if not engine.grows_trees:
        return {}
    many = sizes.queries >= MANY_QUERIES
    rate = 0.05 if rounds is None else min(0.1, max(0.05, _REACH / rounds))
    rate = 0.1 if sizes.are_large or (on_folds and many) else rate
    trees: dict[str, Any] = {"learning_rate": rate, "num_leaves": 31 if many else 15}
    if sizes.features > 3 and not sizes.are_large:
        trees["feature_fraction"] = 0.5
    if sizes.rows < FEW_ROWS:
        trees |= few_a_leaf(engine, sizes.rows)
    return beside(engine, trees, given)


def few_a_leaf(engine: Backend, rows: int) -> dict[str, Any]:
    """Fewer rows a leaf for few rows, where the engine counts them."""
    return {"min_data_in_leaf": max(1, rows // 20)} if _has(engine, {"min_data_in_leaf": 1}) else {}


def beside(engine: Backend, suggested: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The suggested parameters that are not given, by whichever name."""
    known = engine.params.named(given)
    return {
        name: value for name, value in suggested.items() if next(iter(engine.params.named({name: value}))) not in known
    }


def patience(queries: int, sizes: Sizes) -> int:
    """Rounds without a better value after which one training stops.

    The mean over few queries varies by more than one round is worth. Folds of small data, whose models are averaged,
    need not wait. On large data with interactions the curve rises slowly: 100 rounds gain .008 NDCG@10 over 50
    (`experiments/large`).

    Args:
        queries: number that is held out.
        sizes: of the training data.
    """
    return PATIENCE if queries >= MANY_QUERIES // 4 and not sizes.are_large else 2 * PATIENCE
