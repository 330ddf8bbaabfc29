"""Small cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from boostrank.core.conventions import Conventions
from boostrank.core.queries import QueryIndex
from boostrank.metrics import Metric, evaluate


def mean(metric: str, labels: list[float], scores: list[float], **conventions: object) -> float:
    return (
        Metric.parse(metric)
        .evaluate(labels, scores, QueryIndex.from_sizes([len(labels)]), Conventions(**conventions))
        .mean
    )


def test_dcg_discounts_each_gain_by_the_log_of_one_plus_its_rank() -> None:
    gains = (2**1 - 1) / math.log2(2) + (2**3 - 1) / math.log2(3) + (2**2 - 1) / math.log2(4)
    assert mean("dcg", [1, 3, 2], [3.0, 2.0, 1.0]) == pytest.approx(gains, rel=1e-15)


def test_ndcg_divides_by_the_dcg_of_the_best_order() -> None:
    dcg = 1 / math.log2(2) + 7 / math.log2(3) + 3 / math.log2(4)
    best = 7 / math.log2(2) + 3 / math.log2(3) + 1 / math.log2(4)
    assert mean("ndcg", [1, 3, 2], [3.0, 2.0, 1.0]) == pytest.approx(dcg / best, rel=1e-15)


def test_ndcg_at_k_cuts_the_ideal_list_too() -> None:
    assert mean("ndcg@1", [1, 3], [2.0, 1.0]) == pytest.approx(1 / 7, rel=1e-15)


def test_the_discount_of_jarvelin_and_kekalainen_leaves_the_first_two_ranks_alone() -> None:
    dcg = 1 + 7 + 3 / math.log2(3)
    assert mean("dcg", [1, 3, 2], [3.0, 2.0, 1.0], discount="log2(r)") == pytest.approx(
        dcg, rel=1e-15
    )


def test_real_labels_are_gains_under_the_linear_rule() -> None:
    assert mean("dcg", [0.5, 2.25], [1.0, 0.0], gain="linear") == pytest.approx(
        0.5 + 2.25 / math.log2(3), rel=1e-15
    )


def test_a_table_says_the_gain_of_each_label() -> None:
    assert mean("dcg@1", [1, 2], [0.0, 1.0], gain="0,1,10") == 10.0


def test_average_precision_is_the_mean_of_the_precisions_at_the_relevant_documents() -> None:
    assert mean("map", [1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0]) == pytest.approx(
        (1 / 1 + 2 / 3) / 2, rel=1e-15
    )


def test_average_precision_at_k_is_divided_by_all_relevant_documents_or_by_the_reachable_ones() -> (
    None
):
    labels, scores = [1, 0, 1, 1], [4.0, 3.0, 2.0, 1.0]
    assert mean("map@2", labels, scores) == pytest.approx(1 / 3, rel=1e-15)
    assert mean("map@2", labels, scores, ap_divisor="reachable") == pytest.approx(1 / 2, rel=1e-15)


def test_precision_recall_and_reciprocal_rank_count_relevant_documents() -> None:
    labels, scores = [0, 2, 0, 1], [4.0, 3.0, 2.0, 1.0]
    assert mean("p@3", labels, scores) == pytest.approx(1 / 3, rel=1e-15)
    assert mean("recall@3", labels, scores) == pytest.approx(1 / 2, rel=1e-15)
    assert mean("mrr", labels, scores) == pytest.approx(1 / 2, rel=1e-15)
    assert mean("mrr@1", labels, scores) == 0.0


def test_relevance_may_begin_at_a_higher_grade() -> None:
    assert mean("mrr", [1, 2], [2.0, 1.0], relevant_from=2) == 0.5


def test_err_multiplies_the_chances_of_reading_on() -> None:
    # grades 1, 0, 2 of at most 2: satisfied with chance 1/4, 0, 3/4
    expected = 1 / 4 + (3 / 4) * (3 / 4) / 3
    assert mean("err", [1, 0, 2], [3.0, 2.0, 1.0]) == pytest.approx(expected, rel=1e-15)
    # Without a largest grade it is the largest label, below 1 too.
    half = 2**0.5 - 1
    assert mean("err", [0.5, 0], [2.0, 1.0]) == pytest.approx(half / (half + 1), rel=1e-15)
    assert mean("err", [1, 0, 2], [3.0, 2.0, 1.0], max_grade=4) == pytest.approx(
        1 / 16 + (15 / 16) * (3 / 16) / 3, rel=1e-15
    )


def test_precision_of_a_short_list_is_padded_or_clipped() -> None:
    assert mean("p@5", [1, 0], [1.0, 0.0]) == pytest.approx(1 / 5, rel=1e-15)
    assert mean("p@5", [1, 0], [1.0, 0.0], short_lists="clip") == pytest.approx(1 / 2, rel=1e-15)


def test_the_letor_tools_give_a_list_shorter_than_k_no_ndcg() -> None:
    assert mean("ndcg@3", [1, 0], [1.0, 0.0], short_lists="letor") == 0.0
    assert mean("ndcg", [1, 0], [1.0, 0.0], short_lists="letor") == 1.0
    assert mean("p@4", [1, 0], [1.0, 0.0], short_lists="letor") == pytest.approx(1 / 4, rel=1e-15)


@pytest.mark.parametrize("relevant_row", [0, 4])
def test_constant_scores_earn_the_mean_over_orders_wherever_the_relevant_row_stands(
    relevant_row: int,
) -> None:
    labels = [0.0] * 5
    labels[relevant_row] = 1.0
    assert mean("ndcg@1", labels, [0.0] * 5) == pytest.approx(0.2, rel=1e-15)
    assert mean("ndcg@5", labels, [0.0] * 5) == pytest.approx(0.5896918, abs=5e-8)


@pytest.mark.parametrize(
    ("library", "first", "last"),
    [
        ("lightgbm", (1.0, 1.0), (0.0, 0.3868528)),
        ("xgboost", (1.0, 1.0), (0.0, 0.3868528)),
        ("catboost", (0.0, 0.3868528), (0.0, 0.3868528)),
        ("sklearn", (0.2, 0.5896918), (0.2, 0.5896918)),
    ],
)
def test_constant_scores_earn_what_each_library_pays_for_the_order_of_the_file(
    library: str, first: tuple[float, float], last: tuple[float, float]
) -> None:
    for labels, (at_1, at_5) in (([1, 0, 0, 0, 0], first), ([0, 0, 0, 0, 1], last)):
        results = evaluate("ndcg@1,5", labels, np.zeros(5), QueryIndex.from_sizes([5]), library)
        assert [results["ndcg@1"].mean, results["ndcg@5"].mean] == pytest.approx(
            [at_1, at_5], abs=5e-8
        )


def test_tied_documents_share_average_precision_reciprocal_rank_and_err() -> None:
    labels, scores = [1.0, 0.0], [0.0, 0.0]
    assert mean("map", labels, scores) == pytest.approx((1 + 1 / 2) / 2, rel=1e-15)
    assert mean("mrr", labels, scores) == pytest.approx((1 + 1 / 2) / 2, rel=1e-15)
    assert mean("err", labels, scores) == pytest.approx((1 + 1 / 2) / 2 / 2, rel=1e-15)
