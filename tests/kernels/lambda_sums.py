"""Sums over tiles on lists too short for the kernel to switch: run uncompiled, with planted faults,
and compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

from boostrank.kernels import lambda_sums


def discount(rank, blend, n):
    return (1 - blend) / np.log2(1 + rank) + blend * (1 - (rank - 1) / n)


def far_pairs(s, gains, alpha, by_rank, by_delta, blend):
    """Losses, gradients and curvatures of the pairs that are not in one tile nor in neighbouring
    ones, and of all.
    """
    n = len(s)
    position = np.arange(n)
    gap = np.abs(position[:, None] - position[None, :])
    d = discount(position + 1.0, blend, n)
    safe = np.maximum(gap, 1)
    delta = discount(safe, blend, n) - discount(safe + 1, blend, n)
    w = np.maximum(gains[:, None] - gains[None, :], 0.0) * (
        by_rank * np.abs(d[:, None] - d[None, :]) + by_delta * delta
    )
    u = alpha * (s[:, None] - s[None, :])
    bound = 0.056 * np.exp(-np.abs(u) / 16) + 0.223 * np.exp(-np.abs(u) / 4) + 0.008
    tile = position // lambda_sums.TILE
    for kept in (np.abs(tile[:, None] - tile[None, :]) > 1, True):
        pull = alpha * np.where(kept, w, 0.0) * np.exp(-np.logaddexp(0.0, u))
        curvature = alpha**2 * np.where(kept, w + w.T, 0.0) * bound
        loss = float((np.where(kept, w, 0.0) * np.logaddexp(0.0, -u)).sum())
        yield loss, pull.sum(axis=0) - pull.sum(axis=1), curvature.sum(axis=1)


def check(s, gains, alpha, by_rank, by_delta, blend, tolerance):
    s = np.sort(s)[::-1].copy()
    grade_gains, grade = np.unique(gains, return_inverse=True)
    d = discount(np.arange(1.0, len(s) + 1.0), blend, len(s))
    grad, hess = np.zeros(len(s)), np.zeros(len(s))
    ranked = lambda_sums.RankedList(s, gains, d, grade.astype(np.int64), grade_gains)
    pairs = lambda_sums.PairWeights(alpha, by_rank, by_delta)
    arguments = (ranked, pairs, blend)
    loss = lambda_sums.add_far_pairs(*arguments, True, grad, hess)
    far, (every_loss, largest_force, largest_curvature) = far_pairs(
        s, gains, alpha, by_rank, by_delta, blend
    )
    expected_loss, pull, curvature = far
    assert loss == pytest.approx(expected_loss, abs=tolerance * every_loss + 1e-14)
    assert grad == pytest.approx(pull, abs=tolerance * np.abs(largest_force).max() + 1e-14)
    assert hess == pytest.approx(curvature, abs=tolerance * largest_curvature.max() + 1e-14)
    same, again = np.zeros(len(s)), np.zeros(len(s))
    assert lambda_sums.add_far_pairs(*arguments, False, same, again) == 0.0
    assert np.array_equal(same, grad)
    assert np.array_equal(again, hess)


def test_far_pairs_of_a_list_whose_last_tile_is_not_full():
    rng = np.random.default_rng(2)
    scores, gains = (
        rng.choice([-1e4, 1e4, *rng.normal(size=101)], 101),
        rng.choice([0.0, 0.02, 0.1], 101),
    )
    check(scores, gains, 0.7, 1.0, 10.0, 0.0, 2e-6)
    check(scores, gains, 0.7, 0.0, 1.0, 0.5, 2e-6)


@pytest.mark.parametrize(
    ("row", "longest", "bound"),
    [(0, 4096, 5e-7), (1, 1 << 20, 1e-8)],
)
def test_drops_of_the_discount_keep_their_stated_error(row, longest, bound):
    m = np.unique(np.geomspace(lambda_sums.TILE + 1, longest, 5000).round())
    drops = 1.0 / np.log2(1.0 + m) - 1.0 / np.log2(2.0 + m)
    columns = [
        a for a in range(lambda_sums._RATES.shape[1]) if a != 1
    ]  # the second is the discount's
    fitted = (
        np.exp(-np.outer(m, lambda_sums._RATES[row, columns])) @ lambda_sums._WEIGHTS[row, columns]
    )
    error = trapezoid(np.abs(fitted - drops), m) / trapezoid(drops, m)
    assert bound / 5 < error < bound


@pytest.mark.parametrize(("n", "row"), [(1, 0), (4096, 0), (4097, 1), (1 << 20, 1)])
def test_a_list_takes_the_discount_that_is_fitted_to_its_length(n, row):
    assert lambda_sums.find_table_row(n) == row
