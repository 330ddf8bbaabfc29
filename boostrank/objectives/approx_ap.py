"""ApproxAP: average precision over smooth ranks; a sigmoid of ranks compares two relevant
documents.

    pi_y = 1 + sum_{x != y} 1 / (1 + exp(alpha (s_y - s_x)))
    J_yx = 1 / (1 + exp(-beta (pi_y - pi_x)))
    J    = (1/N) sum_y (r_y / pi_y) (1 + sum_{x != y} r_x J_yx)
    r = 1 for a relevant document, N = sum r

The factor in brackets is the smooth rank of y among the relevant documents, with sharpness beta and
-pi as scores.

With the default alpha the ranks are blunt, and with a sharp beta a relevant document then gains by
falling below another relevant one: on OHSUMED (five folds, 120 trees) MAP is .390 with beta 1, .448
with 0.1 and .451 with 0.02. beta may rise with the rounds.

Source: Qin, Liu, Li, "A general approximation framework for direct optimization of information
retrieval measures", Information Retrieval 13 (2010), eq (11) for the smooth ranks in the value,
(35) and (38) for the gradient. Deviation: the paper tunes alpha in 50..300 for linear models on
normalised features; the default here suits scores on the scale of labels.

Hessian: h_p = alpha^2 sum_x w_xp (|c_x| + |c_p|), c = dJ / dpi, w = P (1 - P), a proxy that bounds
    |P''|.
Cost: near-linear in n, see `kernels.expsum`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("approx-ap(alpha=5)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.655], [-0.07, 0.3, -0.374, 0.144])
"""

from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import ALPHA, RELEVANT_FROM, positive, relevance_constants
from boostrank.kernels.sigmoid_ranks import (
    AP_SCRATCH,
    rank_relevant,
    smooth_precisions,
    soft_gradient,
)

PARAMS = (
    ALPHA,
    positive(
        "beta", 0.1, "sharpness of the comparison of two relevant documents' ranks", unit="1/rank"
    ),
    RELEVANT_FROM,
    SUMS,
)


@objective_kernel(params=PARAMS, scratch=AP_SCRATCH, int_scratch="relevant", by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, a smooth average precision, with its gradient and curvature by score."""
    sums, s, relevant, slope = params.sums, query.scores, scratch.relevant, scratch.slope
    m, lowest = rank_relevant(query, sums, params.alpha, scratch), 0.0
    if m == 0:
        return 0.0
    # The ranks among the relevant documents follow from -pi, which descends with the scores except
    # for rounding.
    for a in range(m):
        lowest = min(lowest, -scratch.ranks[relevant[a]])
        scratch.keys[a] = lowest
    precision = smooth_precisions(sums, m, params.beta, scratch)
    for a in range(m):
        # `key_grad` is the derivative of -J by -pi: the two signs cancel.
        slope[relevant[a]] += scratch.key_grad[a]
    soft_gradient(sums, s, params.alpha, slope, grad, hess, scratch.work)
    return -precision


SPEC = ObjectiveSpec(
    name="approx-ap",
    kernel=kernel,
    reference="Qin, Liu, Li 2010, eqs (11), (35), (38)",
    prepare=relevance_constants,
)
