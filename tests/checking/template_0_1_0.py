"""The template of an objective: a file of your own, or one of boostrank's.

    boostrank check-objective --template > my.py      writes this file
    boostrank check-objective my.py                   says what it keeps and what it breaks, and how to mend that
    boostrank train train.txt --objective my.py --model model.txt

In Python, `import my`, then `boostrank.train({"objective": my.SPEC}, ...)`; `lgb.train`, `LGBMRanker` and `xgb.train`
take `boostrank.Objective(my.SPEC, sigma=0.5)`. For boostrank itself put it into this folder under the objective's name:
the registry finds it (it leaves out names that start with an underscore).

This one is RankNet, the logistic loss of every pair, so that the tests can hold the template to the same contract as
the rest.

    L = sum over pairs with g_i > g_j of ln(1 + exp(-(s_i - s_j) / sigma))

What to write here: what the objective is, its equation, the paper with equation numbers, where this differs from the
paper and why, what the hessian is, and what a query costs. Then four things, in this order:

1. `PARAMS`: declared once; validation, command-line help and documentation read them. Share those in `kernels.query`.
2. A `prepare` for constants of documents and queries, where the default (ideal DCG, see `kernels.query`) is not it.
3. `kernel`: one query, the contract in `kernels.spec`. Helpers it calls are `@inline` and stand in this file or in
   `boostrank.kernels`, whose arithmetic is yours to use; objectives never import each other.
4. `SPEC`, which says what the rest claims. `boostrank.define_objective(name, kernel)` fills in what is not said.

In boostrank the only second file is the twin in `tests/reference/`, slow and obvious NumPy of the same name with
underscores. Type hints are boostrank's habit, and may be left out.

Source: Burges et al., "Learning to rank using gradient descent", ICML 2005. Hessian: the exact diagonal.
Cost: n^2 / 2 pairs a query, an exponential each.
"""

from __future__ import annotations

import math

from boostrank.kernels.query import SIGMA
from boostrank.kernels.spec import ObjectiveSpec, no_constants, objective_kernel

from boostrank.core.types import Float64Array, HessianKind, Int64Array

PARAMS = (SIGMA,)


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
    """One query; see `kernels.spec`."""
    n = scores.shape[0]
    # Every element is written, also where there is nothing to learn.
    grad[:] = 0.0
    hess[:] = 0.0
    alpha = 1.0 / params[0]
    value = 0.0
    for i in range(n):
        for j in range(n):
            if gains[i] > gains[j]:
                u = alpha * (scores[i] - scores[j])
                # The exponential of a negative number: no overflow, whatever the scores.
                z = math.exp(-abs(u))
                wrong = z / (1.0 + z) if u > 0.0 else 1.0 / (1.0 + z)
                value += max(-u, 0.0) + math.log1p(z)
                # The loss is minimised: the better document's derivative is negative, its score goes up.
                grad[i] -= alpha * wrong
                grad[j] += alpha * wrong
                curvature = alpha * alpha * z / ((1.0 + z) * (1.0 + z))
                hess[i] += curvature
                hess[j] += curvature
    return value


SPEC = ObjectiveSpec(
    name="template",
    summary="the logistic loss of every pair: RankNet",
    equation="sum over pairs of ln(1 + exp(-(s_i - s_j) / sigma))",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.EXACT,
    reference="Burges et al. 2005",
    prepare=no_constants,
)
