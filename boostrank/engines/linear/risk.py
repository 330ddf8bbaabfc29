"""Risk of a linear ranker: the objective's mean over queries, and a penalty.

    F(w) = (1/Q) sum_q L_q(X w + b) + lambda_l2 |w - c|^2,   c the weights it began with, or 0

The derivative by w is X^T g, g the objective's own by the scores. The intercept b is never penalised; it changes no
ranking, and an objective that ignores a shift of all scores leaves it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from boostrank.core.types import Float64Array
from boostrank.engines.linear.features import ScaledRows
from boostrank.objective.bound import Evaluation

_REGRESSION_TOLERANCE = 1e-12
# Conjugate gradients end after as many steps as there are weights, but for rounding.
_REGRESSION_STEPS_A_WEIGHT, _REGRESSION_STEPS = 4, 2000


@dataclass(frozen=True, eq=False)
class Risk:
    """F above, in one round.

    Args:
        rows: of the training set.
        evaluate: (scores, round) -> the objective there.
        queries: Q.
        penalty: lambda_l2.
        centre: float64[d + 1], c; its last entry does not count.
        round: whose parameters the objective has.
    """

    rows: ScaledRows
    evaluate: Callable[[Float64Array, int], Evaluation]
    queries: int
    penalty: float
    centre: Float64Array
    round: int = 0

    def away(self, weights: Float64Array) -> Float64Array:
        """The weights less c; 0 for the intercept."""
        difference = weights - self.centre
        difference[-1] = 0.0
        return difference

    def __call__(self, weights: Float64Array) -> tuple[float, Float64Array]:
        """F and its derivative, as `scipy.optimize.minimize` takes them."""
        value, gradient, _ = self.curved(weights)
        return value, gradient

    def bare(self, weights: Float64Array) -> tuple[float, Float64Array]:
        """The same without the penalty."""
        found = self.evaluate(self.rows.scores(weights), self.round)
        return found.value / self.queries, self.rows.pulls(found.grad) / self.queries

    def curved(self, weights: Float64Array) -> tuple[float, Float64Array, Float64Array]:
        """F, its derivative, and the objective's curvature by the scores, float64[N], over Q."""
        found = self.evaluate(self.rows.scores(weights), self.round)
        away = self.away(weights)
        value = found.value / self.queries + self.penalty * float(away @ away)
        gradient = self.rows.pulls(found.grad) / self.queries + 2.0 * self.penalty * away
        return value, gradient, found.hess / self.queries


def ridge_regression(rows: ScaledRows, target: Float64Array, ridge: float) -> Float64Array:
    """Float64[d + 1]: argmin of (1/N) |X w + b - target|^2 + ridge |w|^2, every document alike.

    Args:
        rows: X.
        target: float64[N].
        ridge: > 0.
    """
    documents, columns = rows.features.shape
    if documents == 0:
        return np.zeros(columns + 1)
    intercept = float(target.mean())
    # The columns have mean 0, so the intercept is that of no features at all; lsmr adds damp^2 |w|^2.
    matrix = LinearOperator(
        (documents, columns),
        matvec=lambda w: rows.scores(np.append(w, 0.0)),
        rmatvec=lambda g: rows.pulls(g)[:-1],
        dtype=np.float64,
    )
    weights = lsmr(
        matrix,
        target - intercept,
        damp=float(np.sqrt(ridge * documents)),
        atol=_REGRESSION_TOLERANCE,
        btol=_REGRESSION_TOLERANCE,
        maxiter=min(_REGRESSION_STEPS, _REGRESSION_STEPS_A_WEIGHT * columns + 10),
    )[0]
    return np.append(weights, intercept)
