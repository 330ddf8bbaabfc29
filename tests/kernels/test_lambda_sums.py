"""Pair weights by gains, ranks and scores: sums over tiles equal the pair loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.objectives.lambdaloss import SPEC
from tests.kernels.conftest import make_scores
from tests.kernels.lambda_sums import (  # noqa: F401
    check,
    test_drops_of_the_discount_keep_their_stated_error,
    test_far_pairs_of_a_list_whose_last_tile_is_not_full,
)
from tests.objectives.conformance import close, evaluate, make_query


@given(
    st.integers(1, 260),
    st.sampled_from(["spread", "wide", "tied", "clusters", "equal"]),
    st.sampled_from([2, 5, 12]),
    st.sampled_from([-1.0, 0.0, 20.0]),
    st.sampled_from([(1.0, 10.0), (0.0, 1.0), (1.0, 0.0)]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_far_pairs_equal_those_of_the_pair_loop(n, shape, grades, lift, parts, blend, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, grades, n)
    scores = make_scores(shape, n, rng)
    # Ties by ascending gain, as the worst order of a list.
    order = np.lexsort((labels, -(scores + lift * labels)))
    gains = np.exp2(labels[order]) / 500.0
    check((scores + lift * labels)[order], gains, 1.0, *parts, blend, 1e-5)


@pytest.mark.parametrize("shape", ["spread", "tied"])
@pytest.mark.parametrize("weights", ["ndcg-loss2", "ndcg-loss2++"])
def test_a_list_long_enough_to_be_taken_by_sums(weights, shape):
    rng = np.random.default_rng(4)
    scores = rng.normal(size=1800)
    if shape == "tied":
        scores = scores.round()
    query = make_query(rng.integers(0, 5, 1800))
    values = {p.name: p.default for p in SPEC.params} | {"weights": weights}
    _, grad, hess = evaluate(SPEC, query, scores, values | {"sums": "direct"})
    _, g, h = evaluate(SPEC, query, scores, values)
    assert not np.array_equal(g, grad)
    close(g, grad, 1e-6, "gradient")
    close(h, hess, 1e-6, "hessian")
