"""ApproxAP: average precision over smooth ranks, with a second sigmoid for "ranks above".

    pi_y = 1 + sum_{x != y} 1 / (1 + exp(alpha (s_y - s_x))),   J_yx = 1 / (1 + exp(-beta (pi_y - pi_x)))
    J    = (1/N) sum_y (r_y / pi_y) (1 + sum_{x != y} r_x J_yx),   r = 1 for a relevant document, N = sum r

The bracket is the smooth rank of y among the relevant documents, with sharpness beta and -pi in place of scores. So the
value and c_y = dJ / dpi_y come from the ranks and gradients of `kernels.sigmoid_ranks`, applied first to all documents
and then to the relevant ones.

Source: Qin, Liu, Li, "A general approximation framework for direct optimization of information retrieval measures",
Information Retrieval 13 (2010), gradient through c_y as in eqs (35) and (38). Deviation: the paper tunes alpha in
50..300 for linear models on normalised features; the default here suits scores on the scale of labels. Ranks are then
blunt, and with a sharp beta a relevant document gains by falling below another relevant one: on OHSUMED (five folds,
120 trees) MAP is .390 with beta 1, .448 with 0.1 and .451 with 0.02. beta may rise with the rounds.

Hessian: h_p = alpha^2 sum_x w_xp (|c_x| + |c_p|), w = P (1 - P), a proxy that bounds |P''|.
Cost: near-linear in n, see `kernels.expsum`; n^2 / 2 pairs per query with sums="direct".
"""

from __future__ import annotations

from typing import Any

from boostrank.core.types import Float64Array
from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.shared import ALPHA, RELEVANT_FROM, positive, relevance_constants, relevant_positions
from boostrank.kernels.sigmoid_ranks import AP_SCRATCH, smooth_precisions, soft_gradient, soft_ranks

PARAMS = (
    ALPHA,
    positive("beta", 0.1, "sharpness of the comparison of two relevant documents' ranks", unit="1/rank"),
    RELEVANT_FROM,
    SUMS,
)


@objective_kernel(params=PARAMS, scratch=f"{AP_SCRATCH} minus through unused", int_scratch="place", by_score=True)
def kernel(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    n = query.scores.size
    if n < 2 or query.query_const[0] == 0.0:
        return 0.0
    s, ranks, slope, work = query.scores, scratch.ranks, scratch.slope, scratch.work
    soft_ranks(params.sums, s, params.alpha, ranks, work)

    # Smooth ranks among the relevant documents, with -pi as scores.
    m = relevant_positions(query.doc_const, query.order, scratch.place)
    place, among, worth, inner = scratch.place[:m], scratch.among[:m], scratch.worth[:m], scratch.inner[: 4 * m]
    minus, through, unused = scratch.minus[:m], scratch.through[:m], scratch.unused[:m]
    lowest = 0.0
    for a in range(m):
        # Ranks descend with the scores, except for rounding.
        lowest = min(lowest, -ranks[place[a]])
        minus[a] = lowest
    soft_ranks(params.sums, minus, params.beta, among, inner)
    value = smooth_precisions(place, ranks, among, worth, slope)
    through[:] = 0.0
    unused[:] = 0.0
    soft_gradient(params.sums, minus, params.beta, worth, through, unused, inner)
    for a in range(m):
        # `through` is the derivative of -J by -pi: the two signs cancel.
        slope[place[a]] += through[a]
    soft_gradient(params.sums, s, params.alpha, slope, grad, hess, work)
    return -value


SPEC = ObjectiveSpec(
    name="approx-ap",
    aliases=("approx-map",),
    summary="average precision over smooth ranks; a relevant document above another through a sigmoid of their ranks",
    equation="sum_i relevant_i / rank_i (1 + sum_j relevant_j sigmoid(beta (rank_i - rank_j))) / N",
    kernel=kernel,
    reference="Qin, Liu, Li 2010, eqs (35), (38)",
    deviation="alpha defaults to the scale of labels, beta to a tenth a rank",
    prepare=relevance_constants,
)
