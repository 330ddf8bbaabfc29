"""Further instances of what the field reported about code for LightGBM, XGBoost and scikit-learn,
and about frames and arrays, each tried on the kind of fault rather than on its first report.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import boostrank
from boostrank import BoostRanker, QueryKFold, RankingDataset, RankingModel
from boostrank.core.errors import DataError, DataWarning, InputError, ModelError, ParameterError
from boostrank.metrics import Metric

RNG = np.random.default_rng(0)
QUERIES, LENGTH = 12, 8
QID, SIZES = np.repeat(np.arange(QUERIES), LENGTH), np.full(QUERIES, LENGTH)
X = RNG.normal(size=(QID.size, 4)).astype(np.float32)
Y = np.clip((1.2 * X[:, 0] + RNG.normal(size=QID.size) / 2 + 1.5).round(), 0, 4)
FRAME = pd.DataFrame(X, columns=list("abcd"))
ENGINES = ("lightgbm", "xgboost")
NATIVE = {"lightgbm": "lambdarank", "xgboost": "rank:ndcg"}


def ranker(**params: Any) -> BoostRanker:
    plain = {"objective": "lambdarank", "n_estimators": 3, "n_jobs": 1, "verbosity": -1}
    return BoostRanker(**plain | params)


@pytest.fixture(scope="module")
def fitted() -> BoostRanker:
    return ranker().fit(X, Y, qid=QID)


@pytest.fixture(scope="module")
def models() -> dict[str, RankingModel]:
    return {name: ranker(backend=name).fit(X, Y, qid=QID).model_ for name in ENGINES}


# Data sets of the engines


def test_an_engines_data_set_that_cannot_be_copied_names_the_reason() -> None:
    subset = lgb.Dataset(X, Y, free_raw_data=False).subset([0, 1])
    with pytest.raises(ParameterError, match=r"subset.*RankingDataset as train_set"):
        boostrank.train({}, subset, 2)
    with pytest.raises(ParameterError, match=r"DMatrix>: expected a .*from_arrays"):
        boostrank.train({}, xgb.DMatrix(X, Y, qid=QID), 2)


@pytest.mark.parametrize("make", [xgb.DMatrix, lgb.Dataset])
def test_an_engines_data_set_is_not_scored(make: Any, models: dict[str, RankingModel]) -> None:
    with pytest.raises(DataError, match=f"{make.__name__}, but must be a frame"):
        models["xgboost"].predict(make(X))


# Arguments and methods of the engines' boosters and rankers


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"raw_score": True, "num_threads": 1, "qid": QID}, {}),
        ({"output_margin": True, "validate_features": False, "base_margin": None}, {}),
        ({"iteration_range": (1, 2)}, {"start_iteration": 1, "num_iteration": 1}),
        ({"ntree_limit": 2}, {"num_iteration": 2}),
        ({"ntree_limit": 0, "training": False, "pred_early_stop": True}, {}),
        ({"pred_contribs": True, "approx_contribs": False}, {"pred_contrib": True}),
    ],
)
def test_predict_takes_the_arguments_of_boosters(
    models: dict[str, RankingModel], backend: str, theirs: Any, ours: Any
) -> None:
    model = models[backend]
    np.testing.assert_array_equal(model.predict(X, **theirs), model.predict(X, **ours))


@pytest.mark.parametrize("name", ["pred_interactions", "strict_shape", "nonsense"])
def test_predict_refuses_what_it_cannot_return(models: dict[str, RankingModel], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        models["xgboost"].predict(X, **{name: True})


@pytest.mark.parametrize("rounds", [(2, 2), (2, 1)])
def test_a_range_without_rounds_is_refused(models: dict[str, RankingModel], rounds: Any) -> None:
    with pytest.raises(ParameterError, match="iteration_range"):
        models["xgboost"].predict(X, iteration_range=rounds)


def test_an_unknown_argument_is_refused_without_a_value_too(fitted: BoostRanker) -> None:
    with pytest.raises(ParameterError, match="nonsense"):
        fitted.predict(X, nonsense=None)
    with pytest.raises(ParameterError, match="eval_set"):
        ranker().fit(X, Y, qid=QID, evl_set=None)


def test_models_have_the_reading_methods_of_their_boosters(models: dict[str, RankingModel]) -> None:
    theirs, other = models["lightgbm"], models["xgboost"]
    text = theirs.model_to_string()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(lgb.Booster(model_str=text).predict(X), theirs.predict(X))
    assert len(theirs.dump_model()["tree_info"]) == 3  # type: ignore[attr-defined]
    assert len(other.get_dump()) == other.num_boosted_rounds() == 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"update.*\.booster"):
        theirs.update()  # type: ignore[attr-defined]


def test_rankers_have_the_attributes_of_their_kinds() -> None:
    held_out = {"eval_set": [(X[:48], Y[:48])], "eval_group": [SIZES[:6]]}
    unused = {"feature_weights": None, "eval_init_score": None, "base_margin_eval_set": None}
    model = ranker(early_stopping_rounds=2).fit(X, Y, group=SIZES, **held_out, **unused)
    assert model.apply(X).shape == (QID.size, model.n_estimators_)
    assert model.n_iter_ == model.best_iteration_
    assert model.best_score == model.best_score_["valid_0"]["ndcg@10"]
    assert model.get_num_boosting_rounds() == model.get_xgb_params()["n_estimators"] == 3
    with pytest.raises(ParameterError, match="feature_contri"):
        ranker().fit(X, Y, group=SIZES, feature_weights=np.ones(4))


@pytest.mark.parametrize("backend", ENGINES)
def test_parameters_that_change_no_model_are_taken_and_renamed_ones_name_the_new(
    backend: str,
) -> None:
    gone = {"silent": True, "use_label_encoder": False, "predictor": "auto"}
    plain = ranker(backend=backend).fit(X, Y, qid=QID).predict(X)
    if backend == "xgboost":
        gone |= {"validate_parameters": True, "multi_strategy": "one_output_per_tree"}
    model = ranker(backend=backend, **gone).fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.predict(X), plain)
    for renamed, remedy in {"gpu_id": "device=", "max_position": "truncation_level=3"}.items():
        with pytest.raises(ParameterError, match=remedy):
            ranker(backend=backend, **{renamed: 3}).fit(X, Y, qid=QID)


def test_threads_and_importances_in_the_words_of_others(fitted: BoostRanker) -> None:
    model = ranker(n_jobs=-2, importance_type="weight").fit(X, Y, qid=QID)
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
    splits = model.feature_importances_
    np.testing.assert_array_equal(
        model.set_params(importance_type="split").feature_importances_, splits
    )


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"groups": QID}, "qid"),
        ({"weights": QID}, "sample_weight"),
        ({"position": QID}, "clicks"),
        ({"evals_result": {}}, "evals_result_"),
    ],
)
def test_arguments_of_fit_elsewhere_name_ours(arguments: Any, remedy: str) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(arguments))}.*: .*{remedy}"):
        ranker().fit(X, Y, qid=QID, **arguments)


def test_arguments_of_fit_are_no_parameters_and_metrics_are_in_order() -> None:
    for name, remedy in {"sample_weight": "fit", "params": r"BoostRanker\(\*\*params"}.items():
        with pytest.raises(ParameterError, match=f"{name}.*{remedy}"):
            ranker(**{name: {"num_leaves": 3}}).fit(X, Y, qid=QID)
    with pytest.raises(ParameterError, match=r"call it, LambdaRank\(\)"):
        ranker(objective=boostrank.LambdaRank).fit(X, Y, qid=QID)
    for metrics in ({"ndcg@5", "map"}, {"ndcg": 5}):
        with pytest.raises(ParameterError, match="list of names"):
            ranker(metric=metrics).fit(X, Y, qid=QID)


@pytest.mark.parametrize("name", ["cv", "Dataset", "DMatrix", "LGBMRanker", "Booster"])
def test_names_of_the_engines_modules_say_what_to_use(name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name}.*; use "):
        getattr(boostrank, name)


def test_a_search_is_its_best_model_and_a_models_text_is_no_path(fitted: BoostRanker) -> None:
    data = RankingDataset.from_frame(FRAME.assign(label=Y, qid=QID))
    frame = FRAME.assign(qid=QID)
    search = GridSearchCV(ranker(), {"num_leaves": [3]}, cv=QueryKFold(2)).fit(frame, Y)
    best = boostrank.evaluate(search.best_estimator_, data)["ndcg@10"].mean
    assert boostrank.evaluate(search, data)["ndcg@10"].mean == best
    with pytest.raises(ModelError, match=r"^the text .*model_str"):
        ranker().fit(X, Y, qid=QID, init_model=fitted.booster_.model_to_string())


@pytest.mark.parametrize(
    ("metrics", "token"),
    [
        ([lambda y, s: ("n", 1.0, True), lambda y, s: ("n", 2.0, True)], "distinct"),
        ([lambda y, s: ("n", np.ones(3), True)], "higher is better"),
    ],
)
def test_metrics_that_would_be_mixed_are_refused(metrics: Any, token: str) -> None:
    watched = {"eval_set": [(X[:48], Y[:48])], "eval_group": [SIZES[:6]], "eval_metric": metrics}
    with pytest.raises(ParameterError, match=token):
        ranker().fit(X, Y, group=SIZES, **watched)


# Rows, query ids and roles


@pytest.mark.parametrize("metric", [["ndcg@2,3", "map@2"], Metric.parse("ndcg@2,3")])
def test_a_metric_of_several_cut_offs_can_stop_early(metric: Any) -> None:
    model = ranker().fit(X, Y, qid=QID).model_
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    params = {"metric": metric, "early_stopping_round": 2, "num_threads": 1, "verbosity": -1}
    stopped = boostrank.train(params, data, 3, [data.take(np.arange(6))], init_model=model)
    assert list(stopped.evals_result["valid_0"])[:2] == ["ndcg@2", "ndcg@3"]


def test_masked_rows_are_missing_in_fit_and_predict() -> None:
    masked, missing = np.ma.masked_where(X > 1, X), np.where(X > 1, np.nan, X)
    model, expected = (ranker().fit(rows, Y, qid=QID) for rows in (masked, missing))
    for rows in (X, missing):
        np.testing.assert_array_equal(model.predict(rows), expected.predict(rows))
    np.testing.assert_array_equal(model.predict(masked), model.predict(missing))


@pytest.mark.parametrize(
    ("first", "kind"), [(2**53, np.float64), (2**24, np.float32), (2**11, np.float16)]
)
def test_query_ids_that_a_float_has_rounded_are_refused(first: int, kind: Any) -> None:
    with pytest.raises(DataError, match=r"row 0: .*rounds.*integers or text"):
        ranker().fit(X, Y, qid=(QID + first).astype(kind))
    if kind is np.float64:  # in a list, too
        with pytest.raises(DataError, match="row 0 "):
            ranker().fit(X, Y, qid=(QID + first).astype(kind).tolist())
    np.testing.assert_array_equal(  # below
        ranker().fit(X, Y, qid=(QID + first // 2).astype(kind)).predict(X),
        ranker().fit(X, Y, qid=QID).predict(X),
    )


@pytest.mark.parametrize(
    "ids",
    [
        QID[:, None],
        pd.DataFrame({"q": QID}),
        pl.Series(QID.tolist(), dtype=pl.Int128),
        pl.Series([2**70 + qid for qid in QID.tolist()], dtype=pl.Int128),
    ],
    ids=["column", "frame", "128 bits", "large"],
)
def test_query_ids_of_other_shapes_and_widths(fitted: BoostRanker, ids: Any) -> None:
    model = ranker().fit(X, Y, qid=ids)
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))


@pytest.mark.parametrize("role", ["qid", "sample_weight"])
def test_the_name_of_a_column_is_no_column_of_values(role: str) -> None:
    more = {"qid": QID, role: "column"}
    with pytest.raises(DataError, match=r"='column' .*X\['column'\]"):
        ranker().fit(FRAME.assign(column=1), Y, **more)


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        ({"a": [1.0], "b": [2.0]}, r"pandas\.DataFrame\(X\)"),
        ("train.csv", r"boostrank\.read"),
        (Path("train.csv"), r"boostrank\.read"),
        (RankingDataset.from_arrays(X, Y, qid=QID), r"model_\.predict"),
    ],
    ids=["dictionary", "text", "path", "data set"],
)
def test_what_has_no_rows_names_what_to_pass(fitted: BoostRanker, rows: Any, remedy: str) -> None:
    with pytest.raises(DataError, match=remedy):
        fitted.predict(rows)
    if not isinstance(rows, RankingDataset):
        with pytest.raises(DataError, match=remedy):
            fitted.model_.predict(rows)


def test_masked_query_ids_are_lacking_in_every_door() -> None:
    masked = np.ma.masked_where(QID == 3, QID)
    for door in (
        lambda: ranker().fit(X, Y, qid=masked),
        lambda: next(QueryKFold(2).split(X, Y, groups=masked)),
    ):
        with pytest.raises(DataError, match=r"row 24 .*masked"):
            door()


def test_query_ids_in_the_index_of_a_frame_or_behind_a_steps_name(fitted: BoostRanker) -> None:
    indexed = FRAME.set_index([pd.Index(QID, name="qid"), pd.RangeIndex(QID.size, name="d")])
    expected = ranker().fit(FRAME, Y, qid=QID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ranker().fit(indexed, Y)
        data = RankingDataset.from_frame(indexed.assign(label=Y))
    np.testing.assert_array_equal(model.predict(indexed), expected.predict(FRAME))
    assert (data.n_features, data.queries.sizes.tolist()) == (4, SIZES.tolist())
    assert expected.score(indexed, Y) == expected.score(FRAME, Y, qid=QID)
    # A column is preferred, and explicit queries as well.
    assert ranker().fit(indexed.assign(qid=0), Y).score(FRAME, Y, qid=QID) < 1
    assert model.score(indexed, Y, qid=QID) == model.score(indexed, Y)
    other = RankingDataset.from_frame(indexed.assign(label=Y, session=QID // 2), qid="session")
    assert (other.feature_names, len(other.queries)) == (tuple("abcd"), QUERIES // 2)
    step = ranker().fit(FRAME.assign(x__qid=0.0, qid=QID), Y)
    assert step.feature_names_in_.tolist() == [*"abcd", "x__qid"]
    scaled = ColumnTransformer([("n", StandardScaler(), list("abcd"))], remainder="passthrough")
    chain = make_pipeline(scaled.set_output(transform="pandas"), ranker())
    with pytest.warns(DataWarning, match="remainder__qid"):
        chain.fit(FRAME.assign(qid=QID), Y)
    assert len(chain[-1].feature_names_in_) == 4


@pytest.mark.parametrize(("name", "content"), [("relevance", "labels"), ("doc_id", "documents")])
def test_labels_and_documents_among_features_are_named(name: str, content: str) -> None:
    frame = FRAME.assign(**{name: Y})
    with pytest.warns(DataWarning, match=f"'{name}' is used as a feature.*{content}"):
        ranker().fit(frame, Y, qid=QID)


def test_validation_sets_without_queries_name_the_argument() -> None:
    with pytest.raises(InputError, match="eval_qid"):
        ranker().fit(X, Y, qid=QID, eval_set=[(X[:48], Y[:48])])
    with pytest.raises(InputError, match=r"list .*array"):
        ranker().fit(X, Y, qid=QID, eval_set=[(X[:48], Y[:48])], eval_qid=QID[:48])
