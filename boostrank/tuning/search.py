"""Parameter search with Optuna on held-out queries, with an estimate of the variation due to
chance.

Each trial is evaluated on a validation set or on folds of whole queries, and compared query by
query with the best trial so far. Between folds, a trial is stopped if its deficit exceeds chance
and the variation between queries.

Source: Bergstra et al. 2011 (the tree-structured Parzen estimator, Optuna's sampler).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from boostrank.core.errors import DataError, InputError, MissingDependency, ParameterError
from boostrank.core.params import Param, find_param
from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.engines import get_backend
from boostrank.engines.engine_params import as_whole
from boostrank.fit.execute import Folds
from boostrank.fit.from_data import by_name
from boostrank.fit.resolve import resolve
from boostrank.fit.run import run
from boostrank.fit.settings import (
    OBJECTIVE_NAMES,
    SEED_NAMES,
    STOPPING_NAMES,
    default_objective,
    pop_param,
)
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.options import OPTIONS
from boostrank.metrics import BoundMetrics
from boostrank.model.query_columns import WithinQuery
from boostrank.objective.mixture import accepted_params
from boostrank.objectives import OBJECTIVES
from boostrank.options import KEYWORDS, SingleOptions, TrainOptions, declared, takes_options
from boostrank.records import jsonable
from boostrank.tuning.space import TREES, Dimension, full_space

_BASELINE_RUNS = 5
_PATIENCE = 50
# Standard errors below the best trial at which a trial is stopped.
_BEHIND = 2.0
# Consecutive failures that end the search: their cause is not the parameter values.
_MOST_FAILURES = 5


@dataclass(frozen=True)
class Trial:
    """A trial in a parameter search.

    Args:
        number: trial number, starting from 0.
        params: the values of the searched parameters.
        value: the metric over all held-out queries, or NaN if the trial was stopped.
        rounds: median best round over the folds, or 0 if the trial was stopped.
        state: "done", "given up", or "failed: why".
    """

    number: int
    params: dict[str, Any]
    value: float
    rounds: int
    state: str


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The result of a parameter search.

    Args:
        metric: metric name, such as "ndcg@10".
        fixed: the given parameters, which were not searched.
        best: the best trial, or None if no trial is better than the given parameters.
        start: mean metric with the given parameters over trainings that differ only in the seed and
            row order.
        luck: standard deviation of the metric over these trainings.
        matters: difference between two single trainings that occurs by chance with a probability of
            5%.
        gain: the best trial minus the mean of the start's trainings, by query. As the best of many,
            it is optimistic.
        start_rounds: median best round with the given parameters.
        folds: number of folds of whole queries, or 0 with a validation set.
        queries: number of held-out queries included in the metric.
        rounds, patience: maximum number of rounds in each training, and the patience for early
            stopping.
    """

    metric: str
    fixed: dict[str, Any]
    best: Trial | None
    start: float
    luck: float
    matters: float
    gain: PairedDifference | None
    start_rounds: int
    trials: tuple[Trial, ...]
    folds: int
    queries: int
    rounds: int
    patience: int

    def __repr__(self) -> str:
        best = "none is better" if self.best is None else f"best {self.best.params}"
        return (
            f"TuningResult({len(self.trials)} trials, {best}, {self.metric} at the start"
            f" {self.start:.4f})"
        )

    @property
    def params(self) -> dict[str, Any]:
        """Parameters for `boostrank.train`, which are the given ones and the best ones found."""
        return self.fixed | (self.best.params if self.best else {})

    @property
    def best_rounds(self) -> int:
        """Best number of rounds for `params`."""
        return self.best.rounds if self.best else self.start_rounds


Progress = Callable[[Trial, int, "Trial | None"], None]
"""Called after each trial with the trial, the requested number of trials, and the best trial so
far.
"""


@takes_options(option for name, option in KEYWORDS.items() if name in declared(SingleOptions))
def tune(
    params: Mapping[str, Any] | None,
    train_set: Any,
    valid_set: Any = None,
    num_boost_round: int = 500,
    *,
    trials: int = 50,
    folds: int = 5,
    space: Mapping[str, Dimension] | None = None,
    study: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> TuningResult:
    """Search for parameters.

    Args:
        params: as in `boostrank.train`. Given parameters are not searched. The default patience is
            50 rounds.
        train_set: the training set, with features in memory, as in `boostrank.train`.
        valid_set: data set on which trials are evaluated; None for folds of the training queries.
        num_boost_round: maximum number of rounds in each training.
        trials: total number of trials, including the trials in a resumed study; 0 returns the
            result of that study.
        folds: number of folds of whole queries, at least 2. Ignored if `valid_set` is given.
        space: mapping from names of objective or engine parameters to `Span` or `Choice`. It
            extends or replaces the default space, which is the objective's declared ranges and
            `space.TREES`. "objective" may be a `Choice`.
        study: path of a file that stores the trials. If it exists, the search is resumed. None
            stores nothing.
        progress: function to call after each trial.
        options: options as in `boostrank.train`, which are used in every trial.

    Raises:
        InputError: if parameters or data are invalid, or if the study is from another search (with
            the differences).
        MissingDependency: if Optuna is not installed.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> result = boostrank.tune(params, data, num_boost_round=2, trials=0, folds=2)
        >>> result.metric
        'ndcg@10'
    """
    try:
        import optuna
    except ImportError:
        raise MissingDependency("tuning needs Optuna: pip install 'boostrank[tune]'") from None
    trials, folds = as_whole(trials, "trials", 0), as_whole(folds, "folds", 0)
    if not isinstance(space, Mapping | None):
        raise ParameterError(f"space={space!r} must be a dictionary")
    if not isinstance(study, str | os.PathLike | None):
        raise ParameterError(f"study={study!r}: expected text or a PathLike")
    if progress is not None and not callable(progress):
        raise ParameterError(f"progress={progress!r} must be a function")
    rounds = as_whole(num_boost_round, "num_boost_round", 1)
    train_options = TrainOptions(params=by_name(params), rounds=rounds, **options)
    data, valid = as_dataset(train_set, "train_set"), []
    if valid_set is not None:
        valid = [("valid_0", as_dataset(valid_set, "valid_set", data.feature_names))]
    search = _Search(train_options, data, valid, folds, dict(space or {}))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    remembered = _open_study(optuna, study, search.identity())
    search.measure_start(remembered)
    while (n_finished := len(_finished(remembered))) < trials:
        # Seed a new sampler for each trial, so that a resumed search proposes the same values.
        remembered.sampler = optuna.samplers.TPESampler(
            seed=search.seed + n_finished, multivariate=True
        )
        trial = remembered.ask()
        state, value = search.run(trial, remembered)
        remembered.tell(trial, value, getattr(optuna.trial.TrialState, state))
        if progress is not None:
            finished = search.trials(remembered)
            progress(finished[-1], trials, _best(finished))
    return search.result(remembered)


def _open_study(optuna: Any, path: str | os.PathLike[str] | None, identity: dict[str, Any]) -> Any:
    """Create or load a study. Trials left running by a killed process are marked as failed."""
    storage = None
    if path is not None:
        storages = optuna.storages
        try:
            file = storages.journal.JournalFileBackend(os.fspath(path))
            storage = storages.JournalStorage(file)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{os.fspath(path)}: the file is not a study of Optuna: {error}"
            ) from error
        except OSError as error:
            raise InputError(f"{os.fspath(path)}: {error.strerror}") from error
    study = optuna.create_study(
        storage=storage, study_name="boostrank", direction="maximize", load_if_exists=True
    )
    # Refuse the study of another search.
    stored_identity = study.user_attrs.get("search")
    if stored_identity is None:
        study.set_user_attr("search", identity)
    elif stored_identity != identity:
        differ = sorted(
            key
            for key in {*stored_identity, *identity}
            if stored_identity.get(key) != identity.get(key)
        )
        raise InputError(
            f"{os.fspath(path or '')}: the study belongs to another search, which differs in"
            f" {', '.join(differ)}. Choose another file, or remove this one"
        )
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _finished(study: Any) -> list[Any]:
    """Return the finished trials in order, without the trials of killed processes."""
    finished = [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
    return [t for t in finished if t.state.name != "FAIL" or "why" in t.user_attrs]


class _Search:
    """A search that evaluates trials, with everything that stays constant."""

    def __init__(
        self,
        options: TrainOptions,
        train_set: RankingDataset,
        valid: Sequence[tuple[str, RankingDataset]],
        folds: int,
        space: dict[str, Dimension],
    ) -> None:
        if train_set.on_disk:
            raise DataError("rows on disk cannot be split into folds: read them into memory")
        fixed = dict(options.params)
        self.patience = int(pop_param(fixed, STOPPING_NAMES, _PATIENCE) or _PATIENCE)
        self.objective = pop_param(fixed, OBJECTIVE_NAMES, default_objective(options.backend))
        for name in [name for name in OBJECTIVE_NAMES if name in space]:
            space["objective"] = space.pop(name)
        for name, dimension in space.items():
            if not isinstance(dimension, Dimension):
                raise ParameterError(f"space: {name}={dimension!r}: expected a Span or a Choice")
        # Engines have several names for a parameter.
        resolve_names = get_backend(options.backend).params.resolve_names
        for name in resolve_names(fixed).keys() & resolve_names(space).keys():
            raise ParameterError(f"{name!r} is both given and searched")
        self._left_out = [
            name
            for name in TREES.keys() - space
            if resolve_names({name: 0}).keys() <= resolve_names(fixed | space).keys()
        ]
        first = self.objective
        if "objective" in space:
            first = space["objective"].values[0]  # type: ignore[union-attr]
        params = {"objective": first, "early_stopping_round": self.patience}
        # Resolve the plan with the given validation set only; folds replace it in each trial.
        plan = resolve(replace(options, params=fixed | params), train_set, valid)
        self.plan, self.seed = plan, plan.seed
        self.fixed = {
            name: value for name, value in plan.params.items() if name not in (*params, *SEED_NAMES)
        }
        self._space = space
        metric = plan.settings.main_metric
        if metric is None:
            raise ParameterError("a search needs a metric: metric='ndcg'")
        if not metric.higher_is_better:
            raise ParameterError(
                f"metric {metric}: higher must be better in a search; return the negative value"
            )
        self.metric = str(metric)
        self._folds, self.folds = None, 0
        if not valid:
            self._folds = Folds(plan.trainings[0], folds, plan.seed, shares=False)
            self.folds = folds
        self._metrics, weights = [], []
        for fold in range(self.folds or 1):
            data, threads = self._held_out(fold), plan.settings.threads
            bound = BoundMetrics([metric], data.labels, data.queries, plan.conventions, threads)
            self._metrics.append(bound)
            weights.append(data.queries.each_weight)
        self._weights = np.concatenate(weights)
        self._failed = 0

    def identity(self) -> dict[str, Any]:
        """Return the settings that must be unchanged when a search is resumed."""
        options = self.plan.options
        query_columns = WithinQuery.of_options(options)
        changes: dict[str, Any] = {}
        if query_columns is not None:
            changes |= query_columns.record
        if options.start != "auto":
            changes["start"] = options.start
        return {
            "fixed": (
                {name: str(value) for name, value in self.fixed.items()}
                | {"objective": str(getattr(self.objective, "name", self.objective))}
            ),
            "space": {name: str(value) for name, value in self._space.items()},
            "trees": self.plan.engine.grows_trees,
            "rounds": self.plan.preset.rounds,
            "patience": self.patience,
            "folds": self.folds,
            "backend": self.plan.engine.name,
            "metric": self.metric,
            "conventions": str(self.plan.conventions),
            "seed": self.seed,
            "data": [data.fingerprint for data in (self.plan.train_set, *self.plan.valid_sets)],
        } | changes

    def measure_start(self, study: Any) -> None:
        """Evaluate the given parameters several times for the baseline and its variation due to
        chance.
        """
        if "start" not in study.user_attrs:
            runs = [self._evaluate({}, lucky=i) for i in range(_BASELINE_RUNS)]
            values, rounds = zip(*runs, strict=True)
            # Average over runs: the luck of a single run would bias every gain.
            measured = {
                "per_query": _rounded(np.mean(values, axis=0)),
                "values": [self._mean(per_query) for per_query in values],
                "rounds": int(np.median(rounds)),
            }
            study.set_user_attr("start", measured)
        start = study.user_attrs["start"]
        self._start = np.array(start["per_query"], np.float64)  # null is NaN
        self._started_at, self._sd = self._mean(self._start), float(np.std(start["values"], ddof=1))
        self.start_rounds = start["rounds"]

    def run(self, trial: Any, study: Any) -> tuple[str, float | None]:
        """Run a trial, and return the name of its state and its value."""
        suggested = self._suggest(trial)
        trial.set_user_attr("params", suggested)
        against, best = self._leading(study)
        try:
            per_query, rounds = self._evaluate(suggested, against)
        except Exception as error:  # incompatible values raise different exceptions in each engine
            self._failed += 1
            if self._failed >= _MOST_FAILURES or isinstance(error, MemoryError):
                raise
            trial.set_user_attr("why", str(error))
            return "FAIL", None
        self._failed = 0
        if per_query.size < self._weights.size:
            return "PRUNED", None
        value = self._mean(per_query)
        trial.set_user_attr("rounds", rounds)
        if value > best:
            trial.set_user_attr("per_query", _rounded(per_query))
        return "COMPLETE", value

    def _leading(self, study: Any) -> tuple[Float64Array, float]:
        """Return the metric of each query, and its mean, of the last trial that was better than all
        before, or else of the start.
        """
        leaders = [trial for trial in _finished(study) if "per_query" in trial.user_attrs]
        if not leaders:
            return self._start, self._started_at
        return np.array(leaders[-1].user_attrs["per_query"], np.float64), leaders[-1].value

    def _suggest(self, trial: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        objective, dimensions = self.objective, dict(self._space)
        objectives = dimensions.pop("objective", None)
        if objectives is not None:
            objective = values["objective"] = objectives.suggest(trial, "objective")
        # Search the objective's own parameters. A constant in place of its own schedule would
        # change the objective.
        spec: ObjectiveSpec | None = None
        searched: Sequence[Param] = ()
        if isinstance(objective, ObjectiveSpec):
            spec, searched = objective, objective.params
        elif isinstance(objective, str) and ":" not in objective:
            spec = find_param(objective, OBJECTIVES)
            searched = [param for param in accepted_params(objective) if param not in OPTIONS]
        scheduled: Container[str] = () if spec is None else spec.default_schedules
        searched = [
            param for param in searched if param.schedulable and param.name not in scheduled
        ]
        space = full_space(
            searched, (*self.fixed, *self._left_out), dimensions, self.plan.engine.grows_trees
        )
        for name, dimension in space.items():
            # Parameters of different objectives are different dimensions, even with the same name.
            label = name
            if objectives is not None and name not in TREES:
                label = f"{objective}: {name}"
            values[name] = dimension.suggest(trial, label)
        return values

    def _evaluate(
        self,
        suggested: Mapping[str, Any],
        against: Float64Array | None = None,
        *,
        lucky: int = 0,
    ) -> tuple[Float64Array, int]:
        """Return the metric of each held-out query, and the median best round.

        If a trial falls behind `against` by more than chance, return only the queries evaluated so
        far. `lucky` > 0 changes the seed and the order of the training rows, which should not
        matter.
        """
        params = {"objective": self.objective, "early_stopping_round": self.patience}
        params |= self.fixed | dict(suggested)
        # Train in every fold, until the trial is clearly worse.
        training = replace(self.plan, params=params).make_training(self.seed + lucky)
        values: list[Float64Array] = []
        rounds = []
        for fold, metrics in enumerate(self._metrics):
            part = training
            if self._folds is not None:
                part = self._folds.training(training, fold)
            if lucky:
                data = part.train_set.shuffled(np.random.default_rng([self.seed, lucky]))
                part = replace(part, train_set=data)
            model = run(part)
            scores = model.predict(self._held_out(fold), threads=training.threads)
            values.append(metrics.per_query(scores)[self.metric])
            rounds.append(model.best_iteration)
            so_far = np.concatenate(values)
            is_last = so_far.size == self._weights.size
            if against is not None and not is_last and self._behind(so_far, against):
                return so_far, 0
        return so_far, int(np.median(rounds))

    def _held_out(self, fold: int) -> RankingDataset:
        """Return the queries on which a fold's model is evaluated."""
        return self.plan.valid_sets[0] if self._folds is None else self._folds.held_out(fold)

    def _behind(self, so_far: Float64Array, against: Float64Array) -> bool:
        """Return True if the deficit is larger than the variation between queries and chance can
        explain.
        """
        difference = so_far - against[: so_far.size]
        is_scored = ~np.isnan(difference)
        if is_scored.sum() < 2:
            return False
        weights = self._weights[: so_far.size][is_scored]
        share = weights / weights.sum()
        mean = float(share @ difference[is_scored])
        queries = float(np.square(share) @ np.square(difference[is_scored] - mean))
        # The variance by luck was measured over all folds; scale it to the folds so far.
        luck = 2.0 * self._sd**2 * self._weights.sum() / float(weights.sum())
        return mean + _BEHIND * math.sqrt(queries + luck) < 0.0

    def _mean(self, per_query: Float64Array) -> float:
        is_scored = ~np.isnan(per_query)
        return float(np.average(per_query[is_scored], weights=self._weights[is_scored]))

    def trials(self, study: Any) -> list[Trial]:
        states = {"COMPLETE": "done", "PRUNED": "given up"}
        return [
            Trial(
                i,
                t.user_attrs["params"],
                value=math.nan if t.value is None else t.value,
                rounds=t.user_attrs.get("rounds", 0),
                state=states.get(t.state.name, f"failed: {t.user_attrs.get('why', '')}"),
            )
            for i, t in enumerate(_finished(study))
        ]

    def result(self, study: Any) -> TuningResult:
        trials = self.trials(study)
        best, gain = _best(trials), None
        per_query, value = self._leading(study)
        if value > self._started_at:
            gain = paired_difference(per_query, self._start, weights=self._weights, seed=self.seed)
        else:
            best = None
        matters = float(stdtrit(_BASELINE_RUNS - 1, 0.975)) * math.sqrt(2.0) * self._sd
        fixed = {**self.plan.params, "objective": self.objective}
        del fixed["early_stopping_round"]
        if self.plan.train_set.gain is not None:  # the labels of the trials
            fixed["gain"] = self.plan.train_set.gain
        return TuningResult(
            metric=self.metric,
            fixed=fixed,
            best=best,
            start=self._started_at,
            luck=self._sd,
            matters=matters,
            gain=gain,
            start_rounds=self.start_rounds,
            trials=tuple(trials),
            folds=self.folds,
            queries=int((~np.isnan(self._start)).sum()),
            rounds=self.plan.preset.rounds,
            patience=self.patience,
        )


def _best(trials: Sequence[Trial]) -> Trial | None:
    finished = [trial for trial in trials if trial.state == "done"]
    return max(finished, key=lambda trial: (trial.value, -trial.number), default=None)


def _rounded(values: Float64Array) -> list[Any]:
    return list(jsonable([round(v, 9) for v in values.tolist()]))
