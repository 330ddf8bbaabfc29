"""ApproxNDCG as its formulas stand, an exponential a pair: what the sums are measured against
besides our own loops.
"""

from __future__ import annotations

import math

from boostrank import define_objective
from boostrank.core.types import Float64Array, Int64Array


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
    """Qin, Liu, Li 2010, eqs (35) and (38), alpha 1, no cut-off; the Hessian proxy is that of
    approx-ndcg.
    """
    n = scores.shape[0]
    grad[:] = 0.0
    hess[:] = 0.0
    if query_const[0] <= 0.0:
        return 0.0
    slope = scratch[:n]
    value = 0.0
    for i in range(n):
        rank = 1.0
        for j in range(n):
            if j != i:
                rank += 1.0 / (1.0 + math.exp(scores[i] - scores[j]))
        log = math.log1p(rank)
        value += gains[i] / query_const[0] * math.log(2.0) / log
        slope[i] = -gains[i] / query_const[0] * math.log(2.0) / ((1.0 + rank) * log * log)
    for i in range(n):
        for j in range(n):
            if j != i:
                p = 1.0 / (1.0 + math.exp(scores[i] - scores[j]))
                w = p * (1.0 - p)
                grad[i] -= w * (slope[j] - slope[i])
                hess[i] -= w * (slope[j] + slope[i])
    return -value


FORMULA = define_objective(
    "approx-ndcg-by-formula", kernel, hessian="proxy", reference="Qin, Liu, Li 2010"
)
