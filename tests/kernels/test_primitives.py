"""Scalar functions and sums that the kernels share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.kernels.hinge_ranks import anneal_cut
from boostrank.kernels.metric import rank_top
from boostrank.kernels.primitives import (
    discount,
    expit,
    fast_exp,
    fast_log,
    softplus,
    sort_descending,
)
from boostrank.kernels.shared import default_constants
from boostrank.kernels.sigmoid_ranks import sigmoid_ranks, smooth_dcg


@given(st.floats(-1e6, 1e6))
def test_expit_and_softplus_neither_overflow_nor_lose_digits(t):
    e = expit(t)
    assert 0 <= e <= 1
    assert e + expit(-t) == pytest.approx(1.0, rel=1e-15)
    assert softplus(t) == pytest.approx(float(np.logaddexp(0, t)), rel=1e-14)


def test_fast_exp_keeps_all_digits_over_its_range():
    t = -np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0.001, 700, 2001)])
    assert np.array([fast_exp(x) for x in t]) == pytest.approx(np.exp(t), rel=1e-15, abs=0)


def test_fast_log_keeps_all_digits():
    x = np.concatenate(
        [
            [1.0, 1 + 2**-52, math.sqrt(2), 1.5, 2.0, 1e300],
            np.linspace(1, 9, 999),
            np.geomspace(9, 1e9, 999),
        ]
    )
    assert np.array([fast_log(y) for y in x]) == pytest.approx(np.log(x), rel=1e-15, abs=0)


@pytest.mark.parametrize("blend", [0.0, 0.3, 1.0])
def test_discount_is_one_at_the_top(blend):
    assert discount(1.0, blend, 10) == pytest.approx(1.0)
    assert discount(3.0, 0.0, 10) == pytest.approx(0.5)
    assert discount(3.0, 1.0, 10) == pytest.approx(0.8)


@given(
    st.lists(
        st.integers(-3, 3) | st.floats(-1, 1) | st.sampled_from([1e4, -1e308, 1e308, 5e-324]),
        max_size=120,
    ),
    st.integers(1, 20),
)
def test_sort_is_descending_and_stable(values, copies):
    values = copies * values
    scores = np.array(values, dtype=np.float64)
    order, spare = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    sort_descending(scores, order, spare)
    assert list(order) == list(np.argsort(-scores, kind="stable"))


def test_a_long_list_sorts_whether_its_scores_fill_bins_evenly_or_one_of_them_is_far_away():
    rng = np.random.default_rng(0)
    for scores in (
        rng.normal(size=200),
        np.append(rng.normal(size=199), 1e9),
        rng.integers(0, 9, 200).astype(float),
    ):
        order, spare = np.empty(200, np.int64), np.empty(200, np.int64)
        sort_descending(scores, order, spare)
        assert list(order) == list(np.argsort(-scores, kind="stable"))


@pytest.mark.parametrize("depth", [1, 2, 7, 24, 25, 99, 2**63 - 1])
def test_the_top_holds_the_best_documents_and_all_that_tie_with_one_of_them(depth):
    rng = np.random.default_rng(depth % 1000)
    rising, no_score = np.arange(99.0), np.zeros(0)
    for scores in (rng.normal(size=99), rising, rng.integers(0, 9, 99) / 2, np.zeros(5), no_score):
        n, order = scores.size, np.argsort(-scores, kind="stable")
        top, keys, spare = np.empty(n, np.int64), np.full(n, np.nan), np.empty(2 * n, np.int64)
        count = rank_top(sort_descending, scores, depth, top, keys, spare)
        assert min(depth, n) <= count <= n
        assert list(top[:count]) == list(order[:count])
        assert count == n or scores[order[count]] < scores[order[count - 1]]
        if scores is rising and depth < 25:
            assert count < 2 * depth  # and not many more, which would be sorted in vain


def test_smooth_ranks_sum_like_hard_ranks_and_become_them():
    scores = np.array([3.0, 1.0, 0.5, -2.0, -9.0])
    ranks, z = np.empty(5), np.empty(5)
    sigmoid_ranks(scores, 0.7, ranks, z)
    assert ranks.sum() == pytest.approx(15.0, rel=1e-14)
    sigmoid_ranks(scores, 1e4, ranks, z)
    assert ranks == pytest.approx(np.arange(1, 6), abs=1e-12)


def test_a_rank_recursion_over_many_documents_keeps_its_digits():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=1500))[::-1].copy()
    ranks, z = np.empty(1500), np.empty(1500)
    sigmoid_ranks(scores, 2.0, ranks, z)
    expected = 0.5 + (1 / (1 + np.exp(2.0 * (scores[:, None] - scores[None, :])))).sum(axis=1)
    assert ranks == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("blend", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("cut", [3.0, math.inf])
def test_rank_slopes_never_reward_a_worse_rank_and_are_the_derivative_of_the_value(blend, cut):
    gains = np.array([3.0])
    for rank in (1.0, 1.9, 2.0, 2.1, 3.0, 30.0):
        slope, spare = np.empty(1), np.empty(1)
        smooth_dcg(np.array([rank]), gains, 2.0, blend, cut, 1.5, slope)
        up = smooth_dcg(np.array([rank + 1e-6]), gains, 2.0, blend, cut, 1.5, spare)
        down = smooth_dcg(np.array([rank - 1e-6]), gains, 2.0, blend, cut, 1.5, spare)
        assert slope[0] <= 0
        assert slope[0] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-9)


def test_constants_of_queries_are_0_where_no_order_is_better():
    gains = np.array([0.0, 3.0, 1.0, 1.0, 1.0, 7.0])
    ptr = np.array([0, 3, 5, 5, 6])
    documents, queries = default_constants(gains, gains, ptr, {"k": 2})
    assert documents.shape == (6, 0)
    assert queries[0] == pytest.approx([3 + 1 / math.log2(3), 3 + 2 / 3, 1.0])
    # Two equal gains, no document, one document: no order is better than another.
    assert not queries[1:, :2].any()
    whole = default_constants(gains, gains, ptr, {})[1]
    assert whole[0, 2] == 0.0


def test_anneal_cut_takes_the_best_scored_of_equal_gains():
    gains, ranks = np.array([0.0, 1.0, 3.0, 1.0]), np.array([1.0, 4.0, 5.0, 9.0])
    assert anneal_cut(1, 3.0, gains, ranks) == 5.0
    assert anneal_cut(2, 1.0, gains, ranks) == 5.0
    assert anneal_cut(3, 1.0, gains, ranks) == 9.0
    assert anneal_cut(9, 0.0, gains, np.ones(4)) == 4.0
