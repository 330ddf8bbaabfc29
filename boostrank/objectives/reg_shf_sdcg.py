"""REG-SHF-SDCG: regression at first, which turns into SHF-SDCG on a logistic schedule.

    minimise  mix * R - (1 - mix) * J_SHF
    R = (1/2n) sum_i (s_i - t_i)^2,   J_SHF as in `shf_sdcg`

`mix` follows eq (19) over the rounds of the training: 0.999999 in the first, 1/2 in the middle,
1e-6 in the last. Gradient and Hessian are mixed before the leaves are computed. The transition
takes the middle third of the rounds, and about 80% of the rounds are almost pure. Early stopping
waits for the middle. Unlike in SHF-SDCG, sigma matters, because regression sets the scale of the
scores.

Source: Wu, Chang, Zheng, Zha, "Smoothing DCG for learning to rank", CIKM 2009, eqs (18)-(19).
Deviations: those of SHF-SDCG; the paper leaves R open, here it is the mean squared error of a
query, so that queries weigh the same, as in a normalised J.

Hessian: mix / n + (1 - mix) times that of SHF-SDCG. Cost: that of SHF-SDCG.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> objective = boostrank.Objective("reg-shf-sdcg", total_rounds=100)
    >>> values = boostrank.objective_values(objective, labels, scores, [4], round=60)
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([-0.472], [-0.126, 0.048, 0.022, 0.03])
"""

from boostrank.core.types import HessianKind, Schedule
from boostrank.kernels.hinge_ranks import SHF_INT_SCRATCH, SHF_PARAMS, SHF_SCRATCH, shf_sdcg
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import mix_param, mix_squared_error, target_constants, target_param

PARAMS = (*SHF_PARAMS, mix_param(0.5, "follows eq (19) over the training"), target_param("labels"))


@objective_kernel(params=PARAMS, scratch=SHF_SCRATCH, int_scratch=SHF_INT_SCRATCH)
def kernel(query, params, grad, hess, scratch):
    """Mix the squared error and minus J of SHF-SDCG, with their gradients and Hessians."""
    shf_loss = shf_sdcg(query, params, grad, hess, scratch)
    if query.scores.size == 0:
        return shf_loss
    mix = params.mix
    error = mix_squared_error(query, mix, grad, hess)
    return mix * error + (1.0 - mix) * shf_loss


def _find_settled_round(values, total):
    return total // 2 if isinstance(values["mix"], Schedule) else 0


SPEC = ObjectiveSpec(
    name="reg-shf-sdcg",
    aliases=("reg-shf",),
    kernel=kernel,
    hessian=HessianKind.MAJORISER,
    exact_gradient=False,
    reference="Wu, Chang, Zheng, Zha 2009, eqs (18)-(19)",
    prepare=target_constants,
    shift_invariant=False,
    settled=_find_settled_round,
    default_schedules={"mix": "logistic"},
    default_options={"gain_base": "least"},
    document_weights="gain",
)
