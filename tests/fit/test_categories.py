"""Categories from the frame to the model and back: the same model, the same scores, in any library
and order.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, RankingModel
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.data.categories import Categories
from tests.data.test_frames import LIBRARIES, NAMES, arrow_table, pandas_frame, polars_frame

ENGINES = ["lightgbm", "xgboost"]
KINDS = ("pear", "apple", "fig", "plum", "kiwi")
QID = np.repeat(np.arange(30), 20)
PARAMS = {
    "objective": "lambdarank",
    "num_leaves": 8,
    "learning_rate": 0.2,
    "num_threads": 1,
    "metric": "none",
}
OWN: dict[str, dict[str, Any]] = {
    "lightgbm": {"min_data_in_leaf": 5, "min_data_per_group": 5, "cat_smooth": 1, "verbosity": -1},
    "xgboost": {"min_sum_hessian_in_leaf": 0.1},
}


def make_rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.normal(size=600),
            rng.integers(0, 9, 600),
            rng.integers(0, 2, 600),
            rng.integers(0, len(KINDS), 600),
        ]
    ).astype(np.float32)
    X[::7, 0] = X[::11, 1] = X[::13, 3] = np.nan
    gain = (
        1.5 * np.isin(X[:, 3], [1, 4]) + 0.6 * np.nan_to_num(X[:, 0]) + 0.2 * rng.normal(size=600)
    )
    return X, np.clip(np.round(gain), 0, 3)


X, Y = make_rows()
COLUMNS = {
    name: [None if np.isnan(value) else kind(value) for value in column]
    for name, kind, column in zip(
        NAMES, (float, int, bool, lambda i: KINDS[int(i)]), X.T, strict=True
    )
}


def as_data(rows: Any = X, **options: Any) -> RankingDataset:
    return RankingDataset.from_arrays(rows, Y, qid=QID, **options)


def trained(backend: str, data: RankingDataset, rounds: int = 6, **options: Any) -> RankingModel:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*codes of categories are not numbers", DataWarning)
        return boostrank.train(PARAMS | OWN[backend], data, rounds, backend=backend, **options)


@pytest.fixture(scope="module", params=ENGINES)
def codes(request: Any) -> RankingModel:
    """Trained on an array of codes."""
    return trained(
        request.param, as_data(feature_names=NAMES, categorical_feature=["kind"]), start="linear"
    )


def turned(frame: Any) -> Any:
    """The frame with its columns in another order, and one more."""
    order = ["kind", "flag", "number", "count"]
    if hasattr(frame, "iloc"):
        return frame[order].assign(document=1)
    if hasattr(frame, "with_columns"):
        return frame[order].with_columns(document=1)
    return frame.select(order).append_column("document", [np.arange(frame.num_rows)])


def without_names(model: RankingModel) -> tuple[Any, Any]:
    """The model's file without the names of categories, and these; None: it has none."""
    if model.backend == "lightgbm":
        body, _, last = model.to_bytes().partition(b"pandas_categorical:")
        return body, json.loads(last)
    document = json.loads(model.to_bytes())
    cats = document["learner"]["gradient_booster"]["model"].pop("cats")
    return document, cats["enc"][3] if cats["enc"] else None


@pytest.mark.parametrize("make_frame", LIBRARIES)
def test_a_frame_gives_the_model_and_the_scores_of_its_codes(
    codes: RankingModel, make_frame: Any, tmp_path: Any
) -> None:
    assert codes.trees().forest.categorical.any()
    assert "kind" not in [codes.column_names[c] for c in codes.trees().forest.start.feature]
    frame = make_frame(COLUMNS, KINDS)
    model = trained(codes.backend, as_data(frame), start="linear")
    body, names = without_names(model)
    assert (body, None) == without_names(codes)
    assert names == (
        [list(KINDS)]
        if codes.backend == "lightgbm"
        else {"offsets": [0, 4, 9, 12, 16, 20], "values": list(b"pearapplefigplumkiwi")}
    )
    model.save(tmp_path / "model")
    loaded, scores = RankingModel.load(tmp_path / "model"), codes.predict(X)
    for other in LIBRARIES:
        np.testing.assert_array_equal(loaded.predict(turned(other(COLUMNS, KINDS[::-1]))), scores)
    np.testing.assert_array_equal(loaded.predict(X), scores)
    np.testing.assert_array_equal(loaded.predict(as_data(make_frame(COLUMNS, KINDS[::-1]))), scores)
    assert loaded.categories == {"kind": Categories(KINDS)}
    sidecar = json.loads((tmp_path / "model.meta.json").read_text())
    assert sidecar["data"]["categories"] == {"kind": {"values": list(KINDS), "ordered": False}}
    assert sidecar["file"]["readable_since"] == "0.2.0"


def test_a_column_without_categories_counts_among_those_of_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas_frame(COLUMNS, KINDS)
    frame.insert(0, "empty", pandas.Categorical([None] * len(frame)))
    model = trained("lightgbm", as_data(frame))
    scores = model.booster.predict(frame, raw_score=True)
    np.testing.assert_array_equal(scores, model.predict(frame))
    assert RankingModel(lgb.Booster(model_str=model.to_bytes().decode())).categories == {
        "kind": Categories(KINDS)
    }


@pytest.mark.parametrize("backend", ENGINES)
def test_validation_sets_and_later_rows_are_coded_as_the_training_set(backend: str) -> None:
    data, other = as_data(pandas_frame(COLUMNS, KINDS)), as_data(polars_frame(COLUMNS, KINDS[::-1]))
    model = boostrank.train(
        PARAMS | OWN[backend] | {"metric": "ndcg"},
        data,
        4,
        valid_sets=[data, other],
        backend=backend,
        start="none",
    )
    assert model.evals_result["training"] == model.evals_result["valid_1"]
    more = trained(backend, other, 2, init_model=model, start="none")
    at_once = trained(backend, data, 2, init_model=model, start="none")
    assert more.to_bytes() == at_once.to_bytes()
    if backend == "lightgbm":  # XGBoost compares names
        # Its codes go by position.
        unnamed = trained(backend, as_data(), 2, init_model=model, start="none")
        np.testing.assert_array_equal(unnamed.trees().forest.kind, at_once.trees().forest.kind)
    assert data.join(other.like(data)).categories == data.categories
    with pytest.raises(DataError, match="different categories"):
        data.join(other)


@pytest.mark.parametrize("backend", ENGINES)
def test_folds_and_presets_know_the_categories(backend: str) -> None:
    data = as_data(feature_names=NAMES)
    of_categories = {"cat_feature": ["kind"], "early_stopping_round": 2, "metric": "ndcg"}
    model = boostrank.train(
        PARAMS | OWN[backend] | of_categories, data, 3, folds=2, backend=backend, start="linear"
    )
    assert model.categories == {"kind": Categories()}
    assert model.trees().forest.categorical.any()
    quick = boostrank.train(
        PARAMS | OWN[backend] | {"categorical_feature": [3], "metric": "ndcg"},
        data,
        3,
        quality="quick",
        backend=backend,
        start="none",
        valid_sets=[data],
    )
    assert set(quick.evals_result) == {"training"}
    assert quick.trees().forest.categorical.any()
    assert set(quick.trees().forest.feature[quick.trees().forest.categorical]) == {3}


def test_categories_that_were_not_seen_are_missing_and_said(codes: RankingModel) -> None:
    model = trained(codes.backend, as_data(pandas_frame(COLUMNS, KINDS)))
    strange = [*(["mauve"] * 3), None, "teal", *COLUMNS["kind"][5:]]
    gone = X.copy()
    gone[:5, 3] = np.nan
    for make_frame in LIBRARIES:
        frame = make_frame(COLUMNS | {"kind": strange}, (*KINDS, "teal", "mauve", "grey"))
        message = r"column 'kind' has 4 values of 2 categories .*the model.*'mauve'"
        for rows in (frame, as_data(frame)):
            with pytest.warns(DataWarning, match=message):
                scores = model.predict(rows)
            np.testing.assert_array_equal(scores, model.predict(gone))


def test_columns_that_do_not_fit_are_refused_by_name(codes: RankingModel) -> None:
    # A model with named columns and categories.
    frame = pandas_frame(COLUMNS, KINDS)
    model = trained(codes.backend, as_data(frame))
    for wrong, match in (
        (frame.drop(columns="flag"), "'flag'"),
        (frame.rename(columns={"flag": "flags"}), "'flag'.*'flags'"),
        (
            frame.assign(number="a"),
            "'number' .*'a'.* numbers",
        ),
        (
            frame.assign(kind=1),
            (
                r"'kind' contains 1, a category that is a number, but the others \('pear', ...\)"
                r" are te"
            ),
        ),
    ):
        with pytest.raises(DataError, match=match):
            model.predict(wrong)
    # Models with codes or without names.
    with pytest.raises(DataError, match=r"'kind' .*codes without names"):
        codes.predict(frame)
    with pytest.raises(DataError, match=r"'kind' contains .*without names"):
        codes.predict(as_data(frame))
    plain = trained(codes.backend, as_data())
    with pytest.raises(DataError, match="column names"):
        plain.predict(frame)
    with pytest.raises(DataError, match="'flag' contains categories"):
        model.predict(as_data(frame.assign(flag=frame["flag"].astype("category"))))


def test_numbers_as_categories_go_by_value_in_other_libraries() -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    pl = pytest.importorskip("polars", reason="frames of polars")
    shop = [None if np.isnan(v) else 10 * int(v) + 7 for v in X[:, 3]]
    model = trained(
        "lightgbm",
        as_data(pd.DataFrame({"shop": pd.Categorical(shop), "x": X[:, 0]})),
        start="none",
    )
    assert model.categories == {"shop": Categories((7, 17, 27, 37, 47))}
    scores = model.predict(X[:, [3, 0]])
    for frame in (
        pl.DataFrame({"x": X[:, 0], "shop": shop}),
        pd.DataFrame({"x": X[:, 0], "shop": np.array(shop, float)}),
    ):
        np.testing.assert_array_equal(model.predict(frame), scores)
    raw = pl.DataFrame({"shop": shop, "x": X[:, 0]})  # whose column a data set takes for numbers
    for rows in (as_data(raw), raw.to_numpy()):
        message = (
            r"'shop' has 553 values, such as \d+, .* codes of the 5 categories of the"
            r" model \(7, 17, .*\)"
        )
        with pytest.warns(DataWarning, match=message):
            model.predict(rows)


def test_lightgbm_alone_codes_a_frame_as_we_do_and_we_as_it_does(tmp_path: Any) -> None:
    pytest.importorskip("pandas", reason="LightGBM has categories of pandas")
    frame = pandas_frame(COLUMNS, KINDS).astype({"count": float, "flag": float})
    model = trained("lightgbm", as_data(frame), start="none")
    other = frame.assign(kind=frame["kind"].cat.reorder_categories(KINDS[::-1]))
    model.save(tmp_path / "model")
    alone = lgb.Booster(model_file=tmp_path / "model")
    np.testing.assert_array_equal(alone.predict(other, raw_score=True), model.predict(frame))
    os.remove(tmp_path / "model.meta.json")
    np.testing.assert_array_equal(
        RankingModel.load(tmp_path / "model").predict(other), model.predict(frame)
    )
    theirs = lgb.train(
        {"verbosity": -1, "num_threads": 1} | OWN["lightgbm"], lgb.Dataset(frame, Y), 3
    )
    theirs.save_model(tmp_path / "theirs")
    loaded = RankingModel.load(tmp_path / "theirs")
    np.testing.assert_array_equal(
        loaded.predict(polars_frame(COLUMNS, KINDS[::-1])), theirs.predict(frame)
    )


def test_xgboost_alone_codes_a_frame_as_we_do_and_we_as_it_does(tmp_path: Any) -> None:
    xgb = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    pytest.importorskip("pandas", reason="XGBoost has categories of pandas")
    frame = pandas_frame(COLUMNS, KINDS).astype({"count": float, "flag": float})
    frame["shop"] = (frame["count"].fillna(0) * 7 - 20).astype(int).astype("category")
    model, scores = trained("xgboost", as_data(frame), start="linear"), None
    other = frame.assign(kind=frame["kind"].cat.reorder_categories(KINDS[::-1]))
    for rounds in (6, 3):
        model.save(tmp_path / "model.json", num_iteration=rounds)
        os.remove(tmp_path / "model.json.meta.json")
        scores = model.predict(frame, num_iteration=rounds)
        alone = xgb.Booster(model_file=tmp_path / "model.json")
        np.testing.assert_array_equal(
            alone.predict(xgb.DMatrix(other, enable_categorical=True)), scores
        )
        loaded = RankingModel.load(tmp_path / "model.json")
        np.testing.assert_array_equal(loaded.predict(other), scores)
        assert loaded.categories == model.categories
    more = trained("xgboost", as_data(frame), 2, init_model=model)
    assert more.categories == model.categories
    np.testing.assert_allclose(
        model.contributions(as_data(other)).sum(axis=1), model.predict(frame), atol=1e-6
    )
    both = boostrank.average([model, model])
    np.testing.assert_allclose(both.predict(other), model.predict(frame), atol=1e-6)
    strange = frame.assign(kind=frame["kind"].cat.rename_categories({"fig": "f\u00efg"}))
    # What XGBoost orders otherwise stays out.
    trained("xgboost", as_data(strange)).save(tmp_path / "model.json")
    assert RankingModel.load(tmp_path / "model.json").categories["kind"].values[2] == "f\u00efg"
    assert (
        json.loads((tmp_path / "model.json").read_text())["learner"]["gradient_booster"]["model"][
            "cats"
        ]["enc"]
        == []
    )


def test_models_of_other_categories_are_not_averaged() -> None:
    models = [
        trained("lightgbm", as_data(pandas_frame(COLUMNS, kinds)), 2)
        for kinds in (KINDS, KINDS[::-1])
    ]
    with pytest.raises(ParameterError, match="encode categories differently"):
        boostrank.average(models)


def test_models_and_options_without_categories_refuse_or_ignore_them() -> None:
    data = as_data(arrow_table(COLUMNS, KINDS))
    with pytest.raises(DataError, match=r"'kind' .*linear"):
        boostrank.train({"metric": "none"}, data, 2, backend="linear")
    with pytest.warns(DataWarning, match="within_query ignores 'kind'"):
        model = boostrank.train(PARAMS, data, 2, start="none", within_query="rank")
    assert "rank(kind|query)" not in model.column_names
    with pytest.raises(ParameterError, match=r"within_query: .*'kind'"):
        boostrank.train(
            PARAMS, data, 2, start="none", within_query=boostrank.WithinQuery("rank", of="kind")
        )
    with pytest.raises(ParameterError, match=r"'kind' .*no direction"):
        boostrank.train(
            PARAMS | {"monotone_constraints": [0, 0, 0, 1]},
            data,
            2,
            backend="xgboost",
            start="none",
        )


def test_the_estimator_takes_text_and_its_validation_sets_too() -> None:
    pytest.importorskip("sklearn", reason="BoostRanker needs scikit-learn")
    frame = pandas_frame(COLUMNS, KINDS).astype({"kind": object})
    query_options = {"qid": QID, "eval_qid": [QID], "categorical_feature": ["kind"]}
    ranker = boostrank.BoostRanker(
        **PARAMS | OWN["lightgbm"] | {"metric": "ndcg"}, num_boost_round=3, start="none"
    )
    ranker.fit(frame, Y, eval_set=[(frame[::-1].copy()[::-1], Y)], **query_options)
    assert ranker.model_.trees().forest.categorical.any()
    np.testing.assert_array_equal(
        ranker.predict(frame.astype({"kind": "category"})), ranker.predict(frame)
    )
