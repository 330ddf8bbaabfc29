"""Cut-off of the training objective, swept: does training for NDCG@k help NDCG@k?

python -m experiments.papers.training_k.run
"""

from __future__ import annotations

from experiments.papers.cells import Lab
from experiments.papers.findings import Findings, main
from experiments.papers.sweeps import sweep

KS = (1, 3, 10, 50, 0)
METHODS = {
    "ApproxNDCG": ({"objective": "approx-ndcg", "alpha": 30.0, "lambda_l2": 1e-2}, 60),
    "SmoothNDCG": ({"objective": "smooth-ndcg", "lambda_l2": 1e-2}, 65),
}


def run(lab: Lab) -> Findings:
    """Sweep k; 0 is the whole list."""
    table = sweep(lab, METHODS, "k", KS, 0)
    return Findings(
        "The training k",
        [("Test metrics by the k of training (0: the whole list), LETOR's conventions", table)],
    )


if __name__ == "__main__":
    main("training_k", run, __doc__)
