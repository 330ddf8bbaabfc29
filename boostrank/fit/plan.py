"""A training plan, which `fit.train.resolve` creates from options and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from boostrank.core.machine import resolve_threads
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.fit.params import AUTO_START, SEED_NAMES, TrainingParameters, headline, pop_param, split_params
from boostrank.kernels.driver import AllReduce, alone
from boostrank.metrics import Conventions, Metric
from boostrank.model.query_columns import WithinQuery
from boostrank.model.ranking_model import RankingModel
from boostrank.options import DEFAULT_ROUNDS, PLAIN, TrainOptions

if TYPE_CHECKING:
    from boostrank.fit.start.cross_fit import Fitter


@dataclass(frozen=True)
class Peers:
    """Workers that train one model together.

    Args:
        rank: rank of this process, starting from 0.
        all_reduce: function that sums arrays over all workers. All workers must call it in the same order.
    """

    rank: int = 0
    all_reduce: AllReduce = alone


ALONE = Peers()
"""The peers for training on a single worker."""


@dataclass(frozen=True)
class Member:
    """One of the trainings whose models are averaged over folds.

    Args:
        objective, start: as in `boostrank.train`; None keeps the given objective.
        begins_linear: with start="auto", use a linear start if possible, for any objective.
        rounds: maximum number of rounds and length of schedules; None for the number in the recipe.
    """

    objective: Any = None
    start: Any = AUTO_START
    begins_linear: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None

    def over(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given parameters, updated with the member's parameters."""
        objective = {} if self.objective is None else {"objective": self.objective}
        return {**params, **self.trees, **self.params, **objective}

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Name in tables, such as `auto, random splits`."""
        words = [str(self.objective or "as given")]
        words += ["linear start"] if self.begins_linear and self.start == AUTO_START else []
        return ", ".join(words + (["random splits"] if self.trees else []))


@dataclass(frozen=True)
class Recipe:
    """A preset that was applied to a data set.

    Args:
        trees: engine parameters that replace the engine's defaults.
        patience: patience for early stopping; 0 for no early stopping or the given patience.
        folds: number of folds. Each member leaves out a different fold. 0 for a single training on all queries.
        note: the reason why a single training replaces folds, or an empty string.
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
        """A one-line summary: `quality good: 4 folds; learning_rate=0.05, num_leaves=15; 1,000 rounds at most, ...`."""
        trees = ", ".join(f"{name}={value:g}" for name, value in self.trees.items()) or "trees as given"
        parts = [self.members[0].name] if self.members[0].objective else []
        if self.folds:
            some = f"{len(self.members)} of " if len(self.members) < self.folds else ""
            parts = [f"{some}{self.folds} folds"]
        stops = f" at most, stopped after {self.patience} without gain" if self.patience else ""
        return f"quality {self.preset}: {'; '.join([*parts, trees, f'{self.rounds:,} rounds{stops}'])}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft:
    """Training parameters that have not been applied to data yet.

    Args:
        options: the options as the user passed them.
        params: as in `boostrank.train`; `fit.train.resolve` handles parameters that name columns.
        rounds: number of boosting rounds, unless it is set in `params`.
    """

    options: TrainOptions
    engine: Backend
    params: Mapping[str, Any]
    rounds: int

    @cached_property
    def settings(self) -> TrainingParameters:
        """Parameters, grouped by purpose."""
        return split_params(self.params, self.rounds, self.engine)

    @property
    def metric(self) -> str | None:
        """Metric for early stopping, or None if there are no metrics."""
        return headline(self.settings.metrics)

    @property
    def watched(self) -> Metric | None:
        """The metric called `metric`."""
        return next((Metric.of(metric) for metric in self.settings.metrics if str(metric) == self.metric), None)

    @property
    def threads(self) -> int:
        """The number of threads: the option, or all available cores."""
        return resolve_threads(self.settings.threads)

    @property
    def seed(self) -> int:
        """The seed in the parameters, under any of its names, or 0."""
        return int(pop_param(dict(self.params), SEED_NAMES, 0))

    def seeded(self, seed: int) -> Self:
        """Return a copy whose parameters have this seed, under the name `seed` alone."""
        kept = {name: value for name, value in self.params.items() if name not in SEED_NAMES}
        return replace(self, params={**kept, "seed": seed})

    def with_options(self, **changed: Any) -> Self:
        """Return a copy with other values of these options."""
        return replace(self, options=replace(self.options, **changed))


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Draft):
    """The plan for a training run.

    Args:
        train_set: the training set, whose labels are gains if the gain is an expression.
        valid: names and data sets to evaluate in each round, which may include `train_set`.
        record: parameters to store in the model's record; None for `params`.
        begins_linear: with start="auto", use a linear start if possible, for any objective.
        earlier: the model to continue.
        recipe: the recipe for a single training or for members on folds.
        fitted: function that creates the linear start; None for `cross_fit.cross_fitted`.
        at_once: whether to allow early stopping before a changing objective has settled.
        peers: the workers that train together, each on its own queries.
        fill: numbers that replaced missing values, by feature.
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
    fill: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def rules(self) -> Conventions:
        """Conventions for the metrics."""
        given = self.options.conventions
        found = Conventions.of(given, self.settings.gain if given is None else None)
        return found if self.train_set.gain is None else replace(found, gain="linear")

    @cached_property
    def within(self) -> WithinQuery | None:
        """The requested columns within queries, or None if there are none or `earlier` determines them."""
        return WithinQuery.given(self.options.within_query, self.options.of)

    def converted(self, convert: Callable[[RankingDataset], RankingDataset]) -> Self:
        """Return a plan with converted data sets. Validation sets first get the features in order."""
        data = self.train_set
        train_set = convert(data)
        valid = [(name, train_set if rows is data else convert(rows.like(data))) for name, rows in self.valid]
        return replace(self, train_set=train_set, valid=tuple(valid))

    @property
    def others(self) -> tuple[RankingDataset, ...]:
        """Validation sets, without the training set."""
        return tuple(data for _, data in self.valid if data is not self.train_set)
