"""Softmax with full precision near 0 and 1."""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array
from boostrank.kernels.runtime.jit import inline

_BLOCK = 512


@inline
def softmax(scores: Float64Array, shares: Float64Array, rest: Float64Array) -> tuple[float, float]:
    """Write softmax(s)_i, and 1 - softmax(s)_i as the sum of the other shares, exact even near 0.

    Args:
        scores: float64[n], n >= 1, finite.
        shares, rest: float64[n], written.

    Returns:
        ln sum_i e^(s_i - t) for the largest score t, and t: differences to a score keep their digits.
    """
    n = scores.shape[0]
    top = 0
    for i in range(n):
        if scores[i] > scores[top]:
            top = i
    # Sum in blocks: adding a million equal numbers one by one would cost five digits.
    others, part = 0.0, 0.0
    for i in range(n):
        shares[i] = math.exp(scores[i] - scores[top])
        if i != top:
            part += shares[i]
        if i % _BLOCK == _BLOCK - 1:
            others += part
            part = 0.0
    others += part
    total = 1.0 + others
    for i in range(n):
        rest[i] = (others if i == top else total - shares[i]) / total
        shares[i] /= total
    return math.log(total), scores[top]
