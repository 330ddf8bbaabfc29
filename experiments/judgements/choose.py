"""Queries for people to judge: drawn by `data choose`, against drawn evenly.

    python -m experiments.judgements.choose

A simulated machine (kappa .5) judged all queries, and people 20. Of the others, n are drawn 400
times. The difference in NDCG@10 of two rankers is estimated with weights 1 / chance, by people
alone and with the machine's difference as control variate. The truth is people's grades of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.core.queries import QueryIndex
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics.measure import BoundMetrics
from boostrank.reporting.choice import choose
from experiments.common import OUT, arguments, data_root, markdown, save
from experiments.judgements.training import PARAMS, judged

Floats = npt.NDArray[np.float64]

DRAWS, JUDGED, SIZES = 400, 20, (20, 50, 100)


def differences(labels: Floats, queries: QueryIndex, scores: list[Floats]) -> Floats:
    """New minus old NDCG@10 of each query, 0 without a relevant document."""
    metric = BoundMetrics(["ndcg@10"], labels, queries)
    old, new = (np.nan_to_num(metric.per_query(each)["ndcg@10"]) for each in scores)
    return np.asarray(new - old)


def estimates(
    people: Floats, machine: Floats, is_judged: Any, drawn: Any, chances: Floats
) -> list[float]:
    """The mean difference by people alone, and with the machine."""
    result = []
    for weight in (0.0, np.cov(people, machine)[0, 1] / np.var(machine)):
        rest_of_people = people - weight * machine
        mean = np.average(rest_of_people[drawn], weights=1.0 / chances[drawn])
        share = is_judged.mean()
        before = rest_of_people[is_judged].mean()
        result.append(share * before + (1.0 - share) * mean + weight * machine.mean())
    return result


def measured(data: boostrank.RankingDataset, scores: list[Floats], count: int) -> Floats:
    """The estimates, float64[DRAWS, 2 draws, 2 estimates], minus the truth."""
    queries, owner = data.queries, data.queries.of_rows()
    machine = judged(data, np.random.default_rng(0), 0.5)
    by_people = differences(data.labels, queries, scores)
    by_machine = differences(machine, queries, scores)
    errors = np.empty((DRAWS, 2, 2))
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        is_judged = np.isin(np.arange(len(queries)), rng.permutation(len(queries))[:JUDGED])
        evenly = rng.choice(np.flatnonzero(~is_judged), count, replace=False)
        grades = np.where(is_judged[owner], data.labels, np.nan), machine
        rows, chances = choose(scores, queries, grades, count, whole=True, seed=DRAWS + draw)
        chance_of = np.ones(len(queries))
        chance_of[owner[rows]] = chances
        chosen, even = np.unique(owner[rows]), np.ones(len(queries))
        for number, (drawn, each) in enumerate(((evenly, even), (chosen, chance_of))):
            errors[draw, number] = estimates(by_people, by_machine, is_judged, drawn, each)
    return errors - by_people.mean()


def rankers(train: Any, data: Any) -> list[Floats]:
    """The scores of two trainings, of which the second has more trees."""
    models = (boostrank.train(PARAMS | {"gain": "exponential"}, train, n) for n in (15, 40))
    return [data.in_row_order(model.predict(data)) for model in models]


def main() -> None:
    """Draw, estimate, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    options = parser.parse_args()
    parts = make_ranking_data(900, seed=5, mean_length=20).split()
    # Rankers learn from the fewer queries.
    sets = {"generated": (parts.valid.dataset, parts.train.dataset)}
    try:
        root = data_root(options.data_root)
        folder = root / "lambdarank-example"
        test = boostrank.read(str(folder / "test.txt"))
        train = boostrank.read(str(folder / "train.txt"), like=test)
        sets["LightGBM's example"] = test, train
    except SystemExit:
        pass
    rows, numbers = [], {}
    for name, (learnt_from, data) in sets.items():
        scores = rankers(learnt_from, replace(data))
        for count in SIZES:
            errors = measured(data, scores, count)
            spread = np.sqrt((errors**2).mean(axis=0))
            worth = count * (spread[0] / spread[1]) ** 2
            bias = np.abs(errors[:, 1].mean(axis=0)) / (spread[1] / DRAWS**0.5)
            numbers[f"{name}, {count}"] = [*spread.ravel(), *bias]
            cells = [f"{spread[0, i]:.4f}, {spread[1, i]:.4f} ({worth[i]:.0f})" for i in (0, 1)]
            rows.append([name, str(count), *cells, f"{bias.max():.1f}"])
    header = [
        "data",
        "n",
        "people alone: evenly, chosen (worth)",
        "with the machine",
        "bias / error",
    ]
    table = markdown(header, rows)
    save(OUT / "judgements" / "out" / "choose.md", table, numbers)
    print(table)


if __name__ == "__main__":
    main()
