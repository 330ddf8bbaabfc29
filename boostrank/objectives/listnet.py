"""ListNet: cross entropy between the chances of being first that the targets and the scores give.

    L = -sum_i p_i ln q_i,   p = softmax(t), t the label or the gain,   q = softmax(s)

Gradient q - p. Convex, with one weight a query whatever its length.

Source: Cao, Qin, Liu, Tsai, Li, "Learning to rank: from pairwise approach to listwise approach", ICML 2007, the
top-one model of section 4. Deviation: a query whose documents all have the same gain is left out; its cross entropy
would pull their scores together.

Hessian: the exact diagonal, q (1 - q). Cost: n exponentials a query.
"""

from __future__ import annotations

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.losses.softmax import softmax
from boostrank.kernels.losses.squared_error import TARGETS, target_constants
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import ideal_dcg

PARAMS = (Param("target", "labels", "what the wanted distribution is the softmax of", choices=TARGETS),)


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
    """One query; see `kernels.objective.contract`."""
    n = scores.shape[0]
    grad[:] = 0.0
    hess[:] = 0.0
    if n < 2 or ideal_dcg(query_const, 0.0) <= 0.0:
        return 0.0
    target, p, q, rest = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n : 4 * n]
    for i in range(n):
        target[i] = doc_const[i, 0]
    softmax(target, p, rest)
    log_sum = softmax(scores, q, rest)
    value = 0.0
    for i in range(n):
        value += p[i] * (log_sum - scores[i])
        grad[i] = q[i] - p[i]
        hess[i] = q[i] * rest[i]
    return value


SPEC = ObjectiveSpec(
    name="listnet",
    summary="cross entropy of two softmaxes, of targets and of scores",
    equation="-sum_i softmax(t)_i ln softmax(s)_i",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.EXACT,
    reference="Cao, Qin, Liu, Tsai, Li 2007, section 4",
    deviation="queries of equal gains are left out",
    prepare=target_constants,
    quadratic=False,
    ordered=False,
)
