"""ApproxAP: average precision over smooth ranks, with a second sigmoid for "stands above".

    pi_y = 1 + sum_{x != y} 1 / (1 + exp(alpha (s_y - s_x))),   J_yx = 1 / (1 + exp(-beta (pi_y - pi_x)))
    J    = (1/N) sum_y (r_y / pi_y) (1 + sum_{x != y} r_x J_yx),   r = 1 for a relevant document, N = sum r

The bracket is the smooth rank of y among the relevant documents, of sharpness beta on the scale of ranks: scores -pi
in place of s. So both the value and c_y = dJ / dpi_y come from the ranks and forces of `kernels.ranks.sigmoid`, applied
once to all documents and once to the relevant ones.

Source: Qin, Liu, Li, "A general approximation framework for direct optimization of information retrieval measures",
Information Retrieval 13 (2010), gradient through c_y as in eqs (35) and (38). Deviation: the paper tunes alpha in
50..300 for linear models on normalised features; the default here suits scores on the scale of labels. Then ranks are
blunt, and with a sharp beta a relevant document gains by falling below another relevant one: on OHSUMED (five folds,
120 trees) MAP is .390 with beta 1, .448 with 0.1 and .451 with 0.02. beta may rise with the rounds.

Hessian: h_p = alpha^2 sum_x w_xp (|c_x| + |c_p|), w = P (1 - P), a proxy that bounds |P''|.
Cost: near-linear in n, see `kernels.sums.expsum`; n^2 / 2 pairs a query with sums="direct".
"""

from __future__ import annotations

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.objective.relevance import RELEVANT_FROM, relevance_constants, relevant_positions
from boostrank.kernels.objective.shared_params import ALPHA
from boostrank.kernels.primitives import gather, scatter
from boostrank.kernels.ranks.sigmoid import soft_forces, soft_ranks
from boostrank.kernels.sums.expsum import SUMS

PARAMS = (
    ALPHA,
    Param(
        "beta",
        0.1,
        "sharpness of one relevant document standing above another",
        low=0.0,
        open_low=True,
        log=True,
        schedulable=True,
        unit="1/rank",
    ),
    RELEVANT_FROM,
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
    alpha, beta, sums = params[0], params[1], int(params[3])
    if n < 2 or query_const[0] == 0.0:
        return 0.0
    s, ranks, slope = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n]
    gs, hs, work = scratch[3 * n : 4 * n], scratch[4 * n : 5 * n], scratch[5 * n : 9 * n]
    gather(scores, order, s)
    soft_ranks(sums, s, alpha, ranks, work)

    # Among the relevant documents, with -pi as their scores.
    m = relevant_positions(doc_const, order, iscratch)
    place = iscratch[:m]
    minus, among, worth = scratch[9 * n : 9 * n + m], scratch[10 * n : 10 * n + m], scratch[11 * n : 11 * n + m]
    through, unused = scratch[12 * n : 12 * n + m], scratch[13 * n : 13 * n + m]
    inner = scratch[14 * n : 14 * n + 4 * m]
    lowest = 0.0
    for a in range(m):
        # Ranks descend with the scores, but for rounding.
        lowest = min(lowest, -ranks[place[a]])
        minus[a] = lowest
        worth[a] = 1.0 / (m * ranks[place[a]])
    soft_ranks(sums, minus, beta, among, inner)
    through[:] = 0.0
    unused[:] = 0.0
    soft_forces(sums, minus, beta, worth, through, unused, inner)

    gs[:] = 0.0
    hs[:] = 0.0
    slope[:] = 0.0
    value = 0.0
    for a in range(m):
        precision = among[a] / ranks[place[a]]
        value += precision / m
        # `through` is the derivative of -J by -pi: the two signs cancel.
        slope[place[a]] = through[a] - worth[a] * precision
    soft_forces(sums, s, alpha, slope, gs, hs, work)
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return -value


SPEC = ObjectiveSpec(
    name="approx-ap",
    aliases=("approx-map",),
    summary="average precision over smooth ranks; a relevant document above another through a sigmoid of their ranks",
    equation="sum_i relevant_i / rank_i (1 + sum_j relevant_j sigmoid(beta (rank_i - rank_j))) / N",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    reference="Qin, Liu, Li 2010, eqs (35), (38)",
    deviation="alpha defaults to the scale of labels, beta to a tenth a rank",
    prepare=relevance_constants,
    quadratic=False,
    scratch_per_document=18,
)
