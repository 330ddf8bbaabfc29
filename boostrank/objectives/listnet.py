"""ListNet: cross entropy between the softmax of the targets and the softmax of the scores.

    L = -sum_i p_i ln q_i,   p = softmax(t), t the label or the gain,   q = softmax(s)

The gradient is q - p. L is convex, and queries of any length have equal weight.

Source: Cao, Qin, Liu, Tsai, Li, "Learning to rank: from pairwise approach to listwise approach",
ICML 2007, the top-one model of section 4. Deviation: queries with equal gains are skipped; their
cross entropy would pull the scores together.

Hessian: the exact diagonal, q (1 - q). It vanishes with q and the gradient does not, so a Newton
step can be long: 2,180 for the relevant one of two documents with scores 0 and 8. Trees average
over documents, and no harm was seen. h = (q + p) / 2 bounds every step by 2, and gave no more:
NDCG@10 on sparse-long (100 trees) -.0017 [-.0053, .0019], on OHSUMED within .001.
Cost: n exponentials per query.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("listnet", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([1.417], [-0.378, 0.23, 0.059, 0.089])
"""

from boostrank.core.params import Param
from boostrank.core.types import HessianKind
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import LARGEST, bounded, ideal_dcg
from boostrank.kernels.shared import TARGET, TARGETS, softmax, target_constants

PARAMS = (
    Param(
        "target", "labels", "softmax of these values is the target distribution", choices=TARGETS
    ),
)


@objective_kernel(params=PARAMS, scratch="target p q complement")
def kernel(query, params, grad, hess, scratch):
    """Compute the cross entropy of a query, with its gradient q - p and Hessian q (1 - q)."""
    n, scores = query.scores.size, query.scores
    if n < 2 or ideal_dcg(query.query_const, 0.0) <= 0.0:
        return 0.0
    target, p, q, complement = scratch.target, scratch.p, scratch.q, scratch.complement
    for i in range(n):
        target[i] = query.doc_const[i, TARGET]
    softmax(target, p, complement)
    log_sum, highest = softmax(scores, q, complement)
    loss = 0.0
    for i in range(n):
        loss += p[i] * (log_sum + min(highest - scores[i], LARGEST))
        grad[i] = q[i] - p[i]
        hess[i] = q[i] * complement[i]
    return bounded(loss)


SPEC = ObjectiveSpec(
    name="listnet",
    kernel=kernel,
    hessian=HessianKind.EXACT,
    reference="Cao, Qin, Liu, Tsai, Li 2007, section 4",
    prepare=target_constants,
    ordered=False,
)
