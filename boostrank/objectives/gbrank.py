"""GBRank: regression of the two scores of each misordered pair towards each other.

    L = sum over pairs with g_i > g_j of 1/2 max(0, s_j - s_i + tau)^2

The paper fits a tree by least squares to the targets s_j + tau for i and s_i - tau for j of each
pair with s_i < s_j + tau. The leaf of that tree is exactly the Newton step of L: the gradient is
the sum of score minus target, the Hessian the number of pairs. So GBRank is RankSVM with a squared
hinge, but it is derived from regression.

Source: Zheng, Chen, Sun, Zha, "A regression framework for learning ranking functions using relative
relevance judgments", SIGIR 2007. Deviation: trees are fitted to residuals and summed, as with all
objectives here, whereas the paper averages trees fitted to the targets, h_k = (k h_(k-1) + eta
tree) / (k + 1).

Hessian: the number of misordered pairs, exact unless a pair is exactly on the margin.
Cost: n log n, see `kernels.margin`.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("gbrank(tau=0.5)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([0.765], [-1.7, 1.4, 0.1, 0.2])
"""

from boostrank.kernels.margin import MARGIN_SCRATCH, grade_constants, margin_pairs
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import positive

PARAMS = (
    positive(
        "tau",
        1.0,
        "distance of a target from the other document's score; without it constant scores would be"
        " optimal",
        unit="score",
    ),
)


@objective_kernel(params=PARAMS, scratch=MARGIN_SCRATCH, by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Sum the squared hinges of the pairs, with their gradient and number of pairs by score."""
    return margin_pairs(query, params.tau, True, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="gbrank",
    kernel=kernel,
    reference="Zheng, Chen, Sun, Zha 2007",
    prepare=grade_constants,
)
