"""DCG of smooth ranks, cut off smoothly, and what a change of each rank is worth.

    J = sum_i (g_i / Z) D(rank_i) W(rank_i),   W(r) = 1 / (1 + exp((r - cut) / width)),   c_i = dJ / drank_i <= 0

Where ranks exceed n + 1 (smoothed hinges inflate the rank of badly placed documents) the linear discount is negative,
and the product rule's D W' would push a relevant document down. There W weighs the slope alone: the linear part goes
on as -(1/n) times the integral of W, which is smooth, never rises, and is the plain discount where W is 1.
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array
from boostrank.kernels.jit import inline
from boostrank.kernels.primitives import discount, discount_slope, expit, softplus


@inline
def smooth_dcg(
    ranks: Float64Array,
    gains: Float64Array,
    ideal: float,
    blend: float,
    cut: float,
    width: float,
    slope: Float64Array,
) -> float:
    """J, and c_i into `slope`.

    Args:
        ranks: float64[n], 1-based, >= 1.
        gains: float64[n].
        ideal: Z > 0.
        blend: of the training discount, see `primitives.discount`.
        cut: rank at which the weight is 1/2; infinity for no cut-off.
        width: of the weight, in ranks.
        slope: float64[n], written.
    """
    n = ranks.shape[0]
    value = 0.0
    for i in range(n):
        r, g = ranks[i], gains[i] / ideal
        weight = expit((cut - r) / width)
        weight_slope = -weight * (1.0 - weight) / width
        # Two pieces: the discount up to n + 1, and how far the linear part has sunk below zero beyond it.
        beyond = blend * max(r - (n + 1.0), 0.0) / n
        d = discount(r, blend, n) + beyond
        slope[i] = g * (discount_slope(r, blend, n) * weight + d * weight_slope)
        value += g * d * weight
        if beyond > 0.0:
            if math.isinf(cut):
                value -= g * beyond
            else:
                sunk = softplus((cut - (n + 1.0)) / width) - softplus((cut - r) / width)
                value -= g * blend / n * width * sunk
    return value
