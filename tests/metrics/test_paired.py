"""Two rankers on the same queries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from boostrank.core.errors import DataError
from boostrank.metrics import paired_difference
from tests.reference._scipy_seed import seeded


def scipy_p(a: np.ndarray, b: np.ndarray, resamples: float) -> float:
    return stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        **seeded(0),
    ).pvalue


@pytest.mark.parametrize("seed", range(5))
def test_few_queries_are_compared_exactly_as_scipy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.random(10), 1), np.round(rng.random(10), 1)
    assert paired_difference(a, b).p == pytest.approx(scipy_p(a, b, np.inf), abs=1e-12)


def test_many_queries_are_compared_by_sampling_as_scipy_does() -> None:
    rng = np.random.default_rng(0)
    a = rng.random(200)
    b = a + rng.normal(0.01, 0.07, 200)
    difference = paired_difference(a, b, resamples=20_000)
    assert difference.p == pytest.approx(scipy_p(a, b, 20_000), abs=0.01)
    assert difference.mean == pytest.approx(np.mean(a - b))
    interval = stats.bootstrap(
        (a - b,), np.mean, method="percentile", **seeded(1)
    ).confidence_interval
    assert [difference.low, difference.high] == pytest.approx(
        [interval.low, interval.high], abs=6e-4
    )


def test_the_same_ranker_twice_differs_by_nothing() -> None:
    a = np.random.default_rng(1).random(50)
    difference = paired_difference(a, a)
    assert (difference.mean, difference.low, difference.high, difference.p, difference.queries) == (
        0.0,
        0.0,
        0.0,
        1.0,
        50,
    )


def test_a_clear_difference_has_a_small_but_never_a_zero_p_value() -> None:
    a = np.random.default_rng(2).random(100)
    difference = paired_difference(a + 0.5, a, resamples=999)
    assert difference.p == pytest.approx(1 / 1000)
    assert difference.low == pytest.approx(0.5)


def test_a_paired_difference_is_seeded() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random(40), rng.random(40)
    assert paired_difference(a, b, seed=1) == paired_difference(a, b, seed=1)
    assert paired_difference(a, b, seed=1) != paired_difference(a, b, seed=2)


def test_weights_weigh_the_difference() -> None:
    difference = paired_difference([1.0, 0.0], [0.0, 0.0], weights=[3.0, 1.0])
    assert difference.mean == pytest.approx(0.75)


def test_queries_left_out_of_both_are_left_out_and_of_one_are_refused() -> None:
    assert paired_difference([1.0, np.nan, 0.5], [0.5, np.nan, 0.5]).queries == 2
    with pytest.raises(DataError, match=r"only one .*position 1"):
        paired_difference([1.0, np.nan], [0.5, 0.5])
    for weights in ([1.0, 0.0], [1.0, np.nan], [2.0, -1.0], [np.inf, 1.0]):
        with pytest.raises(DataError, match="weights"):
            paired_difference([1.0, 0.5], [0.5, 0.0], weights=weights)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], []), ([np.nan], [np.nan])])
def test_values_that_cannot_be_paired_are_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(DataError):
        paired_difference(a, b)
