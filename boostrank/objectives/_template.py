"""The template of an objective: a file of your own, or one of boostrank's.

    boostrank objectives --template > my.py      writes this file
    boostrank objectives --check my.py                   says what it keeps and what it breaks, and how to mend that
    boostrank train train.txt --objective my.py --model model.txt

In Python, `import my`, then `boostrank.train({"objective": my.SPEC}, ...)`; `lgb.train`, `LGBMRanker` and `xgb.train`
take `boostrank.Objective(my.SPEC, sigma=0.5)`. For boostrank itself put it into this folder under the objective's name:
the registry finds it (it leaves out names that start with an underscore).

This one is RankNet, the logistic loss of every pair, so that the tests can hold the template to the same contract as
the rest.

    L = sum over pairs with g_i > g_j of ln(1 + exp(-(s_i - s_j) / sigma))

What to write here: what the objective is, its equation, the paper with equation numbers, where this differs from the
paper and why, what the hessian is, and what a query costs. Then four things, in this order:

1. `PARAMS`: declared once; validation, command-line help and documentation read them. Share those in
   `kernels.objective.shared_params`.
2. A `prepare` for constants of documents and queries, where the default (ideal DCG, see
   `kernels.objective.shared_params`) is not it.
3. `kernel`: one query. Its arguments, by name, and the scratch rows that it may declare are in
   `kernels.objective.kernel`, the rules in `kernels.objective.contract`. Helpers it calls are `@inline` and stand in
   this file or in `boostrank.kernels`, whose arithmetic is yours to use; objectives never import each other.
4. `SPEC`, which says what the rest claims. `boostrank.define_objective(name, kernel)` fills in what is not said.

In boostrank the only second file is the twin in `tests/reference/`, slow and obvious NumPy of the same name with
underscores. Type hints are boostrank's habit, and may be left out.

Source: Burges et al., "Learning to rank using gradient descent", ICML 2005. Hessian: the exact diagonal.
Cost: n^2 / 2 pairs a query, an exponential each.
"""

from __future__ import annotations

import math
from typing import Any

from boostrank.core.types import Float64Array, HessianKind
from boostrank.kernels.objective.contract import ObjectiveSpec, Query, no_constants, objective_kernel
from boostrank.kernels.objective.shared_params import SIGMA

PARAMS = (SIGMA,)


@objective_kernel(params=PARAMS)
def kernel(query: Query, params: Any, grad: Float64Array, hess: Float64Array, scratch: Any) -> float:
    """One query; see `kernels.objective.kernel`."""
    scores, gains, n = query.scores, query.gains, query.scores.size
    alpha = 1.0 / params.sigma
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
