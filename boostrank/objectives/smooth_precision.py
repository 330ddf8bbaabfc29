"""SmoothPrecision: precision at k over smooth ranks; documents far below k keep a gradient.

    rank_i = 1 + sum_{j != i} 1 / (1 + exp(alpha (s_i - s_j)))
    J      = (1/k) sum_{i relevant} T(rank_i),   T(r) = 1 / (1 + (r / (k + 1/2))^beta)

As alpha and then beta grow J tends to precision at k. Lists of at most k documents have the same
precision in every order and are skipped.

Source: Qin, Liu, Li, "A general approximation framework for direct optimization of information
retrieval measures", Information Retrieval 13 (2010), a metric over smooth ranks with a smooth
truncation; gradients through c_i = dJ / drank_i as in eqs (35) and (38). Deviation: the paper's
truncation is a sigmoid of the rank, and T is a sigmoid of its logarithm. With the paper's, a
relevant document at rank 60 has e^-50 times the weight of one at rank 10, and the gradient of a
hundred tied documents would vanish.

Hessian: h_p = alpha^2 sum_j w_pj (|c_j| + |c_p|), w = P (1 - P), a proxy that bounds |P''|.
Cost: near-linear in n, see `kernels.expsum`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("smooth-precision(k=2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.51], [-0.046, 0.05, -0.053, 0.049])
"""

import math

from boostrank.core.params import Param
from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import expit
from boostrank.kernels.shared import (
    ALPHA,
    RELEVANT,
    RELEVANT_COUNT,
    RELEVANT_FROM,
    positive,
    relevance_constants,
)
from boostrank.kernels.sigmoid_ranks import soft_gradient, soft_ranks

PARAMS = (
    ALPHA,
    Param(
        "k",
        3,
        "rank at which precision is measured",
        low=1,
        unit="rank",
        aliases=("at", "truncation"),
    ),
    positive("beta", 2.0, "sharpness of the cut-off at k, on the logarithm of the rank"),
    RELEVANT_FROM,
    SUMS,
)


@objective_kernel(params=PARAMS, scratch="ranks slope work:4", by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, a smooth precision at k, with its gradient and curvature proxy."""
    n, k, beta = query.scores.size, params.k, params.beta
    if n <= k or query.query_const[RELEVANT_COUNT] == 0.0:
        return 0.0
    ranks, slope = scratch.ranks, scratch.slope
    soft_ranks(params.sums, query.scores, params.alpha, ranks, scratch.work)
    precision = 0.0
    for pos in range(n):
        relevance = query.doc_const[query.order[pos], RELEVANT]
        inside = expit(beta * math.log((k + 0.5) / ranks[pos])) * relevance
        precision += inside / k
        slope[pos] = -beta / ranks[pos] * inside * (1.0 - inside) / k
    soft_gradient(params.sums, query.scores, params.alpha, slope, grad, hess, scratch.work)
    return -precision


SPEC = ObjectiveSpec(
    name="smooth-precision",
    kernel=kernel,
    reference="Qin, Liu, Li 2010",
    prepare=relevance_constants,
)
