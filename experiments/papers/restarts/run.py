"""ApproxNDCG from random weights, by alpha: what choosing among starts by the training objective
gives.

    python -m experiments.papers.restarts.run

After table 5 of Qin, Liu, Li 2010. Two ways up from the same weights: conjugate gradients over all
queries, and the paper's algorithm 1, a step of fixed length along the gradient of one query after
the other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from experiments.common import difference, markdown
from experiments.papers.cells import (
    FOLDS,
    Cell,
    Lab,
    console,
    mean_of,
    measured,
    ndcg_at_10,
    pooled,
    settled_ridge,
)
from experiments.papers.findings import Findings, main

ALPHAS = (10.0, 50.0, 100.0, 300.0)
# Conjugate gradients.
STARTS, ROUNDS = 20, 60
BASE = {"objective": "approx-ndcg", "scaling": "none", "lambda_l2": 1e-4, "toward": "zero"}
# Algorithm 1. The paper's rate and number of epochs are not known to us: the rate is the best of
# five by the training objective, on average over the first starts.
EPOCHS, RATES, TRIED = 60, (0.003, 0.01, 0.03, 0.1, 0.3), 2
STARTS_OF_STEPS = 10
DIGITS = 3

Weights = npt.NDArray[np.float64]
Climb = dict[str, Any]
"""What a start led to: `objective` and `train` (NDCG@10) on the training queries, measures of the
test queries.
"""


def run(lab: Lab) -> Findings:
    """Climb from every start on every fold, choose by the training objective, measure on the test
    queries.
    """
    ridges = settled_ridge(lab.root)
    rows = []
    for name, climbs_of in (
        ("conjugate gradients", _by_conjugate_gradients),
        ("algorithm 1", _by_algorithm_1),
    ):
        sharpest = None
        for alpha in reversed(ALPHAS):
            climbs = [climbs_of(lab, fold, alpha) for fold in FOLDS]
            best = [max(of_fold, key=lambda climb: float(climb["objective"])) for of_fold in climbs]
            starts = range(min(len(of_fold) for of_fold in climbs))
            singles = [mean_of([of_fold[start] for of_fold in climbs]) for start in starts]
            sharpest = sharpest or best
            against = (
                ""
                if best is sharpest
                else difference(
                    pooled(best, "letor", "ndcg@10"), pooled(sharpest, "letor", "ndcg@10"), DIGITS
                )
            )
            rows.append(
                [
                    name,
                    f"{alpha:g}",
                    *(
                        f"{_mean(of_each, key):.{DIGITS}f}"
                        for key in ("objective", "train")
                        for of_each in ([climb for of_fold in climbs for climb in of_fold], best)
                    ),
                    f"{np.mean(singles):.{DIGITS}f} ({np.std(singles, ddof=1):.{DIGITS}f})",
                    f"{mean_of(best):.{DIGITS}f}",
                    against,
                ]
            )
            console.print(
                f"{name}, alpha {alpha:g}: test {mean_of(best):.4f}, one start"
                f" {np.mean(singles):.4f}"
            )
    regression = [_from_regression(lab, alpha, ridges) for alpha in ALPHAS]
    for alpha, climbs_of_folds in zip(ALPHAS, regression, strict=True):
        rows.append(
            [
                "from the regression",
                f"{alpha:g}",
                f"{_mean(climbs_of_folds, 'objective'):.{DIGITS}f}",
                "",
                f"{_mean(climbs_of_folds, 'train'):.{DIGITS}f}",
                "",
                f"{mean_of(climbs_of_folds):.{DIGITS}f}",
                "",
                "",
            ]
        )
    header = [
        "way",
        "alpha",
        "objective, mean of the starts",
        "of the chosen",
        "training NDCG@10, mean",
        "of the chosen",
        "test NDCG@10, mean (deviation over starts)",
        "of the chosen",
        f"minus that of alpha {ALPHAS[-1]:g}",
    ]
    heading = (
        f"{STARTS} starts of conjugate gradients, {STARTS_OF_STEPS} of algorithm 1, chosen by the"
        " objective"
    )
    return Findings(
        "Random restarts of ApproxNDCG",
        [(f"{heading}; NDCG@10 by LETOR's conventions", markdown(header, rows))],
    )


def _mean(climbs: list[Climb], key: str) -> float:
    return float(np.mean([climb[key] for climb in climbs]))


def _measured(lab: Lab, fold: int, alpha: float, scores: Any) -> Climb:
    """A climb from what it scores: a function of a data set."""
    train, _, test = lab.fold(fold)
    bound = boostrank.Objective("approx-ndcg", alpha=alpha, threads=1).bind(
        train.labels, train.queries
    )
    on_train = scores(train)
    return {
        "objective": -bound.evaluate(on_train, 0).stats.loss / len(train.queries),
        "train": ndcg_at_10(train, on_train),
        **measured(test, scores(test)),
    }


def _by_conjugate_gradients(lab: Lab, fold: int, alpha: float) -> list[Climb]:
    starts = [{**BASE, "alpha": alpha, "initial": "random", "seed": seed} for seed in range(STARTS)]
    return [_linear(lab, fold, alpha, params) for params in starts]


def _from_regression(lab: Lab, alpha: float, ridges: dict[int, float]) -> list[Climb]:
    return [
        _linear(lab, fold, alpha, {**BASE, "alpha": alpha, "ridge": ridges[fold]}) for fold in FOLDS
    ]


def _linear(lab: Lab, fold: int, alpha: float, params: dict[str, Any]) -> Climb:
    def make() -> Climb:
        model = lab.model(Cell(fold, params, ROUNDS))
        return _measured(lab, fold, alpha, lambda data: model.predict(data, num_iteration=0))

    return dict(lab.kept("restart", params, ROUNDS, fold, make=make))


def _by_algorithm_1(lab: Lab, fold: int, alpha: float) -> list[Climb]:
    def climbs_at(rate: float, starts: int) -> list[Climb]:
        return [_stepwise(lab, fold, alpha, rate, seed) for seed in range(starts)]

    mean_objectives = [_mean(climbs_at(rate, TRIED), "objective") for rate in RATES]
    return climbs_at(RATES[int(np.argmax(mean_objectives))], STARTS_OF_STEPS)


def _stepwise(lab: Lab, fold: int, alpha: float, rate: float, seed: int) -> Climb:
    def make() -> Climb:
        weights = algorithm_1(lab.fold(fold)[0], alpha, rate, seed)
        return _measured(
            lab, fold, alpha, lambda data: np.asarray(data.features, np.float64) @ weights
        )

    return dict(lab.kept("algorithm 1", EPOCHS, fold, alpha, rate, seed, make=make))


def algorithm_1(train: boostrank.RankingDataset, alpha: float, rate: float, seed: int) -> Weights:
    """Ascend ApproxNDCG query by query, in an order drawn anew for each epoch.

    Args:
        train: dense features.
        alpha: sharpness of the ranks.
        rate: length of a step, times the gradient.
        seed: of the first weights, normal with variance 1 / d, and of the orders.

    Returns:
        float64[d]: the weights after EPOCHS.
    """
    objective = boostrank.Objective("approx-ndcg", alpha=alpha, threads=1)
    features = np.asarray(train.features, np.float64)
    queries = [
        (features[a:b], objective.bind(train.labels[a:b], boostrank.QueryIndex.from_sizes([b - a])))
        for a, b in pairwise(train.queries.ptr.tolist())
        if np.ptp(train.labels[a:b]) > 0
    ]
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=features.shape[1]) / np.sqrt(features.shape[1])
    for _ in range(EPOCHS):
        for i in rng.permutation(len(queries)):
            rows, bound = queries[i]
            weights -= rate * (rows.T @ bound.evaluate(rows @ weights, 0).grad)
    return weights


if __name__ == "__main__":
    main("restarts", run, __doc__)
