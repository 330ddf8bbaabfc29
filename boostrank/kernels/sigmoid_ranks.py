"""Smooth ranks by a sigmoid, and the pair gradients of any function of these ranks.

rank_i = 1 + sum_{j != i} P_ij with P_ij = 1 / (1 + exp(alpha (s_i - s_j))), alpha = 1 / sigma. For
any objective J of these ranks with c_i = dJ / drank_i the gradient simplifies to (Qin, Liu, Li
2010, eqs (35) and (38))

    dJ/ds_p = alpha sum_j w_pj (c_j - c_p),     w = P (1 - P)

In all functions the arrays are float64[n] by descending score, alpha is the sharpness of the ranks
(1 / score), and `slope` is c. The gradient of -J, and a bound on its curvature, alpha^2 sum_j w_pj
(|c_p| + |c_j|), are added to `grad` and `hess`.

`soft_ranks` and `soft_gradient` select between sums of exponentials (`kernels.expsum`), which are
near-linear in n, and the pair loops `sigmoid_ranks` and `rank_gradient`, which are the reference
and faster for short lists. In a pair loop z_ij = exp(-alpha (s_i - s_j)) <= 1 for i above j, and
the step from j - 1 to j multiplies every z_ij by one number. So a query takes n exponentials
instead of n^2, in an inner loop without branches or calls (0.2 to 0.6 ns per pair for 100 documents
or more, against 7 to 10 with one `exp` each).

`smooth_dcg` is the DCG of smooth ranks with a smooth cut-off, and its derivative with respect to
each rank:

    J    = sum_i (g_i / Z) D(rank_i) W(rank_i),   W(r) = 1 / (1 + exp((r - cut) / width))
    c_i  = dJ / drank_i <= 0

Where ranks exceed n + 1 (smoothed hinges inflate the rank of misplaced documents) the linear
discount is negative, and the product rule's D W' would push a relevant document down. There, W
multiplies only the slope, so the linear part continues as -(1/n) times the integral of W, which is
smooth, never rises, and equals the plain discount where W is 1.
"""

from __future__ import annotations

import math

from boostrank.core.types import Float64Array
from boostrank.kernels.expsum import (
    DIRECT,
    SIGMOID,
    SLOPE,
    add_odd_and_even,
    add_sums,
    decays,
)
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.objective import Params, Query, Scratch
from boostrank.kernels.primitives import LN2, bounded, fast_exp, fast_log, ideal_dcg, softplus
from boostrank.kernels.shared import RELEVANT, RELEVANT_COUNT

# Smaller pair weights are 0: subnormal numbers would slow down all later steps a hundredfold. The
# comparison keeps NaN.
UNDERFLOW = 1e-300
# Shorter lists go pair by pair. Measured with approx-ndcg per document: 48 ns by sums and 69 by
# pairs at 32 documents, 42 and 69 at 48. `expsum.ROOM` is the minimum.
SHORT = 32


@inline
def pair_by_pair(sums: int, n: int) -> bool:
    """Return True if pair loops are requested or are faster."""
    return sums == DIRECT or n < SHORT


@inline
def soft_ranks(
    sums: int, s: Float64Array, alpha: float, ranks: Float64Array, work: Float64Array
) -> None:
    """Write the smooth rank of every document, by the method that `sums` (index in `SUMS`) and the
    length select.

    `work` is float64[4 n], written; `soft_gradient` reads it.
    """
    n = s.shape[0]
    steps, state = work[:n], work[n : 2 * n]
    pair_weights, ones = work[2 * n : 3 * n], work[3 * n :]
    if pair_by_pair(sums, n):
        sigmoid_ranks(s, alpha, ranks, steps)
        return
    decays(s, alpha, steps)
    # 1 + sum below P + sum above (1 - P), and sum_j w_ij for the gradients.
    for i in range(n):
        ones[i], pair_weights[i], ranks[i] = 1.0, 0.0, 1.0 + i
    add_odd_and_even(steps, ones, SIGMOID, SLOPE, ranks, pair_weights, state)


@inline
def soft_gradient(
    sums: int,
    s: Float64Array,
    alpha: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    work: Float64Array,
) -> None:
    """Add the gradient and curvature by the method of `soft_ranks`, given the `work` that it has
    written.
    """
    n = s.shape[0]
    steps, state = work[:n], work[n : 2 * n]
    pair_weights, weighted_slopes = work[2 * n : 3 * n], work[3 * n :]
    if pair_by_pair(sums, n):
        rank_gradient(s, alpha, slope, grad, hess, steps)
        return
    # sum_j w_pj c_j
    weighted_slopes[:] = 0.0
    add_sums(steps, slope, SLOPE, 1.0, weighted_slopes, state)
    highest = -math.inf
    for i in range(n):
        grad[i] -= alpha * (weighted_slopes[i] - slope[i] * pair_weights[i])
        hess[i] += alpha * alpha * abs(slope[i]) * pair_weights[i]
        highest = max(highest, slope[i])
    # sum_j w_pj |c_j|; slopes of one sign need no third sum.
    if highest > 0.0:
        for i in range(n):
            pair_weights[i], weighted_slopes[i] = abs(slope[i]), 0.0
        add_sums(steps, pair_weights, SLOPE, 1.0, weighted_slopes, state)
    for i in range(n):
        hess[i] += alpha * alpha * abs(weighted_slopes[i])


@inline_sums
def sigmoid_ranks(s: Float64Array, alpha: float, ranks: Float64Array, z: Float64Array) -> None:
    """Write the smooth rank of every document, from 1, where the ranks sum to n (n + 1) / 2. `z` is
    overwritten.
    """
    n = s.shape[0]
    for i in range(n):
        ranks[i] = 1.0
    for j in range(1, n):
        # Update z_ij = exp(-alpha (s_i - s_j)) for all i above j, and add P to both ranks.
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        above_sum = 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            ranks[i] += e * above
            above_sum += above
        ranks[j] += above_sum


@inline_sums
def rank_gradient(
    s: Float64Array,
    alpha: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    """Add the gradient and curvature pair by pair; `z` is overwritten."""
    n = s.shape[0]
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        slope_j = slope[j]
        pull_sum, curvature_sum = 0.0, 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            w = alpha * e * above * above
            pull = w * (slope_j - slope[i])
            curvature = alpha * w * (abs(slope[i]) + abs(slope_j))
            grad[i] -= pull
            hess[i] += curvature
            pull_sum += pull
            curvature_sum += curvature
        grad[j] += pull_sum
        hess[j] += curvature_sum


_FAR = 600.0  # distance from the cut, in widths, beyond which a weight is 0 or 1


@inline_sums
def smooth_dcg(
    ranks: Float64Array,
    gains: Float64Array,
    ideal: float,
    blend: float,
    cut: float,
    width: float,
    slope: Float64Array,
) -> float:
    """Return J, and write its derivatives to `slope`.

    Args:
        ideal: Z > 0.
        blend: blend of the training discount, see `primitives.discount`.
        cut: rank at which the weight is 1/2; infinity for no cut-off.
        width: width of the transition of the weight, in ranks.
    """
    n = ranks.shape[0]
    dcg = 0.0
    if math.isinf(cut):
        for i in range(n):
            rank, gain = ranks[i], gains[i] / ideal
            log_rank = fast_log(1.0 + rank)
            log_slope = (1.0 - blend) * LN2 / ((1.0 + rank) * log_rank * log_rank)
            slope[i] = -gain * (log_slope + blend / n)
            dcg += gain * ((1.0 - blend) * LN2 / log_rank + blend * (1.0 - (rank - 1.0) / n))
        return bounded(dcg)
    for i in range(n):
        rank, gain = ranks[i], gains[i] / ideal
        x = (cut - rank) / width
        decay = fast_exp(max(-abs(x), -_FAR))
        decay = 0.0 if abs(x) > _FAR else decay
        weight = (1.0 if x >= 0.0 else decay) / (1.0 + decay)
        weight_slope = -decay / ((1.0 + decay) * (1.0 + decay)) / width
        log_rank = fast_log(1.0 + rank)
        # Two parts: the discount up to rank n + 1, and the linear part below zero beyond it.
        discount = (1.0 - blend) * LN2 / log_rank + blend * max(1.0 - (rank - 1.0) / n, 0.0)
        discount_slope = -(1.0 - blend) * LN2 / ((1.0 + rank) * log_rank * log_rank) - blend / n
        slope[i] = gain * (discount_slope * weight + discount * weight_slope)
        dcg += gain * discount * weight
    if blend > 0.0:
        for i in range(n):
            if ranks[i] > n + 1.0:
                # The integral of W from rank n + 1 to this one, in widths.
                area_from_end = softplus(bounded((cut - (n + 1.0)) / width))
                area = area_from_end - softplus(bounded((cut - ranks[i]) / width))
                dcg -= gains[i] / ideal * blend / n * width * area
    return bounded(dcg)


SIGMOID_DCG_SCRATCH = "ranks slope work:4"


@inline
def sigmoid_dcg(
    query: Query,
    params: Params,
    alpha: float,
    cut: float,
    tau: float,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Scratch,
) -> float:
    """Return -J of one query of SDCG or ApproxNDCG, and compute its gradient and curvature; see
    `smooth_dcg`.
    """
    sums, blend = params.sums, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if query.scores.size < 2 or ideal <= 0.0:
        return 0.0
    soft_ranks(sums, query.scores, alpha, scratch.ranks, scratch.work)
    dcg = smooth_dcg(scratch.ranks, query.gains, ideal, blend, cut, tau, scratch.slope)
    soft_gradient(sums, query.scores, alpha, scratch.slope, grad, hess, scratch.work)
    return -dcg


AP_SCRATCH = "ranks slope work:4 keys key_ranks key_slope key_grad key_hess key_work:4"


@inline
def smooth_precisions(sums: int, m: int, sharpness: float, scratch: Scratch) -> float:
    """Return the average precision, which is the mean over the m relevant documents of the quotient
    of two ranks.

    Read are the rows `ranks`, the ranks among all documents, `relevant`, the positions of the
    relevant documents, and their descending `keys`, from which their ranks among each other follow.
    The derivatives by `ranks` are written to `slope`, the gradient by `keys` and its curvature to
    `key_grad` and `key_hess`.
    """
    relevant, ranks, slope = scratch.relevant[:m], scratch.ranks, scratch.slope
    keys, key_ranks, key_slope = scratch.keys[:m], scratch.key_ranks[:m], scratch.key_slope[:m]
    key_grad, key_hess = scratch.key_grad, scratch.key_hess
    key_work = scratch.key_work[: 4 * m]
    soft_ranks(sums, keys, sharpness, key_ranks, key_work)
    slope[:] = 0.0
    key_grad[:] = 0.0
    key_hess[:] = 0.0
    mean_precision = 0.0
    for a in range(m):
        key_slope[a] = 1.0 / (m * ranks[relevant[a]])
        precision = key_ranks[a] / ranks[relevant[a]]
        mean_precision += precision / m
        slope[relevant[a]] = -key_slope[a] * precision
    soft_gradient(sums, keys, sharpness, key_slope, key_grad[:m], key_hess[:m], key_work)
    return mean_precision


@inline
def rank_relevant(query: Query, sums: int, alpha: float, scratch: Scratch) -> int:
    """Write the smooth ranks of all documents and the positions of the relevant ones, and return
    the number of these, or 0 if the query is to be skipped.

    The query has the constants of `shared.relevance_constants` and is sorted by descending score.
    """
    m = 0
    if query.scores.size < 2 or query.query_const[RELEVANT_COUNT] == 0.0:
        return m
    soft_ranks(sums, query.scores, alpha, scratch.ranks, scratch.work)
    for pos in range(query.scores.size):
        if query.doc_const[query.order[pos], RELEVANT] > 0.0:
            scratch.relevant[m] = pos
            m += 1
    return m
