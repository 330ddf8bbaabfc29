"""How a ranker learnt: its first rounds against the engine's own prediction."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics import Metric, paired_difference
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.scoring import some_trees
from boostrank.reporting.sections.learning import Learning, points
from boostrank.reporting.sections.learning import learning as learning_of
from tests.model.real_models import data as real_data
from tests.model.real_models import lightgbm_models, xgboost_models
from tests.reporting.studies import study


def learning(
    model: RankingModel, data: RankingDataset, *, metric: str = "ndcg@10", **options: Any
) -> Learning:
    return learning_of(study(data, metric, model=model, **options))


FEW = {"num_leaves": 7, "num_threads": 1, "verbosity": -1}


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(160, seed=2, mean_length=12).dataset


def trained(
    data: RankingDataset, rounds: int, backend: str = "lightgbm", **params: Any
) -> RankingModel:
    train, valid = data.take(np.arange(60)), data.take(np.arange(60, 80))
    engine_params = {k: v for k, v in FEW.items() if backend == "lightgbm" or k != "verbosity"}
    return boostrank.train(
        engine_params | params,
        train,
        rounds,
        valid_sets=[valid],
        valid_names=["vali"],
        backend=backend,
    )


@pytest.fixture(scope="module")
def model(data: RankingDataset) -> RankingModel:
    return trained(data, 60, objective="shf-sdcg", metric="ndcg", eval_at="3,10")


@pytest.fixture(scope="module")
def test_set(data: RankingDataset) -> RankingDataset:
    return data.take(np.arange(80, 160))


@pytest.fixture(scope="module")
def learning_curves(model: RankingModel, test_set: RankingDataset) -> Learning:
    return learning(model, test_set, threads=2)


def test_progress_may_be_none(model: RankingModel, test_set: RankingDataset) -> None:
    assert learning(model, test_set, progress=None).best_rounds == model.best_iteration


def per_query(
    model: RankingModel, data: RankingDataset, rounds: int, metric: str = "ndcg@10"
) -> np.ndarray:
    """By the engine, from the first tree on; without trees every score is 0."""
    scores = model.predict(data, num_iteration=rounds) if rounds else np.zeros(data.n_documents)
    return Metric.parse(metric).evaluate(data.labels, scores, data.queries).per_query


def check_curve(
    model: RankingModel, data: RankingDataset, learning_curves: Learning, metric: str = "ndcg@10"
) -> None:
    """Every point against the engine."""
    curve = SimpleNamespace(**learning_curves.prefixes)
    assert curve.rounds[0] == 0
    assert curve.rounds[-1] == learning_curves.total == model.best_iteration
    whole = per_query(model, data, model.best_iteration, metric)
    for i, r in enumerate(curve.rounds.tolist()):
        mine = per_query(model, data, r, metric)
        assert curve.value[i] == pytest.approx(np.nanmean(mine), abs=1e-9)
        pair = paired_difference(whole, mine)
        assert curve.lost[i] == pytest.approx(pair.mean, abs=1e-9)
        assert (curve.lost_low[i], curve.lost_high[i]) == pytest.approx(
            (pair.low, pair.high), abs=1e-9
        )


def test_every_point_of_the_curve_is_what_the_engine_predicts(
    model: RankingModel, test_set: RankingDataset, learning_curves: Learning
) -> None:
    assert learning_curves.prefixes["rounds"].size == 38
    check_curve(model, test_set, learning_curves)


def test_the_curve_of_early_stopping_on_xgboost_is_that_of_its_predictions(
    data: RankingDataset, test_set: RankingDataset
) -> None:
    model = trained(data, 40, "xgboost", objective="lambdarank", early_stopping_round=4)
    assert model.best_iteration < 40
    learning_curves = learning(model, test_set, metric="map", threads=1)
    check_curve(model, test_set, learning_curves, "map")


def foreign(folder: Path, kind: str, name: str) -> tuple[RankingModel, RankingDataset]:
    """A model file that an engine wrote by itself, and data for it."""
    path = folder / "theirs"
    content = lightgbm_models()[name].encode() if kind == "lightgbm" else xgboost_models()[name]
    path.write_bytes(content)
    model = RankingModel.load(path)
    X, y = real_data()
    return model, RankingDataset(
        X.astype(np.float32), y, QueryIndex.from_sizes([20] * 20), model.feature_names
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("lightgbm", "lambdarank"),
        ("lightgbm", "dart"),
        ("lightgbm", "one leaf"),
        ("lightgbm", "no trees"),
        ("lightgbm", "sets of categories"),
        ("xgboost", "rank:ndcg"),
        ("xgboost", "pruned"),
        ("xgboost", "sets of categories"),
    ],
)
def test_files_of_the_engines_own_have_a_curve_and_say_what_they_lack(
    tmp_path: Path, kind: str, name: str
) -> None:
    model, data = foreign(tmp_path, kind, name)
    learning_curves = learning(model, data, threads=1)
    check_curve(model, data, learning_curves)
    assert learning_curves.history == {}
    assert any("no record of its training" in note for note in learning_curves.notes)


def test_points_are_all_of_few_rounds_and_some_of_many() -> None:
    assert points(0).tolist() == [0]
    assert points(3).tolist() == [0, 1, 2, 3]
    many = points(1000)
    assert (many[0], many[-1], many.size) == (0, 1000, 41)
    assert np.all(np.diff(np.diff(many)) >= -1)  # closer at the start


def test_history_is_the_record_of_the_training(
    model: RankingModel, learning_curves: Learning
) -> None:
    by = dict(list(learning_curves.to_frame().groupby(["dataset", "metric"])))
    assert set(by) == {("vali", "ndcg@3"), ("vali", "ndcg@10")}
    for (dataset, metric), h in by.items():
        assert h["value"].tolist() == model.evals_result[dataset][metric]
        assert h["round"].tolist() == list(range(1, 61))
    assert len(learning_curves.to_frame()) == 120
    assert learning_curves.trained_rounds == 60


def test_a_continued_model_counts_its_earlier_rounds(
    data: RankingDataset, test_set: RankingDataset, model: RankingModel
) -> None:
    train, valid = data.take(np.arange(60)), data.take(np.arange(60, 80))
    more = boostrank.train(
        FEW | {"objective": "shf-sdcg"}, train, 5, valid_sets=[valid], init_model=model
    )
    learning_curves = learning(more, test_set, threads=1)
    assert sorted(set(learning_curves.history["round"])) == list(range(61, 66))
    assert (learning_curves.trained_rounds, learning_curves.total) == (65, 65)


def test_labels_of_one_grade_pull_nowhere(model: RankingModel, test_set: RankingDataset) -> None:
    even = RankingDataset(
        test_set.features, np.ones(test_set.n_documents), test_set.queries, test_set.feature_names
    )
    learning_curves = learning(model, even, threads=1)
    np.testing.assert_allclose(learning_curves.prefixes["value"], 1.0, atol=1e-12)
    assert learning_curves.summary().startswith(
        "0 of 60 rounds have a loss of +0.0000 [+0.0000, +0.0000]"
    )


def test_a_sample_is_of_whole_queries_and_says_so(
    model: RankingModel, test_set: RankingDataset
) -> None:
    learning_curves = learning(
        model, test_set, documents=test_set.n_documents // 3, seed=1, threads=1
    )
    assert learning_curves.documents < learning_curves.all_documents == test_set.n_documents


def test_one_thread_or_two_give_the_same(
    model: RankingModel, test_set: RankingDataset, learning_curves: Learning
) -> None:
    again = learning(model, test_set, threads=1)
    np.testing.assert_array_equal(again.prefixes["value"], learning_curves.prefixes["value"])
    np.testing.assert_array_equal(
        again.prefixes["lost_high"], learning_curves.prefixes["lost_high"]
    )


def summary_of(lost: list[float], width: float, **options: Any) -> str:
    rounds = np.arange(len(lost)) * 10
    values = np.array(lost)
    curve = {
        "rounds": rounds,
        "lost": values,
        "lost_low": values - width,
        "lost_high": values + width,
    }
    return Learning(
        "ndcg@10", curve, 2, 2, 2, {}, 10, None, options.get("negligible", 0.001)
    ).summary()


def test_the_summary_says_how_many_rounds_are_enough() -> None:
    sure = summary_of([0.2, 0.05, 0.0004, 0.0002, 0.0], 0.0003)
    assert sure.startswith("20 of 40 rounds have a loss of +0.0004 [+0.0001, +0.0007] in ndcg@10")
    every = summary_of([0.2, 0.05, 0.01, 0.005, 0.0], 0.0001)
    assert "30 of 40 rounds have a loss of +0.0050 [+0.0049" in every
    few = summary_of([0.2, 0.05, 0.0004, 0.0002, 0.0], 0.01)
    assert "30 of 40 rounds have a loss of +0.0002 [-0.0098" in few
    assert summary_of([0.1, 0.0], 0.0) == "The model has 10 rounds, so none can be left out."


def test_trees_taken_apart_add_up_to_the_whole(
    model: RankingModel, test_set: RankingDataset
) -> None:
    forest = model.trees().forest
    assert forest is not None
    assert some_trees(forest, 3, 3).roots.size == 0
    assert some_trees(forest, 2, 5).roots.tolist() == forest.roots[2:5].tolist()


def test_a_linear_start_is_there_before_the_first_tree(test_set: RankingDataset) -> None:
    model = boostrank.train(
        {"objective": "lambdarank", "verbosity": -1}, test_set, 6, start="linear"
    )
    assert model.trees().forest is not None
    learning_curves = learning(model, test_set, metric="ndcg@10")
    native = model._booster.native
    linear = lgb.Booster(model_str=native.model_to_string(num_iteration=native.num_trees() - 6))
    alone = linear.predict(test_set.features, raw_score=True)
    expected = Metric.parse("ndcg@10").evaluate(test_set.labels, alone, test_set.queries).mean
    assert learning_curves.prefixes["value"][0] == pytest.approx(expected)


def test_a_negative_number_of_documents_is_refused(
    model: RankingModel, test_set: RankingDataset
) -> None:
    with pytest.raises(ParameterError, match="documents"):
        learning(model, test_set, documents=-1)


def test_plain_data_and_frames(learning_curves: Learning) -> None:
    plain = learning_curves.to_dict()
    assert plain["prefixes"][-1]["rounds"] == 60
    assert list(learning_curves.to_frame("prefixes").columns)[:2] == ["rounds", "value"]


def test_the_scores_of_the_walk_are_the_engines(
    model: RankingModel, test_set: RankingDataset, learning_curves: Learning
) -> None:
    assert learning_curves.scores is not None
    np.testing.assert_allclose(learning_curves.scores, model.predict(test_set), rtol=0, atol=1e-12)
    assert learning(model, test_set, documents=100, threads=1).scores is None
