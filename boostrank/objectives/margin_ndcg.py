"""Large-margin NDCG: an upper bound of 1 - NDCG@k whose worst ranking is found exactly by linear
assignment.

    convex   xi  = max_y [margin Delta(y) + sum_i A(y_i) s_i] - sum_i A(y*_i) s_i
    tight    xi' = max_y [margin Delta(y) + sum_i A(y_i) s_i] - sum_i A(rank_i) s_i
    L        = xi / min(k, n);   dL/ds_i = (A(yhat_i) - A(y*_i or rank_i)) / min(k, n)
    A(r)     = max(k + 1 - r, 0), or with rank_weights=root
               r^-1/2 - (k + 1)^-1/2 for r <= k, times k / its value at r = 1, and 0 beyond
    Delta(y) = 1 - NDCG@k of the ranking y

y* is the perfect ranking nearest to the scores: by descending gain, then descending score. rank is
the order of the scores. yhat attains the maximum; it is a linear assignment of documents to the
first k ranks with values A(r) s_i - margin g_i D(r) / Z_k. If margin >= 1, then 1 - NDCG@k <= xi'
<= xi. Among documents of one gain, those with higher scores take better ranks, so only the first k
of each gain are candidates.

xi' is flat where yhat is the order of the scores. That is so at any scale of scores where no
relevant document is in the first k, as no ranking is worse (1,108 of 3,139 queries of sparse-long
with random scores), and beyond the margin wherever the scores are spread further than it.
bound=tight-or-convex, the default, takes xi in such a query, so it is flat only where all of the
first k are in the right order; its loss jumps where it changes from one to the other. NDCG@10 on
test queries, 95% intervals, tight-or-convex minus tight: sparse-long (100 trees) .8782, +.0061
[.0016, .0106]; OHSUMED (five folds, 120 trees, three seeds) .4363, +.0005 [-.0090, .0100]. The
convex bound alone reached .383 there.

xi is convex for a fixed y*. Since y* follows the scores, xi is the minimum of such functions over
the perfect rankings. It has kinks where scores tie, so documents with the same gain and score get
the same gradient, the mean over all orders of the ties. Averaged over noise on the scores, the
bound is smooth.

Source: Chapelle, Le, Smola, "Large margin optimization of ranking measures", NIPS workshop on
machine learning for web search, 2007, eqs (7) and (12) for xi, (14) for xi'; their subgradients are
A(yhat) - A of the other ranking. Deviations: the paper has margin 1, here it is 2.5 unless given;
the gain term of the printed (8) lacks the factor 1/Z; subgradients are divided by min(k, n), so
that k beyond the list is its length; y* minimises xi, where the paper draws it at random among the
perfect rankings; the 1 / sqrt(r) of its second web set is constant beyond k and scaled so that one
margin suits both A; xi where xi' is flat; with the linear backend, the start is a regression on
gains, in the paper on grades.

Hessian: 1, plain gradient boosting; a proxy.
Cost: a sort, and k^2 m for the assignment, m = min(n, k times the number of distinct gains).

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("margin-ndcg(k=2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([1.333], [-1.0, 1.0, 0.0, 0.0])
"""

import math

from boostrank.core.params import Param
from boostrank.kernels.jit import inline
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import (
    LARGEST_LOSS,
    bounded,
    discount,
    gather,
    ideal_dcg,
    sort_descending,
)
from boostrank.kernels.shared import TRAIN_DISCOUNT, positive

PARAMS = (
    Param(
        "k", 10, "rank at which NDCG is bounded", low=1, unit="rank", aliases=("at", "truncation")
    ),
    Param(
        "bound",
        "tight-or-convex",
        "convex: against the perfect ranking; tight: against the current ranking, closer to NDCG; "
        "tight-or-convex: tight, and convex in queries where that is flat",
        choices=("convex", "tight", "tight-or-convex"),
    ),
    positive(
        "margin",
        2.5,
        "required distance between a ranking of NDCG 0 and the perfect one",
        unit="score",
    ),
    TRAIN_DISCOUNT,
    Param(
        "rank_weights",
        "linear",
        "A(r): falls linearly, or as 1 / sqrt(r), to 0 beyond k",
        choices=("linear", "root"),
    ),
)

_CONVEX, _TIGHT_OR_CONVEX = 0, 2
_LINEAR = 0
_FLAT = 1e-9  # largest rounding of a mean of ranks


@objective_kernel(
    params=PARAMS,
    scratch="s g target worst price reach by_rank clipped gain_terms rank_weights discounts bid",
    int_scratch="perfect rank_of before done group_start",
    by_score=True,
)
def kernel(query, params, grad, hess, scratch):
    """Compute the bound at its worst ranking, with its subgradient and a curvature by score."""
    scores, gains, n = query.scores, query.gains, query.scores.size
    margin, tight = params.margin, params.bound != _CONVEX
    ideal = ideal_dcg(query.query_const, params.train_discount)
    if n < 2 or ideal <= 0.0:
        return 0.0
    hess[:] = 1.0
    depth = min(params.k, n)
    is_linear = params.rank_weights == _LINEAR
    rank_weights = scratch.rank_weights
    _write_rank_weights(depth, is_linear, rank_weights)

    # `perfect` is y*: positions by descending score, sorted by gain. `target` is A of the other
    # ranking, y* or that of the scores.
    s, g, perfect, rank_of = scratch.s, scratch.g, scratch.perfect, scratch.rank_of
    target, worst = scratch.target, scratch.worst
    by_rank, clipped = scratch.by_rank, scratch.clipped
    # A gap wider than the margin over the last, smallest step of A is never worth crossing.
    # Clipping gaps at twice that keeps the optimum and the digits of scores that are far apart.
    widest = 2.0 * margin / rank_weights[depth - 1]
    for pos in range(n):
        by_rank[pos], clipped[pos] = rank_weights[pos], 0.0
        if pos > 0:
            clipped[pos] = clipped[pos - 1] - min(scores[pos - 1] - scores[pos], widest)
    sort_descending(gains, perfect, rank_of)
    if tight:
        _share_ties(by_rank, scores, scores)
    gather(scores, perfect, s)
    gather(gains, perfect, g)
    for pos in range(n):
        target[pos] = by_rank[perfect[pos]] if tight else by_rank[pos]
        worst[pos] = 0.0

    # Candidates for the first ranks: the best documents of each gain.
    m, of_this_gain = 0, 0
    group_start, score_terms, gain_terms = scratch.group_start, by_rank, scratch.gain_terms
    for pos in range(n):
        of_this_gain = of_this_gain + 1 if pos > 0 and g[pos] == g[pos - 1] else 1
        if of_this_gain <= depth:
            group_start[m] = pos - of_this_gain + 1
            score_terms[m] = clipped[perfect[pos]]
            gain_terms[m] = margin * g[pos] / ideal
            m += 1
    candidate_at, done, discounts = scratch.before, scratch.done, scratch.discounts[:depth]
    for r in range(depth):
        discounts[r] = discount(r + 1.0, params.train_discount, n)
    assign_ranks(
        rank_weights[:depth], discounts, score_terms[:m], gain_terms[:m], rank_of[:m], scratch
    )

    # `worst` is A of yhat. Documents of one gain share their ranks in the order of their scores,
    # even where scores differ slightly.
    loss = margin
    for c in range(m):
        if rank_of[c] >= 0:
            candidate_at[rank_of[c]] = c
        done[group_start[c]] = group_start[c]
    for r in range(depth):
        c = candidate_at[r]
        loss -= discounts[r] * gain_terms[c]
        worst[done[group_start[c]]] = rank_weights[r]
        done[group_start[c]] += 1
    _share_ties(worst, g, s)
    _share_ties(target, g, s)
    is_flat = params.bound == _TIGHT_OR_CONVEX
    for pos in range(n):
        is_flat = is_flat and abs(worst[pos] - target[pos]) < _FLAT
    if is_flat:
        for pos in range(n):
            target[pos] = rank_weights[pos]
        _share_ties(target, g, s)
    for pos in range(n):
        grad[perfect[pos]] = (worst[pos] - target[pos]) / depth
    return bounded(_add_gaps(loss, scores, grad, depth, is_linear) / depth)


@inline
def _add_gaps(loss, scores, grad, depth, is_linear):
    """Return the loss plus the sum of slope times score, gap by gap.

    The weight that the documents above a gap should lose is an integer if A is linear, and 0 where
    the gap is not to be crossed.
    """
    across = 0.0
    for pos in range(scores.shape[0] - 1):
        across += depth * grad[pos]
        gap = scores[pos] - scores[pos + 1]
        lost = math.floor(across + 0.5) if is_linear else across
        if gap > 0.0 and abs(lost) > _FLAT:
            loss += lost * min(gap, LARGEST_LOSS)
    return loss


@inline
def _write_rank_weights(depth, is_linear, rank_weights):
    """Write A of all ranks."""
    beyond = 1.0 / math.sqrt(depth + 1.0)
    for pos in range(rank_weights.shape[0]):
        rank_weights[pos] = max(depth - pos, 0)
        if not is_linear:
            excess = max(1.0 / math.sqrt(pos + 1.0) - beyond, 0.0)
            rank_weights[pos] = depth * excess / (1.0 - beyond)


@inline
def _share_ties(values, first, second):
    """Replace values by their mean over each run in which both `first` and `second` are equal."""
    n, start = values.shape[0], 0
    while start < n:
        stop, total = start, 0.0
        while stop < n and first[stop] == first[start] and second[stop] == second[start]:
            # Relative to the first value: equal values stay exactly equal, however many there are.
            total += values[stop] - values[start]
            stop += 1
        mean = values[start] + total / (stop - start)
        for i in range(start, stop):
            values[i] = mean
        start = stop


@inline
def assign_ranks(a, d, s, g, rank_of, scratch):
    """Assign a document to each of k ranks so that sum_r (a_r s_c(r) - d_r g_c(r)) is as large as
    possible.

    The algorithm of shortest augmenting paths with dual prices takes O(k^2 m) for m documents.
    Source: Jonker, Volgenant, "A shortest augmenting path algorithm for dense and sparse linear
    assignment problems", Computing 38 (1987), without its initialisation; Crouse 2016 for k < m.

    Args:
        a, d: float64[k], factors of the ranks.
        s, g: float64[m], scores and gains of the documents, m >= k.
        rank_of: int64[m], written: the rank of each document, from 0, or -1 if it has none.
        scratch: rows before, done, price and reach for documents and bid for ranks, overwritten.
    """
    m, before, done = s.shape[0], scratch.before, scratch.done
    price, reach, bid = scratch.price, scratch.reach, scratch.bid
    for c in range(m):
        rank_of[c] = -1
        price[c] = 0.0
    for new in range(a.shape[0]):
        bid[new] = 0.0
        for c in range(m):
            reach[c] = math.inf
            done[c] = 0
        rank, last = new, -1
        # Dijkstra over reduced costs, from the new rank to the nearest free document.
        while rank >= 0:
            step, nearest = math.inf, -1
            for c in range(m):
                if done[c] == 0:
                    cost = d[rank] * g[c] - a[rank] * s[c] - bid[rank] - price[c]
                    if cost < reach[c]:
                        reach[c] = cost
                        before[c] = last
                    if reach[c] < step:
                        step, nearest = reach[c], c
            bid[new] += step
            for c in range(m):
                if done[c] == 0:
                    reach[c] -= step
                else:
                    bid[rank_of[c]] += step
                    price[c] -= step
            done[nearest] = 1
            last, rank = nearest, rank_of[nearest]
        # Every document on the path takes the rank of its predecessor.
        while last >= 0:
            previous = before[last]
            rank_of[last] = rank_of[previous] if previous >= 0 else new
            last = previous


SPEC = ObjectiveSpec(
    name="margin-ndcg",
    kernel=kernel,
    reference="Chapelle, Le, Smola 2007, eqs (7), (12), (14)",
    document_weights="gain",
)
