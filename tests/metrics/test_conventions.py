"""What definitions leave open is said, checked and printed."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from boostrank.core.conventions import PRESETS, Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.metrics import MetricResult, evaluate

SIZES = [2, 3, 1, 2]
LABELS = [
    1,
    0,
    0,
    0,
    0,
    2,
    0,
    1,
]  # the second query has no relevant document, the third one document
SCORES = [2.0, 1.0, 3.0, 2.0, 1.0, 0.0, 2.0, 1.0]


def result(metric: str, **conventions: object) -> MetricResult:
    return evaluate(
        metric, LABELS, SCORES, QueryIndex.from_sizes(SIZES), Conventions(**conventions)
    )[metric]


def test_fault_049_empty_queries_are_left_out_but_counted_by_default() -> None:
    ndcg = result("ndcg@1")
    np.testing.assert_array_equal(ndcg.per_query, [1.0, np.nan, 1.0, 0.0])
    assert (ndcg.mean, ndcg.queries, ndcg.empty, ndcg.single) == (pytest.approx(2 / 3), 3, 1, 1)


@pytest.mark.parametrize(("empty", "value"), [("one", 1.0), ("zero", 0.0)])
def test_fault_049_empty_queries_count_what_the_convention_says(empty: str, value: float) -> None:
    ndcg = result("ndcg@1", empty=empty)
    np.testing.assert_array_equal(ndcg.per_query, [1.0, value, 1.0, 0.0])
    assert (ndcg.queries, ndcg.empty) == (4, 1)


@pytest.mark.parametrize("metric", ["ndcg", "map", "recall"])
def test_a_ratio_is_one_in_an_empty_query_where_that_is_the_convention(metric: str) -> None:
    assert result(metric, empty="one").per_query[1] == 1.0


@pytest.mark.parametrize("metric", ["dcg", "precision", "mrr", "err"])
def test_a_metric_that_is_not_a_ratio_is_zero_in_an_empty_query_even_where_others_count_one(
    metric: str,
) -> None:
    assert result(metric, empty="one").per_query[1] == 0.0


def test_a_metric_may_have_its_own_answer_to_empty_queries() -> None:
    options = {"empty": "one", "empty_of": (("map", "zero"),)}
    assert result("map", **options).per_query[1] == 0.0
    assert result("ndcg", **options).per_query[1] == 1.0
    assert result("map", empty="one", empty_of={"map": "zero"}).per_query[1] == 0.0


def test_fault_048_queries_of_one_document_count_unless_told_otherwise() -> None:
    assert result("ndcg").queries == 3
    left_out = result("ndcg", single="exclude")
    assert (left_out.queries, left_out.single) == (2, 1)
    assert np.isnan(left_out.per_query[2])


def test_what_is_empty_depends_on_where_relevance_begins() -> None:
    assert result("map", relevant_from=2.0).empty == 3
    assert result("ndcg", relevant_from=2.0).empty == 1


def test_when_no_query_counts_the_message_says_why() -> None:
    with pytest.raises(
        DataError,
        match=r"ndcg: .*1 have no .*0 have",
    ):
        evaluate("ndcg", [0, 0], [1.0, 2.0], QueryIndex.from_sizes([2]))


def test_tied_documents_may_be_ordered_by_name_as_trec_eval_does() -> None:
    ties = Conventions(ties="docno")
    index = QueryIndex.from_sizes([1, 3])
    by_name = evaluate("mrr", [1, 1, 0, 0], np.zeros(4), index, ties, docnos=["z", "a", "c", "b"])[
        "mrr"
    ]
    np.testing.assert_array_equal(by_name.per_query, [1.0, 1 / 3])
    with pytest.raises(ParameterError, match="pass docnos"):
        evaluate("mrr", [1, 1, 0, 0], np.zeros(4), index, ties)
    with pytest.raises(DataError, match="3 document names for 4 documents"):
        evaluate("mrr", [1, 1, 0, 0], np.zeros(4), index, ties, docnos=["a", "b", "c"])
    with pytest.raises(DataError, match="row 2"):
        evaluate("mrr", [1, 1, 0, 0], np.zeros(4), index, ties, docnos=["a", "b", "", "c"])


def test_scores_may_be_compared_as_float32() -> None:
    index = QueryIndex.from_sizes([2])
    scores = [1.0, 1.0 + 1e-12]
    assert evaluate("mrr", [1, 0], scores, index)["mrr"].mean == 0.5
    assert (
        evaluate("mrr", [1, 0], scores, index, Conventions(score_type="float32"))["mrr"].mean
        == 0.75
    )
    with pytest.raises(DataError, match=r"row 1 .*score"):
        evaluate("mrr", [1, 0], [1.0, 1e300], index, Conventions(score_type="float32"))


def test_a_query_without_documents_is_an_empty_query() -> None:
    index = QueryIndex(np.array([0, 0, 2, 2]), np.arange(3))
    results = evaluate(["ndcg@1", "err", "precision"], [1, 0], [2.0, 1.0], index)
    for result in results.values():
        assert (result.queries, result.empty) == (1, 2)
        np.testing.assert_array_equal(np.isnan(result.per_query), [True, False, True])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ties", "random"),
        ("empty", "skip"),
        ("score_type", "int"),
        ("single", "maybe"),
        ("discount", "log10"),
        ("ap_divisor", "k"),
        ("short_lists", "drop"),
        ("relevant_from", float("nan")),
        ("max_grade", -1.0),
        ("empty_of", (("map", "skip"),)),
        ("gain", "cubic"),
    ],
)
def test_a_word_that_is_not_a_convention_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ParameterError, match=field):
        Conventions(**{field: value})


def test_presets_are_found_by_name_and_a_wrong_name_is_answered_with_the_nearest() -> None:
    assert Conventions.of(" LightGBM ") == PRESETS["lightgbm"]
    with pytest.raises(ParameterError, match="Did you mean 'xgboost'"):
        Conventions.of("xgbost")


@pytest.mark.parametrize("name", list(PRESETS))
def test_conventions_survive_a_trip_through_plain_data(name: str) -> None:
    plain = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(PRESETS[name]).items()
    }
    assert Conventions(**plain) == PRESETS[name]


def test_conventions_describe_themselves_in_one_line() -> None:
    assert (
        Conventions().describe()
        == "gain exponential; ties expected; queries with no relevant document left out;"
        " one-document queries counted"
    )
    assert "count 1 (map: count 0)" in Conventions.of("catboost").describe()
    assert "discount 1 / log2(r)" in Conventions.of("letor").describe()
    assert Conventions(gain=(0, 1, 5)).describe().startswith("gain table 0,1,5;")


def test_err_takes_the_largest_label_of_the_data_as_the_best_grade_unless_told() -> None:
    assert result("err").per_query[0] == pytest.approx(1 / 4)
    assert result("err", max_grade=4).per_query[0] == pytest.approx(1 / 16)
    assert result("err", gain="linear").per_query[0] == pytest.approx(1 / 3)
    with pytest.raises(DataError, match=r"row 5 .*label 2 has"):
        result("err", max_grade=0)
    with pytest.raises(DataError, match=r"label 2 .*max_grade=1"):  # (2^2 - 1) / 2^1
        result("err", max_grade=1)
