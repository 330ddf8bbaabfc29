"""Names that people type: metrics of other programs, arguments in `params`, objectives as for
`LGBMRanker`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.metrics import Metric
from boostrank.objective.mixture import parse_objective
from boostrank.objectives import _OTHER_WORDS
from boostrank.options import FitOptions

PARAMS: dict[str, Any] = {
    "objective": "lambdarank",
    "verbosity": -1,
    "num_threads": 1,
    "min_data_in_leaf": 5,
}


@pytest.fixture(scope="module")
def data() -> boostrank.RankingDataset:
    rng = np.random.default_rng(0)
    weights = np.repeat(rng.uniform(0.5, 2.0, 20), 10)
    return boostrank.RankingDataset.from_arrays(
        rng.random((200, 3)),
        rng.integers(0, 3, 200),
        qid=np.repeat(np.arange(20), 10),
        weight=weights,
    )


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("lambdarank@5", "ndcg@5"),
        ("rank_xendcg", "ndcg"),
        ("NDCG:top=10", "ndcg@10"),
        ("ndcg_cut_10", "ndcg@10"),
        ("P_5", "precision@5"),
        ("PrecisionAt:top=3", "precision@3"),
        ("recip_rank", "mrr"),
        ("map_cut_7", "map@7"),
        ("NDCG_at_3", "ndcg@3"),
    ],
)
def test_metrics_by_the_names_of_other_programs(text: str, same: str) -> None:
    assert str(Metric.parse(text)) == same


def test_the_minus_of_xgboost_is_refused_with_its_meaning() -> None:
    with pytest.raises(ParameterError, match=r"ndcg@5-.*conventions"):
        Metric.parse("ndcg@5-")


def test_arguments_inside_params_are_taken(data: boostrank.RankingDataset) -> None:
    moved = boostrank.train(PARAMS | {"folds": 2, "start": "none"}, data, 3)
    beside = boostrank.train(PARAMS, data, 3, folds=2, start="none")
    assert moved.to_bytes() == beside.to_bytes()
    with pytest.raises(ParameterError, match="folds is given twice"):
        boostrank.train(PARAMS | {"folds": 2}, data, 3, folds=3)


def test_objectives_are_spelled_as_in_lgb_train_or_as_in_lgbmranker(
    data: boostrank.RankingDataset,
) -> None:
    seen: dict[str, Any] = {}

    def of_lightgbm(scores: Any, dataset: Any) -> Any:
        return scores - dataset.get_label(), np.ones_like(scores)

    def of_ranker(y_true: Any, y_pred: Any) -> Any:
        return y_pred - y_true, np.ones_like(y_pred)

    def with_group(y_true: Any, y_pred: Any, weight: Any, group: Any) -> Any:
        seen.update(weight=weight, group=group)
        return of_ranker(y_true, y_pred)

    models = [
        boostrank.train(PARAMS | {"objective": objective}, data, 3)
        for objective in (of_lightgbm, of_ranker, with_group)
    ]
    assert len({model.to_bytes() for model in models}) == 1
    assert list(seen["group"]) == [10] * 20
    np.testing.assert_allclose(seen["weight"], data.queries.each_weight.repeat(10))
    with pytest.raises(ParameterError, match=r"\(a, b, c, d, e\)"):
        boostrank.train(PARAMS | {"objective": lambda a, b, c, d, e: (a, b)}, data, 3)


@pytest.mark.parametrize(
    ("word", "objective"),
    [
        ("NDCG", "lambdarank"),
        ("RMSE", "query-rmse"),
        ("PairLogit", "ranknet"),
        ("map", "smooth-ap"),
        ("smooth-precision(k=5)", "metric=precision, k=10"),
        ("gbrank(tau=0.5)", "margin=1"),
    ],
)
def test_a_metric_or_another_programs_loss_names_objectives_for_it(
    word: str, objective: str, data: boostrank.RankingDataset
) -> None:
    with pytest.raises(ParameterError, match=f"{word.split('(')[0]}.*{objective}"):
        boostrank.train(PARAMS | {"objective": word}, data, 1)
    for objectives in _OTHER_WORDS.values():
        for name in objectives:
            parse_objective(name).bind(data.labels, data.queries)  # refuses what lacks a parameter


def test_catboosts_form_of_parameters_is_read(data: boostrank.RankingDataset) -> None:
    model = boostrank.train(
        PARAMS | {"objective": "LambdaMart:metric=MAP;truncation_level=7"}, data, 1
    )
    params = model.info.objective["params"]
    assert (params["metric"], params["truncation_level"]) == ("map", 7)
    assert (
        parse_objective("mix(lambdarank(metric=err), xe-ndcg)").parts[0].params["metric"] == "err"
    )
    with pytest.raises(ParameterError, match="metric"):
        parse_objective("LambdaMart:metric=recall")


def test_a_function_may_have_any_name(data: boostrank.RankingDataset) -> None:
    metric = boostrank.Metric("rbp@p80", function=lambda labels, scores: float(labels[0]))
    params = PARAMS | {"metric": [metric, "ndcg"], "early_stopping_round": 2}
    valid = data.take(np.arange(3))
    model = boostrank.train(params, data, 3, valid_sets=[valid])
    assert model.best_iteration == 1  # it never improves


def test_no_objective_is_none_of_its_own(data: boostrank.RankingDataset) -> None:
    model = boostrank.train(PARAMS | {"objective": "listnet"}, data, 1)
    more = boostrank.train({**PARAMS, "objective": None}, data, 1, init_model=model)
    assert more.info.objective_name == "listnet"
    good = {"quality": "good", "num_boost_round": 2}
    plain = {name: value for name, value in PARAMS.items() if name != "objective"}
    average, same = (
        boostrank.train(params, data, **good) for params in ({**plain, "objective": None}, plain)
    )
    assert average.info.folds["members"] == same.info.folds["members"]


def test_the_metric_of_lambdarank_is_no_setting_beside_the_reported_one() -> None:
    assert (
        FitOptions(objective="lambdarank:metric=map", settings={"sigmoid": 2}).flat()["sigmoid"]
        == 2
    )
    with pytest.raises(ParameterError, match=r"--set metric.*lambdarank\(metric="):
        FitOptions(objective="lambdarank", settings={"metric": "map"}).flat()
