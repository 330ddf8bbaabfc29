"""GBRank: regression of every misordered pair towards each other's score.

A pair with g_i > g_j and s_i < s_j + tau has the targets s_j + tau for i and s_i - tau for j. A tree is fitted to the
targets by least squares, with a document once for each of its pairs. Its leaf, the mean of target minus score, is then
exactly the Newton step with

    gradient on i: sum over its pairs of s_i - (s_j + tau);    on j: s_j - (s_i - tau);    Hessian: the number of pairs

which belong to the paper's loss L = sum of 1/2 max(0, s_j - s_i + tau)^2: RankSVM with a squared hinge, derived from
regression.

Source: Zheng, Chen, Sun, Zha, "A regression framework for learning ranking functions using relative relevance
judgments", SIGIR 2007. Deviation: trees are fitted to residuals and summed, as in all boosting here; the paper fits
targets and averages, h_k = (k h_(k-1) + eta tree) / (k + 1).
Hessian: the number of misordered pairs, exact unless a pair is exactly on the margin.
Cost: n log n, see `kernels.margin`.
"""

from __future__ import annotations

from typing import Any

from boostrank.core.types import Float64Array
from boostrank.kernels.margin import MARGIN_SCRATCH, grade_constants, margin_pairs
from boostrank.kernels.objective import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.shared import positive

PARAMS = (
    positive(
        "tau",
        1.0,
        "distance of a target from the other document's score; without it constant scores would be optimal",
        unit="score",
        aliases=("margin",),
    ),
)


@objective_kernel(params=PARAMS, scratch=MARGIN_SCRATCH, by_score=True)
def kernel(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    return margin_pairs(query, params.tau, True, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="gbrank",
    summary="regression of wrongly ordered pairs towards each other's score",
    equation="sum over pairs of 1/2 max(0, s_j - s_i + tau)^2",
    kernel=kernel,
    reference="Zheng, Chen, Sun, Zha 2007",
    deviation="trees add up; the paper averages them",
    prepare=grade_constants,
)
