"""DCG of smooth ranks with a smooth cut-off, and its derivative by each rank.

    J = sum_i (g_i / Z) D(rank_i) W(rank_i),   W(r) = 1 / (1 + exp((r - cut) / width)),   c_i = dJ / drank_i <= 0

Where ranks exceed n + 1 (smoothed hinges inflate the rank of misplaced documents) the linear discount is negative, and
the product rule's D W' would push a relevant document down. There W multiplies only the slope: the linear part
continues as -(1/n) times the integral of W, which is smooth, never rises, and equals the plain discount where W is 1.
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array
from boostrank.kernels.primitives import LN2, bounded, fast_exp, fast_log, softplus
from boostrank.kernels.runtime.jit import inline_sums

_FAR = 600.0  # distance from the cut, in widths, beyond which a weight is 0 or 1


@inline_sums
def smooth_dcg(
    ranks: Float64Array, gains: Float64Array, ideal: float, blend: float, cut: float, width: float, slope: Float64Array
) -> float:
    """Return J, and write c_i to `slope`.

    Args:
        ranks: float64[n], 1-based, >= 1.
        gains: float64[n].
        ideal: Z > 0.
        blend: blend of the training discount, see `primitives.discount`.
        cut: rank at which the weight is 1/2; infinity: no cut-off.
        width: width of the weight's transition, in ranks.
        slope: float64[n], written.
    """
    n = ranks.shape[0]
    value = 0.0
    if math.isinf(cut):
        for i in range(n):
            r, g = ranks[i], gains[i] / ideal
            log = fast_log(1.0 + r)
            slope[i] = -g * ((1.0 - blend) * LN2 / ((1.0 + r) * log * log) + blend / n)
            value += g * ((1.0 - blend) * LN2 / log + blend * (1.0 - (r - 1.0) / n))
        return bounded(value)
    for i in range(n):
        r, g = ranks[i], gains[i] / ideal
        x = (cut - r) / width
        e = fast_exp(max(-abs(x), -_FAR))
        e = 0.0 if abs(x) > _FAR else e
        weight, weight_slope = (1.0 if x >= 0.0 else e) / (1.0 + e), -e / ((1.0 + e) * (1.0 + e)) / width
        log = fast_log(1.0 + r)
        # Two parts: the discount up to rank n + 1, and the linear part below zero beyond it.
        d = (1.0 - blend) * LN2 / log + blend * max(1.0 - (r - 1.0) / n, 0.0)
        d_slope = -(1.0 - blend) * LN2 / ((1.0 + r) * log * log) - blend / n
        slope[i] = g * (d_slope * weight + d * weight_slope)
        value += g * d * weight
    if blend > 0.0:
        for i in range(n):
            if ranks[i] > n + 1.0:
                sunk = softplus(bounded((cut - (n + 1.0)) / width)) - softplus(bounded((cut - ranks[i]) / width))
                value -= gains[i] / ideal * blend / n * width * sunk
    return bounded(value)
