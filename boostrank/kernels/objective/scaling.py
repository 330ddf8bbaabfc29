"""Scaling of gradients and hessians, query by query and over all queries; `driver` says when.

One query: `control_scale` and `normalize_gradient` do what the options `scale_control` and `normalize_query` say
(equations and sources in `options`).

All queries: the scale of the hessian. Newton leaves are -sum g / sum h, so multiplying both by one constant changes no
leaf, but it decides what `min_sum_hessian_in_leaf`, `min_child_weight` and `lambda_l2` mean. Here both are divided by
the mean curvature of the documents that can learn something, so one unit of hessian is one average document, as in
squared error, for every objective and in every round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array, Float64Array
from boostrank.kernels.objective.options import LOG
from boostrank.kernels.runtime.jit import inline

# A document's hessian after scaling is at least this share of the average one: far below anything that matters to a
# leaf, and enough that no leaf divides a gradient by nothing.
HESSIAN_FLOOR = 1e-6
# Mean curvature below which float32 has lost its digits, and dividing by it could only overflow.
_NO_CURVATURE = 1e-30
# Below this total gradient, division would leave the range of float32.
_LEAST_GRADIENT = 1e-30


@inline
def control_scale(scores: Float64Array, control: float, nu: float, grad: Float64Array) -> None:
    """Take the component along the centred scores out of a query's gradient, in place."""
    n = scores.shape[0]
    mean = 0.0
    for i in range(n):
        mean += scores[i] / n
    along, square = 0.0, 0.0
    for i in range(n):
        z = scores[i] - mean
        along += grad[i] * z
        square += z * z
    if square == 0.0:
        return
    length = math.sqrt(square) + nu
    factor = control * along / (length * length)
    for i in range(n):
        grad[i] -= factor * (scores[i] - mean)


@inline
def normalize_gradient(kind: int, grad: Float64Array, hess: Float64Array) -> None:
    """Bring a query's gradients to one scale, in place."""
    size = 0.0
    for i in range(grad.shape[0]):
        size += abs(grad[i])
    if not size > _LEAST_GRADIENT:
        return
    factor = math.log1p(size) / (math.log(2.0) * size) if kind == LOG else 1.0 / size
    for i in range(grad.shape[0]):
        grad[i] *= factor
        hess[i] *= factor


def unit_hessian_scale(curvature: float, documents: int) -> tuple[float, float]:
    """What makes the mean hessian one, and the floor of a document's hessian after it.

    Args:
        curvature: sum of the hessian over the documents of live queries.
        documents: how many those are.
    """
    # Without any curvature to speak of: plain gradient steps.
    curved = curvature > documents * _NO_CURVATURE
    return (documents / curvature, HESSIAN_FLOOR) if curved else (1.0, 1.0)


@inline
def scale_and_floor(grad: Float32Array, hess: Float32Array, scale: Any, least: Any) -> tuple[int, int]:
    """Multiply a query's gradient and hessian, in place, and lift the hessian to its floor.

    Returns:
        How many documents are not finite then, and how many were lifted.
    """
    broken, lifted = 0, 0
    for i in range(grad.shape[0]):
        g, h = grad[i] * scale, hess[i] * scale
        broken += 0 if (abs(g) < np.inf) & (h < np.inf) else 1
        lifted += 1 if h < least else 0
        grad[i], hess[i] = g, max(h, least)
    return broken, lifted
