"""Curves against a slow twin and known functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.section import Context, page
from boostrank.reporting.sections.importance import importance
from boostrank.reporting.sections.shapes import SPEC, AleCurve, Shapes, accumulated_local_effects
from boostrank.reporting.sections.shapes import shapes as shapes_of
from tests.reporting.studies import study, words_of

QUERIES, SIZE = 60, 10


@cache
def world() -> RankingDataset:
    """A product, a sum, values that are missing, whole numbers, a feature of the query, one that is
    constant.
    """
    rng = np.random.default_rng(5)
    n = QUERIES * SIZE
    X = rng.normal(size=(n, 7))
    X[:, 2] = rng.integers(0, 5, n)
    X[:, 3][rng.random(n) < 0.3] = np.nan
    X[:, 5] = np.repeat(rng.normal(size=QUERIES), SIZE)
    X[:, 6] = 4.0
    seen = np.nan_to_num(X, nan=-2.0)
    y = (
        1.5 * seen[:, 0] * seen[:, 1]
        + 0.5 * seen[:, 2]
        + seen[:, 3]
        + np.sin(2 * seen[:, 4])
        + seen[:, 5]
    )
    return RankingDataset.from_arrays(X, y, group=np.full(QUERIES, SIZE))


def lightgbm_model(data: RankingDataset, rounds: int = 60, **params: Any) -> RankingModel:
    defaults = {
        "objective": "regression",
        "num_leaves": 8,
        "min_data_in_leaf": 5,
        "verbose": -1,
        "num_threads": 1,
    }
    train = lgb.Dataset(
        data.features, data.labels, group=data.queries.sizes, feature_name=list(data.feature_names)
    )
    return RankingModel(lgb.train({**defaults, **params}, train, rounds))


def xgboost_model(data: RankingDataset) -> RankingModel:
    params = {"objective": "reg:squarederror", "max_depth": 3, "nthread": 1}
    train = xgb.DMatrix(data.features, data.labels, feature_names=list(data.feature_names))
    return RankingModel(xgb.train(params, train, 20))


def shapes(
    model: RankingModel,
    data: RankingDataset,
    importance: Any = None,
    seed: int = 0,
    threads: int = 1,
    **options: Any,
) -> Shapes:
    context = study(data, model=model, seed=seed, threads=threads)
    context.results["importance"] = importance
    return shapes_of(context, **options)


def curve_of(feature_shapes: Shapes, feature: str) -> AleCurve:
    (curve,) = [curve for curve in feature_shapes.curves if curve.feature == feature]
    return curve


MODELS: dict[str, Callable[[], RankingModel]] = {
    "LightGBM": lambda: lightgbm_model(world()),
    "LightGBM, stumps": lambda: lightgbm_model(world(), num_leaves=2, learning_rate=0.3),
    "XGBoost": lambda: xgboost_model(world()),
}


@cache
def model_of(name: str) -> RankingModel:
    """Trained once."""
    return MODELS[name]()


@cache
def told_of(name: str) -> Shapes:
    """Found once."""
    return shapes(model_of(name), world(), bins=6, top=5, threads=2)


def slow_effects(
    predict: Callable[[Any], Any], X: Any, column: int, edges: Float64Array
) -> tuple[Any, Any]:
    """Apley and Zhu (2020), equations 15 and 16, interval by interval and document by document."""
    means, counts = [], []
    for k in range(1, len(edges)):
        inside = [
            x
            for x in X
            if edges[k - 1] < x[column] <= edges[k] or (k == 1 and x[column] == edges[0])
        ]
        low, high = np.array(inside), np.array(inside)
        low[:, column], high[:, column] = edges[k - 1], edges[k]
        changes = (predict(high) - predict(low)).tolist()
        means.append(sum(changes) / len(changes))
        counts.append(len(changes))
    curve = [0.0]
    for mean in means:
        curve.append(curve[-1] + mean)
    level = sum(n * (curve[k] + curve[k + 1]) / 2 for k, n in enumerate(counts)) / sum(counts)
    return np.array(curve) - level, np.array(counts)


@pytest.mark.parametrize("name", ["LightGBM", "XGBoost"])
def test_curves_are_those_of_the_slow_twin(name: str) -> None:
    model, data = model_of(name), world()
    columns = {name: i for i, name in enumerate(data.feature_names)}
    for curve in told_of(name).curves:
        if curve.feature in ("f2", "f3", "f4", "f5"):
            X = data.features[:, columns[curve.feature]]
            assert set(curve.edges.tolist()) <= set(X.tolist())
            assert (curve.edges[0], curve.edges[-1]) == (np.nanmin(X), np.nanmax(X))
            assert curve.edges.size <= 8
            slow, counts = slow_effects(
                model.predict, data.features, columns[curve.feature], curve.edges
            )
            tolerance = 1e-10 if name == "LightGBM" else 1e-4
            np.testing.assert_allclose(curve.effect, slow, atol=tolerance)
            np.testing.assert_array_equal(curve.counts, counts)
            assert curve.counts.sum() == np.isfinite(X).sum()


def test_of_a_sum_the_curves_are_the_parts() -> None:
    model, data = model_of("LightGBM, stumps"), world()
    for curve in told_of("LightGBM, stumps").curves:
        j = data.feature_names.index(curve.feature)
        rows = np.tile(data.features[11], (curve.edges.size, 1))
        rows[:, j] = curve.edges
        np.testing.assert_allclose(np.diff(curve.effect), np.diff(model.predict(rows)), atol=1e-10)


class Formula:
    """A walker of a known function of the columns."""

    def __init__(self, function: Callable[[Float64Array], Float64Array]) -> None:
        self._function = function

    def scores(self, rows: Float32Array) -> Float64Array:
        return self._function(rows.astype(np.float64).T)

    def changes(
        self, rows: Float32Array, other: Float32Array, unit: Int64Array, units: int
    ) -> Float64Array:
        return np.array([self.scores(np.where(unit == u, other, rows)) for u in range(units)])


def rows_of(X: Any, sizes: Any) -> DenseRows:
    data = RankingDataset.from_arrays(X, np.zeros(len(X)), group=sizes)
    return DenseRows(data, np.arange(data.n_features))


def test_quadratic_and_dependent_features_have_the_known_curve() -> None:
    # ALE of x0 in x0^2 + x1 is x0^2 less its mean, also where x1 nearly repeats x0.
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 4000)
    rows = rows_of(np.column_stack([x, x + 0.01 * rng.normal(size=x.size)]), np.full(400, 10))
    curve, other = accumulated_local_effects(
        Context(None, rows.data, "ndcg", threads=1),
        Formula(lambda z: z[0] ** 2 + z[1]),
        rows,
        [0, 1],
        bins=40,
    )
    np.testing.assert_allclose(curve.effect, curve.edges**2 - 1 / 3, atol=0.02)
    np.testing.assert_allclose(other.effect, other.edges, atol=0.02)
    assert curve.swing == pytest.approx(1.0, abs=0.02)


def test_samples_are_of_whole_queries_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boostrank.reporting.sections.shapes._MOST_DOCUMENTS", 200)
    model, data = model_of("LightGBM"), world()
    feature_shapes = shapes(model, data, threads=1)
    assert (feature_shapes.documents, feature_shapes.queries) == (200, 20)
    assert feature_shapes.all_documents == data.n_documents
    again = shapes(model, data, threads=2)
    assert again.to_dict() == feature_shapes.to_dict()
    other = shapes(model, data, seed=1)
    assert not np.array_equal(other.curves[0].effect, feature_shapes.curves[0].effect)


def test_the_features_told_most_of_are_those_of_the_importance() -> None:
    model = model_of("LightGBM")
    data = world()
    graded = RankingDataset(
        data.features, np.clip(np.round(data.labels), 0, 4), data.queries, data.feature_names
    )
    worth = importance(model, graded, shap_documents=0, repeats=1)
    feature_shapes = shapes(model, data, importance=worth, top=3)
    most_important = [worth.feature_names[i] for i in worth.order[:3]]
    assert [c.feature for c in feature_shapes.curves] == most_important


def test_a_model_of_constants_has_nothing_to_show() -> None:
    feature_shapes = shapes(lightgbm_model(world(), 2, min_gain_to_split=1e9), world())
    assert feature_shapes.curves == ()
    assert feature_shapes.to_frame().empty


def test_shapes_come_as_data_frames_and_json() -> None:
    feature_shapes = told_of("LightGBM")
    curves = feature_shapes.to_frame("curves")
    curve = feature_shapes.curves[0]
    mine = curves[curves["feature"] == curve.feature]
    np.testing.assert_array_equal(mine["effect"], curve.effect)
    assert mine["documents"].sum() == curve.counts.sum()
    assert list(dict.fromkeys(curves["feature"])) == [c.feature for c in feature_shapes.curves]
    plain = json.loads(json.dumps(feature_shapes.to_dict(), allow_nan=False))
    assert len(plain["curves"]) == len(curves)
    with pytest.raises(ParameterError, match="Did you mean 'curves'"):
        feature_shapes.to_frame("curve")


def test_the_section_shows_the_features_and_escapes_their_names() -> None:
    data = world()
    names = ["<b>x</b>", *data.feature_names[1:]]
    model = model_of("LightGBM")
    feature_shapes = shapes(model, data)
    new_names = dict(zip(data.feature_names, names, strict=True))
    renamed = replace(
        feature_shapes,
        curves=tuple(replace(c, feature=new_names[c.feature]) for c in feature_shapes.curves),
    )
    # The page has each name as text, and the charts have every point.
    section = SPEC.on_page(renamed)
    html = page("Shapes", [section])
    assert "<b>x" not in html
    assert all(name in html for name in data.feature_names[1:6])
    charts: list[Any] = [chart for chart in section.drawn if chart.name.startswith("shape-")]
    assert [chart.title for chart in charts] == [curve.feature for curve in renamed.curves]
    for chart, curve in zip(charts, renamed.curves, strict=True):
        np.testing.assert_array_equal(chart.frame["value"], curve.edges)
        np.testing.assert_array_equal(chart.frame["effect"], curve.effect)
    json.dumps([chart.spec() for chart in charts], allow_nan=False)


def test_large_values_that_differ_little_stay_apart_on_a_chart() -> None:
    edges = np.float64(np.float32(1.7e9) + 128.0 * np.arange(9, dtype=np.float32))
    assert np.unique(np.float32(edges)).size == 9
    curve = AleCurve("time", edges, effect=np.arange(9.0), counts=np.ones(8, np.int64))
    section = SPEC.on_page(Shapes((curve,), documents=8, all_documents=8, queries=1))
    (rows,) = section.drawn[0].spec()["datasets"].values()
    assert len({row["value"] for row in rows}) == 9


def test_a_feature_without_any_value_has_no_curve() -> None:
    X = world().features.copy()
    X[:, 3] = np.nan
    feature_shapes = shapes(
        model_of("LightGBM"),
        RankingDataset.from_arrays(X, world().labels, group=world().queries.sizes),
    )
    assert {curve.feature for curve in feature_shapes.curves} == {"f1", "f2", "f3", "f5", "f6"}
    assert "nan" not in words_of(SPEC.on_page(feature_shapes))


def test_a_section_without_trees_says_so() -> None:
    feature_shapes = shapes(lightgbm_model(world(), 2, min_gain_to_split=1e9), world())
    assert words_of(SPEC.on_page(feature_shapes)) == (
        "The trees use no feature with several values, other than categories."
    )


def test_categories_have_no_curve() -> None:
    # Relevance follows the colour.
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 400)
    labels = np.clip(np.round(codes + 0.3 * rng.normal(size=400)), 0, 3).astype(int)
    frame = pd.DataFrame(
        {
            "label": labels,
            "qid": np.arange(400) // 10,
            "colour": pd.Categorical.from_codes(codes, [*"abcd"]),
        }
    )
    frame["x"] = rng.normal(size=400)
    params = {
        "num_threads": 1,
        "verbosity": -1,
        "objective": "lambdarank",
        "min_data_per_group": 5,
        "cat_smooth": 1,
    }
    data = RankingDataset.from_frame(frame)
    feature_shapes = shapes(boostrank.train(params, data, 4), data, threads=1)
    assert [curve.feature for curve in feature_shapes.curves] == ["x"]


@pytest.mark.parametrize("fillers", [[0.0], [-1.0], [-1.0, 0.0]])
def test_spikes_and_a_long_tail_show_the_step_between_them(fillers: list[float]) -> None:
    rng = np.random.default_rng(0)
    tail = np.unique(np.round(np.geomspace(1, 2651, 75)))
    clicks = np.where(rng.random(4000) < 0.97, rng.choice(fillers, 4000), rng.choice(tail, 4000))
    data = RankingDataset.from_arrays(
        np.column_stack([clicks, rng.normal(size=4000)]),
        np.where(clicks >= 20, 3, 0),
        group=np.full(200, 20),
    )
    feature_shapes = shapes(lightgbm_model(data, min_data_in_leaf=1), data, top=2)
    curve = curve_of(feature_shapes, "f1")
    below, above = curve.edges[1:] < 17, curve.edges[1:] > 23
    assert below.sum() >= 5
    assert above.sum() >= 10
    step = curve.swing
    assert np.ptp(curve.effect[1:][below]) < 0.05 * step
    assert np.ptp(curve.effect[1:][above]) < 0.05 * step
