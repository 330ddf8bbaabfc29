"""Measurement of how much a metric varies with seeds, row orders and samples of the training
queries.

Each noise source is measured by N trainings that differ in this source only. If their metrics are
normal with the estimated standard deviation s, the difference between two new trainings divided by
sqrt(2) s has Student's distribution with N - 1 degrees of freedom, so a difference beyond

    t(0.975, N - 1) sqrt(2) s

occurs by chance in one of twenty comparisons, even if N is small.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri, stdtrit

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.fit.resolve import resolve
from boostrank.fit.run import run
from boostrank.metrics import BoundMetrics, Conventions, MetricResult
from boostrank.options import TrainOptions

SOURCES = ("seed", "row order", "training queries")
"""The noise sources: the seed for random choices, the order of queries and rows, and queries drawn
with replacement.
"""

FEWEST_RUNS = 3

# Stop a source after this number of identical runs, because trainings with randomness never agree
# to the last bit.
_ALIKE = 3
_CONFIDENCE = 0.95

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
