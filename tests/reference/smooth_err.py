"""SmoothERR, one query in plain NumPy: SmoothMRR of each sampled set of documents."""

import numpy as np

from tests.reference._ranking import descending, sigmoid_ranks
from tests.reference._relevance import pair_curvatures, pair_forces
from tests.reference._swaps import grades_of
from tests.reference.noise import round_seed, uniforms


def freeze(query, scores, values):
    """For each user a flag per document: it satisfies."""
    grades, count = grades_of("err", query, values), values["draws"]
    if not query.teaches:
        return np.zeros((0, len(query)), bool)
    numbers = np.empty((count, len(query)))
    numbers[:, descending(scores)] = uniforms(
        round_seed(values["seed"], 0), 0, numbers.size
    ).reshape(numbers.shape)
    return numbers < grades


def _users(scores, values, frozen):
    """Of each user who is satisfied at all: w, and their J."""
    pi, alpha = sigmoid_ranks(scores, 1 / values["alpha"]), values["alpha"]
    for flags in frozen[frozen.any(axis=1)]:
        chance = flags * np.exp(alpha * (scores - scores[flags].max()).clip(max=0))
        chance /= chance.sum()
        yield chance / len(frozen), pi, np.sum(chance / pi)


def loss(query, scores, values, frozen):
    return -float(sum(np.sum(w / pi) for w, pi, _ in _users(scores, values, frozen)))


def gradient(query, scores, values):
    out = np.zeros(len(query))
    for w, pi, j in _users(scores, values, freeze(query, scores, values)):
        out -= pair_forces(scores, values["alpha"], -w / pi**2) + values["alpha"] * w * (1 / pi - j)
    return out


def hessian(query, scores, values):
    out = np.zeros(len(query))
    for w, pi, j in _users(scores, values, freeze(query, scores, values)):
        out += pair_curvatures(scores, values["alpha"], w / pi**2) + values[
            "alpha"
        ] ** 2 * w * np.abs(1 / pi - j)
    return out
