"""ApproxNDCG: NDCG over smooth ranks, cut off at k by a sigmoid half a rank below k.

    pi_x = 1 + sum_{y != x} 1 / (1 + exp(alpha (s_x - s_y)))
    J    = (1/Z_k) sum_x g_x D(pi_x) T_x,   T_x = 1 / (1 + exp(-beta (k + 1/2 - pi_x))), 1 without a cut-off

Source: Qin, Liu, Li, "A general approximation framework for direct optimization of information retrieval measures",
Information Retrieval 13 (2010), eqs (35) and (38) for the gradient. Deviation: the paper tunes alpha in 50..300 for
linear models on normalised features; the default here suits scores on the scale of labels. Without a cut-off this is
SDCG with alpha = 1 / sigma, wrong-way forces on graded data included (see `sdcg`).

Hessian: h_p = alpha^2 sum_x w_xp (|c_x| + |c_p|), w = P (1 - P), which bounds |P''|.
Cost: near-linear in n, see `kernels.sums.expsum`; n^2 / 2 pairs a query with sums="direct".
"""

from __future__ import annotations

import math

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.objective.shared_params import ALPHA, TRAIN_DISCOUNT, K
from boostrank.kernels.primitives import gather, ideal_dcg, scatter
from boostrank.kernels.ranks.sigmoid import soft_forces, soft_ranks
from boostrank.kernels.ranks.smooth_dcg import smooth_dcg
from boostrank.kernels.sums.expsum import SUMS

PARAMS = (
    ALPHA,
    K,
    Param(
        "beta",
        1.0,
        "sharpness of the cut-off at k",
        low=0.0,
        open_low=True,
        log=True,
        schedulable=True,
        unit="1/rank",
    ),
    TRAIN_DISCOUNT,
    SUMS,
)


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
    alpha, k, beta, blend, sums = params[0], params[1], params[2], params[3], int(params[4])
    ideal = ideal_dcg(query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, ranks, slope = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n : 4 * n]
    gs, hs, work = scratch[4 * n : 5 * n], scratch[5 * n : 6 * n], scratch[6 * n : 10 * n]
    gather(scores, order, s)
    gather(gains, order, g)
    gs[:] = 0.0
    hs[:] = 0.0
    soft_ranks(sums, s, alpha, ranks, work)
    value = smooth_dcg(ranks, g, ideal, blend, k + 0.5 if k > 0.0 else math.inf, 1.0 / beta, slope)
    soft_forces(sums, s, alpha, slope, gs, hs, work)
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return -value


SPEC = ObjectiveSpec(
    name="approx-ndcg",
    summary="NDCG over smooth ranks with a sharpness alpha; at k through a sigmoid of sharpness beta",
    equation="sum_i g_i D(rank_i) T(rank_i) / Z,  T(r) = sigmoid(beta (k + 1/2 - r))",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    quadratic=False,
    scratch_per_document=10,
    reference="Qin, Liu, Li 2010, eqs (35), (38)",
    deviation="alpha defaults to the scale of labels",
    default_options={"gain_base": "least"},
)
