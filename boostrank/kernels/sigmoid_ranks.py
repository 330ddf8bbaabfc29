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

    J = sum_i (g_i / Z) D(rank_i) W(rank_i),   W(r) = 1 / (1 + exp((r - cut) / width)),   c_i = dJ /
    drank_i <= 0

Where ranks exceed n + 1 (smoothed hinges inflate the rank of misplaced documents) the linear
discount is negative, and the product rule's D W' would push a relevant document down. There, W
multiplies only the slope, so the linear part continues as -(1/n) times the integral of W, which is
smooth, never rises, and equals the plain discount where W is 1.
"""

from __future__ import annotations

import math
from typing import Any

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import (
    DIRECT,
    EXACT,
    SIGMOID,
    SLOPE,
    add_curve,
    add_odd_and_even,
    decays,
)
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.primitives import LN2, bounded, fast_exp, fast_log, ideal_dcg, softplus

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
    r, state, pull, ones = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n : 4 * n]
    if pair_by_pair(sums, n):
        sigmoid_ranks(s, alpha, ranks, r)
        return
    decays(s, alpha, r)
    # 1 + sum below P + sum above (1 - P), and sum_j w_ij for the gradients.
    for i in range(n):
        ones[i], pull[i], ranks[i] = 1.0, 0.0, 1.0 + i
    if sums == EXACT:
        add_odd_and_even(r, ones, SIGMOID[EXACT], SLOPE[EXACT], ranks, pull, state)
    else:
        add_odd_and_even(r, ones, SIGMOID[0], SLOPE[0], ranks, pull, state)


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
    r, state, pull, weighted = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n : 4 * n]
    if pair_by_pair(sums, n):
        rank_gradient(s, alpha, slope, grad, hess, r)
        return
    # sum_j w_pj c_j
    weighted[:] = 0.0
    add_curve(sums, SLOPE, r, slope, 1.0, 1.0, weighted, state)
    highest = -math.inf
    for i in range(n):
        grad[i] -= alpha * (weighted[i] - slope[i] * pull[i])
        hess[i] += alpha * alpha * abs(slope[i]) * pull[i]
        highest = max(highest, slope[i])
    # sum_j w_pj |c_j|; slopes of one sign need no third sum.
    if highest > 0.0:
        for i in range(n):
            pull[i], weighted[i] = abs(slope[i]), 0.0
        add_curve(sums, SLOPE, r, pull, 1.0, 1.0, weighted, state)
    for i in range(n):
        hess[i] += alpha * alpha * abs(weighted[i])


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
        total = 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            ranks[i] += e * above
            total += above
        ranks[j] += total


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
        c = slope[j]
        pull, curvature = 0.0, 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            w = alpha * e * above * above
            f = w * (c - slope[i])
            h = alpha * w * (abs(slope[i]) + abs(c))
            grad[i] -= f
            hess[i] += h
            pull += f
            curvature += h
        grad[j] += pull
        hess[j] += curvature


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
    value = 0.0
    if math.isinf(cut):
        for i in range(n):
            r, g = ranks[i], gains[i] / ideal
            log = fast_log(1.0 + r)
            slope[i] = -g * ((1.0 - blend) * LN2 / ((1.0 + r) * log * log) + blend / n)
            value += g * ((1.0 - blend) * LN2 / log + blend * (1.0 - (r - 1.0) / n))
        return bounded(value)
    for i in range(n):
        r, g = ranks[i], gains[i] / ideal
        x = (cut - r) / width
        e = fast_exp(max(-abs(x), -_FAR))
        e = 0.0 if abs(x) > _FAR else e
        weight, weight_slope = (
            (1.0 if x >= 0.0 else e) / (1.0 + e),
            -e / ((1.0 + e) * (1.0 + e)) / width,
        )
        log = fast_log(1.0 + r)
        # Two parts: the discount up to rank n + 1, and the linear part below zero beyond it.
        d = (1.0 - blend) * LN2 / log + blend * max(1.0 - (r - 1.0) / n, 0.0)
        d_slope = -(1.0 - blend) * LN2 / ((1.0 + r) * log * log) - blend / n
        slope[i] = g * (d_slope * weight + d * weight_slope)
        value += g * d * weight
    if blend > 0.0:
        for i in range(n):
            if ranks[i] > n + 1.0:
                sunk = softplus(bounded((cut - (n + 1.0)) / width)) - softplus(
                    bounded((cut - ranks[i]) / width)
                )
                value -= gains[i] / ideal * blend / n * width * sunk
    return bounded(value)


SIGMOID_DCG_SCRATCH = "ranks slope work:4"


@inline
def sigmoid_dcg(
    query: Any,
    params: Any,
    alpha: float,
    cut: float,
    tau: float,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Any,
) -> float:
    """Return -J of one query of SDCG or ApproxNDCG, and compute its gradient and curvature; see
    `smooth_dcg`.
    """
    sums, blend = params.sums, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if query.scores.size < 2 or ideal <= 0.0:
        return 0.0
    soft_ranks(sums, query.scores, alpha, scratch.ranks, scratch.work)
    value = smooth_dcg(scratch.ranks, query.gains, ideal, blend, cut, tau, scratch.slope)
    soft_gradient(sums, query.scores, alpha, scratch.slope, grad, hess, scratch.work)
    return -value


AP_SCRATCH = "ranks slope work:4 keys pull bend among worth inner:4"


@inline
def smooth_precisions(sums: int, m: int, sharpness: float, scratch: Any) -> float:
    """Return the average precision, which is the mean over the m relevant documents of the quotient
    of two ranks.

    The scratch row `ranks` contains the ranks among all documents. The ranks among the relevant
    documents, whose positions are `relevant`, follow from the descending `keys`. The derivatives by
    `ranks` are written to `slope`, the gradient by `keys` and its curvature to `pull` and `bend`.
    """
    relevant, among, worth, keys = (
        scratch.place[:m],
        scratch.among[:m],
        scratch.worth[:m],
        scratch.keys[:m],
    )
    inner, pull, bend, ranks, slope = (
        scratch.inner[: 4 * m],
        scratch.pull,
        scratch.bend,
        scratch.ranks,
        scratch.slope,
    )
    soft_ranks(sums, keys, sharpness, among, inner)
    slope[:] = 0.0
    pull[:] = 0.0
    bend[:] = 0.0
    value = 0.0
    for a in range(m):
        worth[a] = 1.0 / (m * ranks[relevant[a]])
        precision = among[a] / ranks[relevant[a]]
        value += precision / m
        slope[relevant[a]] = -worth[a] * precision
    soft_gradient(sums, keys, sharpness, worth, pull[:m], bend[:m], inner)
    return value


@inline
def first_of(
    positions: Int64Array,
    s: Float64Array,
    alpha: float,
    ranks: Float64Array,
    draws: float,
    first: Float64Array,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
) -> float:
    """Return the expected reciprocal rank of the first among some documents, for SmoothMRR and
    SmoothERR.

    Args:
        positions: int64[m], positions of these documents.
        draws: divisor of the amounts added to the arrays below.
        first: float64[m], written: the probability that each document is the first.
        slope: array to which the derivatives by the ranks are added.
        grad, hess: arrays to which the gradient and a curvature through the probabilities are
            added.
    """
    m, total, value = positions.size, 0.0, 0.0
    for a in range(m):
        first[a] = math.exp(alpha * (s[positions[a]] - s[positions[0]]))
        total += first[a]
    for a in range(m):
        first[a] /= total
        value += first[a] / ranks[positions[a]]
    for a in range(m):
        p = positions[a]
        share = first[a] / draws
        slope[p] -= share / (ranks[p] * ranks[p])
        better = alpha * share * (1.0 / ranks[p] - value)
        grad[p] -= better
        hess[p] += alpha * abs(better)
    return value
