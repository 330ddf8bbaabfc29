"""Small datasets, and curves of a linear start."""

from __future__ import annotations

import numpy as np

from boostrank import RankingDataset
from boostrank.core.queries import QueryIndex
from boostrank.kernels.curves import Curve

CALIBRATION = {"objective": "lambdarank", "num_leaves": 7, "min_data_in_leaf": 5, "verbosity": -1}
STEPS = Curve(
    np.array([-1.25, 0.5, 3.25]),
    np.array([0.5, -1.5, 2.0, 4.0]),
    0.25,
    np.array([5.0, 1.0, 7.0, 2.0, 3.0]),
)
TWO = Curve(np.array([0.75]), np.array([1.0, -2.0]), -0.5, np.array([4.0, 9.0, 1.0]))


def make_graded_dataset(seed: int, queries: int = 60) -> RankingDataset:
    """Grades 0 to 2 that depend on the first of three features."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 25, queries)
    x = rng.normal(size=(sizes.sum(), 3))
    labels = np.digitize(x[:, 0] + rng.normal(size=x.shape[0]), [0.7, 2.0]).astype(np.float64)
    return RankingDataset(x, labels, QueryIndex.from_sizes(sizes))


def make_named_dataset(seed: int, queries: int = 40) -> RankingDataset:
    """Four features with names, a twentieth of whose values is missing."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(10 * queries, 4)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    labels = np.clip(
        np.round(1.5 + np.nan_to_num(rows[:, 1] - rows[:, 3]) + 0.3 * rng.normal(size=len(rows))),
        0,
        4,
    )
    return RankingDataset.from_arrays(
        rows, labels, group=[10] * queries, feature_names=["age", "price", "x", "y [m]"]
    )
