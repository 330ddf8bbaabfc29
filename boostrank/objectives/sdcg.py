"""SDCG: NDCG over smooth ranks, sums of sigmoids of score differences.

    rhat_i = 1 + sum_{j != i} G_sigma(s_i - s_j),     G_sigma(x) = 1 / (1 + exp(x / sigma))
    J      = (1/Z) sum_i g_i D(rhat_i) W_k(rhat_i),   W_k(r) = G_tau(r - k)

Where gains are 2^label - 1 (gain_base=zero, or a query with label 0), SDCG pushes a misordered
adjacent pair of graded documents the wrong way once scores differ by more than 2.43 sigma (labels 2
and 1; 1.57 for 3 and 2; 1.36 for 4 and 3). The smoothed hinges of SHF-SDCG repair this. k is that
of the metric, also in a list of fewer documents, where the last ones have nearly full weight; the
document at rank k has half of it.

Source: Wu, Chang, Zheng, Zha, "Smoothing DCG for learning to rank", CIKM 2009, eqs (5)-(8) for the
value, (9) and (10) for the gradient. Deviations: DCG is divided by its ideal value Z, so that
queries weigh the same; the truncation weight has its own width tau, in ranks; no truncation by
default.

Hessian: h_p = sum_j w_pj (|c_p| + |c_j|) / sigma^2 with w = G(1 - G), a bound on the curvature
    through the ranks.
Cost: near-linear in n, see `kernels.expsum`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("sdcg(sigma=0.2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.61], [-0.166, 0.13, -0.049, 0.085])
"""

import math

from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import NORMALIZE, SIGMA, TAU, TRAIN_DISCOUNT, K
from boostrank.kernels.sigmoid_ranks import SIGMOID_DCG_SCRATCH, sigmoid_dcg

PARAMS = (SIGMA, K, TAU, TRAIN_DISCOUNT, NORMALIZE, SUMS)


@objective_kernel(params=PARAMS, scratch=SIGMOID_DCG_SCRATCH, by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, the NDCG of sigmoid ranks, with its gradient and a curvature proxy."""
    cut = float(params.k) if params.k > 0 else math.inf
    return sigmoid_dcg(query, params, 1.0 / params.sigma, cut, params.tau, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="sdcg",
    kernel=kernel,
    reference="Wu, Chang, Zheng, Zha 2009, eqs (5)-(10)",
    default_options={"gain_base": "least"},
    document_weights="gain",
)
