"""Small datasets of several shapes, and what trains on them in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from boostrank import RankingDataset, RankingModel
from boostrank.fit.execute import execute
from boostrank.fit.plan import Training
from boostrank.fit.resolve import resolve
from boostrank.options import TrainOptions

BACKENDS = ["lightgbm", "xgboost"]
FAST = {"num_leaves": 7, "learning_rate": 0.2, "verbosity": -1, "num_threads": 1}
ROUGH_NAMES = ("rising", "zeros", "coarse", "square [m]", "tail", "code")
TREES: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "objective": "lambdarank",
        "num_leaves": 15,
        "min_data_in_leaf": 3,
        "num_threads": 1,
        "verbosity": -1,
    },
    "xgboost": {
        "objective": "lambdarank",
        "num_leaves": 15,
        "min_child_weight": 0.1,
        "num_threads": 1,
    },
}


def make_dataset(seed: int = 0, queries: int = 60, size: int = 20) -> RankingDataset:
    """Lists of one length; labels follow the first of five features, and a product of two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * size, 5)).astype(np.float32)
    signal = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=len(X))
    return RankingDataset.from_arrays(
        X, np.digitize(signal, [0.0, 1.0, 1.8]), group=[size] * queries
    )


def make_rough_dataset(seed: int = 0, gaps: float = 0.08) -> RankingDataset:
    """No feature goes one way; missing values, many zeros, few values, a tail."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(480, 6))
    x[rng.random(480) < 0.3, 1] = 0.0
    x[:, 2], x[:, 4], x[:, 5] = np.round(2 * x[:, 2]), np.exp(2 * x[:, 4]), rng.integers(0, 5, 480)
    relevance = (
        x[:, 0]
        + np.sin(3 * x[:, 0])
        - 0.7 * x[:, 1]
        + 0.5 * x[:, 3] ** 2
        + (x[:, 5] == 2)
        + rng.normal(size=480)
    )
    x[rng.random(x.shape) < gaps] = np.nan
    labels = np.clip(np.round(relevance + 1), 0, 4)
    return RankingDataset.from_arrays(
        x.astype(np.float32), labels, group=[12] * 40, feature_names=ROUGH_NAMES
    )


def make_short_lists(queries: int, seed: int) -> RankingDataset:
    """Lists of 5 to 14 documents; labels follow a product of two features, and a third."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 15, queries)
    x = rng.normal(size=(int(sizes.sum()), 4)).astype(np.float32)
    hidden = x[:, 0] * x[:, 1] + x[:, 2] + 0.3 * rng.normal(size=len(x))
    y = np.digitize(hidden, np.quantile(hidden, [0.5, 0.8, 0.95])).astype(float)
    return RankingDataset.from_arrays(x, y, group=sizes)


def train_folds(
    params: dict[str, Any],
    data: RankingDataset,
    rounds: int = 12,
    folds: int = 3,
    start: Any = "auto",
    **options: Any,
) -> tuple[RankingModel, list[RankingModel]]:
    """Return the average model, and the model of each fold."""
    seen: list[RankingModel] = []

    def keep(_: int, __: Training, model: RankingModel) -> bool:
        seen.append(model)
        return True

    options = TrainOptions(params=params, rounds=rounds, folds=folds, start=start, **options)
    return execute(resolve(options, data), keep), seen


def save_bytes(model: boostrank.RankingModel, folder: Path) -> tuple[bytes, bytes]:
    """The model file and its sidecar, which holds the metrics of every round."""
    model.save(folder / "model")
    return (folder / "model").read_bytes(), (folder / "model.meta.json").read_bytes()
