"""SDCG, Wu et al. 2009, eqs (5)-(10), one query, a rank and a derivative at a time."""

import math

import numpy as np
from scipy.special import expit

from tests.reference._ranking import discount, discount_slope, divisor


def freeze(query, scores, values):
    return None


def rank(scores, i, sigma):
    """rhat_i = 1 + sum_{j != i} G_sigma(o_i - o_j), eq (6), with G_sigma(x) = 1 / (1 + exp(x /
    sigma)), eq (5).
    """
    return 1 + math.fsum(
        expit(-(scores[i] - scores[j]) / sigma) for j in range(len(scores)) if j != i
    )


def ranks(scores, values):
    return np.array([rank(scores, i, values["sigma"]) for i in range(len(scores))])


def slope(x, sigma):
    """G'(x) = -G (1 - G) / sigma."""
    return -expit(-x / sigma) * expit(x / sigma) / sigma


def rank_slope(scores, j, i, sigma):
    """drhat_j / do_i, eq (10) for n documents: with +1 for i = j, with -1 for another."""
    if i != j:
        return -slope(scores[j] - scores[i], sigma)
    return math.fsum(slope(scores[j] - scores[k], sigma) for k in range(len(scores)) if k != j)


def weight(rank, values):
    """W_k(rhat) = G_tau(rhat - k) and its slope, eq (7): k is that of the metric, however short the
    list.
    """
    if values["k"] == 0:
        return 1.0, 0.0
    x = rank - values["k"]
    return expit(-x / values["tau"]), slope(x, values["tau"])


def loss(query, scores, values, frozen):
    """Minus SDCG, eq (8)."""
    if not query.counts(values):
        return 0.0
    n, blend, z = len(query), values["train_discount"], divisor(query, values["k"], values)
    terms = zip(query.gains, ranks(scores, values), strict=True)
    return -math.fsum(g / z * discount(r, blend, n) * weight(r, values)[0] for g, r in terms)


def metric_slopes(query, scores, values):
    """dSDCG / drhat_j, by the product rule on eq (8)."""
    n, blend, z = len(query), values["train_discount"], divisor(query, values["k"], values)
    out = np.zeros(n)
    for j, r in enumerate(ranks(scores, values)):
        w, by_rank = weight(r, values)
        out[j] = (
            query.gains[j] / z * (discount_slope(r, blend, n) * w + discount(r, blend, n) * by_rank)
        )
    return out


def gradient(query, scores, values):
    """dSDCG / do_i = sum_j dSDCG / drhat_j * drhat_j / do_i, eq (9), with the other sign."""
    n, out = len(query), np.zeros(len(query))
    if query.counts(values):
        c = metric_slopes(query, scores, values)
        for i in range(n):
            out[i] = -math.fsum(c[j] * rank_slope(scores, j, i, values["sigma"]) for j in range(n))
    return out


def hessian(query, scores, values):
    """sum_j w_pj (|c_p| + |c_j|) / sigma^2, w = G (1 - G): not the paper's."""
    n, sigma, out = len(query), values["sigma"], np.zeros(len(query))
    if query.counts(values):
        c = np.abs(metric_slopes(query, scores, values))
        for p in range(n):
            pairs = ((j, -slope(scores[p] - scores[j], sigma) / sigma) for j in range(n) if j != p)
            out[p] = math.fsum(w * (c[p] + c[j]) for j, w in pairs)
    return out


def longest_step(query, scores, values):
    """|g| <= sigma h: a Newton step never exceeds the width of the smooth ranks."""
    return values["sigma"]
