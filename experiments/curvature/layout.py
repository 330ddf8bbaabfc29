"""Layout of the shipped kernels' scratch memory that `families` reads: where it lies, and that it
still lies there.
"""

from __future__ import annotations

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.primitives import LN2
from boostrank.objectives import OBJECTIVES

ROWS = {
    "ranknet": ("scores", "gains"),
    "shf-sdcg": ("scores", "gains", "ranks", "slopes"),
    "sdcg": ("scores", "gains", "ranks", "slopes"),
}
"""Objective -> what its scratch holds after a call, n numbers each, by descending score."""
_LENGTHS = (20, 80)  # pair by pair, and by sums
_DIGITS = 1e-5  # what fast sums keep of them


def check_layout() -> None:
    """Run every kernel once by pairs and once by sums, and compare what it leaves with the
    formulas.

    Raises:
        SystemExit: something else lies there.
    """
    for name, rows in ROWS.items():
        for n in _LENGTHS:
            rng = np.random.default_rng(n)
            scores, gains = rng.normal(size=n), rng.integers(0, 4, n).astype(np.float64)
            order = np.argsort(-scores)
            wanted = _by_formula(name, scores[order], gains[order])
            for row, found in zip(rows, left_in_scratch(name, scores, gains, order), strict=False):
                if not np.allclose(found, wanted[row], rtol=_DIGITS, atol=0.0):
                    raise SystemExit(
                        f"{name} keeps its {row} elsewhere: bring experiments/curvature up to it"
                    )


def left_in_scratch(
    name: str, scores: Float64Array, gains: Float64Array, order: Int64Array
) -> Float64Array:
    """float64[scratch a document, n], as a shipped kernel leaves it with its defaults."""
    spec, n = OBJECTIVES.get(name), scores.size
    values = {p.name: p.parse(p.default) for p in spec.params}
    documents, queries = spec.prepare(gains, gains, np.array([0, n]), values)
    scratch = np.full(spec.scratch_per_document * n, np.nan)
    spec.kernel(
        scores,
        gains,
        order,
        documents,
        queries[0],
        spec.encode(values, 0),
        np.zeros(n),
        np.zeros(n),
        scratch,
        np.zeros(scratch.size, np.int64),
    )
    return scratch.reshape((-1, n))


def _by_formula(name: str, s: Float64Array, g: Float64Array) -> dict[str, Float64Array]:
    """Scores, gains, ranks and slopes of the log discount at the default sigma, from the
    definitions.
    """
    values = {p.name: p.default for p in OBJECTIVES.get(name).params}
    u = (s[:, None] - s[None, :]) / float(values["sigma"])
    beaten = 0.5 - 0.5 * np.tanh(u / 2)  # by j, in row i
    if name == "shf-sdcg":
        higher = g[:, None] > g[None, :]
        beaten = np.where(
            higher, np.logaddexp(0.0, -u), np.where(higher.T, 1.0 + np.logaddexp(0.0, u), beaten)
        )
    ranks = beaten.sum(axis=1) + 0.5
    ideal = np.sort(g)[::-1] @ (1.0 / np.log2(np.arange(2.0, s.size + 2.0)))
    return {
        "scores": s,
        "gains": g,
        "ranks": ranks,
        "slopes": -g / ideal * LN2 / ((1 + ranks) * np.log1p(ranks) ** 2),
    }
