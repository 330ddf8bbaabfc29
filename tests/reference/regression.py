"""Squared error, one query."""

import numpy as np

from tests.reference._ranking import squared_error


def freeze(query, scores, values):
    return None


def weight(query, values):
    return 1 if values["per_query"] else len(query)


def loss(query, scores, values, frozen):
    return weight(query, values) * squared_error(query, scores, values)[0]


def gradient(query, scores, values):
    return weight(query, values) * squared_error(query, scores, values)[1]


def hessian(query, scores, values):
    return np.full(len(query), weight(query, values) / max(len(query), 1))
