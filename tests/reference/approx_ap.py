"""ApproxAP, Qin, Liu, Li 2010, one query in plain NumPy, pair by pair."""

import numpy as np
from scipy.special import expit

from tests.reference._ranking import sigmoid_ranks
from tests.reference._relevance import pair_curvatures, pair_forces, relevant, teaches


def freeze(query, scores, values):
    return None


def _parts(query, scores, values):
    """r, N, pi, and J_yx = 1 / (1 + exp(-beta (pi_y - pi_x))) without the diagonal."""
    r = relevant(query, values)
    pi = sigmoid_ranks(scores, 1 / values["alpha"])
    j = expit(values["beta"] * (pi[:, None] - pi[None, :]))
    np.fill_diagonal(j, 0.0)
    return r, r.sum(), pi, j


def loss(query, scores, values, frozen):
    if not teaches(query, values):
        return 0.0
    r, count, pi, j = _parts(query, scores, values)
    return -float(np.sum(r / pi * (1 + j @ r))) / count


def _slopes(query, scores, values):
    """c_y = (1/N) [-(r_y / pi_y^2) (1 + sum_x r_x J_yx) + sum_x V_yx - sum_x V_xy]."""
    r, count, pi, j = _parts(query, scores, values)
    v = values["beta"] * j * (1 - j) * r[:, None] * r[None, :] / pi[:, None]
    return (-r / pi**2 * (1 + j @ r) + v.sum(axis=1) - v.sum(axis=0)) / count


def gradient(query, scores, values):
    if not teaches(query, values):
        return np.zeros(len(query))
    return -pair_forces(scores, values["alpha"], _slopes(query, scores, values))


def hessian(query, scores, values):
    if not teaches(query, values):
        return np.zeros(len(query))
    return pair_curvatures(scores, values["alpha"], _slopes(query, scores, values))


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return 1 / values["alpha"]
