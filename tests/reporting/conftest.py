"""A dataset with features of all kinds."""

from __future__ import annotations

from functools import cache

import numpy as np

from boostrank.data.dataset import RankingDataset

QUERIES, SIZE = 40, 8


@cache
def make_world() -> RankingDataset:
    """Zeros and values around zero, missing values, whole numbers, and a feature of the query."""
    rng = np.random.default_rng(3)
    n = QUERIES * SIZE
    X = rng.normal(size=(n, 6))
    X[:, 1] = np.where(rng.random(n) < 0.4, 0.0, X[:, 1])
    X[:, 2] = rng.integers(0, 6, n)
    X[:, 5] = np.repeat(rng.normal(size=QUERIES), SIZE)
    X[:, :3][rng.random((n, 3)) < 0.15] = np.nan
    seen = np.nan_to_num(X, nan=-0.7)
    score = (
        seen[:, 0] + np.abs(seen[:, 1]) + 0.4 * seen[:, 2] * seen[:, 3] + seen[:, 5] * seen[:, 4]
    )
    labels = np.clip(np.round(1.5 + 0.8 * score + 0.3 * rng.normal(size=n)), 0, 4)
    return RankingDataset.from_arrays(X, labels, group=np.full(QUERIES, SIZE))
