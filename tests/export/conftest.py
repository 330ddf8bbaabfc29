"""Small models of both engines to export: with a start and without, with missing values, with
categories.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.engines import get_backend
from boostrank.engines.served.linear import NO_WEIGHTS
from boostrank.engines.trees import ServedTrees
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.export.target import ServedModel
from boostrank.kernels.curves import rounded_down
from boostrank.model.ranking_model import RankingModel

GROUP, QUERIES = 20, 30
TREES = {"objective": "lambdarank", "num_leaves": 7, "num_threads": 1, "learning_rate": 0.2}
SETS = {"min_data_per_group": 1, "cat_smooth": 0, "cat_l2": 0, "max_cat_to_onehot": 1}
KINDS = [
    f"{engine}-{start}-{holes}"
    for engine in ("lightgbm", "xgboost")
    for start in ("start", "none")
    for holes in ("whole", "missing", "categories")
]


@dataclass(frozen=True)
class Example:
    """A model to export.

    Args:
        model: as we load it.
        served: as targets get it.
        rows: float64[n, 6]: of its kind, at its thresholds and beside them, and strange ones.
    """

    model: RankingModel
    served: ServedModel
    rows: np.ndarray

    @property
    def single(self) -> np.ndarray:
        """float32[n, 6], the same."""
        with np.errstate(over="ignore"):
            return self.rows.astype(np.float32)

    def expected(self, rows: np.ndarray) -> np.ndarray:
        """Scores by the engine itself, of the type that it gives."""
        booster = self.model.booster
        if self.model.backend == "lightgbm":
            return booster.predict(rows, raw_score=True, num_threads=1)
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float32)
        return booster.inplace_predict(rows, predict_type="margin", validate_features=False)


def table(kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float64[600, 6] and grades; columns 4 and 5 are categories where the kind is."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(GROUP * QUERIES, 6))
    X[:, 3] = np.where(rng.random(len(X)) < 0.5, 0.0, X[:, 3])
    X[:, 2] *= 1e-3
    if kind.endswith("categories"):
        X[:, 4], X[:, 5] = rng.integers(0, 40, len(X)), rng.integers(0, 3, len(X))
    y = np.clip(
        np.round(1 + X[:, 0] + np.abs(X[:, 4]) % 3 / 2 + 0.3 * rng.normal(size=len(X))), 0, 4
    )
    if not kind.endswith("whole"):
        X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(np.float32).astype(np.float64), y


@cache
def example(kind: str) -> Example:
    """The example of this kind (or "lightgbm-none-zeros", to which zeros are missing), trained
    once.
    """
    engine, start, holes = kind.split("-")
    X, y = table(kind)
    groups = [GROUP] * QUERIES
    begin = "linear" if start == "start" else "none"
    data = boostrank.RankingDataset.from_arrays(X.astype(np.float32), y, group=groups)
    params = {**TREES, **(SETS if engine == "lightgbm" and holes == "categories" else {})}
    if holes == "zeros":
        params["zero_as_missing"] = True
    if holes != "categories":
        model = boostrank.train(params, data, 8, backend=engine, start=begin)
    elif engine == "lightgbm":
        dataset = lgb.Dataset(
            X, y, group=groups, categorical_feature=[4, 5], params={"verbose": -1, "num_threads": 1}
        )
        begins = None
        if start == "start":  # LightGBM itself goes on from the trees of the start
            first = boostrank.train(TREES, data, 1, start="linear")
            begins = lgb.Booster(
                model_str=first._booster.native.model_to_string(
                    num_iteration=first._booster.native.num_trees() - 1
                )
            )
        model = RankingModel(lgb.train({**params, "verbose": -1}, dataset, 8, init_model=begins))
    else:
        dataset = xgb.DMatrix(
            X,
            y,
            group=groups,
            feature_types=["q"] * 4 + ["c"] * 2,
            enable_categorical=True,
            nthread=1,
        )
        params = {
            "objective": "rank:ndcg",
            "max_depth": 4,
            "nthread": 1,
            "base_score": 0.0,
            "max_cat_to_onehot": 1,
        }
        body = bytes(xgb.train(params, dataset, 8).save_raw("json"))
        if start == "start":
            first = boostrank.train(TREES, data, 1, backend=engine, start="linear")
            grown, curves = XGBOOST.parse(body), XGBOOST.parse(first.to_bytes()).start
            body = grown.with_trees(curves, grown.forest["trees"])
        model = RankingModel(get_backend(engine).load(body))
    format = get_backend(engine).format
    body = format.stamp(model.to_bytes())
    trees = format.served(format.parse(body))
    names = ("bm25", "clicks", "age", "links", "shop", "colour")
    served = served_model("toy", engine, body, trees, names)
    return Example(model, served, np.vstack([X[:200], *beside(trees.forest, X)]))


def served_model(
    name: str, engine: str, body: bytes, trees: ServedTrees, names: tuple[str, ...]
) -> ServedModel:
    """A model of trees whose features have no declaration."""
    return ServedModel(
        name,
        engine,
        body,
        trees,
        names,
        declared={},
        defaults=np.zeros(0),
        fill={},
        linear=NO_WEIGHTS,
    )


def beside(forest: Any, X: np.ndarray) -> Iterator[np.ndarray]:
    """Rows at thresholds and beside them, zeros, tiny numbers, infinities, what is missing, unseen
    categories.
    """
    rng = np.random.default_rng(1)
    for feature in range(X.shape[1]):
        nodes = (forest.feature == feature) & ~forest.categorical
        cuts = np.unique(forest.threshold[nodes & np.isfinite(forest.threshold)])
        cuts = cuts[np.abs(cuts) < 1e30]
        low = rounded_down(cuts)
        values = [cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)]
        values += [
            low,
            np.nextafter(low, np.float32(np.inf)),
            np.nextafter(low, np.float32(-np.inf)),
        ]
        # Half way to the next float32 number, where rounding turns.
        values += [
            (low.astype(np.float64) + np.nextafter(low, np.float32(np.inf)).astype(np.float64)) / 2
        ]
        values += [
            [
                0.0,
                -0.0,
                1e-36,
                -1e-36,
                1e-35,
                -1e-35,
                1e-44,
                -1e-44,
                1e-300,
                np.inf,
                -np.inf,
                np.nan,
                1e30,
                -1e30,
            ]
        ]
        values += [[-1.0, -0.5, 2.7, 7, 39, 40, 41, 1e6, 16777216.0, 2147483648.0]]
        column = np.concatenate(values)
        rows = X[rng.integers(0, len(X), column.size)].copy()
        rows[:, feature] = column
        yield rows


@pytest.fixture(params=KINDS)
def each(request: pytest.FixtureRequest) -> Example:
    """Each kind of model."""
    return example(request.param)
