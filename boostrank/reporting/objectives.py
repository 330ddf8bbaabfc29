"""Comparison of objectives on a user's own data, each at the learning rate that is best for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.fit.execute import execute
from boostrank.fit.plan import Plan
from boostrank.fit.resolve import resolve
from boostrank.fit.settings import SEED_NAMES, STOPPING_NAMES, pop_param
from boostrank.model.ranking_model import RankingModel
from boostrank.options import TrainOptions
from boostrank.reporting.comparison import compare
from boostrank.reporting.difference import Difference
from boostrank.reporting.noise import Progress
from boostrank.reporting.segments import holm

_RATES = (0.02, 0.05, 0.1, 0.2, 0.5)
_ROUNDS, _PATIENCE = 500, 50


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
        objectives: name -> objective, or a dictionary with an objective and its parameters.
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
    common, rates = dict(params or {}), rates or _RATES
    if repeats < 2 or len(objectives) < 2 or "learning_rate" in common:
        raise ParameterError(
            "pass at least 2 objectives and 2 repeats, and rates= (--rate) instead of learning_rate"
        )
    seed = int(pop_param(common, SEED_NAMES, 0))
    common["early_stopping_round"] = pop_param(common, STOPPING_NAMES, _PATIENCE)

    def make_plan(name: str, rate: float, repeat: int = 0) -> Plan:
        objective, data = objectives[name], train_set
        params = objective if isinstance(objective, Mapping) else {"objective": objective}
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

    first_objective = next(iter(objectives))
    plan = make_plan(first_objective, rates[0])
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
