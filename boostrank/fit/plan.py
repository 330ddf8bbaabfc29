"""Plan of a training: parameters, data and choices, each normalised once by `fit.train.resolve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from boostrank.core.machine import resolve_threads
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.engines.rounds import Callback
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.params import AUTO_START, SEED_NAMES, TrainingParameters, headline, pop_seed, split_params
from boostrank.metric import Conventions
from boostrank.model.price import Limit
from boostrank.model.within_query import WithinQuery

if TYPE_CHECKING:
    from boostrank.fit.start.begin import Fitted


PLAIN = "plain"
"""The preset of one training with the engine's defaults."""
FIXED_ROUNDS = 100
"""Number of rounds where nothing chooses it: LightGBM's default."""


@dataclass(frozen=True)
class Member:
    """One way to train a fold.

    Args:
        objective: as `boostrank.train` takes it; None: the one that was given.
        start: as `boostrank.train` takes it.
        begins_linear: with start="auto", begin with a linear start where one can be, whatever the objective.
        params: parameters of the objective.
        trees: parameters of the engine.
        rounds: maximum, over which schedules run; None: all.
    """

    objective: Any = None
    start: Any = AUTO_START
    begins_linear: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None

    def over(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of a training: those given, with the member's own."""
        objective = {} if self.objective is None else {"objective": self.objective}
        return {**params, **self.trees, **self.params, **objective}

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """For tables: `auto, random splits`."""
        words = [str(self.objective or "as given")]
        words += ["linear start"] if self.begins_linear and self.start == AUTO_START else []
        return ", ".join(words + (["random splits"] if self.trees else []))


@dataclass(frozen=True)
class Recipe:
    """What a preset comes to on given data.

    Args:
        preset: its name.
        rounds: maximum, of each training.
        trees: parameters of the engine, in place of its defaults.
        patience: of early stopping; 0: none, or the one that was given.
        members: what is trained, one after another.
        folds: number of folds that queries are dealt into. Each member leaves out another, the first ones. 0: the one
            member trains on all queries.
        note: why there is one training where folds were wanted; empty: no reason.
    """

    preset: str = PLAIN
    rounds: int = FIXED_ROUNDS
    trees: Mapping[str, Any] = field(default_factory=dict)
    patience: int = 0
    members: tuple[Member, ...] = (Member(),)
    folds: int = 0
    note: str = ""

    @property
    def words(self) -> str:
        """One line: `quality good: 4 folds; learning_rate=0.05, num_leaves=15; 1,000 rounds at most, ...`."""
        trees = ", ".join(f"{name}={value:g}" for name, value in self.trees.items()) or "trees as given"
        parts = [self.members[0].name] if self.members[0].objective else []
        if self.folds:
            some = f"{len(self.members)} of " if len(self.members) < self.folds else ""
            parts = [f"{some}{self.folds} folds"]
        stops = f" at most, stopped after {self.patience} without gain" if self.patience else ""
        return f"quality {self.preset}: {'; '.join([*parts, trees, f'{self.rounds:,} rounds{stops}'])}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft:
    """Parameters of a training, without its data.

    Args:
        engine: that trains.
        params: as `boostrank.train` takes them; those that name columns are settled by `fit.train.resolve`.
        rounds: boosting rounds, unless `params` say otherwise.
        conventions: of the metrics; None: those of the objective's gain.
    """

    engine: Backend
    params: Mapping[str, Any]
    rounds: int
    conventions: Conventions | str | None = None

    @cached_property
    def settings(self) -> TrainingParameters:
        """The parameters, sorted by reader.

        Raises:
            ParameterError: unknown names, values out of range, one parameter given twice.
        """
        return split_params(self.params, self.rounds, self.engine)

    @cached_property
    def rules(self) -> Conventions:
        """Conventions of the metrics."""
        return Conventions.of(self.conventions, self.settings.gain)

    @property
    def metric(self) -> str | None:
        """The metric that early stopping watches and that choices compare; None: no metric."""
        return headline(self.settings.metrics)

    @property
    def threads(self) -> int:
        """Number of threads, at least 1."""
        return resolve_threads(self.settings.threads)

    @property
    def seed(self) -> int:
        """The seed of everything random; 0 where none is given."""
        return pop_seed(dict(self.params))

    def over(self, **params: Any) -> Self:
        """The same with other values of parameters, also in the model's record."""
        return replace(self, params={**self.params, **params})

    def seeded(self, seed: int) -> Self:
        """The same with another seed."""
        kept = {name: value for name, value in self.params.items() if name not in SEED_NAMES}
        return replace(self, params=kept).over(seed=seed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Draft):
    """One training.

    Args:
        train_set: what it learns from; its labels are gains where the gain is an expression.
        valid: names and data sets to evaluate after each round; may hold `train_set` itself.
        record: parameters as the model's record repeats them; None: `params`.
        start, begins_linear: the linear ranker that trees begin with, see `fit.start.begin`.
        init_model: `RankingModel` to continue, or the engine's own booster.
        within: columns within queries; None: none, or those of `init_model`.
        functions: metrics of the user's own, (scores, data set) -> (name, value, higher is better).
        callbacks: LightGBM-style callbacks.
        checkpoint: where the training is written down.
        keep_training_booster: as in `lgb.train`.
        limit: on the trees of the model.
        recipe: what is trained: this alone, or its members on folds.
        fitted: makes the linear start; None: `cross_fit.cross_fitted`.
        measured: whether metrics are measured each round.
        at_once: stop early in any round, also before an objective that changes over the rounds has settled.
    """

    train_set: RankingDataset
    valid: tuple[tuple[str, RankingDataset], ...] = ()
    record: Mapping[str, Any] | None = None
    start: Any = AUTO_START
    begins_linear: bool = False
    init_model: Any = None
    within: WithinQuery | None = None
    functions: tuple[Callable[..., Any], ...] = ()
    callbacks: tuple[Callback, ...] = ()
    checkpoint: Checkpoint | None = None
    keep_training_booster: bool = False
    limit: Limit = field(default_factory=Limit)
    recipe: Recipe = Recipe()
    fitted: Fitted | None = None
    measured: bool = True
    at_once: bool = False

    @property
    def others(self) -> tuple[RankingDataset, ...]:
        """Validation sets, without the training set."""
        return tuple(data for _, data in self.valid if data is not self.train_set)
