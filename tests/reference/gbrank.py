"""GBRank as a regression: targets of the wrongly ordered pairs, and how far the scores are from
them.
"""

import numpy as np


def freeze(query, scores, values):
    """The wrong pairs."""
    n = len(query)
    return [
        (i, j)
        for i in range(n)
        for j in range(n)
        if query.gains[i] > query.gains[j] and scores[i] - scores[j] < values["tau"]
    ]


def loss(query, scores, values, frozen):
    return float(sum((scores[j] - scores[i] + values["tau"]) ** 2 / 2 for i, j in frozen))


def _rows(query, scores, values):
    """The data set that the paper fits a tree to: (document, target)."""
    rows = []
    for i, j in freeze(query, scores, values):
        rows += [(i, scores[j] + values["tau"]), (j, scores[i] - values["tau"])]
    return rows


def gradient(query, scores, values):
    out = np.zeros(len(query))
    for document, target in _rows(query, scores, values):
        out[document] += scores[document] - target
    return out


def hessian(query, scores, values):
    return np.bincount([d for d, _ in _rows(query, scores, values)], minlength=len(query)).astype(
        float
    )
