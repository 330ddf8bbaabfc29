"""Average precision of smooth ranks, for ApproxAP and SmoothAP."""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.runtime.jit import inline

AP_SCRATCH = "ranks slope work:4 among worth inner:4"


@inline
def smooth_precisions(
    place: Int64Array,
    ranks: Float64Array,
    among: Float64Array,
    missing: float,
    worth: Float64Array,
    slope: Float64Array,
) -> float:
    """Return J, the mean over relevant documents of the quotient of two ranks, and write its derivatives.

    Args:
        place: int64[m], positions of the relevant documents.
        ranks: float64[n], smooth ranks among all documents.
        among: float64[m], smooth ranks of the relevant documents among themselves.
        missing: number subtracted from the latter.
        worth: float64[m], written: dJ / damong.
        slope: float64[n], written: dJ / dranks.
    """
    m = place.size
    slope[:] = 0.0
    value = 0.0
    for a in range(m):
        worth[a] = 1.0 / (m * ranks[place[a]])
        precision = (among[a] - missing) / ranks[place[a]]
        value += precision / m
        slope[place[a]] = -worth[a] * precision
    return value
