"""SHF-SDCG, Wu et al. 2009, eqs (12)-(17), one query pair by pair."""

import numpy as np
from scipy.integrate import quad
from scipy.special import expit

from tests.reference._ranking import descending, discount, discount_slope, ideal_dcg


def hinge(x, sigma):
    """A(x), A'(x) and the curvature kappa credited to it."""
    u = x / sigma
    bound = 0.056 * np.exp(-abs(u) / 16) + 0.223 * np.exp(-abs(u) / 4) + 0.008
    return np.logaddexp(0, -u), -expit(-u) / sigma, bound / sigma**2


def pair(query, scores, values, i, j):
    """K_ij(s_i - s_j), its derivative and its curvature."""
    sigma = values["sigma"]
    x = scores[i] - scores[j]
    if query.gains[i] > query.gains[j]:
        return hinge(x, sigma)
    if query.gains[i] < query.gains[j]:
        a, slope, kappa = hinge(-x, sigma)
        return 1 + a, -slope, kappa
    g = expit(-x / sigma)
    w = expit(x / sigma) * g
    return g, -w / sigma, w / sigma**2


def pairs(query, scores, values):
    """K, K' and kappa as matrices with an empty diagonal."""
    n = len(query)
    out = np.zeros((3, n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                out[:, i, j] = pair(query, scores, values, i, j)
    return out


def ranks(query, scores, values):
    return 1 + pairs(query, scores, values)[0].sum(axis=1)


def freeze(query, scores, values):
    """s_m: the largest rank of the k most relevant documents (best-scored first among equals), at
    least k.
    """
    if values["k"] == 0 or not query.teaches:
        return None
    k = min(values["k"], len(query))
    by_score = descending(scores)
    by_gain = by_score[np.argsort(-query.gains[by_score], kind="stable")]
    return max(k, ranks(query, scores, values)[by_gain[:k]].max())


def discounted(r, cut, tau, blend, n):
    """D(r) W(r) and its slope; beyond n + 1 the linear discount only declines by W / n a rank."""

    def weight(t):
        return 1.0 if cut is None else expit((cut - t) / tau)

    w = weight(r)
    dw = 0.0 if cut is None else -w * (1 - w) / tau
    if r <= n + 1:
        return discount(r, blend, n) * w, discount_slope(r, blend, n) * w + discount(
            r, blend, n
        ) * dw
    log, log_slope = (1 - blend) * discount(r, 0, n), (1 - blend) * discount_slope(r, 0, n)
    sunk = quad(weight, n + 1, r, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    return log * w - blend / n * sunk, log_slope * w + log * dw - blend / n * w


def holds(values):
    """s_m."""
    return values["k"] > 0


def loss(query, scores, values, frozen):
    if not query.teaches:
        return 0.0
    blend, n = values["train_discount"], len(query)
    terms = [
        discounted(r, frozen, values["tau"], blend, n)[0] for r in ranks(query, scores, values)
    ]
    return -float(np.sum(query.gains * terms)) / ideal_dcg(query, values["k"], blend)


def rank_slopes(query, scores, values):
    """c_i = dJ / drhat_i."""
    blend, n, cut = values["train_discount"], len(query), freeze(query, scores, values)
    slopes = [discounted(r, cut, values["tau"], blend, n)[1] for r in ranks(query, scores, values)]
    return query.gains * slopes / ideal_dcg(query, values["k"], blend)


def gradient(query, scores, values):
    if not query.teaches:
        return np.zeros(len(query))
    c, slope = rank_slopes(query, scores, values), pairs(query, scores, values)[1]
    return -(c * slope.sum(axis=1) - slope.T @ c)


def hessian(query, scores, values):
    if not query.teaches:
        return np.zeros(len(query))
    c, kappa = np.abs(rank_slopes(query, scores, values)), pairs(query, scores, values)[2]
    return c * kappa.sum(axis=1) + kappa.T @ c


def surrogate(query, scores, values, at):
    """What the hessian majorises along each score, from `at` on: -sum c_i rhat_i with the slopes of
    `at` held.

    None where nothing is claimed: between equal gains.
    """
    if len(set(query.gains)) < len(query):
        return None
    if not query.teaches:
        return 0.0
    return -float(rank_slopes(query, at, values) @ ranks(query, scores, values))
