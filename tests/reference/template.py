"""The template's pairwise logistic loss, one query pair by pair."""

import numpy as np
from scipy.special import expit


def freeze(query, scores, values):
    return None


def _pairs(query):
    n = len(query)
    return [(i, j) for i in range(n) for j in range(n) if query.gains[i] > query.gains[j]]


def loss(query, scores, values, frozen):
    return float(
        sum(np.logaddexp(0, -(scores[i] - scores[j]) / values["sigma"]) for i, j in _pairs(query))
    )


def gradient(query, scores, values):
    out = np.zeros(len(query))
    for i, j in _pairs(query):
        pull = expit(-(scores[i] - scores[j]) / values["sigma"]) / values["sigma"]
        out[i] -= pull
        out[j] += pull
    return out


def hessian(query, scores, values):
    out = np.zeros(len(query))
    for i, j in _pairs(query):
        x = (scores[i] - scores[j]) / values["sigma"]
        out[[i, j]] += expit(x) * expit(-x) / values["sigma"] ** 2
    return out
