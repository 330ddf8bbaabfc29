"""A plan, which `fit.resolve.resolve` makes of options and data, and its final trainings."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from boostrank.core.errors import DataWarning, ParameterError, warn_user
from boostrank.core.types import Float64Array, Int64Array, ParamValues
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.engines.engine_params import Limits
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.settings import (
    AUTO_START,
    SEED_NAMES,
    STOPPING_NAMES,
    Settings,
    pop_param,
    split_params,
)
from boostrank.fit.start.cross_fit import MOST_FEATURES, StartFitter
from boostrank.kernels.driver import AllReduce, alone
from boostrank.metrics import Conventions
from boostrank.model.query_columns import ModelColumns
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.description import TrainingObjective
from boostrank.options import DEFAULT_ROUNDS, PLAIN, TrainOptions

DataSets = tuple[tuple[str, RankingDataset], ...]
"""Names and data sets to evaluate in each round."""
_SEEDS_APART = 1 << 42
"""Seed offset between workers, larger than usual seeds and those that `kernels.options` derives."""


def share_alone(value: Any, reader: int | None = None) -> list[Any]:
    """Return the values of all workers, of which there is one."""
    return [value]


@dataclass(frozen=True)
class Collective:
    """Workers that train one model together, each on its own queries.

    Args:
        rank: rank of this process, starting from 0.
        all_reduce: function that sums arrays over all workers. All call it in the same order.
        share: (value, reader=None) -> values of all workers by rank, for all or for one reader.
        engine: the engine on this worker; None for the usual one.
        parts: the shards that are joined in this worker's training set.
        order: (rank, index on that rank) of each training shard, in input order.
    """

    rank: int = 0
    all_reduce: AllReduce = alone
    share: Callable[..., list[Any]] = share_alone
    engine: Backend | None = None
    parts: Sequence[RankingDataset] = ()
    order: Sequence[tuple[int, int]] = ()

    @property
    def is_alone(self) -> bool:
        """Whether there is a single worker."""
        return self.share is share_alone

    def sum(self, *counts: int) -> list[int]:
        """Return the sums of counts over all workers."""
        return [int(total) for total in self.all_reduce(np.array(counts, np.float64))]


ALONE = Collective()
"""Training on a single worker."""


@dataclass(frozen=True)
class Member:
    """One of the trainings of a preset, whose models are averaged over folds.

    Args:
        objective: as in `boostrank.train`; None keeps the objective of the options.
        begins_linear: with start="auto", use a linear start if possible, for any objective. False
            with another start.
        trees, params: parameters of the engine and of the objective.
        rounds: maximum number of rounds and length of schedules; None for the preset's number.
    """

    objective: Any = None
    begins_linear: bool = False
    params: ParamValues = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None

    def update(self, params: ParamValues) -> dict[str, Any]:
        """Return parameters updated with the member's parameters."""
        objective = {} if self.objective is None else {"objective": self.objective}
        return {**params, **self.trees, **self.params, **objective}

    @property
    def name(self) -> str:
        """Name in tables, such as `auto, random splits`."""
        traits = [str(self.objective or "as given")]
        if self.begins_linear:
            traits.append("linear start")
        if self.trees:
            traits.append("random splits")
        return ", ".join(traits)


@dataclass(frozen=True)
class Preset:
    """A preset that was applied to a data set.

    Args:
        trees: engine parameters that replace the engine's defaults.
        patience: patience for early stopping; 0 for that of the parameters, if any.
        folds: number of folds, of which each member leaves out another. 0 for a single training.
        note: the reason why a single training replaces folds, or an empty string.
    """

    quality: str = PLAIN
    rounds: int = DEFAULT_ROUNDS
    trees: Mapping[str, Any] = field(default_factory=dict)
    patience: int = 0
    members: tuple[Member, ...] = (Member(),)
    folds: int = 0
    note: str = ""

    def update(self, params: ParamValues) -> dict[str, Any]:
        """Return parameters updated with the preset's, but not with those of its members."""
        updated = {**params, **self.trees}
        if self.patience:
            updated = {name: value for name, value in updated.items() if name not in STOPPING_NAMES}
            updated["early_stopping_round"] = self.patience
        return updated

    @property
    def summary(self) -> str:
        """One line: `quality good: 4 folds; learning_rate=0.05, num_leaves=15; 1,000 rounds at
        most, ...`.
        """
        trees = ", ".join(f"{name}={value:g}" for name, value in self.trees.items())
        parts = [self.members[0].name] if self.members[0].objective else []
        if self.folds:
            trained = f"{len(self.members)} of " if len(self.members) < self.folds else ""
            parts = [f"{trained}{self.folds} folds"]
        stops = f" at most, stopped after {self.patience} without gain" if self.patience else ""
        parts += [trees or "trees as given", f"{self.rounds:,} rounds{stops}"]
        return f"quality {self.quality}: {'; '.join(parts)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Training(Settings):
    """One training, with all that decides its model. It can be printed and pickled.

    Args:
        name: name in tables.
        params: parameters of the engine, in which features are columns.
        objective: objective with its total number of rounds.
        train_set: the training set, whose labels are gains if the gain is an expression.
        valid: sets to evaluate in each round, which may include `train_set`.
        conventions: conventions for the metrics.
        starts_linear: whether trees begin with a linear start.
        columns: the columns of the trees: the features, and columns within queries.
        limits: constraints on the columns.
        fill: numbers that replaced missing values, by feature.
        recorded: parameters for the model's record.
        init_model: the model to continue.
        tree_limit: maximum number of trees, if any.
        stops_early: whether early stopping may end the training before its objective has settled.
        callbacks, feval, checkpoint: as in `boostrank.train`.
        collective: the workers that train together.
        fit_start: function that fits the linear start; None for the usual one.
    """

    name: str
    engine: Backend
    train_set: RankingDataset
    valid: DataSets = ()
    conventions: Conventions
    starts_linear: bool = False
    columns: ModelColumns
    limits: Limits
    fill: Mapping[str, float] = field(default_factory=dict)
    recorded: Mapping[str, Any]
    init_model: RankingModel | None = None
    tree_limit: int | None = None
    stops_early: bool = False
    callbacks: Sequence[Any] = ()
    feval: Sequence[Any] = ()
    checkpoint: Checkpoint | None = None
    collective: Collective = ALONE
    fit_start: StartFitter | None = None

    @property
    def rows(self) -> list[RankingDataset]:
        """The training set and then the validation sets, with the columns within queries."""
        complete = partial(self.columns.dataset, threads=self.n_threads)
        train_set, valid = convert_sets(self.train_set, self.valid, complete)
        return [train_set, *(data for _, data in valid)]

    @property
    def rounds_before(self) -> int:
        """Number of rounds of the model to continue."""
        model = self.init_model
        return 0 if model is None else min(model.best_iteration, model._booster.rounds)

    @property
    def drops_trees(self) -> bool:
        """Whether later rounds rescale earlier trees, as in dart."""
        return self.engine.params.drops_trees(self.params)

    @property
    def fill_values(self) -> Float64Array:
        """The number that replaced missing values of each feature, float64[d], or NaN."""
        names = self.train_set.feature_names
        return np.array([self.fill.get(name, np.nan) for name in names])

    @property
    def categories_by_column(self) -> dict[int, Categories]:
        """Categories of each categorical feature, by column."""
        data = self.train_set
        return {data.feature_names.index(name): data.categories[name] for name in data.categories}


def convert_sets(
    data: RankingDataset, valid: DataSets, convert: Callable[[RankingDataset], RankingDataset]
) -> tuple[RankingDataset, DataSets]:
    """Convert a training set and validation sets, which may include it."""
    train_set = convert(data)
    converted = [(name, train_set if rows is data else convert(rows)) for name, rows in valid]
    return train_set, tuple(converted)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The trainings that options and data come to, and how their models are averaged.

    Args:
        options: the options as the user passed them.
        params: parameters after the preset, without those that moved into the data.
        train_set, valid: the data, as in `Training`.
        preset: the preset, with the folds and their members. The default is a plain training.
        init_model, fill, collective: as in `Training`.
    """

    options: TrainOptions
    engine: Backend
    params: ParamValues
    train_set: RankingDataset
    valid: DataSets = ()
    preset: Preset = Preset()
    init_model: RankingModel | None = None
    fill: Mapping[str, float] = field(default_factory=dict)
    collective: Collective = ALONE

    @cached_property
    def settings(self) -> Settings:
        """The parameters of all trainings, grouped by purpose."""
        return split_params(self.params, self.preset.rounds, self.engine)

    @cached_property
    def conventions(self) -> Conventions:
        """Conventions for the metrics."""
        chosen = self.options.conventions
        gain = self.settings.gain if chosen is None else None
        conventions = Conventions.of(chosen, gain)
        return conventions if self.train_set.gain is None else replace(conventions, gain="linear")

    @property
    def seed(self) -> int:
        """Seed of the first training and of the folds."""
        return int(pop_param(dict(self.params), SEED_NAMES, 0))

    @property
    def valid_sets(self) -> tuple[RankingDataset, ...]:
        """Validation sets, without the training set."""
        return tuple(data for _, data in self.valid if data is not self.train_set)

    @cached_property
    def trainings(self) -> tuple[Training, ...]:
        """The training on all queries, or that of the member of each fold, still with all queries
        as its training set.
        """
        if not self.preset.folds:
            return (self.make_training(),)
        return tuple(map(self.make_training, itertools.count(self.seed), self.preset.members))

    def used_columns(self, training: Training) -> Int64Array | None:
        """Return the columns that occur in the training set, in ascending order, or None if
        training keeps all columns.

        Training keeps all columns if most occur, or if a parameter, a model or a column within
        queries refers to columns.
        """
        data = self.train_set
        refers = data.categories or training.columns.kinds or self.init_model is not None
        if not self.engine.stores_absent or refers:
            return None
        # Lists in the parameters refer to columns. The rows of other workers may have other
        # columns.
        lists_columns = any(isinstance(value, list) for value in training.params.values())
        if lists_columns or not self.collective.is_alone:
            return None
        return data.occurring_columns

    def select_columns(self, columns: Int64Array) -> Plan:
        """Return the plan on some columns of the data."""
        names = tuple(self.train_set.feature_names[i] for i in columns.tolist())

        def select(data: RankingDataset) -> RankingDataset:
            return replace(data, features=data.features[:, columns], feature_names=names)

        train_set, valid = convert_sets(self.train_set, self.valid, select)
        return replace(self, train_set=train_set, valid=valid)

    def make_training(self, seed: int | None = None, member: Member | None = None) -> Training:
        """Return the training of a member on all queries, with another seed if there is one.

        Args:
            seed: None for that of the parameters.
            member: None for the first of the preset.
        """
        member = member or self.preset.members[0]
        params = member.update(self.params)
        if seed is None:
            recorded = member.update(self.preset.update(self.options.flat()))
        else:
            params = {name: params[name] for name in params if name not in SEED_NAMES}
            recorded = params = params | {"seed": seed}
        # The preset decides the rounds (`presets.choose_preset`); a member may have fewer.
        rounds = min(self.preset.rounds, member.rounds or self.preset.rounds)
        settings = split_params(params, rounds, self.engine)
        # Features become columns of the engine, which checks the parameters of columns.
        data, convert = self.train_set, self.engine.params.of_columns
        names = data.feature_names
        trees = convert(settings.params, names, codes=data.categorical)
        limits = self._limits(trees, names)
        self._check_continued(limits)
        # By default, the engines use all cores and ignore CPU quotas.
        trees.setdefault("num_threads", settings.n_threads)
        continued = None if self.init_model is None else self.init_model.columns
        columns = ModelColumns.of_training(self.options, data, limits.unused, continued)
        if columns.kinds:
            trees = convert(trees, names, followed=columns.sources)
            limits = self._limits(trees, columns.names)
        training = Training(
            **vars(settings) | {"params": trees},
            name=member.name,
            engine=self.engine,
            train_set=data,
            valid=self.valid,
            conventions=self.conventions,
            columns=columns,
            fill=self.fill,
            recorded=recorded,
            init_model=self.init_model,
            tree_limit=self.options.max_trees,
            stops_early=bool(self.preset.folds and member.objective),
            callbacks=self.options.callbacks,
            feval=self.options.feval,
            limits=limits,
            checkpoint=self.options.checkpoint,
            collective=self.collective,
        )
        starts_linear = self._starts_linear(member, training)
        return replace(training, objective=self._schedule(training), starts_linear=starts_linear)

    def _limits(self, trees: ParamValues, names: Sequence[str]) -> Limits:
        """Return the constraints on a model by its parameters and the categorical columns."""
        categorical = self.train_set.categorical
        limits = self.engine.params.limits(trees, names)
        for column in categorical:
            if limits.direction[column]:
                raise ParameterError(
                    f"monotone_constraints: {names[column]!r} is categorical, and has no direction"
                )
        return replace(limits, unused=tuple(sorted({*limits.unused, *categorical})))

    def _check_continued(self, limits: Limits) -> None:
        """Refuse constraints with which the model to continue was not trained."""
        model, params, names = self.init_model, self.engine.params, self.train_set.feature_names
        if model is None or not (limits.direction.any() or limits.groups):
            return
        # The record of an average has the parameters of its first model.
        recorded = {} if model.info.averaged else model.info.parameters or {}
        with contextlib.suppress(ParameterError):  # numbers of columns as keys, which JSON lacks
            earlier = params.limits(params.of_columns(recorded, names), names)
            if limits.groups == earlier.groups and all(limits.direction == earlier.direction):
                return
        raise ParameterError(
            "the record of init_model lacks these monotone_constraints and"
            " interaction_constraints: train a new model with them"
        )

    def _starts_linear(self, member: Member, training: Training) -> bool:
        """Return whether a training begins with a linear start. With "auto", it does so if
        possible, for the objective `auto` or a member of its own.
        """
        start, engine, model = self.options.start, self.engine, self.init_model
        is_auto = start == AUTO_START
        if start in (None, "none"):
            return False
        if start not in (AUTO_START, "linear"):
            raise ParameterError(f"start={start!r}: expected 'linear', 'auto' or 'none'")
        if model is not None:
            if not is_auto:
                raise ParameterError("init_model has its own start: pass one of init_model, start")
            if training.is_auto and engine.starts_linear and not model._booster.start_trees:
                reason = "the model to continue has no linear start, and start='auto' does not add"
                warn_user(f"{reason} one", DataWarning)
            return False
        is_possible = engine.starts_linear and (training.is_auto or member.begins_linear)
        if is_auto and not is_possible:
            return False
        # Warn where "auto" is refused, and raise for "linear".
        features = len(training.columns.names) - len(training.limits.unused)
        if features > MOST_FEATURES:
            used = self.used_columns(training)
            features = features if used is None else used.size
        try:
            if not engine.starts_linear:
                raise ParameterError(
                    f"no linear start: {engine.name} grows no trees; start='none' omits it"
                )
            if features > MOST_FEATURES:
                raise ParameterError(
                    f"no linear start: {features:,} features, more than {MOST_FEATURES:,};"
                    " start='none' omits it"
                )
            if training.objective is not None and self.train_set.document_weights is not None:
                remedy = "start='none' omits it"
                training.objective.check_gain_weights("the linear start", remedy)
        except ParameterError as error:
            if not is_auto:
                raise
            warn_user(str(error), DataWarning)
            return False
        return True

    def _schedule(self, training: Training) -> TrainingObjective | None:
        """Return the objective over all rounds, with other random numbers on each worker."""
        objective, rank = training.objective, self.collective.rank
        if objective is None:
            return None
        if objective.total_rounds is None:  # already set for a stage of a longer training
            objective = objective.scale_to(training.rounds_before + training.rounds)
        if rank:
            objective = copy.deepcopy(objective)
            for part in objective.parts:
                for values in (part.params, part.options):
                    if "seed" in values:
                        values["seed"] = int(values["seed"]) + rank * _SEEDS_APART
        return objective
