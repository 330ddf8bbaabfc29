"""RankSVM: a hinge on every pair, or its square.

    L = sum over pairs with g_i > g_j of  max(0, m - (s_i - s_j))          pair_loss=hinge
                                   or of  1/2 max(0, m - (s_i - s_j))^2    pair_loss=squared

Source: Herbrich, Graepel, Obermayer, "Large margin rank boundaries for ordinal regression", 2000; Joachims, "Optimizing
search engines using clickthrough data", KDD 2002; the square: Chapelle, Keerthi, "Efficient algorithms for ranking
with SVMs", 2010. Deviation: no norm of a weight vector to regularise; the trees do that.

Hessian: the number of pairs that violate the margin. For the square it is the exact diagonal wherever no pair stands
exactly on the margin; the hinge has no curvature, and the number over m limits a step to m.
Cost: n log n, see `kernels.ranks.margin`.
"""

from __future__ import annotations

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, Int64Array
from boostrank.kernels.objective.contract import ObjectiveSpec, objective_kernel
from boostrank.kernels.ranks.margin import MARGIN_SCRATCH, grade_constants, margin_pairs

PARAMS = (
    Param("pair_loss", "squared", "what a pair that violates the margin costs", choices=("squared", "hinge")),
    Param(
        "margin",
        1.0,
        "by how much the better document of a pair should lead",
        low=0.0,
        open_low=True,
        log=True,
        schedulable=True,
        unit="score",
    ),
)


@objective_kernel
def kernel(
    scores: Float64Array,
    gains: Float64Array,
    order: Int64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    scratch: Float64Array,
    iscratch: Int64Array,
) -> float:
    """One query; see `kernels.objective.contract`."""
    squared = params[0] == 0.0
    return margin_pairs(scores, order, doc_const, query_const, params[1], squared, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="ranksvm",
    aliases=("rank-svm", "hinge"),
    summary="a hinge, or its square, on every pair",
    equation="sum over pairs of max(0, m - (s_i - s_j)), or half its square",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.PROXY,
    reference="Joachims 2002; Chapelle, Keerthi 2010",
    prepare=grade_constants,
    quadratic=False,
    scratch_per_document=MARGIN_SCRATCH,
)
