"""Optimisers of linear rankers: the risk, the rounds, the methods."""

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


LEARNING_RATE = Param(
    "learning_rate", 0.3, "share of each newton step", low=0.0, open_low=True, aliases=("eta", "shrinkage_rate")
)


class Stopped(Exception):
    """A callback has ended the training."""


class Walk:
    """The rounds of a training as callbacks see them, and the weights after each.

    Args:
        request: whose callbacks are called, and whose validation sets are evaluated.
        learning_rate: as it is at first; callbacks may change it.
        before: rounds of a continued model.
    """

    def __init__(self, request: TrainRequest, learning_rate: float, before: int) -> None:
        self._request, self._before = request, before
        self._early, self._late = (ordered(request.callbacks, before=b) for b in (True, False))
        self.path: list[Float64Array] = []
        self.learning_rate = learning_rate
        self.best_rounds = 0

    def begin(self) -> None:
        """Before the first round."""
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
        """Go again a way that was gone before."""
        if self._early:
            raise ParameterError("callbacks that change parameters before a round do not go with restarts")
        with contextlib.suppress(Stopped):
            for weights in path:
                self(weights)

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """What `lgb.reset_parameter` calls.

        Raises:
            ParameterError: anything but the learning rate.
        """
        for name, value in params.items():
            if find_param(name, [LEARNING_RATE]) is None:
                raise ParameterError(f"{name!r} cannot change while a linear model is trained: learning_rate alone can")
            self.learning_rate = float(LEARNING_RATE.parse(value))

    @property
    def boosters(self) -> list[Walk]:
        """LightGBM takes whatever is not its own booster for a list of them."""
        return [self]

    def _run(self, callbacks: list[Callable[[Any], None]], number: int, results: list[EvalResult] | None) -> None:
        begin = self._before
        end = begin + self._request.rounds
        env = CallbackEnv(self, dict(self._request.params), begin + number, begin, end, results)
        best = run_callbacks(callbacks, env)
        if best is not None:
            self.best_rounds = best
            raise Stopped


# Of the linear system of a Newton step, whose step is shortened anyway.
_NEWTON_TOLERANCE, _NEWTON_STEPS = 1e-5, 100
# So many weights have their matrix written out: d^2 operations a row against 2 d a step of conjugate gradients.
_SMALL, _SINGULAR = 400, 1e-10
# Planes of which none has been in use for so many steps are dropped.
_IDLE_PLANES = 20
_LINE_TOLERANCE = 1e-3
_EXCHANGES, _EXCHANGE_TOLERANCE, _RIDGE = 500, 1e-9, 1e-10
# How far the next plane is from the best point, as a share of the way to the model's minimum: OCAS's mu is 0.1.
_CUT = 0.1


def conjugate_gradient(
    risk: Risk, weights: Float64Array, steps: int, walk: Walk, tolerance: float
) -> tuple[Float64Array, int]:
    """SciPy's nonlinear conjugate gradient: Polak and Ribiere's directions, strong Wolfe steps."""
    return _scipy("CG", risk, weights, steps, walk, {"gtol": tolerance})


def quasi_newton(
    risk: Risk, weights: Float64Array, steps: int, walk: Walk, tolerance: float
) -> tuple[Float64Array, int]:
    """SciPy's L-BFGS, which copes with kinks better than conjugate gradients."""
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
        with warnings.catch_warnings():  # of a line search without an end: the next one begins anew
            warnings.simplefilter("ignore")
            found = minimize(
                risk, weights, jac=True, method=method, callback=step, options={**options, "maxiter": steps - taken}
            )
        weights = found.x
        if found.success or taken == before:
            break
    return weights, taken


def newton(risk: Risk, weights: Float64Array, rate: float) -> Float64Array:
    """One step of length `rate` towards where gradient and curvature see the minimum: what a boosted round does with
    leaves. It compares no losses, so the objective may be noisy, or a gradient of nothing."""
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
    """Cutting planes of a convex risk, with a line search between the best point and the planes' minimum.

    The piecewise-linear part lies above every plane a_t w + b_t; the planes and the penalty are minimised through their
    dual, over the simplex. The walk sees the best weights so far. It ends when they are within `tolerance` of the
    planes' minimum, which is a lower bound.

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
        value, slope = risk.bare(at)
        slope[-1] = 0.0
        planes.append(slope)
        offsets.append(value - float(slope @ risk.away(at)))
        idle.append(0)
        a, b = np.array(planes), np.array(offsets)
        shares = _simplex_maximum(a, b, risk.penalty, np.append(shares, float(taken == 1)))
        away = -(shares @ a) / (2.0 * risk.penalty)
        target = risk.centre + away
        target[-1] = best[-1]
        bound = float(b @ shares) - risk.penalty * float(away @ away)
        best, best_value = _between(risk, best, best_value, target)
        walk(best.copy())
        if best_value - bound <= tolerance:
            return best, taken
        at = best + _CUT * (target - best)
        idle = [0 if share > 0.0 else i + 1 for share, i in zip(shares, idle, strict=True)]
        kept = [t for t, i in enumerate(idle) if i <= _IDLE_PLANES]
        planes, offsets, idle = [planes[t] for t in kept], [offsets[t] for t in kept], [idle[t] for t in kept]
        shares = shares[kept]
    return best, steps


def _simplex_maximum(a: Float64Array, b: Float64Array, penalty: float, shares: Float64Array) -> Float64Array:
    """Shares >= 0 that sum to 1 and maximise b s - |a^T s|^2 / (4 penalty), from those given.

    An active-set method: the optimum over the planes in use, without those that it would use less than nothing of, then
    the plane that gains most is taken in. SciPy's SLSQP does this too, in so many small LAPACK calls that it takes a
    hundred times as long where another process uses a core.
    """
    products = a @ a.T / (2.0 * penalty)
    products[np.diag_indices(len(b))] += _RIDGE * max(float(np.max(np.diag(products))), 1e-300)
    used = shares > 0.0
    for _ in range(_EXCHANGES):
        active = np.flatnonzero(used)
        system = np.ones((active.size + 1, active.size + 1))
        system[:-1, :-1] = products[np.ix_(active, active)]
        system[-1, -1] = 0.0
        wanted = np.linalg.solve(system, np.append(b[active], 1.0))[:-1]
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
        slope = products @ shares - b
        best = int(np.argmin(slope))
        if slope[best] >= slope[active].min() - _EXCHANGE_TOLERANCE * (1.0 + abs(slope[best])):
            break
        used[best] = True
    return shares


def _between(risk: Risk, best: Float64Array, value: float, target: Float64Array) -> tuple[Float64Array, float]:
    """The best point between the best so far and the planes' minimum."""
    step = target - best
    found = minimize_scalar(
        lambda t: risk(best + t * step)[0], bounds=(0.0, 1.0), method="bounded", options={"xatol": _LINE_TOLERANCE}
    )
    return (best + found.x * step, float(found.fun)) if found.fun < value else (best, value)
