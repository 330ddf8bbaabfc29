"""How far loss, gradient and curvature of each objective are from the twins in high precision, at
scores of any size.

The error of a gradient or a curvature is its largest one over a query, relative to the largest
number of that query, or to 1e-4 in units of the objective's width where that is more: what is
smaller moves no score. That of a loss is relative to it, or to 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.params import Param
from qa.numerics.high_precision import evaluate_precisely, precise
from tests.objectives.conformance import Values, evaluate, make_query
from tests.reference._ranking import Query

PAGE = Path(__file__).parents[2] / "docs" / "design" / "numerics.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| (\S+) \| (\S+) \|", re.MULTILINE)

# Beyond it a loss, and the gradient of a squared one, count as so much (`primitives.LARGEST_LOSS`).
_LARGEST = 1e299
_SMALLEST = 1e-4
# Ranks that a cut-off tells apart must have fractions.
_RANKS_WITH_FRACTIONS = 1e4
# Where noise is added to scores it is lost beside larger ones.
_NOISE_SHOWS = 1e6


class Bounds(NamedTuple):
    """What the documentation states: of short lists and sums="direct", and of sums="fast"."""

    pairs: float
    fast: float


def bounds() -> dict[str, Bounds]:
    """Objective -> what its row of the page says."""

    def number(cell: str) -> float:
        return float("nan") if cell == "-" else float(cell)

    text = PAGE.read_text(encoding="utf-8")
    return {m[1]: Bounds(*(number(cell) for cell in m.groups()[1:])) for m in _ROW.finditer(text)}


def default_values(spec: Any) -> Values:
    return {p.name: p.default for p in spec.params}


def every_size(rng: np.random.Generator, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Scores of every size that a double has, by what they are."""
    sign = rng.choice([-1.0, 1.0], n)
    yield "normal", rng.normal(size=n)
    yield "hundreds", 100 * rng.normal(size=n)
    yield "clusters at 1e4", rng.choice([-1e4, 1e4, 0.0, 1.0], n) + rng.choice([0.0, 1e-9, 0.3], n)
    yield "1e-20 to 1e-5", sign * 10.0 ** rng.uniform(-20, -5, n)
    yield "1e-320 to 1e-290", sign * 10.0 ** rng.uniform(-320, -290, n)
    yield "equal", np.full(n, rng.choice([0.0, 1.0, 1e300, -1e-300]))
    yield "two values", rng.choice([0.0, rng.choice([1e-300, 1e-9, 1.0, 40.0, 800.0])], n)
    base = rng.choice([1e3, 1e8, 1e15])
    yield "neighbouring doubles", base + np.spacing(base) * rng.integers(0, 9, n)
    base = np.float32(rng.choice([1.0, 1e3, 1e5]))
    yield (
        "neighbouring floats",
        (base + np.spacing(base) * rng.integers(0, 9, n).astype(np.float32)).astype(float),
    )


def huge_sizes(rng: np.random.Generator, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """The rest of them."""
    sign = rng.choice([-1.0, 1.0], n)
    yield "1 to 1e20", sign * 10.0 ** rng.uniform(0, 20, n)
    yield "1e-300 to 1e308", sign * 10.0 ** rng.uniform(-300, 308, n)
    yield "1e300 to 1e308", sign * 10.0 ** rng.uniform(300, 308, n)
    yield "largest", 1.7e308 * sign
    yield "two values, huge", rng.choice([0.0, rng.choice([1e200, 1e300, 1.7e308])], n)
    base = rng.choice([1e100, 1e307])
    yield "neighbouring doubles, huge", base + np.spacing(base) * rng.integers(0, 9, n)


def labels_of(rng: np.random.Generator, n: int) -> Query:
    """Grades 0 to 4 that differ."""
    labels = rng.integers(0, 5, n)
    labels[:2] = 0, 3
    return make_query(labels)


def width_of(values: Values) -> float:
    """The objective's width in units of the score."""
    if "sigma" in values:
        return float(values["sigma"])
    return float(1 / values["alpha"]) if "alpha" in values else 1.0


def is_defined(spec: Any, scores: np.ndarray, values: Values) -> bool:
    """Whether the twin says what comes out: no draw that doubles lose, no square beyond them."""
    highest = float(np.abs(scores).max(initial=0.0))
    if spec.name == "yetirank":
        return highest < _NOISE_SHOWS
    if (
        spec.name.endswith("shf-sdcg")
        and values["k"] > 0
        and highest / width_of(values) > _RANKS_WITH_FRACTIONS
    ):
        return False
    grows = spec.name in (
        "query-rmse",
        "ranksvm",
        "regression",
        "shf-sdcg",
        "reg-shf-sdcg",
    )
    return not grows or highest / width_of(values) < _LARGEST


def worst_error(
    spec: Any, query: Query, scores: np.ndarray, values: Values, by_pairs: bool = False
) -> float:
    """The largest of the three errors; infinity where something is not finite.

    Args:
        spec, query, scores, values: as for `conformance.evaluate`.
        by_pairs: compare with the kernel's own loop over pairs; else with the twin.
    """
    computed = evaluate(spec, query, scores, values)
    if not all(np.isfinite(part).all() for part in computed):
        return float("inf")
    if not is_defined(spec, scores, values):
        return 0.0
    expected = (
        evaluate(spec, query, scores, values | {"sums": "direct"})
        if by_pairs
        else evaluate_precisely(spec.name, query, scores, values)
    )
    width = width_of(values)
    scales = 1.0, _SMALLEST / width, _SMALLEST / width**2
    errors = []
    for got, exact, least in zip(computed, expected, scales, strict=True):
        numbers = np.atleast_1d(precise(exact))
        scale = max([*map(abs, numbers), least])
        if scale < _LARGEST:
            errors.append(
                float(max(abs(precise(np.atleast_1d(got)) - numbers), default=0.0) / scale)
            )
    return max(errors, default=0.0)


def variants(spec: Any) -> Iterator[Values]:
    """The defaults, and those that take another way through a kernel."""
    usual = default_values(spec)
    yield usual
    other: dict[str, Any] = {"sigma": 0.1, "alpha": 8.0, "k": 3, "train_discount": 0.3, "mix": 0.25}
    names: dict[str, Param] = {p.name: p for p in spec.params}
    for name in other.keys() & names.keys():
        yield usual | {name: other[name]}
    for param in spec.params:
        if param.choices and param.name not in ("sums", "target"):
            yield from (
                usual | {param.name: choice} for choice in param.choices if choice != param.default
            )
