"""Why one document stands above another: parts that add up, and changes that brute force finds too."""

from __future__ import annotations

import html
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
from boostrank.core.types import Float32Array
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import Why, why
from boostrank.reporting.explanation import Counterfactual, FeatureValues

QUERIES, SIZE = 40, 8


@cache
def world() -> RankingDataset:
    """Zeros and values around zero, missing values, whole numbers, and a feature of the query."""
    rng = np.random.default_rng(3)
    n = QUERIES * SIZE
    X = rng.normal(size=(n, 6))
    X[:, 1] = np.where(rng.random(n) < 0.4, 0.0, X[:, 1])
    X[:, 2] = rng.integers(0, 6, n)
    X[:, 5] = np.repeat(rng.normal(size=QUERIES), SIZE)
    X[:, :3][rng.random((n, 3)) < 0.15] = np.nan
    seen = np.nan_to_num(X, nan=-0.7)
    score = seen[:, 0] + np.abs(seen[:, 1]) + 0.4 * seen[:, 2] * seen[:, 3] + seen[:, 5] * seen[:, 4]
    labels = np.clip(np.round(1.5 + 0.8 * score + 0.3 * rng.normal(size=n)), 0, 4)
    return RankingDataset.from_arrays(X, labels, group=np.full(QUERIES, SIZE))


def lightgbm_model(data: RankingDataset, rounds: int = 12, **params: Any) -> RankingModel:
    defaults = {"objective": "regression", "num_leaves": 12, "min_data_in_leaf": 3, "verbose": -1, "num_threads": 1}
    train = lgb.Dataset(data.features, data.labels, group=data.queries.sizes, feature_name=list(data.feature_names))
    return RankingModel(lgb.train({**defaults, **params}, train, rounds))


def xgboost_model(data: RankingDataset, rounds: int = 12, **params: Any) -> RankingModel:
    defaults = {"objective": "reg:squarederror", "max_depth": 4, "nthread": 1, "eta": 0.3}
    train = xgb.DMatrix(data.features, data.labels, feature_names=list(data.feature_names))
    return RankingModel(xgb.train({**defaults, **params}, train, rounds))


MODELS: dict[str, Callable[[], RankingModel]] = {
    "LightGBM": lambda: lightgbm_model(world()),
    "LightGBM, zero is missing": lambda: lightgbm_model(world(), zero_as_missing=True),
    "LightGBM, nothing is missing": lambda: lightgbm_model(world(), use_missing=False),
    "XGBoost": lambda: xgboost_model(world()),
    "XGBoost, exact": lambda: xgboost_model(world(), tree_method="exact"),
    "LightGBM, start": lambda: started("lightgbm", min_data_in_leaf=3, verbosity=-1),
    "XGBoost, start": lambda: started("xgboost"),
}


def started(backend: str, **params: Any) -> RankingModel:
    train_params = {"objective": "lambdarank", "num_leaves": 6, "num_threads": 1, **params}
    return boostrank.train(train_params, world(), 5, backend=backend, start="linear")


@cache
def model_of(name: str) -> RankingModel:
    """Trained once."""
    return MODELS[name]()


def thresholds(model: RankingModel) -> dict[str, list[float]]:
    """What the engine itself says its trees compare each feature with."""
    if model.backend == "xgboost":
        table = model.booster.trees_to_dataframe()
        table = table[table["Feature"] != "Leaf"]
        return {str(name): part["Split"].tolist() for name, part in table.groupby("Feature")}
    by_feature: dict[str, list[float]] = {}

    def visit(node: dict[str, Any]) -> None:
        if "split_feature" in node:
            by_feature.setdefault(model.feature_names[node["split_feature"]], []).append(node["threshold"])
            visit(node["left_child"])
            visit(node["right_child"])

    for tree in model.booster.dump_model()["tree_info"]:
        visit(tree["tree_structure"])
    return by_feature


def trials(model: RankingModel, feature: str, data: RankingDataset) -> Float32Array:
    """The numbers at which anything can change: thresholds, zero as the engines know it, and their neighbours."""
    exact = np.array([*thresholds(model).get(feature, []), 0.0, 1e-35, -1e-35])
    numbers = exact[np.abs(exact) < 1e30].astype(np.float32)  # LightGBM writes 1e308 for "missing alone goes right"
    up = np.nextafter(numbers, np.float32(np.inf))
    down = np.nextafter(numbers, np.float32(-np.inf))
    values = data.features[:, data.feature_names.index(feature)]
    return np.unique(np.concatenate([numbers, up, down, values[~np.isnan(values)]]))


def place(value: float, values: Any) -> float:
    """Share of the documents below a value, those that have it count half; slowly."""
    present = [v for v in values.tolist() if not math.isnan(v)]
    below = sum(v < value for v in present)
    equal = sum(v == value for v in present)
    return (below + 0.5 * equal) / len(present)


def by_force(
    model: RankingModel, data: RankingDataset, explanation: Why, letter: str, feature: str
) -> dict[float, float]:
    """Value -> score, of every value of one feature that swaps the documents; NaN among them as None would be."""
    document, other = (explanation.a, explanation.b) if letter == "a" else (explanation.b, explanation.a)
    row = data.features[document.row].copy()
    values = np.append(trials(model, feature, data), np.float32(np.nan))
    changed = np.tile(row, (values.size, 1))
    changed[:, data.feature_names.index(feature)] = values
    scores = model.predict(changed)
    swaps = scores < other.score if document.rank < other.rank else scores > other.score
    return dict(zip(values[swaps].astype(float).tolist(), scores[swaps].tolist(), strict=True))


def pairs() -> Iterator[tuple[int, str, str]]:
    yield from ((q, a, b) for q, (a, b) in product((0, 21), (("@1", "@2"), ("@6", "@3"), ("@4", "@5"))))


@pytest.mark.parametrize("name", MODELS)
def test_changes_are_those_of_brute_force(name: str) -> None:
    model, data = model_of(name), world()
    n_changes = 0
    for qid, a, b in pairs():
        explanation = why(model, data, qid, a, b, threads=1)
        assert explanation.query_level == ("f6",)
        have = {(change.document, change.feature): change for change in explanation.changes}
        for letter, feature in product("ab", set(explanation.features) - {"f6"}):
            change, swaps = have.pop((letter, feature), None), by_force(model, data, explanation, letter, feature)
            assert (change is None) == (not swaps), (name, qid, a, b, letter, feature)
            if change is not None:
                n_changes += 1
                check_change(change, swaps, data)
        assert not have
    assert n_changes > 10


def check_change(change: Counterfactual, swaps: dict[float, float], data: RankingDataset) -> None:
    """It is the smallest one of all that swap."""
    column = data.features[:, data.feature_names.index(change.feature)]
    numbers = [v for v in swaps if not math.isnan(v)]
    if not numbers:
        assert math.isnan(change.value)
        assert change.step == 1.0
        assert change.seen == bool(np.isnan(column).any())
        return
    seen = [v for v in numbers if v in column]
    assert change.seen == bool(seen)
    assert change.value in (seen or numbers)
    assert change.score == swaps[change.value]
    if math.isnan(change.now):
        assert change.step == 1.0
        return
    steps = [abs(place(v, column) - place(change.now, column)) for v in seen or [change.value]]
    assert change.step == pytest.approx(min(steps), abs=1e-12)
    assert seen or abs(change.value - change.now) == min(abs(v - change.now) for v in numbers)


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_the_difference_of_the_scores(name: str) -> None:
    model, data = model_of(name), world()
    scores = model.predict(data)
    for qid, a, b in pairs():
        explanation = why(model, data, qid, a, b, threads=1)
        assert (explanation.a.score, explanation.b.score) == (scores[explanation.a.row], scores[explanation.b.row])
        assert explanation.difference == explanation.a.score - explanation.b.score
        assert (explanation.difference > 0) == (explanation.a.rank < explanation.b.rank)
        exact = 1e-10 if model.backend == "lightgbm" else 1e-5
        assert explanation.parts.sum() == pytest.approx(explanation.difference, abs=exact)
        whole = model.contributions(data.features[[explanation.a.row, explanation.b.row]])
        places = [data.feature_names.index(f) for f in explanation.features]
        np.testing.assert_allclose(explanation.contributions, whole[:, places], atol=1e-12)
        np.testing.assert_array_equal(explanation.values[1], data.features[explanation.b.row, places])
        largest = explanation.table().rows()[0]
        assert abs(largest["part"]) == np.abs(explanation.parts).max()


def test_the_other_way_round_is_the_same_with_the_other_sign() -> None:
    model, data = model_of("LightGBM"), world()
    forward, backward = why(model, data, 5, "@2", "@4"), why(model, data, 5, "@4", "@2")
    np.testing.assert_array_equal(forward.parts, -backward.parts)
    swapped = {"a": "b", "b": "a"}
    mirrored = [replace(c, document=swapped[c.document]) for c in backward.changes]
    assert sorted(map(repr, forward.changes)) == sorted(map(repr, mirrored))


def steps() -> tuple[RankingModel, RankingDataset]:
    """A score that is 0 up to x = 2, and 1 beyond; a second feature says nothing."""
    x = np.tile(np.array([1.0, 2.0, 2.5, 4.0, 9.0], np.float32), 8)
    X = np.column_stack([x, np.arange(40) % 3]).astype(np.float32)
    data = RankingDataset.from_arrays(X, (x > 2.2).astype(float), group=np.full(8, 5))
    params = {"learning_rate": 1.0, "num_leaves": 2, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    return lightgbm_model(data, 1, boost_from_average=False, **params), data


def test_the_smallest_change_of_a_step_is_the_step() -> None:
    model, data = steps()
    # Ranks 1 to 3 are 2.5, 4 and 9, in the order of the rows; 1 and 2 follow.
    explanation = why(model, data, 0, "@2", "@4")
    assert [explanation.a.row, explanation.b.row] == [3, 0]
    # Swapped means strictly: nothing is above 1 or below 0, so that nothing lifts or drops a document past the other.
    assert explanation.smallest is None
    assert explanation.changes == ()
    assert explanation.tried > 0


def test_a_step_of_three_levels_is_crossed_at_its_edges() -> None:
    x = np.tile(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32), 10)
    data = RankingDataset.from_arrays(x[:, None], np.floor(x / 2), group=np.full(10, 6))
    params = {"learning_rate": 1.0, "num_leaves": 3, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    explanation = why(lightgbm_model(data, 1, boost_from_average=False, **params), data, 0, "row:3", "row:1")
    assert (explanation.a.score, explanation.b.score) == (1.0, 0.0)
    by_document = {change.document: change for change in explanation.changes}
    # Up: from 0 beyond 3.5, to 4; down: nothing is below 0.
    assert set(by_document) == {"b"}
    change = by_document["b"]
    assert (change.now, change.value, change.seen, change.score) == (0.0, 4.0, True, 2.0)
    assert change.step == pytest.approx(4 / 6)  # half of those at 0 and at 4, and all at 1, 2, 3


def test_values_that_no_document_has_are_said_to_be_such() -> None:
    x = np.tile(np.array([0.0, 1.0, 2.0], np.float32), 10)
    data = RankingDataset.from_arrays(x[:, None], x, group=np.full(10, 3))
    params = {"learning_rate": 1.0, "num_leaves": 3, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    model = lightgbm_model(data, 1, boost_from_average=False, **params)
    two_rows = RankingDataset.from_arrays(np.array([[0.0], [1.0]]), [0, 1], group=[2])
    explanation = why(model, two_rows, 0, "@1", "@2")
    (change,) = explanation.changes
    assert (change.document, change.seen) == ("b", False)
    assert 1.5 < change.value < 1.51
    assert change.step == pytest.approx(3 / 4)


def test_values_of_the_data_go_before_nearer_ones_that_no_document_has() -> None:
    X = np.random.default_rng(0).integers(0, [3, 2, 2], size=(600, 3)).astype(np.float32)
    data = RankingDataset.from_arrays(X, X @ [1.0, 1.5, 0.5], group=np.full(60, 10))
    model = lightgbm_model(data, 60, learning_rate=0.5, num_leaves=4)
    # The score is x + 1.5 y + 0.5 z; no document has x = 2 here, and few have less than 1.
    rows = np.array([[1, 0, 1], [1, 0, 0], *[[1, 0, 0]] * 8, [0, 1, 0]], np.float32)
    explanation = why(model, RankingDataset.from_arrays(rows, np.zeros(11), group=[2, 9]), 0, "row:1", "row:2")
    assert [(c.document, c.feature, c.seen) for c in explanation.changes] == [
        ("a", "f1", True), ("b", "f2", True), ("b", "f1", False),
    ]  # fmt: skip
    first_step, second_step, unseen = [change.step for change in explanation.changes]
    assert unseen < first_step == pytest.approx(second_step)


def test_equal_scores_are_said_to_be_decided_by_the_order_of_the_rows() -> None:
    model, data = steps()
    explanation = why(model, data, 0, "row:3", "row:5")
    assert explanation.difference == 0.0
    assert (explanation.a.rank, explanation.b.rank) == (1, 3)
    assert "row order decides" in " ".join(explanation.notes)
    assert {change.document for change in explanation.changes} == {"a"}  # below 1 is 0; above 1 is nothing


def test_linear_leaves_try_the_values_of_the_data() -> None:
    data = replace(world(), features=np.nan_to_num(world().features))
    model = lightgbm_model(data, 4, linear_tree=True, num_leaves=4)
    explanation = why(model, data, 3, 1, 4)
    assert any("only values that occur in the data" in note for note in explanation.notes)
    assert any("contributions" in note for note in explanation.notes)
    assert np.isnan(explanation.parts).all()
    assert explanation.changes
    for change in explanation.changes:
        row = data.features[(explanation.a if change.document == "a" else explanation.b).row].copy()
        row[data.feature_names.index(change.feature)] = change.value
        assert model.predict(row[None])[0] == change.score


@cache
def with_categories() -> RankingDataset:
    """Nine categories without an order, some of them rare, and an ordered feature."""
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.choice(9, 400, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.04, 0.03, 0.02, 0.01]), rng.normal(size=400)])
    X[rng.random(400) < 0.05, 0] = np.nan
    worth = np.array([3.0, -1.0, 2.0, 0.0, 4.0, 1.0, 5.0, -2.0, 2.5, 0.5])
    y = worth[np.nan_to_num(X[:, 0], nan=9).astype(int)] + X[:, 1]
    return RankingDataset.from_arrays(X, y, group=np.full(40, 10))


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_the_most_frequent_category_that_swaps_is_named(engine: str) -> None:
    data = with_categories()
    if engine == "lightgbm":
        train = lgb.Dataset(data.features, data.labels, feature_name=["f1", "f2"], categorical_feature=[0])
        params = {"objective": "regression", "min_data_in_leaf": 3, "min_data_per_group": 1, "cat_smooth": 0,
                  "max_cat_to_onehot": 1, "verbose": -1, "num_threads": 1}  # fmt: skip
        model = RankingModel(lgb.train(params, train, 20))
    else:
        matrix = xgb.DMatrix(data.features, data.labels, feature_names=["f1", "f2"], feature_types=["c", "q"],
                             enable_categorical=True)  # fmt: skip
        params = {"max_depth": 4, "nthread": 1, "max_cat_to_onehot": 1}
        model = RankingModel(xgb.train(params, matrix, 20))
    column = data.features[:, 0]
    n_changes = 0
    for query, (a, b) in product(range(6), (("@1", "@3"), ("@8", "@5"))):
        explanation = why(model, data, query, a, b, threads=1)
        assert not explanation.notes
        by_document = {c.document: c for c in explanation.changes if c.feature == "f1"}
        for letter, document, other in (("a", explanation.a, explanation.b), ("b", explanation.b, explanation.a)):
            swaps = {}
            for category in range(11):
                row = data.features[document.row].copy()
                row[0] = category
                score = model.predict(row[None])[0]
                if score < other.score if document.rank < other.rank else score > other.score:
                    swaps[float(category)] = (int((column == category).sum()), score)
            change = by_document.get(letter)
            if change is None or math.isnan(change.value):
                assert not swaps
                continue
            n_changes += 1
            assert change.step == 1.0
            assert swaps[change.value] == (max(count for count, _ in swaps.values()), change.score)
            assert change.seen == (swaps[change.value][0] > 0)
    assert n_changes > 8


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
    asked = (why(model, data, query, "@2", "@6", threads=1) for query in range(30))
    explanation = next(
        answer for answer in asked if answer.smallest is not None and answer.smallest.feature == "colour"
    )
    assert not list(recwarn)
    change = explanation.smallest
    assert change is not None
    now = explanation.value_text("colour", change.now)
    then = explanation.value_text("colour", change.value)
    row = (explanation.a if change.document == "a" else explanation.b).row
    assert (now, then) == (colours[row], data.categories["colour"].values[int(change.value)])  # type: ignore[index]
    assert now != then
    assert explanation.value_text("colour", 7.0) == "another category"
    assert explanation.value_text("colour", math.nan) == "missing"
    assert explanation.value_text("x", 0.5) == "0.5"
    assert explanation.to_dict()["categories"]["colour"]["values"] == ["<red>", "blue", "green"]
    assert f"from {html.escape(now)} to {html.escape(then)}" in explanation.to_html()
    print_why(explanation, 5)
    assert re.search(f"^ *colour +{change.document.upper()} +{now} +{then} ", capsys.readouterr().out, re.MULTILINE)


def test_one_category_stands_for_all_that_no_split_names() -> None:
    values = np.array([3, 5, 5, 9, np.nan], np.float32)
    assert FeatureValues.of(values, None, np.array([1, 3])).steps()[0].tolist() == [1, 3, 5, 9, 10]
    assert FeatureValues.of(values[:3], None, np.array([3, 11])).steps()[0].tolist() == [3, 5, 11, 12]


def test_sparse_rows_are_as_the_model_reads_them() -> None:
    data = world()
    thin = sparse.csr_matrix(np.nan_to_num(data.features))
    absent = replace(data, features=thin)
    dense = replace(data, features=thin.toarray())
    model = lightgbm_model(dense)
    sparse_explanation, dense_explanation = why(model, absent, 2, "@1", "@5"), why(model, dense, 2, "@1", "@5")
    assert sparse_explanation.changes == dense_explanation.changes
    np.testing.assert_array_equal(sparse_explanation.parts, dense_explanation.parts)
    theirs = model_of("XGBoost")
    assert theirs.absent_is_missing
    explanation = why(theirs, absent, 2, "@1", "@5")
    assert np.isnan(explanation.values[0]).any()
    assert explanation.a.score == theirs.predict(absent)[explanation.a.row]


def test_what_is_found_can_be_taken_out() -> None:
    explanation = why(model_of("LightGBM"), world(), 7, 1, 3)
    frame, changes = explanation.to_frame(), explanation.to_frame("changes")
    assert frame["part"].sum() == pytest.approx(explanation.difference)
    assert len(changes) == len(explanation.changes)
    assert list(changes["seen"]) == sorted(changes["seen"], reverse=True)
    seen = changes[changes["seen"]]["step"].tolist()
    assert seen == sorted(seen)
    plain = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert plain["a"]["rank"] == 1
    assert [f["feature"] for f in plain["features"]] == frame["feature"].tolist()
    with pytest.raises(ParameterError, match=r"other.*changes, features, pair"):
        explanation.to_frame("other")
    assert callable(boostrank.reporting.why)


def test_the_page_escapes_what_comes_from_files_and_holds_both_documents() -> None:
    names = ["<b>one</b>", *(f"D{i}" for i in range(2, QUERIES * SIZE + 1))]
    page = why(model_of("LightGBM"), replace(world(), document_names=names), 0, "<b>one</b>", "D2").to_html("<model>")
    assert "<b>one" not in page
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert "&lt;model&gt;" in page
    assert "What would swap them" in page
