"""SmoothMRR: the reciprocal smooth rank of the first relevant document, averaged over which one may be first.

    rank_i = 1 + sum_{j != i} 1 / (1 + exp(alpha (s_i - s_j)))
    w_i    = exp(alpha s_i) / sum_{j relevant} exp(alpha s_j)
    J      = sum_{i relevant} w_i / rank_i

In Luce's choice model of sharpness alpha (scores with Gumbel noise of scale 1 / alpha) rank_i is the expected rank of
i, and w_i the chance that no relevant document stands above i. As alpha grows J tends to the reciprocal rank of the
first relevant document; at tied scores it is 2 / (n + 1), whatever the number of relevant documents.

Source: the reciprocal rank as a sum over relevant documents of 1 / rank times "no relevant document above" is Shi et
al., "CLiMF: learning to maximize reciprocal rank with collaborative less-is-more filtering", RecSys 2012; smooth ranks
and the forces through c_i = -w_i / rank_i^2 are Qin, Liu, Li 2010. Deviation: CLiMF takes the product of the pairwise
chances for "no relevant document above", which is 2^-(N - 1) at tied scores, so that a query with many relevant
documents would teach nothing at the start.

Hessian: alpha^2 sum_j P_pj (1 - P_pj) (|c_j| + |c_p|) + alpha^2 w_p |1 / rank_p - J|, a proxy.
Cost: near-linear in n, see `kernels.sums.expsum`; n^2 / 2 pairs a query with sums="direct".
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.objective.relevance import RELEVANT_FROM, relevance_constants, relevant_positions
from boostrank.kernels.objective.shared_params import ALPHA
from boostrank.kernels.primitives import gather, scatter
from boostrank.kernels.ranks.sigmoid import soft_forces, soft_ranks
from boostrank.kernels.sums.expsum import SUMS

PARAMS = (ALPHA, RELEVANT_FROM, SUMS)


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
    alpha, sums = params[0], int(params[2])
    if n < 2 or query_const[0] == 0.0:
        return 0.0
    s, ranks, slope, first = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n : 4 * n]
    gs, hs, work = scratch[4 * n : 5 * n], scratch[5 * n : 6 * n], scratch[6 * n : 10 * n]
    gather(scores, order, s)
    soft_ranks(sums, s, alpha, ranks, work)

    m = relevant_positions(doc_const, order, iscratch)
    place = iscratch[:m]
    total, value = 0.0, 0.0
    for a in range(m):
        first[a] = math.exp(alpha * (s[place[a]] - s[place[0]]))
        total += first[a]
    for a in range(m):
        first[a] /= total
        value += first[a] / ranks[place[a]]

    gs[:] = 0.0
    hs[:] = 0.0
    slope[:] = 0.0
    for a in range(m):
        p = place[a]
        slope[p] = -first[a] / (ranks[p] * ranks[p])
        better = alpha * first[a] * (1.0 / ranks[p] - value)
        gs[p] -= better
        hs[p] += alpha * abs(better)
    soft_forces(sums, s, alpha, slope, gs, hs, work)
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return -value


SPEC = ObjectiveSpec(
    name="smooth-mrr",
    aliases=("approx-mrr",),
    summary="reciprocal smooth rank of the first relevant document, averaged over the relevant ones by their chance",
    equation="sum_i w_i / rank_i over relevant i,  w = softmax of alpha s over the relevant documents",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    reference="Shi et al. 2012 (CLiMF); Qin, Liu, Li 2010",
    deviation="the chance of being first is Luce's, not CLiMF's product of pairs",
    prepare=relevance_constants,
    quadratic=False,
    scratch_per_document=10,
)
