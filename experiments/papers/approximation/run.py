"""Error of ApproxNDCG and ApproxAP as approximations, against alpha and beta, along training.

    python -m experiments.papers.approximation.run

The measures are written out here once more in NumPy, pair by pair.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from experiments.common import markdown
from experiments.papers.cells import Cell, Lab, settled_ridge
from experiments.papers.findings import Findings, main
from experiments.papers.picture import Line

FOLD = 1
ALPHAS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
BETAS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
ALPHA_OF_BETAS = 100.0
ROUNDS, K = 40, 10


def run(lab: Lab) -> Findings:
    """Train with each alpha and beta, and measure the error at the regression's weights and after
    every step.
    """
    of_alpha = {
        a: _errors(lab, {"objective": "approx-ndcg", "alpha": a}, _ndcg, a, 0.0) for a in ALPHAS
    }
    cut = {
        b: _errors(
            lab,
            {"objective": "approx-ndcg", "alpha": ALPHA_OF_BETAS, "beta": b, "k": K},
            _ndcg,
            ALPHA_OF_BETAS,
            b,
        )
        for b in BETAS
    }
    precise = {
        b: _errors(
            lab,
            {"objective": "approx-ap", "alpha": ALPHA_OF_BETAS, "beta": b},
            _ap,
            ALPHA_OF_BETAS,
            b,
        )
        for b in BETAS
    }
    steps = list(range(1, ROUNDS + 1))
    tables = []
    for heading, errors_of, name in (
        ("ApproxNDCG, no cut-off", of_alpha, "alpha"),
        (f"ApproxNDCG@{K}, alpha {ALPHA_OF_BETAS:g}", cut, "beta"),
        (f"ApproxAP, alpha {ALPHA_OF_BETAS:g}", precise, "beta"),
    ):
        rows = [
            [f"{value:g}", *(f"{errors[i - 1]:.3f}" for i in (1, 5, 10, 20, 40))]
            for value, errors in errors_of.items()
        ]
        tables.append(
            (
                (
                    f"{heading}: mean |error| over the training queries of fold {FOLD}, after so"
                    " many steps"
                ),
                markdown([name, "1", "5", "10", "20", "40"], rows),
            )
        )
    pictures = [
        (
            f"approximation-{name}.svg",
            title,
            "steps",
            "mean |error|",
            [Line(f"{letter} {value:g}", steps, errors) for value, errors in errors_of.items()],
            False,
        )
        for name, title, letter, errors_of in (
            ("alpha", "ApproxNDCG: error of the approximation along training", "alpha", of_alpha),
            ("beta", f"ApproxNDCG@{K}: error along training", "beta", cut),
            ("ap", "ApproxAP: error along training", "beta", precise),
        )
    ]
    return Findings("The error of the approximations", tables, pictures)


def _errors(
    lab: Lab, params: dict[str, Any], measure: Any, alpha: float, beta: float
) -> list[float]:
    """Mean over queries of |approximate - exact|, after every step."""
    params = {
        **params,
        "scaling": "none",
        "lambda_l2": 1e-3,
        "ridge": settled_ridge(lab.root)[FOLD],
    }

    def make() -> list[float]:
        train = lab.fold(FOLD)[0]
        model = lab.model(Cell(FOLD, params, ROUNDS))
        errors = []
        for i in range(ROUNDS):
            scores = model.predict(train, num_iteration=i + 1)
            spans = list(pairwise(train.queries.ptr.tolist()))
            pairs = [
                measure(scores[a:b], train.labels[a:b], alpha, beta)
                for a, b in spans
                if train.labels[a:b].any()
            ]
            errors.append(
                float(np.mean([abs(approximate - exact) for approximate, exact in pairs]))
            )
        return errors

    return list(lab.kept("approximation", params, FOLD, ROUNDS, make=make))


def _ranks(scores: Any, alpha: float) -> tuple[Any, Any]:
    """Smooth and exact ranks."""
    smooth = 0.5 + expit(-alpha * (scores[:, None] - scores[None, :])).sum(axis=1)
    exact = np.empty(scores.size)
    exact[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return smooth, exact


def _ndcg(scores: Any, labels: Any, alpha: float, beta: float) -> tuple[float, float]:
    """ApproxNDCG (at K when there is a beta) and NDCG of one query."""
    gains = np.exp2(labels) - 1.0
    smooth, exact = _ranks(scores, alpha)
    within, truly = (expit(beta * (K + 0.5 - smooth)), exact <= K) if beta else (1.0, 1.0)
    top = np.sort(gains)[::-1]
    ideal = float(np.sum((top / np.log2(np.arange(2, top.size + 2)))[: K if beta else None]))
    return (
        float(np.sum(gains / np.log2(1.0 + smooth) * within)) / ideal,
        float(np.sum(gains / np.log2(1.0 + exact) * truly)) / ideal,
    )


def _ap(scores: Any, labels: Any, alpha: float, beta: float) -> tuple[float, float]:
    """ApproxAP and average precision of one query."""
    relevant = labels > 0
    smooth, exact = _ranks(scores, alpha)
    approximate, true = smooth[relevant], exact[relevant]
    above = 0.5 + expit(beta * (approximate[:, None] - approximate[None, :])).sum(axis=1)
    truly = (true[:, None] >= true[None, :]).sum(axis=1)
    return float(np.mean(above / approximate)), float(np.mean(truly / true))


if __name__ == "__main__":
    main("approximation", run, __doc__)
