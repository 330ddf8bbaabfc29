"""SmoothERR: expected reciprocal rank over smooth ranks, with sampled users.

    R_i    = gain_i / (max_gain + 1), the probability that document i satisfies a user, as in ERR
    A_d    = documents that satisfy user d of `draws`: each i with probability R_i
    rank_i = 1 + sum_{j != i} 1 / (1 + exp(alpha (s_i - s_j)))
    w_di   = exp(alpha s_i) / sum_{j in A_d} exp(alpha s_j)
    J      = mean over d of sum_{i in A_d} w_di / rank_i

ERR is the mean over users of 1 / rank of the first document that satisfies the user, so J is
SmoothMRR (`smooth_mrr`) with A_d as the relevant documents. J tends to ERR as alpha and the number
of draws grow. All users share the ranks.

Source: the cascade is Chapelle, Metzler, Zhang, Grinspan, "Expected reciprocal rank for graded
relevance", CIKM 2009; smooth ranks and gradients through c_i = -w_i / rank_i^2 are Qin, Liu, Li
2010. Deviation: users of the cascade are sampled. The product of (1 - R_j)^sigmoid over the
documents above needs no draws, but is e^-5 at tied scores in a list with a dozen good documents, so
the gradient of most queries would vanish at the start.

Hessian: alpha^2 sum_j P_pj (1 - P_pj) (|c_j| + |c_p|) + alpha^2 mean_d w_dp |1 / rank_p - J_d|, a
    proxy.
Cost: near-linear in n, see `kernels.expsum`, with a random number for each document and user.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("smooth-err(draws=4, seed=1)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.401], [-0.066, 0.04, -0.013, 0.039])
"""

from boostrank.core.params import Param
from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import SEED, gather, ideal_dcg, uniform
from boostrank.kernels.shared import ALPHA, QUERY_NUMBER, numbered
from boostrank.kernels.sigmoid_ranks import expect_first, soft_gradient, soft_ranks
from boostrank.kernels.swaps import GRADE, MAX_GAIN, swap_constants

PARAMS = (
    ALPHA,
    MAX_GAIN,
    Param("draws", 16, "number of users sampled per round", low=1),
    SUMS,
    SEED,
)


@objective_kernel(
    params=PARAMS,
    scratch="ranks slope stop_chance chances work:4",
    int_scratch="relevant",
    by_score=True,
)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, a mean over sampled users, with its gradient and curvature proxy."""
    n, alpha, draws = query.scores.size, params.alpha, params.draws
    if n < 2 or ideal_dcg(query.query_const, 0.0) == 0.0:
        return 0.0
    s, ranks, slope, relevant = query.scores, scratch.ranks, scratch.slope, scratch.relevant
    stop_chance, chances = scratch.stop_chance, scratch.chances
    gather(query.doc_const[:, GRADE], query.order, stop_chance)
    soft_ranks(params.sums, s, alpha, ranks, scratch.work)
    seed, stream = params.seed, int(query.query_const[QUERY_NUMBER])
    slope[:] = 0.0
    mean_of_users = 0.0
    for draw in range(draws):
        # Documents that satisfy this user.
        m = 0
        for pos in range(n):
            chance = stop_chance[pos]
            if chance > 0.0 and uniform(seed, stream, draw * n + pos) < chance:
                relevant[m] = pos
                m += 1
        reciprocal_rank = expect_first(
            relevant[:m], s, alpha, ranks, draws, chances, slope, grad, hess
        )
        mean_of_users += reciprocal_rank / draws
    soft_gradient(params.sums, s, alpha, slope, grad, hess, scratch.work)
    return -mean_of_users


def _constants(labels, gains, ptr, values):
    return numbered(swap_constants(labels, gains, ptr, {**values, "metric": "err"}))


SPEC = ObjectiveSpec(
    name="smooth-err",
    kernel=kernel,
    reference="Chapelle, Metzler, Zhang, Grinspan 2009; Qin, Liu, Li 2010",
    prepare=_constants,
    random=True,
    document_weights="gain",
)
