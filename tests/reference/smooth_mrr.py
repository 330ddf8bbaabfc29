"""SmoothMRR, one query in plain NumPy."""

import numpy as np

from tests.reference._ranking import sigmoid_ranks
from tests.reference._relevance import pair_curvatures, pair_forces, relevant, teaches


def freeze(query, scores, values):
    return None


def _parts(query, scores, values):
    """w (0 where not relevant), pi, J."""
    flags = relevant(query, values)
    chance = flags * np.exp(values["alpha"] * (scores - scores[flags > 0].max()).clip(max=0))
    chance /= chance.sum()
    pi = sigmoid_ranks(scores, 1 / values["alpha"])
    return chance, pi, float(np.sum(chance / pi))


def loss(query, scores, values, frozen):
    return -_parts(query, scores, values)[2] if teaches(query, values) else 0.0


def gradient(query, scores, values):
    if not teaches(query, values):
        return np.zeros(len(query))
    w, pi, j = _parts(query, scores, values)
    return -pair_forces(scores, values["alpha"], -w / pi**2) - values["alpha"] * w * (1 / pi - j)


def hessian(query, scores, values):
    if not teaches(query, values):
        return np.zeros(len(query))
    w, pi, j = _parts(query, scores, values)
    return pair_curvatures(scores, values["alpha"], w / pi**2) + values["alpha"] ** 2 * w * np.abs(
        1 / pi - j
    )


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return 1 / values["alpha"]
