"""RankNet: the logistic loss of every pair.

    L = sum over pairs with g_i > g_j of ln(1 + exp(-(s_i - s_j) / sigma))

Long queries weigh more than short ones: their pairs are counted, not averaged.

Source: Burges et al., "Learning to rank using gradient descent", ICML 2005, with target probability 1 for the better
document. Hessian: the exact diagonal.
Cost: n^2 / 2 pairs a query, n exponentials and n logarithms (documents by descending score, see
`kernels.soft_ranks`).
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.jit import inline_sums
from boostrank.kernels.primitives import gather, scatter
from boostrank.kernels.query import SIGMA
from boostrank.kernels.soft_ranks import UNDERFLOW
from boostrank.kernels.spec import ObjectiveSpec, no_constants, objective_kernel

PARAMS = (SIGMA,)

# So many factors between 1 and 2 stay below the largest double.
_FACTORS = 512


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
    s, g, gs, hs = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n], scratch[3 * n : 4 * n]
    gather(scores, order, s)
    gather(gains, order, g)
    gs[:] = 0.0
    hs[:] = 0.0
    value = _logistic_pairs(s, g, 1.0 / params[0], gs, hs, scratch[4 * n : 5 * n])
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return value


@inline_sums
def _logistic_pairs(
    s: Float64Array, g: Float64Array, alpha: float, grad: Float64Array, hess: Float64Array, z: Float64Array
) -> float:
    """Add gradient and curvature of all pairs, documents by descending score; returns the loss."""
    n = s.shape[0]
    value = 0.0
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        mine, gain = s[j], g[j]
        force, curvature, gaps = 0.0, 0.0, 0.0
        for start in range(0, j, _FACTORS):
            product = 1.0
            for i in range(start, min(j, start + _FACTORS)):
                e = z[i] * step
                e = 0.0 if e < UNDERFLOW else e
                z[i] = e
                above = 1.0 / (1.0 + e)
                right, wrong = 1.0 if g[i] > gain else 0.0, 1.0 if g[i] < gain else 0.0
                f = alpha * above * (right * e - wrong)
                h = alpha * alpha * (right + wrong) * e * above * above
                grad[i] -= f
                hess[i] += h
                force += f
                curvature += h
                # A wrong pair costs ln(1 + 1/e) = u + ln(1 + e).
                product *= 1.0 + (right + wrong) * e
                gaps += wrong * (s[i] - mine)
            value += math.log(product)
        grad[j] += force
        hess[j] += curvature
        value += alpha * gaps
    return value


SPEC = ObjectiveSpec(
    name="ranknet",
    summary="the logistic loss of every pair",
    equation="sum over pairs of ln(1 + exp(-(s_i - s_j) / sigma))",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.EXACT,
    reference="Burges et al. 2005",
    prepare=no_constants,
)
