"""QueryRMSE: squared error on labels or gains without the mean error of each query, as in CatBoost.

    L = (1/2) sum_i w_i (r_i - r)^2,   r_i = s_i - t_i,  r = sum_i w_i r_i / sum_i w_i,  w the
    weights of documents, 1

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

from __future__ import annotations

from typing import Any

from boostrank.core.types import Float64Array, HessianKind
from boostrank.kernels.objective import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.primitives import bounded
from boostrank.kernels.shared import target_constants, target_param

PARAMS = (target_param("labels"),)


@objective_kernel(params=PARAMS)
def kernel(
    query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any
) -> float:
    """Compute the squared error around the query's offset, with its exact derivatives."""
    n, doc, total = query.scores.size, query.doc_const, 0.0
    for i in range(n):
        # From the first error, so that a common offset costs no digits.
        grad[i] = bounded((query.scores[i] - query.scores[0]) - (doc[i, 0] - doc[0, 0]))
        total += doc[i, 1]
    if query.query_const[0] <= 0.0 or total <= 0.0:
        grad[:] = 0.0
        return 0.0
    for _ in range(2):  # the second mean is the rounding of the first
        mean = 0.0
        for i in range(n):
            mean += doc[i, 1] * grad[i]
        for i in range(n):
            grad[i] -= mean / total
    value = 0.0
    for i in range(n):
        weight = doc[i, 1]
        value += 0.5 * weight * grad[i] * grad[i]
        grad[i] *= weight
        hess[i] = weight * (1.0 - weight / total)
    return bounded(value)


SPEC = ObjectiveSpec(
    name="query-rmse",
    aliases=("centred-regression", "centered-regression"),
    kernel=kernel,
    hessian=HessianKind.EXACT,
    reference="CatBoost error_functions.h",
    prepare=target_constants,
    ordered=False,
    document_weights="loss",
)
