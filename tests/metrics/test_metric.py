"""A metric's text, its result, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.core import resampling
from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.kernels import metric as driver
from boostrank.metrics import BoundMetrics, Metric, evaluate
from boostrank.metrics.measure import METRICS


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        ("ndcg@1,3,5", "ndcg@1,3,5"),
        (" NDCG@5, 1,5 ", "ndcg@5,1"),
        ("ndcg", "ndcg"),
        ("map", "map"),
        ("AP@3", "map@3"),
        ("p@5", "precision@5"),
        ("precision@5", "precision@5"),
        ("mean-average-precision", "map"),
    ],
)
def test_a_metric_is_read_from_text_and_written_canonically(text: str, canonical: str) -> None:
    assert str(Metric.parse(text)) == canonical


@given(
    name=st.sampled_from(METRICS.names()),
    cuts=st.lists(st.integers(1, 10**6), unique=True, max_size=5),
)
def test_the_text_of_a_metric_reads_back(name: str, cuts: list[int]) -> None:
    metric = Metric(name, tuple(cuts))
    assert Metric.parse(str(metric)) == metric
    assert pickle.loads(pickle.dumps(metric)) == metric


@pytest.mark.parametrize(
    "text",
    [
        "ndcg@",
        "ndcg@0",
        "ndcg@-1",
        "ndcg@ten",
        "ndcg@1,,3",
        "ndcg@1.5",
        "ndcg@3-",
        "@3",
        "",
        "ndcg@9223372036854775807",
        "ndcg@" + "1" * 5000,
    ],
)
def test_text_that_is_no_metric_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        Metric.parse(text)


def test_an_unknown_metric_is_answered_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"'ndgc'.* 'ndcg'"):
        Metric.parse("ndgc@10")


def test_one_result_asks_for_one_cutoff() -> None:
    with pytest.raises(ParameterError, match="several cut-offs"):
        Metric.parse("ndcg@1,3").evaluate([1, 0], [1.0, 0.0], QueryIndex.from_sizes([2]))


def test_results_come_in_the_order_asked_for() -> None:
    index = QueryIndex.from_sizes([3])
    results = evaluate(["ndcg@5,1,3", "map"], [0, 1, 2], [3.0, 2.0, 1.0], index)
    assert list(results) == ["ndcg@5", "ndcg@1", "ndcg@3", "map"]
    assert [results[name].name for name in results] == list(results)
    assert results["ndcg@1"].mean == 0.0
    assert BoundMetrics(["ndcg@5,1,3", "map"], [0, 1, 2], index).names == tuple(results)


def test_query_weights_weigh_the_mean() -> None:
    index = QueryIndex.from_sizes([2, 2], weights=[3.0, 1.0])
    assert Metric.parse("mrr").evaluate(
        [1, 0, 0, 1], [2.0, 1.0, 2.0, 1.0], index
    ).mean == pytest.approx((3 * 1 + 1 * 0.5) / 4)


@pytest.mark.parametrize(("weights", "counted"), [(None, 2.0), ([3.0, 50.0, 1.0], 4.0)])
def test_sums_have_the_weight_of_the_queries_that_count(
    weights: list[float] | None, counted: float
) -> None:
    index, labels = QueryIndex.from_sizes([2, 2, 2], weights=weights), [1, 0, 0, 0, 0, 1]
    total, weight = BoundMetrics("mrr", labels, index).sums([2.0, 1.0, 2.0, 1.0, 2.0, 1.0])["mrr"]
    first, last = (1.0, 1.0) if weights is None else (3.0, 1.0)
    assert (total, weight) == (pytest.approx(first + 0.5 * last), counted)


def test_a_query_left_out_weighs_nothing() -> None:
    index = QueryIndex.from_sizes([2, 2, 2], weights=[3.0, 50.0, 1.0])
    result = Metric.parse("mrr").evaluate([1, 0, 0, 0, 0, 1], [2.0, 1.0, 2.0, 1.0, 2.0, 1.0], index)
    assert result.mean == pytest.approx((3 * 1 + 1 * 0.5) / 4)


def test_values_of_a_round_are_the_means_of_the_results() -> None:
    rng = np.random.default_rng(0)
    index = QueryIndex.from_sizes(rng.integers(1, 30, 50))
    bound = BoundMetrics(
        ["ndcg@1,3,5,10", "map", "err@4"], rng.integers(0, 4, index.n_documents), index
    )
    for _ in range(2):
        scores = rng.normal(size=index.n_documents).astype(np.float32)
        assert bound.values(scores) == {name: r.mean for name, r in bound.results(scores).items()}


def test_a_perfect_ranking_is_exactly_one_and_never_more() -> None:
    rng = np.random.default_rng(1)
    index = QueryIndex.from_sizes(rng.integers(1, 90, 200))
    labels = rng.integers(0, 5, index.n_documents)
    for name in ("ndcg@1,3,10", "ndcg", "map", "mrr", "recall"):
        for result in evaluate(name, labels, labels * 2.0, index).values():
            assert np.nanmax(result.per_query) <= 1.0
            if name != "map":
                assert np.nanmin(result.per_query) >= 1.0 - 1e-15


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused_with_its_row_and_query(bad: float) -> None:
    index = QueryIndex.from_ids(["shoes", "shoes", "hats"])
    with pytest.raises(DataError, match=r"row 2 .*query hats"):
        evaluate("ndcg", [1, 0, 1], [1.0, 2.0, bad], index)


def test_lengths_that_differ_are_refused() -> None:
    index = QueryIndex.from_sizes([2, 1])
    with pytest.raises(DataError, match="the queries cover 3 documents"):
        evaluate("ndcg", [1, 0], [1.0, 2.0, 3.0], index)
    with pytest.raises(DataError, match="2 scores for 3 documents"):
        evaluate("ndcg", [1, 0, 1], [1.0, 2.0], index)


@pytest.mark.parametrize(
    ("metric", "label"), [("ndcg", -1.0), ("ndcg", np.nan), ("map", np.inf), ("ndcg", 32.0)]
)
def test_labels_that_mean_nothing_are_refused_with_their_row(metric: str, label: float) -> None:
    with pytest.raises(DataError, match="row 1"):
        evaluate(metric, [1.0, label], [1.0, 2.0], QueryIndex.from_sizes([2]))


def test_gains_that_overflow_when_added_up_are_refused() -> None:
    from boostrank.core.conventions import Conventions

    with pytest.raises(DataError, match="query 0 overflow"):
        evaluate(
            "ndcg",
            [1e308, 1e308],
            [1.0, 2.0],
            QueryIndex.from_sizes([2]),
            Conventions(gain="linear"),
        )


def test_a_query_of_a_hundred_thousand_tied_documents_is_no_trouble() -> None:
    labels = np.zeros(100_000)
    labels[::50] = 1.0
    results = evaluate(
        ["ndcg", "map", "mrr", "recall@10"],
        labels,
        np.zeros(labels.size),
        QueryIndex.from_sizes([100_000]),
    )
    assert results["recall@10"].mean == pytest.approx(10 / 100_000)
    # documents before the first of R relevant ones among n are few: the mean reciprocal rank is
    # near p ln(1/p)
    assert results["mrr"].mean == pytest.approx(0.02 * np.log(50), rel=0.05)


def test_the_interval_is_the_seeded_percentile_bootstrap_over_queries() -> None:
    rng = np.random.default_rng(2)
    index = QueryIndex.from_sizes([2] * 60)
    labels, scores = np.tile([1, 0], 60), rng.normal(size=120)
    result = Metric.parse("mrr").evaluate(labels, scores, index, seed=7)
    again = Metric.parse("mrr").evaluate(labels, scores, index, seed=7)
    other = Metric.parse("mrr").evaluate(labels, scores, index, seed=8)
    assert (result.low, result.high) == (again.low, again.high) != (other.low, other.high)
    means = [rng.choice(result.per_query, 60).mean() for _ in range(4_000)]
    assert [result.low, result.high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.015)
    assert result.low < result.mean < result.high


def test_above_a_hundred_thousand_queries_the_interval_is_the_normal_one() -> None:
    rng = np.random.default_rng(3)
    values = rng.random((120_000, 1))
    low, high = resampling.bootstrap_intervals(values, np.ones(values.size))
    half = 1.959964 * values.std() / np.sqrt(values.size)
    assert [low[0], high[0]] == pytest.approx(
        [values.mean() - half, values.mean() + half], abs=1e-9
    )


def test_resampling_in_chunks_gives_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    values, weights = rng.random((40, 3)), rng.random(40) + 0.1
    whole = resampling.bootstrap_intervals(values, weights)
    monkeypatch.setattr(resampling, "_CHUNK", 400)
    np.testing.assert_allclose(resampling.bootstrap_intervals(values, weights), whole, rtol=1e-13)


def test_one_query_has_no_interval() -> None:
    result = Metric.parse("mrr").evaluate([0, 1], [2.0, 1.0], QueryIndex.from_sizes([2]))
    assert result.mean == 0.5
    assert np.isnan([result.low, result.high]).all()


@pytest.mark.parametrize("ties", ["expected", "input", "pessimistic", "optimistic"])
def test_queries_are_measured_alike_however_many_blocks_they_make(ties, monkeypatch):
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 60, 40)
    labels, scores = rng.integers(0, 5, sizes.sum()), rng.integers(0, 9, sizes.sum()).astype(float)
    measured = []
    for documents in (1, 100, 10**6):
        monkeypatch.setattr(driver, "_DOCUMENTS_A_BLOCK", documents)
        bound = BoundMetrics(
            ["ndcg@3,10", "map"], labels, QueryIndex.from_sizes(sizes), Conventions(ties=ties)
        )
        measured.append(bound.per_query(scores))
    for by_metric in measured[1:]:
        for name, values in by_metric.items():
            np.testing.assert_array_equal(values, measured[0][name])


@pytest.mark.parametrize("cutoffs", [(2.5,), ("a",), None, (0,), (2**63,), ("",), (np.nan,)])
def test_cutoffs_that_are_no_ranks_are_refused(cutoffs: object) -> None:
    with pytest.raises(ParameterError, match="ndcg"):
        Metric("ndcg", cutoffs)  # type: ignore[arg-type]


def test_one_cutoff_needs_no_tuple() -> None:
    assert Metric("ndcg", 15) == Metric("ndcg", "15") == Metric("ndcg", (15,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "rules", [{"max_grade": 40}, {"gain": (0, 1, 3), "max_grade": 4}, {"max_grade": 31.5}]
)
def test_a_largest_grade_without_a_gain_is_no_fault_of_a_row(rules: dict) -> None:
    with pytest.raises(ParameterError, match="max_grade") as caught:
        evaluate("err", [0, 1, 2], [3.0, 2.0, 1.0], [3], Conventions(**rules))
    assert "row" not in str(caught.value)
