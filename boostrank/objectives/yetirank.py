"""YetiRank: logistic losses of the pairs that are neighbours in noisy orders, as in CatBoost.

    L = sum over pairs with t_i > t_j of w_ij ln(1 + exp(-(s_i - s_j)))
        on the scores without noise, w constant
    w = 0.15 decay^pos |t_i - t_j|,    averaged over the permutations

In each of the `permutations`, noise is added to the scores and the documents are sorted. The
documents at positions pos and pos + 1 (from 0) form a pair if their targets t differ.

With `mode=ndcg`, `map`, `mrr`, `err` or `dcg` it is YetiLoss: a pair's weight is the change of that
metric, defined in `kernels.swaps`, if the two were swapped in the noisy order. Each document is
paired with the `neighbors` documents below it.

Source: Gulin, Kuralenok, Pavlov, "Winning the transfer learning track of Yahoo!'s learning to rank
challenge with YetiRank", 2011; Lyzhin, Ustimenko, Gulin, Prokhorenkova, "Which tricks are important
for learning to rank?", ICML 2023; CatBoost catboost/private/libs/algo/yetirank_helpers.cpp.
Deviations: t may be the gain; logistic noise is ln(u / (1 - u)), CatBoost's ln(u / (1.000001 - u)),
which it calls Gumbel. CatBoost's weights are the change of the metric for NDCG, DCG, ERR and, of
neighbours, MRR. For MAP it sums 1 / rank over the upper document and the relevant ones between,
however many are above or in all. Its gains for NDCG and ERR are labels; here they are the metrics'.
Defaults are CatBoost's, and the algorithm is that of its CPU version.

Hessian: a proxy, the curvature w rho (1 - rho) of the pair losses with constant w, as in CatBoost.
Cost: n log n per permutation, with a random number per document and two exponentials per neighbour.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("yetirank(permutations=4)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([0.343], [-0.178, 0.118, -0.009, 0.069])
"""

from boostrank.core.params import Param
from boostrank.kernels.jit import inline
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import (
    LARGEST,
    SEED,
    bounded,
    expit,
    gather,
    ideal_dcg,
    logistic,
    origin,
    softplus,
    sort_descending,
)
from boostrank.kernels.shared import QUERY_NUMBER, TARGET, TARGETS, numbered, target_constants
from boostrank.kernels.swaps import ERR, METRICS, NDCG, SWAP_PARAMS, swap_constants, swap_rows

_CLASSIC, _DCG = 0, 5
_MODES = ("classic", *METRICS[: ERR + 1], "dcg")

PARAMS = (
    Param("permutations", 10, "number of noisy orders per round", low=1),
    Param(
        "decay",
        0.85,
        "weight of a position relative to the one above it",
        low=0.0,
        high=1.0,
        schedulable=True,
    ),
    Param("target", "labels", "a pair's weight is the difference of these values", choices=TARGETS),
    Param(
        "mode",
        "classic",
        "weight of a pair: from targets and decay, or the change of a metric",
        choices=_MODES,
    ),
    Param(
        "neighbors",
        1,
        "documents below to pair with (not classic); 0 means all",
        low=0,
        aliases=("num_neighbors",),
    ),
    Param(
        "k",
        0,
        "pairs need a document above this rank; 0 means all",
        low=0,
        unit="rank",
        aliases=("top", "at"),
    ),
    *SWAP_PARAMS,
    SEED,
)

# CatBoost's "magic constant"; the driver's scaling of the Hessian cancels it.
_WEIGHT = 0.15
# Smaller weights do not change a sum of doubles.
_LEAST_WEIGHT = 1e-20


@objective_kernel(
    params=PARAMS,
    scratch="target noisy grades up down reads",
    int_scratch="noisy_order spare",
    by_score=True,
)
def kernel(query, params, grad, hess, scratch):
    """Sum the losses of the pairs in noisy orders, with gradient and curvature by score."""
    n, s, divisor = query.scores.size, query.scores, ideal_dcg(query.query_const, 0.0)
    if n < 2 or divisor <= 0.0:
        return 0.0
    target, noisy, noisy_order = scratch.target, scratch.noisy, scratch.noisy_order
    seed, stream = params.seed, int(query.query_const[QUERY_NUMBER])
    depth = min(params.k, n - 1) if params.k > 0 else n - 1
    gather(query.doc_const[:, TARGET], query.order, target)
    # Centre the scores, so that a common offset does not swallow the noise.
    loss, middle = 0.0, origin(s)
    for draw in range(params.permutations):
        for pos in range(n):
            noisy[pos] = (s[pos] - middle) + logistic(seed, stream, draw * n + pos)
        sort_descending(noisy, noisy_order, scratch.spare)
        if params.mode != _CLASSIC:
            loss += _swapped_pairs(s, params, depth, divisor, grad, hess, scratch)
            continue
        weight = _WEIGHT / params.permutations
        for pos in range(depth):
            i, j = noisy_order[pos], noisy_order[pos + 1]
            loss += _add_pair(s, i, j, weight * (target[i] - target[j]), grad, hess)
            weight *= params.decay
            if weight < _LEAST_WEIGHT:
                break
    return bounded(loss)


@inline
def _swapped_pairs(s, params, depth, divisor, grad, hess, scratch):
    """Add the pairs of one noisy order, weighted by the change of the metric, and return their
    loss.
    """
    n, noisy_order, grades = s.size, scratch.noisy_order, scratch.grades
    up, down, reads = scratch.up, scratch.down, scratch.reads
    metric = NDCG if params.mode == _DCG else params.mode - 1
    gather(scratch.target, noisy_order, grades)
    ideal = 1.0 if params.mode == _DCG else divisor
    swap_rows(metric, grades, n, 0.0, ideal, up, down, reads)
    # Weight each pair by the change of the metric if its documents swap.
    reach = params.neighbors if params.neighbors > 0 else n
    loss = 0.0
    for pos in range(depth):
        between, passing = 0.0, 1.0
        for other in range(pos + 1, min(n, pos + 1 + reach)):
            change = up[pos] - down[other]
            if metric == ERR:
                reached = passing / (other + 1.0)
                change = reads[pos] * (1.0 / (pos + 1.0) - between - reached)
                between += reached * grades[other]
                passing *= 1.0 - grades[other]
            weight = (grades[pos] - grades[other]) * change / params.permutations
            loss += _add_pair(s, noisy_order[pos], noisy_order[other], weight, grad, hess)
    return loss


@inline
def _add_pair(s, i, j, weight, grad, hess):
    """Add a pair and return its loss; a positive weight says that i is the better document, and a
    negative one j.
    """
    if weight < 0.0:
        i, j, weight = j, i, -weight
    gap = s[i] - s[j]
    rho = expit(-gap)
    grad[i] -= weight * rho
    grad[j] += weight * rho
    hess[i] += weight * rho * (1.0 - rho)
    hess[j] += weight * rho * (1.0 - rho)
    return weight * softplus(min(-gap, LARGEST))


def _constants(labels, gains, ptr, values):
    mode = str(values["mode"])
    if mode == "classic":
        return numbered(target_constants(labels, gains, ptr, values))
    uses_gains = mode in ("ndcg", "dcg")
    metric = "ndcg" if uses_gains else mode
    constants = swap_constants(labels, gains, ptr, {**values, "metric": metric})
    documents, queries = numbered(constants)
    return gains[:, None] if uses_gains else documents, queries


SPEC = ObjectiveSpec(
    name="yetirank",
    kernel=kernel,
    reference="Gulin, Kuralenok, Pavlov 2011; CatBoost yetirank_helpers.cpp",
    prepare=_constants,
    random=True,
    document_weights="gain",
)
