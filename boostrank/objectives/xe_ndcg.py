"""XE-NDCG: cross entropy towards randomised gains, with the approximate Newton step of LightGBM.

    p_i ~ g_i + 1 - u_i, u_i uniform on (0, 1), fresh every round;   q = softmax(s)
    L   = -sum_i p_i ln q_i
    t_i = q_i - p_i,    a_i = t_i / (1 - q_i),    v_i = q_i (sum a - a_i),    b_i = v_i / (1 - q_i)
    gradient t_i + v_i + q_i (sum b - b_i),       Hessian q_i (1 - q_i)

With exponential gains g + 1 - u is 2^label - u, as in LightGBM. The two terms after t make gradient
over Hessian approximate a full Newton step, with the curvature between documents that a diagonal
omits. So this is not the gradient of L, which is the reported loss.

Source: Bruch, "An alternative cross entropy loss for learning-to-rank", WWW 2021; LightGBM
src/objective/rank_objective.hpp, RankXENDCG. Deviations: queries with equal gains are skipped,
where LightGBM fits its noise; 1 - q keeps its digits where one document has nearly all the mass,
where LightGBM divides by 0.

Hessian: a proxy, the diagonal of that of L, LightGBM's. It vanishes with q and the gradient does
not, so a Newton step can be long, as in ListNet. h = (q + p) / 2 gave no more: NDCG@10 on
sparse-long (100 trees) -.0028 [-.0059, .0003], on OHSUMED within .001.
Cost: n exponentials and n random numbers per query.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("xe-ndcg(seed=1)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([1.435], [-0.287, 0.185, 0.057, 0.044])
"""

from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.primitives import LARGEST, SEED, bounded, ideal_dcg, uniform
from boostrank.kernels.shared import QUERY_NUMBER, numbered_constants, softmax

PARAMS = (SEED,)

# Keeps a quotient finite if one document is so far above that the share of the rest is 0.
_LEAST_REST = 1e-200


@objective_kernel(params=PARAMS, scratch="q complement p a")
def kernel(query, params, grad, hess, scratch):
    """Compute the cross entropy towards drawn gains, with the corrected gradient."""
    n, scores, gains = query.scores.size, query.scores, query.gains
    if n < 2 or ideal_dcg(query.query_const, 0.0) <= 0.0:
        return 0.0
    q, complement, p, a = scratch.q, scratch.complement, scratch.p, scratch.a
    seed, stream = params.seed, int(query.query_const[QUERY_NUMBER])
    log_sum, highest = softmax(scores, q, complement)
    gain_sum = 0.0
    for pos in range(n):
        i = query.order[pos]
        p[i] = gains[i] + 1.0 - uniform(seed, stream, pos)
        gain_sum += p[i]
    loss = 0.0
    for i in range(n):
        p[i] /= gain_sum
        loss += p[i] * (log_sum + min(highest - scores[i], LARGEST))
        complement[i] = max(complement[i], _LEAST_REST)
        grad[i] = q[i] - p[i]
        hess[i] = q[i] * complement[i]
        a[i] = grad[i] / complement[i]
    # The two correction terms of the Newton step, v and q (sum b - b_i); then `a` holds b.
    top = query.order[0]
    for _ in range(2):
        # The first document may have nearly all the mass and a huge a, so the others are summed
        # without it.
        others = 0.0
        for i in range(n):
            if i != top:
                others += a[i]
        first = a[top]
        for i in range(n):
            term = q[i] * (others if i == top else others - a[i] + first)
            grad[i] += term
            a[i] = term / complement[i]
    return bounded(loss)


SPEC = ObjectiveSpec(
    name="xe-ndcg",
    aliases=("xendcg", "rank_xendcg"),
    kernel=kernel,
    exact_gradient=False,
    reference="Bruch 2021; LightGBM rank_objective.hpp",
    prepare=numbered_constants,
    random=True,
    default_options={"gain_base": "least"},
    document_weights="gain",
)
