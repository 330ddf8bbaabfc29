"""The discount of the training objective, from the metric's logarithm to a straight line, on linear
models.

python -m experiments.papers.discount.run
"""

from __future__ import annotations

from experiments.papers.cells import Lab
from experiments.papers.findings import Findings, main
from experiments.papers.sweeps import sweep

DISCOUNTS = (0.0, 0.5, 1.0)
METHODS = {
    "SoftRank": ({"objective": "soft-ndcg", "sigma": 0.1, "lambda_l2": 1e-2}, 60),
    "ApproxNDCG": ({"objective": "approx-ndcg", "alpha": 30.0, "lambda_l2": 1e-2}, 60),
    "SHF-SDCG": ({"objective": "shf-sdcg", "sigma": 0.3, "lambda_l2": 1e-2}, 60),
}


def run(lab: Lab) -> Findings:
    """Sweep the discount; 0 is the logarithm of the metric, 1 is 1 - r/n."""
    table = sweep(lab, METHODS, "train_discount", DISCOUNTS, 0.0)
    return Findings(
        "The discount of training",
        [
            (
                "Test metrics by the discount of training (0: log, 1: linear), LETOR's conventions",
                table,
            )
        ],
    )


if __name__ == "__main__":
    main("discount", run, __doc__)
