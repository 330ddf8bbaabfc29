"""Scaling of gradients and Hessians, within a query and over all queries, for `driver`.

One query: `control_scale` and `normalize_gradient` implement the options `scale_control` and `normalize_query`
(equations and sources in `options`).

All queries: the scale of the Hessian. Newton leaves are -sum g / sum h, so a common factor changes no leaf, but it sets
the meaning of `min_sum_hessian_in_leaf`, `min_child_weight` and `lambda_l2`. Here both are divided by the mean
curvature of the documents of live queries. One unit of Hessian is then one average document, as in squared error, for
every objective and in every round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array, Float64Array
from boostrank.kernels.objective.options import LOG
from boostrank.kernels.runtime.jit import inline

# Minimum Hessian of a document after scaling, as a share of the average: irrelevant to a leaf, but no leaf divides by
# zero.
HESSIAN_FLOOR = 1e-6
# Smaller mean curvatures have lost their digits in float32, and dividing by them could overflow.
_NO_CURVATURE = 1e-30
# Dividing by a smaller total gradient would leave the range of float32.
_LEAST_GRADIENT = 1e-30


@inline
def control_scale(scores: Float64Array, control: float, nu: float, grad: Float64Array) -> None:
    """Remove the component along the centred scores from a query's gradient, in place."""
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
    """Normalise a query's gradients in place."""
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
    """Return the factor that makes the mean Hessian one, and the floor of a document's scaled Hessian.

    Args:
        curvature: sum of the Hessian over the documents of live queries.
        documents: number of these documents.
    """
    # Without noticeable curvature: plain gradient steps.
    curved = curvature > documents * _NO_CURVATURE
    return (documents / curvature, HESSIAN_FLOOR) if curved else (1.0, 1.0)


@inline
def scale_and_floor(grad: Float32Array, hess: Float32Array, scale: Any, least: Any) -> tuple[int, int]:
    """Scale a query's gradient and Hessian in place, and raise the Hessian to its floor.

    Returns:
        Number of documents that are not finite afterwards, and number of raised ones.
    """
    broken, lifted = 0, 0
    for i in range(grad.shape[0]):
        g, h = grad[i] * scale, hess[i] * scale
        broken += 0 if (abs(g) < np.inf) & (h < np.inf) else 1
        lifted += 1 if h < least else 0
        grad[i], hess[i] = g, max(h, least)
    return broken, lifted
