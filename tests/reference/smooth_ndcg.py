"""SmoothNDCG, Chapelle and Wu 2010, one query in plain NumPy; the gradient is eq (10) summed, not
the appendix.

The other metrics are their definitions with the relevance c_j = sum_i l_i h_ij at rank j, and their
slopes by c_j are those definitions differentiated term by term.
"""

import numpy as np

from tests.reference._ranking import descending, discount, ideal_dcg, squared_error
from tests.reference._swaps import grades_of


def freeze(query, scores, values):
    """The order d."""
    return descending(scores)


def _worth(query, values):
    """g, or l, or the probability that a document satisfies."""
    return grades_of(values["metric"], query, values)


def _teaches(query, values):
    beyond = values["metric"] == "precision" and len(query) <= values["k"]
    return len(query) > 1 and np.ptp(_worth(query, values)) > 0 and not beyond


def _shares(scores, values, order):
    """h_ij = e_ij / sum_m e_mj for the anchors j within k."""
    anchors = order[: values["k"] or None]
    e = np.exp(-((scores[:, None] - scores[anchors][None, :]) ** 2) / values["sigma"])
    return e / e.sum(axis=0), anchors


def _metric(query, values, c):
    """The metric of c_1, c_2, ..., and its slopes."""
    metric, count = values["metric"], len(c)
    rank = np.arange(1, count + 1)
    if metric == "ndcg":
        blend = values["train_discount"]
        weights = discount(rank, blend, len(query)) / ideal_dcg(query, values["k"], blend)
        return weights @ c, weights
    if metric == "precision":
        return np.sum(c) / values["k"], np.full(count, 1 / values["k"])
    slopes, value = np.zeros(count), 0.0
    if metric == "map":
        relevant = _worth(query, values).sum()
        for j in range(count):
            for m in range(j + 1):
                share = 1 / (rank[j] * relevant)
                value += share * c[j] * c[m]
                slopes[j] += share * c[m]
                slopes[m] += share * c[j]
        return value, slopes
    for j in range(count):
        value += c[j] / rank[j] * np.prod(1 - c[:j])
        slopes[j] += np.prod(1 - c[:j]) / rank[j]
        for m in range(j):
            slopes[m] -= c[j] / rank[j] * np.prod(np.delete(1 - c[:j], m))
    return value, slopes


def loss(query, scores, values, frozen):
    mix = values["mix"]
    gain = 0.0
    if _teaches(query, values):
        gain = float(
            _metric(query, values, _worth(query, values) @ _shares(scores, values, frozen)[0])[0]
        )
    return mix * squared_error(query, scores, values)[0] - (1 - mix) * gain


def gradient(query, scores, values):
    n, mix = len(query), values["mix"]
    dj = np.zeros(n)
    if _teaches(query, values):
        worth = _worth(query, values)
        h, anchors = _shares(scores, values, descending(scores))
        _, d = _metric(query, values, worth @ h)
        for j, anchor in enumerate(anchors):
            mean = h[:, j] @ scores
            for p in range(n):
                for i in range(n):
                    term = (h[p, j] - (i == p)) * (scores[p] - scores[anchor]) + (p == anchor) * (
                        scores[i] - mean
                    )
                    dj[p] += d[j] * worth[i] * 2 / values["sigma"] * h[i, j] * term
    return mix * squared_error(query, scores, values)[1] - (1 - mix) * dj


def _differences(gains, means):
    """|g_i - gbar_j|; of more than eight gains, as if linear in g between eight of them."""
    nodes = np.unique(gains)
    if len(nodes) > 8:
        nodes = nodes[np.arange(8) * (len(nodes) - 1) // 7]
    return np.array([np.interp(gains, nodes, np.abs(nodes - mean)) for mean in means]).T


def hessian(query, scores, values):
    n, mix = len(query), values["mix"]
    out = np.zeros(n)
    if _teaches(query, values):
        worth = _worth(query, values)
        h, anchors = _shares(scores, values, descending(scores))
        _, d = _metric(query, values, worth @ h)
        miss = _differences(worth, worth @ h)
        out = (h * miss) @ d
        out[anchors] += d * (h * miss).sum(axis=0)
        out *= 2 / values["sigma"]
    return mix / max(n, 1) + (1 - mix) * out
