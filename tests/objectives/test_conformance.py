"""Every objective of the registry, and the template, keeps the kernel contract and equals its twin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.core.queries import QueryIndex
from boostrank.objective.description import Objective
from boostrank.objectives import OBJECTIVES, _template
from tests.objectives.conformance import CHECKS, close, evaluate, make_query, twin_of

SPECS = [*OBJECTIVES, _template.SPEC]
every_objective = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)


@pytest.mark.fault(65, 66, 67, 68)
@every_objective
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_objective_keeps_its_contract(spec, check):
    check(spec, twin_of(spec.name))


@pytest.mark.fault(64)
@every_objective
@given(
    documents=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 31.0]),
            # Beside 1e4 a difference below 1e-11 is rounding, and at a margin it decides whether a
            # pair counts.
            st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-9, 30.0, 1e4, -1e4])
            | st.floats(-4, 4).map(lambda s: round(s, 9)),
        ),
        max_size=12,
    )
)
def test_objective_equals_its_twin_on_ragged_queries_ties_and_extremes(spec, documents):
    query = make_query([label for label, _ in documents])
    scores = np.array([score for _, score in documents], dtype=np.float64)
    values = {p.name: p.default for p in spec.params}
    twin = twin_of(spec.name)
    _, grad, hess = evaluate(spec, query, scores, values)
    close(grad, twin.gradient(query, scores, values), 1e-8, "gradient")
    close(hess, twin.hessian(query, scores, values), 1e-8, "hessian")


@every_objective
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 1e-6, 1.0, 100.0, 1e4]),
    top=st.sampled_from([1, 4, 31]),
)
@settings(max_examples=25)
def test_ragged_data_sets_get_finite_float32_and_dead_queries_are_counted(
    spec, sizes, seed, spread, top
):
    rng = np.random.default_rng(seed)
    labels, scores = (
        rng.integers(0, top + 1, sum(sizes)),
        spread * rng.choice([-1, -0.3, 0, 1], sum(sizes)),
    )
    index = QueryIndex.from_sizes(sizes)
    result = Objective(spec, total_rounds=40).bind(labels, index).gradient(scores, 30)
    assert result.grad.dtype == result.hess.dtype == np.float32
    assert np.isfinite(result.grad).all()
    assert np.isfinite(result.hess).all()
    assert (result.hess >= 0).all()
    dead = [not result.grad[a:b].any() for a, b in pairwise(index.ptr)]
    assert result.stats.dead_queries == sum(dead)
    live = ~np.repeat(dead, sizes)
    assert (result.hess[live] > 0).all()
    if live.any():
        assert result.hess[live].mean(dtype=np.float64) == pytest.approx(1.0, rel=1e-4)


@every_objective
def test_lists_longer_than_a_block_equal_the_twin(spec):
    rng = np.random.default_rng(11)
    n = 1100 if spec.name.endswith("shf-sdcg") else 200
    query, scores = make_query(rng.integers(0, 3, n)), rng.normal(size=n)
    values = {p.name: p.default for p in spec.params}
    if "sums" in values:
        values["sums"] = "direct"
    if n > 1000:
        # Every tenth document of the twin's answer would need all pairs: ranks alone are checked,
        # through the loss.
        loss, grad, _ = evaluate(spec, query, scores, values)
        x = (scores[:, None] - scores[None, :]) / values["sigma"]
        better = np.sign(query.gains[:, None] - query.gains[None, :])
        share = np.where(
            better == 0, 1 / (1 + np.exp(x)), np.logaddexp(0, -np.sign(better) * x) + (better < 0)
        )
        np.fill_diagonal(share, 0.0)
        ranks = 1 + share.sum(axis=1)
        ideal = np.sum(np.sort(query.gains)[::-1] / np.log2(2 + np.arange(n)))
        expected = -np.sum(query.gains / np.log2(1 + ranks)) / ideal
        if "mix" in values:
            expected = (expected + np.mean((scores - query.labels) ** 2) / 2) / 2
        assert loss == pytest.approx(expected, rel=1e-12)
        assert np.isfinite(grad).all()
    else:
        _, grad, hess = evaluate(spec, query, scores, values)
        if spec.name != "smooth-ndcg":  # the twin's eq (10) is cubic in n
            close(grad, twin_of(spec.name).gradient(query, scores, values), 1e-9, "gradient")
        close(hess, twin_of(spec.name).hessian(query, scores, values), 1e-9, "hessian")


@every_objective
def test_one_thread_and_two_give_the_same_bytes(spec):
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 60, 1500)
    labels, scores = rng.integers(0, 5, sizes.sum()), rng.normal(size=sizes.sum())
    results = []
    for threads in (1, 2):
        bound = Objective(spec, threads=threads, total_rounds=40).bind(
            labels, QueryIndex.from_sizes(sizes)
        )
        result = bound.gradient(scores, 30)
        results.append(
            (result.grad.tobytes(), result.hess.tobytes(), result.stats.loss, result.stats.scale)
        )
    assert results[0] == results[1]


@every_objective
def test_a_query_has_the_same_gradient_alone_and_among_others(spec):
    rng = np.random.default_rng(4)
    sizes = np.array([30, 40, 1, 25])
    labels, scores = rng.integers(0, 5, 96), rng.normal(size=96)
    objective = Objective(spec, hessian_scale="raw", total_rounds=40)
    together = objective.bind(labels, QueryIndex.from_sizes(sizes)).gradient(scores, 30)
    # The place of a query decides its noise: the first one keeps it.
    rows = slice(0, 30) if spec.random else slice(71, 96)
    alone = objective.bind(labels[rows], QueryIndex.from_sizes([rows.stop - rows.start])).gradient(
        scores[rows], 30
    )
    assert np.array_equal(together.grad[rows], alone.grad)
    assert np.array_equal(together.hess[rows], alone.hess)


@every_objective
def test_read_only_labels_scores_and_boundaries_are_welcome(spec):
    labels, scores = np.array([0.0, 2.0, 1.0, 0.0]), np.array([0.3, 0.1, 0.2, 0.0])
    ptr = np.array([0, 4])
    for array in (labels, scores, ptr):
        array.setflags(write=False)
    index = QueryIndex(ptr, np.array([9]))
    result = (
        Objective(spec, total_rounds=40, gain="linear").bind(labels, index).gradient(scores, 30)
    )
    assert np.isfinite(result.grad).all()
    assert result.grad.any()


@every_objective
def test_following_the_newton_step_improves_the_loss(spec):
    rng = np.random.default_rng(8)
    query, scores = make_query(rng.integers(0, 4, 12)), rng.normal(size=12)
    values = {p.name: p.default for p in spec.params}
    twin = twin_of(spec.name)
    _, grad, hess = evaluate(spec, query, scores, values)
    frozen = twin.freeze(query, scores, values)
    moved = scores - 0.1 * grad / np.maximum(hess, 1e-6 * hess.mean())
    assert twin.loss(query, moved, values, frozen) < twin.loss(query, scores, values, frozen)
