"""What every objective must keep, as plain functions of (spec, twin): run over the registry by the
tests beside this file, and over mutated sources by `qa/mutation`."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from boostrank.checking.rules import options
from boostrank.core.types import HessianKind
from tests.reference._ranking import Query, descending

Values = dict[str, Any]


def twin_of(name: str) -> Any:
    """The NumPy twin of an objective."""
    return importlib.import_module(f"tests.reference.{name.replace('-', '_')}")


def make_query(labels: Any, gain: str = "exponential") -> Query:
    y = np.asarray(labels, dtype=np.float64)
    gains = np.exp2(y) - 1 if gain == "exponential" else y.copy()
    return Query(y, gains)


def tolerance_of(twin: Any, values: Values, usual: float) -> float:
    """What equality means: `usual`, unless the twin says that a parameter makes the kernel coarser."""
    return max(usual, twin.tolerance(values)) if hasattr(twin, "tolerance") else usual


_MARGIN, _OUTSIDE = 64, -987654321


def _framed(size: int, content: float) -> tuple[np.ndarray, np.ndarray]:
    """An array of `size` numbers inside a larger one, and that."""
    whole = np.full(size + 2 * _MARGIN, _OUTSIDE, dtype=type(content))
    inside = whole[_MARGIN : _MARGIN + size]
    inside[:] = content
    return inside, whole


def evaluate(
    spec: Any, query: Query, scores: Any, values: Values
) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, gradient and hessian of one query; outputs and scratch are poisoned, inputs and margins
    checked after.
    """
    n = len(query)
    s = np.array(scores, dtype=np.float64)
    ptr = np.array([0, n], dtype=np.int64)
    doc_const, query_const = spec.prepare(query.labels, query.gains, ptr, values)
    params = spec.encode({p.name: p.parse(values[p.name]) for p in spec.params}, 0)
    order = descending(s) if spec.ordered else np.full(n, -(2**62))
    inputs = [s, query.gains.copy(), order, doc_const, query_const[0], params]
    before = [a.copy() for a in inputs]
    room = spec.scratch_per_document * n
    written = [
        _framed(n, np.nan),
        _framed(n, np.nan),
        _framed(room, np.nan),
        _framed(room, -(2**62)),
    ]
    (grad, hess, _, _), frames = zip(*written, strict=True)
    loss = spec.kernel(*inputs, *(inside for inside, _ in written))
    for frame in frames:
        margins = frame[:_MARGIN], frame[-_MARGIN:]
        assert all((margin == _OUTSIDE).all() for margin in margins), (
            "the kernel wrote beyond an end of its memory"
        )
    for now, then in zip(inputs, before, strict=True):
        assert np.array_equal(now, then), "the kernel wrote to its inputs"
    return loss, grad, hess


def cases(spec: Any, combinations: int = 12) -> Iterator[Values]:
    """Parameter values: the defaults, each parameter changed alone, and some random combinations."""
    default = {p.name: p.default for p in spec.params}
    yield default
    for param in spec.params:
        for value in options(param):
            if value != param.default:
                yield _accepted(default | {param.name: value})
    rng = np.random.default_rng(len(spec.params))
    count = combinations if len(spec.params) > 1 else 0
    for _ in range(count):
        yield _accepted(
            {p.name: (choices := options(p))[rng.integers(len(choices))] for p in spec.params}
        )


def _accepted(values: Values) -> Values:
    """Precision of a whole list is refused."""
    cut = 2 if values.get("metric") == "precision" and values.get("k") == 0 else values.get("k")
    return values | ({"k": cut} if cut is not None else {})


def examples() -> list[tuple[Query, np.ndarray]]:
    """Small queries with scores: none, one and two documents, right and wrong orders, ties of both
    kinds, far apart.
    """
    rng = np.random.default_rng(7)
    longer = rng.integers(0, 5, 13)
    return [
        (make_query([]), np.zeros(0)),
        (make_query([3]), np.array([0.7])),
        (make_query([2, 1]), np.array([0.4, -0.3])),
        (make_query([1, 2]), np.array([2.9, -0.3])),
        (make_query([0, 0, 0]), np.array([0.4, -0.3, 1.0])),
        (make_query([2, 2, 2]), np.array([0.4, -0.3, 1.0])),
        (make_query([0, 2, 1, 0]), np.zeros(4)),
        (make_query([0, 2, 1, 0, 2, 1]), np.array([1.0, -1.0, 1.0, 0.0, 0.0, 1.0])),
        (make_query([4, 0, 1, 3, 2]), np.array([-7.0, 9.0, 2.0, -3.0, 0.01])),
        (make_query([0.5, 2.25, 0.0, 2.25], "linear"), np.array([0.2, 0.1, 0.3, -0.5])),
        (make_query(longer), 2 * rng.normal(size=13)),
    ]


# Below this a derivative of a loss of size 1 is rounding: the difference of numbers that size.
NOISE = 1e-14


def close(actual: Any, expected: Any, tolerance: float, what: str, noise: float = NOISE) -> None:
    """Equal to `tolerance` of the largest wanted number, what is `noise` beside a loss of size 1
    aside.
    """
    a, w = np.atleast_1d(actual), np.atleast_1d(expected)
    assert a.shape == w.shape, what
    scale = float(np.abs(w).max(initial=0.0))
    error = float(np.abs(a - w).max(initial=0.0))
    assert error <= tolerance * scale + noise, (
        f"{what}: off by {error:g} where the largest is {scale:g}"
    )


def expected(spec: Any, twin: Any, combinations: int = 12) -> list[tuple[Any, ...]]:
    """What the twin says: parameters, query, scores, loss, gradient, hessian of every case."""
    report = getattr(twin, "report", lambda q, s, v: twin.loss(q, s, v, twin.freeze(q, s, v)))
    return [
        (v, q, s, report(q, s, v), twin.gradient(q, s, v), twin.hessian(q, s, v))
        for v, (q, s) in itertools.product(cases(spec, combinations), examples())
    ]


def compare(spec: Any, twin: Any, references: list[tuple[Any, ...]]) -> None:
    """Value, gradient and hessian are those expected."""
    for values, query, scores, value, gradient, hessian in references:
        loss, grad, hess = evaluate(spec, query, scores, values)
        where = f"{spec.name} {values} scores {scores}"
        # A loss may be a small difference of large terms.
        assert abs(loss - value) <= 1e-9 * max(1.0, abs(loss)), f"loss of {where}"
        tolerance = tolerance_of(twin, values, 1e-9)
        close(grad, gradient, tolerance, f"gradient of {where}")
        close(hess, hessian, tolerance, f"hessian of {where}")


def check_equals_twin(spec: Any, twin: Any) -> None:
    """Value, gradient and hessian are those of the twin."""
    compare(spec, twin, expected(spec, twin))


def check_twin_gradient(spec: Any, twin: Any) -> None:
    """The twin's gradient is the central difference of its loss."""
    step = 2e-5
    for values, (query, scores) in itertools.product(cases(spec, 6), examples()):
        frozen = twin.freeze(query, scores, values)
        moves = step * np.eye(len(query))
        differences = np.array(
            [
                (
                    twin.loss(query, scores + e, values, frozen)
                    - twin.loss(query, scores - e, values, frozen)
                )
                / (2 * step)
                for e in moves
            ]
        ).reshape(-1)
        got = twin.gradient(query, scores, values)
        noise = 1e-11 * max(1.0, abs(twin.loss(query, scores, values, frozen)))
        error = np.abs(got - differences).max(initial=0.0)
        scale = np.abs(got).max(initial=0.0)
        assert error <= 1e-6 * scale + noise / step * 0.1, (
            f"{spec.name} {values} scores {scores}: {got} {differences}"
        )


def holds(twin: Any, values: Values) -> bool:
    """Whether the twin says that the gradient is not the derivative of what is reported."""
    return hasattr(twin, "holds") and bool(twin.holds(values))


def check_reported_loss(spec: Any, twin: Any) -> None:
    """The gradient is the central difference of the loss that the kernel reports; at the defaults,
    or of no loss.
    """
    step = 1e-5
    spread = [(q, s) for q, s in examples() if len(s) < 2 or np.diff(np.sort(s)).min() > 4 * step]
    longer = np.random.default_rng(9)
    spread.append((make_query(longer.integers(0, 5, 70)), 2 * longer.normal(size=70)))
    for values, (query, scores) in itertools.product(cases(spec, 4), spread):
        assert not (holds(twin, values) and spec.exact_gradient)
        if holds(twin, values):
            continue
        _, grad, _ = evaluate(spec, query, scores, values)
        # Along two directions: differences of a whole list cost a pass a document.
        for seed in range(2):
            way = np.random.default_rng(seed).choice([-1.0, 1.0], len(query))
            there = evaluate(spec, query, scores + step * way, values)[0]
            back = evaluate(spec, query, scores - step * way, values)[0]
            error, scale = abs((there - back) / (2 * step) - grad @ way), np.abs(grad).sum()
            noise = 1e-10 * max(1.0, abs(there))
            assert error <= 1e-6 * scale + noise, (
                f"{spec.name} {values} scores {scores}: off by {error:g} of {scale:g}"
            )
    values = {p.name: p.default for p in spec.params}
    if holds(twin, values):
        query, scores = spread[-2]
        moved = [
            [evaluate(spec, query, scores + e, values)[1] for e in side * step * np.eye(13)]
            for side in (1, -1)
        ]
        slopes = (np.array(moved[0]) - np.array(moved[1])) / (2 * step)
        assert np.abs(slopes - slopes.T).max() > 1e-3 * np.abs(slopes).max(), (
            "this gradient could have a loss"
        )


def check_hessian_claim(spec: Any, twin: Any) -> None:
    """The hessian is what its kind says."""
    for values, (query, scores) in itertools.product(cases(spec), examples()):
        _, grad, hess = evaluate(spec, query, scores, values)
        assert np.all(hess >= 0)
        where = f"{spec.name} {values} scores {scores}"
        # Exact: the difference of gradients.
        if spec.hessian is HessianKind.EXACT:
            e = 1e-5 * np.eye(len(query))
            differences = [
                (
                    twin.gradient(query, scores + d, values)
                    - twin.gradient(query, scores - d, values)
                )[p]
                / 2e-5
                for p, d in enumerate(e)
            ]
            close(hess, np.array(differences).reshape(-1), 1e-6, f"hessian of {where}")
        # A majoriser: the surrogate is nowhere above the parabola of its step.
        elif spec.hessian is HessianKind.MAJORISER:
            if twin.surrogate(query, scores, values, scores) is None:
                continue
            at_scores = twin.surrogate(query, scores, values, scores)
            for p, t in itertools.product(range(len(query)), (-6.0, -0.5, 0.05, 1.0, 8.0)):
                moved = scores.copy()
                moved[p] += t
                there = twin.surrogate(query, moved, values, scores)
                assert there <= at_scores + grad[p] * t + 0.5 * hess[p] * t * t + 1e-9 * (
                    1 + abs(at_scores)
                ), where
        # No Newton step is longer than the twin says.
        if hasattr(twin, "longest_step"):
            assert np.all(
                np.abs(grad) <= twin.longest_step(query, scores, values) * hess * (1 + 1e-9)
            ), where


def check_defined_everywhere(spec: Any, twin: Any) -> None:
    """Finite at ties, scores of +-1e4 and the largest labels; zeros where nothing is to be learnt."""
    rng = np.random.default_rng(3)
    extreme = [
        (make_query([0, 1, 2, 3, 4, 0]), np.array([1e4, -1e4, 0.0, 1e4, -1e4, 5.0])),
        (make_query([4, 3, 2, 1, 0, 0]), np.array([1e4, 5e3, 0.0, -1.0, -1e4, -1e4])),
        (make_query([31, 0, 31, 1]), np.array([-1e4, 1e4, 1e4, 0.0])),
        (make_query([0, 31, 30]), np.zeros(3)),
        (make_query(rng.integers(0, 5, 40)), rng.choice([-1e4, 0.0, 1e-3, 1e4], 40)),
        (make_query([1, 0]), np.array([1e-300, 0.0])),
    ]
    for values, (query, scores) in itertools.product(cases(spec), [*extreme, *examples()]):
        loss, grad, hess = evaluate(spec, query, scores, values)
        where = f"{spec.name} {values} scores {scores}"
        assert np.all(np.isfinite([loss, *grad, *hess])), where
        assert np.all(hess >= 0), where
        teaches = query.counts(values) if "normalize" in values else query.teaches
        if spec.shift_invariant and not teaches:
            assert not np.any([grad, hess]), where


def check_symmetries(spec: Any, twin: Any) -> None:
    """Forces cancel, a shift of all scores changes nothing, and documents in another order get the
    same.
    """
    rng = np.random.default_rng(5)
    query, scores = make_query(rng.integers(0, 5, 25)), np.round(2048 * rng.normal(size=25)) / 1024
    shuffled = rng.permutation(25)
    for values in cases(spec):
        loss, grad, hess = evaluate(spec, query, scores, values)
        other = Query(query.labels[shuffled], query.gains[shuffled])
        loss2, grad2, hess2 = evaluate(spec, other, scores[shuffled], values)
        assert abs(loss - loss2) <= 1e-12 * max(1, abs(loss))
        close(grad2, grad[shuffled], 1e-12, f"permuted gradient of {spec.name} {values}")
        close(hess2, hess[shuffled], 1e-12, f"permuted hessian of {spec.name} {values}")
        if spec.shift_invariant:
            assert abs(grad.sum()) <= tolerance_of(twin, values, 1e-12) * np.abs(grad).sum()
            _, grad3, hess3 = evaluate(spec, query, scores + 2.0**30, values)  # exactly
            tolerance = tolerance_of(twin, values, 1e-11)
            close(grad3, grad, tolerance, f"shifted gradient of {spec.name} {values}")
            close(hess3, hess, tolerance, f"shifted hessian of {spec.name} {values}")


CHECKS = (
    check_equals_twin,
    check_twin_gradient,
    check_reported_loss,
    check_hessian_claim,
    check_defined_everywhere,
    check_symmetries,
)
