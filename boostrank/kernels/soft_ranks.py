"""Smooth ranks by a sigmoid, and the pair forces that any function of them exerts on the scores.

rank_i = 1 + sum_{j != i} P_ij with P_ij = 1 / (1 + exp(alpha (s_i - s_j))), alpha = 1 / sigma. For any objective J of
these ranks with c_i = dJ / drank_i the gradient collapses to (Qin, Liu, Li 2010, eqs (35) and (38))

    dJ/ds_p = alpha sum_j w_pj (c_j - c_p),     w = P (1 - P)
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array
from boostrank.kernels.jit import inline
from boostrank.kernels.primitives import expit


@inline
def sigmoid_ranks(scores: Float64Array, alpha: float, ranks: Float64Array) -> None:
    """Write the smooth 1-based rank of every document; they sum to n (n + 1) / 2."""
    n = scores.shape[0]
    for i in range(n):
        ranks[i] = 1.0
    for i in range(n):
        for j in range(i):
            p = expit(alpha * (scores[j] - scores[i]))
            ranks[i] += p
            ranks[j] += 1.0 - p


@inline
def rank_forces(
    scores: Float64Array, alpha: float, slope: Float64Array, grad: Float64Array, hess: Float64Array
) -> None:
    """Add the gradient of -J, and a curvature bound, to `grad` and `hess`.

    Args:
        scores: float64[n].
        alpha: sharpness of the ranks, 1 / score.
        slope: float64[n], c_i = dJ / drank_i.
        grad, hess: float64[n]; hess gets alpha^2 sum_j w_pj (|c_p| + |c_j|).
    """
    n = scores.shape[0]
    for i in range(n):
        for j in range(i):
            z = math.exp(-abs(alpha * (scores[i] - scores[j])))
            w = z / ((1.0 + z) * (1.0 + z))
            force = alpha * w * (slope[j] - slope[i])
            grad[i] -= force
            grad[j] += force
            curvature = alpha * alpha * w * (abs(slope[i]) + abs(slope[j]))
            hess[i] += curvature
            hess[j] += curvature
