"""Leaves that every program adds up alike: sums in float32 are those in float64, in any order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines import get_backend
from boostrank.engines.lightgbm.model_text import with_even_leaves
from boostrank.engines.trees import ROUNDED, Leaves
from boostrank.model.ranking_model import RankingModel

LIGHTGBM, XGBOOST = get_backend("lightgbm"), get_backend("xgboost")
ENGINES = ("lightgbm", "xgboost")
SMALL = {"num_leaves": 8, "learning_rate": 0.2, "verbosity": 0, "num_threads": 1}


@pytest.fixture(scope="module")
def data() -> boostrank.RankingDataset:
    return make_ranking_data(60, seed=3).dataset


def leaves_of(model: RankingModel) -> Any:
    """All trees of a model, as its file has them."""
    format = model._engine.format
    return format.served(format.parse(model.to_bytes()))


def sums(
    model: RankingModel, rows: np.ndarray, dtype: type[np.floating[Any]], order: np.ndarray
) -> np.ndarray:
    """Leaves of rows without missing values, added up one after another in a number type, the trees
    in some order.
    """
    served = leaves_of(model)
    forest = served.forest
    total = np.full(len(rows), served.base, dtype)
    for tree in order:
        at = np.full(len(rows), forest.roots[tree])
        while (inner := at >= 0).any():
            node = at[inner]
            left = rows[inner, forest.feature[node]] <= forest.threshold[node]
            at[inner] = np.where(left, forest.left[node], forest.right[node])
        total = (total + forest.value[~at].astype(dtype)).astype(dtype)
    return total


@pytest.mark.parametrize("start", ["auto", "none"])
@pytest.mark.parametrize("engine", ENGINES)
def test_sums_are_the_same_in_any_order_and_number_type(engine: str, start: str, data: Any) -> None:
    model = boostrank.train(SMALL, data, 40, backend=engine, start=start)
    rows = np.nan_to_num(data.features)
    expected = model.predict(rows)
    order = np.arange(leaves_of(model).forest.roots.size)
    assert order.size >= 40
    for seed in range(3):
        for dtype in (np.float32, np.float64):
            np.testing.assert_array_equal(sums(model, rows, dtype, order), expected)
        order = np.random.default_rng(seed).permutation(order)


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_move_less_than_is_said(
    engine: str, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    even = boostrank.train(SMALL, data, 40, backend=engine).predict(data)
    monkeypatch.setattr(Leaves, "in_units", lambda _: None)
    grown = boostrank.train(SMALL, data, 40, backend=engine).predict(data)
    assert 0.0 < np.abs(even - grown).max() < 0.1 * ROUNDED * grown.std()


@pytest.mark.parametrize("engine", ENGINES)
def test_averages_folds_and_continued_models_have_even_leaves(
    engine: str, data: Any, tmp_path: Path
) -> None:
    first = boostrank.train(SMALL | {"seed": 0}, data, 3, backend=engine)
    second = boostrank.train(SMALL | {"seed": 1}, data, 4, backend=engine)
    first.save(tmp_path / "model")
    models = [
        boostrank.average([first, second, second]),
        boostrank.train(SMALL, data, 3, folds=3, backend=engine),
        boostrank.train(SMALL, data, 3, init_model=tmp_path / "model", backend=engine),
    ]
    rows = np.nan_to_num(data.features)
    for model in models:
        order = np.random.default_rng(0).permutation(leaves_of(model).forest.roots.size)
        np.testing.assert_array_equal(sums(model, rows, np.float32, order), model.predict(rows))


def test_a_base_score_is_in_units_too(data: Any) -> None:
    matrix = xgb.DMatrix(data.features, data.labels)
    booster = xgb.train({"max_depth": 3, "base_score": 0.1234567}, matrix, 5)
    model = RankingModel(XGBOOST.booster(booster).finished({}))
    base = json.loads(model.to_bytes())["learner"]["learner_model_param"]["base_score"]
    assert (
        np.float32(base.strip("[]")) == leaves_of(model).base == pytest.approx(0.1234567, abs=1e-6)
    )
    assert leaves_of(model).base != np.float32(0.1234567)
    np.testing.assert_allclose(
        model.predict(data.features), booster.inplace_predict(data.features), atol=1e-5
    )
    rows = np.nan_to_num(data.features)
    np.testing.assert_array_equal(sums(model, rows, np.float64, np.arange(5)), model.predict(rows))


def grown(params: dict[str, Any], data: Any) -> Any:
    """A model of an engine's own making."""
    if params.pop("engine") == "lightgbm":
        params |= {"verbosity": -1, "num_leaves": 5}
        rows = lgb.Dataset(data.features, data.labels, params={"verbosity": -1})
        return LIGHTGBM.booster(lgb.train(params, rows, 4))
    return XGBOOST.booster(xgb.train(params, xgb.DMatrix(data.features, data.labels), 4))


@pytest.mark.parametrize(
    "params",
    [
        {"engine": "lightgbm", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"engine": "xgboost", "objective": "count:poisson", "base_score": 0.3},
        {"engine": "xgboost", "booster": "gblinear"},
    ],
    ids=["rf", "poisson", "gblinear"],
)
def test_models_that_do_not_add_up_leaves_are_not_rounded(
    params: dict[str, Any], data: Any
) -> None:
    booster = grown(dict(params), data)
    body = booster.to_bytes()
    assert booster.finished({}).to_bytes() == (
        with_even_leaves(body) if body.startswith(b"tree") else body
    )
    booster = grown({"engine": params["engine"]}, data)
    body = booster.to_bytes()
    assert booster.finished({}).to_bytes() != body


def test_the_unit_is_the_least_that_leaves_room_for_all_sums() -> None:
    rng = np.random.default_rng(0)
    tree, value = np.repeat(np.arange(100), 8), rng.normal(size=800)
    even = Leaves(tree, value, np.full(800, 10.0), base=0.3).in_units()
    assert even is not None
    largest = np.abs(even.value).reshape(100, 8).max(axis=1).sum() + abs(even.base)
    unit = 2.0 ** (np.ceil(np.log2(largest)) - 24)
    np.testing.assert_array_equal(even.value / unit, np.round(value / unit))
    assert even.base / unit == round(0.3 / unit)
    assert largest <= 2.0**24 * unit


def test_just_below_a_power_of_2_rounding_up_has_room() -> None:
    tree = np.repeat(np.arange(1000), 2)
    value = np.tile([-1.0, 1.0], 1000) * (1024.0 - 2.0**-16) / 1000.0
    even = Leaves(tree, value, np.ones(2000)).in_units()
    assert even is not None
    sums = np.cumsum(even.value[1::2].astype(np.float32), dtype=np.float32)
    np.testing.assert_array_equal(sums, np.cumsum(even.value[1::2]))


@pytest.mark.parametrize(
    "value", [[1e9, 1e9, 0.1, -0.1], [0.0, 0.0, 0.0, 0.0], [np.inf, 1.0, 2.0, 3.0], []]
)
def test_leaves_that_rounding_would_change_too_much_stay(value: list[float]) -> None:
    counts = np.array([1000.0, 1000.0, 10.0, 10.0])[: len(value)]
    assert (
        Leaves(np.array([0, 0, 1, 1][: len(value)], np.int64), np.array(value), counts).in_units()
        is None
    )
