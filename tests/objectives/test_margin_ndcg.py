"""Large-margin NDCG against all rankings, and what its docstring claims."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from boostrank.objectives import OBJECTIVES
from tests.objectives.conformance import evaluate, make_query

SPEC = OBJECTIVES.get("margin-ndcg")
CONVEX, TIGHT = {"bound": "convex"}, {"bound": "tight"}


def run(labels, scores, **changed):
    return evaluate(
        SPEC,
        make_query(labels),
        scores,
        {p.name: p.default for p in SPEC.params} | {"margin": 1.0} | changed,
    )


def discounts(n, k):
    return np.where(np.arange(n) < k, 1 / np.log2(2 + np.arange(n)), 0.0)


def ndcg(labels, order, k):
    gains, d = np.exp2(labels) - 1, discounts(len(labels), k)
    return gains[order] @ d / (np.sort(gains)[::-1] @ d)


def bounds_over_all_rankings(labels, scores, k, margin, rooted=False):
    """(xi, xi') as eqs (7) and (14) define them."""
    a = np.maximum(k - np.arange(len(labels)), 0)
    if rooted:
        a = np.maximum((1 + np.arange(len(labels))) ** -0.5 - (k + 1) ** -0.5, 0)
        a *= k / a[0]
    rankings = [np.array(y) for y in permutations(range(len(labels)))]
    worst = max(margin * (1 - ndcg(labels, y, k)) + a @ scores[y] for y in rankings)
    perfect = max(a @ scores[y] for y in rankings if ndcg(labels, y, len(labels)) > 1 - 1e-12)
    return worst - perfect, worst - a @ np.sort(scores)[::-1]


def random_cases(count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        n = int(rng.integers(2, 6))
        labels = rng.integers(0, 4, n)
        if np.ptp(labels) > 0:
            yield (
                labels,
                np.round(rng.normal(size=n), int(rng.integers(0, 4))),
                int(rng.integers(1, n + 1)),
            )


def test_both_bounds_are_the_maximum_over_all_rankings():
    for labels, scores, k in random_cases(60):
        for margin, weights in ((0.3, "linear"), (1.0, "linear"), (1.0, "root")):
            xi, xi_tight = bounds_over_all_rankings(labels, scores, k, margin, weights == "root")
            convex, _, _ = run(labels, scores, k=k, margin=margin, rank_weights=weights, **CONVEX)
            tight, _, _ = run(labels, scores, k=k, margin=margin, rank_weights=weights, **TIGHT)
            assert k * convex == pytest.approx(xi, abs=1e-12)
            assert k * tight == pytest.approx(xi_tight, abs=1e-12)


def test_the_tight_bound_lies_between_the_loss_in_ndcg_and_the_convex_bound():
    for labels, scores, k in random_cases(60):
        ranked = np.argsort(-scores, kind="stable")
        if len(set(scores)) < len(scores):
            continue
        convex, _, _ = run(labels, scores, k=k, **CONVEX)
        tight, _, _ = run(labels, scores, k=k, **TIGHT)
        assert 1 - ndcg(labels, ranked, k) <= k * tight + 1e-12
        assert tight <= convex + 1e-12


def test_the_convex_bound_lies_above_its_tangents_where_one_ranking_is_perfect_also_at_tied_scores():
    rng = np.random.default_rng(2)
    for _, scores, k in random_cases(60):
        labels = rng.permutation(len(scores))
        loss, grad, _ = run(labels, scores, k=k, **CONVEX)
        for scale in (0.1, 1.0, 10.0):
            move = scale * rng.normal(size=len(scores))
            moved_loss, _, _ = run(labels, scores + move, k=k, **CONVEX)
            assert moved_loss >= loss + grad @ move - 1e-12


def test_tied_documents_of_one_gain_get_the_same_gradient_in_any_order():
    labels, scores = np.array([0, 1, 0, 2, 0, 1]), np.array([0.5, 0.5, 0.5, 0.1, 0.1, 0.5])
    for bound in ("convex", "tight", "tight-or-convex"):
        _, grad, _ = run(labels, scores, k=2, bound=bound)
        assert grad[0] == grad[2]
        assert grad[1] == grad[5]
        shuffled = np.array([5, 3, 2, 4, 1, 0])
        assert (
            run(labels[shuffled], scores[shuffled], k=2, bound=bound)[1].tolist()
            == grad[shuffled].tolist()
        )


def test_the_gradient_from_a_constant_start_is_the_worst_order_against_the_best():
    # k = 2: A = 2, 1. The worst ranking puts the two irrelevant documents first, in either order.
    for start in (0.0, 0.3, -1e4):
        _, grad, hess = run([2, 0, 1, 0], np.full(4, start), k=2, **CONVEX)
        assert grad.tolist() == [-1.0, 0.75, -0.5, 0.75]
        assert hess.tolist() == [1.0] * 4
        _, tight, _ = run([2, 0, 1, 0], np.full(4, start), k=2)
        assert tight.tolist() == [-0.375, 0.375, -0.375, 0.375]


def test_a_margin_fades_beside_large_scores_and_leaves_the_tight_bound_without_a_gradient():
    labels, scores = np.array([0, 2, 1, 0]), np.array([0.1, 0.0, -0.1, -5.0])
    assert run(labels, scores, k=2)[1].any()
    loss, grad, _ = run(labels, 1e3 * scores, k=2, **TIGHT)
    assert not grad.any()
    assert 2 * loss == pytest.approx(1 - ndcg(labels, np.arange(4), 2), abs=1e-10)


def test_the_tight_bound_is_flat_where_no_relevant_document_is_within_k_at_any_scale():
    labels, scores = np.array([0, 0, 0, 1, 2]), np.array([0.3, 0.2, 0.1, 0.0, -0.1])
    for scale in (1e-6, 1.0, 1e3):
        loss, grad, _ = run(labels, scale * scores, k=2, **TIGHT)
        assert not grad.any()
        assert 2 * loss == pytest.approx(1.0, rel=1e-12)
        instead, convex = (
            run(labels, scale * scores, k=2),
            run(labels, scale * scores, k=2, **CONVEX),
        )
        assert instead[0] == convex[0]
        assert instead[1].tolist() == convex[1].tolist()
        assert convex[1].any()


@given(
    documents=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([0.0, 1.0]) | st.floats(-3, 3).map(lambda s: round(s, 6)),
        ),
        min_size=2,
        max_size=30,
    ),
    k=st.sampled_from([1, 3, 10]),
    scale=st.sampled_from([1e-3, 0.1, 1.0, 1e3]),
)
def test_the_default_has_a_gradient_wherever_a_pair_in_reach_of_the_cut_off_is_in_the_wrong_order(
    documents, k, scale
):
    labels, scores = (
        np.array([label for label, _ in documents]),
        scale * np.array([s for _, s in documents]),
    )
    order = np.lexsort((labels, -scores))  # of tied documents the worse one first
    gains = labels[order]
    wrong = any(gains[i] < gains[i + 1 :].max() for i in range(min(k, len(gains) - 1)))
    assume(wrong)
    grad = run(labels, scores, k=k)[1]
    assert np.abs(grad).max() > 1e-9
    assert grad @ (np.exp2(labels) - 1) < 0  # a step against it raises better documents
