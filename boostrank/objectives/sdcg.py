"""SDCG: DCG with every rank replaced by a sum of sigmoids of score differences.

    rhat_i = 1 + sum_{j != i} G_sigma(s_i - s_j),     G_sigma(x) = 1 / (1 + exp(x / sigma))
    J      = (1/Z) sum_i g_i D(rhat_i) W_k(rhat_i),   W_k(r) = G_tau(r - k)

Source: Wu, Chang, Zheng, Zha, "Smoothing DCG for learning to rank", CIKM 2009, eqs (5)-(9). Deviations: DCG is divided
by its ideal value Z, so that every query counts the same; the truncation weight has a width tau of its own (in ranks;
sigma is in score units); no truncation by default. On graded data plain SDCG pushes a wrongly ordered adjacent pair
the wrong way once it is wrong by more than 2.43 sigma (labels 2 and 1; 1.57 for 3 and 2; 1.36 for 4 and 3): this is
what the smoothed hinges of SHF-SDCG repair.

Hessian: h_p = sum_j w_pj (|c_p| + |c_j|) / sigma^2 with w = G(1 - G), a bound on the curvature through the ranks.
Cost: near-linear in n, see `kernels.sums.expsum`; n^2 / 2 pairs a query with sums="direct".
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.objective.shared_params import SIGMA, TAU, TRAIN_DISCOUNT, K
from boostrank.kernels.primitives import gather, ideal_dcg, scatter
from boostrank.kernels.ranks.sigmoid import soft_forces, soft_ranks
from boostrank.kernels.ranks.smooth_dcg import smooth_dcg
from boostrank.kernels.sums.expsum import SUMS

PARAMS = (SIGMA, K, TAU, TRAIN_DISCOUNT, SUMS)


@objective_kernel
def kernel(
    scores: Float64Array,
    gains: Float64Array,
    order: Int64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Float64Array,
    iscratch: Int64Array,
) -> float:
    """One query; see `kernels.objective.contract`."""
    n = scores.shape[0]
    grad[:] = 0.0
    hess[:] = 0.0
    sigma, k, tau, blend, sums = params[0], params[1], params[2], params[3], int(params[4])
    ideal = ideal_dcg(query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, ranks, slope = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n : 4 * n]
    gs, hs, work = scratch[4 * n : 5 * n], scratch[5 * n : 6 * n], scratch[6 * n : 10 * n]
    gather(scores, order, s)
    gather(gains, order, g)
    gs[:] = 0.0
    hs[:] = 0.0
    soft_ranks(sums, s, 1.0 / sigma, ranks, work)
    value = smooth_dcg(ranks, g, ideal, blend, min(k, n) if k > 0.0 else math.inf, tau, slope)
    soft_forces(sums, s, 1.0 / sigma, slope, gs, hs, work)
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return -value


SPEC = ObjectiveSpec(
    name="sdcg",
    aliases=("smooth-dcg",),
    summary="NDCG over smooth ranks: a sum of sigmoids of score differences",
    equation="sum_i g_i D(rank_i) / Z,  rank_i = 1 + sum_j sigmoid((s_j - s_i) / sigma)",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    quadratic=False,
    scratch_per_document=10,
    reference="Wu, Chang, Zheng, Zha 2009, eqs (5)-(9)",
    deviation="divided by the ideal DCG; truncation weight of its own width, off by default",
    default_options={"gain_base": "least"},
)
