"""The template of an objective with a kernel of ten arrays."""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective import ObjectiveSpec, no_constants, objective_kernel
from boostrank.kernels.shared import SIGMA

PARAMS = (SIGMA,)


@objective_kernel
def kernel(
    scores: Float64Array,
    gains: Float64Array,
    order: Int64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Float64Array,
    iscratch: Int64Array,
) -> float:
    """One query; see `kernels.spec`."""
    n = scores.shape[0]
    # Every element is written, also where there is nothing to learn.
    grad[:] = 0.0
    hess[:] = 0.0
    alpha = 1.0 / params[0]
    loss = 0.0
    for i in range(n):
        for j in range(n):
            if gains[i] > gains[j]:
                u = alpha * (scores[i] - scores[j])
                # The exponential of a negative number: no overflow, whatever the scores.
                z = math.exp(-abs(u))
                wrong = z / (1.0 + z) if u > 0.0 else 1.0 / (1.0 + z)
                loss += max(-u, 0.0) + math.log1p(z)
                # The loss is minimised: the better document's derivative is negative, its score
                # goes up.
                grad[i] -= alpha * wrong
                grad[j] += alpha * wrong
                curvature = alpha * alpha * z / ((1.0 + z) * (1.0 + z))
                hess[i] += curvature
                hess[j] += curvature
    return loss


SPEC = ObjectiveSpec(
    name="template",
    summary="the logistic loss of every pair: RankNet",
    equation="sum over pairs of ln(1 + exp(-(s_i - s_j) / sigma))",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.EXACT,
    reference="Burges et al. 2005",
    prepare=no_constants,
)
