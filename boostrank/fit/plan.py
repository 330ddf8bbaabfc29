"""Plan of a training, which `fit.train.resolve` creates from options and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from boostrank.core.machine import resolve_threads
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.fit.params import AUTO_START, SEED_NAMES, TrainingParameters, headline, pop_param, split_params
from boostrank.kernels.driver import AllReduce, alone
from boostrank.metric import Conventions
from boostrank.model.query_columns import WithinQuery
from boostrank.model.ranking_model import RankingModel
from boostrank.options import DEFAULT_ROUNDS, PLAIN, TrainOptions

if TYPE_CHECKING:
    from boostrank.fit.start.cross_fit import Fitter


@dataclass(frozen=True)
class Peers:
    """Workers that train one model together.

    Args:
        rank: rank of this process, from 0.
        all_reduce: sums arrays over all workers; each worker must call it, in the same order.
    """

    rank: int = 0
    all_reduce: AllReduce = alone


ALONE = Peers()
"""Peers of a training on a single worker."""


@dataclass(frozen=True)
class Member:
    """A training in an average over folds.

    Args:
        objective, start: as in `boostrank.train`; None keeps the given objective.
        begins_linear: with start="auto", use a linear start if possible, for any objective.
        rounds: maximum number of rounds, and the length of schedules; None for the recipe's.
    """

    objective: Any = None
    start: Any = AUTO_START
    begins_linear: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None

    def over(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given parameters, updated with those of the member."""
        objective = {} if self.objective is None else {"objective": self.objective}
        return {**params, **self.trees, **self.params, **objective}

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Name for tables: `auto, random splits`."""
        words = [str(self.objective or "as given")]
        words += ["linear start"] if self.begins_linear and self.start == AUTO_START else []
        return ", ".join(words + (["random splits"] if self.trees else []))


@dataclass(frozen=True)
class Recipe:
    """A preset applied to given data.

    Args:
        trees: parameters of the engine that replace its defaults.
        patience: patience of early stopping; 0 for none or the given one.
        folds: number of folds, of which each member leaves out another; 0 for a single training on all queries.
        note: reason for a single training in place of folds, or empty.
    """

    preset: str = PLAIN
    rounds: int = DEFAULT_ROUNDS
    trees: Mapping[str, Any] = field(default_factory=dict)
    patience: int = 0
    members: tuple[Member, ...] = (Member(),)
    folds: int = 0
    note: str = ""

    @property
    def words(self) -> str:
        """One-line summary: `quality good: 4 folds; learning_rate=0.05, num_leaves=15; 1,000 rounds at most, ...`."""
        trees = ", ".join(f"{name}={value:g}" for name, value in self.trees.items()) or "trees as given"
        parts = [self.members[0].name] if self.members[0].objective else []
        if self.folds:
            some = f"{len(self.members)} of " if len(self.members) < self.folds else ""
            parts = [f"{some}{self.folds} folds"]
        stops = f" at most, stopped after {self.patience} without gain" if self.patience else ""
        return f"quality {self.preset}: {'; '.join([*parts, trees, f'{self.rounds:,} rounds{stops}'])}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft:
    """Training parameters without data.

    Args:
        options: options as given.
        params: as in `boostrank.train`; `fit.train.resolve` handles those that name columns.
        rounds: boosting rounds, unless `params` set them.
    """

    options: TrainOptions
    engine: Backend
    params: Mapping[str, Any]
    rounds: int

    @cached_property
    def settings(self) -> TrainingParameters:
        """Parameters by consumer."""
        return split_params(self.params, self.rounds, self.engine)

    @property
    def metric(self) -> str | None:
        """Metric for early stopping; None without metrics."""
        return headline(self.settings.metrics)

    @property
    def threads(self) -> int:
        return resolve_threads(self.settings.threads)

    @property
    def seed(self) -> int:
        return int(pop_param(dict(self.params), SEED_NAMES, 0))

    def seeded(self, seed: int) -> Self:
        kept = {name: value for name, value in self.params.items() if name not in SEED_NAMES}
        return replace(self, params={**kept, "seed": seed})

    def with_options(self, **changed: Any) -> Self:
        return replace(self, options=replace(self.options, **changed))


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Draft):
    """A training.

    Args:
        train_set: training set; its labels are gains if the gain is an expression.
        valid: names and data sets to evaluate each round; may include `train_set`.
        record: parameters for the model's record; None for `params`.
        begins_linear: with start="auto", use a linear start if possible, for any objective.
        earlier: model to continue.
        recipe: a single training, or members on folds.
        fitted: creates the linear start; None for `cross_fit.cross_fitted`.
        at_once: allow early stopping before a changing objective has settled.
        peers: workers that train together, each on its own queries.
    """

    train_set: RankingDataset
    valid: tuple[tuple[str, RankingDataset], ...] = ()
    record: Mapping[str, Any] | None = None
    begins_linear: bool = False
    earlier: RankingModel | None = None
    recipe: Recipe = Recipe()
    fitted: Fitter | None = None
    measured: bool = True
    at_once: bool = False
    peers: Peers = ALONE

    @cached_property
    def rules(self) -> Conventions:
        """Conventions of the metrics."""
        given = self.options.conventions
        found = Conventions.of(given, self.settings.gain if given is None else None)
        return found if self.train_set.gain is None else replace(found, gain="linear")

    @cached_property
    def within(self) -> WithinQuery | None:
        """Requested columns within queries; None for none, or those of `earlier`."""
        return WithinQuery.given(self.options.within_query, self.options.of)

    @property
    def others(self) -> tuple[RankingDataset, ...]:
        """Validation sets except the training set."""
        return tuple(data for _, data in self.valid if data is not self.train_set)
