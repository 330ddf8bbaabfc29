"""LambdaRank and YetiRank of other metrics than NDCG: the metrics that they report, XGBoost's
numbers, long lists.
"""

from __future__ import annotations

from math import exp, log2

import numpy as np
import pytest
import xgboost

from boostrank.core.conventions import Conventions
from boostrank.core.queries import QueryIndex
from boostrank.kernels.swaps import METRICS
from boostrank.objective.description import Objective
from tests.objectives.conftest import evaluate_named
from tests.reference import metric_err, metric_map, metric_mrr, metric_ndcg, metric_precision

TWINS = {
    "ndcg": metric_ndcg,
    "map": metric_map,
    "mrr": metric_mrr,
    "err": metric_err,
    "precision": metric_precision,
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("relevant_from", [0.0, 2.0])
def test_the_reported_loss_is_minus_the_metric(metric, relevant_from):
    rng = np.random.default_rng(0)
    for _ in range(40):
        n, k = int(rng.integers(4, 15)), int(rng.integers(1, 12))
        labels, scores = rng.integers(0, 4, n).astype(float), rng.permutation(n) / 5
        relevant = labels >= max(relevant_from, 1)
        if relevant.all() or not relevant.any():
            continue
        conventions = Conventions(relevant_from=relevant_from or None, max_grade=5)
        expected = TWINS[metric].value(labels[np.argsort(-scores)].tolist(), k, conventions)
        changed = {
            "relevant_from": relevant_from,
            "max_gain": 31.0,
            "metric": metric,
            "truncation_level": k,
        }
        assert -evaluate_named("lambdarank", labels, scores, **changed)[0] == pytest.approx(
            expected, abs=1e-12
        )


def test_lambdarank_of_map_has_the_steps_of_xgboost():
    rng = np.random.default_rng(1)
    n = 25
    labels, scores = rng.integers(0, 2, n).astype(float), rng.normal(size=n)
    data = xgboost.DMatrix(
        np.arange(n, dtype=float)[:, None], labels, group=[n], base_margin=scores
    )
    params = {
        "objective": "rank:map",
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": 8,
        "tree_method": "exact",
        "max_depth": 24,
        "min_child_weight": 0,
        "lambda": 0,
        "eta": 1,
        "nthread": 1,
    }
    # A leaf for each document: minus its gradient over its Hessian, which is twice ours.
    steps = xgboost.train(params, data, 1).predict(data, output_margin=True) - scores
    _, grad, hess = evaluate_named("lambdarank", labels, scores, metric="map", truncation_level=8)
    assert len(np.unique(steps)) == n
    assert steps == pytest.approx(-grad / hess / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("mode", "change"),
    [
        ("ndcg", 1 - 1 / log2(3)),
        ("dcg", 7 - 7 / log2(3)),
        ("map", 0.5),
        ("mrr", 0.5),
        ("err", 7 / 8 / 2),
    ],
)
def test_two_documents_of_yetirank_weigh_what_their_swap_changes(mode, change):
    _, grad, _ = evaluate_named("yetirank", [0, 3], [0.7, 0.0], mode=mode)
    assert grad == pytest.approx(change / (1 + exp(-0.7)) * np.array([1, -1]), rel=1e-12)


@pytest.mark.parametrize("metric", ["ndcg", "map", "mrr", "err"])
def test_all_neighbours_of_one_order_are_the_pairs_of_lambdarank(metric):
    # Scores so far apart that no noise changes the order.
    labels, scores = [0, 2, 1, 0, 3], np.arange(5) * 1e4
    expected = evaluate_named(
        "lambdarank", labels, scores, metric=metric, norm_distance=False, norm_query=False
    )[1]
    assert evaluate_named("yetirank", labels, scores, mode=metric, neighbors=0)[1] == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *(("lambdarank", {"metric": m}) for m in METRICS),
        *(("yetirank", {"mode": m}) for m in METRICS[:4]),
    ],
)
def test_a_list_of_two_hundred_thousand_documents(name, params):
    rng = np.random.default_rng(0)
    n = 200_000
    labels, scores = rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.06, 0.04]), rng.normal(size=n)
    bound = Objective(name, threads=1, **params).bind(labels, QueryIndex.from_sizes([n]))
    result = bound.gradient(scores, 0)
    assert result.grad.any()
    assert np.isfinite(result.grad).all()
    assert (result.hess > 0).all()
