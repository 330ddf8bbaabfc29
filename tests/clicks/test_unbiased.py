"""Objectives that are linear in the gains: what clicks over exposure estimate without bias."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from boostrank import Objective
from boostrank.clicks.log import Propensities
from boostrank.clicks.simulate import click_probabilities, simulate_clicks
from boostrank.core.queries import QueryIndex
from boostrank.objective.bound import BoundObjective
from boostrank.objectives import OBJECTIVES

SIZE, COUNT, LOGS = 8, 25, 150
QUERIES = QueryIndex.from_sizes([SIZE] * COUNT)
RNG = np.random.default_rng(1)
LABELS = RNG.integers(0, 4, SIZE * COUNT)
SCORES = LABELS + 1.5 * RNG.normal(size=LABELS.size)
NAMES = [
    spec.name for spec in OBJECTIVES if any(param.name == "normalize" for param in spec.params)
]
UNBIASED = {"normalize": "none", "gain_base": "zero"}


def gradient(name: str, gains: np.ndarray, **params: object) -> np.ndarray:
    objective = Objective(name, gain="linear", hessian_scale="raw", **params)
    return (
        BoundObjective(objective, np.asarray(gains, np.float64), QUERIES).evaluate(SCORES, 0).grad
    )


@functools.cache
def estimated() -> list[np.ndarray]:
    """Clicks over exposure of each log."""
    curve = Propensities(1.0 / np.arange(1, SIZE + 1))
    logs = (
        simulate_clicks(LABELS, QUERIES, SCORES, impressions=10, shown=SIZE, spread=1.0, seed=seed)
        for seed in range(LOGS)
    )
    return [log.gains(curve, 0.0) for log in logs]


def farthest(name: str, **params: object) -> float:
    """Standard errors by which the mean gradient over logs misses that of the true click
    probabilities, at most.
    """
    true = click_probabilities(LABELS)
    gradients = np.array([gradient(name, gains, **params) for gains in estimated()])
    off = gradients - gradient(name, true, **params)
    along = off @ gradient(name, true, **params)
    values = np.column_stack([off, along])
    return float(
        np.max(np.abs(values.mean(axis=0)) / (values.std(axis=0, ddof=1) / np.sqrt(LOGS) + 1e-12))
    )


def test_some_objectives_can_be_unbiased() -> None:
    assert {"sdcg", "approx-ndcg", "soft-ndcg"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_without_normalisation_gradients_are_unbiased_and_with_it_they_are_not(name: str) -> None:
    assert farthest(name, **UNBIASED) < 4.5  # the largest of 201
    assert farthest(name, normalize="ideal", gain_base="zero") > 6.0
    assert farthest(name, normalize="none", gain_base="least") > 6.0


@pytest.mark.parametrize("discount", ["log", "linear", 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_without_normalisation_gradients_are_linear_in_the_gains(
    name: str, discount: object
) -> None:
    first, second = RNG.random((2, LABELS.size))
    first[:SIZE], second[:SIZE] = (
        0.0,
        0.5,
    )  # a query without gains, and one in which all have the same
    more = {"train_discount": discount} | UNBIASED
    expected = gradient(name, first, **more) + 3.0 * gradient(name, second, **more)
    np.testing.assert_allclose(
        gradient(name, first + 3.0 * second, **more), expected, rtol=1e-6, atol=1e-9
    )
    biased = more | {"normalize": "ideal"}
    apart = gradient(name, first, **biased) + 3.0 * gradient(name, second, **biased)
    assert np.abs(gradient(name, first + 3.0 * second, **biased) - apart).max() > 1e-3
