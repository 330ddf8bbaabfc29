"""SoftRank's three sweeps on a list just long enough for them, against the twin's rank distributions."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.objectives.soft_ndcg import SPEC
from tests.objectives.conformance import close, evaluate, make_query
from tests.reference import soft_ndcg as twin


def example():
    rng = np.random.default_rng(1)
    scores = 1.5 * rng.normal(size=41)
    scores[5:9] = scores[4]
    scores[11] = -300.0
    return make_query(rng.integers(0, 4, 41)), scores


@pytest.mark.parametrize("ranks", ["binomial", "normal"])
@pytest.mark.parametrize(("sums", "blend"), [("exact", 0.35), ("fast", 0.0)])
def test_sweeps_equal_the_rank_distributions(ranks, sums, blend):
    query, scores = example()
    values = {"sigma": 0.7, "train_discount": blend, "ranks": ranks, "sums": sums, "normalize": "ideal"}
    loss, grad, hess = evaluate(SPEC, query, scores, values)
    tolerance = 1e-9 if sums == "exact" else 1e-6
    assert abs(loss - twin.loss(query, scores, values, None)) < tolerance
    close(grad, twin.gradient(query, scores, values), tolerance, "gradient")
    close(hess, twin.hessian(query, scores, values), tolerance, "hessian")
