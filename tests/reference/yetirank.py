"""YetiRank as in CatBoost's yetirank_helpers.cpp: a matrix of pair weights, then a weighted
logistic loss.
"""

import itertools

import numpy as np
from scipy.special import expit

from tests.reference._ranking import descending, ideal_dcg
from tests.reference._swaps import change, grades_of
from tests.reference.noise import logistics, round_seed


def freeze(query, scores, values):
    """Weight of every pair (winner, loser)."""
    n, count = len(query), values["permutations"]
    weights = np.zeros((n, n))
    if not query.teaches:
        return weights
    mode, depth = values["mode"], values["k"] or n
    grades = grades_of(mode, query, values) if mode != "classic" else None
    target = query.labels if values["target"] == "labels" else query.gains
    # Noise is drawn for ranks, so that the order of rows changes nothing.
    order = descending(scores)
    noise = logistics(round_seed(values["seed"], 0), 0, count * n).reshape(count, n)
    for draw in noise:
        noisy = np.empty(n)
        noisy[order] = scores[order] + draw
        ranking = np.argsort(-noisy)
        # A metric's change by the swap of any two documents, else neighbours alone.
        if mode != "classic":
            for pos, other in itertools.combinations(range(n), 2):
                a, b = ranking[[pos, other]]
                if grades[a] == grades[b] or pos >= depth or 0 < values["neighbors"] < other - pos:
                    continue
                winner, loser = (a, b) if grades[a] > grades[b] else (b, a)
                ideal = ideal_dcg(query, depth, 0.0) if mode == "ndcg" else 1.0
                weights[winner, loser] += (
                    change(mode, grades[ranking], pos, other, n) / ideal / count
                )
            continue
        for pos in range(min(n - 1, depth)):
            a, b = ranking[pos], ranking[pos + 1]
            winner, loser = (a, b) if target[a] > target[b] else (b, a)
            weights[winner, loser] += (
                0.15 * values["decay"] ** pos * abs(target[a] - target[b]) / count
            )
    return weights


def _differences(scores):
    return scores[:, None] - scores[None, :]


def loss(query, scores, values, frozen):
    return float(np.sum(frozen * np.logaddexp(0, -_differences(scores))))


def gradient(query, scores, values):
    pull = freeze(query, scores, values) * expit(-_differences(scores))
    return pull.sum(axis=0) - pull.sum(axis=1)


def hessian(query, scores, values):
    x = _differences(scores)
    curvature = freeze(query, scores, values) * expit(x) * expit(-x)
    return curvature.sum(axis=0) + curvature.sum(axis=1)
