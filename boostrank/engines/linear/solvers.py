"""Solvers: they go down a `Risk`, a step at a time; SciPy's where there is one.

Each takes (risk, weights, most steps, `Walk`), calls the walk with the weights after every step, and returns the
weights and the steps it took: fewer when there is nothing left to gain. The walk may raise to end the training.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, cg

from boostrank.core.types import Float64Array
from boostrank.engines.linear.risk import Risk

Walk = Callable[[Float64Array], None]

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
