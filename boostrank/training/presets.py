"""Presets: trees, rounds, folds and objectives where no option says them. All rules are here, each with its evidence.

`quick` trains once, with trees that suit the data. `good` trains once a fold, another member in each, and averages the
models with equal weights. Averaging different models is worth more than choosing among them: on eight sets, plain folds
were level with or above a race among candidates, at a tenth of its time (`experiments/defaults`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from boostrank.backends.base import Backend
from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.params import find_param
from boostrank.data.dataset import RankingDataset
from boostrank.objective.mixture import accepted_params
from boostrank.training.params import OBJECTIVE_NAMES, TrainingParameters, split_params
from boostrank.training.start import AUTO_START, LINEAR

PLAIN, QUICK, GOOD = "plain", "quick", "good"
PRESETS = (PLAIN, QUICK, GOOD)

MANY_QUERIES = 1_000
"""From here on trees have 31 leaves in place of 15. Sets of 60 to 3,300 queries agree (`experiments/defaults`)."""
ROUNDS = 1_000
"""Maximum number of rounds where early stopping chooses the round."""
FIXED_ROUNDS = 100
"""Number of rounds where nothing chooses it: LightGBM's default."""
FOLDS = 4
FEWEST_QUERIES = 8
"""Queries with different labels that folds need."""
_REACH = 10.0  # learning rate x rounds, at least


@dataclass(frozen=True)
class Member:
    """One way to train a fold.

    Args:
        objective: as `boostrank.train` takes it; None: the one that was given.
        start: as `boostrank.train` takes it.
        params: parameters of the objective.
        trees: parameters of the engine.
        rounds: maximum, over which schedules run; None: all.
    """

    objective: Any = None
    start: Any = AUTO_START
    params: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None

    def over(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of a training: those given, with the member's own."""
        objective = {} if self.objective is None else {"objective": self.objective}
        return {**params, **self.trees, **self.params, **objective}

    @property
    def name(self) -> str:
        """For tables: `auto, random splits`."""
        words = [str(self.objective or "as given")]
        words += ["random splits"] if self.trees else []
        return ", ".join(words + (["no start"] if self.start == "none" else []))


_RANDOM = {"extra_trees": True}
_REG = {"train_discount": "linear"}
MEMBERS = (
    Member("auto"),
    Member("reg-shf-sdcg", LINEAR, _REG, rounds=400),
    Member("auto", trees=_RANDOM),
    Member("reg-shf-sdcg", "none", _REG, rounds=400),
)
"""Fold 1 trains the first, fold 2 the second, and so on."""


@dataclass(frozen=True)
class Sizes:
    """Size of the data that a training sees.

    Args:
        rows, queries, features: numbers of them.
    """

    rows: int
    queries: int
    features: int

    @classmethod
    def of(cls, *sets: RankingDataset) -> Sizes:
        """Of several data sets together."""
        return cls(sum(one.n_documents for one in sets), sum(len(one.queries) for one in sets), sets[0].n_features)


@dataclass(frozen=True)
class Recipe:
    """What a preset comes to on given data.

    Args:
        preset: its name.
        rounds: maximum, of each training.
        trees: parameters of the engine, in place of its defaults.
        patience: of early stopping; 0: none, or the one that was given.
        members: one a fold; empty: one training.
        note: why there is one training where folds were wanted; empty: no reason.
    """

    preset: str
    rounds: int
    trees: Mapping[str, Any] = field(default_factory=dict)
    patience: int = 0
    members: tuple[Member, ...] = ()
    note: str = ""

    @property
    def folds(self) -> int:
        """Number of folds; 0: one training."""
        return len(self.members)

    @property
    def words(self) -> str:
        """One line: `quality good: 4 folds; learning_rate=0.05, num_leaves=15; 1,000 rounds at most, ...`."""
        trees = ", ".join(f"{name}={value:g}" for name, value in self.trees.items())
        stops = f" at most, stopped after {self.patience} without gain" if self.patience else ""
        folds = [f"{self.folds} folds"] if self.folds else []
        return (
            f"quality {self.preset}: {'; '.join([*folds, trees or 'trees as given', f'{self.rounds:,} rounds{stops}'])}"
        )


def resolve(
    quality: str, engine: Backend, checked: TrainingParameters, params: Mapping[str, Any], train_set: RankingDataset,
    valid_sets: Sequence[RankingDataset] = (), *, rounds: int | None = None, folds: int | None = None,
    start: Any = AUTO_START,
) -> Recipe:  # fmt: skip
    """Turn a preset into what is trained.

    Args:
        quality: one of `PRESETS`.
        engine: that trains.
        checked: the parameters by reader.
        params: the same as they were given.
        train_set, valid_sets: the data. Folds deal the queries of all sets; one training stops on the first of
            `valid_sets`.
        rounds: that were given; None: none.
        folds: that were given; None: as many as the preset takes.
        start: that was given.

    Raises:
        ParameterError: an unknown preset; parameters that folds cannot have.
    """
    if quality not in PRESETS:
        raise ParameterError(f"unknown quality {quality!r}.{did_you_mean(str(quality), PRESETS)}")
    if rounds is None and checked.rounds != FIXED_ROUNDS:  # by a parameter
        rounds = checked.rounds
    stops = bool(checked.stopping_rounds)
    if quality == PLAIN:
        return Recipe(PLAIN, rounds or FIXED_ROUNDS, members=(Member(start=start),) * (folds or 0))
    note = ""
    if quality == GOOD and folds is None:
        note = unfit(train_set)
        folds = 0 if note else FOLDS
    if folds:
        check_folds(engine, checked)
        sizes = Sizes.of(train_set, *valid_sets)
        members: tuple[Member, ...] = (Member(start=start),)
        if quality == GOOD:
            members = members_of(engine, params, checked.engine, start)
        held_out = sizes.queries // folds
        members = tuple(members[k % len(members)] for k in range(folds))
    else:
        sizes, members = Sizes.of(train_set), ()
        held_out = len(valid_sets[0].queries) if valid_sets else 0
    held_out = held_out if checked.metrics and not drops_trees(engine, checked.engine) else 0
    most = rounds if rounds is not None else ROUNDS if held_out else FIXED_ROUNDS
    trees = suited(engine, sizes, None if rounds is None and held_out else most, checked.engine)
    waits = held_out and not stops and (rounds is None or bool(folds))
    return Recipe(quality, most, trees, patience(held_out) if waits else 0, members, note)


def check_folds(engine: Backend, checked: TrainingParameters) -> None:
    """Refuse parameters with which models of folds cannot be stopped or averaged.

    Raises:
        ParameterError: which, and what to give instead.
    """
    if not engine.format.averages:
        raise ParameterError(f"models of {engine.name} cannot be averaged over folds: give quality='plain', no folds")
    if drops_trees(engine, checked.engine):
        raise ParameterError("dart trees cannot be stopped early, as folds are: give quality='quick', no folds")


def members_of(engine: Backend, params: Mapping[str, Any], given: Mapping[str, Any], start: Any) -> tuple[Member, ...]:
    """`MEMBERS`, less what the options say otherwise.

    Args:
        engine: that trains.
        params: as `boostrank.train` takes them; an objective among them is that of all members, and what
            parameters of an objective are given stay.
        given: those of the engine.
        start: that was given.
    """
    found: list[Member] = []
    for one in MEMBERS:
        if any(name in params for name in OBJECTIVE_NAMES):
            one = Member(trees=one.trees)
        if start != AUTO_START:
            one = replace(one, start=start)
        if one.params:  # an option wins, by whichever name
            takes = accepted_params(str(one.objective))
            options = {find_param(name, takes) for name in params}
            one = replace(one, params={k: v for k, v in one.params.items() if find_param(k, takes) not in options})
        one = replace(one, trees=beside(engine, one.trees, given) if engine.random_splits else {})
        if not found or _is_known(one, params, engine):
            found.append(one)
    return tuple(found)


def _is_known(member: Member, params: Mapping[str, Any], engine: Backend) -> bool:
    """Return True if a member's objective has the parameters of an objective that were given."""
    try:
        split_params(member.over(params), 1, engine)
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
    named = engine.main_names(given)
    return "dart" in (named.get("boosting"), named.get("booster"))


def suited(engine: Backend, sizes: Sizes, rounds: int | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of trees for data of these sizes, without those that are given.

    Args:
        engine: that grows them.
        sizes: of the training set.
        rounds: number that is trained; None: as many as early stopping finds.
        given: parameters of the engine, by any of their names.
    """
    if not engine.grows_trees:
        return {}
    rate = 0.05 if rounds is None else min(0.1, max(0.05, _REACH / rounds))
    trees: dict[str, Any] = {"learning_rate": rate, "num_leaves": 31 if sizes.queries >= MANY_QUERIES else 15}
    if sizes.features > 3:
        trees["feature_fraction"] = 0.5
    return beside(engine, trees, given)


def beside(engine: Backend, suggested: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The suggested parameters that are not given, by whichever name."""
    known = engine.main_names(given)
    return {
        name: value for name, value in suggested.items() if next(iter(engine.main_names({name: value}))) not in known
    }


def patience(queries: int) -> int:
    """Rounds without a better value after which a training stops, by the number of held-out queries.

    The mean over few queries varies by more than one round is worth.
    """
    return 50 if queries >= MANY_QUERIES // 4 else 100
