"""Optimisers of linear rankers: risk, rounds and methods."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, cg, lsmr

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param, find_param
from boostrank.core.types import Float64Array
from boostrank.engines.base import TrainRequest
from boostrank.engines.linear.features import ScaledRows
from boostrank.engines.rounds import CallbackEnv, EvalResult, ordered, run_callbacks
from boostrank.objective.bound import Evaluation

_REGRESSION_TOLERANCE = 1e-12
# In exact arithmetic, conjugate gradients end after one step per weight; rounding needs more.
_REGRESSION_STEPS_A_WEIGHT, _REGRESSION_STEPS = 4, 2000


@dataclass(frozen=True, eq=False)
class Risk:
    """Regularised risk F of one round.

    Args:
        evaluate: (scores, round) -> value of the objective.
        queries: Q.
        penalty: lambda_l2.
        centre: float64[d + 1], c; its last entry is ignored.
        round: round that sets the parameters of the objective.
    """

    rows: ScaledRows
    evaluate: Callable[[Float64Array, int], Evaluation]
    queries: int
    penalty: float
    centre: Float64Array
    round: int = 0

    def away(self, weights: Float64Array) -> Float64Array:
        """Return the weights minus c; 0 for the intercept."""
        difference = weights - self.centre
        difference[-1] = 0.0
        return difference

    def __call__(self, weights: Float64Array) -> tuple[float, Float64Array]:
        """Return F and its derivative, for `scipy.optimize.minimize`."""
        value, gradient, _ = self.curved(weights)
        return value, gradient

    def curved(self, weights: Float64Array) -> tuple[float, Float64Array, Float64Array]:
        """Return F, its derivative, and the objective's curvature by the scores, float64[N], over Q."""
        found = self.evaluate(self.rows.scores(weights), self.round)
        away = self.away(weights)
        value = found.value / self.queries + self.penalty * float(away @ away)
        gradient = self.rows.pulls(found.grad) / self.queries + 2.0 * self.penalty * away
        return value, gradient, found.hess / self.queries


def ridge_regression(rows: ScaledRows, target: Float64Array, ridge: float) -> Float64Array:
    """Return argmin of (1/N) |X w + b - target|^2 + ridge |w|^2, float64[d + 1], with equal weight for every document.

    Args:
        rows: X.
        target: float64[N].
        ridge: > 0.
    """
    documents, columns = rows.features.shape
    if documents == 0:
        return np.zeros(columns + 1)
    intercept = float(target.mean())
    # Columns have mean 0, so the intercept is the mean target; lsmr adds damp^2 |w|^2.
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


LEARNING_RATE = Param(
    "learning_rate", 0.3, "length of each newton step", low=0.0, open_low=True, aliases=("eta", "shrinkage_rate")
)


class Stopped(Exception):
    """A callback ended the training."""


class Walk:
    """Rounds of a training as callbacks see them, with the weights after each.

    Args:
        request: request with the callbacks to call and the validation sets to evaluate.
        learning_rate: initial learning rate; callbacks may change it.
        before: number of rounds of a continued model.
    """

    def __init__(self, request: TrainRequest, learning_rate: float, before: int) -> None:
        self._request, self._before = request, before
        self._early, self._late = (ordered(request.callbacks, before=b) for b in (True, False))
        self.path: list[Float64Array] = []
        self.learning_rate = learning_rate
        self.best_rounds = 0

    def begin(self) -> None:
        """Run the callbacks before the first round."""
        self._run(self._early, 0, None)

    def __call__(self, weights: Float64Array) -> None:
        self.path.append(np.array(weights))
        results = [
            EvalResult(name, *result)
            for name, data in self._request.valid
            for function in self._request.metrics
            for result in function(data.rows.scores(weights), data)
        ]
        self._run(self._late, len(self.path) - 1, results)
        if len(self.path) < self._request.rounds:
            self._run(self._early, len(self.path), None)

    def replay(self, path: list[Float64Array]) -> None:
        """Repeat an earlier path of weights for the callbacks."""
        if self._early:
            raise ParameterError("callbacks that change parameters before a round do not work with restarts")
        with contextlib.suppress(Stopped):
            for weights in path:
                self(weights)

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change the learning rate; `lgb.reset_parameter` calls this."""
        for name, value in params.items():
            if find_param(name, [LEARNING_RATE]) is None:
                raise ParameterError(f"{name!r} cannot change while a linear model is trained; only learning_rate can")
            self.learning_rate = float(LEARNING_RATE.parse(value))

    @property
    def boosters(self) -> list[Walk]:
        """List of boosters, which LightGBM expects of foreign boosters."""
        return [self]

    def _run(self, callbacks: list[Callable[[Any], None]], number: int, results: list[EvalResult] | None) -> None:
        begin = self._before
        end = begin + self._request.rounds
        env = CallbackEnv(self, dict(self._request.params), begin + number, begin, end, results)
        best = run_callbacks(callbacks, env)
        if best is not None:
            self.best_rounds = best
            raise Stopped


# Tolerance of a Newton step's linear system; the step is shortened anyway.
_NEWTON_TOLERANCE, _NEWTON_STEPS = 1e-5, 100
# Maximum number of weights for an explicit matrix: d^2 operations per row against 2 d per step of conjugate gradients.
_SMALL, _SINGULAR = 400, 1e-10


def conjugate_gradient(
    risk: Risk, weights: Float64Array, steps: int, walk: Walk, tolerance: float
) -> tuple[Float64Array, int]:
    """Minimise by SciPy's nonlinear conjugate gradient: Polak-Ribiere directions, strong Wolfe steps."""
    return _scipy("CG", risk, weights, steps, walk, {"gtol": tolerance})


def quasi_newton(
    risk: Risk, weights: Float64Array, steps: int, walk: Walk, tolerance: float
) -> tuple[Float64Array, int]:
    """Minimise by SciPy's L-BFGS, which handles kinks better than conjugate gradients."""
    return _scipy("L-BFGS-B", risk, weights, steps, walk, {"gtol": tolerance, "ftol": 1e-12, "maxfun": 20 * steps})


def _scipy(
    method: str, risk: Risk, weights: Float64Array, steps: int, walk: Walk, options: dict[str, float]
) -> tuple[Float64Array, int]:
    taken = 0

    def step(now: Float64Array) -> None:
        nonlocal taken
        taken += 1
        walk(now.copy())

    while taken < steps:
        before = taken
        with warnings.catch_warnings():  # a failed line search warns; the next one starts anew
            warnings.simplefilter("ignore")
            found = minimize(
                risk, weights, jac=True, method=method, callback=step, options={**options, "maxiter": steps - taken}
            )
        weights = found.x
        if found.success or taken == before:
            break
    return weights, taken


def newton(risk: Risk, weights: Float64Array, rate: float) -> Float64Array:
    """Take one Newton step of length `rate`, like a boosted round for leaves.

    No losses are compared, so the objective may be noisy, and its gradient need not be the derivative of a loss.
    """
    _, gradient, hess = risk.curved(weights)
    rows, size = risk.rows, weights.size
    if size <= _SMALL and not issparse(rows.features):
        penalties = np.full(size, 2.0 * risk.penalty)
        penalties[-1] = 0.0
        matrix = rows.curvature(hess) + np.diag(penalties)
        return np.asarray(weights - rate * lstsq(matrix, gradient, cond=_SINGULAR)[0])

    def product(v: Float64Array) -> Float64Array:
        v = v.ravel()
        out = rows.pulls(hess * rows.scores(v))
        out[:-1] += 2.0 * risk.penalty * v[:-1]
        return out

    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    direction, _ = cg(operator, -gradient, rtol=_NEWTON_TOLERANCE, maxiter=_NEWTON_STEPS)
    return np.asarray(weights + rate * direction)
