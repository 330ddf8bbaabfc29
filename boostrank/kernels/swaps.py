"""The changes of a ranking metric when two documents are swapped, which are pair weights in
LambdaRank and YetiRank.

With grades c (gains, relevance of 0 or 1, or stop probabilities) by rank from 0, the swap of i < j
changes the metric by |c_i - c_j| (up_i - down_j), and the two rows take one pass:

    NDCG       up_i = down_i = D(i + 1) / Z MAP        up_i = ((H_i + 1 - c_i) / (i + 1) - P_i) / R,
    down_j = (H_j / (j + 1) - P_(j-1)) / R MRR        1 / rank of the first relevant document,
    before and after the swap precision  up_i = [i < k] / k,   down_j = [j < k] / k ERR        up_i
    = Q_i (1 / (i + 1) - S_ij - M_ij / (j + 1)),   down_j = 0

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
from boostrank.kernels.primitives import discount
from boostrank.kernels.shared import RELEVANT_FROM, default_constants, relevance_constants

METRICS = ("ndcg", "map", "mrr", "err", "precision")
NDCG, MAP, MRR, ERR, PRECISION = range(len(METRICS))

MAX_GAIN = Param(
    "max_gain",
    0.0,
    "ERR: a document satisfies with probability gain / (max_gain + 1); 0: the largest of the data"
    " (of each worker's)",
    low=0.0,
)
SWAP_PARAMS = (RELEVANT_FROM, MAX_GAIN)
SWAP_SCRATCH = "grades up down reading between passing"


def swap_constants(
    metric: str,
    k: int | Int64Array,
    labels: Float64Array,
    gains: Float64Array,
    ptr: Int64Array,
    values: ParamValues,
) -> Constants:
    """Return the grade of each document, and the metric's divisor for each query in the form of
    `default_constants`.

    The divisor is R for MAP and 1 for MRR, ERR and precision, or 0 if all orders are equal. NDCG
    needs no grades.
    """
    if metric == "ndcg":
        return default_constants(labels, gains, ptr, {"k": k})
    if metric == "err":
        grades = stop_chances(gains, values)
    else:
        grades = relevance_constants(labels, gains, ptr, values)[0]
    queries = default_constants(labels, grades[:, 0], ptr, {"k": k})[1]
    relevant = np.diff(np.concatenate([[0.0], np.cumsum(grades)])[ptr]) if metric == "map" else 1.0
    queries[:, :2] = np.where(queries[:, 0] > 0.0, relevant, 0.0)[:, None]
    return grades, queries


def stop_chances(gains: Float64Array, values: ParamValues) -> Float64Array:
    """Return the probability that each document satisfies a user, as defined by ERR, float64[N,
    1].
    """
    top = values["max_gain"] or gains.max(initial=0.0)
    return np.minimum(gains / (top + 1.0), 1.0)[:, None]


@inline
def swap_rows(
    metric: int,
    grades: Float64Array,
    k: int,
    blend: float,
    divisor: float,
    up: Float64Array,
    down: Float64Array,
    reading: Float64Array,
) -> float:
    """Write the rows of the table in the module's docstring, and return the metric at k.

    Args:
        metric: index in `METRICS`.
        grades: float64[n], c by rank.
        blend: blend of the training discount, see `primitives.discount`.
        divisor: Z or R from `swap_constants`, > 0.
        up, down: float64[n], written; up is 0 for ERR, see `err_row`.
        reading: float64[n], written for ERR: Q.
    """
    n, value = grades.shape[0], 0.0
    if metric == NDCG:
        for pos in range(n):
            up[pos] = discount(pos + 1.0, blend, n) / divisor
            down[pos] = up[pos]
            if pos < k:
                value += grades[pos] * up[pos]
    elif metric == MAP:
        hits, shares = 0.0, 0.0
        for pos in range(n):
            hits += grades[pos]
            precision = hits / (pos + 1.0)
            down[pos] = (precision - shares) / divisor
            shares += grades[pos] / (pos + 1.0)
            up[pos] = (precision + (1.0 - grades[pos]) / (pos + 1.0) - shares) / divisor
            if pos < k:
                value += grades[pos] * precision / divisor
    elif metric == MRR:
        first, second = n, n
        for pos in range(n - 1, -1, -1):
            if grades[pos] > 0.0:
                first, second = pos, first
        # The first relevant position after a swap with one below, and before or after one with
        # another above.
        for pos in range(n):
            relevant = grades[pos] > 0.0
            upper = min(pos, first) if not relevant else (first if pos == first else second)
            lower = first if relevant else min(pos, second)
            up[pos], down[pos] = 1.0 / (upper + 1.0), 1.0 / (lower + 1.0)
        value = 1.0 / (first + 1.0) if first < k else 0.0
    elif metric == ERR:
        unsatisfied = 1.0
        for pos in range(n):
            up[pos], down[pos], reading[pos] = 0.0, 0.0, unsatisfied
            if pos < k:
                value += unsatisfied * grades[pos] / (pos + 1.0)
            unsatisfied *= 1.0 - grades[pos]
    else:
        for pos in range(n):
            up[pos] = 1.0 / k if pos < k else 0.0
            down[pos] = up[pos]
            value += grades[pos] * up[pos]
    return value


@inline
def err_row(
    j: int,
    depth: int,
    grades: Float64Array,
    up: Float64Array,
    reading: Float64Array,
    between: Float64Array,
    passing: Float64Array,
) -> None:
    """Write the row `up` of ERR for swaps of the first `depth` documents with that at position j =
    1, 2, ... in turn.

    `between` and `passing` keep S and M from one call to the next.
    """
    if j <= depth:
        between[j - 1], passing[j - 1] = 0.0, 1.0
    share, left = 1.0 / (j + 1.0), 1.0 - grades[j]
    for i in range(min(j, depth)):
        reach = passing[i] * share
        up[i] = reading[i] * (1.0 / (i + 1.0) - between[i] - reach)
        between[i] += reach * grades[j]
        passing[i] *= left
