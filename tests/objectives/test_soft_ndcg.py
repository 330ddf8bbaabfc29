"""SoftNDCG without a rank distribution: the same numbers as with one, at any length of list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from boostrank.core.errors import ParameterError
from boostrank.kernels import soft_ranks
from boostrank.kernels.soft_ranks import NUMBERS_A_DOCUMENT, WORK_COLUMNS
from boostrank.objectives import OBJECTIVES
from tests.objectives.conformance import close, evaluate, make_query
from tests.reference import soft_ndcg as twin

SPEC = OBJECTIVES.get("soft-ndcg")
DEFAULT = {p.name: p.default for p in SPEC.params}
TOLERANCE = 1e-5


def drawn(n, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    return make_query(rng.integers(0, 5, n)), spread * rng.normal(size=n)


def test_the_tables_fit_the_room_that_the_kernel_asks_for():
    assert soft_ranks.RATES.shape[1] <= WORK_COLUMNS
    assert soft_ranks.CURVES.shape[-1] <= WORK_COLUMNS
    assert soft_ranks.CURVES.shape[-1] <= NUMBERS_A_DOCUMENT


def test_the_value_is_that_of_the_papers_recursion():
    query, scores = drawn(300)
    loss, _, _ = evaluate(SPEC, query, scores, DEFAULT | {"sums": "direct", "sigma": 0.7})
    discounts = 1 / np.log2(2 + np.arange(300))
    shares = query.gains / (np.sort(query.gains)[::-1] @ discounts)
    chance, _ = twin.contests(scores, 0.7)
    matrix = np.array([twin.rank_distribution(np.delete(chance[:, j], j)) for j in range(300)])
    assert loss == pytest.approx(-shares @ matrix @ discounts, abs=1e-10)


def test_two_documents_have_the_closed_form():
    sigma, gap = 0.8, 0.5
    loss, grad, _ = evaluate(SPEC, make_query([1, 0]), [gap, 0.0], DEFAULT | {"sigma": sigma})
    x = gap / (np.sqrt(2) * sigma)
    assert loss == pytest.approx(-(ndtr(x) + (1 - ndtr(x)) / np.log2(3)), abs=1e-12)
    density = np.exp(-x * x / 2) / np.sqrt(4 * np.pi) / sigma
    assert grad == pytest.approx(density * (1 - 1 / np.log2(3)) * np.array([-1, 1]), abs=1e-12)


def test_tied_scores_expect_a_fair_binomial_rank():
    query = make_query([3, 0, 1, 0, 0, 2, 0])
    loss, _, _ = evaluate(SPEC, query, np.zeros(7), DEFAULT)
    discounts = 1 / np.log2(2 + np.arange(7))
    expected = query.gains.sum() * binom.pmf(np.arange(7), 6, 0.5) @ discounts
    assert loss == pytest.approx(-expected / (np.sort(query.gains)[::-1] @ discounts), abs=1e-12)


@pytest.mark.parametrize("ranks", ["binomial", "normal"])
@given(
    scores=st.lists(
        st.sampled_from([0.0, 1.0, -1.0, 1e-9, 30.0, 1e4, -1e4]) | st.floats(-4, 4, width=32),
        min_size=28,
        max_size=90,
    ),
    top=st.sampled_from([1, 4, 31]),
    sigma=st.sampled_from([0.05, 1.0, 20.0]),
    blend=st.sampled_from([0.0, 0.35, 1.0]),
)
@settings(max_examples=40)
def test_sweeps_equal_pairs_over_ties_and_huge_gaps(ranks, scores, top, sigma, blend):
    labels = np.random.default_rng(len(scores)).integers(0, top + 1, len(scores))
    query, values = (
        make_query(labels),
        DEFAULT | {"sigma": sigma, "train_discount": blend, "ranks": ranks},
    )
    loss, grad, hess = evaluate(SPEC, query, scores, values | {"sums": "direct"})
    swept = evaluate(SPEC, query, scores, values)
    assert swept[0] == pytest.approx(loss, abs=1e-2 * TOLERANCE)
    # Where sigma is far below the gaps every gradient is a difference of certainties: nothing,
    # to either.
    if np.abs(grad).max() > 1e-6:
        close(swept[1], grad, TOLERANCE, "gradient")
        close(swept[2], hess, TOLERANCE, "hessian")


@pytest.mark.parametrize("n", [128, 129, 1100])
def test_sweeps_equal_pairs_in_longer_lists(n):
    query, scores = drawn(n, seed=n)
    _, grad, hess = evaluate(SPEC, query, scores, DEFAULT | {"sums": "direct"})
    _, swept, curved = evaluate(SPEC, query, scores, DEFAULT)
    close(swept, grad, TOLERANCE, "gradient")
    close(curved, hess, TOLERANCE, "hessian")


def test_sweeps_keep_five_digits_at_4000_documents():
    # The spread at which most documents stand where the error of the curves has one sign.
    query, scores = drawn(4000, seed=1, spread=3.0)
    _, grad, hess = evaluate(SPEC, query, scores, DEFAULT | {"sums": "direct"})
    _, swept, curved = evaluate(SPEC, query, scores, DEFAULT)
    close(swept, grad, TOLERANCE, "gradient")
    close(curved, hess, TOLERANCE, "hessian")


def test_a_list_of_20000_documents_is_finite_and_its_forces_cancel():
    query, scores = drawn(20_000)
    loss, grad, hess = evaluate(SPEC, query, scores, DEFAULT)
    assert np.isfinite(loss)
    assert np.all(hess > 0)
    assert abs(grad.sum()) < 1e-11 * np.abs(grad).sum()
    # A step against the gradient lowers the loss by what the gradient says.
    step = 1e-3 * grad / np.abs(grad).max()
    other, _, _ = evaluate(SPEC, query, scores - step, DEFAULT)
    assert loss - other == pytest.approx(step @ grad, rel=1e-2)


def test_the_hessian_is_the_sum_of_absolute_pair_forces():
    query, scores = drawn(15)
    values = DEFAULT | {"sigma": 0.6}
    _, density = twin.contests(scores, 0.6)
    ideal = np.sort(query.gains)[::-1] @ (1 / np.log2(2 + np.arange(15)))
    pair = density * np.abs(twin._slopes(query, scores, values)) * query.gains[None, :] / ideal
    _, _, hess = evaluate(SPEC, query, scores, values)
    assert hess == pytest.approx(
        (pair.sum(axis=0) + pair.sum(axis=1)) / (np.sqrt(2) * 0.6), rel=1e-9
    )


def test_under_the_linear_discount_only_the_expected_rank_counts():
    query, scores = drawn(60)
    values = DEFAULT | {"train_discount": 1.0, "sums": "direct"}
    binomial = evaluate(SPEC, query, scores, values | {"ranks": "binomial"})
    normal = evaluate(SPEC, query, scores, values | {"ranks": "normal"})
    # The normal's bins differ from its mean at the two ends of the list alone.
    assert binomial[0] == pytest.approx(normal[0], abs=2e-3)
    expected = twin.contests(scores, 1.0)[0].sum(axis=0)
    linear = 1 - np.arange(60) / 60
    assert binomial[0] == pytest.approx(
        -query.gains @ (1 - expected / 60) / (np.sort(query.gains)[::-1] @ linear), abs=1e-10
    )


def test_the_normal_comes_near_the_binomial_as_lists_grow():
    gaps = []
    for n in (10, 100, 1000):
        query, scores = drawn(n, seed=1, spread=0.5)
        binomial = evaluate(SPEC, query, scores, DEFAULT | {"ranks": "binomial"})[0]
        normal = evaluate(SPEC, query, scores, DEFAULT | {"ranks": "normal"})[0]
        gaps.append(abs(binomial - normal))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5


def test_sinkhorn_shares_the_ranks_of_tied_documents_out_equally():
    for labels in ([3, 0, 1, 0, 0, 2, 0], [0, 1], [1, 0, 0, 2, 0, 1, 0, 0, 0, 1]):
        query, n = make_query(labels), len(labels)
        discounts = 1 / np.log2(2 + np.arange(n))
        for sweeps in (1, 5):
            loss, _, _ = evaluate(
                SPEC, query, np.zeros(n), DEFAULT | {"ranks": "sinkhorn", "sweeps": sweeps}
            )
            expected = (
                query.gains.sum() * discounts.mean() / (np.sort(query.gains)[::-1] @ discounts)
            )
            assert loss == pytest.approx(-expected, rel=1e-12)


def test_sinkhorn_comes_nearer_to_the_simulated_value():
    rng, errors = np.random.default_rng(3), []
    for seed in range(5):
        query, scores = drawn(12, seed=seed, spread=0.7)
        orders = np.argsort(-(scores + rng.normal(size=(4000, 12))), axis=1)
        discounts = 1 / np.log2(2 + np.arange(12))
        simulated = np.mean(query.gains[orders] @ discounts) / (
            np.sort(query.gains)[::-1] @ discounts
        )
        options = {"ranks": "binomial"}, {"ranks": "sinkhorn"}
        errors.append(
            [-evaluate(SPEC, query, scores, DEFAULT | chosen)[0] - simulated for chosen in options]
        )
    unscaled, scaled = np.abs(errors).mean(axis=0)
    assert scaled < 0.4 * unscaled


def test_sinkhorn_refuses_a_list_that_would_take_minutes():
    values = DEFAULT | {"ranks": "sinkhorn"}
    labels = np.arange(300) % 2
    with pytest.raises(ParameterError, match="has 260: use ranks=binomial"):
        SPEC.prepare(labels, labels.astype(float), np.array([0, 40, 300]), values)
    _, constants = SPEC.prepare(labels, labels.astype(float), np.array([0, 150, 300]), values)
    assert np.all(constants[:, 0] > 0)


def test_sinkhorn_is_finite_with_the_longest_lists_and_far_and_tied_scores():
    query, _ = drawn(250)
    for scores in (np.zeros(250), 100.0 * np.arange(250), np.arange(250) // 5 * 30.0):
        loss, grad, hess = evaluate(
            SPEC, query, scores, DEFAULT | {"ranks": "sinkhorn", "sweeps": 2}
        )
        assert np.isfinite([loss, *grad, *hess]).all()
        assert abs(grad.sum()) <= 1e-10 * np.abs(grad).sum()
