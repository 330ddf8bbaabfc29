"""QueryRMSE: squared error on labels or gains without the mean error of each query, as in CatBoost.

    L = (1/2) sum_i w_i (r_i - r)^2,   r_i = s_i - t_i,   r = sum_i w_i r_i / sum_i w_i
    w the weights of documents, 1

Only differences within a query matter, so the level of a query, which no ranking needs, is not
learnt. Longer queries have more weight, as in `regression`.

Source: CatBoost's QueryRMSE, catboost/private/libs/algo_helpers/error_functions.h. Deviations: t
may be the gain; queries with equal gains are skipped; the Hessian is exact, w_i (1 - w_i / sum_j
w_j), where CatBoost has w_i.

Cost: n per query.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("query-rmse", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([1.43], [-1.3, 1.0, -0.1, 0.4])
"""

from boostrank.core.types import HessianKind
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import bounded, ideal_dcg
from boostrank.kernels.shared import TARGET, WEIGHT, target_constants, target_param

PARAMS = (target_param("labels"),)


@objective_kernel(params=PARAMS)
def kernel(query, params, grad, hess, scratch):
    """Compute the squared error around the query's offset, with its exact derivatives."""
    n, scores, total_weight = query.scores.size, query.scores, 0.0
    documents = query.doc_const
    for i in range(n):
        # From the first error, so that a common offset costs no digits.
        target = documents[i, TARGET] - documents[0, TARGET]
        grad[i] = bounded((scores[i] - scores[0]) - target)
        total_weight += documents[i, WEIGHT]
    if ideal_dcg(query.query_const, 0.0) <= 0.0 or total_weight <= 0.0:
        grad[:] = 0.0
        return 0.0
    for _ in range(2):  # the second mean is the rounding of the first
        mean = 0.0
        for i in range(n):
            mean += documents[i, WEIGHT] * grad[i]
        for i in range(n):
            grad[i] -= mean / total_weight
    loss = 0.0
    for i in range(n):
        weight = documents[i, WEIGHT]
        loss += 0.5 * weight * grad[i] * grad[i]
        grad[i] *= weight
        hess[i] = weight * (1.0 - weight / total_weight)
    return bounded(loss)


SPEC = ObjectiveSpec(
    name="query-rmse",
    kernel=kernel,
    hessian=HessianKind.EXACT,
    reference="CatBoost error_functions.h",
    prepare=target_constants,
    ordered=False,
    document_weights="loss",
)
