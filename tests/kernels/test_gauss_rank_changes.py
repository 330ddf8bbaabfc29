"""Gaussian-weighted moves past other documents equal the sum over pairs, however far apart these
lie.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.kernels.gauss import gaussian_rank_changes
from tests.kernels.conftest import make_scores


def by_pairs(x, centre, deviation, gains, drop):
    """F pair by pair: the other document's weight depends on which of the two stands first."""
    position = np.arange(len(x))
    weight = np.where(
        position[None, :] < position[:, None], drop[None, :], np.roll(drop, 1)[None, :]
    )
    density = np.exp(-0.5 * ((x[None, :] - centre[:, None]) / deviation) ** 2) / (
        np.sqrt(2 * np.pi) * deviation
    )
    pairs = weight * (gains[:, None] - gains[None, :]) * density
    np.fill_diagonal(pairs, 0.0)
    return pairs.sum(axis=1)


def check(x, centre, deviation, gains, drop):
    out = np.full(len(x), np.nan)
    gaussian_rank_changes(x, centre, deviation, gains, drop, out)
    expected = by_pairs(x, centre, deviation, gains, drop)
    assert out == pytest.approx(expected, rel=0.0, abs=1e-10 * np.abs(expected).max() + 1e-14)


@pytest.mark.parametrize("deviation", [0.2, 3.0])
def test_moves_past_neighbours_ties_and_documents_seen_from_elsewhere(deviation):
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.normal(size=20), np.zeros(5), [300.0, 299.0, -500.0, -500.3]]))[
        ::-1
    ].copy()
    centre = x + deviation * rng.uniform(-8.0, 8.0, len(x))
    drop = np.where(np.arange(len(x)) < 25, rng.random(len(x)), 0.0)
    check(x, centre, deviation, rng.integers(0, 4, len(x)).astype(float), drop)


def test_moves_in_a_list_longer_than_the_lattice():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 300.0, 150))[::-1].copy()
    check(
        x, x + rng.uniform(-3.0, 3.0, 150), 1.0, rng.choice([0.0, 1.0, 3.0], 150), rng.random(150)
    )


@pytest.mark.parametrize("deviation", [1e-9, 1e-18])
def test_gaps_too_wide_to_count_leave_neighbours_their_digits(deviation):
    x = np.concatenate([[1e4, 1e4], deviation * np.array([2.0, 0.5, 0.0, 0.0, -1.0]), [-1e4, -1e4]])
    rng = np.random.default_rng(2)
    check(x, x.copy(), deviation, rng.choice([0.0, 1.0, 3.0], len(x)), rng.random(len(x)))


def test_no_other_document_is_as_far_away_as_none():
    out = np.full(1, np.nan)
    gaussian_rank_changes(np.zeros(1), np.zeros(1), 1.0, np.ones(1), np.ones(1), out)
    assert out[0] == 0.0


@given(
    st.integers(1, 200),
    st.sampled_from(["spread", "wide", "tied", "clusters", "equal"]),
    st.sampled_from([0.05, 1.0, 20.0]),
    st.sampled_from([0.0, 2.0, 15.0]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_moves_equal_the_sum_over_pairs(n, shape, deviation, noise, seed):
    rng = np.random.default_rng(seed)
    x = make_scores(shape, n, rng)
    x = np.sort(x)[::-1].copy()
    centre = x + noise * deviation * rng.uniform(-1.0, 1.0, n)
    check(
        x,
        centre,
        deviation,
        rng.choice([0.0, 0.1, 0.3, 1.0], n),
        rng.random(n) * (rng.random(n) < 0.8),
    )
