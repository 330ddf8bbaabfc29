"""Ensembles cut to a number of trees."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, RankingModel, train_folds
from boostrank.core.errors import ParameterError
from boostrank.core.types import Float64Array
from boostrank.metric import BoundMetrics
from boostrank.training import price
from boostrank.training.averaging import average
from boostrank.training.price import Limit, Member, Prices, count_trees, limited, microseconds, tree_counts
from boostrank.training.query_folds import fold_numbers
from tests.tuning.test_tuning import made

FOLDS = 3
PARAMS: dict[str, Any] = {
    "verbosity": -1, "num_threads": 1, "eval_at": [3], "early_stopping_round": 30, "seed": 7, "num_leaves": 5,
    "min_sum_hessian_in_leaf": 3.0, "metric": "ndcg",
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("leaves_as_grown")


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return made(60, 3)


def member(name: str, data: RankingDataset, rounds: int, weight: float = 1.0, **params: Any) -> Member:
    models: dict[int, RankingModel] = {}
    fold, scores = np.repeat(dealt(data), data.queries.sizes), np.full(data.n_documents, np.nan)

    def keep(k: int, model: RankingModel) -> bool:
        models[k] = model
        scores[fold == k] = model.predict(data)[fold == k]
        return True

    train_folds(PARAMS | params, data, rounds, folds=FOLDS, after=keep)
    return Member(name, models, scores, weight)


def dealt(data: RankingDataset) -> Any:
    return fold_numbers(data, FOLDS, 7) % FOLDS


def metric(data: RankingDataset) -> Callable[[Float64Array], Float64Array]:
    bound = BoundMetrics(["ndcg@3"], data.labels, data.queries, threads=1)
    return lambda scores: bound.per_query(scores)["ndcg@3"]


@pytest.fixture(scope="module")
def members(data: RankingDataset) -> list[Member]:
    return [
        member("auto", data, 20, 0.25, objective="auto"),
        member("regression", data, 20, 0.75, objective="regression", learning_rate=0.3),
    ]


@pytest.fixture(scope="module")
def prices(data: RankingDataset, members: list[Member]) -> Prices:
    return Prices(members, data, dealt(data), metric, 1)


def file_trees(model: RankingModel) -> int:
    return model.to_bytes().count(b"\nTree=")


@pytest.mark.parametrize("trees", [400, 60, 31, 14, 3, 2])
def test_the_file_of_a_cut_has_the_trees_it_says(data: RankingDataset, prices: Prices, trees: int) -> None:
    cut = prices.at(trees)
    models, weights = prices.models(cut)
    one = average(models, weights)
    assert file_trees(one) == cut.trees <= trees
    assert cut.single or trees >= FOLDS
    assert cut.value == pytest.approx(np.nanmean(cut.per_query), abs=1e-12)


def test_whatever_fits_is_the_whole(prices: Prices, members: list[Member]) -> None:
    cut = prices.at(prices.whole.trees)
    assert sorted(cut.members) == [0, 1]
    assert {id(model) for model in prices.models(cut)[0]} == {id(m) for one in members for m in one.models.values()}
    assert prices.at(prices.whole.trees - 1).trees < prices.whole.trees


def test_a_cut_is_worth_what_its_models_score_where_they_were_held_out(
    data: RankingDataset, prices: Prices, members: list[Member]
) -> None:
    cut = prices.at(prices.whole.trees // 2)
    fold, together = np.repeat(dealt(data), data.queries.sizes), np.zeros(data.n_documents)
    for i in cut.members:
        held = np.zeros(data.n_documents)
        for k, model in members[i].models.items():
            rounds = min(cut.rounds, model.best_iteration)
            held[fold == k] = model.predict(data, num_iteration=rounds)[fold == k]
        centred = held - np.repeat(
            np.add.reduceat(held, data.queries.ptr[:-1]) / data.queries.sizes, data.queries.sizes
        )
        together += members[i].weight * held / np.sqrt(np.mean(centred**2))
    assert cut.value == pytest.approx(float(np.nanmean(metric(data)(together))), abs=1e-12)


def test_members_of_a_cut_weigh_what_they_did(data: RankingDataset, members: list[Member]) -> None:
    prices = Prices(members, data, dealt(data), metric, 1)
    cut = prices.whole
    one = average(*prices.models(cut)).predict(data)
    expected = np.zeros(data.n_documents)
    for i, member in enumerate(members):
        own = member.scores
        centred = own - np.repeat(np.add.reduceat(own, data.queries.ptr[:-1]) / data.queries.sizes, data.queries.sizes)
        mean = sum(model.predict(data) for model in member.models.values())
        expected += prices.members[i].weight * mean / np.sqrt(np.mean(centred**2))
    assert np.corrcoef(one, expected)[0, 1] == pytest.approx(1.0, abs=1e-9)


def test_the_best_of_all_sets_of_members_is_taken(data: RankingDataset, members: list[Member]) -> None:
    """Of a metric that one member alone does well by."""
    likes = members[0].scores

    def values(scores: Float64Array) -> Float64Array:
        return np.array([-np.abs(scores[a:b] - likes[a:b]).sum() for a, b in pairwise(data.queries.ptr)])

    prices = Prices(members, data, dealt(data), lambda _: values, 1)
    assert prices.at(prices.whole.trees - 1).members == (0,)


def test_one_model_whose_rounds_go_further_is_taken_where_it_is_better_beyond_noise(data: RankingDataset) -> None:
    slow = member("slow", data, 90, objective="regression", learning_rate=0.3, num_leaves=2, early_stopping_round=90)
    prices = Prices([slow], data, dealt(data), metric, 1)
    longest = max(model.best_iteration for model in slow.models.values())
    assert longest > 60
    by_rounds = {rounds: prices._cut((0,), rounds).value for rounds in (1, 2, longest)}
    assert by_rounds[1] < by_rounds[2] < by_rounds[longest]
    few = prices.at(FOLDS * 2)
    assert few.single
    assert few.trees == FOLDS * 2
    assert not prices.at(FOLDS * 40).single
    models, weights = prices.models(few)
    assert weights is None
    assert [model.best_iteration for model in models] == [FOLDS * 2]


def test_the_curve_ends_on_the_whole(prices: Prices) -> None:
    curve = prices.curve()
    trees = [cut.trees for cut in curve]
    assert trees == sorted(set(trees))
    assert trees[-1] == prices.whole.trees
    assert len(trees) > 3
    assert all(cut.trees <= prices.whole.trees >> i for i, cut in enumerate(curve[::-1]))
    record = prices.record(curve[-1])
    assert record == {
        "trees": prices.whole.trees, "value": prices.whole.value, "rounds": curve[-1].rounds,
        "of": ["regression", "auto"], "single": False,
    }  # fmt: skip


def test_the_curve_of_many_rows_is_that_of_a_sample(
    data: RankingDataset, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price, "_CURVE_ROWS", data.n_documents // 2)
    seen: list[int] = []

    def bind(part: RankingDataset) -> Callable[[Float64Array], Float64Array]:
        seen.append(len(part.queries))
        return metric(part)

    prices = Prices(members, data, dealt(data), bind, 1)
    curve = prices.curve()
    assert seen == [60, 29]
    chosen = data.queries.sample(data.n_documents // 2, 0)
    assert curve[-1].trees == prices.whole.trees
    assert curve[-1].value == pytest.approx(np.nanmean(prices.whole.per_query[chosen]), abs=0.05)
    monkeypatch.setattr(price, "_CURVE_ROWS", data.n_documents)
    assert prices.curve()[-1].value == prices.whole.value != curve[-1].value


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_a_start_of_too_many_trees_is_refused_before_the_first_round(data: RankingDataset, backend: str) -> None:
    rounds: list[int] = []
    few = {"objective": "auto", "num_leaves": 4, "num_threads": 1, "verbosity": -1}

    def trained(max_trees: int) -> RankingModel:
        watch = [lambda env: rounds.append(env.iteration)]
        return boostrank.train(few, data, 2, backend=backend, callbacks=watch, max_trees=max_trees)

    with pytest.raises(ParameterError, match="max_trees=1: the model has at least") as refused:
        trained(1)
    start = int(re.search(r"of which (\d+)", str(refused.value))[1])  # type: ignore[index]
    with pytest.raises(ParameterError, match=f"at least {start + 1}"):
        trained(start)
    assert rounds == []
    model = trained(start + 1)
    assert tree_counts(model)[0] == start
    assert count_trees(model) == start + 1


def test_fewer_trees_than_a_start_has_are_refused(data: RankingDataset, members: list[Member]) -> None:
    start, each = tree_counts(members[0].models[0])
    assert each == 1
    assert start > 1
    prices = Prices(members[:1], data, dealt(data), metric, 1)
    assert prices.at(start + 1).single
    with pytest.raises(ParameterError, match=f"max_trees={start}: .* at least {start + 1}, of which {start} .* start="):
        prices.at(start)
    with pytest.raises(ParameterError, match=f"max_trees={start}"):
        limited(members[0].models[0], Limit(start), data)
    cut = limited(members[0].models[0], Limit(start + 3), data)
    assert file_trees(cut) == count_trees(cut) == start + 3
    assert cut.info.price == {"trees": start + 3, "max_trees": start + 3}


def test_xgboost_counts_as_many(data: RankingDataset) -> None:
    pytest.importorskip("xgboost")
    models: list[RankingModel] = []

    def keep(_: int, model: RankingModel) -> bool:
        models.append(model)
        return True

    train_folds(
        {"objective": "auto", "num_leaves": 5, "num_threads": 1, "seed": 7},
        data,
        4,
        folds=2,
        backend="xgboost",
        after=keep,
    )
    start, each = tree_counts(models[0])
    assert (start > 1, each) == (True, 1)
    assert limited(models[0], Limit(start + 2), data).best_iteration == 2


def test_a_limit_of_time_comes_to_trees_that_repeat_it(
    data: RankingDataset, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = members[1].models[0]
    assert microseconds(model, data) > 0.0
    monkeypatch.setattr(price, "microseconds", lambda model, data: 2.0 * count_trees(model))
    cut = limited(model, Limit(microseconds=13.0), data)
    assert cut.info.price == {"trees": 6, "max_trees": 6, "max_microseconds": 13.0}
    assert file_trees(cut) == 6
    assert limited(model, Limit(6), data).to_bytes() == cut.to_bytes()
    assert limited(model, Limit(4, 13.0), data).best_iteration == 4
    with pytest.raises(ParameterError, match=r"max_microseconds=1\.9: a tree takes 2 here"):
        limited(model, Limit(microseconds=1.9), data)


def test_limits_that_cannot_be_kept_are_refused(data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match="max_trees=0"):
        Limit(0)
    with pytest.raises(ParameterError, match="backend='linear' have no trees"):
        Limit(5).check("linear", data)
    with pytest.raises(ParameterError, match="in memory: give max_trees"):
        Limit(microseconds=1.0).check("lightgbm", data.features)
    Limit().check("linear", None)
