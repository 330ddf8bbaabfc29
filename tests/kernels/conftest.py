"""Scores of long lists, in the shapes in which sums over pairs may go wrong."""

from __future__ import annotations

import numpy as np


def make_scores(shape: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Scores that are spread, wide, tied, in far clusters, or equal."""
    return {
        "spread": rng.normal(size=n),
        "wide": 100 * rng.normal(size=n),
        "tied": rng.integers(-3, 3, n).astype(float),
        "clusters": rng.choice([-1e4, 0.0, 1.0, 1e4], n) + rng.choice([0.0, 1e-9, 0.3], n),
        "equal": np.full(n, 0.25),
    }[shape]
