"""ApproxNDCG, Qin, Liu, Li 2010, one query in plain NumPy."""

import numpy as np
from scipy.special import expit

from tests.reference._ranking import (
    discount,
    discount_slope,
    divisor,
    sigmoid_ranks,
    sigmoid_weights,
)


def freeze(query, scores, values):
    return None


def _cut(pi, values):
    """T_x = 1 / (1 + exp(-beta (k + 1/2 - pi_x))) and its slope."""
    if values["k"] == 0:
        return np.ones_like(pi), np.zeros_like(pi)
    t = expit(values["beta"] * (values["k"] + 0.5 - pi))
    return t, -values["beta"] * t * (1 - t)


def loss(query, scores, values, frozen):
    if not query.counts(values):
        return 0.0
    blend = values["train_discount"]
    pi = sigmoid_ranks(scores, 1 / values["alpha"])
    t, _ = _cut(pi, values)
    return -float(
        np.sum(
            query.gains / divisor(query, values["k"], values) * discount(pi, blend, len(query)) * t
        )
    )


def _slopes(query, scores, values):
    n, blend = len(query), values["train_discount"]
    pi = sigmoid_ranks(scores, 1 / values["alpha"])
    t, dt = _cut(pi, values)
    z = divisor(query, values["k"], values)
    return query.gains / z * (discount_slope(pi, blend, n) * t + discount(pi, blend, n) * dt)


def gradient(query, scores, values):
    if not query.counts(values):
        return np.zeros(len(query))
    c, w = _slopes(query, scores, values), sigmoid_weights(scores, 1 / values["alpha"])
    dj = [
        values["alpha"] * sum(w[x, p] * (c[x] - c[p]) for x in range(len(query)))
        for p in range(len(query))
    ]
    return -np.array(dj)


def hessian(query, scores, values):
    if not query.counts(values):
        return np.zeros(len(query))
    c, w = np.abs(_slopes(query, scores, values)), sigmoid_weights(scores, 1 / values["alpha"])
    return values["alpha"] ** 2 * np.array(
        [np.sum(w[:, p] * (c + c[p])) for p in range(len(query))]
    )


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return 1 / values["alpha"]
