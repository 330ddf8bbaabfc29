"""SDCG, Wu et al. 2009, eqs (5)-(9), one query in plain NumPy."""

import math

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


def _weight(query, ranks, values):
    """W and W' of eq (7)."""
    if values["k"] == 0:
        return np.ones_like(ranks), np.zeros_like(ranks)
    w = expit((min(values["k"], len(query)) - ranks) / values["tau"])
    return w, -w * (1 - w) / values["tau"]


def loss(query, scores, values, frozen):
    if not query.counts(values):
        return 0.0
    ranks = sigmoid_ranks(scores, values["sigma"])
    blend, z = values["train_discount"], divisor(query, values["k"], values)
    w, _ = _weight(query, ranks, values)
    return -math.fsum(query.gains / z * discount(ranks, blend, len(query)) * w)


def rank_slopes(query, scores, values):
    """c_i = dJ / drhat_i."""
    ranks = sigmoid_ranks(scores, values["sigma"])
    n, blend, z = len(query), values["train_discount"], divisor(query, values["k"], values)
    w, slope = _weight(query, ranks, values)
    return query.gains / z * (discount_slope(ranks, blend, n) * w + discount(ranks, blend, n) * slope)


def gradient(query, scores, values):
    if not query.counts(values):
        return np.zeros(len(query))
    c = rank_slopes(query, scores, values)
    slope = -sigmoid_weights(scores, values["sigma"]) / values["sigma"]  # G'
    return -(c * slope.sum(axis=1) - slope.T @ c)


def hessian(query, scores, values):
    if not query.counts(values):
        return np.zeros(len(query))
    c = np.abs(rank_slopes(query, scores, values))
    w = sigmoid_weights(scores, values["sigma"])
    return (w * (c[:, None] + c[None, :])).sum(axis=1) / values["sigma"] ** 2


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return values["sigma"]
