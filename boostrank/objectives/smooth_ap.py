"""SmoothAP: average precision over smooth ranks; a sigmoid of scores compares two relevant
documents.

    P_ij = 1 / (1 + exp((s_i - s_j) / sigma)),   rank_i = 1 + sum_{j != i} P_ij
    J    = (1/N) sum_i (l_i / rank_i) (1 + sum_{j != i} l_j P_ij)
    l = 1 for a relevant document, N = sum l

The factor in brackets is the smooth rank of i among the relevant documents, so J is a mean of
quotients of two smooth ranks. ApproxAP differs only in that factor, whose sigmoid takes differences
of ranks (`approx_ap`).

Source: Chapelle, Wu, "Gradient descent optimization of smoothed information retrieval metrics",
Information Retrieval 13 (2010), eq (9) for the value; its gradient follows. Deviation: the printed
double sum includes i = j, so a document adds P_ii = 1/2 to its own precision, and lone relevant
documents get half the weight. Here it adds 1, so J tends to average precision as sigma falls.

Hessian: h_p = (1/sigma^2) (sum_j w_pj (|c_j| + |c_p|) + the same over relevant j with d for c), w =
P (1 - P), c = dJ / drank, d = dJ / dbracket; a proxy. Cost: near-linear in n, see `kernels.expsum`;
n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("smooth-ap(sigma=0.2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.639], [-0.196, 0.279, -0.227, 0.144])
"""

from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import RELEVANT_FROM, SIGMA, relevance_constants
from boostrank.kernels.sigmoid_ranks import (
    AP_SCRATCH,
    rank_relevant,
    smooth_precisions,
    soft_gradient,
)

PARAMS = (SIGMA, RELEVANT_FROM, SUMS)


@objective_kernel(params=PARAMS, scratch=AP_SCRATCH, int_scratch="relevant", by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, a smooth average precision, with its gradient and curvature proxy."""
    sums, s, relevant, alpha = params.sums, query.scores, scratch.relevant, 1.0 / params.sigma
    m = rank_relevant(query, sums, alpha, scratch)
    if m == 0:
        return 0.0
    for a in range(m):
        scratch.keys[a] = s[relevant[a]]
    precision = smooth_precisions(sums, m, alpha, scratch)
    soft_gradient(sums, s, alpha, scratch.slope, grad, hess, scratch.work)
    for a in range(m):
        grad[relevant[a]] += scratch.key_grad[a]
        hess[relevant[a]] += scratch.key_hess[a]
    return -precision


SPEC = ObjectiveSpec(
    name="smooth-ap",
    kernel=kernel,
    reference="Chapelle, Wu 2010, eq (9)",
    prepare=relevance_constants,
)
