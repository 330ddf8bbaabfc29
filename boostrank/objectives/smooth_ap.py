"""SmoothAP: average precision with a sigmoid of the score difference for "stands above".

    P_ij = 1 / (1 + exp((s_i - s_j) / sigma)),   rank_i = 1 + sum_{j != i} P_ij
    J    = (1/N) sum_i (l_i / rank_i) (1 + sum_{j != i} l_j P_ij),   l = 1 for a relevant document, N = sum l

The bracket is the smooth rank of i among the relevant documents, so J is a mean of quotients of two smooth ranks:
forces of the first among all documents, forces of the second among the relevant ones. ApproxAP differs in that
bracket alone: its sigmoid takes differences of ranks (`approx_ap`).

Source: Chapelle, Wu, "Gradient descent optimization of smoothed information retrieval metrics", Information Retrieval
13 (2010), eq (9), in two forms. The printed double sum includes i = j, so that a document counts P_ii = 1/2 in its own
precision (`form=printed`); then J falls short of average precision by sum_i l_i / (2 N rank_i), and lone relevant
documents weigh half. By default it counts 1, so that J tends to average precision as sigma falls (`form=corrected`).

Hessian: h_p = (1/sigma^2) (sum_j w_pj (|c_j| + |c_p|) + the same over relevant j with d for c), w = P (1 - P),
c = dJ / drank, d = dJ / dbracket; a proxy.
Cost: near-linear in n, see `kernels.sums.expsum`; n^2 / 2 pairs a query with sums="direct".
"""

from __future__ import annotations

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.objective.relevance import RELEVANT_FROM, relevance_constants, relevant_positions
from boostrank.kernels.objective.shared_params import SIGMA
from boostrank.kernels.primitives import gather, scatter
from boostrank.kernels.ranks.sigmoid import soft_forces, soft_ranks
from boostrank.kernels.sums.expsum import SUMS

PARAMS = (
    SIGMA,
    RELEVANT_FROM,
    Param(
        "form",
        "corrected",
        "what a relevant document counts in its own precision: corrected, 1, as in average precision; printed, 1/2",
        choices=("corrected", "printed"),
    ),
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
    alpha, sums = 1.0 / params[0], int(params[3])
    missing = 0.5 * params[2]
    if n < 2 or query_const[0] == 0.0:
        return 0.0
    s, ranks, slope = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n]
    gs, hs, work = scratch[3 * n : 4 * n], scratch[4 * n : 5 * n], scratch[5 * n : 9 * n]
    gather(scores, order, s)
    soft_ranks(sums, s, alpha, ranks, work)

    m = relevant_positions(doc_const, order, iscratch)
    place = iscratch[:m]
    mine, among, worth = scratch[9 * n : 9 * n + m], scratch[10 * n : 10 * n + m], scratch[11 * n : 11 * n + m]
    gm, hm, inner = scratch[12 * n : 12 * n + m], scratch[13 * n : 13 * n + m], scratch[14 * n : 14 * n + 4 * m]
    for a in range(m):
        mine[a] = s[place[a]]
        worth[a] = 1.0 / (m * ranks[place[a]])
    soft_ranks(sums, mine, alpha, among, inner)

    gs[:] = 0.0
    hs[:] = 0.0
    gm[:] = 0.0
    hm[:] = 0.0
    slope[:] = 0.0
    value = 0.0
    for a in range(m):
        precision = (among[a] - missing) / ranks[place[a]]
        value += precision / m
        slope[place[a]] = -worth[a] * precision
    soft_forces(sums, s, alpha, slope, gs, hs, work)
    soft_forces(sums, mine, alpha, worth, gm, hm, inner)
    for a in range(m):
        gs[place[a]] += gm[a]
        hs[place[a]] += hm[a]
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return -value


SPEC = ObjectiveSpec(
    name="smooth-ap",
    aliases=("smooth-map",),
    summary="average precision over smooth ranks; a relevant document above another through a sigmoid of their scores",
    equation="sum_i relevant_i / rank_i (1 + sum_j relevant_j P_ij) / N,  P_ij = sigmoid((s_j - s_i) / sigma)",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    reference="Chapelle, Wu 2010, eq (9)",
    deviation="a document counts fully in its own precision; half, as the printed sum has it, with form=printed",
    prepare=relevance_constants,
    quadratic=False,
    scratch_per_document=18,
)
