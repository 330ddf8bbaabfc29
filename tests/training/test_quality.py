"""Quality presets: what `good` and `best` try, choose and average, against slow twins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from boostrank import RankingDataset, RankingModel, train
from boostrank.backends import get_backend
from boostrank.core.errors import ParameterError, TrainingError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import paired_difference
from boostrank.metric import BoundMetrics
from boostrank.training.quality import plan as plans
from boostrank.training.quality import search as module
from boostrank.training.quality.candidates import GOOD, MORE, Candidate
from boostrank.training.quality.plan import Plan, trainings_of, unfit, work_of
from boostrank.training.quality.selection import deviation, selected
from boostrank.training.quality.train import train_quality
from boostrank.training.quality.trees import Sizes, quick, suited
from tests.tuning.test_tuning import made

PARAMS: dict[str, Any] = {"num_threads": 1, "eval_at": [3, 5], "seed": 7}
OWN: dict[str, dict[str, Any]] = {"lightgbm": {"verbosity": -1, "min_data_in_leaf": 3}, "xgboost": {}}
ENGINES = list(OWN)
pytestmark = [
    pytest.mark.usefixtures("leaves_as_grown"),
    pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning"),
]


def weighted(data: RankingDataset) -> RankingDataset:
    weights = np.array([0.5, 1.5, 2.5])[np.arange(len(data.queries)) % 3]
    return replace(data, queries=replace(data.queries, weights=weights))


DATA, VALID = weighted(made(50, 2)), weighted(made(22, 5))


@dataclass
class Seen:
    """A watch that keeps everything, and stops after so many trainings."""

    stop_after: int = 1000
    plan: Plan | None = None
    models: list[tuple[str, int, RankingModel]] = field(default_factory=list)

    def planned(self, plan: Plan) -> None:
        self.plan = plan

    def callbacks(self, *_: Any) -> list[Any]:
        return []

    def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
        self.models.append((candidate.name, fold, model))
        return len(self.models) < self.stop_after


def good(
    data: RankingDataset = DATA, rounds: int | None = 6, *, stop_after: int = 1000, backend: str = "lightgbm",
    params: dict[str, Any] | None = None, **options: Any,
) -> tuple[RankingModel, Seen]:  # fmt: skip
    """A model, and what was seen of it; without starts, which take time."""
    seen = Seen(stop_after)
    given = PARAMS | OWN[backend] | (params or {})
    one = train_quality(given, data, rounds, backend=backend, watch=seen, **{"start": "none", **options})
    assert one.info.quality is not None
    return one, seen


def fold_of(data: RankingDataset, folds: int = 4) -> np.ndarray:
    """The fold of each query: a permutation of their numbers, dealt like cards."""
    return np.random.default_rng(7).permutation(len(data.queries)) % folds


def twin(
    data: RankingDataset, seen: Seen, folds: int = 4
) -> tuple[dict[str, float], dict[str, np.ndarray], dict[str, float]]:
    """Each candidate's weight, held-out scores and deviation, from its models, step by step."""
    fold, rows = fold_of(data, folds), data.queries.of_rows()
    scores: dict[str, np.ndarray] = {}
    for name, k, model in seen.models:
        own = model.predict(data)
        held = fold[rows] == k
        scores.setdefault(name, np.full(data.n_documents, np.nan))[held] = own[held]
    deviations = {}
    for name, one in scores.items():
        apart = np.concatenate([part - part.mean() for part in np.split(one, data.queries.ptr[1:-1])])
        deviations[name] = math.sqrt(np.mean(apart[~np.isnan(apart)] ** 2))
    left = survivors(data, seen, scores, fold, folds)
    known = np.logical_and.reduce([~np.isnan(scores[name]) for name in left])
    counts = dict.fromkeys(left, 0)
    for _ in range(10):
        values = {}
        for name in left:
            trying = {**counts, name: counts[name] + 1}
            together = sum(trying[c] * scores[c] / deviations[c] for c in left)
            values[name] = value_of(data, np.where(known, together, np.nan))
        counts[max(values, key=lambda name: values[name])] += 1
    return {name: counts.get(name, 0) / 10 for name in scores}, scores, deviations


def survivors(data: RankingDataset, seen: Seen, scores: dict[str, Any], fold: Any, folds: int) -> list[str]:
    """Candidates that no other had beaten beyond noise, after each fold but the last."""
    left = list(scores)
    for k in range(folds - 1):
        if k not in [at for _, at, _ in seen.models]:
            break
        had = {name: [at for n, at, _ in seen.models if n == name and at <= k] for name in left}
        each = {name: per_query_of(data, scores[name]) for name in left}
        for name in left:
            each[name][~np.isin(fold, had[name])] = np.nan
        means = {name: weighted_mean(data, one) for name, one in each.items()}
        best = max(left, key=lambda name: (len(had[name]), means[name]))
        for name in left[:]:
            both = ~np.isnan(each[name]) & ~np.isnan(each[best])
            if name != best and both.sum() >= 8 and len(had[name]) < folds:
                weights = data.queries.each_weight[both]
                found = paired_difference(each[name][both], each[best][both], weights=weights, resamples=2000, seed=7)
                if found.high < 0.0:
                    left.remove(name)
    return left


def per_query_of(data: RankingDataset, scores: Any, metric: str = "ndcg@5") -> np.ndarray:
    """A metric of each query; NaN where it does not count, or scores are NaN."""
    known = ~np.isnan(scores)
    found = BoundMetrics([metric], data.labels, data.queries).per_query(np.where(known, scores, 0.0))[metric].copy()
    found[~np.logical_and.reduceat(known, data.queries.ptr[:-1])] = np.nan
    return found


def weighted_mean(data: RankingDataset, per_query: np.ndarray) -> float:
    counted = ~np.isnan(per_query)
    return float(np.average(per_query[counted], weights=data.queries.each_weight[counted]))


def value_of(data: RankingDataset, scores: Any, metric: str = "ndcg@5", queries: slice = slice(None)) -> float:
    """A metric's mean by the weights of queries, over those of `queries` that count and have scores."""
    per_query = per_query_of(data, np.asarray(scores), metric)
    outside = np.ones(per_query.size, bool)
    outside[queries] = False
    return weighted_mean(data, np.where(outside, np.nan, per_query))


def summed(seen: Seen, weights: dict[str, float], deviations: dict[str, float], data: RankingDataset) -> np.ndarray:
    """What the average predicts: every fold weighs the same, its models by their candidates' weights."""
    scale = sum(weights[name] * deviations[name] for name in weights)
    having = [(n, k, model) for n, k, model in seen.models if weights[n]]
    folds = {k for _, k, _ in having}
    shares = {k: sum(weights[n] for n, at, _ in having if at == k) for k in folds}
    return sum(
        weights[n] / shares[k] / deviations[n] * scale / len(folds) * model.predict(data) for n, k, model in having
    )  # type: ignore[return-value]


@pytest.fixture(scope="module", params=ENGINES)
def tried(request: pytest.FixtureRequest) -> tuple[RankingModel, Seen]:
    return good(backend=request.param, valid_sets=[VALID])


def test_the_model_is_the_weighted_sum_of_members_chosen_greedily_on_queries_they_had_not_seen(
    tried: tuple[RankingModel, Seen],
) -> None:
    one, seen = tried
    data = DATA.joined(VALID)
    record: Any = one.info.quality
    assert [(n, k) for n, k, _ in seen.models if k == 0] == [(c["name"], 0) for c in record["candidates"]]
    assert sorted(k for _, k, _ in seen.models) == [k for _, k, _ in seen.models]
    assert sorted(c["name"] for c in record["candidates"]) == sorted(
        {c.name if one.backend == "lightgbm" else c.name.removesuffix(", random splits") for c in GOOD}
    )
    weights, scores, deviations = twin(data, seen)
    assert {c["name"]: c["weight"] for c in record["candidates"]} == pytest.approx(weights)
    assert sum(weights.values()) == pytest.approx(1.0)
    np.testing.assert_allclose(one.predict(data), summed(seen, weights, deviations, data), atol=1e-6)
    together = sum(weights[name] / deviations[name] * scores[name] for name in weights if weights[name])
    assert record["held_out"]["ndcg@5"]["value"] == pytest.approx(value_of(data, together))
    assert record["held_out"]["ndcg@3"]["value"] == pytest.approx(value_of(data, together, "ndcg@3"))
    for c in record["candidates"]:
        assert c["value"] == pytest.approx(value_of(data, scores[c["name"]]))
        assert c["low"] < c["value"] < c["high"]
    whole = [c for c in record["candidates"] if len(c["rounds"]) == 4]
    best = max(whole, key=lambda c: c["value"])
    assert whole == [c for c in record["candidates"] if c["name"] in survivors(data, seen, scores, fold_of(data), 4)]
    for c in record["candidates"]:
        on_both = np.where(np.isnan(scores[c["name"]]), np.nan, scores[best["name"]])
        apart = c["value"] - value_of(data, on_both)
        assert c["difference"].get("mean", 0.0) == pytest.approx(apart)


def test_queries_of_valid_are_dealt_too_and_measured_by_models_that_had_not_seen_them(
    tried: tuple[RankingModel, Seen],
) -> None:
    one, seen = tried
    data = DATA.joined(VALID)
    first, last = len(DATA.queries), len(data.queries)
    assert np.bincount(fold_of(data)[first:last]).min() > 2
    weights, scores, deviations = twin(data, seen)
    together = sum(weights[name] / deviations[name] * scores[name] for name in weights if weights[name])
    record: Any = one.info.quality
    assert len(record["valid"]) == 1
    assert record["valid"][0]["value"] == pytest.approx(value_of(data, together, queries=slice(first, last)))
    assert record["valid"][0]["queries"] <= last - first < record["held_out"]["ndcg@5"]["queries"]
    assert one.info.data is not None
    assert (one.info.data["rows"], one.info.data["queries"]) == (data.n_documents, last)


def test_greedy_selection_adds_what_makes_the_average_best() -> None:
    rng = np.random.default_rng(3)
    truth, scores = rng.normal(size=40), rng.normal(size=(3, 40))
    scores += truth * np.array([[0.5], [0.6], [0.2]])

    def value(one: np.ndarray) -> float:
        return float(np.corrcoef(one, truth)[0, 1])

    counts = [0, 0, 0]
    for _ in range(10):
        options = [[c + (i == j) for j, c in enumerate(counts)] for i in range(3)]
        counts = max(options, key=lambda option: value(sum(c * s for c, s in zip(option, scores, strict=True))))
    assert len(set(counts)) == 3
    np.testing.assert_allclose(selected(scores, value), np.array(counts) / 10)
    np.testing.assert_array_equal(selected(scores, lambda _: 0.5), [1, 0, 0])


def test_the_deviation_is_within_queries_of_those_that_have_scores() -> None:
    queries = QueryIndex.from_sizes(np.array([2, 3, 1]))
    scores = np.array([1.0, 3.0, np.nan, np.nan, np.nan, 9.0])
    assert deviation(scores, queries) == pytest.approx(math.sqrt((1 + 1 + 0) / 3))
    assert deviation(np.full(6, 5.0), queries) == 1e-12


@pytest.mark.parametrize("backend", ENGINES)
def test_the_same_bytes_come_again_and_with_two_threads(backend: str) -> None:
    made_with = [good(backend=backend, params={"num_threads": threads})[0] for threads in (1, 1, 2)]
    assert made_with[0].to_bytes() == made_with[1].to_bytes() == made_with[2].to_bytes()
    assert made_with[0].info.quality == made_with[1].info.quality == made_with[2].info.quality


@pytest.mark.parametrize(
    ("backend", "names"), [("lightgbm", ("num_leaf", "shrinkage_rate")), ("xgboost", ("max_leaves", "eta"))]
)
def test_what_is_given_by_any_name_is_in_every_candidate(backend: str, names: tuple[str, str]) -> None:
    given = {"objective": "lambdarank", names[0]: 3, names[1]: 0.3, "extra_trees": True}
    if backend == "xgboost":
        del given["extra_trees"]
    one, seen = good(rounds=4, backend=backend, params=given)
    record: Any = one.info.quality
    assert [c["name"] for c in record["candidates"]] == ["as given"]
    assert record["trees"] == {"feature_fraction": 0.5}
    engine = get_backend(backend)
    for _, _, model in seen.models:
        assert model.info.objective is not None
        assert model.info.objective["name"] == "lambdarank"
        found = engine.main_names(dict(model.info.parameters or {}))
        mains = [next(iter(engine.main_names({name: 0}))) for name in names]
        assert [found[main] for main in mains] == [3, 0.3]
        trees = engine.format.trees(engine.format.parse(model.to_bytes()), 4)
        assert 0 < trees.splits.sum() <= 2 * trees.count


def test_an_objective_that_is_given_meets_the_trees_that_are_left_to_choose() -> None:
    engine = get_backend("lightgbm")
    from boostrank.training.quality.candidates import candidates

    def names(given: dict[str, Any], start: Any = "auto") -> list[str]:
        return [one.name for one in candidates(engine, (*GOOD, *MORE), given, start, given)]

    assert names({"app": "sdcg"}) == ["as given", "random splits", "small trees", "large trees"]
    assert names({"app": "sdcg", "num_leaf": 5}) == ["as given", "random splits"]
    assert names({"extra_tree": False, "max_leaves": 5}) == [
        "auto", "reg-shf-sdcg", "yetirank", "lambdarank", "xe-ndcg",
    ]  # fmt: skip
    listed = candidates(engine, GOOD, {}, "linear", {})
    assert {one.start for one in listed} == {"linear"}
    assert [one.start for one in candidates(engine, GOOD, {}, "auto", {})] == ["auto", "auto", "none"]


def test_candidates_whose_objective_does_not_know_a_given_parameter_are_left_out() -> None:
    _, seen = good(rounds=2, params={"k": 5})
    assert seen.plan is not None
    assert [c.name for c in seen.plan.candidates] == ["auto", "auto, random splits", "reg-shf-sdcg"]
    assert all("_level': 5" in str(model.info.objective) for name, _, model in seen.models if "auto" in name)
    assert all("'k': 5" in str(model.info.objective) for name, _, model in seen.models if "reg" in name)
    with pytest.raises(ParameterError, match="no parameter 'sigma'"):
        good(rounds=2, params={"sigma": 2.0})


def test_rounds_and_patience_that_are_given_stay() -> None:
    trees = {"learning_rate": 0.1, "num_leaves": 15, "feature_fraction": 0.5}
    one, seen = good(rounds=None, params={"objective": "regression", "n_iter": 5, "n_iter_no_change": 0})
    assert one.info.quality is not None
    assert (one.info.quality["trees"], one.info.quality["patience"]) == (trees, 0)
    assert {model.best_iteration for _, _, model in seen.models} == {5}
    one, seen = good(rounds=30, params={"objective": "regression", "early_stopping_round": 2})
    assert one.info.quality is not None
    assert one.info.quality["patience"] == 2
    assert max(len(model.evals_result["held out"]["ndcg@5"]) - model.best_iteration for *_, model in seen.models) == 2


def test_trees_suit_sizes_where_nothing_was_said() -> None:
    engine = get_backend("lightgbm")
    few, many = Sizes(500, 50, 4), Sizes(50_000, 2_000, 100)
    assert suited(engine, few, None, {}) == {"learning_rate": 0.05, "num_leaves": 15, "feature_fraction": 0.5}
    assert suited(engine, many, 1000, {})["num_leaves"] == 31
    assert suited(engine, few, 20, {"eta": 0.2, "colsample_bytree": 1.0}) == {"num_leaves": 15}
    assert "feature_fraction" not in suited(engine, replace(few, features=3), None, {})
    assert suited(get_backend("linear"), few, None, {}) == {}


@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_stop_leaves_a_model_of_what_is_there(after: int) -> None:
    one, seen = good(stop_after=after)
    record: Any = one.info.quality
    assert len(seen.models) == after
    weights, _, deviations = twin(DATA, seen)
    np.testing.assert_allclose(one.predict(DATA), summed(seen, weights, deviations, DATA), atol=1e-6)
    tried = list(dict.fromkeys(name for name, *_ in seen.models))
    assert [c["name"] for c in record["candidates"]] == tried
    assert record["left"] == [c.name for c in GOOD[len(tried) :]]
    held = np.isin(fold_of(DATA), [k for _, k, _ in seen.models])
    assert 0 < record["held_out"]["ndcg@5"]["queries"] <= held.sum()


def test_best_begins_no_candidate_that_would_pass_its_time_and_a_number_repeats_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    class Slow(Seen):
        def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
            now[0] += 10.0  # 40 seconds a candidate
            return super().trained(candidate, fold, model)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    given = {"quality": "best", "start": "none"}
    one = train_quality(PARAMS | OWN["lightgbm"], DATA, 4, time_limit=119.0, watch=Slow(), **given)  # type: ignore[arg-type]
    record: Any = one.info.quality
    assert [c["name"] for c in record["candidates"]] == [c.name for c in GOOD[:2]]
    assert record["left"] == [c.name for c in (*GOOD[2:], *MORE)]
    again, seen = good(rounds=4, quality="best", max_candidates=2)
    assert seen.plan is not None
    assert seen.plan.seconds is None
    assert again.to_bytes() == one.to_bytes()
    assert {**again.info.quality, "left": record["left"]} == record  # type: ignore[dict-item]
    now[0] = 0.0
    three = train_quality(PARAMS | OWN["lightgbm"], DATA, 4, time_limit=120.0, watch=Slow(), **given)  # type: ignore[arg-type]
    assert len(three.info.quality["candidates"]) == 3  # type: ignore[index]


def test_a_candidate_that_gets_slower_is_given_up_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    class Slower(Seen):
        def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
            now[0] += 1.0 if candidate.name == GOOD[0].name else 100.0
            return super().trained(candidate, fold, model)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    seen = Slower(1000)
    one = train_quality(
        PARAMS | OWN["lightgbm"], DATA, 2, quality="best", start="none", time_limit=50.0, watch=seen
    )  # fmt: skip
    record: Any = one.info.quality
    assert [c["name"] for c in record["candidates"]] == [GOOD[0].name]
    assert [name for name, *_ in seen.models].count(GOOD[1].name) == 1
    assert record["left"][0] == GOOD[1].name


def test_a_file_of_which_no_query_counts_has_no_number() -> None:
    nothing = DATA.take(np.arange(3))
    one, _ = good(rounds=2, valid_sets=[replace(nothing, labels=np.zeros(nothing.n_documents))])
    assert one.info.quality["valid"] == [{"value": None, "low": None, "high": None, "queries": 0}]  # type: ignore[index]


def test_a_candidate_that_others_have_beaten_is_trained_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Candidate("bad", "regression", trees={"num_leaves": 2}, rounds=1)
    monkeypatch.setattr(module, "GOOD", (bad, *GOOD))
    one, seen = good(rounds=8)
    record: Any = one.info.quality
    by_name = {c["name"]: c for c in record["candidates"]}
    trained = [k for n, k, _ in seen.models if n == "bad"]
    assert trained == list(range(len(trained)))
    assert len(trained) < 4
    assert by_name["bad"]["weight"] == 0.0
    assert by_name["bad"]["difference"]["high"] < 0.0
    weights, _, deviations = twin(DATA, seen)
    assert {name: c["weight"] for name, c in by_name.items()} == pytest.approx(weights)
    np.testing.assert_allclose(one.predict(DATA), summed(seen, weights, deviations, DATA), atol=1e-6)
    kept, seen = good(rounds=8, quality="best", max_candidates=4)
    by_name = {c["name"]: c for c in kept.info.quality["candidates"]}  # type: ignore[index]
    assert len(by_name["bad"]["rounds"]) == 4  # the first of `best`: nothing is better yet


def test_large_data_have_fewer_trainings_and_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [trainings_of("good", 3, cells) for cells in (1e6, 4e6, 8e6, 16e6, 1e9)] == [12, 12, 6, 3, 3]
    assert trainings_of("best", 3, 1e9) == 12
    assert work_of("good", 1e9) == pytest.approx(2.0)
    assert (work_of("good", 1e6), work_of("best", 1e6)) == (0.75 * 4 * len(GOOD), 0.75 * 4 * len((*GOOD, *MORE)))
    monkeypatch.setattr(plans, "LARGE", 100)
    one, seen = good(rounds=8)
    record: Any = one.info.quality
    assert seen.plan is not None
    large = [c.name for c in GOOD if c.large]
    assert [c.name for c in seen.plan.candidates] == large
    assert (seen.plan.trainings, seen.plan.folds, record["folds"]) == (3, 3, 3)
    assert [(n, k) for n, k, _ in seen.models[:2]] == [(name, 0) for name in large]
    weights, scores, deviations = twin(DATA, seen, 3)
    best = max(large, key=lambda name: value_of(DATA, np.where(fold_rows(DATA, 3) == 0, scores[name], np.nan)))
    assert [(n, k) for n, k, _ in seen.models[2:]] == [(best, 1)]
    assert {c["name"]: c["weight"] for c in record["candidates"]} == pytest.approx(weights)
    np.testing.assert_allclose(one.predict(DATA), summed(seen, weights, deviations, DATA), atol=1e-6)
    monkeypatch.setattr(plans, "LARGE", 0.6 * DATA.n_documents * 4)
    _, seen = good(rounds=2)
    assert seen.plan is not None
    assert ([c.name for c in seen.plan.candidates], seen.plan.trainings) == ([c.name for c in GOOD], 7)
    assert len(seen.models) <= 7
    monkeypatch.setattr(plans, "LARGE", 0.45 * DATA.n_documents * 4)  # two candidates, of which more than one training
    _, seen = good(rounds=2)
    assert seen.plan is not None
    assert ([c.name for c in seen.plan.candidates], seen.plan.trainings) == (large, 5)
    _, seen = good(rounds=2, backend="xgboost")
    assert seen.plan is not None
    assert ([c.name for c in seen.plan.candidates], seen.plan.trainings) == (["auto"], 3)


def fold_rows(data: RankingDataset, folds: int) -> np.ndarray:
    """The fold of each row."""
    return fold_of(data, folds)[data.queries.of_rows()]


def test_columns_within_queries_are_the_models(tmp_path: Any) -> None:
    one, seen = good(rounds=3, params={"objective": "regression"}, within_query="rank")
    assert one.column_names[4:] == tuple(f"rank(f{i}|query)" for i in range(1, 5))
    weights, _, deviations = twin(DATA, seen)
    expected = summed(seen, weights, deviations, DATA)
    one.save(tmp_path / "m")
    np.testing.assert_allclose(RankingModel.load(tmp_path / "m").predict(DATA), expected, atol=1e-6)


def test_data_that_folds_cannot_be_taken_of_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    few = DATA.take(np.arange(9))
    labels = np.where(few.queries.of_rows() < 2, 1.0, few.labels)
    assert unfit(replace(few, labels=labels)) == "has 7 queries whose labels differ, and a choice needs 8"
    assert unfit(few) is None
    with pytest.raises(ParameterError, match="chooses by a metric"):
        good(params={"metric": "none"})
    with pytest.raises(ParameterError, match="good or best"):
        good(quality="quick")


def test_a_fold_has_queries_that_count_where_they_are_few() -> None:
    labels = np.where(DATA.queries.of_rows() < 9, DATA.labels, 0.0)
    data = replace(DATA, labels=labels)
    counted = ~np.isnan(BoundMetrics(["ndcg@5"], labels, data.queries).per_query(np.zeros(labels.size))["ndcg@5"])
    assert 8 <= counted.sum() <= 9
    fewest = []
    for seed in range(4):
        fold = np.random.default_rng(seed).permutation(50) % 4
        fewest.append(np.bincount(fold[counted], minlength=4).min())
        one, seen = good(data, 2, params={"objective": "regression", "extra_trees": False, "seed": seed})
        assert len(seen.models) == 4
        assert one.info.quality is not None
        assert one.info.quality["held_out"]["ndcg@5"]["queries"] == counted.sum()
    assert min(fewest) == 0  # what chance alone would do


def test_what_cannot_be_trained_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Candidate("broken", lambda scores, data: (np.full(scores.size, np.nan), np.ones(scores.size)))
    monkeypatch.setattr(module, "GOOD", (GOOD[0], broken, GOOD[2]))
    one, _ = good(rounds=3)
    record: Any = one.info.quality
    assert [c["name"] for c in record["candidates"]] == [GOOD[0].name, GOOD[2].name]
    assert list(record["failed"]) == ["broken"]
    assert "round 0" in record["failed"]["broken"]
    assert record["left"] == []
    monkeypatch.setattr(module, "GOOD", (broken,))
    with pytest.raises(TrainingError, match="round 0"):
        good(rounds=3)


@pytest.mark.parametrize("quality", ["good", "best"])
def test_dart_is_refused_since_its_rounds_rescale_earlier_trees(quality: str) -> None:
    with pytest.raises(ParameterError, match="dart"):
        train_quality({**PARAMS, "boosting": "dart"}, DATA, 2, quality=quality)


@pytest.mark.parametrize("params", [{"boosting": "dart"}, {"metric": "none"}])
def test_quick_stops_early_only_where_it_can(params: dict[str, Any]) -> None:
    watched = DATA.take(np.arange(4))
    model = train({**PARAMS, **params, "num_iterations": 3, "objective": "lambdarank"}, DATA, valid_sets=[watched],
                  quality="quick")  # fmt: skip
    assert model.best_iteration == 3
    trees = quick(get_backend("lightgbm"), Sizes(100, 10, 5), {"boosting": "dart"}, None, 4, stops=False)
    assert (trees.rounds, trees.patience) == (100, 0)


def test_a_parameter_of_the_objective_that_is_given_is_that_of_all_candidates() -> None:
    one, seen = good(rounds=2, params={"train_discount": "log"})
    assert "reg-shf-sdcg" in {name for name, *_ in seen.models}
    for _, _, model in seen.models:
        assert model.info.parameters["train_discount"] == "log"  # type: ignore[index]
    assert one.info.quality is not None


def test_limits_that_are_none_are_refused() -> None:
    for limit in ({"time_limit": 0.0}, {"time_limit": float("nan")}, {"max_candidates": 0}):
        with pytest.raises(ParameterError, match=next(iter(limit))):
            train_quality(PARAMS, DATA, 2, quality="best", **limit)  # type: ignore[arg-type]
