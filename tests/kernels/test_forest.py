"""The trees walked here give the engine's scores, and say right how the scores change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines import format_of
from boostrank.engines.trees import Trees
from boostrank.kernels.forest import Walker, permute_within

from ..model.real_models import data, lightgbm_models, xgboost_models


def trees_of(body: bytes, columns: int) -> Trees:
    form = format_of(body)
    return form.trees(form.parse(body), columns)


def edges(trees: Trees, columns: int) -> Float32Array:
    """Real rows, and rows of the numbers where a split may be off by one: thresholds and their
    neighbours, 0, NaN.
    """
    assert trees.forest is not None
    rng = np.random.default_rng(1)
    near = trees.forest.threshold[np.isfinite(trees.forest.threshold)].astype(np.float32)
    numbers = np.concatenate(
        [
            near,
            np.nextafter(near, np.float32(np.inf)),
            np.nextafter(near, np.float32(-np.inf)),
            np.array([0.0, -0.0, 1e-36, -1e-36, 2e-35, np.nan, 1e30], np.float32),
        ]
    )
    drawn = rng.choice(numbers, size=(500, columns))
    by_sets = np.unique(trees.forest.feature[trees.forest.categorical])
    categories = np.array(
        [*range(-2, 70), -0.5, 0.5, 31.9, 2.0**24, 2.0**31, 1e30, np.nan], np.float32
    )
    drawn[:, by_sets] = rng.choice(categories, size=(500, by_sets.size))
    return np.concatenate([data()[0].astype(np.float32)[:, :columns], drawn])


def lightgbm_of(text: str) -> Any:
    booster = lgb.Booster(model_str=text)
    return lambda rows: booster.predict(rows.astype(np.float64), raw_score=True)


def xgboost_of(body: bytes) -> Any:
    booster = xgb.Booster()
    booster.load_model(bytearray(body))
    booster.set_param({"nthread": 1})
    return lambda rows: booster.inplace_predict(
        rows, predict_type="margin", validate_features=False
    ).astype(float)


@pytest.mark.parametrize("name", lightgbm_models())
def test_lightgbms_scores_to_1e_9(name: str) -> None:
    text = lightgbm_models()[name]
    trees = trees_of(text.encode(), 6)
    rows = edges(trees, 6)
    expected = lightgbm_of(text)(rows)
    walked = Walker(trees.forest, np.arange(6)).scores(rows)
    np.testing.assert_allclose(
        walked, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max())
    )


@pytest.mark.parametrize("name", xgboost_models())
def test_xgboosts_scores_to_1e_5_and_a_constant(name: str) -> None:
    body = xgboost_models()[name]
    trees = trees_of(body, 6)
    rows = edges(trees, 6)
    expected = xgboost_of(body)(rows)
    difference = Walker(trees.forest, np.arange(6)).scores(rows) - expected
    assert np.ptp(difference) < 1e-5 * max(1.0, np.abs(expected).max())


@pytest.fixture(scope="module")
def deep() -> tuple[Any, Trees, Float32Array]:
    """A booster whose trees use a feature several times on one path, its trees, and rows."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(600, 5)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    target = np.nan_to_num(np.sin(3 * rows[:, 0]) + rows[:, 1] * rows[:, 2])
    params = {"num_leaves": 31, "min_data_in_leaf": 2, "verbose": -1, "num_threads": 1}
    booster = lgb.train(params, lgb.Dataset(rows, target), 20)
    return booster, trees_of(booster.model_to_string().encode(), 5), rows


@pytest.mark.parametrize("units", [[0, 1, 2, 3, 4], [0, 0, -1, 1, 1], [-1, -1, 0, -1, -1]])
def test_changes_are_the_scores_of_changed_rows(deep: Any, units: list[int]) -> None:
    booster, trees, rows = deep
    walker, unit = Walker(trees.forest, np.arange(5)), np.array(units)
    other = rows[np.random.default_rng(3).permutation(len(rows))]
    changed = walker.changes(rows, other, unit, max(units) + 1)
    for u in range(max(units) + 1):
        mixed = np.where(unit == u, other, rows)
        np.testing.assert_array_equal(changed[u], walker.scores(mixed))
        np.testing.assert_allclose(changed[u], booster.predict(mixed), rtol=0, atol=1e-9)


def test_documents_in_the_same_leaves_tie_whatever_the_order_of_trees(deep: Any) -> None:
    _, trees, rows = deep
    walker = Walker(trees.forest, np.arange(5))
    other = np.tile(rows[0], (len(rows), 1))
    changed = walker.changes(rows, other, np.zeros(5, np.int64), 1)[0]
    assert np.unique(changed).size == 1  # reached by another path from every row


@pytest.fixture(scope="module")
def started() -> tuple[Any, Trees, Float32Array]:
    """A booster with a linear start, what is read of it, and rows with values that are missing."""
    rows = edges(trees_of(next(iter(lightgbm_models().values())).encode(), 6), 6)
    rng = np.random.default_rng(5)
    rows = np.where(rng.random(rows.shape) < 0.05, np.nan, np.clip(rows, -1e3, 1e3)).astype(
        np.float32
    )
    labels = np.clip(
        np.round(2.0 + np.nan_to_num(rows[:, 0] - rows[:, 2]) + rng.normal(size=len(rows))), 0, 4
    )
    train = RankingDataset.from_arrays(rows, labels, group=np.full(len(rows) // 10, 10))
    model = boostrank.train(
        {"objective": "lambdarank", "num_leaves": 6, "verbosity": -1}, train, 8, start="linear"
    )
    return model, model.trees(), rows


def test_a_linear_start_is_walked(started: Any) -> None:
    model, trees, rows = started
    assert trees.count == 8
    walker = Walker(trees.forest, np.arange(6))
    expected = model.predict(rows)
    assert (
        np.ptp(expected - Walker(replace(trees.forest, start=None), np.arange(6)).scores(rows))
        > 0.01
    )
    np.testing.assert_allclose(
        walker.scores(rows), expected, rtol=0, atol=1e-9 * np.abs(expected).max()
    )
    unit, other = (
        np.array([0, 0, -1, 1, 2, -1]),
        rows[np.random.default_rng(3).permutation(len(rows))],
    )
    changed = walker.changes(rows, other, unit, 3)
    for u in range(3):
        np.testing.assert_array_equal(changed[u], walker.scores(np.where(unit == u, other, rows)))
    same = walker.changes(rows, np.tile(rows[0], (len(rows), 1)), np.zeros(6, np.int64), 1)
    assert np.unique(same).size == 1  # from every row to the same score, to the last bit


def test_gain_and_splits_are_the_engines(deep: Any) -> None:
    booster, trees, _ = deep
    np.testing.assert_allclose(trees.gain, booster.feature_importance("gain"), rtol=1e-4)
    np.testing.assert_array_equal(trees.splits, booster.feature_importance("split"))


def test_xgboosts_gain_is_its_total_gain() -> None:
    X, y = data()
    booster = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, y), 5)
    trees = trees_of(bytes(booster.save_raw("json")), 6)
    total_gain = booster.get_score(importance_type="total_gain")
    np.testing.assert_allclose(
        trees.gain, [total_gain.get(f"f{i}", 0.0) for i in range(6)], rtol=1e-5
    )


def shuffled(
    rows: Float32Array, ptr: list[int], unit: list[int], *, seed: float = 5.0, first: int = 0
) -> Float32Array:
    out, units = rows.copy(), max(unit) + 1
    order = np.empty(int(np.diff(ptr).max()), np.int64)
    permute_within(
        rows,
        np.array(ptr),
        first,
        np.array(unit),
        units,
        np.ones(units, np.int64),
        seed + np.arange(units),
        order,
        out,
    )
    return out


def test_values_stay_in_their_query_and_columns_of_a_unit_stay_together() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    out = shuffled(rows, [0, 1, 21, 60], [0, 1, 1, -1])
    np.testing.assert_array_equal(out[:, 3], rows[:, 3])
    for a, b in ((0, 1), (1, 21), (21, 60)):
        np.testing.assert_array_equal(np.sort(out[a:b], axis=0), np.sort(rows[a:b], axis=0))
        pairs = {tuple(row) for row in rows[a:b, 1:3].tolist()}
        assert {tuple(row) for row in out[a:b, 1:3].tolist()} == pairs
    assert not np.array_equal(np.argsort(out[21:, 0]), np.argsort(out[21:, 1]))


def test_a_query_is_shuffled_alike_wherever_the_block_begins() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    whole = shuffled(rows, [0, 20, 50], [0, 1])
    np.testing.assert_array_equal(whole[20:], shuffled(rows[20:].copy(), [0, 30], [0, 1], first=1))


def test_every_order_is_equally_likely() -> None:
    queries, counts = 6000, {}
    rows = np.tile(np.arange(3, dtype=np.float32), queries)[:, None].copy()
    ptr = QueryIndex.from_sizes(np.full(queries, 3)).ptr.tolist()
    for order in map(tuple, shuffled(rows, ptr, [0]).reshape(queries, 3).tolist()):
        counts[order] = counts.get(order, 0) + 1
    expected = queries / 6
    assert (
        sum((n - expected) ** 2 / expected for n in counts.values()) < 20.5
    )  # chi-square, 5 degrees: p = 0.001
    assert len(counts) == 6
