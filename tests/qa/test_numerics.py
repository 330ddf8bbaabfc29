"""A sample of `make numerics`: scores of any size against many digits, hard orders, and what the
page states.
"""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.queries import QueryIndex
from boostrank.objectives import OBJECTIVES
from qa.numerics import large
from qa.numerics.accuracy import (
    bounds,
    default_values,
    every_size,
    huge_sizes,
    labels_of,
    worst_error,
)

every_objective = pytest.mark.parametrize("spec", list(OBJECTIVES), ids=lambda spec: spec.name)


def test_the_page_states_a_bound_for_every_objective_and_kind_of_sums():
    stated = bounds()
    assert set(stated) == {spec.name for spec in OBJECTIVES}
    for spec in OBJECTIVES:
        has_bound = np.isfinite(stated[spec.name])
        assert (
            has_bound.all() if "sums" in default_values(spec) else list(has_bound) == [True, False]
        )


@pytest.mark.fault(64)
@every_objective
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_scores_of_any_size_keep_the_stated_digits(spec):
    rng = np.random.default_rng(2)
    for family in (every_size, huge_sizes):
        for what, scores in family(rng, 5):
            error = worst_error(spec, labels_of(rng, 5), scores, default_values(spec))
            assert error <= bounds()[spec.name].pairs, f"{what}: {scores}"


@pytest.mark.fault(66)
@every_objective
def test_gradients_cancel_in_orders_that_are_hard_on_sums(spec):
    for what, labels, scores in large.hard_lists(1000):
        if large.sums_to_zero(spec, what):
            assert large.sum_of_gradient(spec, labels, scores) <= 1e-12, what


@pytest.mark.fault(67, 68)
@every_objective
def test_the_order_of_documents_changes_nothing_in_such_lists_either(spec):
    for what, labels, scores in large.hard_lists(1000):
        if spec.name not in large.BY_ORDER or np.unique(scores).size == scores.size:
            assert large.change_by_order(spec, labels, scores) <= 1e-12, what


@pytest.mark.fault(73)
def test_seven_threads_over_many_queries_of_one_document_give_the_bytes_of_one():
    rng = np.random.default_rng(0)
    sizes = np.concatenate([np.ones(20_000, np.int64), rng.integers(2, 60, 1500)])
    labels, scores = rng.integers(0, 5, sizes.sum()), rng.normal(size=sizes.sum())
    assert (
        len(
            large.bytes_by_threads(
                OBJECTIVES.get("sdcg"), labels, QueryIndex.from_sizes(sizes), scores
            )
        )
        == 1
    )
