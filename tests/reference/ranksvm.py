"""RankSVM pair by pair: hinge or half its square."""

import numpy as np


def freeze(query, scores, values):
    """The pairs (better, worse) that violate the margin: which they are jumps where a pair stands
    on it.
    """
    n, margin = len(query), values["margin"]
    return [
        (i, j)
        for i in range(n)
        for j in range(n)
        if query.gains[i] > query.gains[j] and scores[i] - scores[j] < margin
    ]


def _short(scores, values, i, j):
    return values["margin"] - (scores[i] - scores[j])


def loss(query, scores, values, frozen):
    short = np.array([_short(scores, values, i, j) for i, j in frozen])
    loss = short.sum() if values["pair_loss"] == "hinge" else (short**2).sum() / 2
    return float(loss)


def gradient(query, scores, values):
    out = np.zeros(len(query))
    for i, j in freeze(query, scores, values):
        pull = 1.0 if values["pair_loss"] == "hinge" else _short(scores, values, i, j)
        out[i] -= pull
        out[j] += pull
    return out


def hessian(query, scores, values):
    out = np.zeros(len(query))
    for i, j in freeze(query, scores, values):
        out[[i, j]] += 1.0 / values["margin"] if values["pair_loss"] == "hinge" else 1.0
    return out


def longest_step(query, scores, values):
    """No step is longer than the largest lack of margin."""
    return values["margin"] + (
        np.ptp(scores) if values["pair_loss"] == "squared" and len(scores) else 0.0
    )
