"""Lattice on which a Gaussian of a difference is a sum of products, one factor per document.

    exp(-(u - u')^2) (1 + r) = sum_m p_m(u) p_m(u'),   p_m(u) = sqrt(2 h / sqrt(pi)) exp(-2 (u - m h)^2)

with |r| < 2.01 exp(-(pi / 2h)^2) for all u and u': the trapezoidal rule, of step h, on the Gaussian exp(-4 (y - (u +
u') / 2)^2). All terms are positive and the error is relative for each pair, at any distance. A document uses only the
`TAPS` points around it; the truncated part is at most exp(-(TAPS h)^2 / 2), for a pair TAPS h / 2 apart.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.kernels.runtime.jit import inline, inline_sums

STEP = 0.3
"""h: r is below 3e-12."""
TAPS = 28
"""Points of a document; the middle two are the ends of its cell."""
HALF = TAPS // 2 - 1
"""Number of these points before the first of its cell."""

# Part of p_m that does not depend on u.
_SHAPE = np.array([math.sqrt(2.0 * STEP / math.sqrt(math.pi)) * math.exp(-2.0 * (STEP * m) ** 2) for m in range(TAPS)])


@inline
def lattice_factors(a: float) -> tuple[float, float]:
    """Return the two numbers that determine every p_m of a document, at distance a from its first point."""
    return math.exp(-2.0 * a * a), math.exp(4.0 * STEP * a)


@inline_sums
def lattice_weights(start: float, growth: float, p: Float64Array) -> None:
    """Write p_m of the points of a document.

    Args:
        start, growth: from `lattice_factors`.
        p: float64[TAPS], written.
    """
    # p_m = start growth^m SHAPE_m; four powers at a time.
    square = growth * growth
    fourth = square * square
    p[0], p[1], p[2], p[3] = start, start * growth, start * square, start * growth * square
    for m in range(4, TAPS):
        p[m] = p[m - 4] * fourth
    for m in range(TAPS):
        p[m] *= _SHAPE[m]
