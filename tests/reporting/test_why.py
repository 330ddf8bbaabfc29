"""Why one document stands above another: parts that add up."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from scipy import sparse

import boostrank
from boostrank.cli.explain import print_why
from boostrank.core.errors import ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import why
from tests.reporting.conftest import make_world


def lightgbm_model(data: RankingDataset, rounds: int = 12, **params: Any) -> RankingModel:
    defaults = {
        "objective": "regression",
        "num_leaves": 12,
        "min_data_in_leaf": 3,
        "verbose": -1,
        "num_threads": 1,
    }
    train = lgb.Dataset(
        data.features, data.labels, group=data.queries.sizes, feature_name=list(data.feature_names)
    )
    return RankingModel(lgb.train({**defaults, **params}, train, rounds))


def xgboost_model(data: RankingDataset, rounds: int = 12, **params: Any) -> RankingModel:
    defaults = {"objective": "reg:squarederror", "max_depth": 4, "nthread": 1, "eta": 0.3}
    train = xgb.DMatrix(data.features, data.labels, feature_names=list(data.feature_names))
    return RankingModel(xgb.train({**defaults, **params}, train, rounds))


MODELS: dict[str, Callable[[], RankingModel]] = {
    "LightGBM": lambda: lightgbm_model(make_world()),
    "LightGBM, zero is missing": lambda: lightgbm_model(make_world(), zero_as_missing=True),
    "LightGBM, nothing is missing": lambda: lightgbm_model(make_world(), use_missing=False),
    "XGBoost": lambda: xgboost_model(make_world()),
    "XGBoost, exact": lambda: xgboost_model(make_world(), tree_method="exact"),
    "LightGBM, start": lambda: train_with_start("lightgbm", min_data_in_leaf=3, verbosity=-1),
    "XGBoost, start": lambda: train_with_start("xgboost"),
}


def train_with_start(backend: str, **params: Any) -> RankingModel:
    defaults = {"objective": "lambdarank", "num_leaves": 6, "num_threads": 1, **params}
    return boostrank.train(defaults, make_world(), 5, backend=backend, start="linear")


@cache
def model_of(name: str) -> RankingModel:
    """Trained once."""
    return MODELS[name]()


def pairs() -> Iterator[tuple[int, str, str]]:
    yield from (
        (q, a, b) for q, (a, b) in product((0, 21), (("@1", "@2"), ("@6", "@3"), ("@4", "@5")))
    )


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_the_difference_of_the_scores(name: str) -> None:
    model, data = model_of(name), make_world()
    scores = model.predict(data)
    for qid, a, b in pairs():
        comparison = why(model, data, qid, a, b, threads=1)
        assert (comparison.a.score, comparison.b.score) == (
            scores[comparison.a.row],
            scores[comparison.b.row],
        )
        assert comparison.difference == comparison.a.score - comparison.b.score
        assert (comparison.difference > 0) == (comparison.a.rank < comparison.b.rank)
        exact = 1e-10 if model.backend == "lightgbm" else 1e-5
        assert comparison.parts.sum() == pytest.approx(comparison.difference, abs=exact)
        whole = model.contributions(data.features[[comparison.a.row, comparison.b.row]])
        places = [data.feature_names.index(f) for f in comparison.features]
        np.testing.assert_allclose(comparison.contributions, whole[:, places], atol=1e-12)
        np.testing.assert_array_equal(comparison.values[1], data.features[comparison.b.row, places])
        largest = comparison.table().rows()[0]
        assert abs(largest["part"]) == np.abs(comparison.parts).max()


def test_the_other_way_round_is_the_same_with_the_other_sign() -> None:
    model, data = model_of("LightGBM"), make_world()
    forward, other = why(model, data, 5, "@2", "@4"), why(model, data, 5, "@4", "@2")
    np.testing.assert_array_equal(forward.parts, -other.parts)
    assert (forward.side, other.side) == ("above", "below")


def steps() -> tuple[RankingModel, RankingDataset]:
    """A score that is 0 up to x = 2, and 1 beyond; a second feature says nothing."""
    x = np.tile(np.array([1.0, 2.0, 2.5, 4.0, 9.0], np.float32), 8)
    X = np.column_stack([x, np.arange(40) % 3]).astype(np.float32)
    data = RankingDataset.from_arrays(X, (x > 2.2).astype(float), group=np.full(8, 5))
    params = {"learning_rate": 1.0, "num_leaves": 2, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    return lightgbm_model(data, 1, boost_from_average=False, **params), data


def test_equal_scores_are_said_to_be_decided_by_the_order_of_the_rows() -> None:
    model, data = steps()
    comparison = why(model, data, 0, "row:3", "row:5")
    assert comparison.difference == 0.0
    assert (comparison.a.rank, comparison.b.rank) == (1, 3)
    assert "row order decides" in " ".join(comparison.notes)


def test_codes_of_a_table_are_shown_as_their_categories(
    recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    pandas = pytest.importorskip("pandas", reason="tables of pandas")
    rng = np.random.default_rng(1)
    colours = rng.choice(["<red>", "green", "blue"], 240)
    table = pandas.DataFrame({"colour": pandas.Categorical(colours), "x": rng.normal(size=240)})
    labels = (colours == "<red>") * 2.0
    data = RankingDataset.from_arrays(table, labels, group=np.full(30, 8))
    params = {"objective": "regression", "min_data_in_leaf": 3, "num_threads": 1, "verbosity": -1}
    model = boostrank.train(params, data, 5, start="none")
    recwarn.clear()
    comparison = why(model, data, 3, "@2", "@6", threads=1)
    assert not list(recwarn)
    first, second = colours[comparison.a.row], colours[comparison.b.row]
    codes = comparison.values[:, comparison.features.index("colour")]
    assert [comparison.value_text("colour", code) for code in codes.tolist()] == [first, second]
    assert comparison.value_text("colour", 7.0) == "another category"
    assert comparison.value_text("colour", math.nan) == "missing"
    assert comparison.value_text("x", 0.5) == "0.5"
    assert comparison.to_dict()["categories"]["colour"]["values"] == ["<red>", "blue", "green"]
    print_why(comparison, 5)
    assert re.search(f"^ *colour +{first} +{second} ", capsys.readouterr().out, re.MULTILINE)


def test_sparse_rows_are_as_the_model_reads_them() -> None:
    data = make_world()
    thin = sparse.csr_matrix(np.nan_to_num(data.features))
    absent = replace(data, features=thin)
    dense = replace(data, features=thin.toarray())
    model = lightgbm_model(dense)
    forward, other = why(model, absent, 2, "@1", "@5"), why(model, dense, 2, "@1", "@5")
    np.testing.assert_array_equal(forward.parts, other.parts)
    theirs = model_of("XGBoost")
    assert theirs.absent_is_missing
    comparison = why(theirs, absent, 2, "@1", "@5")
    assert np.isnan(comparison.values[0]).any()
    assert comparison.a.score == theirs.predict(absent)[comparison.a.row]


def test_a_comparison_of_documents_comes_as_data_frame_and_json() -> None:
    comparison = why(model_of("LightGBM"), make_world(), 7, 1, 3)
    frame = comparison.to_frame()
    assert frame["part"].sum() == pytest.approx(comparison.difference)
    plain = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert plain["a"]["rank"] == 1
    assert [f["feature"] for f in plain["features"]] == frame["feature"].tolist()
    with pytest.raises(ParameterError, match=r"other.*features, pair"):
        comparison.to_frame("other")
    assert callable(boostrank.reporting.why)
