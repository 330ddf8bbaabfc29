"""LambdaLoss, Wang et al. 2018: pair weights spelled out, one query pair by pair."""

import numpy as np
from scipy.special import expit

from tests.reference._ranking import descending, discount, ideal_dcg


def freeze(query, scores, values):
    """Weight of every ordered pair at these scores."""
    n, blend = len(query), values["train_discount"]
    weights = np.zeros((n, n))
    if not query.teaches:
        return weights
    gains = query.gains / ideal_dcg(query, 0, blend)
    rank = np.empty(n)
    rank[descending(scores)] = np.arange(1, n + 1)

    def d(r):
        return discount(r, blend, n)

    for i in range(n):
        for j in range(n):
            if gains[i] > gains[j]:
                gap = abs(rank[i] - rank[j])
                delta = abs(d(gap) - d(gap + 1))
                rho = abs(d(rank[i]) - d(rank[j]))
                part = delta if values["weights"] == "ndcg-loss2" else rho + values["mu"] * delta
                weights[i, j] = part * (gains[i] - gains[j])
    return weights


def _differences(scores, values):
    return (scores[:, None] - scores[None, :]) / values["sigma"]


def loss(query, scores, values, frozen):
    return float(np.sum(frozen * np.logaddexp(0, -_differences(scores, values))))


def gradient(query, scores, values):
    pull = freeze(query, scores, values) * expit(-_differences(scores, values)) / values["sigma"]
    return pull.sum(axis=0) - pull.sum(axis=1)


def hessian(query, scores, values):
    """A little more than Jaakkola and Jordan's bound of each pair's curvature."""
    u = np.abs(_differences(scores, values))
    bound = (0.056 * np.exp(-u / 16) + 0.223 * np.exp(-u / 4) + 0.008) / values["sigma"] ** 2
    weights = freeze(query, scores, values)
    return ((weights + weights.T) * bound).sum(axis=1)


def surrogate(query, scores, values, at):
    """What the hessian majorises: the loss with the weights at some scores."""
    return loss(query, scores, values, freeze(query, at, values))
