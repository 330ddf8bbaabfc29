"""An objective by itself, in the engines' own training functions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.objective.bound import BoundObjective
from tests.fit.conftest import make_dataset

QUIET = {"verbosity": -1, "metric": "None", "num_leaves": 7}


@pytest.fixture
def rounds(monkeypatch: Any) -> list[int]:
    """Every round at which a gradient was computed."""
    seen: list[int] = []
    original = BoundObjective.gradient

    def gradient(self: Any, scores: Any, round: int, **options: Any) -> Any:
        seen.append(round)
        return original(self, scores, round, **options)

    monkeypatch.setattr(BoundObjective, "gradient", gradient)
    return seen


def test_lgb_train_knows_the_round_on_continuation_too(rounds: list[int]) -> None:
    data = make_dataset()
    dataset = lgb.Dataset(data.features, data.labels, group=data.queries.sizes, free_raw_data=False)
    objective = boostrank.ShfSdcg(sigma=0.5)
    first = lgb.train({"objective": objective, **QUIET}, dataset, 3)
    again = lgb.train({"objective": objective, **QUIET}, dataset, 2, init_model=first)
    lgb.train({"objective": objective, **QUIET}, dataset, 1)
    assert rounds == [0, 1, 2, 3, 4, 0]
    assert again.current_iteration() == 5


def test_xgb_train_knows_the_round_on_continuation_too(rounds: list[int]) -> None:
    data = make_dataset()
    matrix = xgb.DMatrix(data.features, data.labels, group=data.queries.sizes)
    objective = boostrank.ShfSdcg(sigma=0.5)
    first = xgb.train({"base_score": 0}, matrix, 3, obj=objective)
    xgb.train({"base_score": 0}, matrix, 2, obj=objective, xgb_model=first)
    assert rounds == [0, 1, 2, 3, 4]


def test_lgbm_ranker_takes_an_objective_with_groups_and_weights(rounds: list[int]) -> None:
    data = make_dataset()
    ranker = lgb.LGBMRanker(
        objective=boostrank.ApproxNDCG(), n_estimators=3, num_leaves=7, verbose=-1
    )
    ranker.fit(data.features, data.labels, group=data.queries.sizes)
    continued = lgb.LGBMRanker(
        objective=boostrank.ApproxNDCG(), n_estimators=2, num_leaves=7, verbose=-1
    )
    continued.fit(data.features, data.labels, group=data.queries.sizes, init_model=ranker.booster_)
    assert rounds == [0, 1, 2, 3, 4]
    weights = np.repeat(
        np.random.default_rng(0).uniform(0.1, 2, len(data.queries)), data.queries.sizes
    )
    weighted = lgb.LGBMRanker(
        objective=boostrank.ApproxNDCG(), n_estimators=3, num_leaves=7, verbose=-1
    )
    weighted.fit(data.features, data.labels, group=data.queries.sizes, sample_weight=weights)
    assert np.abs(weighted.predict(data.features) - ranker.predict(data.features)).max() > 1e-4


@pytest.mark.usefixtures("leaves_as_grown_here")
def test_standalone_and_boostrank_train_are_the_same_training() -> None:
    data = make_dataset()
    dataset = lgb.Dataset(data.features, data.labels, group=data.queries.sizes)
    params = {**QUIET, "deterministic": True, "force_col_wise": True}
    alone = lgb.train({"objective": boostrank.ShfSdcg(sigma=0.5), **params}, dataset, 5)
    ours = boostrank.train({"objective": "shf-sdcg", "sigma": 0.5, **params}, data, 5)
    np.testing.assert_array_equal(alone.predict(data.features), ours.predict(data))


def test_lgb_cv_keeps_the_folds_apart() -> None:
    data = make_dataset()
    dataset = lgb.Dataset(data.features, data.labels, group=data.queries.sizes, free_raw_data=False)

    def ndcg(scores: Any, fold: Any) -> tuple[str, float, bool]:
        sizes = fold.get_group()
        queries = boostrank.QueryIndex.from_sizes(sizes)
        return (
            "ndcg@5",
            boostrank.Metric.parse("ndcg@5").evaluate(fold.get_label(), scores, queries).mean,
            True,
        )

    of_row = data.queries.of_rows() % 3
    folds = [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in range(3)]
    result = lgb.cv(
        {"objective": boostrank.ShfSdcg(), **QUIET}, dataset, 10, folds=folds, feval=ndcg
    )
    curve = result["valid ndcg@5-mean"]
    assert curve[-1] > curve[0]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_and_pickles_compute_the_same(duplicate: Any) -> None:
    data = make_dataset()
    objective = boostrank.RegShfSdcg(total_rounds=10, sigma=0.3)
    scores = np.random.default_rng(1).normal(size=data.n_documents)
    expected = objective.bind(data.labels, data.queries).gradient(scores, 5)
    grad, hess = expected.grad.copy(), expected.hess.copy()
    copied = duplicate(objective).bind(data.labels, data.queries).gradient(scores, 5)
    np.testing.assert_array_equal(copied.grad, grad)
    np.testing.assert_array_equal(copied.hess, hess)
    assert repr(duplicate(objective)) == repr(objective)


def test_a_schedule_over_an_unknown_length_is_refused_with_what_to_say() -> None:
    data = make_dataset()
    dataset = lgb.Dataset(data.features, data.labels, group=data.queries.sizes)
    with pytest.raises(ParameterError, match="total_rounds"):
        lgb.train({"objective": boostrank.RegShfSdcg(), **QUIET}, dataset, 2)


def test_new_labels_in_the_same_data_are_seen() -> None:
    data = make_dataset()
    matrix = xgb.DMatrix(data.features, data.labels, group=data.queries.sizes)
    objective, params = boostrank.ShfSdcg(), {"base_score": 0, "nthread": 1}
    xgb.train(params, matrix, 2, obj=objective)
    matrix.set_label(3 - data.labels)
    again = xgb.train(params, matrix, 2, obj=objective).predict(matrix)
    np.testing.assert_array_equal(
        again, xgb.train(params, matrix, 2, obj=boostrank.ShfSdcg()).predict(matrix)
    )


def test_a_schedule_longer_than_one_stage_is_kept() -> None:
    data = make_dataset()
    objective = boostrank.ShfSdcg(sigma="geometric(8, 0.5)", total_rounds=20)
    model = boostrank.train({"objective": objective, **QUIET}, data, 5)
    assert model.info["objective"]["total_rounds"] == 20
    assert (
        boostrank.train({"objective": "shf-sdcg", **QUIET}, data, 5).info["objective"][
            "total_rounds"
        ]
        == 5
    )


def test_without_groups_nothing_is_trained() -> None:
    data = make_dataset()
    with pytest.raises(DataError, match="no queries"):
        lgb.train(
            {"objective": boostrank.ShfSdcg(), **QUIET}, lgb.Dataset(data.features, data.labels), 2
        )


def test_an_unknown_constructor_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Shfsdcgg"):
        _ = boostrank.Shfsdcgg
