"""LambdaRank: pairs weighted by the change of NDCG (or of another metric) in a swap, as in
LightGBM.

    pairs with g_i > g_j and at least one document among the first `truncation_level`, x = s_i - s_j
    w    = |change of the metric|, for NDCG |g_i - g_j| |D(rank_i) - D(rank_j)| / Z,
           over 0.01 + |x| if norm_distance
    rho  = 1 / (1 + exp(sigmoid x))
    gradient sigmoid w rho, up on i and down on j;   curvature sigmoid^2 w rho (1 - rho)
    both times log2(1 + S) / S, S = sum of 2 sigmoid w rho, if norm_query

Z is the ideal DCG at the truncation level. No function has this gradient, since w jumps when the
order changes; the reported loss is minus the hard metric at the truncation level.

`metric` selects NDCG, MAP, MRR, ERR or precision; `kernels.swaps` defines the changes. Relevance
and the probabilities of ERR are those of boostrank's metrics. The truncation level selects the
pairs. Their changes are measured by the metric of the whole list, except that precision is cut off
at that level. A training's own option `metric` is the metric that it reports, so write
`lambdarank(metric=map)` or CatBoost's `LambdaMart:metric=MAP`.

Source: Burges, "From RankNet to LambdaRank to LambdaMART", 2010; LightGBM
src/objective/rank_objective.hpp; for MAP and MRR, Donmez, Svore, Burges, "On the local optimality
of LambdaRank", SIGIR 2009. MAP is XGBoost's `rank:map`, whose Hessian is twice this one.
Deviations: equal gains make no pair (LightGBM: equal labels); sums are doubles, without a look-up
table of sigmoids (`lightgbm_rounding` restores both); the two parts of `lambdarank_norm` are two
switches.

Hessian: a proxy, the curvature of the pair losses with constant w.
Cost: n times the truncation level, and n exponentials. ERR updates two more numbers per pair.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("lambdarank(metric=map)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.583], [-0.49, 1.086, -0.727, 0.131])
"""

import math

import numpy as np

from boostrank.core.params import Param
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import LN2, discount, gather, ideal_dcg
from boostrank.kernels.shared import TRAIN_DISCOUNT, positive
from boostrank.kernels.sigmoid_ranks import UNDERFLOW
from boostrank.kernels.swaps import (
    ERR,
    GRADE,
    METRICS,
    NDCG,
    SWAP_PARAMS,
    SWAP_SCRATCH,
    err_row,
    swap_constants,
    swap_rows,
)

PARAMS = (
    positive("sigmoid", 1.0, "sharpness of the pair loss", unit="1/score"),
    Param(
        "truncation_level",
        30,
        "pairs need at least one document above this rank",
        low=1,
        unit="rank",
        aliases=("k", "at", "truncation", "lambdarank_truncation_level"),
    ),
    Param(
        "norm_distance", True, "damp pairs that lie far apart: weight / (0.01 + |score difference|)"
    ),
    Param("norm_query", True, "compress the total gradient of a query: log2(1 + S) / S"),
    TRAIN_DISCOUNT,
    Param(
        "lightgbm_rounding",
        False,
        "round NDCG as LightGBM does (sigmoid table, float32 sums); with hessian_scale=raw trees"
        " are bit-identical",
    ),
    Param("metric", "ndcg", "metric whose change by a swap weighs a pair", choices=METRICS),
    *SWAP_PARAMS,
)

# Distance that LightGBM adds, so that tied pairs do not explode.
_DISTANCE_OFFSET = 0.01
# LightGBM's sigmoid table: number of entries, and its range of score differences times 2 sigmoid.
_TABLE_BINS = 1024 * 1024
_TABLE_REACH = 50.0


@objective_kernel(params=PARAMS, scratch=f"{SWAP_SCRATCH} z", by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Compute the lambdas and curvatures of the pairs, and minus the hard metric as the loss."""
    n, k, blend = query.scores.size, params.truncation_level, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, grades, depth = query.scores, query.gains, min(k, n)
    if params.metric != NDCG:
        grades = scratch.grades
        gather(query.doc_const[:, GRADE], query.order, grades)
    up, down = scratch.up, scratch.down
    metric_value = swap_rows(params.metric, grades, k, blend, ideal, up, down, scratch.reads)
    damped = params.norm_distance and s[0] != s[n - 1]
    if params.lightgbm_rounding and params.metric == NDCG:
        _pair_gradient_of_lightgbm(query, params, depth, damped, ideal, grad, hess)
        return -metric_value
    magnitude = _pair_gradient(s, grades, params, depth, damped, grad, hess, scratch)
    if params.norm_query and magnitude > 0.0:
        factor = math.log1p(2.0 * magnitude) / (LN2 * 2.0 * magnitude)
        for pos in range(n):
            grad[pos] *= factor
            hess[pos] *= factor
    return -metric_value


@inline_sums
def _pair_gradient(s, grades, params, depth, damped, grad, hess, scratch):
    """Add the gradients of all pairs of the sorted documents, and return the sum of the gradients'
    magnitudes.
    """
    up, down, z, sigmoid, n = scratch.up, scratch.down, scratch.z, params.sigmoid, s.size
    offset, damping = (_DISTANCE_OFFSET, 1.0) if damped else (1.0, 0.0)
    magnitude = 0.0
    for j in range(1, n):
        # z_i becomes exp(sigmoid * (s_j - s_i)), by one factor a document.
        step = math.exp(sigmoid * (s[j] - s[j - 1]))
        if j <= depth:
            z[j - 1] = 1.0
        if params.metric == ERR:
            err_row(j, depth, grades, up, scratch.reads, scratch.between, scratch.passing)
        score, grade, down_j = s[j], grades[j], down[j]
        pull_sum, curvature_sum = 0.0, 0.0
        for i in range(min(j, depth)):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            gap = grades[i] - grade
            w = abs(gap) * (up[i] - down_j) / (offset + damping * (s[i] - score))
            above = 1.0 / (1.0 + e)
            size = sigmoid * w * (e * above if gap > 0.0 else above)
            pull = size if gap > 0.0 else -size
            curvature = sigmoid * sigmoid * w * e * above * above
            grad[i] -= pull
            hess[i] += curvature
            pull_sum += pull
            magnitude += size
            curvature_sum += curvature
        grad[j] += pull_sum
        hess[j] += curvature_sum
    return magnitude


@inline
def _pair_gradient_of_lightgbm(query, params, depth, damped, ideal, grad, hess):
    """Add the same gradients with the operations and rounding of LightGBM's
    `GetGradientsForOneQuery`, in that order.

    After a few dozen trees a difference of 1e-6 in a gradient changes a split. Bit-identical trees
    show that only rounding separates our LambdaRank from LightGBM's.
    """
    s, g, n = query.scores, query.gains, query.scores.size
    sigmoid, blend = params.sigmoid, params.train_discount
    reach = _TABLE_REACH / sigmoid / 2.0
    bins_a_unit = _TABLE_BINS / (2.0 * reach)
    inverse_ideal = 1.0 / ideal
    magnitude = 0.0
    for i in range(min(n, depth)):
        for j in range(i + 1, n):
            if g[i] == g[j]:
                continue
            high, low = (i, j) if g[i] > g[j] else (j, i)
            gap = s[high] - s[low]
            discount_gap = abs(discount(high + 1.0, blend, n) - discount(low + 1.0, blend, n))
            delta = (g[high] - g[low]) * discount_gap * inverse_ideal
            if damped:
                delta /= np.float32(_DISTANCE_OFFSET) + abs(gap)
            if gap <= -reach:
                table_bin = 0
            elif gap >= reach:
                table_bin = _TABLE_BINS - 1
            else:
                table_bin = int((gap + reach) * bins_a_unit)
            # The sigmoid at the lower end of the bin of LightGBM's table.
            rho = 1.0 / (1.0 + math.exp((table_bin / bins_a_unit - reach) * sigmoid))
            curvature = rho * (1.0 - rho) * (sigmoid * sigmoid * delta)
            pull = rho * (-sigmoid * delta)
            grad[low] = np.float32(np.float32(grad[low]) - np.float32(pull))
            hess[low] = np.float32(np.float32(hess[low]) + np.float32(curvature))
            grad[high] = np.float32(np.float32(grad[high]) + np.float32(pull))
            hess[high] = np.float32(np.float32(hess[high]) + np.float32(curvature))
            magnitude -= 2.0 * pull
    # Normalise by the logarithm of the sum.
    if params.norm_query and magnitude > 0.0:
        scale = math.log2(1.0 + magnitude) / magnitude
        for pos in range(n):
            grad[pos] = np.float32(grad[pos] * scale)
            hess[pos] = np.float32(hess[pos] * scale)


SPEC = ObjectiveSpec(
    name="lambdarank",
    aliases=("lambdamart",),
    kernel=kernel,
    exact_gradient=False,
    reference="Burges 2010; LightGBM rank_objective.hpp",
    prepare=swap_constants,
    document_weights="gain",
)
