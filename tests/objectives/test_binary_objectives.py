"""Objectives of binary metrics: small cases by hand, and the metric itself in the limit."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ParameterError
from tests.objectives.conftest import evaluate_named, sigmoid
from tests.reference import metric_err, metric_map, metric_mrr, metric_precision

SHARP = {
    "approx-ap": {"alpha": 1e3, "beta": 100.0},
    "smooth-ap": {"sigma": 1e-3},
    "smooth-mrr": {"alpha": 1e3},
}
METRICS = {
    "approx-ap": (metric_map, None),
    "smooth-ap": (metric_map, None),
    "smooth-mrr": (metric_mrr, None),
}


@pytest.mark.parametrize(
    ("metric", "name", "k"),
    [
        (metric_map, "map", 0),
        (metric_map, "map", 3),
        (metric_mrr, "mrr", 0),
        (metric_mrr, "mrr", 2),
        (metric_err, "err", 0),
        (metric_precision, "precision", 3),
    ],
)
def test_smooth_ndcg_of_another_metric_is_that_metric_when_sharp(metric, name, k):
    conventions, rng = Conventions(max_grade=4), np.random.default_rng(0)
    for _ in range(30):
        labels, scores = np.append(rng.integers(0, 5, 7), [0, 4]), rng.permutation(9) / 5
        loss, _, _ = evaluate_named(
            "smooth-ndcg", labels, scores, metric=name, k=k, sigma=1e-5, max_gain=15
        )
        expected = metric.value(
            labels[np.argsort(-scores)].astype(float).tolist(), k or None, conventions
        )
        assert -loss == pytest.approx(expected, abs=1e-12)


def test_smooth_ndcg_of_another_metric_with_two_documents():
    # Relevant below by x; h is the share of the other document at each anchor.
    x, sigma = 0.8, 0.5
    h = exp(-(x**2) / sigma) / (1 + exp(-(x**2) / sigma))
    values = {
        name: -evaluate_named("smooth-ndcg", [0, 1], [x, 0.0], sigma=sigma, metric=name)[0]
        for name in ("map", "mrr")
    }
    assert values["map"] == pytest.approx(h * h + (1 - h) / 2, rel=1e-13)
    assert values["mrr"] == pytest.approx(h + (1 - h) * (1 - h) / 2, rel=1e-13)
    top = evaluate_named("smooth-ndcg", [0, 1], [x, 0.0], sigma=sigma, metric="precision", k=1)
    assert -top[0] == pytest.approx(h, rel=1e-13)
    pull = 2 * x / sigma * h * (1 - h)
    assert top[1] == pytest.approx([pull, -pull], rel=1e-12)


def test_precision_of_whole_lists_is_refused():
    with pytest.raises(ParameterError, match="k=10"):
        evaluate_named("smooth-ndcg", [0, 1], [0.0, 1.0], metric="precision")


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("relevant_from", [0.0, 2.0])
def test_sharpened_objectives_are_their_metric(name, relevant_from):
    metric, k = METRICS[name]
    conventions = Conventions(relevant_from=relevant_from or None)
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(4, 15))
        labels, scores = rng.integers(0, 4, n), rng.permutation(n) / 5
        relevant = labels >= max(relevant_from, 1)
        if relevant.all() or not relevant.any():
            continue
        loss, _, _ = evaluate_named(
            name, labels, scores, relevant_from=relevant_from, **SHARP[name]
        )
        expected = metric.value(labels[np.argsort(-scores)].astype(float).tolist(), k, conventions)
        assert -loss == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["approx-ap", "smooth-ap", "smooth-mrr"])
def test_one_relevant_document_is_worth_its_reciprocal_smooth_rank(name):
    # Below by 1: rank 1 + sigmoid(1); it counts fully in its own precision, and is first among the
    # relevant.
    loss, grad, hess = evaluate_named(name, [0, 3], [1.0, 0.0])
    rank = 1 + sigmoid(1)
    pull = sigmoid(1) * sigmoid(-1) / rank**2
    assert loss == pytest.approx(-1 / rank, rel=1e-14)
    assert grad == pytest.approx([pull, -pull], rel=1e-13)
    assert hess == pytest.approx([pull, pull], rel=1e-13)


def test_two_relevant_documents_in_approx_ap_and_smooth_ap():
    # Relevant at 1 and -1, another between them.
    upper, lower = 1 + sigmoid(-1) + sigmoid(-2), 1 + sigmoid(2) + sigmoid(1)
    by_score = ((1 + sigmoid(-2)) / upper + (1 + sigmoid(2)) / lower) / 2
    by_rank = ((1 + sigmoid(upper - lower)) / upper + (1 + sigmoid(lower - upper)) / lower) / 2
    assert -evaluate_named("smooth-ap", [1, 0, 1], [1.0, 0.0, -1.0])[0] == pytest.approx(
        by_score, rel=1e-14
    )
    assert -evaluate_named("approx-ap", [1, 0, 1], [1.0, 0.0, -1.0], beta=1.0)[0] == pytest.approx(
        by_rank, rel=1e-14
    )


def test_smooth_mrr_at_tied_scores_does_not_depend_on_how_many_are_relevant():
    for relevant in (1, 5, 199):
        loss, grad, _ = evaluate_named(
            "smooth-mrr", [1] * relevant + [0] * (200 - relevant), np.full(200, 0.3)
        )
        assert -loss == pytest.approx(2 / 201, rel=1e-12)
        assert (grad[:relevant] < 0).all()
        assert (grad[relevant:] > 0).all()


def test_smooth_mrr_lets_go_of_relevant_documents_far_below_the_first():
    _, grad, _ = evaluate_named("smooth-mrr", [1, 0, 0, 1], [10.0, 0.0, -1.0, -20.0])
    assert abs(grad[3]) < 1e-10
