"""The objectives that users compare with: small cases by hand, ties to each other and to where they
come from.
"""

from __future__ import annotations

from math import exp, log, log2

import lightgbm as lgb
import numpy as np
import pytest

from boostrank.core.queries import QueryIndex
from boostrank.engines import get_backend
from boostrank.fit.settings import split_params
from boostrank.objective.description import Objective
from boostrank.objectives import OBJECTIVES
from tests.objectives.conftest import evaluate_named, sigmoid
from tests.reference import xe_ndcg as xe_twin
from tests.reference.noise import round_seed, uniforms

RANDOM = [spec for spec in OBJECTIVES if spec.random]


def test_ranknet_of_three_documents():
    # Pairs (1, 0) wrong by 2, (1, 2) right by 1, (0, 2) right by 3.
    loss, grad, hess = evaluate_named("ranknet", [1, 2, 0], [3.0, 1.0, 0.0])
    assert loss == pytest.approx(log(1 + exp(2)) + log(1 + exp(-1)) + log(1 + exp(-3)), rel=1e-14)
    assert grad == pytest.approx(
        [sigmoid(2) - sigmoid(-3), -sigmoid(2) - sigmoid(-1), sigmoid(-1) + sigmoid(-3)], rel=1e-13
    )
    assert hess[0] == pytest.approx(sigmoid(2) * sigmoid(-2) + sigmoid(3) * sigmoid(-3), rel=1e-13)


def test_the_loss_of_a_thousand_tied_pairs_does_not_overflow():
    # The product of the factors 2 would.
    loss, _, _ = evaluate_named("ranknet", [1] + [0] * 1500, np.zeros(1501))
    assert loss == pytest.approx(1500 * log(2), rel=1e-13)


def test_ranksvm_counts_the_pairs_that_miss_the_margin():
    labels, scores = [2, 0, 1, 0], [0.0, 0.6, 0.5, -3.0]
    # Short of the margin 1: label 2 over the first 0 by 1.6 and over 1 by 1.5, label 1 over the
    # first 0 by 1.1.
    loss, grad, hess = evaluate_named("ranksvm", labels, scores, pair_loss="hinge")
    assert loss == pytest.approx(1.6 + 1.5 + 1.1)
    assert list(grad) == [-2.0, 2.0, 0.0, 0.0]
    assert list(hess) == [2.0, 2.0, 2.0, 0.0]
    assert list(
        evaluate_named("ranksvm", labels, scores, pair_loss="hinge", margin=4.0)[2] * 4
    ) == [
        3.0,
        2.0,
        3.0,
        2.0,
    ]
    loss, grad, hess = evaluate_named("ranksvm", labels, scores)
    assert loss == pytest.approx((1.6**2 + 1.5**2 + 1.1**2) / 2)
    assert grad == pytest.approx([-3.1, 2.7, 0.4, 0.0])
    assert list(hess) == [2.0, 2.0, 2.0, 0.0]


def test_a_pair_exactly_on_the_margin_is_satisfied():
    _, grad, hess = evaluate_named("ranksvm", [1, 0], [1.0, 0.0], pair_loss="hinge")
    assert not np.any([grad, hess])


def test_ranksvm_keeps_its_digits_far_from_zero():
    near = evaluate_named("ranksvm", [1, 0, 2], [0.25, 0.0, 0.125])
    far = evaluate_named("ranksvm", [1, 0, 2], [1e6 + 0.25, 1e6, 1e6 + 0.125])
    assert far[0] == near[0]
    assert np.array_equal(far[1], near[1])


def test_a_newton_step_of_ranksvm_swaps_a_wrong_pair_and_leaves_the_margin_between():
    scores = np.array([0.3, 2.0])
    _, grad, hess = evaluate_named("ranksvm", [1, 0], scores, margin=0.5)
    assert scores - grad / hess == pytest.approx([2.0 + 0.5, 0.3 - 0.5])


def test_listnet_of_two_documents():
    loss, grad, hess = evaluate_named("listnet", [1, 3], [0.5, 0.0])
    p, q = sigmoid(-2), sigmoid(0.5)
    assert loss == pytest.approx(-p * log(q) - (1 - p) * log(1 - q), rel=1e-14)
    assert grad == pytest.approx([q - p, p - q], rel=1e-13)
    assert hess == pytest.approx([q * (1 - q)] * 2, rel=1e-13)
    assert evaluate_named("listnet", [1, 3], [0.5, 0.0], target="gains")[1][0] == pytest.approx(
        q - sigmoid(-6), rel=1e-13
    )


def test_xe_ndcg_is_lightgbms_formula_on_this_rounds_draws():
    labels, scores = np.array([2, 0, 1]), np.array([0.3, 0.9, -0.4])
    u = np.empty(3)
    u[[1, 0, 2]] = uniforms(round_seed(4, 0), 0, 3)  # by descending score
    rho, phi = np.exp(scores) / np.exp(scores).sum(), 2.0**labels - u
    lambdas = rho - phi / phi.sum()
    params = lambdas / (1 - rho)
    for _ in range(2):
        term = rho * (params.sum() - params)
        lambdas, params = lambdas + term, term / (1 - rho)
    loss, grad, hess = evaluate_named("xe-ndcg", labels, scores, seed=4)
    assert loss == pytest.approx(-np.sum(phi / phi.sum() * np.log(rho)), rel=1e-13)
    assert grad == pytest.approx(lambdas, rel=1e-12)
    assert hess == pytest.approx(rho * (1 - rho), rel=1e-12)


def test_the_twin_of_xe_ndcg_grows_the_trees_of_rank_xendcg_on_lightgbms_draws():
    rng = np.random.default_rng(0)
    queries, size, seed = 40, 15, 5
    features = rng.normal(size=(queries * size, 4))
    labels = np.clip(np.floor(features[:, 0] + rng.normal(size=len(features)) + 1), 0, 4)
    state = [seed + q for q in range(queries)]

    def draw(q):
        state[q] = (214013 * state[q] + 2531011) % 2**32
        return (state[q] >> 16 & 0x7FFF) / 32768

    def objective(scores, data):
        parts = []
        for q in range(queries):
            rows = slice(q * size, (q + 1) * size)
            u = np.array([draw(q) for _ in range(size)])
            parts.append(xe_twin.gradients(np.exp2(labels[rows]) - 1, scores[rows], u)[1:])
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    shared = {"num_leaves": 7, "verbosity": -1, "metric": "None", "num_threads": 1}
    data = lgb.Dataset(features, labels, group=np.full(queries, size), free_raw_data=False)
    theirs = lgb.train(shared | {"objective": "rank_xendcg", "objective_seed": seed}, data, 5)
    mine = lgb.train(shared | {"objective": objective}, data, 5)
    assert mine.predict(features) == pytest.approx(theirs.predict(features), abs=1e-5)


def test_lambdaloss_of_a_wrong_pair():
    # Gains 1 and 3; the better document second, below by 1. d(1) = 1, d(2) = 1/log2(3).
    d, z = 1 / log2(3), 3 + 1 / log2(3)
    of_loss2 = evaluate_named("lambdaloss", [1, 2], [1.0, 0.0], weights="ndcg-loss2")
    assert of_loss2[0] == pytest.approx(2 / z * (1 - d) * log(1 + exp(1)), rel=1e-12)
    assert of_loss2[1][0] == pytest.approx(2 / z * (1 - d) * sigmoid(1), rel=1e-13)
    assert of_loss2[2][0] == pytest.approx(
        2 / z * (1 - d) * (0.056 * exp(-1 / 16) + 0.223 * exp(-1 / 4) + 0.008), rel=1e-13
    )
    both = evaluate_named("lambdaloss", [1, 2], [1.0, 0.0], mu=3.0)[1]
    assert both[0] == pytest.approx(4 * of_loss2[1][0], rel=1e-13)


def test_ndcg_loss2_weighs_by_the_distance_in_ranks():
    # Ranks 1 and 3: delta(2) = d(2) - d(3).
    _, grad, _ = evaluate_named("lambdaloss", [1, 0, 0], [5.0, 1000.0, -5.0], weights="ndcg-loss2")
    assert grad[2] == pytest.approx((1 / log2(2) - 1 / log2(3)) * sigmoid(-10), rel=1e-9)
    _, grad, _ = evaluate_named("lambdaloss", [0, 0, 1], [5.0, 4.0, 0.0], weights="ndcg-loss2")
    assert grad[0] == pytest.approx((1 / log2(3) - 1 / log2(4)) * sigmoid(5), rel=1e-9)


def test_lambdaloss_without_delta_has_the_forces_of_lambdarank_without_norms():
    rng = np.random.default_rng(1)
    labels, scores = rng.integers(0, 4, 20), rng.normal(size=20)
    _, grad, _ = evaluate_named("lambdaloss", labels, scores, mu=0.0)
    plain = {"norm_distance": False, "norm_query": False, "truncation_level": 20}
    assert grad == pytest.approx(
        evaluate_named("lambdarank", labels, scores, **plain)[1], rel=1e-10
    )


def test_two_documents_are_neighbours_in_every_order_of_yetirank():
    loss, grad, hess = evaluate_named("yetirank", [0, 3], [0.7, 0.0])
    weight = 0.15 * 3
    assert loss == pytest.approx(weight * log(1 + exp(0.7)), rel=1e-13)
    assert grad == pytest.approx([weight * sigmoid(0.7), -weight * sigmoid(0.7)], rel=1e-12)
    assert hess == pytest.approx([weight * sigmoid(0.7) * sigmoid(-0.7)] * 2, rel=1e-12)


def test_tied_documents_are_neighbours_in_two_orders_of_three():
    # A pair pulls with half its weight.
    _, grad, _ = evaluate_named(
        "yetirank", [1, 0, 0], [0.0, 0.0, 0.0], permutations=20_000, decay=1.0
    )
    assert grad == pytest.approx(0.15 / 2 * 2 / 3 * np.array([-2, 1, 1]), rel=0.03)
    # With decay 0 the first two alone count: a third of the orders for each pair.
    _, grad, _ = evaluate_named(
        "yetirank", [1, 0, 0], [0.0, 0.0, 0.0], permutations=20_000, decay=0.0
    )
    assert grad == pytest.approx(0.15 / 2 / 3 * np.array([-2, 1, 1]), rel=0.05)


@pytest.mark.parametrize("spec", RANDOM, ids=lambda spec: spec.name)
def test_noise_is_fresh_every_round_query_and_seed_and_comes_back(spec):
    labels, scores = np.tile([0, 1, 0, 2, 1], 2), np.tile([0.1, 0.2, 0.3, 0.15, 0.4], 2)
    index = QueryIndex.from_sizes([5, 5])

    def gradient(round, seed=0):
        return Objective(spec, seed=seed).bind(labels, index).gradient(scores, round).grad.copy()

    assert np.array_equal(gradient(3), gradient(3))
    assert not np.allclose(gradient(3), gradient(4), rtol=1e-3)
    assert not np.allclose(gradient(3), gradient(3, seed=1), rtol=1e-3)
    assert not np.allclose(gradient(3)[:5], gradient(3)[5:], rtol=1e-3)


@pytest.mark.parametrize("name", ["seed", "random_state"])
def test_one_seed_is_the_noises_and_the_trees(name):
    split = split_params({"objective": "yetirank", name: 7}, 10, get_backend("lightgbm"))
    assert split.objective.params["seed"] == 7
    assert split.params[name] == 7
    beside = split_params(
        {"objective": Objective("yetirank", seed=2), name: 7}, 10, get_backend("lightgbm")
    )
    assert beside.objective.params["seed"] == 2
