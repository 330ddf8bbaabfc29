"""Large-margin NDCG, Chapelle, Le, Smola 2007, one query: the whole n x k assignment by SciPy."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from tests.reference._ranking import descending, discount, ideal_dcg


def freeze(query, scores, values):
    """At tied scores, where the loss has a kink, the subgradient itself."""
    return gradient(query, scores, values) if len(np.unique(scores)) < len(scores) else None


def rank_weights(values, ranks):
    """A(r) = k + 1 - r; or 1 / sqrt(r) less what it is at rank k + 1, scaled to k at rank 1, with k
    at most n.
    """
    if values["rank_weights"] == "linear":
        return values["k"] + 1.0 - ranks
    k = len(ranks)
    rooted = ranks**-0.5 - (k + 1) ** -0.5
    return k * rooted / (1 - (k + 1) ** -0.5)


def places(query, values):
    """A(r) and margin D(r) / Z_k for the first k ranks; both are 0 beyond."""
    n = len(query)
    ranks = np.arange(1, min(values["k"], n) + 1)
    blend = values["train_discount"]
    ideal = ideal_dcg(query, values["k"], blend)
    return rank_weights(values, ranks.astype(float)), values["margin"] * discount(
        ranks, blend, n
    ) / ideal


def perfect_order(query, scores):
    """y*: by descending gain, then by descending score."""
    return np.lexsort((-scores, -query.gains))


def weights(order, a):
    """A(y_i) of a ranking."""
    out = np.zeros(len(order))
    out[order[: len(a)]] = a
    return out


def worst(query, scores, values):
    """A(yhat_i), and margin Delta(yhat)."""
    a, d = places(query, values)
    # Gaps that no step of A makes up for change nothing but the digits left for the rest.
    order = descending(scores)
    steps = -np.diff(np.append(a, 0.0))
    gaps = np.minimum(-np.diff(scores[order]), 2 * values["margin"] / steps.min())
    near = np.zeros(len(query))
    near[order[1:]] = -np.cumsum(gaps)
    rows, columns = linear_sum_assignment(
        np.outer(near, a) - np.outer(query.gains, d), maximize=True
    )
    out = np.zeros(len(query))
    out[rows] = a[columns]
    for gain in np.unique(
        query.gains
    ):  # differences too small for a sum still decide between equal gains
        same = order[query.gains[order] == gain]
        out[same] = np.sort(out[same])[::-1]
    return out, values["margin"] - query.gains[rows] @ d[columns]


def loss(query, scores, values, frozen):
    if not query.teaches:
        return 0.0
    if frozen is not None:
        return float(frozen @ scores)
    a, _ = places(query, values)
    ranks, delta = worst(query, scores, values)
    return float(delta + (ranks - target(query, scores, values)) @ scores) / len(a)


def report(query, scores, values):
    return loss(query, scores, values, None)


def shared(values, *keys):
    """The mean of `values` over documents that agree in every key."""
    same = np.logical_and.reduce([k[:, None] == k[None, :] for k in keys])
    return same @ values / same.sum(axis=1)


def target(query, scores, values):
    """A of y*, eq (12), or of the ranking by the scores, eq (14); means over the orders of ties."""
    a, _ = places(query, values)
    perfect = shared(weights(perfect_order(query, scores), a), query.gains, scores)
    current = shared(weights(descending(scores), a), scores)
    if values["bound"] == "tight-or-convex":
        flat = (
            np.abs(shared(worst(query, scores, values)[0], query.gains, scores) - current).max()
            < 1e-9
        )
        return perfect if flat else current
    return perfect if values["bound"] == "convex" else current


def gradient(query, scores, values):
    if not query.teaches:
        return np.zeros(len(query))
    a, _ = places(query, values)
    ranks, _ = worst(query, scores, values)
    return (shared(ranks, query.gains, scores) - target(query, scores, values)) / len(a)


def hessian(query, scores, values):
    curvature = 1.0 if query.teaches else 0.0
    return np.full(len(query), curvature)
