"""ListNet's top-one cross entropy, Cao et al. 2007."""

import numpy as np
from scipy.special import logsumexp, softmax


def freeze(query, scores, values):
    return None


def _target(query, values):
    logits = query.labels if values["target"] == "labels" else query.gains
    return softmax(logits)


def loss(query, scores, values, frozen):
    return (
        float(np.sum(_target(query, values) * (logsumexp(scores) - scores)))
        if query.teaches
        else 0.0
    )


def gradient(query, scores, values):
    return softmax(scores) - _target(query, values) if query.teaches else np.zeros(len(query))


def hessian(query, scores, values):
    if not query.teaches:
        return np.zeros(len(query))
    shares = np.exp(scores - scores.max())
    others = np.array([np.delete(shares, i).sum() for i in range(len(shares))])
    return shares * others / shares.sum() ** 2
