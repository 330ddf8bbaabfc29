"""The lattice on which a Gaussian of a difference is a sum of products, one factor a document.

    exp(-(u - u')^2) (1 + r) = sum_m p_m(u) p_m(u'),   p_m(u) = sqrt(2 h / sqrt(pi)) exp(-2 (u - m h)^2)

with |r| < 2.01 exp(-(pi / 2h)^2) wherever the two lie: it is the trapezoidal rule, of step h, on the Gaussian
exp(-4 (y - (u + u') / 2)^2). All terms are positive and the error is relative, pair by pair, however far the two are
apart. A document knows the `TAPS` points around it alone; what is cut off so is exp(-(TAPS h)^2 / 2) at most, of a pair
TAPS h / 2 apart.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.kernels.runtime.jit import inline, inline_sums

STEP = 0.3
"""h: r is below 3e-12."""
TAPS = 28
"""Points that a document knows, of which the middle two are its cell's ends."""
HALF = TAPS // 2 - 1
"""How many of them come before its cell's first."""

# What of p_m is the same for every u.
_SHAPE = np.array([math.sqrt(2.0 * STEP / math.sqrt(math.pi)) * math.exp(-2.0 * (STEP * m) ** 2) for m in range(TAPS)])


@inline
def lattice_factors(a: float) -> tuple[float, float]:
    """The two numbers that make every p_m of a document, a beyond the first point that it knows."""
    return math.exp(-2.0 * a * a), math.exp(4.0 * STEP * a)


@inline_sums
def lattice_weights(start: float, growth: float, p: Float64Array) -> None:
    """Write p_m of the points that a document knows.

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
