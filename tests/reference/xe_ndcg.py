"""XE-NDCG as in LightGBM's rank_objective.hpp (RankXENDCG), one query, given its uniform numbers."""

import numpy as np
from scipy.special import logsumexp

from tests.reference._ranking import descending
from tests.reference.noise import round_seed, uniforms


def shares(scores):
    """softmax(s) and, summed over the others, 1 - softmax(s)."""
    e = np.exp(scores - scores.max())
    others = np.array([np.delete(e, i).sum() for i in range(len(e))])
    return e / e.sum(), np.maximum(others / e.sum(), 1e-200)


def gradients(gains, scores, uniform):
    """Target distribution, lambdas and hessians."""
    p = gains + 1 - uniform
    p = p / p.sum()
    q, complement = shares(scores)
    without = np.ones((len(q), len(q))) - np.eye(len(q))
    first = q - p
    second = q * (without @ (first / complement))
    third = q * (without @ (second / complement))
    return p, first + second + third, q * complement


def _uniform(query, scores, values):
    """This round's draws: numbered by descending score."""
    out = np.empty(len(query))
    out[descending(scores)] = uniforms(round_seed(values["seed"], 0), 0, len(query))
    return out


def freeze(query, scores, values):
    """The gradients: a Newton step's numerator, no function's gradient."""
    return gradient(query, scores, values)


def holds(values):
    """A Newton step's numerator."""
    return True


def loss(query, scores, values, frozen):
    return float(frozen @ scores)


def gradient(query, scores, values):
    return (
        gradients(query.gains, scores, _uniform(query, scores, values))[1]
        if query.teaches
        else np.zeros(len(query))
    )


def hessian(query, scores, values):
    return (
        gradients(query.gains, scores, _uniform(query, scores, values))[2]
        if query.teaches
        else np.zeros(len(query))
    )


def report(query, scores, values):
    """The cross entropy."""
    if not query.teaches:
        return 0.0
    p = gradients(query.gains, scores, _uniform(query, scores, values))[0]
    return float(p @ (logsumexp(scores) - scores))
