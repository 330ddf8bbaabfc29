"""The quick scorer of forests: every bit as the engines score, wherever a value stands."""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.kernels.curves import Curve, Curves
from boostrank.kernels.forest import Forest, Scorer
from boostrank.model.scores import _rows_at_thresholds, compiled_scorer

ENGINES = ("lightgbm", "xgboost")
FEW = {"num_leaves": 15, "max_depth": 6, "num_threads": 1, "verbosity": -1}


def table(rows: int, seed: int = 1) -> np.ndarray:
    """Whole numbers, fractions, zeros and missing values."""
    rng = np.random.default_rng(seed)
    out = np.column_stack([rng.normal(size=(rows, 3)), rng.integers(-2, 3, (rows, 3))]).astype(
        np.float32
    )
    return np.where(rng.random(out.shape) < 0.15, np.float32(np.nan), out)


def ranking(features: np.ndarray) -> boostrank.RankingDataset:
    labels = np.clip(np.nan_to_num(features[:, 0] + features[:, 4]).round() + 1, 0, 3)
    return boostrank.RankingDataset.from_arrays(
        features, labels, group=[30] * (len(features) // 30)
    )


def same_everywhere(model: boostrank.RankingModel, num_iteration: int | None = None) -> None:
    """On random rows, and at and beside thresholds, zeros and missing values."""
    trees = model.trees(num_iteration)
    assert trees.forest is not None
    scorer = Scorer(trees.forest, double=trees.double)
    for rows in (
        table(1000, 7),
        _rows_at_thresholds(trees.forest, scorer.columns, model.n_features),
    ):
        scores = scorer.scores(np.ascontiguousarray(rows[:, scorer.columns]))
        np.testing.assert_array_equal(
            scores, model.predict(rows, num_iteration=num_iteration, threads=1)
        )


@pytest.mark.fault(90)
@pytest.mark.parametrize("start", ["linear", "none"])
@pytest.mark.parametrize("engine", ENGINES)
def test_scores_are_the_engines_to_the_last_bit(engine: str, start: str) -> None:
    data = ranking(table(900))
    model = boostrank.train({"objective": "auto", **FEW}, data, 12, backend=engine, start=start)
    same_everywhere(model)
    same_everywhere(model, 5)
    assert compiled_scorer(model) is not None


@pytest.mark.parametrize(
    "missing", [{"zero_as_missing": True}, {"use_missing": False}], ids=["zero", "none"]
)
def test_lightgbms_other_rules_for_missing_values_are_kept(missing: dict[str, bool]) -> None:
    data = ranking(table(900))
    params = {"objective": "auto", **FEW, **missing}
    same_everywhere(boostrank.train(params, data, 12, start="none"))


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_trees_over_few_columns_look_at_their_own(columns: int) -> None:
    few, words, rng = np.zeros(0, np.int32), np.zeros(0, np.uint32), np.random.default_rng(1)
    inner, leaves = np.arange(columns, dtype=np.int32), np.full(2 * columns, 0.0)
    leaves[1::2] = 2.0 ** np.arange(columns)
    forest = Forest(
        inner,
        np.zeros(columns),
        np.zeros(columns, np.uint8),
        ~(2 * inner),
        ~(2 * inner + 1),
        leaves,
        inner,
        few,
        words,
        np.zeros(1, np.int64),
        None,
    )
    rows = rng.normal(size=(50, columns)).astype(np.float32)
    np.testing.assert_array_equal(
        Scorer(forest, double=True).scores(rows), (rows > 0) @ leaves[1::2]
    )


def test_a_tree_of_one_leaf_is_scored(tmp_path: Path) -> None:
    data = ranking(table(90))
    params = {**FEW, "objective": "regression", "min_data_in_leaf": 80}
    booster = lgb.train(params, lgb.Dataset(data.features, data.labels), 2)
    booster.save_model(tmp_path / "m.txt")
    model = boostrank.RankingModel.load(tmp_path / "m.txt")
    assert model.trees().forest.left.size == 0
    same_everywhere(model)


@pytest.mark.parametrize("double", [True, False])
def test_functions_of_any_number_of_pieces_are_found(double: bool) -> None:
    rng = np.random.default_rng(4)
    real = np.float64 if double else np.float32
    # Step functions of 1 to 101 pieces, and no tree.
    bounds = [
        np.sort(rng.choice(10_000, size, replace=False)) / 64.0 - 70
        for size in (0, 1, 14, 15, 16, 30, 31, 100)
    ]
    levels = [rng.normal(size=ends.size + 1).astype(real).astype(float) for ends in bounds]
    start = Curves.from_pairs(
        [(i, Curve(bounds[i], levels[i], i + 0.5)) for i in range(len(bounds))]
    )
    few, none = np.zeros(0, np.int32), np.zeros(0)
    words = np.zeros(0, np.uint32)
    forest = Forest(
        few,
        none,
        few.astype(np.uint8),
        few,
        few,
        none,
        few,
        few,
        words,
        np.zeros(1, np.int64),
        start,
    )
    # Rows at the bounds, beside them, and at odd numbers.
    near = rng.choice(np.concatenate(bounds), (700, len(bounds))).astype(np.float32)
    rows = np.choose(
        rng.integers(0, 3, near.shape),
        [near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)],
    )
    rows = np.where(
        rng.random(rows.shape) < 0.2, rng.choice([np.nan, np.inf, -3e38, 0.0], rows.shape), rows
    )
    rows = rows.astype(np.float32)
    # The sum of the pieces that they fall into.
    expected = np.zeros(len(rows), real)
    for column, (ends, level) in enumerate(zip(bounds, levels, strict=True)):
        x = rows[:, column]
        expected += np.where(
            np.isnan(x), column + 0.5, level[np.searchsorted(ends, x, "left")]
        ).astype(real)
    np.testing.assert_array_equal(Scorer(forest, double=double).scores(rows), expected)


def test_categories_and_halves_of_base_scores_are_left_to_the_engine(tmp_path: Path) -> None:
    features, rng = table(900), np.random.default_rng(3)
    features[:, 5] = rng.integers(0, 40, 900)
    labels = (features[:, 5] % 3 == 0).astype(float)
    categories = lgb.Dataset(features, labels, categorical_feature=[5])
    lgb.train(FEW, categories, 5).save_model(tmp_path / "categories.txt")
    assert compiled_scorer(boostrank.RankingModel.load(tmp_path / "categories.txt")) is None
    half = xgb.train({"base_score": 0.5, "max_depth": 3}, xgb.DMatrix(features, labels), 3)
    half.save_model(tmp_path / "half.json")
    assert compiled_scorer(boostrank.RankingModel.load(tmp_path / "half.json")) is None
