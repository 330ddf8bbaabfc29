"""SmoothNDCG, Chapelle and Wu 2010, one query in plain NumPy; the gradient is eq (10) summed, not the appendix."""

import numpy as np

from tests.reference._ranking import descending, discount, ideal_dcg, squared_error


def freeze(query, scores, values):
    """The order d."""
    return descending(scores)


def _shares(query, scores, values, order):
    """h_ij = e_ij / sum_m e_mj for the anchors j within k."""
    anchors = order[: values["k"] or None]
    e = np.exp(-((scores[:, None] - scores[anchors][None, :]) ** 2) / values["sigma"])
    return e / e.sum(axis=0), anchors


def _weights(query, values, count):
    """D(j) / Z."""
    blend = values["train_discount"]
    return discount(np.arange(1, count + 1), blend, len(query)) / ideal_dcg(query, values["k"], blend)


def loss(query, scores, values, frozen):
    mix = values["mix"]
    gain = 0.0
    if query.teaches:
        h, anchors = _shares(query, scores, values, frozen)
        gain = float(_weights(query, values, len(anchors)) @ (query.gains @ h))
    return mix * squared_error(query, scores, values)[0] - (1 - mix) * gain


def gradient(query, scores, values):
    n, mix = len(query), values["mix"]
    dj = np.zeros(n)
    if query.teaches:
        h, anchors = _shares(query, scores, values, descending(scores))
        d = _weights(query, values, len(anchors))
        for j, anchor in enumerate(anchors):
            mean = h[:, j] @ scores
            for p in range(n):
                for i in range(n):
                    term = (h[p, j] - (i == p)) * (scores[p] - scores[anchor]) + (p == anchor) * (scores[i] - mean)
                    dj[p] += d[j] * query.gains[i] * 2 / values["sigma"] * h[i, j] * term
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
    if query.teaches:
        h, anchors = _shares(query, scores, values, descending(scores))
        d = _weights(query, values, len(anchors))
        miss = _differences(query.gains, query.gains @ h)
        out = (h * miss) @ d
        out[anchors] += d * (h * miss).sum(axis=0)
        out *= 2 / values["sigma"]
    return mix / max(n, 1) + (1 - mix) * out
