"""StochasticRank: NDCG@k smoothed by Gaussian noise; its gradient is estimated and kept free of
scale.

    z_i     = s_i - sigma mu t_i, centred;   the noisy scores are z + sigma eps
    dJ/dz_j = sum_q (M_q - M_(q+1)) N(x_q | mean_j, v),   averaged over `draws`
    M_q - M_(q+1) = (g_j - g_q) (d(q) - d(q+1)) / Z
    mean_j  = z_j + sum_(i != j) sigma eps_i / (n - 1),   v = sigma^2 n / (n - 1)

M_q is the metric with j inserted at position q (from 0) among the other documents, whose q-th noisy
score is x_q. The noise of j is integrated exactly; mean and variance include the integral over the
common shift of all noise. mu breaks ties against the relevant documents.

NDCG does not depend on the scale of the scores, so the gradient is centred and loses its part along
the centred scores y, J' -= scale_free <J', y> y / (|y| + nu)^2, in queries of more than two
documents (in two nothing would remain). The result is a random estimate and not the gradient of any
function, so the reported loss is the hard -NDCG@k.

Source: Ustimenko, Prokhorenkova, "StochasticRank: global optimization of scale-free discrete
functions", ICML 2020; CatBoost catboost/private/libs/algo_helpers/error_functions.cpp. Deviations:
t is the label and the metric is NDCG only; all noise in mean_j is scaled by sigma, but in CatBoost
only j's own noise is (the same at sigma 1); no Langevin noise and no shrinkage of the model, which
the paper's proof of global convergence needs. Defaults are CatBoost's.

Hessian: 1, plain gradient steps, as in CatBoost. Cost of a draw: near-linear in n, see
`kernels.gauss`; n min(n, k) exponentials with a small k, in
short lists and with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("stochastic-rank(draws=4, seed=1)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.587], [-0.125, 0.062, 0.001, 0.062])
"""

import math

import numpy as np

from boostrank.core.params import Param
from boostrank.kernels.expsum import DIRECT, SUMS
from boostrank.kernels.gauss import gaussian_rank_changes
from boostrank.kernels.jit import allocates, inline_sums
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import (
    SEED,
    discount,
    fast_exp,
    gather,
    ideal_dcg,
    normal,
    origin,
    sort_descending,
)
from boostrank.kernels.shared import QUERY_NUMBER, TRAIN_DISCOUNT, K, numbered_constants, positive

PARAMS = (
    positive("sigma", 1.0, "standard deviation of the noise", unit="score"),
    Param(
        "mu",
        0.0,
        "shift against relevance before the noise, in sigmas per label",
        low=0.0,
        high=10.0,
        schedulable=True,
    ),
    Param("draws", 1, "number of noisy orders per round", low=1, aliases=("num_estimations",)),
    Param(
        "scale_free", 1.0, "share to remove from the gradient along the scores", low=0.0, high=1.0
    ),
    Param(
        "nu",
        0.01,
        "length of the scores below which that removal fades",
        low=0.0,
        open_low=True,
        unit="score",
    ),
    K,
    TRAIN_DISCOUNT,
    SEED,
    SUMS,
)

LABEL = 0
"""The column of a document in the constants."""

# Half squares beyond this are clipped: the density is 0, and `fast_exp` ends here.
_FARTHEST = 700.0
# Fewer ranks go pair by pair: measured, that takes 266 ns per document at 32 and 385 at 64, the
# lattice 300 or less.
_SHORT = 64
# Smallest half distance that is inverted; the projection is negligible below.
_NARROWEST = 1e-290


@objective_kernel(
    params=PARAMS,
    scratch="z drop noise noisy x g pulls",
    int_scratch="noisy_order spare",
    by_score=True,
)
@allocates
def kernel(query, params, grad, hess, scratch):
    """Estimate the gradient of smoothed NDCG from noisy orders; the Hessian is 1."""
    n, s, g, blend = query.scores.size, query.scores, query.gains, params.train_discount
    ideal = ideal_dcg(query.query_const, blend)
    if n < 2 or ideal <= 0.0:
        return 0.0
    sigma, seed, stream = params.sigma, params.seed, int(query.query_const[QUERY_NUMBER])
    depth = n if params.k == 0 else min(params.k, n)
    deviation = sigma * math.sqrt(n / (n - 1.0))
    z, drop, noise, noisy = scratch.z, scratch.drop, scratch.noise, scratch.noisy
    x, noisy_gains, pulls, order = scratch.x, scratch.g, scratch.pulls, scratch.noisy_order
    # Centre the scores, so that a common offset costs neither noise nor digits.
    ndcg, middle = 0.0, origin(s)
    for pos in range(n):
        label = query.doc_const[query.order[pos], LABEL]
        z[pos] = (s[pos] - middle) - sigma * params.mu * label
        weight = discount(pos + 1.0, blend, n) / ideal if pos < depth else 0.0
        below = discount(pos + 2.0, blend, n) / ideal if pos + 1 < depth else 0.0
        drop[pos] = weight - below
        ndcg += g[pos] * weight
    for draw in range(params.draws):
        # Draw noise and sort.
        noise_sum = 0.0
        for pos in range(n):
            noise[pos] = sigma * normal(seed, stream, draw * n + pos)
            noisy[pos] = z[pos] + noise[pos]
            noise_sum += noise[pos]
        sort_descending(noisy, order, scratch.spare)
        gather(noisy, order, x)
        gather(g, order, noisy_gains)
        # Each document's integrated gradient in the noisy order.
        means = noisy
        for a in range(n):
            pos = order[a]
            means[a] = z[pos] + (noise_sum - noise[pos]) / (n - 1.0)
        if params.sums == DIRECT or depth < _SHORT:
            for a in range(n):
                pulls[a] = _pull(x, noisy_gains, drop, a, depth, means[a], deviation)
        else:
            gaussian_rank_changes(x, means, deviation, noisy_gains, drop, pulls)
        for a in range(n):
            grad[order[a]] += pulls[a] / params.draws
    scale_free = params.scale_free if n > 2 else 0.0
    _project(s, scale_free, params.nu, x, grad)
    hess[:] = 1.0
    return -ndcg


@inline_sums
def _pull(x, g, drop, a, depth, mean, deviation):
    """Return dJ/dz of the document at position `a` of a noisy order, without which later documents
    move up by one.
    """
    inverse = 1.0 / deviation
    gain, total = g[a], 0.0
    for q in range(min(a, depth)):
        u = (x[q] - mean) * inverse
        total += (gain - g[q]) * drop[q] * fast_exp(-min(0.5 * u * u, _FARTHEST))
    for q in range(a, min(x.shape[0] - 1, depth)):
        u = (x[q + 1] - mean) * inverse
        total += (gain - g[q + 1]) * drop[q] * fast_exp(-min(0.5 * u * u, _FARTHEST))
    return total * inverse / math.sqrt(2.0 * math.pi)


@inline_sums
def _project(s, share, nu, centred, pull):
    """Centre dJ/ds, remove its part along the centred scores, and turn it into the gradient of the
    loss.
    """
    n = s.shape[0]
    # In units of half the widest distance, so that neither squares nor the distance overflow.
    half_middle, half_width = 0.5 * s[n // 2], 0.5 * s[0] - 0.5 * s[n - 1]
    per_width = 1.0 / half_width if half_width > _NARROWEST else 0.0
    mean_pull, mean_centred = 0.0, 0.0
    for i in range(n):
        centred[i] = (0.5 * s[i] - half_middle) * per_width
        mean_pull += pull[i] / n
        mean_centred += centred[i] / n
    along, square = 0.0, 0.0
    for i in range(n):
        centred[i] -= mean_centred
        pull[i] = mean_pull - pull[i]
        along += pull[i] * centred[i]
        square += centred[i] * centred[i]
    length = math.sqrt(square) + 0.5 * nu * per_width
    factor = share * along / (length * length) if square > 0.0 else 0.0
    for i in range(n):
        pull[i] -= factor * centred[i]


def _constants(labels, gains, ptr, values):
    _, queries = numbered_constants(labels, gains, ptr, values)
    return np.array(labels)[:, None], queries


SPEC = ObjectiveSpec(
    name="stochastic-rank",
    kernel=kernel,
    exact_gradient=False,
    reference="Ustimenko, Prokhorenkova 2020; CatBoost error_functions.cpp",
    prepare=_constants,
    random=True,
    document_weights="gain",
)
