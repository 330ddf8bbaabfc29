"""A dataset whose features are on different scales."""

from __future__ import annotations

import numpy as np

from boostrank.data.dataset import RankingDataset


def make_scaled_dataset(
    seed: int = 0, queries: int = 40, size: int = 15, gaps: bool = False
) -> RankingDataset:
    """Labels follow two of five features, on very different scales; the last feature never changes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * size, 6)) * [1.0, 30.0, 0.01, 1.0, 5.0, 0.0] + [
        0.0,
        100.0,
        0.0,
        3.0,
        0.0,
        7.0,
    ]
    signal = X[:, 0] + (X[:, 1] - 100.0) / 30.0 + 1.2 * rng.normal(size=len(X))
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return RankingDataset.from_arrays(
        X.astype(np.float32), np.digitize(signal, [0.5, 1.5, 2.5]), group=[size] * queries
    )
