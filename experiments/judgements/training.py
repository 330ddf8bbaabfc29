"""Training from few human and many machine judgements: both, people alone, the machine alone.

    python -m experiments.judgements.training [--seeds 3]

People judge some training queries, and a simulated machine judges all of them. Everything is
measured by NDCG@10 on people's grades of test queries, with the same trees and rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.core.conventions import gains_from_labels
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics.measure import BoundMetrics
from boostrank.reporting.judges import _kappa, learn_gains, query_weights
from experiments.common import OUT, arguments, data_root, difference, markdown, save

Floats = npt.NDArray[np.float64]

PARAMS = {"num_leaves": 15, "learning_rate": 0.1, "verbosity": -1, "metric": "none"}
ROUNDS = 80
JUDGES: dict[str, dict[str, Any]] = {
    "kappa .3": {"kappa": 0.3},
    "kappa .5": {"kappa": 0.5},
    "kappa .7": {"kappa": 0.7},
    "kappa .5, a grade too high": {"kappa": 0.5, "bias": 1.0},
    "kappa .5, worse on half of the queries": {"kappa": 0.5, "uneven": True},
    "noise": {"kappa": 0.0},
}


def kappa(people: Floats, machine: Floats) -> float:
    """The quadratic weighted kappa."""
    terms = (people**0, people, machine, people**2, machine**2, people * machine)
    return float(_kappa(np.array([term.sum() for term in terms])))


def judged(
    data: boostrank.RankingDataset,
    rng: np.random.Generator,
    kappa: float,
    bias: float = 0.0,
    uneven: bool = False,
) -> Floats:
    """Grades by a simulated machine, float64[N]: rounded normal noise around people's grades, whose
    spread is chosen so that kappa, before the bias, is as asked for.
    """
    labels = data.labels
    if not kappa:
        return rng.permutation(labels)
    noise = rng.normal(size=labels.size)
    if uneven:
        noise *= rng.choice([0.4, 1.6], len(data.queries))[data.queries.of_rows()]

    def grades(spread: float, bias: float) -> Floats:
        return np.clip(np.round(labels + bias + spread * noise), labels.min(), labels.max())

    low, high = 0.0, 50.0
    for _ in range(30):
        middle = (low + high) / 2.0
        terms = kappa_of(labels, grades(middle, 0.0))
        low, high = (middle, high) if terms > kappa else (low, middle)
    return grades(low, bias)


kappa_of = kappa


def sets(root: Path | None) -> Iterator[tuple[str, Any, Any, int]]:
    """Name, training data, test data, and number of queries that people judge."""
    made = make_ranking_data(900, seed=3, mean_length=20)
    parts = made.split()
    yield "generated", parts.train.dataset, parts.test.dataset, 40
    if root is None:
        return
    for name, folder, people in (
        ("LightGBM's example", "lambdarank-example", 40),
        ("OHSUMED", "ohsumed/Fold1", 20),
    ):
        train = boostrank.read(str(root / folder / "train.txt"))
        yield name, train, boostrank.read(str(root / folder / "test.txt"), like=train), people


def trained(
    data: boostrank.RankingDataset, gains: Floats, weights: Floats | None, seed: int
) -> Callable[[Any], Floats]:
    """The scores of a model of these gains."""
    queries = replace(data.queries, weights=weights)
    weighted = replace(data, labels=gains, queries=queries)
    params = {**PARAMS, "gain": "linear", "seed": seed}
    model = boostrank.train(params, weighted, ROUNDS)
    return lambda test: np.asarray(model.predict(test))


def methods(
    data: boostrank.RankingDataset, machine: Floats, people: npt.NDArray[np.bool_], seed: int
) -> dict[str, Callable[[Any], Floats]]:
    """Name -> the scores of a model trained on both, people's queries, or the machine's grades."""
    owner, gains = data.queries.of_rows(), gains_from_labels(data.labels)
    inside = people[owner]
    learnt = learn_gains(machine[inside], gains[inside], owner[inside], np.ones(inside.sum()))
    both = np.where(inside, gains, learnt.expected(machine))
    result = {
        "people": trained(data.take(np.flatnonzero(people)), gains[inside], None, seed),
        "machine": trained(data, gains_from_labels(machine), None, seed),
    }
    for weight in (0.1, 0.3, 1.0):
        each = query_weights(inside, data.queries, weight)
        result[f"both, weight {weight:g}"] = trained(data, both, each, seed)
    return result


def main() -> None:
    """Train, compare query by query, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows, numbers = [], {}
    try:
        root = data_root(options.data_root)
    except SystemExit:
        root = None
    for name, train, test, count in sets(root):
        metric = BoundMetrics(["ndcg@10"], test.labels, test.queries)
        for judge, options_of_judge in JUDGES.items():
            values: dict[str, list[Floats]] = {}
            for seed in range(options.seeds):
                rng = np.random.default_rng(seed)
                people = np.zeros(len(train.queries), bool)
                people[rng.choice(people.size, count, replace=False)] = True
                machine = judged(train, rng, **options_of_judge)
                for method, scores in methods(train, machine, people, seed).items():
                    measured = metric.per_query(test.in_row_order(scores(test)))["ndcg@10"]
                    values.setdefault(method, []).append(measured)
            means = {method: np.mean(v, axis=0) for method, v in values.items()}
            alone = means.pop("people")
            row = [name, judge, f"{np.nanmean(alone):.4f}"]
            rows.append(row + [difference(each, alone) for each in means.values()])
            numbers[f"{name}, {judge}"] = {m: float(np.nanmean(v)) for m, v in means.items()}
            print(rows[-1], flush=True)
    header = ["data", "judge", "people alone", *means]
    save(OUT / "judgements" / "out" / "training.md", markdown(header, rows), numbers)
    print(markdown(header, rows))


if __name__ == "__main__":
    main()
