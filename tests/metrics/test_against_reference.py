"""Compiled kernels against slow twins that try every order of the ties."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.core.conventions import CHOICES, Conventions
from boostrank.core.queries import QueryIndex
from boostrank.metrics import BoundMetrics, evaluate
from tests.metrics.helpers import NAMES, TIES, per_query, queries, reference, twin

GRADES = st.sampled_from([0.0, 1.0, 3.0])
REALS = st.sampled_from([0.0, 0.1, 0.75, 2.5])
CUTS = st.sampled_from(["", "@1", "@2,5", "@4,1,3", "@20"])


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_has_a_twin(name: str) -> None:
    assert callable(twin(name).value)
    assert callable(twin(name).empty)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(data=st.data())
def test_it_agrees_with_the_twin_over_ragged_queries_with_ties(
    name: str, ties: str, data: st.DataObject
) -> None:
    gain, labels = data.draw(
        st.sampled_from([("exponential", GRADES), ("linear", REALS), ((0, 2, 2, 5), GRADES)])
    )
    conventions = Conventions(
        gain=gain,
        ties=ties,
        empty=data.draw(st.sampled_from(["one", "zero"])),
        discount=data.draw(st.sampled_from(CHOICES["discount"])),
        ap_divisor=data.draw(st.sampled_from(CHOICES["ap_divisor"])),
        short_lists=data.draw(st.sampled_from(CHOICES["short_lists"])),
        relevant_from=data.draw(st.sampled_from([None, 1.0, 2.0])),
        max_grade=3.0,
    )
    metric = name + data.draw(CUTS)
    given_queries = data.draw(queries(labels))
    got = per_query(
        metric,
        [y for ys, _ in given_queries for y in ys],
        [s for _, ss in given_queries for s in ss],
        [len(ys) for ys, _ in given_queries],
        conventions,
    )
    want = [reference(metric, ys, ss, conventions) for ys, ss in given_queries]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_with_the_twin_over_long_lists_with_a_few_ties(name: str) -> None:
    rng = np.random.default_rng(3)
    conventions = Conventions(max_grade=4, empty="zero")
    for n in (33, 70, 300):
        labels = rng.integers(0, 5, n).astype(float)
        scores = rng.permutation(np.repeat(np.arange(n), 3)[:n]).astype(float)
        scores[scores > 2] += rng.random(int((scores > 2).sum()))
        for cut in ("", "@1,2,7", "@32", "@33,40"):
            got = per_query(name + cut, labels, scores, [n], conventions)[0]
            want = reference(name + cut, labels.tolist(), scores.tolist(), conventions)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_picking_the_best_documents_gives_what_ranking_all_of_them_gives(name: str) -> None:
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 200, 60).tolist()
    labels = rng.integers(0, 5, sum(sizes)).astype(float)
    for scores in (
        rng.normal(size=labels.size),
        rng.integers(0, 4, labels.size).astype(float),
        np.zeros(labels.size),
    ):
        for ties in TIES:
            conventions = Conventions(ties=ties, empty="zero")
            shallow = per_query(f"{name}@1,3,10", labels, scores, sizes, conventions)
            deep = per_query(f"{name}@1,3,10,5000", labels, scores, sizes, conventions)[:, :3]
            np.testing.assert_array_equal(shallow, deep)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=20)
def test_fault_068_the_order_of_rows_inside_a_query_does_not_matter(
    name: str, data: st.DataObject
) -> None:
    (labels, scores), *_ = data.draw(queries(GRADES, most=30))
    order = data.draw(st.permutations(range(len(labels))))
    conventions = Conventions(empty="zero", max_grade=3.0)
    before = per_query(name + "@1,4,60", labels, scores, [len(labels)], conventions)
    after = per_query(
        name + "@1,4,60",
        [labels[i] for i in order],
        [scores[i] for i in order],
        [len(labels)],
        conventions,
    )
    np.testing.assert_allclose(before, after, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=20)
def test_the_expectation_lies_between_the_worst_and_the_best_order(
    name: str, data: st.DataObject
) -> None:
    given_queries = data.draw(queries(GRADES, most=40))
    labels, scores = (
        [y for ys, _ in given_queries for y in ys],
        [s for _, ss in given_queries for s in ss],
    )
    sizes = [len(ys) for ys, _ in given_queries]
    conventions = Conventions(empty="zero", max_grade=3.0)
    by_ties = {
        ties: per_query(name + "@3,50", labels, scores, sizes, replace(conventions, ties=ties))
        for ties in ("pessimistic", "expected", "input", "optimistic")
    }
    low, mid, row, high = (
        by_ties["pessimistic"],
        by_ties["expected"],
        by_ties["input"],
        by_ties["optimistic"],
    )
    assert np.all(low <= mid + 1e-13)
    assert np.all(mid <= high + 1e-13)
    assert np.all((low <= row + 1e-13) & (row <= high + 1e-13))
    if name != "dcg":
        assert np.all((low >= 0.0) & (high <= 1.0))


def test_err_of_a_long_tied_list_agrees_with_the_polynomials_in_exact_arithmetic() -> None:
    from fractions import Fraction
    from math import comb

    chances = [Fraction(2**y - 1, 16) for y in [0, 1, 2, 3, 4] * 12]
    symmetric = [Fraction(1)] + [Fraction(0)] * len(chances)
    for p in chances:
        for j in range(len(chances), 0, -1):
            symmetric[j] += (1 - p) * symmetric[j - 1]
    passed = [e / comb(len(chances), j) for j, e in enumerate(symmetric)]
    want = sum(
        ((a - b) / r for r, (a, b) in enumerate(itertools.pairwise(passed), start=1)), Fraction(0)
    )
    got = per_query("err", [0, 1, 2, 3, 4] * 12, np.zeros(60), [60], Conventions(max_grade=4))
    assert got[0, 0] == pytest.approx(float(want), rel=1e-14)


@pytest.mark.parametrize("ties", TIES)
def test_one_thread_and_several_give_the_same_bits(ties: str) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 400, 500).tolist()
    labels = rng.integers(0, 5, sum(sizes)).astype(float)
    scores = rng.integers(0, 60, labels.size) / 7.0
    metrics = [m for name in NAMES for m in (name + "@1,3,10", name)]
    index = QueryIndex.from_sizes(sizes)
    by_threads = [
        BoundMetrics(metrics, labels, index, Conventions(ties=ties), threads).values(scores)
        for threads in (1, 2, 3)
    ]
    assert by_threads[0] == by_threads[1] == by_threads[2]
    assert list(by_threads[0]) == [n for m in NAMES for n in (f"{m}@1", f"{m}@3", f"{m}@10", m)]


def test_several_metrics_at_once_are_what_they_are_alone() -> None:
    rng = np.random.default_rng(6)
    index = QueryIndex.from_sizes(rng.integers(1, 60, 40))
    labels = rng.integers(0, 3, index.n_documents)
    scores = rng.integers(0, 9, index.n_documents)
    together = evaluate([name + "@2,40" for name in NAMES], labels, scores, index)
    for name in NAMES:
        for k in (2, 40):
            alone = evaluate(f"{name}@{k}", labels, scores, index)[f"{name}@{k}"]
            np.testing.assert_array_equal(together[f"{name}@{k}"].per_query, alone.per_query)
            assert together[f"{name}@{k}"].mean == alone.mean
