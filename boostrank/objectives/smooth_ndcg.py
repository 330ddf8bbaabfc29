"""SmoothNDCG: NDCG of Gaussian averages around each rank, sharpened over the rounds after a
regression.

    h_ij = exp(-(s_i - s_d(j))^2 / sigma) / sum_m exp(-(s_m - s_d(j))^2 / sigma),   d(j) the
    document ranked j-th J    = (1/Z) sum_{j <= k} D(j) sum_i g_i h_ij

`metric` selects another one. With c_j = sum_i l_i h_ij, the relevance expected at rank j (l = 1 for
a relevant document, R = sum l; the probability of ERR for `err`):

    map            J = (1/R) sum_{j <= k} c_j (1/j) sum_{m <= j} c_m
    mrr, err       J = sum_{j <= k} (1/j) c_j prod_{m < j} (1 - c_m)
    precision      J = (1/k) sum_{j <= k} c_j,    needs k; a list of at most k documents is skipped

sigma (in squared score units) falls from 64 to 1/64 over the training by the same factor in each
round, which turns J from a constant into exact NDCG. Equal scores have a zero gradient, and a
document depends only on its neighbours, so the first `warm_rounds` rounds are a regression. In
these rounds `mix`, the share of R = (1/2n) sum_i (s_i - t_i)^2, is 1; afterwards it is 0 and sigma
starts to fall. Early stopping also waits for these rounds.

Source: Chapelle, Wu, "Gradient descent optimization of smoothed information retrieval metrics",
Information Retrieval 13 (2010), the soft indicator h_ij for the values, sections 4.1 and 4.2 for
the other metrics, eq (10) and its second appendix for the gradient. Deviations: training continues
from the regression, where the paper pulls a weight vector back to it; sigma falls with the rounds,
where the paper optimises to the end at each of 13 values. J is not differentiable where two scores
tie: the order d is constant in the gradient. ERR is ours.

Hessian: (2/sigma) (sum_j D_j h_pj |g_p - gbar_j| + D_r(p) sum_i h_ir(p) |g_i - gbar_r(p)|), a
proxy. For the other metrics D_j is dJ/dc_j, l replaces g, and c gbar. In a query with more than
eight distinct gains, |g - gbar| is interpolated between eight of them. The result is never smaller,
and equal unless g and gbar lie between the same two.

Cost: near-linear in n for any sigma, by the lattice of `kernels.gauss`, which fast and exact `sums`
share, once more for map, mrr and err; runs of documents with few neighbours go pair by pair. n k
with sums="direct", n^2 without k. Largest relative difference from pairs: 2e-11 for lists of up to
4,000 documents, 3e-10 at worst for 20,000 (10,000 in a chain of gaps about as wide as the
neighbourhood, and a cluster of 10,000 among them).

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> objective = boostrank.Objective("smooth-ndcg", total_rounds=100)
    >>> values = boostrank.objective_values(objective, labels, scores, [4], round=60)
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.735], [-0.083, -0.047, 0.006, 0.124])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.expsum import DIRECT, SUMS
from boostrank.kernels.gauss import IROOM, MEANS, PART, ROOM, SLOTS, VALUE, WEIGHT, gauss_gradient
from boostrank.kernels.jit import allocates, inline, inline_sums
from boostrank.kernels.objective import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.primitives import discount, fast_exp, gather, ideal_dcg
from boostrank.kernels.shared import (
    TRAIN_DISCOUNT,
    K,
    mix_param,
    mix_squared_error,
    positive,
    target_constants,
    target_param,
)
from boostrank.kernels.swaps import MAP, METRICS, NDCG, PRECISION, SWAP_PARAMS, swap_constants

PARAMS = (
    positive(
        "sigma",
        1.0,
        "squared width of the neighbourhood; by default falls from 64 to 1/64 after the warm start",
        unit="score^2",
    ),
    K,
    TRAIN_DISCOUNT,
    Param("warm_rounds", 20, "number of rounds of regression at the start", low=0, unit="rounds"),
    mix_param(0.0, "1 in the warm rounds and 0 afterwards"),
    target_param("gains"),
    SUMS,
    Param("metric", "ndcg", "metric that is smoothed", choices=METRICS),
    *SWAP_PARAMS,
)

# Documents beyond sqrt(700 sigma) from an anchor have relative weights below e^-700, those beyond
# sqrt(42 sigma) below rounding.
_FARTHEST, _NEAR = 700.0, 42.0
# A document on the lattice costs as much as this many pairs. Measured per document: lists of 80
# take 160 to 200 ns by pairs and 180 to 280 on the lattice, lists of 130 take 310 and 200 to 270.
_PAIRS = 90
# First node in `query_const`, after the number of nodes.
_NODES = 4


@objective_kernel(
    params=PARAMS,
    scratch=f"s gradient curvature weight documents:3 work:{ROOM}",
    int_scratch=f"node iwork:{IROOM}",
)
@allocates
def kernel(
    query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any
) -> float:
    """Compute minus J in the annealed rounds, and the squared error in the warm ones."""
    n, mix = query.scores.size, params.mix
    if n == 0:
        return 0.0
    ideal = ideal_dcg(query.query_const, params.train_discount)
    value = (
        _evaluate(query, params, ideal, grad, hess, scratch)
        if n > 1 and ideal > 0.0 and mix < 1.0
        else 0.0
    )
    if mix == 0.0:
        return -value
    error = mix_squared_error(query, mix, grad, hess)
    return mix * error - (1.0 - mix) * value


@inline
@allocates
def _evaluate(
    query: Query, params: Any, ideal: float, grad: Float64Array, hess: Float64Array, scratch: Any
) -> float:
    """Return J, and write the gradient of -J and its curvature to `grad` and `hess`."""
    n, order, sigma, metric = query.scores.size, query.order, params.sigma, params.metric
    if metric == PRECISION and n <= params.k:
        return 0.0
    s, gradient, curvature, weight, node = (
        scratch.s,
        scratch.gradient,
        scratch.curvature,
        scratch.weight,
        scratch.node,
    )
    documents = scratch.documents.reshape((3, n))
    nodes = query.query_const[_NODES : _NODES + int(query.query_const[_NODES - 1])]
    unit, value = 1.0 / math.sqrt(sigma), 0.0
    means = scratch.work[MEANS * n : (MEANS + 1) * n]
    gather(query.scores, order, s)
    for pos in range(n):
        documents[WEIGHT, pos], documents[VALUE, pos] = 1.0, query.doc_const[order[pos], 3]
        node[pos], documents[PART, pos] = (
            int(query.doc_const[order[pos], 1]),
            query.doc_const[order[pos], 2],
        )
        gradient[pos], curvature[pos] = 0.0, 0.0
    anchors = min(params.k, n) if params.k > 0 else n
    # The weights of the anchors, dJ/dc_j. If they depend on c, a pass with weights of 0 finds c.
    linear = metric in (NDCG, PRECISION)
    passes = 1 if linear else 2
    for pos in range(anchors):
        weight[pos] = 0.0
        if metric == NDCG:
            weight[pos] = discount(pos + 1.0, params.train_discount, n) / ideal
        elif metric == PRECISION:
            weight[pos] = 1.0 / params.k
    farthest = _FARTHEST if params.sums == DIRECT else _NEAR
    reach = math.sqrt(farthest * sigma)
    for _ in range(passes):
        total, last = 0.0, 0
        while last < anchors:
            # A run of documents without neighbours outside it.
            first = last
            last += 1
            while last < n and s[last - 1] - s[last] <= reach:
                last += 1
            stop = min(last, anchors)
            if params.sums != DIRECT and _many_pairs(s, first, last, stop, reach):
                work, iwork = scratch.work, scratch.iwork
                total += gauss_gradient(
                    s,
                    first,
                    last,
                    stop,
                    unit,
                    weight,
                    documents,
                    node,
                    nodes,
                    gradient,
                    curvature,
                    work,
                    iwork,
                )
            else:
                total += _pair_gradient(
                    s, first, last, stop, reach, unit, documents, nodes, scratch
                )
        if linear:
            value = total
        elif metric == MAP:
            value = _map_slopes(means[:anchors], ideal, weight)
        else:
            value = _first_slopes(means[:anchors], weight)
    for pos in range(n):
        grad[order[pos]] = -2.0 * unit * gradient[pos]
        hess[order[pos]] = 2.0 / sigma * curvature[pos]
    return value


@inline
def _map_slopes(means: Float64Array, relevant: float, slope: Float64Array) -> float:
    """Return MAP of the relevance at each rank, and write its derivatives."""
    value, above, below = 0.0, 0.0, 0.0
    for pos in range(means.size):
        above += means[pos]
        slope[pos] = above / (pos + 1.0) / relevant
        value += means[pos] * slope[pos]
    for pos in range(means.size - 1, -1, -1):
        below += means[pos] / (pos + 1.0) / relevant
        slope[pos] += below
    return value


@inline
def _first_slopes(means: Float64Array, slope: Float64Array) -> float:
    """Return the mean 1 / rank where a user stops, with chance c at each, and write its slopes."""
    value, reads = 0.0, 1.0
    for pos in range(means.size):
        slope[pos] = reads
        value += reads * means[pos] / (pos + 1.0)
        reads *= max(1.0 - means[pos], 0.0)
    # What a user who goes on gets from the ranks below.
    below = 0.0
    for pos in range(means.size - 1, -1, -1):
        slope[pos] *= max(1.0 / (pos + 1.0) - below, 0.0)
        below = means[pos] / (pos + 1.0) + max(1.0 - means[pos], 0.0) * below
    return value


@inline
def _many_pairs(s: Float64Array, first: int, last: int, stop: int, reach: float) -> bool:
    """Return True if the anchors of a run have too many neighbours for pairs."""
    low, high, pairs = first, first, 0
    for j in range(first, stop):
        while s[low] - s[j] > reach:
            low += 1
        while high < last and s[j] - s[high] <= reach:
            high += 1
        pairs += high - low
    return pairs > _PAIRS * (high - first)


@inline
def _pair_gradient(
    s: Float64Array,
    first: int,
    last: int,
    stop: int,
    reach: float,
    unit: float,
    documents: Float64Array,
    nodes: Float64Array,
    scratch: Any,
) -> float:
    """Compute the same as `gauss_gradient`, but pair by pair over the documents within `reach` of
    each anchor.
    """
    n, weight, node, work = s.shape[0], scratch.weight, scratch.node, scratch.work
    gradient, curvature = scratch.gradient, scratch.curvature
    h, low_gain, high_gain = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    means = work[MEANS * n : (MEANS + 1) * n]
    for i in range(first, last):
        low_gain[i], high_gain[i] = nodes[node[i]], nodes[min(node[i] + 1, nodes.shape[0] - 1)]
    # The window of documents within reach moves along with the anchor.
    low, high, value = first, first, 0.0
    for j in range(first, stop):
        while s[low] - s[j] > reach:
            low += 1
        while high < last and s[j] - s[high] <= reach:
            high += 1
        gain, pull, bend = _anchor(
            s[j],
            low,
            high,
            s,
            documents,
            low_gain,
            high_gain,
            unit,
            weight[j],
            h,
            gradient,
            curvature,
        )
        means[j] = gain
        value += weight[j] * gain
        gradient[j] -= pull
        curvature[j] += bend
    return value


@inline_sums
def _anchor(
    score: float,
    low: int,
    high: int,
    s: Float64Array,
    documents: Float64Array,
    low_gain: Float64Array,
    high_gain: Float64Array,
    unit: float,
    weight: float,
    h: Float64Array,
    gradient: Float64Array,
    curvature: Float64Array,
) -> tuple[float, float, float]:
    """Add what an anchor with a score and a discount, `weight`, contributes to the documents within
    reach.

    Return the anchor's smoothed gain, its gradient on itself, and its own curvature.
    """
    s, g, part, h = s[low:high], documents[VALUE, low:high], documents[PART, low:high], h[low:high]
    low_gain, high_gain = low_gain[low:high], high_gain[low:high]
    gradient, curvature = gradient[low:high], curvature[low:high]
    total, gain, offset, both = 0.0, 0.0, 0.0, 0.0
    for i in range(s.shape[0]):
        x = (score - s[i]) * unit
        e = fast_exp(-x * x)
        h[i] = e
        total += e
        gain += e * g[i]
        offset += e * x
        both += e * x * g[i]
    gain, offset, both = gain / total, offset / total, both / total
    spread = 0.0
    for i in range(s.shape[0]):
        share = weight / total * h[i]
        miss = (1.0 - part[i]) * abs(low_gain[i] - gain) + part[i] * abs(high_gain[i] - gain)
        gradient[i] += share * (score - s[i]) * unit * (g[i] - gain)
        curvature[i] += share * miss
        spread += share * miss
    return gain, weight * (both - gain * offset), spread


def _constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return target, node mixture and worth of documents, and constants and nodes of queries."""
    metric = str(values["metric"])
    if metric == "precision" and np.any(values["k"] == 0):
        raise ParameterError(
            "metric=precision needs a cut-off, as all orders of a whole list have one precision:"
            " pass k=10"
        )
    targets, _ = target_constants(labels, gains, ptr, values)
    grades, queries = swap_constants(metric, values["k"], labels, gains, ptr, values)
    worth = gains if metric == "ndcg" else grades[:, 0]
    mixture, nodes = gain_nodes(worth, ptr, SLOTS)
    return np.column_stack([targets[:, 0], mixture, worth]), np.column_stack([queries, nodes])


def _find_settled_round(values: Mapping[str, Any], total: int) -> int:
    return int(values["warm_rounds"])


def gain_nodes(
    gains: Float64Array, ptr: Int64Array, most: int
) -> tuple[Float64Array, Float64Array]:
    """Express every document's gain as a mixture of two neighbouring nodes of its query.

    The nodes are the distinct gains of the query, or `most` >= 2 of them, evenly spread in order,
    with both ends. The mixture of |node - c| equals |gain - c| if the gain is a node or c is not
    between the same two nodes, and is larger otherwise, because |x - c| is convex.

    Returns:
        float64[N, 2], index of the node at or below the gain and share of the next one; float64[Q,
        1 + most], number of nodes and the nodes, ascending.
    """
    queries = ptr.size - 1
    query = np.repeat(np.arange(queries), np.diff(ptr))
    # Distinct gains of each query, ascending.
    order = np.lexsort((gains, query))
    sorted_gains, sorted_query = gains[order], query[order]
    is_new = np.ones(gains.size, dtype=bool)
    is_new[1:] = (np.diff(sorted_gains) > 0.0) | (np.diff(sorted_query) > 0)
    values, owner = sorted_gains[is_new], sorted_query[is_new]
    distinct = np.bincount(owner, minlength=queries)
    first, nodes = np.cumsum(distinct) - distinct, np.minimum(distinct, most)
    # Nodes of each query.
    table = np.zeros((queries, 1 + most))
    table[:, 0] = nodes
    for slot in range(most):
        has = nodes > slot
        step = np.maximum(nodes[has] - 1, 1)
        table[has, 1 + slot] = values[first[has] + slot * (distinct[has] - 1) // step]
    # Index and share of each gain.
    rank = np.cumsum(is_new) - 1 - first[sorted_query]
    steps, spans = (nodes - 1)[sorted_query], np.maximum(distinct - 1, 1)[sorted_query]
    low = np.maximum((rank + 1) * steps - 1, 0) // spans
    below, above = table[sorted_query, 1 + low], table[sorted_query, np.minimum(low + 2, most)]
    mixture = np.zeros((gains.size, 2))
    mixture[order, 0] = low
    between = sorted_gains > below
    mixture[order[between], 1] = ((sorted_gains - below)[between]) / (above - below)[between]
    return mixture, table


SPEC = ObjectiveSpec(
    name="smooth-ndcg",
    aliases=("smoothrank",),
    kernel=kernel,
    reference="Chapelle, Wu 2010: h_ij; eq (10), appendix 2; metrics 4.1, 4.2",
    prepare=_constants,
    shift_invariant=False,
    settled=_find_settled_round,
    default_schedules={
        "sigma": "joined(constant(64); geometric(64, 0.015625); at={warm_rounds})",
        "mix": "joined(constant(1); constant(0); at={warm_rounds})",
    },
    default_options={"gain_base": "least"},
    document_weights="gain",
)
