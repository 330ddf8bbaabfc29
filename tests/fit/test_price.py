"""Models and averages cut to a number of trees."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, RankingModel
from boostrank.core.errors import ParameterError
from boostrank.fit.tree_limit import cap_trees
from boostrank.model.averaging import count_trees
from tests.fit.conftest import make_short_lists, train_folds

PARAMS: dict[str, Any] = {
    "verbosity": -1,
    "num_threads": 1,
    "eval_at": [3],
    "early_stopping_round": 30,
    "seed": 7,
    "num_leaves": 5,
    "min_sum_hessian_in_leaf": 3.0,
    "metric": "ndcg",
    "objective": "auto",
}
pytestmark = pytest.mark.usefixtures("leaves_as_grown")


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_short_lists(60, 3)


@pytest.fixture(scope="module")
def models(data: RankingDataset) -> list[RankingModel]:
    return train_folds(PARAMS, data, 20)[1]


def file_trees(model: RankingModel) -> int:
    return model.to_bytes().count(b"\nTree=")


def test_models_of_an_average_are_cut_to_the_most_rounds_that_fit(
    data: RankingDataset, models: list[RankingModel]
) -> None:
    start, rounds = models[0].tree_counts.start, [model.best_iteration for model in models]
    assert min(rounds) < max(rounds)
    for cap in range(1, max(rounds) + 1):
        trees = start + sum(min(cap, model_rounds) for model_rounds in rounds)
        for spare in (0, 1):  # one tree more is a round of none
            kept_rounds = [model.best_iteration for model in cap_trees(models, trees + spare)[0]]
            assert sum(kept_rounds) <= trees + spare - start
            assert kept_rounds == [min(max(kept_rounds), model_rounds) for model_rounds in rounds]
            assert max(kept_rounds) >= min(cap, max(rounds))
    with pytest.raises(
        ParameterError, match=f"max_trees={start + 2} .* {start + 3} trees.* {start} "
    ):
        cap_trees(models, start + 2)


def test_the_file_of_an_average_has_the_trees_it_says(
    data: RankingDataset, models: list[RankingModel]
) -> None:
    whole = boostrank.train(PARAMS, data, 20, folds=3)
    start = models[0].tree_counts.start
    assert file_trees(whole) == count_trees(whole)
    assert whole.info.price is None
    cut = boostrank.train(PARAMS, data, 20, folds=3, max_trees=start + 8)
    assert file_trees(cut) == count_trees(cut) == start + 6
    assert cut.info.price == {"trees": start + 6, "max_trees": start + 8}
    mean = np.mean([model.predict(data, num_iteration=2) for model in models], axis=0)
    np.testing.assert_allclose(cut.predict(data), mean, atol=1e-12)
    assert cut.info["folds"]["rounds"] == [2, 2, 2]
    inside = [value["value"] for value in cut.info["folds"]["held_out"].values()]
    assert inside != [value["value"] for value in whole.info["folds"]["held_out"].values()]


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_a_start_of_too_many_trees_is_refused_before_the_first_round(
    data: RankingDataset, backend: str
) -> None:
    rounds: list[int] = []
    few = {"objective": "auto", "num_leaves": 4, "num_threads": 1, "verbosity": -1}

    def trained(max_trees: int) -> RankingModel:
        watch = [lambda env: rounds.append(env.iteration)]
        return boostrank.train(few, data, 2, backend=backend, callbacks=watch, max_trees=max_trees)

    with pytest.raises(ParameterError, match=r"max_trees=1 .*at least") as refused:
        trained(1)
    start = int(re.search(r"including (\d+)", str(refused.value))[1])  # type: ignore[index]
    with pytest.raises(ParameterError, match=f"at least {start + 1}"):
        trained(start)
    assert rounds == []
    model = trained(start + 1)
    assert model.tree_counts.start == start
    assert count_trees(model) == start + 1


def test_a_limit_below_a_tree_for_each_fold_ends_after_the_first(data: RankingDataset) -> None:
    begun: list[int] = []

    def watch(env: Any) -> None:
        begun.append(env.iteration == env.begin_iteration)

    params = PARAMS | {"objective": "xe-ndcg"}
    with pytest.raises(ParameterError, match=r"max_trees=2 .*at least 3"):
        boostrank.train(params, data, 2, folds=3, max_trees=2, callbacks=[watch])
    assert sum(begun) == 1


def test_a_model_that_is_continued_needs_room_for_a_tree(data: RankingDataset) -> None:
    params = {"objective": "xe-ndcg", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    model = boostrank.train(params, data, 5)
    rounds: list[int] = []
    watch = [lambda env: rounds.append(env.iteration)]
    with pytest.raises(ParameterError, match=r"max_trees=5 .* 6 trees.* 5 of init_model"):
        boostrank.train(params, data, 5, init_model=model, max_trees=5, callbacks=watch)
    assert rounds == []
    continued = boostrank.train(params, data, 5, init_model=model, max_trees=6)
    assert count_trees(continued) == 6


def test_fewer_trees_than_a_start_has_are_refused(
    data: RankingDataset, models: list[RankingModel]
) -> None:
    start, each = models[0].tree_counts
    assert each == 1
    assert start > 1
    with pytest.raises(ParameterError, match=f"max_trees={start}"):
        cap_trees([models[0]], start)
    (cut,), price = cap_trees([models[0]], start + 1)
    assert file_trees(cut) == count_trees(cut) == start + 1
    assert price == {"trees": start + 1, "max_trees": start + 1}


def test_the_start_of_an_average_counts_each_feature_of_its_models(data: RankingDataset) -> None:
    # Each added feature occurs in one query, so the model without that query does not start with it.
    queries = data.queries
    one_query_each = np.zeros((data.n_documents, 12), np.float32)
    for column, (first, last) in enumerate(pairwise(queries.ptr[:13])):
        one_query_each[first:last, column] = np.arange(last - first)
    features = np.hstack([data.features, one_query_each])
    wider = RankingDataset(features, data.labels, queries)
    options: dict[str, Any] = {"num_boost_round": 20, "quality": "good", "start": "linear"}
    start = boostrank.train(PARAMS, wider, **options).tree_counts.start
    for limit in (start + 6, start + 7):
        model = boostrank.train(PARAMS, wider, max_trees=limit, **options)
        assert file_trees(model) <= limit
        assert model.info.price == {"trees": file_trees(model), "max_trees": limit}


def test_xgboost_counts_as_many(data: RankingDataset) -> None:
    pytest.importorskip("xgboost")
    params = {"objective": "auto", "num_leaves": 5, "num_threads": 1, "seed": 7}
    _, [first, _] = train_folds(params, data, 4, folds=2, backend="xgboost")
    start, each = first.tree_counts
    assert (start > 1, each) == (True, 1)
    (cut,), _ = cap_trees([first], start + 2)
    assert cut.best_iteration == 2


def test_limits_that_cannot_be_kept_are_refused(data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match="max_trees=0"):
        boostrank.train(PARAMS, data, 2, max_trees=0)
    with pytest.raises(ParameterError, match="backend='linear' "):
        boostrank.train({}, data, 2, backend="linear", max_trees=5)
