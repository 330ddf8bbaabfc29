"""What users of LightGBM and XGBoost hand over: boosters, arrays of query ids, objectives inside
their own calls.
"""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.objective.mixture import parse_objective
from tests.cli.conftest import invoke
from tests.fit.conftest import FAST, make_dataset


def test_boosters_are_compared_by_the_rounds_that_they_predict_with() -> None:
    data = make_dataset(1)
    X, y, sizes = np.asarray(data.features), data.labels, data.queries.sizes
    first = lgb.train(FAST | {"objective": "lambdarank"}, lgb.Dataset(X, y, group=sizes), 4)
    first.best_iteration = 2
    second = xgb.train({"objective": "rank:ndcg", "nthread": 1}, xgb.DMatrix(X, y, group=sizes), 2)
    comparison = boostrank.compare(first, second, data, "ndcg@5")
    by_scores = boostrank.compare(first.predict(X), second.predict(xgb.DMatrix(X)), data, "ndcg@5")
    assert comparison.metrics["ndcg@5"] == by_scores.metrics["ndcg@5"]
    assert first.predict(X, num_iteration=4).tolist() != first.predict(X).tolist()


def test_queries_come_as_ids_or_sizes() -> None:
    data, metric = make_dataset(1), boostrank.Metric("ndcg", (5,))
    scores = data.labels + np.random.default_rng(0).normal(size=data.n_documents)
    expected = metric.evaluate(data.labels, scores, data.queries).mean
    for queries in (
        data.queries.row_ids(),
        data.queries.row_ids().astype(str),
        data.queries.sizes.tolist(),
    ):
        assert metric.evaluate(data.labels, scores, queries).mean == expected
    with pytest.raises(DataError, match=r"group sizes .*1200"):
        metric.evaluate(data.labels, scores, [600, 599])
    with pytest.raises(DataError, match="from_ids"):
        QueryIndex.of(np.ones(3, int), 3)


@pytest.mark.parametrize(
    ("options", "suggested"),
    [
        ({"start": "liner"}, "linear"),
        ({"backend": "lightgmb"}, "lightgbm"),
        ({"quality": "god"}, "good"),
        ({"conventions": "sklern"}, "sklearn"),
    ],
)
def test_a_word_that_is_nearly_one_is_recognised(options: dict[str, Any], suggested: str) -> None:
    with pytest.raises(ParameterError, match=f"Did you mean '{suggested}'"):
        boostrank.train({"objective": "regression", **FAST}, make_dataset(0), 1, **options)


def test_the_command_lists_the_starts() -> None:
    done = invoke("train", __file__, "-m", "model.txt", "--start", "liner")
    assert (done.exit_code, "'linear'" in done.stderr) == (2, True)


def test_auto_alone_names_its_mixture() -> None:
    with pytest.raises(ParameterError, match=r"boostrank\.Mixture\('lambdarank', 'xe-ndcg'\)"):
        boostrank.Objective("auto")
    assert boostrank.Mixture("lambdarank", "xe-ndcg").to_dict() == parse_objective("auto").to_dict()


def test_cross_validation_that_cuts_queries_is_refused() -> None:
    data = make_dataset(0)
    X, y, ids = np.asarray(data.features), data.labels, data.queries.row_ids()
    params = FAST | {"objective": boostrank.Objective("sdcg"), "metric": "ndcg"}

    def make_lightgbm_dataset() -> lgb.Dataset:
        return lgb.Dataset(X, y, group=data.queries.sizes)

    for options in ({}, {"stratified": False}):
        with pytest.raises(DataError, match=r"cuts 60 of 60 queries.*folds"):
            lgb.cv(params, make_lightgbm_dataset(), 1, nfold=3, **options)
    halves = [(np.flatnonzero(ids % 2 == side), np.flatnonzero(ids % 2 != side)) for side in (0, 1)]
    assert lgb.cv(params, make_lightgbm_dataset(), 2, folds=halves)["valid ndcg@1-mean"]


def test_cross_validation_of_xgboost_keeps_queries_whole() -> None:
    data, sizes = make_dataset(0), []
    objective = boostrank.Objective("sdcg")

    def watched(scores: Any, matrix: xgb.DMatrix) -> Any:
        sizes.append(np.diff(matrix.get_uint_info("group_ptr")))
        return objective(scores, matrix)

    matrix = xgb.DMatrix(np.asarray(data.features), data.labels, group=data.queries.sizes)
    xgb.cv({"nthread": 1}, matrix, 1, nfold=3, obj=watched, custom_metric=lambda *_: ("none", 0.0))
    assert [group_sizes.tolist() for group_sizes in sizes] == [[20] * 40] * 3
