"""SmoothAP, Chapelle and Wu 2010, eq (9), one query in plain NumPy, pair by pair."""

import numpy as np
from scipy.special import expit

from tests.reference._ranking import differences, sigmoid_ranks, sigmoid_weights
from tests.reference._relevance import pair_curvatures, relevant, teaches


def freeze(query, scores, values):
    return None


def _parts(query, scores, values):
    """l, N, rhat, S_i = l_i (l_i + sum_{j != i} l_j P_ij)."""
    flags = relevant(query, values)
    above = expit(-differences(scores) / values["sigma"])
    np.fill_diagonal(above, 1.0)
    return flags, flags.sum(), sigmoid_ranks(scores, values["sigma"]), flags * (above @ flags)


def loss(query, scores, values, frozen):
    if not teaches(query, values):
        return 0.0
    _, count, ranks, s = _parts(query, scores, values)
    return -float(np.sum(s / ranks)) / count


def gradient(query, scores, values):
    """dJ/df_p = sum_i C_ip w_ip - sum_j C_pj w_pj, C_ij = dJ/dP_ij = (l_i l_j / rhat_i - S_i /
    rhat_i^2) / N.
    """
    if not teaches(query, values):
        return np.zeros(len(query))
    flags, count, ranks, s = _parts(query, scores, values)
    c = (np.outer(flags, flags) / ranks[:, None] - (s / ranks**2)[:, None]) / count
    w = sigmoid_weights(scores, values["sigma"]) / values["sigma"]
    return -(np.sum(c * w, axis=0) - np.sum(c * w, axis=1))


def hessian(query, scores, values):
    if not teaches(query, values):
        return np.zeros(len(query))
    flags, count, ranks, s = _parts(query, scores, values)
    alpha, out = 1 / values["sigma"], np.zeros(len(query))
    out += pair_curvatures(scores, alpha, s / ranks**2 / count)
    chosen = flags > 0
    out[chosen] += pair_curvatures(scores[chosen], alpha, 1 / ranks[chosen] / count)
    return out


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return values["sigma"]
