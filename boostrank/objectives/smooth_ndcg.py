"""SmoothNDCG: the document at each rank is replaced by a Gaussian-weighted average of its neighbours in score.

    h_ij = exp(-(s_i - s_d(j))^2 / sigma) / sum_m exp(-(s_m - s_d(j))^2 / sigma),   d(j) the document ranked j-th
    J    = (1/Z) sum_{j <= k} D(j) sum_i g_i h_ij

sigma (in squared score units) falls from 64 to 1/64 over the training, each round the same factor: from a constant to
exact NDCG. All-equal scores have a zero gradient, and a document only feels its neighbours, so the first `warm_rounds`
rounds are regression: `mix`, the share of R = (1/2n) sum_i (s_i - t_i)^2, is 1 there and 0 afterwards, and sigma
starts falling when it turns 0. Early stopping waits for that too.

Source: Chapelle, Wu, "Gradient descent optimization of smoothed information retrieval metrics", Information Retrieval
13 (2010), eq (10) and its second appendix. Deviations: boosting has no weight vector to pull back to the regression,
it continues from it; sigma falls with the rounds, where the paper optimises to the end at each of 13 values.
J is not differentiable where two scores tie: the order d is held in the gradient.

Hessian: (2/sigma) (sum_j D_j h_pj |g_p - gbar_j| + D_r(p) sum_i h_ir(p) |g_i - gbar_r(p)|), a proxy.
Cost: n k a query, less where sigma is small beside the spread of the scores; n^2 without k.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.jit import inline_sums
from boostrank.kernels.primitives import discount, fast_exp, gather, ideal_dcg, scatter
from boostrank.kernels.query import TRAIN_DISCOUNT, K
from boostrank.kernels.spec import ObjectiveSpec, objective_kernel
from boostrank.kernels.squared_error import mix_squared_error, target_constants, target_param

PARAMS = (
    Param(
        "sigma",
        1.0,
        "squared width of the neighbourhood; falls from 64 to 1/64 after the warm start unless given",
        low=0.0,
        open_low=True,
        log=True,
        schedulable=True,
        unit="score^2",
    ),
    K,
    TRAIN_DISCOUNT,
    Param("warm_rounds", 20, "rounds of regression before the objective proper", low=0, unit="rounds"),
    Param(
        "mix",
        0.0,
        "share of the regression; 1 in the warm rounds and 0 afterwards unless given",
        low=0.0,
        high=1.0,
        schedulable=True,
    ),
    target_param("gains"),
)

# Documents farther from an anchor weigh less than e^-700 of it: nothing.
_FARTHEST = 700.0


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
    grad[:] = 0.0
    hess[:] = 0.0
    sigma, k, blend, mix = params[0], params[1], params[2], params[4]
    if n == 0:
        return 0.0
    ideal = ideal_dcg(query_const, blend)
    value = 0.0
    if n > 1 and ideal > 0.0 and mix < 1.0:
        s, g, h = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n]
        gs, hs = scratch[3 * n : 4 * n], scratch[4 * n : 5 * n]
        gather(scores, order, s)
        gather(gains, order, g)
        gs[:] = 0.0
        hs[:] = 0.0
        anchors = min(int(k), n) if k > 0.0 else n
        low, high = 0, 0
        for j in range(anchors):
            while (s[low] - s[j]) ** 2 > _FARTHEST * sigma:
                low += 1
            while high < n and (s[high] - s[j]) ** 2 <= _FARTHEST * sigma:
                high += 1
            weight = discount(j + 1.0, blend, n) / ideal
            gain, pull, bend = _anchor(
                s[j], s[low:high], g[low:high], sigma, weight, h[low:high], gs[low:high], hs[low:high]
            )
            value += weight * gain
            gs[j] -= pull
            hs[j] += bend
        scatter(gs, order, grad)
        scatter(hs, order, hess)
    if mix == 0.0:
        return -value
    error = mix_squared_error(scores, doc_const, mix, grad, hess)
    return mix * error - (1.0 - mix) * value


@inline_sums
def _anchor(
    mine: float,
    s: Float64Array,
    g: Float64Array,
    sigma: float,
    weight: float,
    h: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
) -> tuple[float, float, float]:
    """Add what one anchor of score `mine` and discount `weight` is worth to the documents it sees.

    Returns:
        Its smoothed gain, its own gradient, its own curvature.
    """
    total, gain, offset, both = 0.0, 0.0, 0.0, 0.0
    for i in range(s.shape[0]):
        x = s[i] - mine
        e = fast_exp(-x * x / sigma)
        h[i] = e
        total += e
        gain += e * g[i]
        offset += e * x
        both += e * x * g[i]
    gain, offset, both = gain / total, offset / total, both / total
    scale = 2.0 / sigma * weight
    spread = 0.0
    for i in range(s.shape[0]):
        share = scale * h[i] / total
        miss = g[i] - gain
        grad[i] += share * (s[i] - mine) * miss
        hess[i] += share * abs(miss)
        spread += share * abs(miss)
    return gain, scale * (both - gain * offset), spread


def _settled(values: Mapping[str, Any], total: int) -> int:
    return int(values["warm_rounds"])


SPEC = ObjectiveSpec(
    name="smooth-ndcg",
    aliases=("smoothrank",),
    summary="NDCG of Gaussian neighbourhoods around each rank, sharpened over the rounds after a regression start",
    equation="sum_j D(j) sum_i g_i h_ij / Z,  h_ij ~ exp(-(s_i - s_d(j))^2 / sigma)",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    reference="Chapelle, Wu 2010, eq (10) and appendix 2",
    deviation="continues from the regression instead of being pulled back to it; sigma falls with the rounds",
    prepare=target_constants,
    shift_invariant=False,
    settled=_settled,
    default_schedules={
        "sigma": "joined(constant(64); geometric(64, 0.015625); at={warm_rounds})",
        "mix": "joined(constant(1); constant(0); at={warm_rounds})",
    },
)
