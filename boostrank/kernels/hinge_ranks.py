"""Ranks by smoothed hinges (SHF) and their pair gradients, for SHF-SDCG and REG-SHF-SDCG.

    rank_i = 1 + sum_{j != i} K_ij(s_i - s_j),   K = A where i has the higher gain, B(x) = 1 + A(-x) where the lower,
                                                 and for equal gains the sigmoid G, or a constant 1/2

| shf_kernel | A(x), u = x / sigma |
|---|---|
| softplus | ln(1 + e^-u) |
| softplus2 | log2(1 + e^-u); equal gains use it too, so every rank is at least the hard rank |
| tangent | G(x) for x >= 0, its tangent 1/2 - u/4 for x < 0 |
| softplus_unit | sigma ln(1 + e^-u) |

A is convex, so the gradient of a misordered pair never vanishes. B(x) = 1 + A(-x) makes both documents of a pair pull
the same way: the one with the higher gain up by (|c_i| + |c_j|) |A'|, the other down by as much.

All functions take documents in descending order of score. Lists from `SHORT` documents on take the near-linear way, by
sums; the pair loops here are the reference. They carry z_ij = exp(-|u_ij|) from one document to the next
(see `soft_ranks`). Sums of ln(1 + z) are logarithms of products, so pairs need no logarithm either.

The near-linear way: with t = exp(-|u|), softplus(-u) is ln(1 + t) for an ordered pair and |u| + ln(1 + t) for a
misordered one, and its slope has magnitude P = t / (1 + t) or 1 - P. So the part in t does not depend on which document
has the higher gain: one sum over all documents minus one over equal gains. The rest of a misordered pair, |u| and 1,
needs counts and sums over misordered pairs. The tangent kernel has no part in t for a misordered pair, so its sums run
over ordered pairs only.

One sweep of `advance` computes all sums over all documents and over documents grouped by gain, down and up: one
sweep with weights of 1 for the ranks, one with the slopes for the gradients.

A query takes two calls, `fast_hinge_ranks` and then `fast_hinge_gradient` on the same `work` and `iwork`.
"""

from __future__ import annotations

import math
from typing import Any

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import (
    CURVATURE,
    CURVATURE_FAR,
    CURVATURE_RATE,
    DIRECT,
    EXACT,
    LOOK,
    NOTHING,
    SIGMOID,
    SIGMOID_EXACT,
    SLOPE,
    SLOPE_EXACT,
    SOFTPLUS,
    SOFTPLUS_EXACT,
    SUMS,
    add_right_pairs,
    add_wrong_pairs,
    cut_between_grades,
    decays,
    forget,
    group_by_gain,
)
from boostrank.kernels.intrinsics import Coefficients, advance
from boostrank.kernels.jit import inline, inline_sums
from boostrank.kernels.objective import Query
from boostrank.kernels.primitives import LN2, gather, ideal_dcg, scatter
from boostrank.kernels.shared import SIGMA, TAU, TRAIN_DISCOUNT, K
from boostrank.kernels.sigmoid_ranks import UNDERFLOW, smooth_dcg

SHF_KERNELS = ("softplus", "softplus2", "tangent", "softplus_unit")
SOFTPLUS2, TANGENT, SOFTPLUS_UNIT = 1, 2, 3

SHF_KERNEL = Param("shf_kernel", "softplus", "kind of smoothed hinge", choices=SHF_KERNELS)
EQUAL_GRADIENT = Param(
    "equal_force",
    True,
    "whether documents of equal gain push each other; if not, each counts half a rank for the other",
)

# Factors of a product are at most 2; each block of factors becomes a sum, far from overflow.
_BLOCK = 512
# Shorter lists go pair by pair. Measured with softplus per document: 116 ns by sums and 112 by pairs at 48 documents,
# 88 and 250 at 300 (`expsum.ROOM` is the minimum). The tangent's sums take one pass per bit of the grade: 310 and 240
# at 300, 380 and 430 at 768.
SHORT, SHORT_TANGENT = 48, 640

# The tangent kernel is linear for misordered pairs; its curvature is set to 1/16 at a tie and 0.02 far away.
TANGENT_CURVATURE = (0.0, 0.0, 0.0, 0.0425)
TANGENT_CURVATURE_FAR = 0.02
FARTHEST = 1e308
"""Maximum contribution of a pair to a rank, and maximum rank, so that both stay finite."""
# Limit in sums of differences; see `fast_hinge_ranks`.
_WIDEST = 1e290

# Rows of the scratch: factors between neighbours, for all documents and grouped by gain (the roots are their 16th
# roots); values kept from the ranks for the gradients; sums of a sweep.
_STEP, _ROOT, _GROUP_STEP, _GROUP_ROOT, _PULL, _BEND, _CURVE = range(7)
_SOFT, _GROUP_SOFT, _GROUP_PULL, _GROUP_CURVE = range(7, 11)
_WEIGHTED, _GROUP_WEIGHTED, _GROUP_BEND, _CURVED, _GROUP_CURVED = range(7, 12)
_NEAR, _FOUND, _WEIGHT, _REST = range(11, 15)
WORK, IWORK = _REST + 4, 4
"""Numbers of float and integer scratch per document."""

SHF_PARAMS = (SIGMA, K, TAU, TRAIN_DISCOUNT, SHF_KERNEL, EQUAL_GRADIENT, SUMS)
SHF_SCRATCH, SHF_INT_SCRATCH = f"s g ranks slope gs hs work:{WORK}", f"iwork:{IWORK}"
"""Parameters that `shf_sdcg` reads, and rows that it needs."""


@inline
def shf_sdcg(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    """Return -J of one query, and compute its gradient and curvature.

    Args:
        query: query with the constants of `default_constants`.
        params: parameters as in `SHF_PARAMS`.
        grad, hess: float64[n].
        scratch: rows as in `SHF_SCRATCH` and `SHF_INT_SCRATCH`.
    """
    n, sigma, blend, kind, sums = query.scores.size, params.sigma, params.train_discount, params.shf_kernel, params.sums
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    s, g, ranks, slope, gs, hs = scratch.s, scratch.g, scratch.ranks, scratch.slope, scratch.gs, scratch.hs
    work, iwork, equal_gradient = scratch.work, scratch.iwork, params.equal_force
    gather(query.scores, query.order, s)
    gather(query.gains, query.order, g)
    gs[:] = 0.0
    hs[:] = 0.0
    direct = sums == DIRECT or n < (SHORT_TANGENT if kind == TANGENT else SHORT)
    alpha, height, both = 1.0 / sigma, _height(kind, sigma), kind == SOFTPLUS2
    if direct:
        hinge_ranks(kind, equal_gradient, s, g, sigma, ranks, work[:n], work[n : 2 * n])
    else:
        fast_hinge_ranks(sums, kind == TANGENT, both, equal_gradient, s, g, alpha, height, ranks, work, iwork)
    for pos in range(n):
        ranks[pos] = min(ranks[pos], FARTHEST)
    cut = annealed_cut(params.k, query.query_const[2], g, ranks) if params.k > 0 else math.inf
    value = smooth_dcg(ranks, g, ideal, blend, cut, params.tau, slope)
    if direct:
        hinge_gradient(kind, equal_gradient, s, g, sigma, slope, gs, hs, work[:n])
    else:
        fast_hinge_gradient(sums, kind == TANGENT, both, equal_gradient, s, alpha, height, slope, gs, hs, work, iwork)
    scatter(gs, query.order, grad)
    scatter(hs, query.order, hess)
    return -value


@inline
def hinge_ranks(
    kind: int,
    equal_gradient: bool,
    s: Float64Array,
    gains: Float64Array,
    sigma: float,
    ranks: Float64Array,
    z: Float64Array,
    product: Float64Array,
) -> None:
    """Write the rank of every document; ranks of misplaced ones can exceed n.

    Args:
        kind: index in `SHF_KERNELS`.
        equal_gradient: whether documents of equal gain push each other.
        s, gains: float64[n], by descending score.
        sigma: width in units of the score.
        ranks: float64[n], written.
        z, product: float64[n], overwritten.
    """
    if kind == TANGENT:
        _tangent_ranks(equal_gradient, s, gains, 1.0 / sigma, ranks, z)
    else:
        _softplus_ranks(
            kind == SOFTPLUS2, equal_gradient, s, gains, 1.0 / sigma, _height(kind, sigma), ranks, z, product
        )


@inline
def hinge_gradient(
    kind: int,
    equal_gradient: bool,
    s: Float64Array,
    gains: Float64Array,
    sigma: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    """Add the gradient of -J and its curvature to `grad` and `hess`.

    The curvature is sum_j (|c_p| + |c_j|) kappa_pj. For the softplus kernels kappa bounds the pair's curvature as that
    of Jaakkola and Jordan does, by a sum of exponentials slightly above it (`expsum.CURVATURE`). For the tangent
    it is 1/16 at a tie and falls to 0.02, in 1 / sigma^2; for equal gains it is the sigmoid's G (1 - G).

    Args:
        slope: float64[n], c_i = dJ / drank_i <= 0.
        grad, hess: float64[n].
        kind, equal_gradient, s, gains, sigma, z: as for `hinge_ranks`.
    """
    if kind == TANGENT:
        _tangent_gradient(equal_gradient, s, gains, 1.0 / sigma, slope, grad, hess, z)
    else:
        _softplus_gradient(
            kind == SOFTPLUS2, equal_gradient, s, gains, 1.0 / sigma, _height(kind, sigma), slope, grad, hess, z
        )


@inline
def annealed_cut(k: int, kth_gain: float, gains: Float64Array, ranks: Float64Array) -> float:
    """Return s_m of eq (17): the largest rank among the k most relevant documents, at least k.

    Of equal gains at the boundary the documents with the highest scores count; otherwise s_m would never reach k.

    Args:
        k: at least 1; at most n counts.
        kth_gain: k-th largest gain.
        gains, ranks: float64[n], by descending score.
    """
    n = gains.shape[0]
    room = min(k, n)
    cut = float(room)
    for i in range(n):
        if gains[i] > kth_gain:
            room -= 1
            cut = max(cut, ranks[i])
    for i in range(n):
        if room > 0 and gains[i] == kth_gain:
            room -= 1
            cut = max(cut, ranks[i])
    return cut


@inline
def _height(kind: int, sigma: float) -> float:
    # Factor of ln(1 + e^-u).
    if kind == SOFTPLUS2:
        return 1.0 / LN2
    return sigma if kind == SOFTPLUS_UNIT else 1.0


@inline_sums
def _softplus_ranks(
    equal_hinge: bool,
    equal_gradient: bool,
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    height: float,
    ranks: Float64Array,
    z: Float64Array,
    product: Float64Array,
) -> None:
    n = s.shape[0]
    # Treatment of equal gains: at most one of the three is not 0.
    by_hinge = 1.0 if equal_hinge and equal_gradient else 0.0
    by_sigmoid = 1.0 if equal_gradient and not equal_hinge else 0.0
    by_half = 0.0 if equal_gradient else 0.5
    for i in range(n):
        ranks[i] = 1.0
        product[i] = 1.0
    # Blocks of documents above, each against every document below: no product exceeds 2^_BLOCK.
    for block in range((n + _BLOCK - 1) // _BLOCK):
        start = block * _BLOCK
        # Slices from 0: a possibly negative index would prevent SIMD.
        own = slice(start, start + _BLOCK)
        s_above, g_above, z_above, r_above, p_above = s[own], gains[own], z[own], ranks[own], product[own]
        for j in range(start + 1, n):
            step = math.exp(alpha * (s[j] - s[j - 1]))
            z[j - 1] = 1.0
            score, gain = s[j], gains[j]
            total, factors = 0.0, 1.0
            for i in range(min(j - start, _BLOCK)):
                # `e` is exp(-u) of the pair; `lift` is the linear part of a misordered pair.
                e = z_above[i] * step
                e = 0.0 if e < UNDERFLOW else e
                z_above[i] = e
                above = 1.0 / (1.0 + e)
                lift = min(height * alpha * (s_above[i] - score), FARTHEST)
                equal, wrong = g_above[i] == gain, g_above[i] < gain
                factor = 1.0 + (by_hinge * e if equal else e)
                p_above[i] *= factor
                factors *= factor
                r_above[i] += by_sigmoid * e * above + by_half if equal else (1.0 + lift if wrong else 0.0)
                total += by_sigmoid * above + by_half + by_hinge * lift if equal else (lift if wrong else 1.0)
            ranks[j] += total + height * math.log(factors)
            if (j - start) % _BLOCK == 0:
                _fold(height, ranks, product)
    _fold(height, ranks, product)


@inline
def _fold(height: float, ranks: Float64Array, product: Float64Array) -> None:
    for i in range(ranks.shape[0]):
        ranks[i] += height * math.log(product[i])
        product[i] = 1.0


@inline_sums
def _softplus_gradient(
    equal_hinge: bool, equal_gradient: bool, s: Float64Array, gains: Float64Array, alpha: float, height: float,
    slope: Float64Array, grad: Float64Array, hess: Float64Array, z: Float64Array,
) -> None:  # fmt: skip
    n = s.shape[0]
    by_hinge = height if equal_hinge and equal_gradient else 0.0
    by_sigmoid = 1.0 if equal_gradient and not equal_hinge else 0.0
    for j in range(1, n):
        step = math.exp(alpha * CURVATURE_RATE * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, c = gains[j], slope[j]
        pull, curvature = 0.0, 0.0
        for i in range(j):
            # `root` is exp(-u / 16) of the pair; powers of it give e = exp(-u) and the curvature bound.
            root = z[i] * step
            root = 0.0 if root < NOTHING else root
            z[i] = root
            fourth = root * root * root * root
            e = fourth * fourth * fourth * fourth
            above = 1.0 / (1.0 + e)
            below = e * above
            equal, wrong = gains[i] == gain, gains[i] < gain
            both = slope[i] + c
            kappa = CURVATURE[0] * root + CURVATURE[3] * fourth + CURVATURE_FAR
            mixed = height * both * (above if wrong else -below)
            same = by_sigmoid * below * above * (c - slope[i]) + by_hinge * (c * above - slope[i] * below)
            f = alpha * (same if equal else mixed)
            h = -alpha * alpha * both * (by_sigmoid * below * above + by_hinge * kappa if equal else height * kappa)
            grad[i] -= f
            hess[i] += h
            pull += f
            curvature += h
        grad[j] += pull
        hess[j] += curvature


@inline_sums
def _tangent_ranks(
    equal_gradient: bool, s: Float64Array, gains: Float64Array, alpha: float, ranks: Float64Array, z: Float64Array
) -> None:
    n = s.shape[0]
    for i in range(n):
        ranks[i] = 1.0
    for j in range(1, n):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        score, gain = s[j], gains[j]
        total = 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            below = e * above
            equal, wrong = gains[i] == gain, gains[i] < gain
            line = 0.5 + min(0.25 * alpha * (s[i] - score), FARTHEST)
            sharing = below if equal_gradient else 0.5
            ranks[i] += sharing if equal else (1.0 + line if wrong else below)
            total += 1.0 - sharing if equal else (line if wrong else 1.0 + below)
        ranks[j] += total


@inline_sums
def _tangent_gradient(
    equal_gradient: bool,
    s: Float64Array,
    gains: Float64Array,
    alpha: float,
    slope: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    n = s.shape[0]
    by_sigmoid = 1.0 if equal_gradient else 0.0
    for j in range(1, n):
        step = math.exp(alpha * CURVATURE_RATE * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        gain, c = gains[j], slope[j]
        pull, curvature = 0.0, 0.0
        for i in range(j):
            # `root` as in `_softplus_gradient`.
            root = z[i] * step
            root = 0.0 if root < NOTHING else root
            z[i] = root
            fourth = root * root * root * root
            e = fourth * fourth * fourth * fourth
            above = 1.0 / (1.0 + e)
            below = e * above
            equal, wrong = gains[i] == gain, gains[i] < gain
            both = slope[i] + c
            w = above * below
            kappa = TANGENT_CURVATURE[3] * fourth + TANGENT_CURVATURE_FAR
            f = alpha * (by_sigmoid * w * (c - slope[i]) if equal else both * (0.25 if wrong else -w))
            h = -alpha * alpha * both * (by_sigmoid * w if equal else kappa)
            grad[i] -= f
            hess[i] += h
            pull += f
            curvature += h
        grad[j] += pull
        hess[j] += curvature


@inline
def fast_hinge_ranks(
    sums: int, tangent: bool, equal_hinge: bool, equal_gradient: bool, s: Float64Array, gains: Float64Array,
    alpha: float, height: float, ranks: Float64Array, work: Float64Array, iwork: Int64Array,
) -> None:  # fmt: skip
    """Write the rank of every document.

    Args:
        sums: index in `expsum.SUMS`, not `DIRECT`.
        tangent: whether the kernel is the tangent, or softplus.
        equal_hinge: whether documents of equal gain use the hinge, or the sigmoid.
        equal_gradient: whether they push each other at all.
        s, gains: float64[n], by descending score, n >= `expsum.ROOM`.
        alpha: 1 / sigma.
        height: factor of ln(1 + e^-u).
        ranks: float64[n], written.
        work, iwork: float64[`WORK` n], int64[`IWORK` n], overwritten.
    """
    n = s.shape[0]
    rows, rest = work[: WORK * n].reshape((WORK, n)), work[_REST * n :]
    soft, pull, near, found = rows[_SOFT], rows[_PULL], rows[_NEAR], rows[_FOUND]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = group_by_gain(gains, member, grade, iwork[2 * n : 3 * n])
    _steps(s, alpha, rows[_ROOT], rows[_STEP])
    gather(s, member, found)
    _steps(found, alpha, rows[_GROUP_ROOT], rows[_GROUP_STEP])
    cut_between_grades(rows[_GROUP_ROOT], member, grade, 0)
    cut_between_grades(rows[_GROUP_STEP], member, grade, 0)
    shape = TANGENT_CURVATURE if tangent else CURVATURE
    if sums == EXACT:
        _sweep_counts(rows, SOFTPLUS_EXACT, SIGMOID_EXACT, SLOPE_EXACT, shape, rest)
    else:
        _sweep_counts(rows, SOFTPLUS, SIGMOID, SLOPE, shape, rest)

    # Documents of higher gain count one each, equal ones by their kernel. Scores are relative to the middle one, so
    # that a common offset costs no digits.
    far = TANGENT_CURVATURE_FAR if tangent else CURVATURE_FAR
    middle = s[n // 2]
    first = 0
    while first < n:
        last = _end_of_group(member, grade, first)
        if not equal_gradient:
            for k in range(first, last):
                ranks[member[k]] = 1.0 + 0.5 * (first + last - 1)
        elif equal_hinge:
            lift = 0.0
            for k in range(first, last):
                if k > first:
                    lift += (k - first) * min(s[member[k - 1]] - s[member[k]], _WIDEST)
                ranks[member[k]] = 1.0 + first + height * alpha * lift
        else:
            for k in range(first, last):
                ranks[member[k]] = 1.0 + k + rows[_GROUP_PULL, k]
        if equal_gradient and equal_hinge:
            for k in range(first, last):
                pull[member[k]] += k - first
                rows[_CURVE, member[k]] += far * (n - 1)
        else:
            for k in range(first, last):
                i = member[k]
                soft[i] -= rows[_GROUP_SOFT, k]
                pull[i] -= rows[_GROUP_PULL, k]
                rows[_CURVE, i] += far * (n - (last - first)) - rows[_GROUP_CURVE, k]
        first = last

    # Misordered pairs: their number and distance.
    for i in range(n):
        rows[_WEIGHT, i], found[i], near[i] = min(max(s[i] - middle, -_WIDEST), _WIDEST), 0.0, 0.0
    add_wrong_pairs(grade, grades, rows[_WEIGHT], -1.0, near, found, rest)
    slant, smooth = 0.25 * alpha if tangent else height * alpha, 0.0 if tangent else height
    for i in range(n):
        # Far from the middle a difference of sums has lost its digits, but it is never negative.
        ranks[i] += slant * max(near[i] - found[i] * rows[_WEIGHT, i], 0.0) + smooth * soft[i]
        pull[i] = 0.25 * found[i] if tangent else pull[i] + found[i]
    if tangent:
        for i in range(n):
            rows[_WEIGHT, i], near[i], found[i] = 1.0, 0.0, 0.0
        add_wrong_pairs(grade, grades, rows[_WEIGHT], 1.0, near, found, rest)
        for i in range(n):
            ranks[i] += 0.5 * near[i]
        more = iwork[2 * n :]
        add_right_pairs(sums, False, s, alpha, grade, grades, rows[_WEIGHT], 1.0, ranks, rest, more)
        add_right_pairs(sums, True, s, alpha, grade, grades, rows[_WEIGHT], -1.0, pull, rest, more)


@inline
def fast_hinge_gradient(
    sums: int, tangent: bool, equal_hinge: bool, equal_gradient: bool, s: Float64Array, alpha: float, height: float,
    slope: Float64Array, grad: Float64Array, hess: Float64Array, work: Float64Array, iwork: Int64Array,
) -> None:  # fmt: skip
    """Add the gradient of -J and its curvature to `grad` and `hess`.

    Args:
        slope: float64[n], c_i = dJ / drank_i <= 0.
        grad, hess: float64[n].
        work, iwork: as `fast_hinge_ranks` left them.
        sums, tangent, equal_hinge, equal_gradient, s, alpha, height: as in `fast_hinge_ranks`.
    """
    n = s.shape[0]
    rows, rest = work[: WORK * n].reshape((WORK, n)), work[_REST * n :]
    weighted, curved, pull = rows[_WEIGHTED], rows[_CURVED], rows[_PULL]
    member, grade = iwork[:n], iwork[n : 2 * n]
    grades = grade[member[n - 1]] + 1
    gather(slope, member, rows[_WEIGHT])
    shape = TANGENT_CURVATURE if tangent else CURVATURE
    if sums == EXACT:
        _sweep_slopes(rows, slope, SIGMOID_EXACT, SLOPE_EXACT, shape, rest)
    else:
        _sweep_slopes(rows, slope, SIGMOID, SLOPE, shape, rest)

    # `pull` is the sum over j of a pair's pull, `weighted` the same times c_j.
    if tangent:
        weighted[:] = 0.0
        add_wrong_pairs(grade, grades, slope, -1.0, weighted, rows[_FOUND], rest)
        for i in range(n):
            weighted[i] *= 0.25
        add_right_pairs(sums, True, s, alpha, grade, grades, slope, -1.0, weighted, rest, iwork[2 * n :])
    else:
        add_wrong_pairs(grade, grades, slope, -1.0, weighted, rows[_FOUND], rest)
    far = TANGENT_CURVATURE_FAR if tangent else CURVATURE_FAR
    every = 0.0
    first = 0
    while first < n:
        last = _end_of_group(member, grade, first)
        total = 0.0
        if equal_gradient and equal_hinge:
            # The linear side: -c_j for each document below.
            for k in range(last - 1, first - 1, -1):
                weighted[member[k]] -= total
                total += rows[_WEIGHT, k]
        else:
            for k in range(first, last):
                total += rows[_WEIGHT, k]
            for k in range(first, last):
                i = member[k]
                if not tangent:
                    weighted[i] -= rows[_GROUP_WEIGHTED, k]
                curved[i] -= rows[_GROUP_CURVED, k] + far * (total - rows[_WEIGHT, k])
        if equal_gradient and not equal_hinge:
            # Equal gains by the sigmoid: sum_j w_ij and sum_j w_ij c_j.
            for k in range(first, last):
                i, bent = member[k], rows[_WEIGHT, k] * rows[_BEND, k]
                grad[i] -= alpha * (rows[_GROUP_BEND, k] - bent)
                hess[i] -= alpha * alpha * (rows[_GROUP_BEND, k] + bent)
        every += total
        first = last
    for i in range(n):
        grad[i] += alpha * height * (slope[i] * pull[i] + weighted[i])
        bent = slope[i] * rows[_CURVE, i] + curved[i] + far * (every - slope[i])
        hess[i] += alpha * alpha * height * max(-bent, 0.0)


@inline
def _end_of_group(member: Int64Array, grade: Int64Array, first: int) -> int:
    last = first + 1
    while last < member.shape[0] and grade[member[last]] == grade[member[first]]:
        last += 1
    return last


@inline
def _steps(s: Float64Array, alpha: float, root: Float64Array, step: Float64Array) -> None:
    # Factors between neighbours at the rate of the curvature, and at alpha, 16 times that.
    decays(s, alpha * CURVATURE_RATE, root)
    for i in range(s.shape[0]):
        e = root[i] * root[i]
        e *= e
        e *= e
        e *= e
        step[i] = 0.0 if e < NOTHING else e


@inline
def _add(rows: Any, row: int, grouped: int, i: int, above: float, found: Any) -> None:
    # Results of a step down and a step up, for all documents and grouped by gain.
    j = rows.shape[1] - i
    rows[row, i] += above * found[0]
    rows[row, j - 1] += found[1]
    rows[grouped, i] += above * found[2]
    rows[grouped, j - 1] += found[3]


@inline
def _sweep_counts(
    rows: Any,
    softplus: Coefficients,
    sigmoid: Coefficients,
    slope: Coefficients,
    shape: Coefficients,
    state: Float64Array,
) -> None:
    # Sums with weights of 1.
    n, slots = rows.shape[1], 4 * len(sigmoid)
    curves, every = state[slots:], slots + 4 * len(shape)
    state[:every] = 0.0
    rows[_PULL : _GROUP_CURVE + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, every)
        j = n - i
        ones = (1.0, 1.0, 1.0, 1.0)
        steps = (rows[_STEP, i], rows[_STEP, j], rows[_GROUP_STEP, i], rows[_GROUP_STEP, j])
        found = advance(state, (softplus, sigmoid, slope), steps, ones)
        _add(rows, _SOFT, _GROUP_SOFT, i, 1.0, found[:4])
        _add(rows, _PULL, _GROUP_PULL, i, -1.0, found[4:8])
        rows[_BEND, i] += found[10]
        rows[_BEND, j - 1] += found[11]
        roots = (rows[_ROOT, i], rows[_ROOT, j], rows[_GROUP_ROOT, i], rows[_GROUP_ROOT, j])
        bent = advance(curves, (shape,), roots, ones)
        _add(rows, _CURVE, _GROUP_CURVE, i, 1.0, bent)


@inline
def _sweep_slopes(
    rows: Any, w: Float64Array, sigmoid: Coefficients, slope: Coefficients, shape: Coefficients, state: Float64Array
) -> None:
    # Sums with the slopes as weights.
    n, slots = rows.shape[1], 4 * len(sigmoid)
    curves, every = state[slots:], slots + 4 * len(shape)
    state[:every] = 0.0
    rows[_WEIGHTED : _GROUP_CURVED + 1] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, every)
        j = n - i
        weights = (w[i - 1], w[j], rows[_WEIGHT, i - 1], rows[_WEIGHT, j])
        steps = (rows[_STEP, i], rows[_STEP, j], rows[_GROUP_STEP, i], rows[_GROUP_STEP, j])
        found = advance(state, (sigmoid, slope), steps, weights)
        _add(rows, _WEIGHTED, _GROUP_WEIGHTED, i, -1.0, found[:4])
        rows[_GROUP_BEND, i] += found[6]
        rows[_GROUP_BEND, j - 1] += found[7]
        roots = (rows[_ROOT, i], rows[_ROOT, j], rows[_GROUP_ROOT, i], rows[_GROUP_ROOT, j])
        bent = advance(curves, (shape,), roots, weights)
        _add(rows, _CURVED, _GROUP_CURVED, i, 1.0, bent)
