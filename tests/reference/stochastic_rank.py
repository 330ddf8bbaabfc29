"""StochasticRank: the metric is recomputed for every place that a document could take."""

import numpy as np
from scipy.stats import norm

from tests.reference._ranking import descending, discount, ideal_dcg
from tests.reference.noise import normals, round_seed


def _ndcg(ranked_gains, query, values):
    n, blend = len(query), values["train_discount"]
    depth = values["k"] or n
    top = ranked_gains[:depth]
    return float(
        np.sum(top * discount(np.arange(1, len(top) + 1), blend, n))
        / ideal_dcg(query, values["k"], blend)
    )


def estimate(query, z, noise, values):
    """dJ/dz from one draw of the noise, by moving each document through every place."""
    n, sigma = len(query), values["sigma"]
    noisy = z + sigma * noise
    out = np.zeros(n)
    for j in range(n):
        others = np.delete(np.arange(n), j)
        others = others[np.argsort(-noisy[others])]
        metric = [
            _ndcg(np.insert(query.gains[others], q, query.gains[j]), query, values)
            for q in range(n)
        ]
        mean = z[j] + sigma * noise[others].sum() / (n - 1)
        density = norm.pdf(noisy[others], mean, sigma * np.sqrt(n / (n - 1)))
        out[j] = -np.diff(metric) @ density
    return out


def gradient(query, scores, values):
    n = len(query)
    if not query.teaches:
        return np.zeros(n)
    z = scores - values["sigma"] * values["mu"] * query.labels
    z = z - z.mean()
    draws = values["draws"]
    drawn = normals(round_seed(values["seed"], 0), 0, draws * n).reshape(draws, n)
    noise = np.empty((draws, n))
    noise[:, descending(scores)] = drawn
    out = np.mean([estimate(query, z, row, values) for row in noise], axis=0)
    out = out - out.mean()
    if n > 2:
        y = scores - scores.mean()
        out = out - values["scale_free"] * (out @ y) * y / (np.linalg.norm(y) + values["nu"]) ** 2
    return -out


def freeze(query, scores, values):
    """The gradients: an estimate, projected, and no function's gradient."""
    return gradient(query, scores, values)


def holds(values):
    """An estimate, projected; what is reported is the metric."""
    return True


def loss(query, scores, values, frozen):
    return float(frozen @ scores)


def hessian(query, scores, values):
    return np.ones(len(query)) if query.teaches else np.zeros(len(query))


def report(query, scores, values):
    """-NDCG@k."""
    return -_ndcg(query.gains[descending(scores)], query, values) if query.teaches else 0.0
