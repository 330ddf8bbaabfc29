"""YetiRank: logistic losses of the pairs that are neighbours in noisy orders, as in CatBoost.

    L = sum over pairs with t_i > t_j of w_ij ln(1 + exp(-(s_i - s_j))),    on the scores without
    noise, w constant w = 0.15 decay^pos |t_i - t_j|,    averaged over the permutations

In each of the `permutations`, noise is added to the scores and the documents are sorted. The
documents at positions pos and pos + 1 (from 0) form a pair if their targets t differ.

With `mode=ndcg`, `map`, `mrr`, `err` or `dcg` it is YetiLoss: a pair's weight is the change of that
metric, defined in `kernels.swaps`, if the two were swapped in the noisy order. Each document is
paired with the `neighbors` documents below it.

Source: Gulin, Kuralenok, Pavlov, "Winning the transfer learning track of Yahoo!'s learning to rank
challenge with YetiRank", 2011; Lyzhin, Ustimenko, Gulin, Prokhorenkova, "Which tricks are important
for learning to rank?", ICML 2023; CatBoost catboost/private/libs/algo/yetirank_helpers.cpp.
Deviations: t may be the gain; logistic noise is ln(u / (1 - u)), CatBoost's ln(u / (1.000001 - u)),
which it calls Gumbel. CatBoost's weights are the change of the metric for NDCG, DCG, ERR and, of
neighbours, MRR. For MAP it sums 1 / rank over the upper document and the relevant ones between,
however many are above or in all. Its gains for NDCG and ERR are labels; here they are the metrics'.
Defaults are CatBoost's, and the algorithm is that of its CPU version.

Hessian: a proxy, the curvature w rho (1 - rho) of the pair losses with constant w, as in CatBoost.
Cost: n log n per permutation, with a random number per document and two exponentials per neighbour.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("yetirank(permutations=4)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([0.343], [-0.178, 0.118, -0.009, 0.069])
"""

from __future__ import annotations

from typing import Any

from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.jit import inline
from boostrank.kernels.objective import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.primitives import (
    LARGEST,
    SEED,
    bounded,
    expit,
    gather,
    gumbel,
    ideal_dcg,
    logistic,
    origin,
    softplus,
    sort_descending,
)
from boostrank.kernels.shared import TARGETS, numbered, numbered_constants, target_constants
from boostrank.kernels.swaps import ERR, METRICS, NDCG, SWAP_PARAMS, swap_constants, swap_rows

_CLASSIC, _DCG = 0, 5
_MODES = ("classic", *METRICS[: ERR + 1], "dcg")

PARAMS = (
    Param("permutations", 10, "number of noisy orders per round", low=1),
    Param(
        "decay",
        0.85,
        "weight of a position relative to the one above it",
        low=0.0,
        high=1.0,
        schedulable=True,
    ),
    Param("target", "labels", "a pair's weight is the difference of these values", choices=TARGETS),
    Param(
        "mode",
        "classic",
        "weight of a pair: from targets and decay, or the change of a metric",
        choices=_MODES,
    ),
    Param(
        "neighbors",
        1,
        "documents below to pair with (not classic); 0 means all",
        low=0,
        aliases=("num_neighbors",),
    ),
    Param(
        "k",
        0,
        "pairs need a document above this rank; 0 means all",
        low=0,
        unit="rank",
        aliases=("top", "at"),
    ),
    Param("noise", "logistic", "distribution of the noise", choices=("logistic", "gumbel")),
    *SWAP_PARAMS,
    SEED,
)

# CatBoost's "magic constant"; the driver's scaling of the Hessian cancels it.
_WEIGHT = 0.15
# Smaller weights do not change a sum of doubles.
_LEAST_WEIGHT = 1e-20


@objective_kernel(
    params=PARAMS,
    scratch="target noisy grades up down reading",
    int_scratch="places spare",
    by_score=True,
)
def kernel(
    query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any
) -> float:
    """Sum the losses of the pairs in noisy orders, with gradient and curvature by score."""
    n, s, divisor = query.scores.size, query.scores, ideal_dcg(query.query_const, 0.0)
    if n < 2 or divisor <= 0.0:
        return 0.0
    target, noisy, places = scratch.target, scratch.noisy, scratch.places
    seed, stream, permutations = params.seed, int(query.query_const[3]), params.permutations
    depth = min(params.k, n - 1) if params.k > 0 else n - 1
    gather(query.doc_const[:, 0], query.order, target)
    # Centre the scores, so that a common offset does not swallow the noise.
    value, middle = 0.0, origin(s)
    for draw in range(permutations):
        for pos in range(n):
            index = draw * n + pos
            noise = (
                logistic(seed, stream, index) if params.noise == 0 else gumbel(seed, stream, index)
            )
            noisy[pos] = (s[pos] - middle) + noise
        sort_descending(noisy, places, scratch.spare)
        if params.mode != _CLASSIC:
            value += _swapped_pairs(s, params, depth, divisor, grad, hess, scratch)
            continue
        weight = _WEIGHT / permutations
        for pos in range(depth):
            i, j = places[pos], places[pos + 1]
            value += _add_pair(s, i, j, weight * (target[i] - target[j]), grad, hess)
            weight *= params.decay
            if weight < _LEAST_WEIGHT:
                break
    return bounded(value)


@inline
def _swapped_pairs(
    s: Float64Array,
    params: Any,
    depth: int,
    divisor: float,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Any,
) -> float:
    """Add the pairs of one noisy order, weighted by the change of the metric, and return their
    loss.
    """
    n, places, c, up, down, reading = (
        s.size,
        scratch.places,
        scratch.grades,
        scratch.up,
        scratch.down,
        scratch.reading,
    )
    metric = NDCG if params.mode == _DCG else params.mode - 1
    gather(scratch.target, places, c)
    ideal = 1.0 if params.mode == _DCG else divisor
    swap_rows(metric, c, n, 0.0, ideal, up, down, reading)
    # Weight each pair by the change of the metric if its documents swap.
    reach = params.neighbors if params.neighbors > 0 else n
    value = 0.0
    for pos in range(depth):
        between, passing = 0.0, 1.0
        for other in range(pos + 1, min(n, pos + 1 + reach)):
            change = up[pos] - down[other]
            if metric == ERR:
                reached = passing / (other + 1.0)
                change = reading[pos] * (1.0 / (pos + 1.0) - between - reached)
                between += reached * c[other]
                passing *= 1.0 - c[other]
            w = (c[pos] - c[other]) * change / params.permutations
            value += _add_pair(s, places[pos], places[other], w, grad, hess)
    return value


@inline
def _add_pair(
    s: Float64Array, i: int, j: int, w: float, grad: Float64Array, hess: Float64Array
) -> float:
    """Add a pair with the weight |w|, in which i is the better document if w > 0, and return its
    loss.
    """
    if w < 0.0:
        i, j, w = j, i, -w
    x = s[i] - s[j]
    wrong = expit(-x)
    grad[i] -= w * wrong
    grad[j] += w * wrong
    hess[i] += w * wrong * (1.0 - wrong)
    hess[j] += w * wrong * (1.0 - wrong)
    return w * softplus(min(-x, LARGEST))


def _constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    mode = str(values["mode"])
    if mode == "classic":
        return target_constants(labels, gains, ptr, values)[0], numbered_constants(
            labels, gains, ptr, values
        )[1]
    of_gains = mode in ("ndcg", "dcg")
    metric = "ndcg" if of_gains else mode
    constants = swap_constants(metric, values["k"], labels, gains, ptr, values)
    documents, queries = numbered(constants)
    return gains[:, None] if of_gains else documents, queries


SPEC = ObjectiveSpec(
    name="yetirank",
    aliases=("yeti-rank",),
    kernel=kernel,
    reference="Gulin, Kuralenok, Pavlov 2011; CatBoost yetirank_helpers.cpp",
    prepare=_constants,
    random=True,
    document_weights="gain",
)
