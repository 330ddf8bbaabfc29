"""Three objectives with their shipped gradient and a choice of curvatures.

With p, q two documents of a query, u = (s_p - s_q) / sigma, G(u) = 1 / (1 + e^u), f_pq the force
between them, and c the absolute slope of DCG by a document's smooth rank, h_p is the sum over q of

| curvature | ranknet | shf-sdcg | sdcg |
|---|---|---|---|
| majoriser | kappa(u) | (c_p + c_q) kappa(u) | c_p rise(u) + c_q rise(-u) |
| gauss-newton | G (1 - G) | (c_p + c_q) G (1 - G) | g_q abs(D''(rank_q)) (drank_q / ds_p)^2, p itself included |
| slope | | | (c_p + c_q) G (1 - G) |
| force | abs(f_pq) | abs(f_pq) | abs(f_pq) |
| constant | one number for every document and round | same | same |

over sigma^2 (force: over sigma). kappa(u) = tanh(|u|/2) / (2|u|) is the least curvature of a
parabola that touches ln(1 + e^-u) at u and lies above it (shf-sdcg ships a bound at most a sixth
above that), rise(u) the same for G: with c held, both majorise the loss along each score.
Gauss-Newton keeps one of two curvatures: that of the pairs where they are convex (with c held), and
for sdcg, whose sigmoids are not, that of the discount (taken absolutely: it is convex, and we go
up). In shf-sdcg documents of equal gain push each other through G; they get slope's term in every
row but force and constant. The constant is the mean of the shipped curvature over the training
documents at tied scores, so that the first step is as long.

Shipped: gauss-newton (the exact diagonal) for ranknet, majoriser for shf-sdcg, slope for sdcg (and
    approx-ndcg).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import boostrank
from boostrank.core.params import Param
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.objective import Kernel, ObjectiveSpec, Prepare, objective_kernel
from boostrank.kernels.primitives import LN2, ideal_dcg, scatter
from boostrank.kernels.shared import default_constants
from boostrank.kernels.sigmoid_ranks import UNDERFLOW
from boostrank.objectives import OBJECTIVES

CURVATURES = ("majoriser", "gauss-newton", "slope", "force", "constant")
MAJORISER, GAUSS_NEWTON, SLOPE, FORCE, CONSTANT = range(5)
SHIPPED = {"ranknet": "gauss-newton", "shf-sdcg": "majoriser", "sdcg": "slope"}

_CONSTANT = 3  # column of the query's constants behind the default ones
_FAR, _A_UNIT = 40.0, 20.0  # where the table of `rise` ends, and its entries a unit


def _rise_table() -> Float64Array:
    """Least k >= 0 with G(v) <= G(u) + G'(u) (v - u) + k (v - u)^2 / 2 for all v, at u = -40, ...,
    40.
    """
    u = np.linspace(-_FAR, _FAR, round(2 * _FAR * _A_UNIT) + 1)
    g = 0.5 - 0.5 * np.tanh(u / 2)
    table = np.maximum(g * (1 - g) * (1 - 2 * g), 0.0)  # G'', the limit as v nears u
    for v in np.linspace(-3 * _FAR, 3 * _FAR, u.size):
        away = np.where(np.abs(v - u) < 0.01, np.inf, v - u)
        table = np.maximum(
            table, 2 * (0.5 - 0.5 * np.tanh(v / 2) - g + g * (1 - g) * (v - u)) / away**2
        )
    return table


RISE = _rise_table()


@boostrank.inline
def tanh_over(u: float, tanh: float) -> float:
    """tanh(u/2) / (2u) for u >= 0, given tanh(u/2): the Jaakkola-Jordan curvature that majorises
    ln(1 + e^u).

    A series near 0, where the quotient would lose digits; the limit is 1/4.
    """
    v = 0.25 * u * u
    series = 0.25 * (1.0 - v * (1.0 / 3.0 - v * (2.0 / 15.0 - v * (17.0 / 315.0))))
    quotient = tanh / (2.0 * max(u, 0.05))
    return series if u < 0.05 else quotient


@boostrank.inline
def rise(u: float) -> float:
    """The larger of the table's two entries beside u: G's slope and what is needed vary little
    between them.
    """
    at = (min(max(u, -_FAR), _FAR - 1.0 / _A_UNIT) + _FAR) * _A_UNIT
    left = int(at)
    return max(float(RISE[left]), float(RISE[left + 1]))


def _shipped(name: str) -> Callable[..., float]:
    return boostrank.inline(OBJECTIVES.get(name).kernel.py_func)


def _after_shipped(name: str) -> int:
    """Where `curvature` lies: behind the parameters of the shipped objective."""
    return len(OBJECTIVES.get(name).params)


shipped_ranknet, shipped_shf_sdcg, shipped_sdcg = (_shipped(name) for name in SHIPPED)
_CURVATURE_OF_RANKNET = _after_shipped("ranknet")
_CURVATURE_OF_SHF = _after_shipped("shf-sdcg")
_CURVATURE_OF_SDCG = _after_shipped("sdcg")


@objective_kernel
def ranknet(
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
    """One query; see `boostrank.kernels.objective`."""
    value = shipped_ranknet(
        scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch
    )
    n, curvature = scores.shape[0], int(params[_CURVATURE_OF_RANKNET])
    if curvature == CONSTANT and query_const[0] > 0.0:
        hess[:] = query_const[_CONSTANT]
    if curvature in (CONSTANT, GAUSS_NEWTON):
        return value
    s, g, halves, hs = (
        scratch[:n],
        scratch[n : 2 * n],
        scratch[2 * n : 3 * n],
        scratch[3 * n : 4 * n],
    )
    halves[:] = 0.5
    hs[:] = 0.0
    _pair_curvatures(curvature, 0.0, s, g, 1.0 / params[0], halves, hs, scratch[4 * n : 5 * n])
    scatter(hs, order, hess)
    return value


@objective_kernel
def shf_sdcg(
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
    """One query; see `boostrank.kernels.objective`."""
    value = shipped_shf_sdcg(
        scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch
    )
    n, curvature = scores.shape[0], int(params[_CURVATURE_OF_SHF])
    if curvature == MAJORISER or n < 2 or ideal_dcg(query_const, params[3]) <= 0.0:
        return value
    if curvature == CONSTANT:
        hess[:] = query_const[_CONSTANT]
        return value
    s, g, slope, hs = (
        scratch[:n],
        scratch[n : 2 * n],
        scratch[3 * n : 4 * n],
        scratch[5 * n : 6 * n],
    )
    hs[:] = 0.0
    _pair_curvatures(curvature, 1.0, s, g, 1.0 / params[0], slope, hs, scratch[6 * n : 7 * n])
    scatter(hs, order, hess)
    return value


@objective_kernel
def sdcg(
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
    """One query without a cut-off; see `boostrank.kernels.objective`."""
    value = shipped_sdcg(
        scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch
    )
    n, curvature = scores.shape[0], int(params[_CURVATURE_OF_SDCG])
    ideal = ideal_dcg(query_const, params[3])
    if curvature == SLOPE or n < 2 or ideal <= 0.0:
        return value
    if curvature == CONSTANT:
        hess[:] = query_const[_CONSTANT]
        return value
    s, g, ranks, slope = (
        scratch[:n],
        scratch[n : 2 * n],
        scratch[2 * n : 3 * n],
        scratch[3 * n : 4 * n],
    )
    hs, z, bend, own = (
        scratch[5 * n : 6 * n],
        scratch[6 * n : 7 * n],
        scratch[7 * n : 8 * n],
        scratch[8 * n : 9 * n],
    )
    hs[:] = 0.0
    own[:] = 0.0
    for i in range(n):
        bend[i] = g[i] / ideal * (1.0 - params[3]) * _discount_bend(ranks[i])
    _rank_curvatures(curvature, s, 1.0 / params[0], slope, bend, hs, own, z)
    for i in range(n):
        hs[i] += own[i] * own[i] * bend[i]
    scatter(hs, order, hess)
    return value


@boostrank.inline
def _pair_curvatures(
    curvature: int,
    equals: float,
    s: Float64Array,
    g: Float64Array,
    alpha: float,
    weight: Float64Array,
    hess: Float64Array,
    z: Float64Array,
) -> None:
    """Add those of ln(1 + e^-u) of every pair; its weight is the sum of both documents'.

    Args:
        equals: what documents of equal gain are multiplied by, whose function is G.
        s: float64[n], descending; from one to the next every e^-u is multiplied by one number.
        weight: float64[n], of one sign, which does not count.
        z: float64[n], overwritten.
    """
    for j in range(1, s.shape[0]):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        total = 0.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            w, both = e * above * above, abs(weight[i] + weight[j])
            if g[i] == g[j]:
                h = equals * w * (abs(weight[i] - weight[j]) if curvature == FORCE else both)
            elif curvature == MAJORISER:
                h = both * tanh_over(alpha * (s[i] - s[j]), (1.0 - e) * above)
            elif curvature == GAUSS_NEWTON:
                h = both * w
            else:
                h = both * (above if g[i] < g[j] else e * above)
            hess[i] += alpha * alpha * h
            total += alpha * alpha * h
        hess[j] += total


@boostrank.inline
def _rank_curvatures(
    curvature: int,
    s: Float64Array,
    alpha: float,
    slope: Float64Array,
    bend: Float64Array,
    hess: Float64Array,
    own: Float64Array,
    z: Float64Array,
) -> None:
    """Add those of smooth ranks; for Gauss-Newton without a document's own rank, whose derivative
    goes to `own`.
    """
    for j in range(1, s.shape[0]):
        step = math.exp(alpha * (s[j] - s[j - 1]))
        z[j - 1] = 1.0
        for i in range(j):
            e = z[i] * step
            e = 0.0 if e < UNDERFLOW else e
            z[i] = e
            above = 1.0 / (1.0 + e)
            w = alpha * e * above * above
            if curvature == GAUSS_NEWTON:
                own[i] += w
                own[j] += w
                hess[i] += w * w * bend[j]
                hess[j] += w * w * bend[i]
            else:
                if curvature == FORCE:
                    h = alpha * w * abs(slope[i] - slope[j])
                else:
                    u = alpha * (s[i] - s[j])
                    h = -alpha * alpha * (slope[i] * rise(u) + slope[j] * rise(-u))
                hess[i] += h
                hess[j] += h


@boostrank.inline
def _discount_bend(rank: float) -> float:
    """Second derivative of 1 / log2(1 + rank)."""
    log = math.log1p(rank)
    return LN2 * (2.0 / log + 1.0) / (log * log * (1.0 + rank) * (1.0 + rank))


def _prepare(kernel: Kernel, declared: Sequence[Param], scratch: int) -> Prepare:
    """The default constants, and the mean of the shipped curvature at tied scores as a further
    column.
    """

    def prepare(
        labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: Mapping[str, Any]
    ) -> tuple[Float64Array, Float64Array]:
        documents, queries = default_constants(labels, gains, ptr, values)
        queries = np.column_stack([queries, np.zeros(len(queries))])
        params = np.array(
            [
                p.encode(p.default if p.name in ("curvature", "k") else values[p.name])
                for p in declared
            ]
        )
        total, live = 0.0, 0
        for q in np.flatnonzero(queries[:, 0] > 0.0):
            n = int(ptr[q + 1] - ptr[q])
            hess = np.zeros(n)
            kernel(
                np.zeros(n),
                gains[ptr[q] : ptr[q + 1]],
                np.arange(n),
                np.zeros((n, 0)),
                queries[q],
                params,
                np.zeros(n),
                hess,
                np.zeros(scratch * n),
                np.zeros(scratch * n, np.int64),
            )
            total += hess.sum()
            live += n
        queries[:, _CONSTANT] = total / max(live, 1)
        return documents, queries

    return prepare


def _spec(name: str, kernel: Kernel) -> ObjectiveSpec:
    ours = OBJECTIVES.get(name)
    declared = [
        *ours.params,
        Param("curvature", SHIPPED[name], "what the trees divide by", choices=CURVATURES),
    ]
    scratch = ours.scratch_per_document
    made = boostrank.define_objective(
        f"{name}-curvatures",
        kernel,
        params=declared,
        prepare=_prepare(kernel, declared, scratch),
        exact_gradient=ours.exact_gradient,
        scratch_per_document=scratch,
    )
    return replace(made, default_options=ours.default_options)


SPECS = {
    "ranknet": _spec("ranknet", ranknet),
    "shf-sdcg": _spec("shf-sdcg", shf_sdcg),
    "sdcg": _spec("sdcg", sdcg),
}
"""Objective -> the same with the parameter `curvature`."""
