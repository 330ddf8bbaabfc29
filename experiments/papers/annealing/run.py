"""NDCG of training, validation and test queries along SmoothNDCG's annealing, linear, OHSUMED.

python -m experiments.papers.annealing.run
"""

from __future__ import annotations

import numpy as np

from experiments.common import markdown
from experiments.papers.cells import FOLDS, Cell, Lab, settled_ridge
from experiments.papers.findings import Findings, main

SIGMAS = [2.0**i for i in range(6, -7, -1)]
STEPS = 10
PENALTIES = (1e-4, 1e-2)
SETS = ("train", "vali", "test")


def run(lab: Lab) -> Findings:
    """Train with the published sequence, and measure after every stage."""
    ridges = settled_ridge(lab.root)
    rows = []
    for penalty in PENALTIES:
        params = {"objective": "smooth-ndcg", "scaling": "none", "lambda_l2": penalty}
        cells = [
            Cell(f, {**params, "ridge": ridges[f]}, STEPS * len(SIGMAS), curves=True) for f in FOLDS
        ]
        curves = [lab.result(cell)["curves"] for cell in cells]
        ends = {
            name: np.mean([c[name] for c in curves], axis=0)[STEPS - 1 :: STEPS] for name in SETS
        }
        rows += [
            [f"{penalty:g}", f"{sigma:g}", *(f"{ends[name][i]:.3f}" for name in SETS)]
            for i, sigma in enumerate(SIGMAS)
        ]
    return Findings(
        "SmoothNDCG along its annealing",
        [
            (
                f"NDCG@10 after each stage of {STEPS} steps, mean over folds, LETOR's conventions",
                markdown(["lambda", "sigma", *SETS], rows),
            )
        ],
    )


if __name__ == "__main__":
    main("annealing", run, __doc__)
