"""SmoothMRR: the smooth reciprocal rank of each relevant document, weighted by its probability of
being the first.

    rank_i = 1 + sum_{j != i} 1 / (1 + exp(alpha (s_i - s_j)))
    w_i    = exp(alpha s_i) / sum_{j relevant} exp(alpha s_j)
    J      = sum_{i relevant} w_i / rank_i

In Luce's choice model of sharpness alpha (scores with Gumbel noise of scale 1 / alpha) rank_i is
the expected rank of i, and w_i is the probability that no relevant document ranks above i. As alpha
grows J tends to the reciprocal rank of the first relevant document; at tied scores it is 2 / (n +
1), whatever the number of relevant documents.

Source: the reciprocal rank as a sum over relevant documents of 1 / rank times "no relevant document
above" is Shi et al., "CLiMF: learning to maximize reciprocal rank with collaborative less-is-more
filtering", RecSys 2012; smooth ranks and gradients through c_i = -w_i / rank_i^2 are Qin, Liu, Li
2010. Deviation: CLiMF multiplies pairwise probabilities for "no relevant document above". At tied
scores that is 2^-(N - 1), so the gradient of a query with many relevant documents would vanish at
the start.

Hessian: alpha^2 sum_j P_pj (1 - P_pj) (|c_j| + |c_p|) + alpha^2 w_p |1 / rank_p - J|, a proxy.
Cost: near-linear in n, see `kernels.expsum`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("smooth-mrr(alpha=5)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.47], [0.236, 0.249, -0.578, 0.093])
"""

import math

from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import ALPHA, RELEVANT_FROM, relevance_constants
from boostrank.kernels.sigmoid_ranks import rank_relevant, soft_gradient

PARAMS = (ALPHA, RELEVANT_FROM, SUMS)


@objective_kernel(
    params=PARAMS, scratch="ranks slope chances work:4", int_scratch="relevant", by_score=True
)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, a smooth reciprocal rank, with its gradient and curvature proxy."""
    sums, s, alpha = params.sums, query.scores, params.alpha
    m = rank_relevant(query, sums, alpha, scratch)
    if m == 0:
        return 0.0
    relevant, ranks, slope = scratch.relevant[:m], scratch.ranks, scratch.slope
    chances = scratch.chances
    # The probability of each relevant document to be the first of them.
    chance_sum, reciprocal_rank = 0.0, 0.0
    for a in range(m):
        chances[a] = math.exp(alpha * (s[relevant[a]] - s[relevant[0]]))
        chance_sum += chances[a]
    for a in range(m):
        chances[a] /= chance_sum
        reciprocal_rank += chances[a] / ranks[relevant[a]]
    # The gradient through the ranks, and that through the probabilities.
    slope[:] = 0.0
    for a in range(m):
        pos = relevant[a]
        slope[pos] -= chances[a] / (ranks[pos] * ranks[pos])
        pull = alpha * chances[a] * (1.0 / ranks[pos] - reciprocal_rank)
        grad[pos] -= pull
        hess[pos] += alpha * abs(pull)
    soft_gradient(sums, s, alpha, slope, grad, hess, scratch.work)
    return -reciprocal_rank


SPEC = ObjectiveSpec(
    name="smooth-mrr",
    kernel=kernel,
    reference="Shi et al. 2012 (CLiMF); Qin, Liu, Li 2010",
    prepare=relevance_constants,
)
