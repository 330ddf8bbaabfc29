"""Gain of ApproxNDCG by random restarts, against alpha, and against beginning at the regression.

python -m experiments.papers.restarts.run
"""

from __future__ import annotations

import numpy as np

from experiments.common import markdown
from experiments.papers.cells import FOLDS, Cell, Lab, mean_of, settled_ridge
from experiments.papers.findings import Findings, main
from experiments.papers.picture import Line

ALPHAS = (10.0, 100.0, 300.0)
STARTS, ROUNDS = 5, 40
BASE = {"objective": "approx-ndcg", "scaling": "none", "lambda_l2": 1e-4, "toward": "zero"}


def run(lab: Lab) -> Findings:
    """Train from several random weights and from the regression, with each alpha."""
    ridges = settled_ridge(lab.root)
    rows = []
    lines: dict[str, list[float]] = {"one start, mean": [], f"best of {STARTS} on validation": [], "regression": []}
    for alpha in ALPHAS:
        params = {**BASE, "alpha": alpha}
        found = [
            [lab.result(Cell(f, {**params, "initial": "random", "seed": seed}, ROUNDS)) for seed in range(STARTS)]
            for f in FOLDS
        ]
        from_regression = [lab.result(Cell(f, {**params, "ridge": ridges[f]}, ROUNDS)) for f in FOLDS]
        ones = [mean_of([of_fold[s] for of_fold in found]) for s in range(STARTS)]
        best = [of_fold[int(np.argmax([r["selected"] for r in of_fold]))] for of_fold in found]
        spread = float(np.mean([np.std([r["train"] for r in of_fold], ddof=1) for of_fold in found]))
        train = float(np.mean([r["train"] for of_fold in found for r in of_fold]))
        rows.append(
            [f"{alpha:g}", f"{train:.4f}", f"{spread:.4f}", f"{np.mean(ones):.4f}", f"{np.std(ones, ddof=1):.4f}",
             f"{mean_of(best):.4f}", f"{np.mean([r['train'] for r in from_regression]):.4f}",
             f"{mean_of(from_regression):.4f}"]
        )  # fmt: skip
        for name, value in zip(lines, (float(np.mean(ones)), mean_of(best), mean_of(from_regression)), strict=True):
            lines[name].append(value)
    header = [
        "alpha", "training, one start", "its spread over starts", "test, one start", "its spread over starts",
        f"test, best of {STARTS} on validation", "training, from regression", "test, from regression",
    ]  # fmt: skip
    return Findings(
        "Random restarts of ApproxNDCG",
        [("NDCG@10, LETOR's conventions, pooled over folds", markdown(header, rows))],
        [("restarts.svg", "ApproxNDCG: test NDCG@10 by start", "alpha", "NDCG@10 (LETOR's conventions)",
          [Line(name, ALPHAS, values) for name, values in lines.items()], True)],
    )  # fmt: skip


if __name__ == "__main__":
    main("restarts", run, __doc__)
