"""How a ranker learnt: its first rounds against the engine's own prediction, and what its objective saw."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.metric import Metric, paired_difference
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.mixture import parse_objective
from boostrank.report.objective_trace import _shares, objective_of, schedules_of
from boostrank.report.sections.learning import SPEC, Learning
from boostrank.report.sections.learning import learning as learning_of
from boostrank.report.segments import Segmentation, by_length
from boostrank.report.stages import StagedMetric, points, some_trees
from tests.model.real_models import data as real_data
from tests.model.real_models import lightgbm_models, xgboost_models
from tests.report.studies import study


def learning(model: RankingModel, data: RankingDataset, *, metric: str = "ndcg@10", **options: Any) -> Learning:
    return learning_of(study(data, metric, model=model, **options))


FEW = {"num_leaves": 7, "num_threads": 1, "verbosity": -1}


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(160, seed=2, mean_length=12).dataset


def trained(data: RankingDataset, rounds: int, backend: str = "lightgbm", **params: Any) -> RankingModel:
    train, valid = data.take(np.arange(60)), data.take(np.arange(60, 80))
    given = {k: v for k, v in FEW.items() if backend == "lightgbm" or k != "verbosity"}
    return boostrank.train(given | params, train, rounds, valid_sets=[valid], valid_names=["vali"], backend=backend)


@pytest.fixture(scope="module")
def model(data: RankingDataset) -> RankingModel:
    """Of an objective whose parameter follows a schedule."""
    return trained(data, 60, objective="shf-sdcg", sigma="geometric(4, 0.5)", metric="ndcg", eval_at="3,10")


@pytest.fixture(scope="module")
def test_set(data: RankingDataset) -> RankingDataset:
    return data.take(np.arange(80, 160))


@pytest.fixture(scope="module")
def found(model: RankingModel, test_set: RankingDataset) -> Learning:
    return learning(model, test_set, threads=2)


def per_query(model: RankingModel, data: RankingDataset, rounds: int, metric: str = "ndcg@10") -> np.ndarray:
    """By the engine, from the first tree on; without trees every score is 0."""
    scores = model.predict(data, num_iteration=rounds) if rounds else np.zeros(data.n_documents)
    return Metric.parse(metric).evaluate(data.labels, scores, data.queries).per_query


def check_curve(model: RankingModel, data: RankingDataset, told: Learning, metric: str = "ndcg@10") -> None:
    """Every point against the engine."""
    curve = told.curve
    assert curve.rounds[0] == 0
    assert curve.rounds[-1] == model.best_iteration
    whole = per_query(model, data, model.best_iteration, metric)
    for i, r in enumerate(curve.rounds.tolist()):
        mine = per_query(model, data, r, metric)
        assert curve.value[i] == pytest.approx(np.nanmean(mine), abs=1e-9)
        pair = paired_difference(whole, mine)
        assert curve.lost[i] == pytest.approx(pair.mean, abs=1e-9)
        assert (curve.lost_low[i], curve.lost_high[i]) == pytest.approx((pair.low, pair.high), abs=1e-9)


def test_every_point_of_the_curve_is_what_the_engine_predicts(
    model: RankingModel, test_set: RankingDataset, found: Learning
) -> None:
    assert found.curve.rounds.size == 38
    check_curve(model, test_set, found)


def test_so_it_is_with_early_stopping_on_xgboost(data: RankingDataset, test_set: RankingDataset) -> None:
    model = trained(data, 40, "xgboost", objective="lambdarank", early_stopping_round=4)
    assert model.best_iteration < 40
    told = learning(model, test_set, metric="map", threads=1)
    check_curve(model, test_set, told, "map")


def foreign(folder: Path, kind: str, name: str) -> tuple[RankingModel, RankingDataset]:
    """A model file that an engine wrote by itself, and data for it."""
    path = folder / "theirs"
    path.write_bytes(lightgbm_models()[name].encode() if kind == "lightgbm" else xgboost_models()[name])
    model = RankingModel.load(path)
    X, y = real_data()
    return model, RankingDataset(X.astype(np.float32), y, QueryIndex.from_sizes([20] * 20), model.feature_names)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("lightgbm", "lambdarank"),
        ("lightgbm", "dart"),
        ("lightgbm", "one leaf"),
        ("lightgbm", "no trees"),
        ("lightgbm", "sets of categories"),
        ("xgboost", "rank:ndcg"),
        ("xgboost", "dart"),
        ("xgboost", "parallel trees"),
        ("xgboost", "pruned"),
        ("xgboost", "sets of categories"),
    ],
)
def test_files_of_the_engines_own_have_a_curve_and_say_what_they_lack(tmp_path: Path, kind: str, name: str) -> None:
    model, data = foreign(tmp_path, kind, name)
    told = learning(model, data, threads=1)
    check_curve(model, data, told)
    assert told.objective_trace is None
    assert told.history == {}
    assert told.schedules == {}
    assert any("does not name its objective" in note for note in told.notes)
    assert any("no record of its training" in note for note in told.notes)


def test_trees_that_cannot_be_walked_have_no_curve(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="linear models in the leaves"):
        learning(*foreign(tmp_path, "lightgbm", "linear trees"))


def test_points_are_all_of_few_rounds_and_some_of_many() -> None:
    assert points(0).tolist() == [0]
    assert points(3).tolist() == [0, 1, 2, 3]
    many = points(1000)
    assert (many[0], many[-1], many.size) == (0, 1000, 41)
    assert np.all(np.diff(np.diff(many)) >= -1)  # closer at the start


def test_history_is_the_record_of_the_training(model: RankingModel, found: Learning) -> None:
    by = dict(list(found.to_frame().groupby(["dataset", "metric"])))
    assert set(by) == {("vali", "ndcg@3"), ("vali", "ndcg@10")}
    for (dataset, metric), h in by.items():
        assert h["value"].tolist() == model.evals_result[dataset][metric]
        assert h["round"].tolist() == list(range(1, 61))
    assert len(found.to_frame()) == 120
    assert found.trained_rounds == 60


def test_a_continued_model_counts_its_earlier_rounds(
    data: RankingDataset, test_set: RankingDataset, model: RankingModel
) -> None:
    train, valid = data.take(np.arange(60)), data.take(np.arange(60, 80))
    more = boostrank.train(FEW | {"objective": "shf-sdcg"}, train, 5, valid_sets=[valid], init_model=model)
    told = learning(more, test_set, threads=1)
    assert sorted(set(told.history["round"])) == list(range(61, 66))
    assert (told.trained_rounds, told.curve.total) == (65, 65)


def test_the_objective_sees_what_it_saw_in_training(
    model: RankingModel, test_set: RankingDataset, found: Learning
) -> None:
    trace = found.objective_trace
    assert trace is not None
    assert trace.documents == test_set.n_documents
    bound = parse_objective("shf-sdcg", sigma="geometric(4, 0.5)").over(60).bind(test_set.labels, test_set.queries)
    last = parse_objective("shf-sdcg", sigma="0.5").bind(test_set.labels, test_set.queries)
    lengths = by_length(test_set.queries)
    of_row = np.array(lengths.names)[np.repeat(lengths.of_query, test_set.queries.sizes)]
    losses, gradient = trace.to_frame(), trace.to_frame("gradient").set_index(["rounds", "by"])
    for r in (*losses["rounds"].iloc[[1, 7, 20]], 60):
        scores = model.predict(test_set, num_iteration=r)
        ran = bound.gradient(scores, min(r, 59))
        size = np.abs(ran.grad.astype(float))
        (row,) = losses[losses["rounds"] == r].itertuples()
        assert row.dead_queries == ran.stats.dead_queries
        for by, of in (("grade", test_set.labels.astype(int).astype(str)), ("list length", of_row)):
            for one in gradient.loc[(r, by)].itertuples():
                assert one.share == pytest.approx(size[of == one.part].sum() / size.sum(), rel=1e-5)
                assert one.documents == pytest.approx(np.mean(of == one.part))
        loss = last.gradient(scores, 59).stats.loss
        assert row.loss == pytest.approx(loss / len(test_set.queries), rel=1e-6)
    one = losses.iloc[5]
    assert one["loss_error"] == pytest.approx(standard_error(last, model, test_set, one["rounds"]))


def standard_error(bound: Any, model: RankingModel, data: RankingDataset, rounds: int) -> float:
    """Of the mean loss, from queries bound one by one."""
    scores = model.predict(data, num_iteration=int(rounds))
    losses = []
    for a, b in zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True):
        one = bound.objective.bind(data.labels[a:b], QueryIndex.from_sizes([b - a]))
        losses.append(one.gradient(scores[a:b], 59).stats.loss)
    return float(np.std(losses, ddof=1) / np.sqrt(len(losses)))


def test_schedules_are_told_as_they_ran(model: RankingModel, found: Learning) -> None:
    assert list(found.schedules) == ["sigma"]
    np.testing.assert_allclose(found.schedules["sigma"], 4.0 * (0.5 / 4.0) ** (np.arange(60) / 59))
    mixture = parse_objective("mix(shf-sdcg(sigma=geometric(4, 1)), xe-ndcg, mix=linear(1, 0))").over(3)
    told = schedules_of(mixture, 3)
    assert told["mix"].tolist() == [1.0, 0.5, 0.0]
    assert told["shf-sdcg: sigma"].tolist() == pytest.approx([4.0, 2.0, 1.0])


def test_the_page_draws_each_schedule_and_says_where_it_began(found: Learning) -> None:
    (chart,) = [one for one in SPEC.on_page(found).drawn if one.name.startswith("learning-schedule")]
    assert (chart.title, chart.frame["value"].tolist()) == ("sigma", found.schedules["sigma"].tolist())
    assert chart.about == "From 4 in the first round to 0.5 in round 60."


def test_a_mixture_tells_the_loss_of_each_part(data: RankingDataset, test_set: RankingDataset) -> None:
    model = trained(data, 6, objective="mix(shf-sdcg(sigma=0.5), xe-ndcg, mix=0.3)")
    trace = learning(model, test_set, threads=1).objective_trace
    assert trace is not None
    losses = trace.to_frame()
    for name, text in (("shf-sdcg", "shf-sdcg(sigma=0.5)"), ("xe-ndcg", "xe-ndcg")):
        bound = parse_objective(text).bind(test_set.labels, test_set.queries)
        loss = bound.gradient(model.predict(test_set), 5).stats.loss / len(test_set.queries)
        assert losses[losses["objective"] == name]["loss"].iloc[-1] == pytest.approx(loss, rel=1e-6)
    mixed = model.info["objective"]
    assert mixed["name"] == "mixture"


def test_the_error_of_a_share_is_that_of_other_queries() -> None:
    """The share of a part of the gradient, over draws of queries: its spread is the error told, on average."""
    rng = np.random.default_rng(0)
    shares, errors = [], []
    for _ in range(300):
        sizes = rng.integers(1, 9, 400)
        queries = QueryIndex.from_sizes(sizes)
        data = RankingDataset(np.zeros((int(sizes.sum()), 1), np.float32), np.zeros(int(sizes.sum())), queries)
        part = rng.integers(0, 3, data.n_documents)
        strength = np.repeat(rng.exponential(size=400), sizes)
        size = strength * rng.exponential(size=data.n_documents) * (1.0 + part)
        found = _shares(Segmentation("part", ("a", "b", "c"), part), size, data)
        shares.append(found["share"])
        errors.append(found["error"])
    held = np.abs(np.array(shares) - np.array([1, 2, 3]) / 6) < 1.96 * np.array(errors)
    assert np.all((held.mean(axis=0) > 0.91) & (held.mean(axis=0) < 0.98))


def test_labels_of_one_grade_pull_nowhere(model: RankingModel, test_set: RankingDataset) -> None:
    even = RankingDataset(
        test_set.features, np.ones(test_set.n_documents), test_set.queries, test_set.feature_names
    )  # fmt: skip
    told = learning(model, even, threads=1)
    np.testing.assert_allclose(told.curve.value, 1.0, atol=1e-12)
    assert told.objective_trace is not None
    assert set(told.objective_trace.losses["dead_queries"]) == {len(even.queries)}
    assert np.isnan(told.objective_trace.gradient["share"]).all()
    assert told.summary().startswith("0 of 60 rounds (a random order) lose 0.0000 [0.0000, 0.0000]")


def test_labels_that_the_objective_cannot_take_leave_the_curve(data: RankingDataset, test_set: RankingDataset) -> None:
    model = trained(data, 3, objective="shf-sdcg", gain=[0, 1, 3, 7, 15])
    far = RankingDataset(test_set.features, test_set.labels + 3, test_set.queries, test_set.feature_names)
    told = learning(model, far, threads=1)
    assert told.objective_trace is None
    assert any("cannot be evaluated on these data" in note for note in told.notes)
    assert told.curve.total == 3


def test_a_sample_is_of_whole_queries_and_says_so(model: RankingModel, test_set: RankingDataset) -> None:
    told = learning(model, test_set, documents=test_set.n_documents // 3, seed=1, threads=1)
    assert told.curve.documents < told.curve.all_documents == test_set.n_documents
    assert told.objective_trace is not None
    assert told.objective_trace.documents == told.curve.documents
    assert told.objective_trace.all_queries == len(test_set.queries)


def test_one_thread_or_two_give_the_same(model: RankingModel, test_set: RankingDataset, found: Learning) -> None:
    again = learning(model, test_set, threads=1)
    np.testing.assert_array_equal(again.curve.value, found.curve.value)
    np.testing.assert_array_equal(again.curve.lost_high, found.curve.lost_high)


def summary_of(lost: list[float], width: float, **given: Any) -> str:
    rounds = np.arange(len(lost)) * 10
    values = np.array(lost)
    ends = (values - width, values + width)
    curve = StagedMetric("ndcg@10", rounds, *[1.0 - values] * 3, values, *ends, 2, 2, 2)
    return Learning({}, curve, None, {}, 10, None, given.get("negligible", 0.001)).summary()


def test_the_summary_says_how_many_rounds_are_enough() -> None:
    sure = summary_of([0.2, 0.05, 0.0004, 0.0002, 0.0], 0.0003)
    assert sure.startswith("20 of 40 rounds lose 0.0004 [0.0001, 0.0007] of ndcg@10; from there on, every 95%")
    few = summary_of([0.2, 0.05, 0.0004, 0.0002, 0.0], 0.01)
    assert few.startswith("20 of 40 rounds lose 0.0004 [-0.0096, 0.0104] of ndcg@10: the mean loss is below 0.001")
    every = summary_of([0.2, 0.05, 0.01, 0.005, 0.0], 0.0001)
    assert every.startswith("Every round counts: 30 of 40 rounds lose 0.0050 [0.0049, 0.0051]")
    fewer = summary_of([0.2, 0.0, -0.02, -0.03, 0.0], 0.001)
    assert "Fewer rounds rank better: 30 of them gain 0.0300 [0.0290, 0.0310]" in fewer
    assert summary_of([0.1, 0.0], 0.0) == "The model has 10 rounds, so none can be left out."


def test_trees_taken_apart_add_up_to_the_whole(model: RankingModel, test_set: RankingDataset) -> None:
    forest = model.trees().forest
    assert forest is not None
    assert some_trees(forest, 3, 3).roots.size == 0
    assert some_trees(forest, 2, 5).roots.tolist() == forest.roots[2:5].tolist()


def test_a_linear_start_is_there_before_the_first_tree(test_set: RankingDataset) -> None:
    model = boostrank.train({"objective": "lambdarank", "verbosity": -1}, test_set, 6, start="linear")
    assert model.trees().forest is not None
    found = learning(model, test_set, metric="ndcg@10")
    linear = lgb.Booster(model_str=model.booster.model_to_string(num_iteration=model.booster.num_trees() - 6))
    alone = linear.predict(test_set.features, raw_score=True)
    expected = Metric.parse("ndcg@10").evaluate(test_set.labels, alone, test_set.queries).mean
    assert found.curve.value[0] == pytest.approx(expected)


def test_what_cannot_be_is_refused(model: RankingModel, test_set: RankingDataset) -> None:
    with pytest.raises(ParameterError, match="0 or more"):
        learning(model, test_set, documents=-1)


def test_plain_data_and_frames(found: Learning) -> None:
    told = found.to_dict()
    assert told["prefixes"]["rounds"][-1] == 60
    assert told["objective"]["losses"]["rounds"][-1] == 60
    assert list(found.curve.to_frame().columns)[:2] == ["rounds", "value"]
    assert found.objective_trace is not None
    assert set(found.objective_trace.to_frame("gradient")["by"]) == {"grade", "list length"}


def test_the_scores_of_the_walk_are_the_engines(model: RankingModel, test_set: RankingDataset, found: Learning) -> None:
    assert found.scores is not None
    np.testing.assert_allclose(found.scores, model.predict(test_set), rtol=0, atol=1e-12)
    assert learning(model, test_set, documents=100, threads=1).scores is None


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        (None, "does not name its objective"), ({"name": "lightgbm:lambdarank"}, "lightgbm:lambdarank"),
        ({"name": "custom"}, "custom function"), ({"name": "no-such"}, "cannot be rebuilt"),
    ],
)  # fmt: skip
def test_an_objective_that_cannot_be_had_again_is_said_to_be_so(recorded: dict[str, Any] | None, why: str) -> None:
    model: Any = SimpleNamespace(info={"objective": recorded})
    objective, words = objective_of(model)
    assert objective is None
    assert why in words
