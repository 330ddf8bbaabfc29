"""Weights of documents: each objective multiplies by them what it declares, and one that declares
nothing refuses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.objective.description import Objective, TrainingObjective
from boostrank.objective.mixture import Mixture, parse_objective
from boostrank.objectives import OBJECTIVES, _template
from tests.reference import sdcg as sdcg_twin
from tests.reference._ranking import Query

RNG = np.random.default_rng(0)
QUERIES = QueryIndex.from_sizes([7, 1, 12, 5])
LABELS = RNG.integers(0, 4, 25).astype(np.float64)
SCORES = RNG.normal(size=25)
WEIGHTS = RNG.choice([0.0, 0.25, 1.0, 2.3], 25)
WEIGHTED = replace(QUERIES, document_weights=WEIGHTS)
TAKING = [spec for spec in OBJECTIVES if spec.document_weights is not None]
OF_GAINS = [spec for spec in TAKING if spec.document_weights == "gain"]


def make_objective(spec: ObjectiveSpec | str, **options: Any) -> Objective:
    return Objective(spec, threads=1, total_rounds=100, **{"gain": "linear", **options})


def passes(objective: TrainingObjective, labels: np.ndarray, queries: QueryIndex) -> np.ndarray:
    """Loss, gradient and hessian in the first round and in the middle of a training."""
    bound = objective.bind(labels, queries)
    evaluations = [bound.evaluate(SCORES, round) for round in (0, 50)]
    return np.concatenate(
        [[*evaluation.grad, *evaluation.hess, evaluation.stats.loss] for evaluation in evaluations]
    )


@pytest.mark.parametrize("spec", TAKING, ids=lambda spec: spec.name)
def test_weights_of_one_change_no_bit(spec: ObjectiveSpec) -> None:
    ones = replace(QUERIES, document_weights=np.ones(25))
    assert np.array_equal(
        passes(make_objective(spec), LABELS, ones), passes(make_objective(spec), LABELS, QUERIES)
    )


@pytest.mark.parametrize(
    "objective",
    [*map(make_objective, OF_GAINS), parse_objective("auto", gain="linear")],
    ids=lambda o: o.name,
)
def test_weights_of_gains_are_those_of_other_gains(objective: TrainingObjective) -> None:
    weighted = passes(objective, LABELS, WEIGHTED)
    assert np.array_equal(weighted, passes(objective, LABELS * WEIGHTS, QUERIES))
    assert not np.array_equal(weighted, passes(objective, LABELS, QUERIES))


def test_the_gain_is_weighted_not_the_label() -> None:
    weighted = passes(make_objective("sdcg", gain="exponential"), LABELS, WEIGHTED)
    assert np.array_equal(
        weighted, passes(make_objective("sdcg"), (2**LABELS - 1) * WEIGHTS, QUERIES)
    )


def test_the_gradient_is_that_of_the_weighted_metric() -> None:
    objective = make_objective("sdcg", gain="exponential", gain_base="zero")
    grad = objective.bind(LABELS, WEIGHTED).evaluate(SCORES, 0).grad
    values, step = objective.values(0), 2e-5
    for a, b in zip(QUERIES.ptr[:-1], QUERIES.ptr[1:], strict=True):
        query = Query(LABELS[a:b], (2 ** LABELS[a:b] - 1) * WEIGHTS[a:b])
        moves = step * np.eye(b - a)
        up = [sdcg_twin.loss(query, SCORES[a:b] + e, values, None) for e in moves]
        down = [sdcg_twin.loss(query, SCORES[a:b] - e, values, None) for e in moves]
        np.testing.assert_allclose(grad[a:b], np.subtract(up, down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize(
    "options", [{}, {"per_query": True}, {"target": "gains", "gain": "exponential"}]
)
def test_the_losses_of_regression_are_weighted(options: dict[str, Any]) -> None:
    evaluation = make_objective("regression", **options).bind(LABELS, WEIGHTED).evaluate(SCORES, 0)
    share = WEIGHTS / (QUERIES.sizes[QUERIES.of_rows()] if "per_query" in options else 1)
    residual = SCORES - (2**LABELS - 1 if "target" in options else LABELS)
    np.testing.assert_allclose(evaluation.stats.loss, (share * residual**2).sum() / 2, rtol=1e-14)
    np.testing.assert_allclose(evaluation.grad, share * residual, rtol=1e-14)
    np.testing.assert_allclose(evaluation.hess, share, rtol=1e-14)


@pytest.mark.parametrize(
    "name", ["sdcg", "shf-sdcg", "approx-ndcg", "lambdarank", "lambdaloss", "margin-ndcg"]
)
def test_a_factor_of_all_weights_leaves_ndcg_as_it_is(name: str) -> None:
    doubled = replace(QUERIES, document_weights=2.0 * WEIGHTS)
    np.testing.assert_allclose(
        passes(make_objective(name), LABELS, doubled),
        passes(make_objective(name), LABELS, WEIGHTED),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "spec", [s for s in OBJECTIVES if s not in TAKING] + [_template.SPEC], ids=lambda s: s.name
)
def test_an_objective_that_declares_nothing_refuses_them(spec: ObjectiveSpec) -> None:
    with pytest.raises(DataError, match=f"'{spec.name}' .*document weights: .*lambdarank"):
        make_objective(spec).bind(LABELS, WEIGHTED)


def test_a_mixture_takes_what_both_of_its_parts_take() -> None:
    both = Mixture("sdcg", "regression", balance="raw", threads=1)
    weighted = both.bind(LABELS, WEIGHTED).evaluate(SCORES, 0).grad
    parts = [
        Objective(name).bind(LABELS, WEIGHTED).evaluate(SCORES, 0).grad
        for name in ("sdcg", "regression")
    ]
    np.testing.assert_allclose(weighted, 0.5 * parts[0] + 0.5 * parts[1], rtol=1e-14)
    with pytest.raises(DataError, match=r"'ranknet' .*not support"):
        Mixture("sdcg", "ranknet").bind(LABELS, WEIGHTED)


def test_a_declaration_is_one_of_those_there_are() -> None:
    with pytest.raises(ParameterError, match=r"document_weights='gains' .*'gain'"):
        replace(_template.SPEC, document_weights="gains")


@pytest.mark.parametrize("spec", TAKING, ids=lambda spec: spec.name)
def test_gains_are_real_numbers_of_any_size(spec: ObjectiveSpec) -> None:
    evaluation = make_objective(spec).bind(LABELS * 333_333.3, QUERIES).gradient(np.zeros(25), 0)
    assert evaluation.stats.broken_query == -1
    assert np.any(evaluation.grad)
