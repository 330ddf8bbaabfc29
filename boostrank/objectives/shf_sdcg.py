"""SHF-SDCG: SDCG with smoothed hinges, so that every misordered pair pulls the right way.

    rhat_i = 1 + sum_{j != i} K_ij(s_i - s_j)
    K(x)   = A(x) = ln(1 + exp(-x / sigma)) where g_i > g_j,   B(x) = 1 + A(-x) where g_i < g_j
    J      = (1/Z) sum_i g_i D(rhat_i) W(rhat_i)

Documents of equal gain are compared by the sigmoid of SDCG (`kernels.hinge_ranks`). With k, the
truncation weight W(r) = G_tau(r - s_m) is annealed: s_m, the largest rank among the k most relevant
documents, replaces k in each round and is constant in the gradient, eq (17). s_m is measured on the
same inflated ranks as W, because a hard rank would make the weight underflow. s_m is at least k, or
the length of a list of fewer documents, whose most relevant k are all.

Source: Wu, Chang, Zheng, Zha, "Smoothing DCG for learning to rank", CIKM 2009, eqs (12)-(13) for
the ranks, (17) for the weight. Deviations: the equations are reconstructed from quotations; the
paper's hinge is unknown, softplus is our choice; the n-document form follows from its two-document
one; divided by the ideal DCG; no truncation by default; with a linear training discount and ranks
beyond n, see `kernels.sigmoid_ranks.smooth_dcg`.

Hessian: h_p = sum_j (|c_p| + |c_j|) kappa_pj. With constant rank slopes c, it majorises the loss
along every score (pairs of unequal gain; equal gains get the proxy w of SDCG).
Cost: near-linear in n, see `kernels.hinge_ranks`; n^2 / 2 pairs per query with sums="direct".

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("shf-sdcg(sigma=0.2)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.46], [-0.394, 0.204, 0.149, 0.041])
"""

from boostrank.core.types import HessianKind
from boostrank.kernels.hinge_ranks import SHF_INT_SCRATCH, SHF_PARAMS, SHF_SCRATCH, shf_sdcg
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel

PARAMS = SHF_PARAMS


@objective_kernel(params=PARAMS, scratch=SHF_SCRATCH, int_scratch=SHF_INT_SCRATCH)
def kernel(query, params, grad, hess, scratch):
    """Compute minus J, the NDCG of hinge ranks, with its gradient and a majoriser."""
    return shf_sdcg(query, params, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="shf-sdcg",
    aliases=("shf",),
    kernel=kernel,
    hessian=HessianKind.MAJORISER,
    exact_gradient=False,
    reference="reconstructed from Wu, Chang, Zheng, Zha 2009, eqs (12)-(17)",
    default_options={"gain_base": "least"},
    document_weights="gain",
)
