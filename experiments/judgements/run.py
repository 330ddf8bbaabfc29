"""Coverage and width of intervals by few queries of people and many of a simulated machine.

    python -m experiments.judgements.run

People and a machine judge a pool of queries, which has a true difference in NDCG@10 between two
rankers by people's grades. 1,000 queries are drawn with replacement, and people's grades of the
first n are seen. Then runs what training on both, and choosing what to judge next, give.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.core.queries import QueryIndex
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics.measure import BoundMetrics
from boostrank.reporting.machine import by_judges
from experiments.common import OUT, arguments, data_root, markdown, save
from experiments.judgements import choose, training

Floats = npt.NDArray[np.float64]

DRAWS, QUERIES, SIZES = 400, 1000, (20, 50, 100, 300)
FAVOURS_NEW = "favours the new ranker"
FOLDERS = {
    "LightGBM's example": "lambdarank-example",
    "OHSUMED": "ohsumed/Fold1",
    "sparse-long": "sparse-long",
}


def pools(root: Path | None) -> Iterator[tuple[str, Any, list[Floats]]]:
    """Name, data set of the pool, and the scores of two rankers."""
    parts = make_ranking_data(5000, seed=5, mean_length=20).split()
    yield "generated", parts.train.dataset, choose.rankers(parts.valid.dataset, parts.train.dataset)
    for name, folder in FOLDERS.items():
        files = (
            [] if root is None else [root / folder / f"{part}.txt" for part in ("train", "test")]
        )
        if not files or not all(file.is_file() for file in files):
            print(f"{name}: skipped, because the data are absent")
            continue
        pool = boostrank.read(str(files[0]))
        learnt_from = boostrank.read(str(files[1]), like=pool)
        yield name, pool, choose.rankers(learnt_from, pool)


def differences(labels: Floats, queries: QueryIndex, scores: list[Floats]) -> Floats:
    """New minus old NDCG@10 of each query, NaN without a relevant document."""
    metric = BoundMetrics(["ndcg@10"], labels, queries)
    values = [metric.per_query(each)["ndcg@10"] for each in scores]
    return np.asarray(values[1] - values[0])


def machines(pool: Any, scores: list[Floats]) -> Iterator[tuple[str, Floats]]:
    """Name and grades of each simulated machine."""
    for name, how in training.JUDGES.items():
        yield name, training.judged(pool, np.random.default_rng(0), **how)
    grades = training.judged(pool, np.random.default_rng(0), 0.5)
    ranks = [pool.queries.ranks(each) for each in scores]
    yield FAVOURS_NEW, np.minimum(grades + (ranks[1] < ranks[0]), pool.labels.max())


def measured(people: Floats, machine: Floats, count: int) -> Floats:
    """Of each draw: is the truth in people's interval and in that of both, their widths, the
    weight, and both, and people alone, minus the truth in standard errors, float64[DRAWS, 7].
    """
    truth, values = np.nanmean(people), np.empty((DRAWS, 7))
    for draw in range(DRAWS):
        drawn = np.random.default_rng(draw).integers(0, people.size, QUERIES)
        ones, at = np.ones(QUERIES), np.arange(count)
        few = people[drawn[:count]]
        alone, _, both = by_judges("ndcg@10", few, machine[drawn], at, ones[:count], ones)
        inside = [row.low <= truth <= row.high for row in (alone, both)]
        widths = [row.high - row.low for row in (alone, both)]
        errors = [(row.mean - truth) / row.error if row.error else 0.0 for row in (both, alone)]
        values[draw] = *inside, *widths, both.weight, *errors
    return values


def main() -> None:
    """Simulate, write the table, then run the other two experiments."""
    parser = arguments(__doc__.split("\n")[0])
    options = parser.parse_args()
    try:
        root = data_root(options.data_root)
    except SystemExit:
        root = None
    rows, numbers = [], {}
    for name, pool, scores in pools(root):
        people = differences(pool.labels, pool.queries, scores)
        for judge, grades in machines(pool, scores):
            machine = differences(grades, pool.queries, scores)
            shift = np.nanmean(machine) - np.nanmean(people)
            kappa = training.kappa_of(pool.labels, grades)
            cells = []
            for count in SIZES:
                values = measured(people, machine, count)
                means = values.mean(axis=0)
                numbers[f"{name}, {judge}, {count}"] = means.tolist()
                ratio = means[3] / means[2]
                cells.append(f"{means[0]:.1%}, {means[1]:.1%}, {ratio:.2f}")
            bias, alone = np.abs(means[5:]) * DRAWS**0.5
            cells.append(f"{bias:.1f} ({alone:.1f})")
            rows.append([name, judge, f"{kappa:.2f}", f"{shift:+.4f}", *cells])
            print(*rows[-1], sep=" | ", flush=True)
    heads = [f"{count}: people, both, width" for count in SIZES]
    table = markdown(
        ["data", "machine", "kappa", "its bias", *heads, "bias of both (people) / error"], rows
    )
    save(OUT / "judgements" / "out" / "coverage.md", table, numbers)
    print(table)
    training.main()
    choose.main()


if __name__ == "__main__":
    main()
