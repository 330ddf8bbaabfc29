"""SmoothPrecision@k, one query in plain NumPy."""

import numpy as np

from tests.reference import _relevance
from tests.reference._ranking import sigmoid_ranks
from tests.reference._relevance import pair_curvatures, pair_forces, relevant


def freeze(query, scores, values):
    return None


def _teaches(query, values):
    return len(query) > values["k"] and _relevance.teaches(query, values)


def _inside(query, scores, values):
    """T(r) = 1 / (1 + (r / (k + 1/2))^beta) and T'(r) = -(beta / r) T (1 - T) at the smooth ranks."""
    r = sigmoid_ranks(scores, 1 / values["alpha"])
    t = 1 / (1 + (r / (values["k"] + 0.5)) ** values["beta"])
    return t, -values["beta"] / r * t * (1 - t)


def loss(query, scores, values, frozen):
    if not _teaches(query, values):
        return 0.0
    return -float(np.sum(relevant(query, values) * _inside(query, scores, values)[0])) / values["k"]


def _slopes(query, scores, values):
    return relevant(query, values) * _inside(query, scores, values)[1] / values["k"]


def gradient(query, scores, values):
    if not _teaches(query, values):
        return np.zeros(len(query))
    return -pair_forces(scores, values["alpha"], _slopes(query, scores, values))


def hessian(query, scores, values):
    if not _teaches(query, values):
        return np.zeros(len(query))
    return pair_curvatures(scores, values["alpha"], _slopes(query, scores, values))


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return 1 / values["alpha"]
