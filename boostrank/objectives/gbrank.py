"""GBRank: regression of every wrongly ordered pair towards each other's score.

A pair with g_i > g_j and s_i < s_j + tau asks i to become s_j + tau and j to become s_i - tau. A tree is fitted to
these targets by least squares, a document as often as it stands in such a pair; its leaf, the mean of target less
score, is then exactly the Newton step with

    gradient on i: sum over its pairs of s_i - (s_j + tau);    on j: s_j - (s_i - tau);    hessian: the number of pairs

which are those of L = sum of 1/2 max(0, s_j - s_i + tau)^2, the paper's loss: squared-hinge RankSVM reached from
the side of regression.

Source: Zheng, Chen, Sun, Zha, "A regression framework for learning ranking functions using relative relevance
judgments", SIGIR 2007. Deviation: trees are fitted to residuals and add up, as in all boosting here; the paper fits
targets and averages, h_k = (k h_(k-1) + eta tree) / (k + 1).
Hessian: the number of wrong pairs, exact wherever no pair stands exactly on the margin.
Cost: n log n, see `kernels.ranks.margin`.
"""

from __future__ import annotations

from typing import Any

from boostrank.core.types import Float64Array, HessianKind
from boostrank.kernels.objective.contract import ObjectiveSpec, Query, objective_kernel
from boostrank.kernels.objective.shared_params import positive
from boostrank.kernels.ranks.margin import MARGIN_SCRATCH, grade_constants, margin_pairs

PARAMS = (
    positive(
        "tau",
        1.0,
        "by how much a target goes beyond the other document's score; without it constant scores would be optimal",
        unit="score",
        aliases=("margin",),
    ),
)


@objective_kernel(params=PARAMS, scratch=MARGIN_SCRATCH, by_score=True)
def kernel(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    """One query; see `kernels.objective.kernel`."""
    return margin_pairs(query, params.tau, True, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="gbrank",
    summary="regression of wrongly ordered pairs towards each other's score",
    equation="sum over pairs of 1/2 max(0, s_j - s_i + tau)^2",
    kernel=kernel,
    hessian=HessianKind.PROXY,
    reference="Zheng, Chen, Sun, Zha 2007",
    deviation="trees add up; the paper averages them",
    prepare=grade_constants,
    quadratic=False,
)
