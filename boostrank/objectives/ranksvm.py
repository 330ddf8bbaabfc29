"""RankSVM: a hinge, or its square, on every pair.

    L = sum over pairs with g_i > g_j of  1/2 max(0, m - (s_i - s_j))^2    pair_loss=squared
                                   or of  max(0, m - (s_i - s_j))          pair_loss=hinge

The default is the square, of Chapelle and Keerthi, which has a curvature for Newton leaves. The
first two sources, and the RankSVM of LETOR's published baselines, have the hinge.

Source: Herbrich, Graepel, Obermayer, "Large margin rank boundaries for ordinal regression", 2000;
Joachims, "Optimizing search engines using clickthrough data", KDD 2002; the square: Chapelle,
Keerthi, "Efficient algorithms for ranking with SVMs", 2010. Deviation: no norm of a weight vector
is penalised; the trees regularise.

Hessian: the number of pairs that violate the margin. For the square it is the exact diagonal unless
a pair is exactly on the margin. The hinge has no curvature, so the number of pairs is divided by m,
which limits a step to m.
Cost: n log n, see `kernels.margin`.

Example:

    >>> import boostrank
    >>> labels, scores = [2, 0, 1, 0], [0.1, 0.4, 0.3, -0.2]
    >>> values = boostrank.objective_values("ranksvm(pair_loss=hinge)", labels, scores, [4])
    >>> values.losses.round(3).tolist(), values.gradients.round(3).tolist()
    ([4.8], [-3.0, 2.0, -1.0, 2.0])
"""

from boostrank.core.params import Param
from boostrank.kernels.margin import MARGIN_SCRATCH, grade_constants, margin_pairs
from boostrank.kernels.objective import ObjectiveSpec, objective_kernel
from boostrank.kernels.shared import positive

PARAMS = (
    Param(
        "pair_loss",
        "squared",
        "loss of a pair that violates the margin",
        choices=("squared", "hinge"),
    ),
    positive("margin", 1.0, "required lead of the better document of a pair", unit="score"),
)

_SQUARED = 0


@objective_kernel(params=PARAMS, scratch=MARGIN_SCRATCH, by_score=True)
def kernel(query, params, grad, hess, scratch):
    """Sum the hinges or squared hinges of the pairs, with their gradient and curvature."""
    return margin_pairs(query, params.margin, params.pair_loss == _SQUARED, grad, hess, scratch)


SPEC = ObjectiveSpec(
    name="ranksvm",
    kernel=kernel,
    reference="Joachims 2002; Chapelle, Keerthi 2010",
    prepare=grade_constants,
)
