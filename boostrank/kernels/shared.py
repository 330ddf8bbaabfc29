"""The parameters and functions that objectives share: constants, binary relevance, softmax and
squared error.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.jit import inline
from boostrank.kernels.primitives import IDEAL_LINEAR, IDEAL_LOG, bounded


class Query(NamedTuple):
    """The arrays of one query, in the form that a kernel takes."""

    scores: Float64Array
    gains: Float64Array
    order: Int64Array
    doc_const: Float64Array
    query_const: Float64Array


TRAIN_DISCOUNT = Param(
    "train_discount",
    0.0,
    "discount of a rank during training: log as in DCG, linear (1 - (rank - 1) / n), or a blend"
    " between them",
    low=0.0,
    high=1.0,
    schedulable=True,
    levels=(("log", 0.0), ("linear", 1.0)),
)
"""The parameter for every objective that discounts ranks."""

K = Param(
    "k",
    0,
    "rank at which the objective is cut off; 0 means the whole list (often the better choice for"
    " training)",
    low=0,
    unit="rank",
    aliases=("truncation", "truncation_level", "at"),
)
"""The parameter for every objective with a cut-off."""


def positive(
    name: str, default: float, help: str, unit: str = "", aliases: tuple[str, ...] = ()
) -> Param:
    """Return a parameter for a width or sharpness, which is above 0, on a log scale, and may be a
    schedule.
    """
    return Param(
        name,
        default,
        help,
        low=0.0,
        open_low=True,
        log=True,
        schedulable=True,
        unit=unit,
        aliases=aliases,
    )


SIGMA = positive(
    "sigma",
    1.0,
    "width of the smooth ranks; without effect from a zero start with Newton leaves (the step"
    " scales with it), but it matters with a regression part, a warm start or a schedule",
    unit="score",
)
"""The parameter for the objectives over smooth ranks."""

ALPHA = positive(
    "alpha",
    1.0,
    "sharpness of the smooth ranks; without effect from a zero start with Newton leaves",
    unit="1/score",
)
"""The parameter 1 / sigma for the objectives over smooth ranks whose papers use it."""

TAU = Param(
    "tau",
    1.0,
    "width of the truncation weight around k",
    low=0.0,
    open_low=True,
    schedulable=True,
    unit="rank",
)
"""The parameter for the objectives with a truncation weight."""

NORMALIZE = Param(
    "normalize",
    "ideal",
    "divisor of DCG: the ideal DCG of the query, or none. Without it DCG is linear in the gains, so"
    " clicks over exposure (without a prior, with gain_base=zero) estimate its gradient without"
    " bias",
    choices=("ideal", "none"),
    aliases=("normalise",),
)
"""Shared by the objectives that are DCG over smooth ranks."""

KTH_GAIN, QUERY_NUMBER = 2, 3
"""The columns of query constants after the ideals, from `default_constants` and `numbered`."""


def default_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return no document constants and three query constants, where `values["k"]` is a number or
    int64[Q].

    `IDEAL_LOG` and `IDEAL_LINEAR` are the ideal DCG at `k` (0: whole list) with the log and the
    linear discount, which `primitives.ideal_dcg` blends, as a blend of discounts has the blend of
    their ideals. Both are 0 if all documents have the same gain, because all orders are then equal
    and kernels skip the query. `KTH_GAIN` is the k-th largest gain.

    If `values["normalize"]` is none, both ideals are 1 instead, and 0 in queries without gain; a
    sum linear in the gains needs no other exception.
    """
    longest, queries = int(np.diff(ptr).max(initial=0)), np.zeros((ptr.size - 1, 3))
    cutoffs = np.broadcast_to(np.asarray(values.get("k", 0), np.int64), ptr.size - 1)
    log_discounts = np.array([1.0 / math.log2(1.0 + rank) for rank in range(1, longest + 1)])
    for q, (a, b) in enumerate(pairwise(ptr)):
        n = b - a
        if n == 0:
            continue
        # Best possible ranking, and its discounted gains up to the cut-off, added by rank.
        descending, depth = np.sort(gains[a:b])[::-1], min(cutoffs[q] or n, n)
        queries[q, KTH_GAIN] = descending[depth - 1]
        if values.get(NORMALIZE.name) == "none":
            queries[q, [IDEAL_LOG, IDEAL_LINEAR]] = descending.any()
        elif descending[0] != descending[-1]:
            linear_discounts = 1.0 - np.arange(depth) / n
            queries[q, IDEAL_LOG] = np.cumsum(descending[:depth] * log_discounts[:depth])[-1]
            queries[q, IDEAL_LINEAR] = np.cumsum(descending[:depth] * linear_discounts)[-1]
    return np.zeros((gains.size, 0)), queries


def numbered(constants: Constants) -> Constants:
    """Append `QUERY_NUMBER`, the stream of a query's noise, to the constants of each query."""
    documents, queries = constants
    return documents, np.column_stack([queries, np.arange(len(queries))])


def numbered_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return `default_constants` with the `QUERY_NUMBER`."""
    return numbered(default_constants(labels, gains, ptr, values))


RELEVANT_FROM = Param(
    "relevant_from",
    0.0,
    "the smallest label that is relevant, as in the metrics; 0 means every label above 0",
    low=0.0,
)
"""The parameter for every objective of a binary metric."""

RELEVANT, RELEVANT_COUNT = 0, 0
"""The columns of a document and of a query in `relevance_constants`."""


def relevance_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return 1 for relevant and 0 for other documents, and each query's number of relevant ones.

    The number is 0 if all documents are relevant, because all orders are then equal and kernels
    skip the query.
    """
    threshold = values["relevant_from"]
    relevant = labels >= threshold if threshold > 0 else labels > 0
    count = np.diff(np.concatenate([[0], np.cumsum(relevant)])[ptr])
    count[count == np.diff(ptr)] = 0
    return relevant.astype(np.float64)[:, None], count.astype(np.float64)[:, None]


_BLOCK = 512


@inline
def softmax(
    scores: Float64Array, shares: Float64Array, other_shares: Float64Array
) -> tuple[float, float]:
    """Write softmax(s)_i, and 1 - softmax(s)_i as the sum of the other shares, exact even near 0.

    Scores are finite, and there is at least one.

    Returns:
        ln sum_i e^(s_i - t) for the largest score t, and t itself, so that differences to a score
        keep their digits.
    """
    n = scores.shape[0]
    top = 0
    for i in range(n):
        if scores[i] > scores[top]:
            top = i
    # Sum in blocks: adding a million equal numbers one by one would cost five digits.
    others, block_sum = 0.0, 0.0
    for i in range(n):
        shares[i] = math.exp(scores[i] - scores[top])
        if i != top:
            block_sum += shares[i]
        if i % _BLOCK == _BLOCK - 1:
            others += block_sum
            block_sum = 0.0
    others += block_sum
    exp_sum = 1.0 + others
    for i in range(n):
        other_shares[i] = (others if i == top else exp_sum - shares[i]) / exp_sum
        shares[i] /= exp_sum
    return math.log(exp_sum), scores[top]


TARGETS = ("labels", "gains")
TARGET, WEIGHT = 0, 1
"""The columns of a document in `target_constants`."""

DOCUMENT_WEIGHTS = "document weights"
"""The key of the document weights in the values for `prepare`, for objectives that weight losses.
"""


def target_param(default: str) -> Param:
    """Return the parameter for the squared error's target, whose default depends on the objective's
    paper.
    """
    return Param(
        "target", default, "what the regression part predicts: labels or gains", choices=TARGETS
    )


def mix_param(default: float, help: str) -> Param:
    """Return the parameter for the squared error's share, for which each objective has its own
    schedule.
    """
    return Param(
        "mix",
        default,
        f"share of the regression; {help} unless given",
        low=0.0,
        high=1.0,
        schedulable=True,
    )


def target_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return the target and the weight of each document, and the query constants of
    `default_constants`.
    """
    target = labels if values["target"] == "labels" else gains
    weights = np.broadcast_to(
        np.asarray(values.get(DOCUMENT_WEIGHTS, 1.0), np.float64), labels.size
    )
    return np.column_stack([target, weights]), default_constants(labels, gains, ptr, values)[1]


@inline
def mix_squared_error(query: Query, share: float, grad: Float64Array, hess: Float64Array) -> float:
    """Turn the gradient of a loss L into that of share * R + (1 - share) * L, R = (1/2n) sum_i (s_i
    - t_i)^2; return R.

    The query and the outputs are in the order of the rows, and t is the column `TARGET` of
    `doc_const`.
    """
    n = query.scores.size
    error = 0.0
    for i in range(n):
        residual = query.scores[i] - query.doc_const[i, TARGET]
        error += 0.5 * residual * residual / n
        grad[i] = share * residual / n + (1.0 - share) * grad[i]
        hess[i] = share / n + (1.0 - share) * hess[i]
    return bounded(error)
