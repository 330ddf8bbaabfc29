"""The twins in numbers of 390 digits, so that 1 stays 1 beside 1e308: `tests/reference` with
mpmath's functions.

NumPy does arithmetic on arrays of Python objects, and sorts and selects them; what it lacks there
are functions of numbers and arrays of another type than doubles. So every twin serves twice, and no
equation is written again.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import mpmath
import numpy as np

from boostrank.objectives import OBJECTIVES
from tests.objectives.conformance import Values, twin_of
from tests.reference import _ranking
from tests.reference._ranking import Query

CONTEXT = mpmath.MPContext()
CONTEXT.prec = 1300
Number = CONTEXT.mpf
# Beyond it exponentials are nothing, and take long.
_NOTHING = 1e6

LARGEST = np.finfo(np.float64).max


def precise(values: Any) -> Any:
    """Numbers, or arrays of them, in this precision; doubles as they are."""
    return np.frompyfunc(CONTEXT.convert, 1, 1)(values)


def _elementwise(function: Any) -> Any:
    return lambda values: np.frompyfunc(function, 1, 1)(precise(values))


def _exp(x: Any) -> Any:
    return CONTEXT.exp(x) if x > -_NOTHING else Number(0)


def _logaddexp(a: Any, b: Any) -> Any:
    high = np.maximum(precise(a), precise(b))
    return high + _elementwise(CONTEXT.log1p)(_elementwise(_exp)(-abs(precise(a) - precise(b))))


def _expit(x: Any) -> Any:
    # Of the size of x alone, as `x` may be anything.
    z = _exp(-abs(x))
    return (z if x < 0 else 1) / (1 + z)


def _ndtr(x: Any) -> Any:
    return CONTEXT.ncdf(x) if abs(x) < _NOTHING else Number(x > 0)


def _logsumexp(x: Any) -> Any:
    top = max(x)
    return top + CONTEXT.log(sum(_exp(term - top) for term in x))


def _softmax(x: Any) -> Any:
    shares = _elementwise(_exp)(precise(x) - max(x))
    return shares / shares.sum()


def _best_assignment(worth: Any, maximize: bool) -> tuple[Any, Any]:
    """SciPy's `linear_sum_assignment` by trying them all."""
    assert maximize
    rows, columns = worth.shape
    best = max(
        itertools.permutations(range(rows), columns),
        key=lambda p: sum(worth[r, c] for c, r in enumerate(p)),
    )
    return np.array(best), np.arange(columns)


def _interp(x: Any, nodes: Any, values: Any) -> Any:
    """NumPy's `interp` between ascending nodes."""
    at = np.clip(np.searchsorted(nodes, x, "right"), 1, len(nodes) - 1)
    share = (precise(x) - precise(nodes[at - 1])) / (precise(nodes[at]) - precise(nodes[at - 1]))
    return values[at - 1] + share * (values[at] - values[at - 1])


def _integral_of_weight(weight: Any, low: Any, high: Any, **_: Any) -> tuple[Any, float]:
    """SciPy's `quad` of the one function that a twin integrates, a sigmoid or 1, which has a
    primitive.
    """
    variables = inspect.getclosurevars(weight).nonlocals
    if variables["cut"] is None:
        return high - low, 0.0
    cut, tau = precise(variables["cut"]), variables["tau"]
    return tau * (_logaddexp(0, (cut - low) / tau) - _logaddexp(0, (cut - high) / tau)), 0.0


def _arrays(make: Any) -> Any:
    return lambda *args, **kwargs: precise(make(*args, **kwargs))


def _objects(array: Any) -> Any:
    return precise(np.zeros(np.shape(array)))


class _NumPy(SimpleNamespace):
    """NumPy, but for what is named here."""

    exp, log, log1p, sqrt = map(_elementwise, (_exp, CONTEXT.log, CONTEXT.log1p, CONTEXT.sqrt))
    log2 = staticmethod(_elementwise(lambda x: CONTEXT.log(x, 2)))
    exp, log, log1p, sqrt = map(staticmethod, (exp, log, log1p, sqrt))
    logaddexp = staticmethod(_logaddexp)
    interp = staticmethod(_interp)
    zeros, empty, ones, full, eye = map(
        staticmethod, map(_arrays, (np.zeros, np.zeros, np.ones, np.full, np.eye))
    )
    zeros_like, ones_like = staticmethod(_objects), staticmethod(lambda array: _objects(array) + 1)
    linalg = SimpleNamespace(norm=lambda x: CONTEXT.sqrt(sum(x * x)))
    std = staticmethod(lambda x: CONTEXT.sqrt(sum((x - sum(x) / len(x)) ** 2) / len(x)))
    lexsort = staticmethod(
        lambda keys: np.array(sorted(range(len(keys[0])), key=lambda i: [k[i] for k in keys[::-1]]))
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


_REPLACED = {
    "np": _NumPy(),
    "expit": _elementwise(_expit),
    "ndtr": _elementwise(_ndtr),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "linear_sum_assignment": _best_assignment,
    "norm": SimpleNamespace(
        pdf=lambda x, mean, deviation: (
            _elementwise(_exp)(-(((x - mean) / deviation) ** 2) / 2)
            / (deviation * CONTEXT.sqrt(2 * CONTEXT.pi))
        )
    ),
    "math": SimpleNamespace(fsum=sum),
    "quad": _integral_of_weight,
}
_TWINS = [
    importlib.import_module(f"tests.reference.{name}")
    for name in (
        "_ranking",
        "_relevance",
        *(spec.name.replace("-", "_") for spec in OBJECTIVES),
        "template",
    )
]


@contextmanager
def high_precision() -> Iterator[None]:
    """In here the twins compute so."""
    with ExitStack() as stack:
        for module in _TWINS:
            for name in _REPLACED.keys() & vars(module).keys():
                stack.enter_context(mock.patch.object(module, name, _REPLACED[name]))
        # An error times 0 is 0, however large.
        stack.enter_context(mock.patch.object(_ranking, "float", lambda x: x, create=True))
        yield


def evaluate_precisely(
    name: str, query: Query, scores: Any, values: Values
) -> tuple[Any, Any, Any]:
    """Loss, gradient and curvature of an objective in high precision."""
    twin, s = twin_of(name), precise(np.asarray(scores))
    with high_precision():
        report = getattr(twin, "report", lambda q, s, v: twin.loss(q, s, v, twin.freeze(q, s, v)))
        return (
            report(query, s, values),
            twin.gradient(query, s, values),
            twin.hessian(query, s, values),
        )
