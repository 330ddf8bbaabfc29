"""A model for each fold, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boostrank import RankingDataset, RankingModel, train, train_folds
from boostrank.core.errors import ParameterError
from boostrank.metric import BoundMetrics
from boostrank.training.query_folds import query_folds
from tests.tuning.test_tuning import made

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

PARAMS: dict[str, Any] = {
    "objective": "regression", "verbosity": -1, "num_threads": 1, "min_sum_hessian_in_leaf": 3.0, "eval_at": [3, 5],
    "feature_fraction": 0.6, "early_stopping_round": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return made(50, 2)


def test_folds_hold_out_each_query_once_and_cut_none(data: RankingDataset) -> None:
    parts = query_folds(data, 4, 7)
    assert sorted(np.concatenate([inside.queries.qid for _, inside in parts])) == sorted(data.queries.qid)
    for outside, inside in parts:
        assert not set(outside.queries.qid) & set(inside.queries.qid)
        assert outside.n_documents + inside.n_documents == data.n_documents
        assert len(inside.queries) in (12, 13)


def test_the_model_is_the_mean_of_trainings_that_stop_on_their_folds(data: RankingDataset) -> None:
    seen: list[RankingModel] = []
    one = train_folds(PARAMS | {"seed": 7}, data, 40, folds=3, after=lambda k, model: seen.append(model) is None)
    parts, held = [], []
    for k, (outside, inside) in enumerate(query_folds(data, 3, 7)):
        model = train(PARAMS | {"seed": 7 + k}, outside, 40, valid_sets=[inside])
        parts.append(model)
        held.append(BoundMetrics(["ndcg@5"], inside.labels, inside.queries).per_query(model.predict(inside))["ndcg@5"])
    mean = np.mean([model.predict(data) for model in parts], axis=0)
    np.testing.assert_allclose(one.predict(data), mean, atol=1e-12)
    record = one.info["folds"]
    assert record["rounds"] == [model.best_iteration for model in parts] == [model.best_iteration for model in seen]
    assert min(record["rounds"]) < 40
    values = np.concatenate(held)
    counted = values[~np.isnan(values)]
    assert record["held_out"]["ndcg@5"]["value"] == pytest.approx(counted.mean(), abs=1e-12)
    assert record["held_out"]["ndcg@5"]["queries"] == counted.size
    assert record["held_out"]["ndcg@5"]["low"] < counted.mean() < record["held_out"]["ndcg@5"]["high"]
    assert set(record["held_out"]) == {"ndcg@3", "ndcg@5"}


def test_it_can_be_ended_after_a_fold(data: RankingDataset) -> None:
    one = train_folds(PARAMS, data, 5, folds=4, after=lambda k, model: k < 1)
    assert len(one.info["folds"]["rounds"]) == 2
    assert one.best_iteration == sum(one.info["folds"]["rounds"])


@pytest.mark.parametrize("folds", [1, 51])
def test_numbers_of_folds_that_cannot_be_are_refused(data: RankingDataset, folds: int) -> None:
    with pytest.raises(ParameterError, match=f"folds={folds}: from 2 to the number of training queries, 50"):
        train_folds(PARAMS, data, folds=folds)
