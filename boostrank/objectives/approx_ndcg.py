"""ApproxNDCG: NDCG over smooth ranks, cut off at k by a sigmoid of the rank.

    pi_x = 1 + sum_{y != x} 1 / (1 + exp(alpha (s_x - s_y)))
    J    = (1/Z_k) sum_x g_x D(pi_x) T_x
    T_x  = 1 / (1 + exp(-beta (k + 1/2 - pi_x))), 1 without a cut-off

Without a cut-off this is SDCG with alpha = 1 / sigma, including its wrong gradients on graded data
(see `sdcg`).

Source: Qin, Liu, Li, "A general approximation framework for direct optimization of information
retrieval measures", Information Retrieval 13 (2010), eq (11) for the smooth ranks in the value,
(35) and (38) for the gradient. Deviation: the paper tunes alpha in 50..300 for linear models on
normalised features; the default here suits scores on the scale of labels.

Hessian: h_p = alpha^2 sum_x w_xp (|c_x| + |c_p|), c = dJ / dpi, w = P (1 - P), a proxy that bounds
    |P''|.
Cost: near-linear in n, see `kernels.expsum`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("approx-ndcg(k=2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.305], [-0.104, 0.055, -0.004, 0.054])
"""

import math

from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import ALPHA, NORMALIZE, TRAIN_DISCOUNT, K, positive
from boostrank.kernels.sigmoid_ranks import SIGMOID_DCG_SCRATCH, sigmoid_dcg

BETA = positive("beta", 1.0, "sharpness of the cut-off at k", unit="1/rank")
PARAMS = (ALPHA, K, BETA, TRAIN_DISCOUNT, NORMALIZE, SUMS)


@objective_kernel(params=PARAMS, scratch=SIGMOID_DCG_SCRATCH, by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, the NDCG of smooth ranks, with its gradient and curvature by score."""
    cut = params.k + 0.5 if params.k > 0 else math.inf
    return sigmoid_dcg(query, params, params.alpha, cut, 1.0 / params.beta, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="approx-ndcg",
    kernel=kernel,
    reference="Qin, Liu, Li 2010, eqs (11), (35), (38)",
    default_options={"gain_base": "least"},
    document_weights="gain",
)
