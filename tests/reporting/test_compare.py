"""Two rankers on the same queries: what differs, for whom, and why."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy import stats

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import BoundMetrics, evaluate, paired_difference
from boostrank.reporting.comparison import Comparison, Condition, compare
from boostrank.reporting.difference import Difference, open_report
from boostrank.reporting.rank_changes import RankChange, churn
from tests.reference._scipy_seed import seeded

FAST = {"num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "num_leaves": 7}


def ranking(queries: int, seed: int, *, longest: int = 30, features: int = 5) -> RankingDataset:
    """Lists of 1 to `longest` documents with grades 0 to 3 that the first features tell."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest + 1, queries)
    X = rng.normal(size=(sizes.sum(), features))
    y = np.clip(np.round(X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=len(X))), 0, 3)
    return RankingDataset.from_arrays(X, y, group=sizes)


def scores_for(data: RankingDataset, noise: float, seed: int) -> np.ndarray:
    return data.labels + noise * np.random.default_rng(seed).normal(size=data.n_documents)


@pytest.fixture(scope="module")
def held_out() -> RankingDataset:
    return ranking(120, 1)


@pytest.fixture(scope="module")
def comparison(held_out: RankingDataset) -> Comparison:
    """Two score files, three metrics."""
    old, new = scores_for(held_out, 1.0, 1), scores_for(held_out, 1.5, 2)
    return compare(old, new, held_out, ["ndcg@10", "map", "precision@5"])


def test_means_are_those_of_evaluate_and_the_difference_that_of_paired_difference(
    held_out: RankingDataset, comparison: Comparison
) -> None:
    sides = [
        evaluate(
            list(comparison.metrics),
            held_out.labels,
            scores_for(held_out, noise, seed),
            held_out.queries,
        )
        for noise, seed in ((1.0, 1), (1.5, 2))
    ]
    for name, d in comparison.metrics.items():
        old, new = sides[0][name], sides[1][name]
        expected = paired_difference(new.per_query, old.per_query)
        assert (d.mean, d.low, d.high, d.p, d.queries) == (
            expected.mean,
            expected.low,
            expected.high,
            expected.p,
            expected.queries,
        )
        assert (d.old, d.new) == pytest.approx((old.mean, new.mean), abs=1e-14)


def test_a_comparison_prints_as_its_first_table(comparison: Comparison) -> None:
    name, *lines = repr(comparison).splitlines()
    assert name == "<Comparison>"
    assert lines[0].split()[:6] == ["metric", "kind", "segment", "queries", "old", "new"]
    rows = len(comparison.table())
    assert len(lines) == 1 + min(rows, 10) + (rows > 10)
    assert f"{comparison.metrics['ndcg@10'].new:.4f}" in lines[1]


def test_interval_and_p_value_are_scipy_s(comparison: Comparison) -> None:
    for name, d in comparison.metrics.items():
        values = comparison.per_query[name]
        old, new = values[~np.isnan(values[:, 0])].T
        n = new.size  # Hesterberg 2015: wider by Student's tails and the factor n / (n - 1)
        level = 2 * stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1)) - 1
        interval = stats.bootstrap(
            (new - old,),
            np.mean,
            method="percentile",
            n_resamples=10_000,
            confidence_level=level,
            **seeded(1),
        ).confidence_interval
        width = interval.high - interval.low
        assert [d.low, d.high] == pytest.approx([interval.low, interval.high], abs=0.04 * width)
        test = stats.permutation_test(
            (new, old),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
            **seeded(0),
        )
        assert d.p == pytest.approx(test.pvalue, abs=0.015)


def test_few_queries_have_scipy_s_exact_p_value_and_as_a_segment_no_interval() -> None:
    data = ranking(9, 3)
    comparison = compare(scores_for(data, 1.0, 1), scores_for(data, 2.0, 2), data, "dcg@10")
    values = comparison.per_query["dcg@10"]
    old, new = values[~np.isnan(values[:, 0])].T
    exact = stats.permutation_test(
        (new, old),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert comparison.metrics["dcg@10"].p == pytest.approx(exact.pvalue, abs=1e-12)
    assert np.isnan([[s.low, s.high] for s in comparison.segments]).all()


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    """NDCG@10 differences of 3,000 queries: many are 0, the others skewed."""
    data = ranking(3000, 5, longest=12)
    bound = BoundMetrics("ndcg@10", data.labels, data.queries)
    old = bound.per_query(scores_for(data, 0.5, 1))["ndcg@10"]
    new = bound.per_query(scores_for(data, 0.8, 2))["ndcg@10"]
    change = (new - old)[~np.isnan(old)]
    assert 0.1 < np.mean(change == 0.0) < 0.9
    assert abs(stats.skew(change)) > 0.5
    return change


@pytest.mark.parametrize(("queries", "least"), [(40, 0.925), (150, 0.935)])
def test_intervals_hold_the_truth_at_their_nominal_rate(
    population: np.ndarray, queries: int, least: float
) -> None:
    rng = np.random.default_rng(queries)
    truth, hits, times = population.mean(), 0, 1000
    for seed in range(times):
        sample = rng.choice(population, queries)
        interval = paired_difference(sample, np.zeros(queries), resamples=800, seed=seed)
        hits += interval.low <= truth <= interval.high
    assert least <= hits / times <= 0.965


def test_a_difference_by_chance_is_found_significant_as_often_as_alpha_says(
    population: np.ndarray,
) -> None:
    rng = np.random.default_rng(7)
    wrong, times = 0, 1000
    for seed in range(times):
        sample = rng.choice(population, 50) * rng.choice([-1.0, 1.0], 50)
        wrong += paired_difference(sample, np.zeros(50), resamples=500, seed=seed).p < 0.05
    assert 0.03 <= wrong / times <= 0.065


def test_queries_are_counted_as_better_same_or_worse(comparison: Comparison) -> None:
    for name, d in comparison.metrics.items():
        change = np.diff(comparison.per_query[name], axis=1)[:, 0]
        change = change[~np.isnan(change)]
        assert d.better == sum(change > 1e-12)
        assert d.worse == sum(change < -1e-12)
        assert d.better + d.same + d.worse == d.queries == change.size


def test_a_ranker_does_not_differ_from_itself(held_out: RankingDataset) -> None:
    scores = scores_for(held_out, 1.0, 1)
    same = compare(scores, 3.0 * scores - 1.0, held_out, fail_if="ndcg@10 < 0")
    d = same.metrics["ndcg@10"]
    assert (d.mean, d.low, d.high, d.p, d.better, d.worse) == (0.0, 0.0, 0.0, 1.0, 0, 0)
    assert (same.churn.changed, same.churn.first, same.regressions, same.failed) == (
        0.0,
        0.0,
        (),
        False,
    )


def test_weights_weigh_means_and_not_counts(held_out: RankingDataset) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(held_out.queries))
    index = QueryIndex(held_out.queries.ptr, held_out.queries.qid, weights)
    old, new = scores_for(held_out, 1.0, 1), scores_for(held_out, 1.5, 2)
    weighed = compare(old, new, replace(held_out, queries=index))
    values = weighed.per_query["ndcg@10"]
    counted = ~np.isnan(values[:, 0])
    d = weighed.metrics["ndcg@10"]
    assert d.mean == pytest.approx(
        np.average(np.diff(values[counted], axis=1)[:, 0], weights=weights[counted])
    )
    assert (d.old, d.new) == pytest.approx(
        tuple(np.average(values[counted], axis=0, weights=weights[counted]))
    )
    assert d.better == compare(old, new, held_out).metrics["ndcg@10"].better


def test_the_top_is_compared_as_sets(held_out: RankingDataset) -> None:
    rng = np.random.default_rng(4)
    old = np.round(rng.random(held_out.n_documents), 1)  # with ties
    new = np.round(rng.random(held_out.n_documents), 1)
    ptr, shares, firsts = held_out.queries.ptr, [], []
    for a, b in itertools.pairwise(ptr.tolist()):
        tops = [[*np.argsort(-s[a:b], kind="stable")] for s in (old, new)]
        share = 1 - len({*tops[0][:4]} & {*tops[1][:4]}) / 4 if b - a > 4 else np.nan
        shares.append(share)
        if b - a > 1:
            firsts.append(tops[0][0] != tops[1][0])
    ranks = [held_out.queries.ranks(s) for s in (old, new)]
    top = churn(*ranks, held_out.queries, 4)
    assert top.changed == pytest.approx(np.nanmean(shares))
    assert (top.queries, top.first) == (
        np.count_nonzero(~np.isnan(shares)),
        pytest.approx(np.mean(firsts)),
    )


def test_short_lists_have_no_churn_to_tell() -> None:
    data = RankingDataset.from_arrays(np.zeros((3, 1)), [1, 0, 1], group=[1, 1, 1])
    assert np.isnan(compare([1, 2, 3], [3, 2, 1], data).churn.changed)
    assert compare([1, 2, 3], [3, 2, 1], data).to_dict()["churn"] == {
        "k": 10,
        "changed": None,
        "queries": 0,
        "first": None,
    }


def test_segments_are_comparisons_of_their_own_queries(held_out: RankingDataset) -> None:
    old, new = scores_for(held_out, 1.0, 1), scores_for(held_out, 1.5, 2)
    table = {q: "even" if q % 2 == 0 else "odd" for q in range(len(held_out.queries))}
    whole = compare(old, new, held_out, segments=table)
    index, rows = held_out.queries.take(np.arange(0, len(held_out.queries), 2))
    part = compare(
        old[rows], new[rows], replace(held_out.take(np.arange(0, 120, 2)), queries=index)
    )
    even = next(s for s in whole.segments if (s.kind, s.segment) == ("segment", "even"))
    names = ("old", "new", "mean", "low", "high", "p", "better", "same", "worse")
    assert [getattr(even, name) for name in names] == [
        getattr(part.metrics["ndcg@10"], name) for name in names
    ]
    for kind in ("segment", "list length", "best label"):
        assert (
            sum(s.queries for s in whole.segments if s.kind == kind)
            == whole.metrics["ndcg@10"].queries
        )
    assert {s.segment for s in whole.segments if s.kind == "best label"} == {
        "1",
        "2",
        "3",
    }  # 0 does not count


def test_holm_counts_only_segments_in_which_a_query_changed() -> None:
    data = ranking(80, 6, longest=12)
    comparison = compare(scores_for(data, 0.5, 1), scores_for(data, 1.5, 2), data)
    changed = [s for s in comparison.segments if s.better + s.worse]
    (still,) = [s for s in comparison.segments if s not in changed]
    assert (still.segment, still.p_holm) == ("1 document", 1.0)
    lowest = min(changed, key=lambda s: s.p)
    assert lowest.p_holm == pytest.approx(len(changed) * lowest.p)
    assert lowest.p_holm < 1.0


def test_regressions_are_the_queries_that_lost_most(comparison: Comparison) -> None:
    change = np.diff(comparison.per_query["ndcg@10"], axis=1)[:, 0]
    worst = np.sort(change[change < 0])[:20]
    np.testing.assert_allclose([r.new - r.old for r in comparison.regressions], worst)
    assert comparison.regressions[0].qid == str(np.nanargmin(change))


def test_the_documents_that_moved_are_told_with_ranks_and_label() -> None:
    data = RankingDataset.from_arrays(np.zeros((4, 1)), [3, 0, 1, 0], qid=["q"] * 4)
    data = replace(data, document_names=["a", "b", "c", "d"])
    comparison = compare([4, 3, 2, 1], [3, 4, 2, 1], data, "ndcg", top=3)
    (regression,) = comparison.regressions
    assert regression.moves == (RankChange("a", 0, 3.0, 1, 2), RankChange("b", 1, 0.0, 2, 1))
    assert regression.fallen == regression.moves[0]


def test_documents_that_left_or_entered_the_top_are_told_and_those_below_it_in_both_are_not() -> (
    None
):
    data = RankingDataset.from_arrays(np.zeros((4, 1)), [1, 0, 0, 0], qid=["q"] * 4)
    (regression,) = compare([4, 3, 2, 1], [2, 1, 3, 4], data, top=1).regressions
    assert [(m.row, m.old, m.new) for m in regression.moves] == [(0, 1, 3), (3, 4, 1)]


def test_the_best_document_that_fell_is_named() -> None:
    data = RankingDataset.from_arrays(np.zeros((4, 1)), [1, 3, 2, 0], qid=["q"] * 4)
    (regression,) = compare([1, 3, 2, 0], [1, 2, 0, 3], data).regressions
    assert (regression.fallen.row, regression.fallen.old, regression.fallen.new) == (1, 1, 2)
    unlisted = RankChange("d", 0, 1.0, 3, None)
    assert unlisted.fell
    assert not RankChange("d", 0, 1.0, None, 3).fell


def test_scores_that_tie_now_regress_without_a_move() -> None:
    data = RankingDataset.from_arrays(np.zeros((2, 1)), [1, 0], qid=["q", "q"])
    (regression,) = compare([2, 1], [1, 1], data).regressions
    assert (regression.moves, regression.fallen) == ((), None)


def test_scores_come_in_the_order_in_which_scattered_rows_were_given() -> None:
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(60, 1)), rng.integers(0, 3, 60), rng.permutation(np.arange(60) % 6)
    data = RankingDataset.from_arrays(X, y, qid=qid, sort=True)
    d = compare(-y, y, data, "ndcg").metrics["ndcg"]
    assert d.new == 1.0
    (first, *_) = compare(y, -y, data, "ndcg").regressions
    move = first.moves[0]
    row = int(move.document.removeprefix("row ")) - 1
    assert (str(qid[row]), float(y[row])) == (first.qid, move.label)


@pytest.fixture(scope="module")
def models(tmp_path_factory: Any) -> tuple[boostrank.RankingModel, boostrank.RankingModel]:
    """One of LightGBM that boostrank knows nothing about, and one of XGBoost."""
    train = ranking(80, 0)
    path = tmp_path_factory.mktemp("models") / "foreign.txt"
    dataset = lgb.Dataset(train.features, train.labels, group=train.queries.sizes)
    lgb.train({"objective": "lambdarank", **FAST}, dataset, 8).save_model(path)
    new = boostrank.train(
        {"objective": "regression", "num_leaves": 3, "num_threads": 1}, train, 3, backend="xgboost"
    )
    return boostrank.RankingModel.load(path), new


def test_a_lightgbm_dataset_is_read_as_in_training(models: Any, held_out: RankingDataset) -> None:
    native = lgb.Dataset(held_out.features, held_out.labels, group=held_out.queries.sizes)
    assert compare(*models, native).to_dict() == compare(*models, held_out).to_dict()


def test_a_condition_measures_its_own_metric_and_shuts_the_gate(held_out: RankingDataset) -> None:
    old, new = scores_for(held_out, 0.3, 1), scores_for(held_out, 3.0, 2)
    comparison = compare(
        old,
        new,
        held_out,
        "map",
        fail_if=["ndcg@3 < -0.002 at p<0.05", "map > 0"],
    )
    assert [o.holds for o in comparison.outcomes] == [True, False]
    assert comparison.failed
    assert list(comparison.metrics) == ["map", "ndcg@3"]
    assert not compare(new, old, held_out, fail_if="ndcg@10 < -0.002 at p<0.05").failed


def test_a_comparison_is_seeded_and_comes_as_json_and_data_frames(
    held_out: RankingDataset, comparison: Comparison
) -> None:
    again = compare(
        scores_for(held_out, 1.0, 1),
        scores_for(held_out, 1.5, 2),
        held_out,
        list(comparison.metrics),
    )
    assert again.to_dict() == comparison.to_dict()
    assert json.loads(json.dumps(comparison.to_dict(), allow_nan=False)) == comparison.to_dict()
    differences = comparison.to_frame()
    assert differences["mean"].tolist()[:3] == [d.mean for d in comparison.metrics.values()]
    assert len(differences) == 3 + len(comparison.segments)
    queries = comparison.to_frame("queries")
    np.testing.assert_array_equal(queries["map new"], comparison.per_query["map"][:, 1])
    assert {"qid", "list length", "best label"} <= set(queries.columns)
    with pytest.raises(ParameterError, match=r"x.*differences, queries"):
        comparison.to_frame("x")


def test_scores_of_another_length_or_not_finite_are_refused(held_out: RankingDataset) -> None:
    scores = np.zeros(held_out.n_documents)
    with pytest.raises(DataError, match=r"^new: .*shape"):
        compare(scores, scores[1:], held_out)
    with pytest.raises(DataError, match="only finite scores"):
        compare(scores, scores * np.nan, held_out)
    with pytest.raises(ParameterError, match=r"top .*at least 1"):
        compare(scores, scores, held_out, top=0)


def test_a_difference_that_luck_in_training_explains_is_told_so_and_has_no_colour(
    held_out: RankingDataset,
) -> None:
    old, new = scores_for(held_out, 1.0, 1), scores_for(held_out, 1.5, 2)
    comparison = compare(old, new, held_out, ["ndcg@10", "map"], matters={"ndcg@10": 0.5})
    assert [d.by_luck for d in comparison.metrics.values()] == [True, False]
    assert all(s.matters == 0.5 for s in comparison.segments if s.metric == "ndcg@10")
    page = comparison.to_html()
    plain = compare(old, new, held_out, ["ndcg@10", "map"]).to_html()
    assert "differ by up to 0.5000 by chance" in page
    assert "training noise" not in plain
    coloured = f'class="worse">{comparison.metrics["ndcg@10"].mean:+.4f}'
    assert coloured in plain
    assert coloured not in page


def test_a_condition_that_so_few_queries_never_meet_is_refused() -> None:
    data = RankingDataset.from_arrays(np.zeros((12, 1)), [1, 0] * 6, group=[2] * 6)
    scores, condition = np.tile([1.0, 0.0], 6), "ndcg@1 < -0.1 at p<{}"
    assert compare(
        scores, -scores, data, fail_if=condition.format(0.05)
    ).failed  # 2 of 64 signs are as extreme
    with pytest.raises(DataError, match=r"ndcg@1 < -0.1 at p<0.03.* 6 queries"):
        compare(scores, -scores, data, fail_if=condition.format(0.03))


@pytest.mark.parametrize(
    ("lead", "words"),
    [
        ((0.04, 0.01, 0.07, 0.001), "ranks better than"),
        ((-0.04, -0.07, -0.01, 0.001), "ranks worse than"),
        ((0.04, -0.01, 0.09, 0.2), "is not significantly different from"),
        ((0.04, math.nan, math.nan, 0.001), "is not significantly different from"),
    ],
)
def test_the_first_line_has_a_verdict_only_where_the_interval_excludes_zero(
    lead: tuple[float, float, float, float], words: str
) -> None:
    difference = Difference("all", "all", "map", 100, 0.4, 0.44, *lead, 60, 10, 30)
    opening = open_report("a", "b", difference, (20, 10))
    assert (opening.new, opening.verdict, opening.old) == ("a", words, "b")
    # Relative to the old value, and the trees of both.
    assert f"({lead[0] / 0.4:+.1%})" in opening.numbers
    assert "20 trees instead of 10" in opening.numbers
    by_noise = open_report("a", "b", replace(difference, matters=0.05), (None, 10))
    assert by_noise.verdict == "is not significantly different from"
    assert "trees" not in by_noise.numbers
    assert "has 1,000 trees." in open_report("a", "b", difference, (1000, None)).numbers


def test_the_first_line_of_few_queries_has_no_verdict_and_says_what_chance_gives() -> None:
    difference = Difference("all", "all", "map", 3, 0.2, 0.7, 0.5, 0.3, 0.8, 0.25, 3, 0, 0)
    opening = open_report("a", "b", difference, (None, None))
    assert opening.verdict == "is not significantly different from"
    assert "25%" in opening.numbers
    # A single query has no interval.
    single = replace(difference, queries=1, low=0.5, high=0.5, p=1.0, better=1)
    numbers = open_report("a", "b", single, (1, 1)).numbers
    assert "on 1 query (" in numbers
    assert "confidence" not in numbers
    assert "has 1 tree." in numbers


def test_the_first_lines_of_report_and_compare_have_the_same_verdict() -> None:
    model = boostrank.train(FAST, ranking(40, 1), 10)
    few = ranking(3, 5)
    new, old = model.predict(few), -model.predict(few)
    report = boostrank.report(model, few, baseline=old, only=["verdict"])
    comparison = compare(old, new, few)
    # Three queries allow no p-value below .25, whatever the interval is.
    assert next(iter(comparison.metrics.values())).low > 0.0
    assert report.opening.verdict == comparison.opening.verdict
    assert report.opening.verdict == "is not significantly different from"


def test_a_condition_may_be_passed_alone() -> None:
    data = RankingDataset(np.zeros((4, 1)), np.array([1.0, 0, 1, 0]), QueryIndex.from_sizes([2, 2]))
    condition = Condition("mrr", "<", 0.0)
    compared = compare([1.0, 0, 1, 0], [0.0, 1, 1, 0], data, "mrr", fail_if=condition)
    assert [outcome.condition for outcome in compared.outcomes] == [condition]
    assert compared.failed
