"""Squared error against a target, alone or mixed into a ranking objective."""

from __future__ import annotations

import numpy as np

from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.objective.contract import DOCUMENT_WEIGHTS
from boostrank.kernels.objective.kernel import Query
from boostrank.kernels.objective.shared_params import default_constants
from boostrank.kernels.primitives import bounded
from boostrank.kernels.runtime.jit import inline

TARGETS = ("labels", "gains")


def target_param(default: str) -> Param:
    """Return the parameter for the target of the squared error; the default depends on the objective's paper."""
    return Param("target", default, "what the regression part predicts: labels or gains", choices=TARGETS)


def mix_param(default: float, help: str) -> Param:
    """Return the parameter for the share of the squared error; each objective has its own schedule for it."""
    return Param("mix", default, f"share of the regression; {help} unless given", low=0.0, high=1.0, schedulable=True)


def target_constants(labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
    """Return the target of each document in column 0, and the query constants of `default_constants`."""
    target = labels if values["target"] == "labels" else gains
    return np.array(target, dtype=np.float64)[:, None], default_constants(labels, gains, ptr, values)[1]


def weighted_target_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return the target and the weight of each document, and the query constants of `default_constants`."""
    targets, queries = target_constants(labels, gains, ptr, values)
    weights = np.broadcast_to(np.asarray(values.get(DOCUMENT_WEIGHTS, 1.0), np.float64), labels.size)
    return np.column_stack([targets, weights]), queries


@inline
def mix_squared_error(query: Query, share: float, grad: Float64Array, hess: Float64Array) -> float:
    """Turn the gradient of a loss L into that of share * R + (1 - share) * L, R = (1/2n) sum_i (s_i - t_i)^2.

    Args:
        query: in row order, with the target t in column 0 of `doc_const`.
        share: 0 to 1.
        grad, hess: float64[n], of L; rewritten.

    Returns:
        R.
    """
    n = query.scores.size
    value = 0.0
    for i in range(n):
        residual = query.scores[i] - query.doc_const[i, 0]
        value += 0.5 * residual * residual / n
        grad[i] = share * residual / n + (1.0 - share) * grad[i]
        hess[i] = share / n + (1.0 - share) * hess[i]
    return bounded(value)
