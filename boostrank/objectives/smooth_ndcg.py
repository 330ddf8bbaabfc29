"""SmoothNDCG: NDCG of Gaussian averages around each rank, sharpened over the rounds after a
regression.

    h_ij = exp(-(s_i - s_d(j))^2 / sigma) / sum_m exp(-(s_m - s_d(j))^2 / sigma)
    J    = (1/Z) sum_{j <= k} D(j) sum_i g_i h_ij
    d(j) the document ranked j-th

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

Cost: near-linear in n for any sigma, by the lattice of `kernels.gauss`, once more for map, mrr and
err; runs of documents with few neighbours go pair by pair. n k with sums="direct", n^2 without k.
Largest relative difference from pairs: 2e-11 for lists of up to 4,000 documents, 3e-10 at worst for
20,000 (10,000 in a chain of gaps about as wide as the neighbourhood, and a cluster of 10,000 among
them).

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
from itertools import pairwise

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.expsum import DIRECT, SUMS
from boostrank.kernels.gauss import (
    IWORK,
    MEANS,
    PART,
    SLOTS,
    VALUE,
    WEIGHT,
    WORK,
    Run,
    Sources,
    gauss_gradient,
)
from boostrank.kernels.jit import allocates, inline, inline_sums
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import discount, fast_exp, gather, ideal_dcg
from boostrank.kernels.shared import (
    TARGET,
    TRAIN_DISCOUNT,
    K,
    mix_param,
    mix_squared_error,
    positive,
    target_constants,
    target_param,
)
from boostrank.kernels.swaps import (
    GRADE,
    MAP,
    METRICS,
    NDCG,
    PRECISION,
    SWAP_PARAMS,
    swap_constants,
)

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
# Columns of a document's constants, after its `TARGET`, and of a query's.
_NODE, _NODE_SHARE, _WORTH = 1, 2, 3
_NODE_COUNT, _FIRST_NODE = 3, 4
# Rows of the work space in pair loops, beside `MEANS`.
_H, _LOW_NODE, _HIGH_NODE = range(3)


@objective_kernel(
    params=PARAMS,
    scratch=f"s gradient curvature weight documents:3 work:{WORK}",
    int_scratch=f"node iwork:{IWORK}",
)
@allocates
def kernel(query, params, grad, hess, scratch):
    """Compute minus J in the annealed rounds, and the squared error in the warm ones."""
    n, mix, smooth_metric = query.scores.size, params.mix, 0.0
    if n == 0:
        return 0.0
    ideal = ideal_dcg(query.query_const, params.train_discount)
    if n > 1 and ideal > 0.0 and mix < 1.0:
        smooth_metric = _evaluate(query, params, ideal, grad, hess, scratch)
    if mix == 0.0:
        return -smooth_metric
    error = mix_squared_error(query, mix, grad, hess)
    return mix * error - (1.0 - mix) * smooth_metric


@inline
@allocates
def _evaluate(query, params, ideal, grad, hess, scratch):
    """Return J, and write the gradient of -J and its curvature to `grad` and `hess`."""
    n, order, sigma, metric = query.scores.size, query.order, params.sigma, params.metric
    if metric == PRECISION and n <= params.k:
        return 0.0
    s, weight, rows = scratch.s, scratch.weight, scratch.documents.reshape((3, n))
    gradient, curvature = scratch.gradient, scratch.curvature
    means = scratch.work[MEANS * n : (MEANS + 1) * n]
    node_count = int(query.query_const[_NODE_COUNT])
    nodes = query.query_const[_FIRST_NODE : _FIRST_NODE + node_count]
    documents = Sources(rows, scratch.node, nodes)
    gather(query.scores, order, s)
    for pos in range(n):
        constants = query.doc_const[order[pos]]
        rows[WEIGHT, pos], rows[VALUE, pos] = 1.0, constants[_WORTH]
        rows[PART, pos], documents.slot[pos] = constants[_NODE_SHARE], int(constants[_NODE])
        gradient[pos], curvature[pos] = 0.0, 0.0
    # The weights of the anchors, dJ/dc_j. If they depend on c, a pass with weights of 0 finds c.
    anchors = min(params.k, n) if params.k > 0 else n
    linear = metric in (NDCG, PRECISION)
    passes = 1 if linear else 2
    for pos in range(anchors):
        weight[pos] = 0.0
        if metric == NDCG:
            weight[pos] = discount(pos + 1.0, params.train_discount, n) / ideal
        elif metric == PRECISION:
            weight[pos] = 1.0 / params.k
    # Each pass goes run by run, on the lattice or pair by pair.
    unit, smooth_metric, direct = 1.0 / math.sqrt(sigma), 0.0, params.sums == DIRECT
    farthest = _FARTHEST if direct else _NEAR
    reach = math.sqrt(farthest * sigma)
    for _ in range(passes):
        weighted_means, last = 0.0, 0
        while last < anchors:
            first = last
            last += 1
            while last < n and s[last - 1] - s[last] <= reach:
                last += 1
            run = Run(first, last, min(last, anchors))
            if not direct and _has_many_pairs(s, run, reach):
                work, iwork = scratch.work, scratch.iwork
                weighted_means += gauss_gradient(
                    s, run, unit, weight, documents, gradient, curvature, work, iwork
                )
            else:
                weighted_means += _pair_gradient(s, run, reach, unit, documents, scratch)
        if linear:
            smooth_metric = weighted_means
        elif metric == MAP:
            smooth_metric = _map_slopes(means[:anchors], ideal, weight)
        else:
            smooth_metric = _first_slopes(means[:anchors], weight)
    for pos in range(n):
        grad[order[pos]] = -2.0 * unit * gradient[pos]
        hess[order[pos]] = 2.0 / sigma * curvature[pos]
    return smooth_metric


@inline
def _map_slopes(means, relevant, slope):
    """Return MAP of the relevance c at each rank, `means`, and write its derivatives."""
    mean_precision, above, below = 0.0, 0.0, 0.0
    for pos in range(means.size):
        above += means[pos]
        slope[pos] = above / (pos + 1.0) / relevant
        mean_precision += means[pos] * slope[pos]
    for pos in range(means.size - 1, -1, -1):
        below += means[pos] / (pos + 1.0) / relevant
        slope[pos] += below
    return mean_precision


@inline
def _first_slopes(means, slope):
    """Return the mean 1 / rank where a user stops, with chance c at each, and write its slopes."""
    reciprocal_rank, reads = 0.0, 1.0
    for pos in range(means.size):
        slope[pos] = reads
        reciprocal_rank += reads * means[pos] / (pos + 1.0)
        reads *= max(1.0 - means[pos], 0.0)
    # What a user who goes on gets from the ranks below.
    below = 0.0
    for pos in range(means.size - 1, -1, -1):
        slope[pos] *= max(1.0 / (pos + 1.0) - below, 0.0)
        below = means[pos] / (pos + 1.0) + max(1.0 - means[pos], 0.0) * below
    return reciprocal_rank


@inline
def _has_many_pairs(s, run, reach):
    """Return True if the anchors of a run have too many neighbours for pairs."""
    low, high, pairs = run.first, run.first, 0
    for j in range(run.first, run.stop):
        while s[low] - s[j] > reach:
            low += 1
        while high < run.last and s[j] - s[high] <= reach:
            high += 1
        pairs += high - low
    return pairs > _PAIRS * (high - run.first)


@inline
def _pair_gradient(s, run, reach, unit, documents, scratch):
    """Compute the same as `gauss_gradient`, but pair by pair over the documents within `reach` of
    each anchor.
    """
    weight, nodes, slot = scratch.weight, documents.nodes, documents.slot
    work = scratch.work.reshape((WORK, s.shape[0]))
    for i in range(run.first, run.last):
        work[_LOW_NODE, i] = nodes[slot[i]]
        work[_HIGH_NODE, i] = nodes[min(slot[i] + 1, nodes.shape[0] - 1)]
    # The window of documents within reach moves along with the anchor.
    low, high, weighted_means = run.first, run.first, 0.0
    for j in range(run.first, run.stop):
        while s[low] - s[j] > reach:
            low += 1
        while high < run.last and s[j] - s[high] <= reach:
            high += 1
        mean, own_pull, own_curvature = _add_anchor(
            s[j], weight[j], unit, slice(low, high), documents.rows, work, scratch
        )
        work[MEANS, j] = mean
        weighted_means += weight[j] * mean
        scratch.gradient[j] -= own_pull
        scratch.curvature[j] += own_curvature
    return weighted_means


@inline_sums
def _add_anchor(score, weight, unit, window, documents, work, scratch):
    """Add what an anchor contributes to the gradient and curvature of the documents in the window.

    Return the anchor's smoothed value c_j, its gradient on itself, and its own curvature.
    """
    s, gradient, curvature = scratch.s[window], scratch.gradient[window], scratch.curvature[window]
    v, part, h = documents[VALUE, window], documents[PART, window], work[_H, window]
    low_node, high_node = work[_LOW_NODE, window], work[_HIGH_NODE, window]
    e_sum, mean, mean_x, mean_xv = 0.0, 0.0, 0.0, 0.0
    for i in range(s.shape[0]):
        x = (score - s[i]) * unit
        e = fast_exp(-x * x)
        h[i] = e
        e_sum += e
        mean += e * v[i]
        mean_x += e * x
        mean_xv += e * x * v[i]
    mean, mean_x, mean_xv = mean / e_sum, mean_x / e_sum, mean_xv / e_sum
    own_curvature = 0.0
    for i in range(s.shape[0]):
        share = weight / e_sum * h[i]
        miss = (1.0 - part[i]) * abs(low_node[i] - mean) + part[i] * abs(high_node[i] - mean)
        gradient[i] += share * (score - s[i]) * unit * (v[i] - mean)
        curvature[i] += share * miss
        own_curvature += share * miss
    return mean, weight * (mean_xv - mean * mean_x), own_curvature


def _constants(labels, gains, ptr, values):
    """Return target, node mixture and worth of documents, and constants and nodes of queries."""
    if values["metric"] == "precision" and np.any(values["k"] == 0):
        raise ParameterError(
            "metric=precision needs a cut-off, as all orders of a whole list have one precision:"
            " pass k=10"
        )
    targets, _ = target_constants(labels, gains, ptr, values)
    grades, queries = swap_constants(labels, gains, ptr, values)
    worth = gains if values["metric"] == "ndcg" else grades[:, GRADE]
    mixture, nodes = gain_nodes(worth, ptr, SLOTS)
    return np.column_stack([targets[:, TARGET], mixture, worth]), np.column_stack([queries, nodes])


def _find_settled_round(values, total):
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
    mixture, table = np.zeros((gains.size, 2)), np.zeros((ptr.size - 1, 1 + most))
    for q, (a, b) in enumerate(pairwise(ptr)):
        distinct = np.unique(gains[a:b])
        count = min(distinct.size, most)
        nodes = distinct[np.arange(count) * (distinct.size - 1) // max(count - 1, 1)]
        table[q, 0], table[q, 1 : 1 + count] = count, nodes
        # Index and share of each gain between its nodes.
        low = np.searchsorted(nodes, gains[a:b], "right") - 1
        above_node = gains[a:b] - nodes[low]
        between = above_node > 0.0
        low_between = low[between]
        mixture[a:b, 0] = low
        mixture[a:b, 1][between] = above_node[between] / (
            nodes[low_between + 1] - nodes[low_between]
        )
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
