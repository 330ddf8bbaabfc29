"""SoftNDCG: expected NDCG if every score is the mean of a Gaussian (SoftRank).

    pi_ij = P(i beats j) = Phi((s_i - s_j) / (sqrt2 sigma))
    J     = (1/Z) sum_j g_j E[D(rank_j)]
    rank_j (from 0): the number of n - 1 independent contests that j loses

Each document has a distribution of its own over ranks, so several documents may expect one rank:
ten tied documents get ranks distributed as Binomial(9, 1/2), seldom the first or the last, and the
expected NDCG is .6446, 15% below .7618, that of a random order. ranks=sinkhorn scales the matrix
of documents by ranks as the paper proposes: `sweeps` times, the probabilities of each rank and then
those of each document are divided by their sum. Where scores are 0.3, 1 and 3 sigma apart in lists
of 10, the mean error of the expected NDCG falls from -.109, -.078 and -.011 to .002, .006 and
-.001; in lists of 40 from -.132, -.096 and -.026 to -.009, -.019 and -.011 (40 sweeps: -.007,
-.005, -.003). It takes time n^3 and memory n^2, so lists may have at most 250 documents, and `sums`
is not read.

ranks=normal is the paper's shortcut, a normal with the rank's mean and variance. The authors found
that the log discount was best on training queries and a shallower, almost linear one on others; see
`train_discount`. sigma stays fixed while scores grow or shrink, so it has no effect by itself from
a zero start.

Source: Taylor, Guiver, Robertson, Minka, "SoftRank: optimizing non-smooth rank metrics", WSDM 2008,
the gradient in eqs (18) and (20). Deviations: the paper's recursion over the rank distribution
costs n^3 per query and its derivative more; here the expected discount is computed without a
distribution (see `kernels.soft_ranks`), with the same result. The paper scales that matrix and does
not print the derivative; here that is an option, and the gradient goes back through all sweeps.
With ranks=normal every document has a normal, where the paper keeps the recursion for those near
the ends. Gains are 2^label - 1 as in the other objectives; the paper prints no "- 1". Its convex
discounts of one parameter, up to the linear one, are the blends of `train_discount`, convex too.

Hessian: h_m = (|A_m| + |B_m|) / (2 sigma^2). A_m is the derivative of the other documents'
discounts by the score of m, B_m that of its own discount. For rank-binomial all pairs in A_m have
one sign, and those in B_m, too, so this is the sum over pairs of absolute derivatives. |gradient|
<= sqrt2 sigma h, so no Newton step is longer than sqrt2 sigma.
Cost: n times nodes (14 to 29) times 10 exponents; with sums="direct", n times relevant documents
times nodes. The normal adds about sqrt n per relevant document. ranks=sinkhorn: n^3 + 4 sweeps n^2
(0.1 s at 200 documents).
Largest relative difference from pairs: 3e-7 at 200 documents and 4e-6 at 4,000. Sweeps and pairs
approximate the discount by a sum of powers, with error 9e-13 to 1,024 documents, 2e-10 to 4,096
and 3e-9 beyond.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("soft-ndcg(sigma=0.2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.644], [-0.255, 0.226, -0.052, 0.081])
"""

import math

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.kernels.expsum import DIRECT, SUMS
from boostrank.kernels.jit import allocates
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import ideal_dcg
from boostrank.kernels.shared import NORMALIZE, TRAIN_DISCOUNT, default_constants, positive
from boostrank.kernels.soft_ranks import (
    NUMBERS_A_DOCUMENT,
    WORK_COLUMNS,
    WORK_ROWS,
    Contests,
    evaluate_pairs,
    evaluate_sinkhorn,
    evaluate_sweeps,
)

PARAMS = (
    positive(
        "sigma",
        1.0,
        "standard deviation of every score; without effect from a zero start with Newton leaves",
        unit="score",
    ),
    TRAIN_DISCOUNT,
    Param(
        "ranks",
        "binomial",
        "distribution of a rank: binomial (independent contests), a normal of the same mean and "
        "variance, or the binomials of a list scaled so that each rank has one document",
        choices=("binomial", "normal", "sinkhorn"),
    ),
    Param("sweeps", 10, "number of sweeps over ranks and documents with ranks=sinkhorn", low=1),
    NORMALIZE,
    SUMS,
)

_SINKHORN = 2
_LONGEST_SCALED = 250  # documents with ranks=sinkhorn
_SWEPT_FROM = 28  # minimum length for which sweeps beat pairs (measured: 22)


def _constants(labels, gains, ptr, values):
    longest = int(np.diff(ptr).max(initial=0))
    if values["ranks"] == "sinkhorn" and longest > _LONGEST_SCALED:
        raise ParameterError(
            f"ranks=sinkhorn takes lists of at most {_LONGEST_SCALED} documents, since its time"
            " grows with the cube of the length, and the longest query has"
            f" {longest}: use ranks=binomial"
        )
    return default_constants(labels, gains, ptr, values)


@objective_kernel(
    params=PARAMS, scratch=f"others_slope own_slope buffer:{NUMBERS_A_DOCUMENT}", by_score=True
)
@allocates
def kernel(query, params, grad, hess, scratch):
    """Compute minus the expected NDCG under Gaussian scores, with its derivatives."""
    n, g = query.scores.size, query.gains
    others_slope, own_slope, buffer = scratch.others_slope, scratch.own_slope, scratch.buffer
    ideal = ideal_dcg(query.query_const, params.train_discount)
    if n < 2 or ideal <= 0.0:
        return 0.0
    work = np.full((WORK_ROWS, WORK_COLUMNS), np.nan)  # NaN reveals any use before assignment
    scale = 1.0 / (math.sqrt(2.0) * params.sigma)
    for pos in range(n):
        g[pos] /= ideal
    contests = Contests(query.scores, g, scale, params.ranks, params.train_discount)
    if params.ranks == _SINKHORN:
        expected_ndcg = evaluate_sinkhorn(contests, params.sweeps, others_slope, own_slope)
    elif n < _SWEPT_FROM or params.sums == DIRECT:
        expected_ndcg = evaluate_pairs(contests, others_slope, own_slope, buffer, work)
    else:
        expected_ndcg = evaluate_sweeps(contests, others_slope, own_slope, buffer, work)
    for pos in range(n):
        grad[pos] = scale * (own_slope[pos] - others_slope[pos])
        hess[pos] = scale * scale * (abs(own_slope[pos]) + abs(others_slope[pos]))
    return -expected_ndcg


SPEC = ObjectiveSpec(
    name="soft-ndcg",
    aliases=("softrank",),
    kernel=kernel,
    reference="Taylor, Guiver, Robertson, Minka 2008",
    prepare=_constants,
    default_options={"gain_base": "least"},
    document_weights="gain",
)
