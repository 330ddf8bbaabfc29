"""Regression: squared error on labels or gains, the baseline.

    L = (1/2) sum_i w_i (s_i - t_i)^2,   t the label or the gain,   w the weights of documents, 1

Unless weighted, documents count the same, so long queries have more weight than short ones, as in
ordinary regression. With `per_query`, the error is divided by n and queries have equal weight, as
in REG-SHF-SDCG.

Source: the baseline of Wu, Chang, Zheng, Zha 2009 and Chapelle, Wu 2010. Hessian: exact, w or w /
    n.
Cost: n per query.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("regression(per_query=true)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([0.538], [-0.475, 0.1, -0.175, -0.05])
"""

from boostrank.core.params import Param
from boostrank.core.types import HessianKind
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import bounded
from boostrank.kernels.shared import TARGET, WEIGHT, target_constants, target_param

PARAMS = (
    target_param("labels"),
    Param(
        "per_query",
        False,
        "divide a query's error by its number of documents, so that queries weigh the same",
    ),
)


@objective_kernel(params=PARAMS)
def kernel(query, params, grad, hess, scratch):
    """Compute half the squared error of a query, with its gradient and exact Hessian."""
    n = query.scores.size
    share = 1.0 / n if params.per_query and n > 0 else 1.0
    loss = 0.0
    for i in range(n):
        residual = query.scores[i] - query.doc_const[i, TARGET]
        weight = share * query.doc_const[i, WEIGHT]
        grad[i] = residual * weight
        hess[i] = weight
        loss += 0.5 * residual * residual * weight
    return bounded(loss)


SPEC = ObjectiveSpec(
    name="regression",
    aliases=("l2", "mse"),
    kernel=kernel,
    hessian=HessianKind.EXACT,
    reference="baseline of Wu, Chang, Zheng, Zha 2009",
    prepare=target_constants,
    shift_invariant=False,
    ordered=False,
    document_weights="loss",
)
