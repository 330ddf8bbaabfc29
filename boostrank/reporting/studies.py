"""Studies that train models: how much a metric varies by chance, and which objective is best.

Each noise source is measured by N trainings that differ in this source only. If their metrics are
normal with the estimated standard deviation s, the difference between two new trainings divided by
sqrt(2) s has Student's distribution with N - 1 degrees of freedom, so a difference beyond

    t(0.975, N - 1) sqrt(2) s

occurs by chance in one of twenty comparisons, even if N is small.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri, stdtrit

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines.engine_params import as_whole
from boostrank.fit.execute import execute
from boostrank.fit.plan import Plan
from boostrank.fit.resolve import resolve
from boostrank.fit.run import run
from boostrank.fit.settings import METRIC_NAMES, SEED_NAMES, STOPPING_NAMES, pop_param
from boostrank.metrics import BoundMetrics, MetricResult
from boostrank.model.ranking_model import RankingModel
from boostrank.options import TrainOptions
from boostrank.reporting.comparison import compare
from boostrank.reporting.difference import Difference
from boostrank.reporting.segments import holm

SOURCES = ("seed", "row order", "training queries")
"""The noise sources: the seed for random choices, the order of queries and rows, and queries drawn
with replacement.
"""

FEWEST_RUNS = 3

# Stop a source after this number of identical runs, because trainings with randomness never agree
# to the last bit.
_ALIKE = 3
_CONFIDENCE = 0.95

# The learning rates, the number of rounds and the patience of a comparison of objectives.
_RATES = (0.02, 0.05, 0.1, 0.2, 0.5)
_ROUNDS, _PATIENCE = 500, 50

Progress = Callable[[int, int, str, "dict[str, float]"], None]


@dataclass(frozen=True)
class Spread:
    """The standard deviation of a metric over runs.

    Args:
        low, high: 95% interval of the standard deviation if the runs are normally distributed.
        matters: difference between two trainings that this source alone exceeds in less than one of
            twenty comparisons.
    """

    sd: float
    low: float
    high: float
    matters: float


@dataclass(frozen=True, eq=False)
class NoiseReport:
    """Result of `measure_noise`.

    Args:
        runs: requested number of runs per source. A source whose first runs are identical has fewer
            runs.
        values: values on the validation queries by source and metric, float64[runs].
        first: results of the first training, which changes nothing, by metric.
        seconds: total duration of all runs in seconds.
    """

    runs: int
    values: dict[str, dict[str, Float64Array]]
    first: dict[str, MetricResult]
    seconds: float

    def __repr__(self) -> str:
        bounds = ", ".join(f"{self.matters(name):.4f} in {name}" for name in self.first)
        return f"NoiseReport(two trainings may differ by {bounds} by chance)"

    def spread(self, source: str, metric: str) -> Spread:
        """Return the spread of a metric over the runs of one source."""
        return spread_of(self.values[source][metric])

    def matters(self, metric: str) -> float:
        """Return the smallest meaningful difference between two trainings, which is that of the
        largest noise source.

        The sources are not added up, because each of them already includes the chaotic effect that
        any change has.
        """
        return max(self.spread(source, metric).matters for source in self.values)


def spread_of(values: Float64Array) -> Spread:
    """Return the spread of at least two runs, float64[N]."""
    sd = float(np.std(values, ddof=1))
    freedom = values.size - 1
    if sd <= 1e-12 * float(np.abs(values).max()):
        return Spread(sd=0.0, low=0.0, high=0.0, matters=0.0)
    tail = (1.0 - _CONFIDENCE) / 2.0
    low = sd * math.sqrt(freedom / chdtri(freedom, tail))
    high = sd * math.sqrt(freedom / chdtri(freedom, 1.0 - tail))
    quantile = float(stdtrit(freedom, 1.0 - tail))
    return Spread(sd, low=low, high=high, matters=quantile * math.sqrt(2.0) * sd)


def measure_noise(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    valid_set: RankingDataset,
    num_boost_round: int = 100,
    *,
    runs: int = 10,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    progress: Progress | None = None,
) -> NoiseReport:
    """Repeat a training with different seeds, row orders and training queries.

    Args:
        params: as for `boostrank.train`. With early stopping, every run stops on `valid_set`.
        train_set: training data, whose features must be in memory.
        valid_set: data on which the metrics in `params` are measured.
        num_boost_round: number of rounds per run.
        runs: number of runs per source, at least 3.
        backend, conventions: as for `boostrank.train`.
        progress: function called after each run with the number of finished runs, the expected
            total, the source and the metrics.

    Raises:
        InputError: invalid parameters or data.
    """
    started = time.perf_counter()
    if runs < FEWEST_RUNS:
        raise ParameterError(
            f"runs must be at least {FEWEST_RUNS} to estimate a standard deviation, but got {runs}"
        )
    if train_set.on_disk:
        raise DataError(
            "measure_noise reorders rows in memory, but the rows of train_set are on disk"
        )
    options = TrainOptions(
        params=dict(params or {}), rounds=num_boost_round, backend=backend, conventions=conventions
    )
    plan = resolve(options, train_set, [("valid_0", valid_set)])
    if not plan.settings.metrics:
        raise ParameterError("params has no metric; add a metric, such as metric='ndcg'")
    valid, train_set, threads = plan.valid[0][1], plan.train_set, plan.settings.threads
    stopping_sets = plan.valid if plan.settings.patience else ()
    metrics = BoundMetrics(
        plan.settings.metrics,
        valid.labels,
        queries=valid.queries,
        conventions=plan.conventions,
        threads=threads,
    )
    values: dict[str, dict[str, Float64Array]] = {}
    first_results: dict[str, MetricResult] = {}
    finished_runs, expected_runs = 0, runs * len(SOURCES)
    # Repeat the training for each source, and stop early if the runs are identical.
    for source in SOURCES:
        run_values: list[dict[str, float]] = []
        rng = np.random.default_rng([plan.seed, SOURCES.index(source)])
        for repeat in range(runs):
            data, seed = train_set, plan.seed
            if source == "seed":
                seed += repeat
            elif source == "row order":
                data = train_set.shuffled(rng)
            else:
                data = train_set.redrawn(rng)
            model = run(replace(plan.make_training(seed=seed), train_set=data, valid=stopping_sets))
            scores = valid.in_row_order(model.predict(valid, threads=threads))
            first_results = first_results or metrics.results(scores)
            run_values.append(metrics.values(scores))
            finished_runs += 1
            is_idle = len(run_values) == _ALIKE and all(v == run_values[0] for v in run_values)
            if is_idle:
                expected_runs -= runs - len(run_values)
            if progress is not None:
                progress(finished_runs, expected_runs, source, run_values[-1])
            if is_idle:
                break
        values[source] = {
            name: np.array([metric_values[name] for metric_values in run_values])
            for name in run_values[0]
        }
    return NoiseReport(
        runs,
        values=values,
        first=first_results,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class TunedObjective:
    """An objective at the learning rate that was chosen for it.

    Args:
        valid: the metric on the validation queries by learning rate.
        rounds: the rounds of each training at the chosen rate, stopped on the validation queries.
        test: the metric on the test queries of each training.
    """

    rate: float
    valid: Mapping[float, float]
    rounds: Sequence[int]
    test: Sequence[float]


@dataclass(frozen=True)
class ObjectiveComparison:
    """Result of `compare_objectives`.

    Args:
        objectives: the objectives by name.
        differences: the first objective minus each of the others, by the other's name. Intervals
            and p-values are over queries and the luck of training; `p_holm` is adjusted over these
            differences.
    """

    metric: str
    objectives: Mapping[str, TunedObjective]
    differences: Mapping[str, Difference]


def compare_objectives(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    valid_set: RankingDataset,
    test_set: RankingDataset,
    objectives: Mapping[str, Any],
    num_boost_round: int | None = None,
    *,
    rates: Sequence[float] = (),
    repeats: int = 5,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    progress: Progress = lambda *_: None,
) -> ObjectiveComparison:
    """Compare the first objective with each of the others, query by query.

    Each objective gets the same budget: a training at every learning rate, of which the best on
    `valid_set` is chosen, and further trainings at that rate. Every training is stopped on
    `valid_set`. The luck of choosing the rate is not in the intervals.

    Args:
        params: as for `boostrank.train`, for all objectives. The default patience is 50 rounds.
        train_set: training data, whose features must be in memory.
        objectives: name -> objective, or a dictionary with an objective and its parameters, other
            than those that are common to all: learning rate, seed and metric.
        num_boost_round: maximum number of rounds; None for 500.
        rates: learning rates; by default 0.02, 0.05, 0.1, 0.2, 0.5.
        repeats: number of trainings at the chosen rate, at least 2. They differ in the seed and the
            row order.
        backend, conventions: as for `boostrank.train`.
        progress: function called after each training with the number of trainings, their total, the
            name of the objective, and the metric on `valid_set` by name.

    Raises:
        InputError: invalid parameters or data.
    """
    # Check the arguments, and take the metric and its conventions from the first objective.
    common, rates = dict(params or {}), [*rates] or _RATES
    if repeats < 2 or len(objectives) < 2 or "learning_rate" in common:
        raise ParameterError(
            "pass at least 2 objectives and 2 repeats, and rates= (--rate) instead of learning_rate"
        )
    seed = as_whole(pop_param(common, SEED_NAMES, 0), "seed", 0)
    common["early_stopping_round"] = pop_param(common, STOPPING_NAMES, _PATIENCE)

    def make_plan(name: str, rate: float, repeat: int = 0) -> Plan:
        objective, data = objectives[name], train_set
        params = objective if isinstance(objective, Mapping) else {"objective": objective}
        if shared := params.keys() & {"learning_rate", *SEED_NAMES, *METRIC_NAMES}:
            raise ParameterError(
                f"objective {name}: {min(shared)} must be that of all objectives: pass seed and"
                " metric in params, and rates= (--rate) instead of learning_rate"
            )
        run_params = {"learning_rate": rate, "seed": seed + repeat}
        if repeat:
            data = train_set.shuffled(np.random.default_rng([seed, repeat]))
        options = TrainOptions(
            params={**common, **params, **run_params},
            rounds=num_boost_round or _ROUNDS,
            backend=backend,
            conventions=conventions,
        )
        return resolve(options, data, [("valid", valid_set)])

    first_objective, *_ = objectives
    plan, *_ = [make_plan(name, rates[0]) for name in objectives]
    metric = plan.settings.main_metric
    if metric is None:
        raise ParameterError("params has no metric; add a metric, such as metric='ndcg'")
    conventions = plan.conventions  # of all other plans
    metric_name, counter = str(metric), itertools.count(1)
    n_trainings = len(objectives) * (len(rates) + repeats - 1)

    def measure(model: RankingModel) -> float:
        return model.best_score["valid"][metric_name]

    def train(objective: str, rate: float, repeat: int = 0) -> RankingModel:
        model = execute(make_plan(objective, rate, repeat))
        progress(next(counter), n_trainings, objective, {metric_name: measure(model)})
        return model

    # Choose a rate for each objective, train again with it, and compare on the test queries.
    best_of = max if metric.higher_is_better else min
    tuned: dict[str, TunedObjective] = {}
    differences: dict[str, Difference] = {}
    first_models: list[RankingModel] = []
    for objective in objectives:
        by_rate = {rate: train(objective, rate) for rate in rates}
        metric_by_rate = {rate: measure(model) for rate, model in by_rate.items()}
        best_rate = best_of(rates, key=metric_by_rate.__getitem__)
        models = [by_rate[best_rate]]
        models += [train(objective, best_rate, repeat) for repeat in range(1, repeats)]
        first_models = first_models or models
        comparison = compare(
            models, first_models, test_set, metric, conventions=conventions, worst=0
        )
        tuned[objective] = TunedObjective(
            rate=best_rate,
            valid=metric_by_rate,
            rounds=[model.best_iteration for model in models],
            test=comparison.models[metric_name]["old"],
        )
        differences[objective] = comparison.metrics[metric_name]
    # Adjust the p-values for all differences from the first objective.
    del differences[first_objective]
    p_holm = holm([difference.p for difference in differences.values()]).tolist()
    adjusted = {
        name: replace(difference, p_holm=p)
        for (name, difference), p in zip(differences.items(), p_holm, strict=True)
    }
    return ObjectiveComparison(metric_name, tuned, adjusted)
