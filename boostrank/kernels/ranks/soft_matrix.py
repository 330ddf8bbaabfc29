"""SoftRank's full rank distribution and its rescaling to doubly stochastic, for inspection, not training.

Every document's rank has a proper distribution (rows sum to 1), but contests are treated as independent, so two
documents may both expect rank 0: columns need not sum to 1. Sinkhorn's rescaling makes both sum to 1. The objective
trains on the unscaled matrix; the paper gives no gradient through the rescaling.

Source: Taylor, Guiver, Robertson, Minka, "SoftRank: optimizing non-smooth rank metrics", WSDM 2008, the recursion for
the rank-binomial and the remark on doubly stochastic matrices; Sinkhorn, Ann. Math. Statist. 35 (1964).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Float64Array
from boostrank.kernels.runtime.jit import F1, F2, entry_point


def rank_matrix(scores: npt.ArrayLike, *, sigma: float = 1.0) -> Float64Array:
    """Return P(document j has rank r), by the paper's recursion over contests: n^3 operations.

    Args:
        scores: float[n], finite.
        sigma: standard deviation of every score, > 0.

    Returns:
        float64[n, n], documents by ranks from 0; rows sum to 1.

    Raises:
        DataError: scores are not finite numbers in one dimension.
        ParameterError: sigma is not a positive finite number.
    """
    s = np.array(scores, dtype=np.float64)
    if s.ndim != 1 or not np.isfinite(s).all():
        raise DataError("scores must be finite numbers in one dimension")
    if not 0.0 < sigma < math.inf:
        raise ParameterError(f"sigma={sigma!r} is out of range; allowed: > 0")
    matrix = np.zeros((s.size, s.size))
    _recursion(s / (2.0 * sigma), matrix)
    return matrix


def balanced(matrix: Float64Array, *, sweeps: int = 1000, tolerance: float = 1e-10) -> Float64Array:
    """Rescale rows and columns to a doubly stochastic matrix (Sinkhorn).

    Args:
        matrix: float64[n, n], >= 0, not changed.
        sweeps: maximum number of rescalings of all columns and rows.
        tolerance: largest distance of a column sum from 1 at which to stop; rows then sum to 1 up to rounding.
    """
    out = np.array(matrix, dtype=np.float64)
    for _ in range(sweeps):
        columns = out.sum(axis=0)
        if np.all(np.abs(columns - 1.0) <= tolerance):
            break
        out /= np.where(columns > 0.0, columns, 1.0)
        out /= out.sum(axis=1, keepdims=True)
    return out


@entry_point(types.void(F1, F2))
def _recursion(u: Float64Array, matrix: Float64Array) -> None:
    """Fill `matrix` from scores over 2 sigma: each contest moves every rank down by one, or not."""
    n = u.shape[0]
    for j in range(n):
        p = matrix[j]
        p[0] = 1.0
        contests = 0
        for i in range(n):
            if i == j:
                continue
            lost = 0.5 * math.erfc(u[j] - u[i])
            contests += 1
            for r in range(contests, 0, -1):
                p[r] = p[r - 1] * lost + p[r] * (1.0 - lost)
            p[0] *= 1.0 - lost
