"""The changes of a ranking metric when two documents are swapped, which are pair weights in
LambdaRank and YetiRank.

With grades c (gains, relevance of 0 or 1, or stop probabilities) by rank from 0, the swap of i < j
changes the metric by |c_i - c_j| (up_i - down_j), and the two rows take one pass:

    NDCG       up_i = down_i = D(i + 1) / Z
    MAP        up_i = ((H_i + 1 - c_i) / (i + 1) - P_i) / R
               down_j = (H_j / (j + 1) - P_(j-1)) / R
    MRR        1 / rank of the first relevant document, before and after the swap
    precision  up_i = [i < k] / k,   down_j = [j < k] / k
    ERR        up_i = Q_i (1 / (i + 1) - S_ij - M_ij / (j + 1)),   down_j = 0

H_i counts the relevant documents down to i and P_i sums c / rank over them. Q_i = prod_(r < i) (1 -
c_r) is the probability that a user reads i; M_ij is that product and S_ij = sum c_r M_ir / (r + 1)
the ERR strictly between i and j. `err_row` moves S and M from j to j + 1 by one operation per pair,
without a difference that loses digits.

The changes are those of the metric of the whole list, as in LightGBM and XGBoost (`rank:map`); only
precision has a cut-off of its own.
"""

from __future__ import annotations

import numpy as np

from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.jit import inline
from boostrank.kernels.primitives import IDEAL_LINEAR, IDEAL_LOG, discount
from boostrank.kernels.shared import RELEVANT_FROM, default_constants, relevance_constants

METRICS = ("ndcg", "map", "mrr", "err", "precision")
NDCG, MAP, MRR, ERR, PRECISION = range(len(METRICS))

GRADE = 0
"""The column of a document in `swap_constants`."""

MAX_GAIN = Param(
    "max_gain",
    0.0,
    "ERR: a document satisfies with probability gain / (max_gain + 1); 0: the largest of the data"
    " (of each worker's)",
    low=0.0,
)
SWAP_PARAMS = (RELEVANT_FROM, MAX_GAIN)
SWAP_SCRATCH = "grades up down reads between passing"


def swap_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return the grade of each document for the metric in the values, and its divisor for each
    query in the form of `default_constants`.

    The divisor, in place of both ideals, is R for MAP and 1 for MRR, ERR and precision, or 0 if all
    orders are equal. NDCG needs no grades. The cut-off is `k` or `truncation_level`.
    """
    metric, k = values["metric"], values.get("k", values.get("truncation_level", 0))
    if metric == "ndcg":
        return default_constants(labels, gains, ptr, {"k": k})
    if metric == "err":
        grades = stop_chances(gains, values)
    else:
        grades, _ = relevance_constants(labels, gains, ptr, values)
    _, queries = default_constants(labels, grades[:, GRADE], ptr, {"k": k})
    divisor = np.diff(np.concatenate([[0.0], np.cumsum(grades)])[ptr]) if metric == "map" else 1.0
    divisor = np.where(queries[:, IDEAL_LOG] > 0.0, divisor, 0.0)
    queries[:, IDEAL_LOG] = queries[:, IDEAL_LINEAR] = divisor
    return grades, queries


def stop_chances(gains: Float64Array, values: ParamValues) -> Float64Array:
    """Return the probability that each document satisfies a user, as defined by ERR, float64[N,
    1].
    """
    max_gain = values["max_gain"] or gains.max(initial=0.0)
    return np.minimum(gains / (max_gain + 1.0), 1.0)[:, None]


@inline
def swap_rows(
    metric: int,
    grades: Float64Array,
    k: int,
    blend: float,
    divisor: float,
    up: Float64Array,
    down: Float64Array,
    reads: Float64Array,
) -> float:
    """Write the rows of the table in the module's docstring, and return the metric at k.

    Args:
        metric: index in `METRICS`.
        grades: float64[n], c by rank.
        blend: blend of the training discount, see `primitives.discount`.
        divisor: Z or R from `swap_constants`, > 0.
        up, down: float64[n], written; up is 0 for ERR, see `err_row`.
        reads: float64[n], written for ERR: Q.
    """
    n, metric_value = grades.shape[0], 0.0
    if metric == NDCG:
        for pos in range(n):
            up[pos] = discount(pos + 1.0, blend, n) / divisor
            down[pos] = up[pos]
            if pos < k:
                metric_value += grades[pos] * up[pos]
    elif metric == MAP:
        relevant_so_far, precision_sum = 0.0, 0.0
        for pos in range(n):
            relevant_so_far += grades[pos]
            precision = relevant_so_far / (pos + 1.0)
            down[pos] = (precision - precision_sum) / divisor
            precision_sum += grades[pos] / (pos + 1.0)
            up[pos] = (precision + (1.0 - grades[pos]) / (pos + 1.0) - precision_sum) / divisor
            if pos < k:
                metric_value += grades[pos] * precision / divisor
    elif metric == MRR:
        first, second = n, n
        for pos in range(n - 1, -1, -1):
            if grades[pos] > 0.0:
                first, second = pos, first
        # The first relevant position after a swap with one below, and before or after one with
        # another above.
        for pos in range(n):
            if grades[pos] > 0.0:
                upper, lower = first if pos == first else second, first
            else:
                upper, lower = min(pos, first), min(pos, second)
            up[pos], down[pos] = 1.0 / (upper + 1.0), 1.0 / (lower + 1.0)
        metric_value = 1.0 / (first + 1.0) if first < k else 0.0
    elif metric == ERR:
        chance = 1.0
        for pos in range(n):
            up[pos], down[pos], reads[pos] = 0.0, 0.0, chance
            if pos < k:
                metric_value += chance * grades[pos] / (pos + 1.0)
            chance *= 1.0 - grades[pos]
    else:
        for pos in range(n):
            up[pos] = 1.0 / k if pos < k else 0.0
            down[pos] = up[pos]
            metric_value += grades[pos] * up[pos]
    return metric_value


@inline
def err_row(
    j: int,
    depth: int,
    grades: Float64Array,
    up: Float64Array,
    reads: Float64Array,
    between: Float64Array,
    passing: Float64Array,
) -> None:
    """Write the row `up` of ERR for swaps of the first `depth` documents with that at position j =
    1, 2, ... in turn.

    `between` and `passing` keep S and M from one call to the next.
    """
    if j <= depth:
        between[j - 1], passing[j - 1] = 0.0, 1.0
    inverse_rank, goes_on = 1.0 / (j + 1.0), 1.0 - grades[j]
    for i in range(min(j, depth)):
        reached = passing[i] * inverse_rank
        up[i] = reads[i] * (1.0 / (i + 1.0) - between[i] - reached)
        between[i] += reached * grades[j]
        passing[i] *= goes_on
