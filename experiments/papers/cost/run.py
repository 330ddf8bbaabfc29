"""The time of a round of SoftRank against one of ApproxNDCG, by list length: pair by pair, and as
it is here.

python -m experiments.papers.cost.run
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import boostrank
from experiments.common import markdown
from experiments.papers.cells import Lab
from experiments.papers.findings import Findings, main
from experiments.papers.picture import Line

LENGTHS = (25, 50, 100, 200, 400, 800)
DOCUMENTS, REPEATS = 3200, 3
METHODS = {
    "SoftRank, pair by pair": {"name": "soft-ndcg", "sums": "direct"},
    "SoftRank, here": {"name": "soft-ndcg", "sums": "fast"},
    "ApproxNDCG, pair by pair": {"name": "approx-ndcg", "sums": "direct"},
    "ApproxNDCG, here": {"name": "approx-ndcg", "sums": "fast"},
}


def run(lab: Lab) -> Findings:
    """Time gradient and value over the same number of documents in lists of each length."""
    times = lab.kept("cost", list(METHODS.items()), LENGTHS, DOCUMENTS, make=_times)
    rows = [
        [
            str(n),
            *(f"{1e6 * times[m][i]:.2f}" for m in METHODS),
            f"{times['SoftRank, pair by pair'][i] / times['ApproxNDCG, pair by pair'][i]:.0f}",
            f"{times['SoftRank, here'][i] / times['ApproxNDCG, here'][i]:.1f}",
        ]
        for i, n in enumerate(LENGTHS)
    ]
    header = [
        "documents a list",
        *(f"{m}, us a document" for m in METHODS),
        "ratio, pair by pair",
        "ratio, here",
    ]
    return Findings(
        "What a round costs",
        [("Least of three, one thread, log10 in the picture", markdown(header, rows))],
        [
            (
                "cost.svg",
                "Time of a round, log10 of microseconds a document",
                "documents a list",
                "log10 us a document",
                [Line(m, LENGTHS, [float(np.log10(1e6 * t)) for t in times[m]]) for m in METHODS],
                True,
            )
        ],
    )


def _times() -> dict[str, list[float]]:
    """Seconds a document."""
    return {name: [_time(dict(params), n) for n in LENGTHS] for name, params in METHODS.items()}


def _time(params: dict[str, Any], length: int) -> float:
    rng = np.random.default_rng(0)
    count = max(1, DOCUMENTS // length)
    labels, scores = rng.integers(0, 3, count * length), rng.normal(size=count * length)
    queries = boostrank.QueryIndex.from_sizes([length] * count)
    bound = boostrank.Objective(params.pop("name"), threads=1, **params).bind(labels, queries)
    bound.evaluate(scores, 0)  # compiles
    spent = []
    for _ in range(REPEATS):
        started = time.process_time()
        bound.evaluate(scores, 0)
        spent.append(time.process_time() - started)
    return min(spent) / labels.size


if __name__ == "__main__":
    main("cost", run, __doc__)
