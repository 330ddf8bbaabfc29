"""Optimisers of linear rankers: risk, rounds and methods."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import minimize, minimize_scalar
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

    def bare(self, weights: Float64Array) -> tuple[float, Float64Array]:
        """Return F and its derivative without the penalty."""
        found = self.evaluate(self.rows.scores(weights), self.round)
        return found.value / self.queries, self.rows.pulls(found.grad) / self.queries

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
        """Change the learning rate; `lgb.reset_parameter` calls this.

        Raises:
            ParameterError: another parameter is changed.
        """
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
# Planes idle for this many steps are dropped.
_IDLE_PLANES = 20
_LINE_TOLERANCE = 1e-3
_EXCHANGES, _EXCHANGE_TOLERANCE, _RIDGE = 500, 1e-9, 1e-10
# Share of the way from the best point to the model's minimum at which the next plane is cut; OCAS's mu is 0.1.
_CUT = 0.1


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


def bundle(risk: Risk, weights: Float64Array, steps: int, walk: Walk, tolerance: float) -> tuple[Float64Array, int]:
    """Minimise a convex risk by cutting planes, with a line search between the best point and the planes' minimum.

    The piecewise-linear part lies above every plane a_t w + b_t. The planes and the penalty are minimised through their
    dual, over the simplex. The walk receives the best weights so far. The method ends when they are within `tolerance`
    of the planes' minimum, a lower bound.

    Source: Joachims, "Training linear SVMs in linear time", KDD 2006; Teo, Vishwanathan, Smola, Le, "Bundle methods for
    regularized risk minimization", JMLR 2010; the line search, Franc, Sonnenburg, "Optimized cutting plane algorithm
    for support vector machines", ICML 2008.
    """
    planes: list[Float64Array] = []
    offsets: list[float] = []
    idle: list[int] = []
    shares = np.zeros(0)
    best, best_value, at = weights, risk(weights)[0], weights
    for taken in range(1, steps + 1):
        # Cut a new plane at the current point.
        value, slope = risk.bare(at)
        slope[-1] = 0.0
        planes.append(slope)
        offsets.append(value - float(slope @ risk.away(at)))
        idle.append(0)
        a, b = np.array(planes), np.array(offsets)
        # Minimise the planes and the penalty, then search the line to their minimum.
        shares = _simplex_maximum(a, b, risk.penalty, np.append(shares, float(taken == 1)))
        away = -(shares @ a) / (2.0 * risk.penalty)
        target = risk.centre + away
        target[-1] = best[-1]
        bound = float(b @ shares) - risk.penalty * float(away @ away)
        best, best_value = _between(risk, best, best_value, target)
        walk(best.copy())
        if best_value - bound <= tolerance:
            return best, taken
        # Drop planes that have been idle for long.
        at = best + _CUT * (target - best)
        idle = [0 if share > 0.0 else i + 1 for share, i in zip(shares, idle, strict=True)]
        kept = [t for t, i in enumerate(idle) if i <= _IDLE_PLANES]
        planes, offsets, idle = [planes[t] for t in kept], [offsets[t] for t in kept], [idle[t] for t in kept]
        shares = shares[kept]
    return best, steps


def _simplex_maximum(a: Float64Array, b: Float64Array, penalty: float, shares: Float64Array) -> Float64Array:
    """Return shares >= 0 that sum to 1 and maximise b s - |a^T s|^2 / (4 penalty), from the given ones.

    Active-set method: solve for the planes in use, remove those whose share would be negative, then add the plane that
    gains most. SciPy's SLSQP makes so many small LAPACK calls that it takes a hundred times as long on a busy machine.
    """
    products = a @ a.T / (2.0 * penalty)
    products[np.diag_indices(len(b))] += _RIDGE * max(float(np.max(np.diag(products))), 1e-300)
    used = shares > 0.0
    for _ in range(_EXCHANGES):
        active = np.flatnonzero(used)
        # Optimum over the planes in use, from the KKT system.
        system = np.ones((active.size + 1, active.size + 1))
        system[:-1, :-1] = products[np.ix_(active, active)]
        system[-1, -1] = 0.0
        wanted = np.linalg.solve(system, np.append(b[active], 1.0))[:-1]
        # Go towards it until a share reaches 0; that plane leaves.
        falls = wanted < shares[active]
        part = np.divide(
            shares[active], shares[active] - wanted, out=np.full(active.size, np.inf), where=falls & (wanted < 0.0)
        )
        reach = min(1.0, float(part.min()))
        shares[active] += reach * (wanted - shares[active])
        if reach < 1.0:
            gone = active[np.argmin(part)]
            shares[gone], used[gone] = 0.0, False
            continue
        # Add the plane that gains most, or stop if none does.
        slope = products @ shares - b
        best = int(np.argmin(slope))
        if slope[best] >= slope[active].min() - _EXCHANGE_TOLERANCE * (1.0 + abs(slope[best])):
            break
        used[best] = True
    return shares


def _between(risk: Risk, best: Float64Array, value: float, target: Float64Array) -> tuple[Float64Array, float]:
    """Return the best point between the best so far and the planes' minimum."""
    step = target - best
    found = minimize_scalar(
        lambda t: risk(best + t * step)[0], bounds=(0.0, 1.0), method="bounded", options={"xatol": _LINE_TOLERANCE}
    )
    return (best + found.x * step, float(found.fun)) if found.fun < value else (best, value)
