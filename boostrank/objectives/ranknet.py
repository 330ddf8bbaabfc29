"""RankNet: the logistic loss of every pair.

    L = sum over pairs with g_i > g_j of ln(1 + exp(-(s_i - s_j) / sigma))

Long queries have more weight than short ones, because pairs are summed and not averaged.

Source: Burges et al., "Learning to rank using gradient descent", ICML 2005, with target probability
1 for the better document. Hessian: the exact diagonal. Cost: near-linear in n, see
`kernels.expsum`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("ranknet(sigma=0.5)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([3.499], [-3.197, 2.391, -0.44, 1.247])
"""

import math

from boostrank.core.types import HessianKind
from boostrank.kernels.expsum import (
    SIGMOID,
    SLOPE,
    SOFTPLUS,
    SUMS,
    add_sums,
    add_wrong_pairs,
    cut_between_grades,
    decays,
    group_by_gain,
)
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.objective import (
    ObjectiveSpec,
    no_constants,
    objective_kernel,
)
from boostrank.kernels.primitives import LARGEST, bounded, gather
from boostrank.kernels.shared import SIGMA
from boostrank.kernels.sigmoid_ranks import UNDERFLOW, pair_by_pair

PARAMS = (SIGMA, SUMS)

# A product of this many factors between 1 and 2 does not overflow.
_FACTORS = 512


@objective_kernel(
    params=PARAMS,
    scratch="steps group_steps ones wrong_count all_sums equal_sums state:3",
    int_scratch="member grade spare",
    by_score=True,
)
def kernel(query, params, grad, hess, scratch):
    """Sum the logistic losses of the pairs, pair by pair in short lists and else by sums."""
    s, g, alpha = query.scores, query.gains, 1.0 / params.sigma
    if pair_by_pair(params.sums, s.size):
        return _logistic_pairs(s, g, alpha, grad, hess, scratch.steps)
    return _logistic_sums(s, g, alpha, grad, hess, scratch)


@inline_sums
def _logistic_pairs(s, g, alpha, grad, hess, z):
    """Add the gradient and curvature of all pairs of documents, which are sorted by score, and
    return the loss.
    """
    n = s.shape[0]
    loss = 0.0
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        score, gain = s[j], g[j]
        pull_sum, curvature_sum, gap_sum = 0.0, 0.0, 0.0
        for start in range(0, j, _FACTORS):
            product = 1.0
            for i in range(start, min(j, start + _FACTORS)):
                e = z[i] * step
                e = 0.0 if e < UNDERFLOW else e
                z[i] = e
                above = 1.0 / (1.0 + e)
                right = 1.0 if g[i] > gain else 0.0
                wrong = 1.0 if g[i] < gain else 0.0
                pull = alpha * above * (right * e - wrong)
                curvature = alpha * alpha * (right + wrong) * e * above * above
                grad[i] -= pull
                hess[i] += curvature
                pull_sum += pull
                curvature_sum += curvature
                # A misordered pair costs ln(1 + 1/e) = u + ln(1 + e).
                product *= 1.0 + (right + wrong) * e
                gap_sum += wrong * min(s[i] - score, LARGEST)
            loss += math.log(product)
        grad[j] += pull_sum
        hess[j] += curvature_sum
        loss += alpha * gap_sum
    return bounded(loss)


@inline
def _logistic_sums(s, g, alpha, grad, hess, scratch):
    """Compute the same as `_logistic_pairs`, but without a loop over pairs.

    With t = exp(-|u|) an ordered pair pulls with f = t / (1 + t) and a misordered one with 1 - f.
    So f is summed over all documents, documents of equal gain are subtracted, and misordered pairs
    are counted. Likewise, the loss of a pair is ln(1 + t), plus |u| if it is misordered.
    """
    n, ones, state = s.shape[0], scratch.ones, scratch.state
    steps, group_steps, wrong_count = scratch.steps, scratch.group_steps, scratch.wrong_count
    all_sums, equal_sums = scratch.all_sums, scratch.equal_sums
    # Factors between neighbours, in the list and in the groups of equal gains.
    member, grade, grouped_scores = scratch.member, scratch.grade, all_sums
    grades = group_by_gain(g, member, grade, scratch.spare)
    gather(s, member, grouped_scores)
    decays(s, alpha, steps)
    decays(grouped_scores, alpha, group_steps)
    cut_between_grades(group_steps, member, grade)
    # Misordered pairs: the number that end at a document minus those that begin, and their total
    # length.
    ones[:] = 1.0
    wrong_count[:] = 0.0
    add_wrong_pairs(grade, grades, ones, all_sums, wrong_count, state)
    loss, across = 0.0, 0.0
    for i in range(n):
        loss += across * min(alpha * (s[i - 1] - s[i]), LARGEST) if i > 0 else 0.0
        across -= wrong_count[i]
    loss *= 2.0  # the other sums count each pair at both ends

    # Gradient.
    _sum_curves(SIGMOID, -1.0, scratch)
    for k in range(n):
        i = member[k]
        grad[i] = -alpha * (all_sums[i] - equal_sums[k] + wrong_count[i])

    # Curvature.
    _sum_curves(SLOPE, 1.0, scratch)
    for k in range(n):
        i = member[k]
        hess[i] = alpha * alpha * max(all_sums[i] - equal_sums[k], 0.0)

    # Loss.
    _sum_curves(SOFTPLUS, 1.0, scratch)
    for i in range(n):
        loss += all_sums[i] - equal_sums[i]
    return bounded(0.5 * loss)


@inline
def _sum_curves(curve, above, scratch):
    """Sum a curve over all other documents, and over those of equal gain."""
    all_sums, equal_sums, ones = scratch.all_sums, scratch.equal_sums, scratch.ones
    all_sums[:] = 0.0
    equal_sums[:] = 0.0
    add_sums(scratch.steps, ones, curve, above, all_sums, scratch.state)
    add_sums(scratch.group_steps, ones, curve, above, equal_sums, scratch.state)


SPEC = ObjectiveSpec(
    name="ranknet",
    kernel=kernel,
    hessian=HessianKind.EXACT,
    reference="Burges et al. 2005",
    prepare=no_constants,
)
