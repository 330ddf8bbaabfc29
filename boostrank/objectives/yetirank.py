"""YetiRank as in CatBoost on a CPU: neighbours in noisy orders become weighted pairs.

In each of `permutations`, add logistic noise to the scores and sort. The documents at positions pos and pos + 1 (from
0) with different targets form a pair of weight

    w = 0.15 decay^pos |t_i - t_j|,    averaged over the permutations

    L = sum over pairs with t_i > t_j of w_ij ln(1 + exp(-(s_i - s_j))),    on the scores without noise, weights held

Source: Gulin, Kuralenok, Pavlov, "Winning the transfer learning track of Yahoo!'s learning to rank challenge with
YetiRank", 2011; CatBoost catboost/private/libs/algo/yetirank_helpers.cpp. Deviations: t may be the gain; the noise is
ln(u / (1 - u)), CatBoost's ln(u / (1.000001 - u)). Defaults are CatBoost's.

Hessian: a proxy, the curvature w rho (1 - rho) of the pair losses with w held, as in CatBoost.
Cost: n log n per permutation, with one random number and two exponentials per document.
"""

from __future__ import annotations

from typing import Any

from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, HessianKind, Int64Array, ParamValues
from boostrank.kernels.losses.squared_error import TARGETS, target_constants
from boostrank.kernels.noise import SEED, logistic
from boostrank.kernels.objective.contract import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.objective.shared_params import numbered_constants
from boostrank.kernels.primitives import LARGEST, bounded, expit, ideal_dcg, origin, softplus, sort_descending

PARAMS = (
    Param("permutations", 10, "noisy orders per round", low=1),
    Param("decay", 0.85, "weight of a position relative to the one above it", low=0.0, high=1.0, schedulable=True),
    Param("target", "labels", "a pair's weight is the difference of these values", choices=TARGETS),
    SEED,
)

# CatBoost's "magic constant"; the driver's scaling of the Hessian cancels it.
_WEIGHT = 0.15
# Smaller weights do not change a sum of doubles.
_LEAST_WEIGHT = 1e-20


@objective_kernel(params=PARAMS, scratch="target noisy", int_scratch="places spare", by_score=True)
def kernel(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    n, s = query.scores.size, query.scores
    if n < 2 or ideal_dcg(query.query_const, 0.0) <= 0.0:
        return 0.0
    target, noisy, places = scratch.target, scratch.noisy, scratch.places
    seed, stream, permutations = params.seed, int(query.query_const[3]), params.permutations
    for pos in range(n):
        target[pos] = query.doc_const[query.order[pos], 0]
    # Centre the scores, so that a common offset does not swallow the noise.
    value, middle = 0.0, origin(s)
    for draw in range(permutations):
        for pos in range(n):
            noisy[pos] = (s[pos] - middle) + logistic(seed, stream, draw * n + pos)
        sort_descending(noisy, places, scratch.spare)
        weight = _WEIGHT / permutations
        for pos in range(n - 1):
            i, j = places[pos], places[pos + 1]
            if target[i] < target[j]:
                i, j = j, i
            w = weight * (target[i] - target[j])
            x = s[i] - s[j]
            wrong = expit(-x)
            value += w * softplus(min(-x, LARGEST))
            grad[i] -= w * wrong
            grad[j] += w * wrong
            hess[i] += w * wrong * (1.0 - wrong)
            hess[j] += w * wrong * (1.0 - wrong)
            weight *= params.decay
            if weight < _LEAST_WEIGHT:
                break
    return bounded(value)


def _constants(labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
    documents, _ = target_constants(labels, gains, ptr, values)
    return documents, numbered_constants(labels, gains, ptr, values)[1]


SPEC = ObjectiveSpec(
    name="yetirank",
    aliases=("yeti-rank",),
    summary="logistic losses of the pairs that are neighbours in noisy orders, as in CatBoost",
    equation="sum over pairs of w_ij ln(1 + exp(-(s_i - s_j))), w_ij how often and how high they are neighbours",
    kernel=kernel,
    hessian=HessianKind.PROXY,
    reference="Gulin, Kuralenok, Pavlov 2011; CatBoost yetirank_helpers.cpp",
    prepare=_constants,
    random=True,
    quadratic=False,
    document_weights="gain",
)
