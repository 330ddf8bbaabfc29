"""DCG of sigmoid ranks, for SDCG and ApproxNDCG."""

from __future__ import annotations

from typing import Any

from boostrank.core.types import Float64Array
from boostrank.kernels.objective.kernel import Query
from boostrank.kernels.primitives import ideal_dcg
from boostrank.kernels.ranks.sigmoid import soft_gradient, soft_ranks
from boostrank.kernels.ranks.smooth_dcg import smooth_dcg
from boostrank.kernels.runtime.jit import inline

SIGMOID_DCG_SCRATCH = "ranks slope work:4"


@inline
def sigmoid_dcg(
    query: Query,
    sums: int,
    alpha: float,
    cut: float,
    width: float,
    blend: float,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Any,
) -> float:
    """Return -J of one query, and compute its gradient and curvature; documents by descending score.

    Args:
        query, grad, hess: as in `kernels.objective.kernel`.
        sums: index in `expsum.SUMS`.
        alpha: sharpness of the ranks, 1 / score.
        cut, width, blend: as for `smooth_dcg`.
        scratch: rows as in `SIGMOID_DCG_SCRATCH`.
    """
    ideal = ideal_dcg(query.query_const, blend)
    if query.scores.size < 2 or ideal <= 0.0:
        return 0.0
    soft_ranks(sums, query.scores, alpha, scratch.ranks, scratch.work)
    value = smooth_dcg(scratch.ranks, query.gains, ideal, blend, cut, width, scratch.slope)
    soft_gradient(sums, query.scores, alpha, scratch.slope, grad, hess, scratch.work)
    return -value
