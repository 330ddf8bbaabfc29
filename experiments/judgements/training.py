"""Training from few human and many machine judgements: both, people alone, the machine alone.

    python -m experiments.judgements.training [--seeds 3]

People judge some training queries, and a simulated machine judges all of them. NDCG@10 is by
people's grades of test queries, with the same trees, rounds and seeds. Intervals are over queries
and seeds; a seed chooses what people judge, what the machine errs in, and the training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.core.conventions import gains_from_labels
from boostrank.core.resampling import crossed_difference
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics.measure import BoundMetrics
from boostrank.reporting.judges import agreement, learn_gains
from experiments.common import OUT, arguments, data_root, markdown, save

Floats = npt.NDArray[np.float64]

PARAMS = {
    "num_leaves": 15,
    "feature_fraction": 0.5,
    "gain": "linear",
    "verbosity": -1,
    "metric": "none",
}
ROUNDS = 80
LEAST_WEIGHT = 1e-3
JUDGES: dict[str, dict[str, Any]] = {
    "kappa .3": {"kappa": 0.3},
    "kappa .5": {"kappa": 0.5},
    "kappa .7": {"kappa": 0.7},
    "kappa .5, then a grade too high": {"kappa": 0.5, "bias": 1.0},
    "kappa .5, worse on half of the queries": {"kappa": 0.5, "is_uneven": True},
    "noise": {"kappa": 0.0},
}


def kappa_of(people: Floats, machine: Floats) -> float:
    """The weighted kappa of all documents."""
    everything = np.zeros(people.size, np.int64)
    segments = np.full(people.size, "", object)
    table = agreement(people, machine, everything, people * 0.0 + 1.0, segments)
    return float(table.data["kappa"][0])


def spreads(data: boostrank.RankingDataset, rng: np.random.Generator) -> Floats:
    """How much the machine errs in each document's query, which half of the queries are, [N]."""
    return rng.choice([0.4, 1.6], len(data.queries))[data.queries.of_rows()]


def judged(
    data: boostrank.RankingDataset,
    rng: np.random.Generator,
    kappa: float,
    bias: float = 0.0,
    is_uneven: bool = False,
) -> Floats:
    """Grades by a simulated machine, float64[N]: people's with rounded noise, whose spread gives a
    kappa (before the bias), or people's in a random order for a kappa of 0.
    """
    labels = data.labels
    if not kappa:
        return rng.permutation(labels)
    noise = rng.normal(size=labels.size)
    if is_uneven:
        noise *= spreads(data, rng)

    def grades(spread: float, bias: float) -> Floats:
        return np.clip(np.round(labels + bias + spread * noise), labels.min(), labels.max())

    low, high = 0.0, 20.0
    for _ in range(12):
        middle = (low + high) / 2.0
        enough = kappa_of(labels, grades(middle, 0.0)) > kappa
        low, high = (middle, high) if enough else (low, middle)
    return grades(low, bias)


def sets(root: Path | None) -> Iterator[tuple[str, Any, Any, int]]:
    """Name, training data, test data, and number of queries that people judge."""
    parts = make_ranking_data(900, seed=3, mean_length=20).split()
    yield "generated", parts.train.dataset, parts.test.dataset, 40
    folders = {"LightGBM's example": "lambdarank-example", "OHSUMED": "ohsumed/Fold1"}
    for name, folder in folders.items() if root is not None else ():
        train = boostrank.read(str(root / folder / "train.txt"))
        yield name, train, boostrank.read(str(root / folder / "test.txt"), like=train), 30


def ndcg(
    train: boostrank.RankingDataset,
    gains: Floats,
    weights: Floats | None,
    test: boostrank.RankingDataset,
    seed: int,
) -> Floats:
    """The NDCG@10 of each test query by a model of these gains."""
    weighted = replace(train, labels=gains, queries=replace(train.queries, weights=weights))
    model = boostrank.train({**PARAMS, "seed": seed}, weighted, ROUNDS)
    metric = BoundMetrics(["ndcg@10"], test.labels, test.queries)
    return metric.per_query(test.in_row_order(model.predict(test)))["ndcg@10"]


def measured(
    train: Any, test: Any, count: int, judges: dict[str, dict[str, Any]], seed: int
) -> dict[str, dict[str, Floats]]:
    """Judge -> method -> NDCG of each test query, with people's model under the judge ""."""
    owner, gains = train.queries.of_rows(), gains_from_labels(train.labels)
    chosen = np.random.default_rng(seed).choice(len(train.queries), count, replace=False)
    is_people = np.isin(np.arange(len(train.queries)), chosen)
    inside = is_people[owner]
    alone = train.take(np.flatnonzero(is_people))
    values = {"": {"people alone": ndcg(alone, gains[inside], None, test, seed)}}
    for name, how in judges.items():
        machine = judged(train, np.random.default_rng(seed), **how)
        # The halves in which an uneven machine errs more and less, as `judged` draws them.
        again = np.random.default_rng(seed)
        again.normal(size=train.labels.size)
        halves = np.array(spreads(train, again).tolist(), object)
        seen = machine[inside], gains[inside], owner[inside], np.ones(inside.sum())
        values[name] = {"machine alone": ndcg(train, gains_from_labels(machine), None, test, seed)}
        for method, segments in (("both", None), ("both, by segment", halves)):
            learnt = learn_gains(*seen, None if segments is None else segments[inside])
            both = np.where(inside, gains, learnt.expected(machine, segments))
            share = np.maximum(learnt.share(halves[train.queries.ptr[:-1]]), LEAST_WEIGHT)
            weights = np.where(is_people, 1.0, share)
            if segments is None:
                values[name]["both, weight 1"] = ndcg(train, both, None, test, seed)
            values[name][method] = ndcg(train, both, weights, test, seed)
    return values


def main() -> None:
    """Train, compare query by query, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    try:
        root = data_root(options.data_root)
    except SystemExit:
        root = None
    rows, numbers = [], {}
    for name, train, test, count in sets(root):
        runs = [measured(train, test, count, JUDGES, seed) for seed in range(options.seeds)]
        alone = np.column_stack([run[""]["people alone"] for run in runs])
        counted = ~np.isnan(alone[:, 0])
        for judge in JUDGES:
            row = [name, judge, f"{alone[counted].mean():.4f}"]
            for method in runs[0][judge]:
                values = np.column_stack([run[judge][method] for run in runs])
                paired = (values - alone)[counted]
                gain = crossed_difference(paired, np.zeros((paired.shape[0], 1)))[0]
                row.append(f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]")
                numbers[f"{name}, {judge}, {method}"] = [gain.mean, gain.low, gain.high]
            rows.append(row)
    table = markdown(["data", "judge", "people alone", *runs[0][judge]], rows)
    save(OUT / "judgements" / "out" / "training.md", table, numbers)
    print(table)


if __name__ == "__main__":
    main()
