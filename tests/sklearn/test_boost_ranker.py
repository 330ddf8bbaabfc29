"""BoostRanker trains what `boostrank.train` trains, and keeps scikit-learn's habits on either
engine.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.data.dataset import RankingDataset
from tests.sklearn.conftest import FAST, LIBRARIES, Rows, as_table

pytest.importorskip(
    "sklearn", reason="scikit-learn is not installed: pip install 'boostrank[sklearn]'"
)

import joblib
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from boostrank import BoostRanker, QueryKFold

ENGINES = ["lightgbm", "xgboost"]
COLUMNS = ["red", "green", "blue", "grey"]
NDCG = boostrank.Metric.parse("ndcg@10")


def ranker(backend: str, **params: Any) -> BoostRanker:
    return BoostRanker(backend=backend, **FAST | params)


def fitted(backend: str, rows: Rows, **params: Any) -> BoostRanker:
    return ranker(backend, **params).fit(rows.X, rows.y, qid=rows.qid)


def framed(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(rows.X, columns=COLUMNS).assign(qid=rows.qid)


def as_dataset(rows: Rows) -> RankingDataset:
    return RankingDataset.from_arrays(rows.X, rows.y, qid=rows.qid)


# A tenth of the check data are fewer rows than LightGBM puts into a leaf.
CHECKED = [BoostRanker(n_estimators=3, n_jobs=1, min_child_samples=1)]
_OF_GAINS = (
    "a weight multiplies a document's gain: of weight 0 or 2 it is one rival of the others, not"
    " none or two"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": _OF_GAINS,
    "check_sample_weight_equivalence_on_sparse_data": _OF_GAINS,
}


@pytest.mark.filterwarnings("ignore:no queries were given:boostrank.core.errors.DataWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn_s_checks(estimator: BoostRanker, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("backend", ENGINES)
def test_fit_trains_the_model_of_train(backend: str, rows: Rows) -> None:
    params = {"learning_rate": 0.3, "num_leaves": 5, "num_threads": 1, "verbosity": -1}
    for settings, same in (
        ({}, {}),
        ({"objective": "lambdarank", "sigmoid": 0.5, "random_state": 3}, {"random_state": 3}),
        ({"start": "none", "within_query": "rank", "max_trees": 3}, {}),
    ):
        # What are parameters and what are arguments of `train`.
        of_train = {
            name: settings[name]
            for name in ("start", "within_query", "max_trees")
            if name in settings
        }
        train_params = (
            params
            | {name: settings[name] for name in ("objective", "sigmoid") if name in settings}
            | same
        )
        # The same bytes, scores and ranks.
        model = boostrank.train(train_params, as_dataset(rows), 4, backend=backend, **of_train)
        estimator = fitted(backend, rows, **settings)
        assert estimator.model_.to_bytes() == model.to_bytes()
        qid = rows.qid if settings.get("within_query") else None
        scores = estimator.predict(rows.X, qid=qid)
        np.testing.assert_array_equal(scores, model.predict(rows.X, qid=rows.qid))
        np.testing.assert_array_equal(
            estimator.rank(rows.X, rows.qid), model.rank(rows.X, qid=rows.qid)
        )
    assert (
        ranker(backend, quality="quick", n_estimators=None)
        .fit(framed(rows), rows.y)
        .best_iteration_
        > 4
    )


def test_group_is_another_way_to_say_qid(rows: Rows) -> None:
    by_group = ranker("lightgbm").fit(rows.X, rows.y, group=rows.sizes)
    assert by_group.model_.to_bytes() == fitted("lightgbm", rows).model_.to_bytes()
    assert by_group.score(rows.X, rows.y, group=rows.sizes) == by_group.score(
        rows.X, rows.y, qid=rows.qid
    )
    np.testing.assert_array_equal(
        by_group.rank(rows.X, group=rows.sizes), by_group.rank(rows.X, rows.qid)
    )


def test_parameters_by_keyword_are_parameters() -> None:
    estimator = BoostRanker("sdcg", num_boost_round=3, sigma=0.5)
    assert estimator.get_params()["sigma"] == 0.5
    assert "sigma=0.5" in repr(estimator)
    again = sklearn.base.clone(estimator.set_params(min_data_in_bin=2, sigma=0.25))
    assert again.get_params() == estimator.get_params()
    assert (again.sigma, again.min_data_in_bin, again.objective) == (0.25, 2, "sdcg")
    assert "<" in estimator._repr_html_()
    for name in ("fit", "model_", "_metric", "step__sigma", "score"):
        with pytest.raises(ParameterError, match=f"no parameter '{name}'"):
            estimator.set_params(**{name: 1})


def test_unknown_and_doubled_parameters_are_refused_by_name(rows: Rows) -> None:
    with pytest.raises(ParameterError, match=r"num_leafs.* 'num_lea"):
        fitted("lightgbm", rows, num_leafs=3)
    with pytest.raises(ParameterError, match="are the same parameter"):
        fitted("lightgbm", rows, num_boost_round=3)
    assert (
        ranker("lightgbm", n_estimators=None, num_boost_round=3)
        .fit(framed(rows), rows.y)
        .best_iteration_
        == 3
    )


@pytest.mark.parametrize("backend", ENGINES)
def test_a_sample_of_the_rows_is_drawn_in_every_round(backend: str, rows: Rows) -> None:
    whole = fitted(backend, rows).model_.to_bytes()
    sampled = fitted(backend, rows, subsample=0.5).model_.to_bytes()
    assert sampled != whole
    if backend == "lightgbm":
        seldom = fitted(backend, rows, subsample=0.5, subsample_freq=2).model_.to_bytes()
        assert seldom not in (whole, sampled)


def test_objects_as_parameters_are_cloned(rows: Rows) -> None:
    estimator = fitted(
        "lightgbm", rows, objective=boostrank.LambdaRank(sigmoid=0.5), within_query=["rank"]
    )
    again = sklearn.base.clone(estimator).fit(rows.X, rows.y, qid=rows.qid)
    assert again.model_.to_bytes() == estimator.model_.to_bytes()
    assert again.feature_importances_.shape == (4,)


def test_values_of_numpy_are_recorded_as_those_of_python(rows: Rows) -> None:
    estimator = fitted(
        "lightgbm", rows, num_leaves=np.int64(4), random_state=np.random.RandomState(1)
    )
    parameters = estimator.model_.info.parameters
    assert parameters["num_leaves"] == 4
    assert type(parameters["random_state"]) is int
    drawn = np.random.RandomState(1).randint(np.iinfo(np.int32).max)
    assert parameters["random_state"] == drawn


@pytest.mark.parametrize("backend", ENGINES)
def test_a_frame_may_hold_the_queries(backend: str, rows: Rows) -> None:
    frame = framed(rows)
    estimator = ranker(backend).fit(frame, rows.y)
    assert estimator.n_features_in_ == 4
    assert estimator.feature_names_in_.tolist() == list(estimator.model_.feature_names) == COLUMNS
    plain = fitted(backend, rows)
    np.testing.assert_array_equal(estimator.predict(frame), plain.predict(rows.X))
    np.testing.assert_array_equal(estimator.rank(frame), plain.rank(rows.X, rows.qid))
    assert estimator.score(frame, rows.y) == plain.score(rows.X, rows.y, qid=rows.qid)
    for method in (estimator.fit, estimator.score):
        with pytest.raises(DataError, match="given twice"):
            method(frame, rows.y, qid=rows.qid)


def test_the_columns_of_a_frame_go_by_name(rows: Rows) -> None:
    frame = framed(rows)
    estimator = ranker("lightgbm").fit(frame, rows.y)
    scores = estimator.predict(rows.X)
    other = frame[["qid", *COLUMNS[::-1]]].assign(price=1.0)
    np.testing.assert_array_equal(estimator.predict(other), scores)
    assert estimator.score(other, rows.y) == estimator.score(frame, rows.y)
    with pytest.raises(DataError, match="no column 'green'"):
        estimator.predict(other.drop(columns="green"))
    with pytest.raises(ValueError, match=r"3 features, .*expecting 4"):
        estimator.predict(rows.X[:, :3])
    with pytest.warns(UserWarning, match="fitted without feature names"):
        np.testing.assert_array_equal(fitted("lightgbm", rows).predict(frame[COLUMNS]), scores)
    estimator_of_arrays = ranker("lightgbm").fit(rows.X, rows.y, qid=rows.qid, feature_name=COLUMNS)
    assert estimator_of_arrays.model_.feature_names == tuple(COLUMNS)
    with pytest.raises(ParameterError, match="feature_name differs"):
        ranker("lightgbm").fit(frame, rows.y, feature_name=COLUMNS[::-1])


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_other_libraries(library: str, rows: Rows, more: Rows) -> None:
    frame, valid = as_table(framed(rows), library), framed(more)
    watched = {
        "eval_set": [
            (as_table(valid[[*reversed(valid.columns)]], library), more.y),
            (more.X, more.y),
        ]
    }
    estimator = ranker("lightgbm").fit(frame, rows.y, eval_group=[None, more.sizes], **watched)
    expected = fitted("lightgbm", rows)
    assert estimator.feature_names_in_.tolist() == COLUMNS
    np.testing.assert_array_equal(
        estimator.predict(as_table(valid, library)), expected.predict(more.X)
    )
    np.testing.assert_array_equal(estimator.predict(frame), expected.predict(rows.X))
    assert estimator.score(frame, rows.y) == expected.score(rows.X, rows.y, rows.qid)
    first, second = estimator.evals_result_.values()
    assert first == second
    scores = cross_val_score(
        ranker("lightgbm"), frame, rows.y, cv=QueryKFold(2), error_score="raise"
    )
    assert scores == pytest.approx(_held_out(ranker("lightgbm"), rows, QueryKFold(2)))


@pytest.mark.parametrize("backend", ENGINES)
def test_categories_are_those_of_the_data_set(backend: str, rows: Rows, more: Rows) -> None:
    def with_shop(subset: Rows) -> pd.DataFrame:
        shop = np.array(["sea", "hill", "town"])[np.digitize(subset.X[:, 3], [-0.4, 0.4])]
        return framed(subset).assign(grey=pd.Categorical(shop))

    frame, valid = with_shop(rows), with_shop(more)
    data = RankingDataset.from_arrays(frame.drop(columns="qid"), rows.y, qid=rows.qid)
    params = {name: FAST[name] for name in ("num_leaves", "learning_rate", "verbosity", "n_jobs")}
    params |= {"min_data_per_group": 1} if backend == "lightgbm" else {}
    expected = boostrank.train(params, data, 4, backend=backend)
    settings = {"min_data_per_group": 1} if backend == "lightgbm" else {}
    estimator = ranker(backend, **settings).fit(frame, rows.y, eval_set=(valid, more.y))
    assert estimator.model_.to_bytes() == expected.to_bytes()
    scores = expected.predict(valid.drop(columns="qid"))
    np.testing.assert_array_equal(estimator.predict(valid[valid.columns[::-1]]), scores)
    codes = frame.grey.cat.codes.to_numpy()
    coded = ranker(backend, **settings).fit(
        np.column_stack([rows.X[:, :3], codes]), rows.y, qid=rows.qid, categorical_feature=[3]
    )
    np.testing.assert_array_equal(
        coded.predict(np.column_stack([rows.X[:, :3], codes])), estimator.predict(frame)
    )


@pytest.mark.parametrize("backend", ENGINES)
def test_the_score_is_the_mean_ndcg_of_queries(backend: str, rows: Rows, more: Rows) -> None:
    estimator, data = fitted(backend, rows), as_dataset(more)

    def ndcg(text: str, **conventions: Any) -> float:
        metric = boostrank.Metric.parse(text)
        result = metric.evaluate(
            data.labels, scores, data.queries, boostrank.Conventions(**conventions)
        )
        return result.mean

    scores = estimator.predict(more.X)
    assert estimator.score(more.X, more.y, more.qid) == pytest.approx(ndcg("ndcg@10"), rel=1e-12)
    estimator = fitted(backend, rows, eval_at="3,1", objective="sdcg", gain="linear")
    scores = estimator.predict(more.X)
    assert estimator.score(more.X, more.y, qid=more.qid) == pytest.approx(
        ndcg("ndcg@3", gain="linear"), rel=1e-12
    )
    estimator = fitted(backend, rows, conventions="lightgbm")
    scores = estimator.predict(more.X)
    expected = ndcg("ndcg@10", ties="input", empty="one")
    assert estimator.score(more.X, more.y, qid=more.qid) == pytest.approx(expected, rel=1e-12)


def test_weights_are_of_queries_where_they_are_the_same_within_them(rows: Rows) -> None:
    sizes = rows.sizes
    weights = np.linspace(0.5, 2.0, len(sizes))
    by_query = ranker("lightgbm").fit(rows.X, rows.y, qid=rows.qid, sample_weight=weights)
    by_row = ranker("lightgbm").fit(
        rows.X, rows.y, qid=rows.qid, sample_weight=np.repeat(weights, sizes)
    )
    assert (
        by_query.model_.to_bytes()
        == by_row.model_.to_bytes()
        != fitted("lightgbm", rows).model_.to_bytes()
    )
    weighted = by_query.score(rows.X, rows.y, qid=rows.qid, sample_weight=weights)
    assert weighted != by_query.score(rows.X, rows.y, qid=rows.qid)
    with pytest.raises(DataError, match="weight zero"):
        ranker("lightgbm").fit(rows.X, rows.y, qid=rows.qid, sample_weight=np.zeros(len(sizes)))


def test_weights_that_differ_within_a_query_are_of_documents(rows: Rows) -> None:
    weights = np.linspace(0.0, 3.0, rows.y.size)
    estimator = ranker("lightgbm", gain="linear").fit(
        rows.X, rows.y, qid=rows.qid, sample_weight=weights
    )
    expected = fitted("lightgbm", replace(rows, y=rows.y * weights), gain="linear")
    np.testing.assert_array_equal(estimator.predict(rows.X), expected.predict(rows.X))
    with pytest.raises(DataError, match="sample_weight differs"):
        estimator.score(rows.X, rows.y, qid=rows.qid, sample_weight=weights)


def test_without_queries_all_rows_are_one_with_a_warning(rows: Rows, more: Rows) -> None:
    with pytest.warns(DataWarning, match=r"one query; .*qid="):
        estimator = ranker("lightgbm").fit(rows.X, rows.y)
    assert estimator.model_.info.data["queries"] == 1
    single_group = [rows.y.size]
    assert estimator.score(rows.X.tolist(), rows.y) == estimator.score(
        rows.X, rows.y, group=single_group
    )
    assert sorted(estimator.rank(rows.X)) == list(range(1, rows.y.size + 1))
    estimator = fitted("lightgbm", rows)
    with pytest.raises(DataError, match=r"queries.*enable_metadata_routing"):
        estimator.score(rows.X, rows.y)
    with pytest.raises(DataError, match=r"rank needs.*qid="):
        estimator.rank(rows.X)
    with pytest.raises(DataError, match="eval_set needs queries"):
        ranker("lightgbm").fit(rows.X, rows.y, qid=rows.qid, eval_set=[(more.X, more.y)])


def test_scattered_queries_are_refused_or_sorted(rows: Rows) -> None:
    mixed = rows[np.random.default_rng(0).permutation(rows.y.size)]
    with pytest.raises(DataError, match="sort=True"):
        fitted("lightgbm", mixed)
    estimator = fitted("lightgbm", mixed, sort=True)
    np.testing.assert_array_equal(
        estimator.predict(rows.X), estimator.predict(mixed.X)[_places(mixed, rows)]
    )
    assert estimator.score(mixed.X, mixed.y, qid=mixed.qid) == pytest.approx(
        estimator.set_params(sort=False).score(rows.X, rows.y, qid=rows.qid)
    )


def _places(mixed: Rows, rows: Rows) -> list[int]:
    where = {tuple(row): i for i, row in enumerate(mixed.X)}
    return [where[tuple(row)] for row in rows.X]


@pytest.mark.parametrize("backend", ENGINES)
def test_early_stopping_by_callback_and_by_parameter(backend: str, rows: Rows, more: Rows) -> None:
    watched = {"eval_set": [(more.X, more.y)], "eval_qid": [more.qid]}
    estimator = ranker(backend, n_estimators=40, eval_at=[5])
    callbacks = [lgb.early_stopping(2, verbose=False)]
    by_callback = copy.deepcopy(estimator).fit(
        rows.X, rows.y, qid=rows.qid, callbacks=callbacks, **watched
    )
    estimator.set_params(early_stopping_rounds=2).fit(rows.X, rows.y, qid=rows.qid, **watched)
    assert estimator.best_iteration_ == by_callback.best_iteration_ < 40
    values = estimator.evals_result_["valid_0"]["ndcg@5"]
    assert len(values) == estimator.best_iteration_ + 2
    assert estimator.best_score_["valid_0"]["ndcg@5"] == max(values)
    measured = estimator.score(more.X, more.y, qid=more.qid)
    # Of the leaves before they were rounded.
    assert measured == pytest.approx(max(values), abs=1e-3)


def test_validation_sets_as_they_are_given(rows: Rows, more: Rows) -> None:
    sizes = more.sizes

    def values(**arguments: Any) -> dict[str, Any]:
        estimator = ranker("lightgbm", eval_at=5).fit(rows.X, rows.y, qid=rows.qid, **arguments)
        return dict(estimator.evals_result_)

    # Alone or in lists, by query ids or sizes, with names.
    pair = (more.X, more.y)
    expected = values(eval_set=[pair], eval_qid=[more.qid])
    assert list(expected) == ["valid_0"]
    assert (
        values(eval_set=pair, eval_group=[sizes])
        == values(eval_set=[pair], eval_group=[sizes])
        == expected
    )
    by_name = values(
        eval_set=[(rows.X, rows.y), pair], eval_qid=[rows.qid, more.qid], eval_names=["seen", "new"]
    )
    assert list(by_name) == ["seen", "new"]
    assert by_name["new"] == expected["valid_0"]
    assert "training" in values(eval_set=[(rows.X, rows.y)], eval_qid=[rows.qid])
    # Weights and metrics of their own.
    weighted = values(
        eval_set=pair, eval_qid=[more.qid], eval_sample_weight=[np.arange(1, len(sizes) + 1)]
    )
    assert weighted != expected
    assert list(
        values(eval_set=pair, eval_qid=[more.qid], eval_metric="map", eval_at=3)["valid_0"]
    ) == ["map@3"]
    for ids in ([more.qid, more.qid], more.qid):
        with pytest.raises(ParameterError, match=rf"eval_qid .*{len(ids)} .*1 "):
            values(eval_set=pair, eval_qid=ids)
    with pytest.raises(ParameterError, match=r"eval_sample_weight .*eval_set"):
        values(eval_qid=[more.qid])


@pytest.mark.parametrize("backend", ENGINES)
def test_other_estimators_can_be_gone_on_with(backend: str, rows: Rows) -> None:
    first = fitted(backend, rows, objective="lambdarank")
    for init_model in (first, first.model_, first.booster_):
        estimator = ranker(backend, objective="lambdarank").fit(
            rows.X, rows.y, qid=rows.qid, init_model=init_model
        )
        assert estimator.best_iteration_ == 8
    stopped = ranker(backend, objective="lambdarank", n_estimators=30, early_stopping_rounds=3)
    stopped.fit(rows.X, rows.y, qid=rows.qid, eval_set=(rows.X[::-1], rows.y), eval_qid=[rows.qid])
    again = ranker(backend).fit(rows.X, rows.y, qid=rows.qid, init_model=stopped)
    assert again.best_iteration_ == stopped.best_iteration_ + 4 < 30
    if backend == "xgboost":
        xgb = pytest.importorskip("xgboost", reason="XGBoost is not installed")
        theirs = xgb.XGBRanker(n_estimators=3, base_score=0.0).fit(rows.X, rows.y, group=rows.sizes)
    else:
        theirs = lgb.LGBMRanker(n_estimators=3, verbosity=-1).fit(rows.X, rows.y, group=rows.sizes)
    continued = ranker(backend).fit(rows.X, rows.y, qid=rows.qid, init_model=theirs)
    assert continued.best_iteration_ == 7


def test_fit_hands_keywords_of_train_on(rows: Rows, more: Rows, tmp_path: Path) -> None:
    def size(scores: Any, dataset: Any) -> tuple[str, float, bool]:
        return "size", float(scores.size), True

    checkpoint = boostrank.Checkpoint(tmp_path / "state", every=2)
    estimator = ranker("lightgbm").fit(
        rows.X,
        rows.y,
        qid=rows.qid,
        eval_set=(more.X, more.y),
        eval_qid=[more.qid],
        feval=size,
        checkpoint=checkpoint,
    )
    assert estimator.evals_result_["valid_0"]["size"] == [more.y.size] * 4
    assert any(tmp_path.iterdir())


def test_importances_are_shares_of_the_features(rows: Rows) -> None:
    for backend in ENGINES:
        estimator = fitted(backend, rows, within_query="rank")
        gain = estimator.feature_importances_
        assert gain.shape == (4,)
        assert gain.sum() == pytest.approx(1.0)
        assert gain.argmin() == 3  # the one that tells nothing
        assert not np.array_equal(
            estimator.set_params(importance_type="split").feature_importances_, gain
        )
    trees = estimator.model_.trees()
    of_columns = trees.splits / trees.splits.sum()
    assert estimator.feature_importances_ == pytest.approx(of_columns[:4] + of_columns[4:])
    with pytest.raises(ParameterError, match=r"gain \| split"):
        estimator.set_params(importance_type="cover").feature_importances_  # noqa: B018


def test_before_fit_there_are_no_attributes_and_predict_raises() -> None:
    estimator = BoostRanker()
    for name in (
        "booster_",
        "best_iteration_",
        "best_score_",
        "evals_result_",
        "feature_importances_",
        "model_",
    ):
        assert not hasattr(estimator, name)
    for method, n_arguments in ((estimator.predict, 1), (estimator.rank, 1), (estimator.score, 2)):
        with pytest.raises(NotFittedError):
            method(*[np.zeros((2, 1))] * n_arguments)


@pytest.mark.parametrize("backend", [*ENGINES, "linear"])
def test_copies_score_the_same_bits(backend: str, rows: Rows, more: Rows) -> None:
    settings = (
        {"num_leaves": None, "verbosity": None}
        if backend == "linear"
        else {"early_stopping_rounds": 1}
    )
    estimator = ranker(backend, n_estimators=20, **settings).fit(
        rows.X, rows.y, qid=rows.qid, eval_set=(more.X, more.y), eval_qid=[more.qid]
    )
    # Through pickle, a copy, and joblib.
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    for copied in (
        pickle.loads(pickle.dumps(estimator, 5)),
        copy.deepcopy(estimator),
        joblib.load(file),
    ):
        np.testing.assert_array_equal(copied.predict(more.X), estimator.predict(more.X))
        for rounds in (0, 2):
            same = [of.model_.predict(more.X, num_iteration=rounds) for of in (copied, estimator)]
            np.testing.assert_array_equal(*same)
        assert copied.score(more.X, more.y, qid=more.qid) == estimator.score(
            more.X, more.y, qid=more.qid
        )
        assert copied.evals_result_ == estimator.evals_result_
        assert copied.best_iteration_ == estimator.best_iteration_
        assert copied.get_params() == estimator.get_params()


@pytest.mark.parametrize("backend", ENGINES)
def test_searches_score_by_query(backend: str, rows: Rows) -> None:
    cv, grid, frame = QueryKFold(2), {"num_leaves": [2, 6]}, framed(rows)
    expected = np.array(
        [_held_out(ranker(backend, num_leaves=n), rows, cv) for n in grid["num_leaves"]]
    )

    def check(search: GridSearchCV) -> None:
        scores = [search.cv_results_[f"split{i}_test_score"] for i in range(2)]
        np.testing.assert_allclose(np.transpose(scores), expected, rtol=1e-12)
        assert (
            search.best_params_["num_leaves"] == grid["num_leaves"][expected.mean(axis=1).argmax()]
        )

    # Query ids in the frame.
    check(GridSearchCV(ranker(backend), grid, cv=cv, error_score="raise").fit(frame, rows.y))
    np.testing.assert_allclose(
        cross_val_score(ranker(backend, num_leaves=2), frame, rows.y, cv=cv), expected[0]
    )
    # Query ids handed on by scikit-learn.
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(ranker(backend), grid, cv=cv, error_score="raise").fit(
            rows.X, rows.y, qid=rows.qid
        )
        check(search)
        assert search.score(rows.X, rows.y, qid=rows.qid) == search.best_estimator_.score(
            rows.X, rows.y, qid=rows.qid
        )
        for params in ({"qid": rows.qid}, {"qid": rows.qid, "groups": rows.qid}):
            arguments = ranker(backend, num_leaves=2), rows.X, rows.y
            scores = cross_validate(*arguments, cv=cv, params=params, error_score="raise")[
                "test_score"
            ]
            np.testing.assert_allclose(scores, expected[0], rtol=1e-12)
        halving = HalvingGridSearchCV(
            ranker(backend),
            grid | {"learning_rate": [0.1, 0.3]},
            cv=cv,
            resource="n_estimators",
            max_resources=6,
            error_score="raise",
        ).fit(rows.X, rows.y, qid=rows.qid)
        assert halving.n_resources_ == [2, 6]
        assert halving.best_estimator_.best_iteration_ == 6


def _held_out(estimator: BoostRanker, rows: Rows, cv: QueryKFold) -> list[float]:
    """Mean NDCG@10 over the queries of each fold, by `train` and `Metric` alone."""
    scores = []
    params = {
        name: estimator.get_params()[name]
        for name in ("num_leaves", "learning_rate", "verbosity", "n_jobs")
    }
    for train, test in cv.split(rows.X, groups=rows.qid):
        model = boostrank.train(params, as_dataset(rows[train]), 4, backend=estimator.backend)
        test_set = as_dataset(rows[test])
        scores.append(
            NDCG.evaluate(test_set.labels, model.predict(test_set), test_set.queries).mean
        )
    return scores


def test_halving_over_rows_is_refused(rows: Rows) -> None:
    search = HalvingGridSearchCV(
        ranker("lightgbm"), {"num_leaves": [2, 6]}, cv=QueryKFold(2), error_score="raise"
    )
    with pytest.raises(DataError, match="rows of a query"):
        search.fit(framed(rows), rows.y)


@pytest.mark.parametrize("backend", ENGINES)
def test_pipelines_pass_the_queries_on(backend: str, rows: Rows) -> None:
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), ranker(backend))
    pipe.fit(rows.X, rows.y, boostranker__qid=rows.qid)
    scaled = StandardScaler().fit_transform(rows.X)
    expected = ranker(backend).fit(scaled, rows.y, qid=rows.qid)
    np.testing.assert_array_equal(pipe.predict(rows.X), expected.predict(scaled))
    assert pipe[-1].feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = sklearn.base.clone(pipe).fit(rows.X, rows.y, qid=rows.qid)
        np.testing.assert_array_equal(routed.predict(rows.X), pipe.predict(rows.X))
        score = routed.score(rows.X, rows.y, qid=rows.qid)
        assert score == expected.score(scaled, rows.y, qid=rows.qid)
        if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
            return  # a search hands nothing on to a pipeline's score
        search = GridSearchCV(
            pipe, {"boostranker__num_leaves": [2, 6]}, cv=QueryKFold(2), error_score="raise"
        )
        assert search.fit(rows.X, rows.y, qid=rows.qid).best_score_ > 0.5
        whole = make_pipeline(StandardScaler(), ranker(backend, within_query="rank"))
        whole.fit(rows.X, rows.y, qid=rows.qid)
        assert whole.predict(rows.X, qid=rows.qid).shape == rows.y.shape


def test_weights_are_routed_where_they_are_asked_for(rows: Rows) -> None:
    weights = np.repeat(np.linspace(0.5, 2.0, len(rows.sizes)), rows.sizes)
    params = {"qid": rows.qid, "sample_weight": weights}
    with sklearn.config_context(enable_metadata_routing=True):
        asked = (
            ranker("lightgbm")
            .set_fit_request(sample_weight=True)
            .set_score_request(sample_weight=False)
        )
        results = cross_validate(
            asked, rows.X, rows.y, cv=QueryKFold(2), params=params, return_estimator=True
        )
        train, _ = next(QueryKFold(2).split(rows.X, qid=rows.qid))
        expected = ranker("lightgbm").fit(
            rows.X[train], rows.y[train], qid=rows.qid[train], sample_weight=weights[train]
        )
        assert results["estimator"][0].model_.to_bytes() == expected.model_.to_bytes()
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(ranker("lightgbm"), rows.X, rows.y, cv=QueryKFold(2), params=params)


def test_without_scikit_learn_the_rest_works_and_the_name_says_what_is_missing() -> None:
    code = (
        "import boostrank\nfrom boostrank import *\nassert train and RankingDataset\ntry:\n   "
        " boostrank.BoostRanker\nexcept boostrank.BoostrankError as error:\n    print(error)"
    )
    hidden = Path(__file__).parents[1] / "without_sklearn"
    path = os.pathsep.join([str(hidden), str(hidden.parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert "pip install 'boostrank[sklearn]'" in done.stdout, done.stderr


def test_no_warning_of_ours_where_nothing_is_wrong(rows: Rows) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator = fitted("xgboost", rows)
        estimator.score(rows.X, rows.y, qid=rows.qid)


@pytest.mark.parametrize(
    "params",
    [{"conventions": {}}, {"conventions": 3}, {"backend": 3}, {"max_trees": "x"}, {"metric": 3}],
)
def test_parameters_of_another_kind_are_refused_in_words(
    params: dict[str, Any], rows: Rows
) -> None:
    with pytest.raises(
        ParameterError, match=f"{next(iter(params))}.*{next(iter(params.values()))!r}"
    ):
        BoostRanker(**{**FAST, **params}).fit(rows.X, rows.y, qid=rows.qid)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"checkpoint": "x.cp"}, "checkpoint='x.cp': expected a Checkpoint"),
        ({"eval_set": [np.ones((3, 3))]}, "pairs"),
        ({"eval_set": [None]}, "pairs"),
        ({"eval_set": iter([])}, "pairs"),
        ({"feval": lambda scores, data: 3}, "feval must return .*, not 3"),
    ],
)
def test_arguments_of_another_kind_are_refused_in_words(
    arguments: dict[str, Any], match: str, rows: Rows
) -> None:
    sets = {"eval_set": [(rows.X, rows.y)], "eval_qid": [rows.qid]} if "feval" in arguments else {}
    with pytest.raises(ParameterError, match=match):
        BoostRanker(**FAST).fit(rows.X, rows.y, qid=rows.qid, **sets, **arguments)


def test_cut_offs_may_be_a_set_and_rankers_are_averaged(rows: Rows) -> None:
    ranker = BoostRanker(**FAST, eval_at={3}).fit(rows.X, rows.y, qid=rows.qid)
    assert 0 <= ranker.score(rows.X, rows.y, rows.qid) <= 1
    mean = boostrank.average([ranker, ranker.model_])
    np.testing.assert_allclose(mean.predict(rows.X), ranker.predict(rows.X), atol=1e-5)
    with pytest.raises(ParameterError, match="RankingModel"):
        boostrank.average([3])


def test_score_measures_at_the_cutoffs_of_the_training_under_any_name(
    rows: Rows, tmp_path: Path
) -> None:
    trained = fitted("lightgbm", rows, eval_at=[3])
    expected = trained.score(rows.X, rows.y, rows.qid)
    assert expected != fitted("lightgbm", rows).score(rows.X, rows.y, rows.qid)
    alias = fitted("lightgbm", rows, ndcg_eval_at=[3])
    assert alias.score(rows.X, rows.y, rows.qid) == expected
    trained.save_model(tmp_path / "model.txt")
    loaded = ranker("lightgbm", ndcg_at="3")
    loaded.load_model(tmp_path / "model.txt")
    assert loaded.score(rows.X, rows.y, rows.qid) == expected


def test_arguments_of_fit_replace_parameters_under_any_name(rows: Rows, more: Rows) -> None:
    stopping = ranker("lightgbm", ndcg_eval_at=[3], early_stopping_round=1, metric="map")
    watched = {"eval_set": [(more.X, more.y)], "eval_qid": [more.qid]}
    stopping.fit(
        rows.X,
        rows.y,
        qid=rows.qid,
        eval_at=[5],
        early_stopping_rounds=50,
        eval_metric="mrr",
        **watched,
    )
    assert [*stopping.evals_result_["valid_0"]] == ["mrr@5"]
    assert len(stopping.evals_result_["valid_0"]["mrr@5"]) == FAST["n_estimators"]


def test_rounds_are_counted_under_any_name() -> None:
    assert BoostRanker(num_iterations=7).get_num_boosting_rounds() == 7
    assert BoostRanker().get_num_boosting_rounds() == 100


def test_score_needs_no_names_of_documents(rows: Rows) -> None:
    trained = fitted("lightgbm", rows, conventions="trec")
    rules = replace(boostrank.Conventions.of("trec"), ties="expected")
    result = NDCG.evaluate(
        rows.y, trained.predict(rows.X), boostrank.QueryIndex.from_ids(rows.qid), rules
    )
    assert trained.score(rows.X, rows.y, rows.qid) == result.mean


def test_score_computes_gains_over_names_and_categories_of_fit(rows: Rows) -> None:
    gain = "label + exp(red)"
    trained = ranker("lightgbm", gain=gain)
    trained.fit(rows.X, rows.y, qid=rows.qid, feature_name=COLUMNS)
    frame = pd.DataFrame(rows.X, columns=COLUMNS)
    expected = ranker("lightgbm", gain=gain).fit(frame, rows.y, qid=rows.qid)
    assert trained.score(rows.X, rows.y, rows.qid) == expected.score(frame, rows.y, rows.qid)
    frame["kind"] = np.where(rows.X[:, 0] > 0, "wide", "narrow")
    by_kind = ranker("lightgbm", gain=gain)
    by_kind.fit(frame, rows.y, qid=rows.qid, categorical_feature=["kind"])
    assert 0.0 < by_kind.score(frame, rows.y, rows.qid) <= 1.0


def test_positions_of_categories_count_the_columns_of_x(rows: Rows) -> None:
    frame = pd.DataFrame(rows.X, columns=COLUMNS)
    frame["kind"] = np.where(rows.X[:, 0] > 0, "wide", "narrow")
    histories = []
    for columns in (COLUMNS, COLUMNS[::-1]):
        trained = ranker("lightgbm")
        valid = frame[["kind", *columns]]
        options = {"eval_set": [(valid, rows.y)], "eval_qid": [rows.qid]}
        trained.fit(frame, rows.y, qid=rows.qid, categorical_feature=[4], **options)
        histories.append(trained.evals_result_)
    assert histories[0] == histories[1]
