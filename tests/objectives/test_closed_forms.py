"""Small cases spelled out by hand, and the claims that the objectives' docstrings make."""

from __future__ import annotations

from math import exp, log, log2

import numpy as np
import pytest

from boostrank.objectives import OBJECTIVES, smooth_ndcg
from tests.objectives.conformance import evaluate, make_query
from tests.objectives.conftest import evaluate_named, read_values, sigmoid
from tests.reference import shf_sdcg as shf_twin


def test_sdcg_of_two_documents():
    # Gains 3 and 0, the relevant one below by 1: its rank is 1 + sigmoid(1).
    loss, grad, hess = evaluate_named("sdcg", [0, 2], [1.0, 0.0])
    rank = 1 + sigmoid(1)
    w = sigmoid(1) * sigmoid(-1)
    slope = -1 / (log(2) * (1 + rank) * log2(1 + rank) ** 2)
    assert loss == pytest.approx(-1 / log2(1 + rank), rel=1e-14)
    assert grad == pytest.approx([-slope * w, slope * w], rel=1e-13)
    assert hess == pytest.approx([-slope * w, -slope * w], rel=1e-13)


def test_sdcg_at_one_gives_the_document_at_rank_one_half_its_weight():
    loss, _, _ = evaluate_named("sdcg", [1, 0], [50.0, -50.0], k=1)
    assert loss == pytest.approx(-0.5, rel=1e-12)


def test_approx_ndcg_at_one_cuts_half_a_rank_lower():
    loss, _, _ = evaluate_named("approx-ndcg", [1, 0], [50.0, -50.0], k=1, beta=2.0)
    assert loss == pytest.approx(-sigmoid(1.0), rel=1e-12)


def approximate_rank(scores, document, alpha):
    """Of ApproxNDCG, from its value where this document alone is relevant."""
    labels = np.zeros(len(scores))
    labels[document] = 1
    return (
        2 ** (-1 / evaluate_named("approx-ndcg", labels, scores, alpha=alpha, sums="direct")[0]) - 1
    )


def test_approximate_ranks_are_those_of_table_1_of_qin_liu_li():
    scores = np.array([4.20074, 3.12378, 4.40918, 1.55258, 4.13330])
    ranks = [approximate_rank(scores, document, 100.0) for document in range(5)]
    assert ranks == pytest.approx([2.00118, 4.0, 1.0, 5.0, 2.99882], abs=6e-6)


@pytest.mark.parametrize("n", [2, 7, 50])
def test_approximations_keep_the_bounds_of_theorems_1_and_3_of_qin_liu_li(n):
    rng = np.random.default_rng(n)
    for alpha in (1.0, 10.0, 100.0):
        scores = rng.normal(size=n)
        order = np.argsort(-scores)
        rank = np.empty(n)
        rank[order] = np.arange(1, n + 1)
        for document in range(n):
            nearest = np.abs(np.delete(scores, document) - scores[document]).min()
            error = abs(approximate_rank(scores, document, alpha) - rank[document])
            assert error <= (n - 1) / (np.exp(alpha * nearest) + 1) + 1e-9
        labels, discounts = rng.integers(0, 4, n), 1 / np.log2(2 + np.arange(n))
        labels[0] = 4
        gains = np.exp2(labels) - 1
        ndcg = gains[order] @ discounts / (np.sort(gains)[::-1] @ discounts)
        error = abs(
            -evaluate_named("approx-ndcg", labels, scores, alpha=alpha, sums="direct")[0] - ndcg
        )
        assert (
            error
            <= (n - 1) / (np.exp(alpha * -np.diff(scores[order]).max()) + 1) / (2 * log(2)) + 1e-9
        )


def within_half(n, rng):
    """Scores whose smallest gap makes each approximate rank right to less than one half, alpha, and
    that error.
    """
    scores = rng.permutation(np.cumsum(0.1 + rng.random(n)))
    alpha = rng.uniform(1, 3) * log(4 * n) / np.diff(np.sort(scores)).min()
    return scores, alpha, (n - 1) / (np.exp(alpha * np.diff(np.sort(scores)).min()) + 1)


@pytest.mark.parametrize("n", [2, 7, 50])
@pytest.mark.parametrize("beta", [5.0, 50.0])
def test_approx_ap_is_as_near_to_ap_as_its_ranks_and_comparisons_allow(n, beta):
    """Theorem 2 of Qin, Liu, Li 2010 bounds this error; its text was not at hand, so this bound is
    our derivation.

    With ranks right to e < 1/2 (theorem 1) a comparison of two of them is right to t = 1 / (1 +
    exp(beta (1 - 2 e))). AP = (1/N) sum_y (1 + sum_x [x above y]) / rank_y, where the numerator is
    at most the rank: e + (N - 1) t in all.
    """
    rng = np.random.default_rng(n)
    scores, alpha, e = within_half(n, rng)
    assert e < 0.5
    labels = rng.integers(0, 2, n)
    labels[0] = 1
    relevant = labels[np.argsort(-scores)]
    ap = (np.cumsum(relevant) / np.arange(1, n + 1))[relevant == 1].mean()
    approximate = -evaluate_named("approx-ap", labels, scores, alpha=alpha, beta=beta)[0]
    comparisons = (labels.sum() - 1) / (1 + exp(beta * (1 - 2 * e)))
    assert abs(approximate - ap) <= e + comparisons + 1e-9


@pytest.mark.parametrize("n", [2, 7, 50])
def test_smooth_ndcg_nears_ndcg_with_the_smallest_gap_and_a_constant_for_a_large_sigma(n):
    """Chapelle and Wu 2010 have a lemma 1 and an error rate in section 5.1, whose texts were not at
    hand: this test and the next two are our derivations from their definition of h_ij.

    h_d(j),j = 1 / (1 + sum of e_ij), e_ij <= exp(-gap^2 / sigma): the mean gain at rank j misses
    that of its document by at most the range of gains times (n - 1) exp(-gap^2 / sigma). A large
    sigma makes h 1 / n.
    """
    rng = np.random.default_rng(n)
    scores = rng.permutation(np.cumsum(0.1 + rng.random(n)))
    labels, discounts = rng.integers(0, 4, n), 1 / np.log2(2 + np.arange(n))
    labels[0] = 4
    gains, order, gap = np.exp2(labels) - 1, np.argsort(-scores), np.diff(np.sort(scores)).min()
    ideal = np.sort(gains)[::-1] @ discounts
    for sigma in gap**2 / np.array([1.0, 3.0, 6.0, 9.0]):
        error = abs(
            -evaluate_named("smooth-ndcg", labels, scores, sigma=sigma)[0]
            - gains[order] @ discounts / ideal
        )
        assert (
            error
            <= np.ptp(gains) * (n - 1) * exp(-(gap**2) / sigma) * discounts.sum() / ideal + 1e-12
        )
    constant = gains.mean() * discounts.sum() / ideal
    assert -evaluate_named("smooth-ndcg", labels, scores, sigma=1e9)[0] == pytest.approx(
        constant, rel=1e-6
    )


@pytest.mark.parametrize("metric", ["ndcg", "map", "mrr", "err", "precision"])
def test_metrics_of_smooth_ranks_near_theirs_at_the_rate_of_the_smallest_gap(metric):
    """Where one gap is the smallest, e of its pair is the largest: the error is a constant times
    exp(-gap^2 / sigma), for every metric through h_ij. Our derivation, as above.
    """
    labels, scores = [0, 2, 1, 0, 4], np.array([0.0, -0.5, -1.5, -2.6, -3.9])
    change = {"metric": metric, "k": 1 if metric == "precision" else 4, "max_gain": 15.0}
    exact = evaluate_named("smooth-ndcg", labels, scores, sigma=1e-4, **change)[0]
    errors = [
        evaluate_named("smooth-ndcg", labels, scores, sigma=0.25 / times, **change)[0] - exact
        for times in (9.0, 12.0)
    ]
    assert errors[0] != 0.0
    assert errors[1] / errors[0] == pytest.approx(exp(-3), rel=1e-3)


def test_the_mean_error_of_smooth_ndcg_falls_with_the_root_of_sigma():
    """Over pairs of documents whose score gap has the density f, the mean error is c f(0) times
    sqrt(sigma) times the integral of du / (1 + exp(u^2)), 1.07215..., as sigma falls; c is what a
    wrong order costs. Our derivation, as above.
    """
    apart = np.linspace(-6, 6, 121)
    c, integral = 1 - 1 / log2(3), np.sum(1 / (1 + np.exp(apart**2))) * (apart[1] - apart[0])
    assert integral == pytest.approx(1.0721549, abs=1e-7)
    for sigma in (1e-4, 1e-8):
        gaps = apart * sigma**0.5
        metric = np.where(gaps > 0, 1.0, 1 / log2(3))
        smooth = [-evaluate_named("smooth-ndcg", [1, 0], [x, 0.0], sigma=sigma)[0] for x in gaps]
        density = np.exp(-(gaps**2) / 2) / np.sqrt(2 * np.pi)
        error = np.sum(np.abs(smooth - metric) * density) * (gaps[1] - gaps[0])
        expected = c / np.sqrt(2 * np.pi) * sigma**0.5 * integral
        assert error == pytest.approx(expected, rel=10 * sigma**0.5)


def test_approx_ndcg_at_tied_scores_is_regression_on_centred_gains_but_for_the_slope():
    _, grad, _ = evaluate_named("approx-ndcg", [0, 1, 2, 3], [0.0] * 4)
    gains = np.array([0.0, 1.0, 3.0, 7.0])
    assert -grad / -grad[3] == pytest.approx((gains - gains.mean()) / (7 - gains.mean()), rel=1e-12)


def test_shf_ranks_of_a_wrong_pair():
    # Gains 1 and 3, the better one below by 2: ranks 1 + A(-2) for it and 2 + A(-2) for the other.
    a = log(1 + exp(2))
    z = 3 + 1 / log2(3)
    loss, grad, _ = evaluate_named("shf-sdcg", [1, 2], [2.0, 0.0])
    assert loss == pytest.approx(-(3 / log2(2 + a) + 1 / log2(3 + a)) / z, rel=1e-13)
    pull = sum(g / z / (log(2) * (1 + r) * log2(1 + r) ** 2) for g, r in ((3, 1 + a), (1, 2 + a)))
    assert grad == pytest.approx([pull * sigmoid(2), -pull * sigmoid(2)], rel=1e-13)


def test_shf_with_the_linear_discount_is_a_weighted_sum_of_pair_losses():
    labels, scores = [0, 1, 3, 2], np.array([0.5, -0.2, 0.1, 2.0])
    gains = np.exp2(labels) - 1
    _, grad, _ = evaluate_named("shf-sdcg", labels, scores, train_discount=1.0, sigma=0.5)
    z = (7 * 4 + 3 * 3 + 1 * 2) / 4
    expected = np.zeros(4)
    for i in range(4):
        for j in range(4):
            if gains[i] > gains[j]:
                pull = (gains[i] + gains[j]) / 4 / z * sigmoid(-(scores[i] - scores[j]) / 0.5) / 0.5
                expected[i] -= pull
                expected[j] += pull
    assert grad == pytest.approx(expected, rel=1e-12)


def test_shf_is_ndcg_when_every_pair_is_right_by_far():
    loss, _, _ = evaluate_named("shf-sdcg", [3, 2, 0], [100.0, 0.0, -100.0])
    assert loss == pytest.approx(-1.0, abs=1e-12)


def test_plain_sdcg_pushes_a_very_wrong_pair_the_wrong_way_and_shf_never_does():
    # Where (2^a - 1) |D'(1 + G(-x))| = (2^b - 1) |D'(2 - G(-x))|, in sigmas.
    for labels, threshold in (((2, 1), 2.4335), ((3, 2), 1.5654), ((4, 3), 1.3566)):
        for sigma in (0.2, 1.0):
            for gap, wrong_way in (
                (threshold - 0.001, False),
                (threshold + 0.001, True),
                (threshold + 3, True),
            ):
                _, grad, _ = evaluate_named("sdcg", labels, [0.0, gap * sigma], sigma=sigma)
                assert (grad[0] > 0) == wrong_way, (labels, gap)
    for labels in ((1, 0), (2, 0), (3, 1)):
        _, grad, _ = evaluate_named("sdcg", labels, [0.0, 8.0])
        assert grad[0] < 0 < grad[1]
    for better in range(1, 5):
        for worse in range(better):
            for gap in (-40.0, -5.0, -1.5, -0.1, 0.0, 1.0, 5.0):
                _, grad, _ = evaluate_named(
                    "shf-sdcg", [better, worse], [gap * 0.5, 0.0], sigma=0.5
                )
                assert grad[0] < 0 < grad[1], (better, worse, gap)


def test_a_shf_force_does_not_fade_where_a_pair_is_very_wrong():
    # |drank / ds| stays between 1/(2 sigma) and 1/sigma; what falls is the discount's slope alone.
    query = make_query([2, 0])
    for gap in (0.1, 1.0, 10.0, 1000.0):
        scores, values = np.array([0.0, gap]), read_values("shf-sdcg")
        slope = abs(shf_twin.rank_slopes(query, scores, values)[0])
        _, grad, _ = evaluate_named("shf-sdcg", [2, 0], scores)
        assert 0.5 * slope <= -grad[0] <= slope * (1 + 1e-12)


def test_the_annealed_cut_gives_every_top_document_at_least_half_its_weight_and_ends_at_k():
    query = make_query([3, 2, 0, 0, 1])
    values = read_values("shf-sdcg", k=2, sigma=0.1)
    wrong_order, right_order = np.arange(5.0), np.array([4.0, 3.0, 1.0, 0.0, 2.0])
    assert shf_twin.freeze(query, wrong_order, values) == max(
        shf_twin.ranks(query, wrong_order, values)[:2]
    )
    assert shf_twin.freeze(query, right_order, values) == pytest.approx(2.0, abs=1e-3)


def test_documents_of_equal_gain_push_each_other():
    # Both relevant documents have the same irrelevant one far below: nothing but the equal gradient
    # is left.
    _, grad, _ = evaluate_named("shf-sdcg", [2, 2, 0], [1.0, 0.0, -500.0])
    assert grad[0] < 0 < grad[1]


def test_the_linear_discount_goes_on_below_zero_for_inflated_ranks_and_never_turns_the_force():
    # 20 sigma wrong: the relevant document's rank is 41 in a list of three; its slope is still
    # -1/n.
    for k in (0, 1):
        _, grad, _ = evaluate_named(
            "shf-sdcg", [0, 0, 3], [20.0, 20.0, 0.0], train_discount=1.0, k=k
        )
        assert grad[2] < 0 < grad[0]
    z = 7.0
    assert evaluate_named("shf-sdcg", [0, 0, 3], [20.0, 20.0, 0.0], train_discount=1.0)[1][
        2
    ] == pytest.approx(-7 / 3 / z * 2, rel=1e-6)


def test_reg_shf_is_regression_at_one_end_and_shf_at_the_other():
    labels, scores = [0, 3, 1], [0.2, 0.4, 0.3]
    _, grad, hess = evaluate_named("reg-shf-sdcg", labels, scores, mix=1.0)
    assert grad == pytest.approx((np.array(scores) - labels) / 3, rel=1e-12)
    assert hess == pytest.approx(np.full(3, 1 / 3), rel=1e-12)
    assert evaluate_named("reg-shf-sdcg", labels, scores, mix=0.0)[1] == pytest.approx(
        evaluate_named("shf-sdcg", labels, scores)[1]
    )
    _, on_gains, _ = evaluate_named("reg-shf-sdcg", labels, scores, mix=1.0, target="gains")
    assert on_gains[1] == pytest.approx((0.4 - 7) / 3, rel=1e-12)


def test_listnet_steps_far_where_its_curvature_vanishes():
    _, grad, hess = evaluate_named("listnet", [0, 1], [8.0, 0.0])
    assert -grad[1] / hess[1] == pytest.approx(2180, rel=1e-3)


def test_regression_also_learns_from_queries_without_relevant_documents():
    _, grad, hess = evaluate_named("regression", [0, 0], [0.5, -1.0])
    assert grad == pytest.approx([0.5, -1.0])
    assert hess == pytest.approx([1.0, 1.0])


def test_smooth_ndcg_of_two_documents():
    # Gains 1 (below by x) and 0; h is the share of the other document at each anchor.
    x, sigma = 0.8, 0.5
    h = exp(-(x**2) / sigma) / (1 + exp(-(x**2) / sigma))
    loss, grad, _ = evaluate_named("smooth-ndcg", [0, 1], [x, 0.0], sigma=sigma)
    assert loss == pytest.approx(-(h + (1 - h) / log2(3)), rel=1e-13)
    pull = 2 * x / sigma * h * (1 - h) * (1 - 1 / log2(3))
    assert grad == pytest.approx([pull, -pull], rel=1e-12)


@pytest.mark.parametrize("stop", [200, 150])
def test_smooth_ndcg_takes_the_lattice_where_each_document_is_seen_often_enough(stop):
    first, s = 3, -np.sort(np.random.default_rng(stop).normal(size=200))
    run = smooth_ndcg.Run(first, 200, stop)
    apart = np.abs(s[first:stop, None] - s[None, first:])
    reaches, seen = np.sort(apart.ravel()), np.sort(apart.min(axis=0))
    pairs, documents = (
        np.searchsorted(reaches, reaches, "right"),
        np.searchsorted(seen, reaches, "right"),
    )
    worth = pairs > smooth_ndcg._PAIRS * documents
    turn = int(np.argmax(worth))
    assert worth[turn:].all()
    for at in (1000, *range(turn - 4, turn + 4), -1):
        assert smooth_ndcg._has_many_pairs(s, run, reaches[at]) == worth[at]


def test_smooth_ndcg_has_no_gradient_at_tied_scores_and_is_ndcg_at_small_sigma():
    assert not evaluate_named("smooth-ndcg", [0, 2, 1], [0.3, 0.3, 0.3])[1].any()
    loss, _, _ = evaluate_named("smooth-ndcg", [0, 2, 1], [0.3, 0.2, 0.1], sigma=1e-6)
    assert loss == pytest.approx(-(3 / log2(3) + 1 / 2) / (3 + 1 / log2(3)), rel=1e-12)
    assert evaluate_named("smooth-ndcg", [0, 2, 1], [0.3, 0.2, 0.1], mix=1.0)[1] == pytest.approx(
        (np.array([0.3, 0.2, 0.1]) - [0, 3, 1]) / 3
    )


def test_lambdarank_of_one_pair():
    # Gains 3 and 0, the relevant document second and below by 0.5.
    delta = (1 - 1 / log2(3)) / (0.01 + 0.5)
    pull = delta * sigmoid(0.5)
    total = 2 * pull
    factor = log2(1 + total) / total
    loss, grad, hess = evaluate_named("lambdarank", [0, 2], [0.5, 0.0])
    assert loss == pytest.approx(-1 / log2(3), rel=1e-13)
    assert grad == pytest.approx([pull * factor, -pull * factor], rel=1e-12)
    assert hess == pytest.approx([delta * sigmoid(0.5) * sigmoid(-0.5) * factor] * 2, rel=1e-12)
    plain = evaluate_named("lambdarank", [0, 2], [0.5, 0.0], norm_distance=False, norm_query=False)[
        1
    ]
    assert plain[0] == pytest.approx((1 - 1 / log2(3)) * sigmoid(0.5), rel=1e-12)


def test_lambdarank_does_not_damp_tied_scores():
    _, grad, _ = evaluate_named("lambdarank", [2, 0], [0.0, 0.0], norm_query=False)
    assert grad[0] == pytest.approx(-(1 - 1 / log2(3)) / 2, rel=1e-12)


def test_lambdarank_pairs_need_one_end_above_the_truncation_level():
    _, grad, _ = evaluate_named(
        "lambdarank", [0, 2, 0, 1], [3.0, 2.0, 1.0, 0.0], truncation_level=1
    )
    assert grad[2] == 0.0
    assert grad[0] > 0 > grad[1]


def test_template_is_the_logistic_loss_of_a_pair():
    from boostrank.objectives import _template

    loss, grad, hess = evaluate(_template.SPEC, make_query([1, 0]), [0.0, 2.0], {"sigma": 0.5})
    assert loss == pytest.approx(log(1 + exp(4)), rel=1e-13)
    assert grad == pytest.approx([-2 * sigmoid(4), 2 * sigmoid(4)], rel=1e-13)
    assert hess == pytest.approx([4 * sigmoid(4) * sigmoid(-4)] * 2, rel=1e-12)


def test_equal_gains_are_one_grade_whatever_the_labels():
    table = OBJECTIVES.get("shf-sdcg")
    query = make_query([1, 2, 0])
    same = type(query)(query.labels, np.array([1.0, 1.0, 0.0]))
    _, grad, _ = evaluate(table, same, [0.0, 0.0, 0.0], read_values("shf-sdcg"))
    assert grad[0] == grad[1] < 0
