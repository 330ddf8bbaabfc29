"""The tables of kernels: sums of powers and of waves, to their stated errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from boostrank.kernels import soft_ranks
from boostrank.kernels.tables import TABLES
from qa import kernel_tables


@pytest.mark.parametrize(
    ("longest", "bound", "rates", "weights"), kernel_tables.DISCOUNTS, ids=lambda v: str(v)[:8]
)
def test_the_log_discount_is_the_sum_of_powers_to_the_error_that_stands_beside_it(
    longest, bound, rates, weights
):
    assert np.all(np.array(weights) > 0)
    assert np.all(np.array(rates) > 0)
    ranks = np.unique(
        np.concatenate([np.arange(min(longest, 5000) + 1), np.geomspace(1, longest, 5000).round()])
    )
    error = np.exp(-np.outer(ranks, rates)) @ np.array(weights) - 1 / np.log2(2 + ranks)
    assert bound / 20 < np.abs(error).max() <= bound
    # The kernel's tables are those.
    row = soft_ranks.LENGTHS.tolist().index(longest)
    columns = slice(soft_ranks.FIRST_NODE, soft_ranks.FIRST_NODE + soft_ranks.NODES[row])
    np.testing.assert_array_equal(soft_ranks.RATES[row, columns], rates)
    np.testing.assert_array_equal(soft_ranks.WEIGHTS[row, columns], weights)


def test_curves_and_slopes_are_the_sums_of_waves_to_the_stated_error_at_every_distance():
    u = np.linspace(0, 50, 5001)
    waves = kernel_tables.evaluate_waves(u)
    for c, powers in enumerate(kernel_tables.DISCOUNTS):
        rows = soft_ranks.FIRST_NODE + len(powers.rates)
        for curve, slope, above in (
            (soft_ranks.ABOVE, soft_ranks.SLOPE_ABOVE, True),
            (soft_ranks.BELOW, soft_ranks.SLOPE_BELOW, False),
        ):
            values, slopes = kernel_tables.evaluate_curves(np.array(powers.rates), u, above)
            errors = np.abs(waves @ soft_ranks.CURVES[c, curve, :rows].T - values.T)
            assert errors.max() < 3e-8
            assert errors[0].max() < 1e-11, "tied documents differ"
            assert np.abs(waves @ soft_ranks.CURVES[c, slope, :rows].T - slopes.T).max() < 6e-8


def test_the_series_of_the_kernels_are_those_that_stand_beside_the_tables():
    for name, numbers in kernel_tables.SERIES.items():
        np.testing.assert_array_equal(TABLES[name], numbers)


@pytest.mark.parametrize("above", [True, False])
def test_slopes_are_those_of_the_curves(above):
    rates, u, h = np.array([0.01, 0.5, 3.0]), np.linspace(0.1, 6.0, 60), 1e-5
    left, _ = kernel_tables.evaluate_curves(rates, u - h, above)
    right, _ = kernel_tables.evaluate_curves(rates, u + h, above)
    values, slopes = kernel_tables.evaluate_curves(rates, u, above)
    h = h if above else -h
    np.testing.assert_allclose(slopes, (right - left) / (2 * h), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(values[0], ndtr(u) * ndtr(-u), rtol=1e-12)
