"""A template for objectives: RankNet, the logistic loss of every pair.

    L = sum over pairs with g_i > g_j of ln(1 + exp(-(s_i - s_j) / sigma))

Change it into an objective of your own:

    boostrank objectives --template > my.py      writes this file
    boostrank objectives --check my.py           reports which rules it breaks, and how to fix it
    boostrank train train.txt --objective my.py --model model.txt

In Python, `import my`, then `boostrank.train({"objective": my.SPEC}, ...)`; `lgb.train`,
`LGBMRanker` and `xgb.train` take `boostrank.Objective(my.SPEC, sigma=0.5)`. To add it to boostrank,
save it in this folder under the objective's
name: the registry finds it, and ignores names that start with an underscore.

This docstring describes the objective, as `boostrank objectives` prints it: a title with a summary
after a colon, the equation, "Source:" and "Deviation:" (from the paper, with reasons), the Hessian,
and the cost of a query. Below it, write four things, in this order:

1. `PARAMS`, which validation, command-line help and documentation read. Shared parameters are in
  `kernels.shared`.
2. `prepare`, which returns document and query constants, unless the default suits (ideal DCG, see
  `kernels.shared`).
3. `kernel`, which handles one query. `kernels.objective` lists its arguments, the scratch rows that
   it may declare, and its rules. Its helpers are `@inline` and live in this file or in
   `boostrank.kernels`, whose arithmetic you may use; objectives never import each other.
4. `SPEC`, the declaration. `boostrank.define_objective(name, kernel)` fills in defaults.

In boostrank, the only other file is the twin in `tests/reference/`, slow and obvious NumPy code
under the same name with underscores. Type hints are optional.

Source: Burges et al., "Learning to rank using gradient descent", ICML 2005. Hessian: the exact
    diagonal.
Cost: n^2 / 2 pairs per query, with one exponential each.
"""

import math

from boostrank.core.types import HessianKind
from boostrank.kernels.objective import (
    ObjectiveSpec,
    no_constants,
    objective_kernel,
)
from boostrank.kernels.shared import SIGMA

PARAMS = (SIGMA,)


@objective_kernel(params=PARAMS)
def kernel(query, params, grad, hess, scratch):
    """Compute the loss, gradient and curvature of one query; see `kernels.objective`."""
    scores, gains, n = query.scores, query.gains, query.scores.size
    alpha = 1.0 / params.sigma
    loss = 0.0
    for i in range(n):
        for j in range(n):
            if gains[i] > gains[j]:
                u = alpha * (scores[i] - scores[j])
                # The exponential of a negative number never overflows.
                z = math.exp(-abs(u))
                wrong = z / (1.0 + z) if u > 0.0 else 1.0 / (1.0 + z)
                loss += max(-u, 0.0) + math.log1p(z)
                # The loss is minimised: the better document's derivative is negative, so its score
                # rises.
                grad[i] -= alpha * wrong
                grad[j] += alpha * wrong
                curvature = alpha * alpha * z / ((1.0 + z) * (1.0 + z))
                hess[i] += curvature
                hess[j] += curvature
    return loss


SPEC = ObjectiveSpec(
    name="template",
    kernel=kernel,
    params=PARAMS,
    hessian=HessianKind.EXACT,
    reference="Burges et al. 2005",
    prepare=no_constants,
    quadratic=True,
)
