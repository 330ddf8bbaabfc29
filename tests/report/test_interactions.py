"""What two features do together, of functions for which it is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from boostrank.core.types import Float64Array
from boostrank.report.effects import _others, _rounds, interactions

from .test_shapes import Formula, rows_of


def shares(
    function: Callable[[Float64Array], Float64Array], columns: int
) -> dict[tuple[str, str], tuple[float, float]]:
    X = np.random.default_rng(2).normal(size=(20_000, columns))
    names = [f"x{i}" for i in range(columns)]
    found = interactions(Formula(function), rows_of(X, np.full(2000, 10)), names, range(columns), seed=0, threads=2)
    assert len(found) == columns * (columns - 1) // 2
    return {(one.first, one.second): (one.share, one.error) for one in found}


def test_interactions_are_the_variance_of_the_parts_that_hold_both() -> None:
    # Of independent standard normal features: Var(x0 x1) = 1, Var(x2) = 1, and so on.
    found = shares(lambda x: x[0] * x[1] + 2.0 * x[2] + np.sin(x[3]) + 0.5 * x[1] * x[2], 5)
    total = 1.0 + 4.0 + (1.0 - math.exp(-2.0)) / 2.0 + 0.25
    for pair, (share, error) in found.items():
        truth = {("x0", "x1"): 1.0, ("x1", "x2"): 0.25}.get(pair, 0.0) / total
        assert share == pytest.approx(truth, abs=4 * error + 1e-12), pair
        assert (error > 1e-4) == (truth > 0)


def test_the_error_of_an_interaction_is_the_spread_over_samples() -> None:
    rng = np.random.default_rng(7)
    found, said = [], []
    for seed in range(80):
        rows = rows_of(rng.normal(size=(800, 2)), np.full(40, 20))
        one = interactions(Formula(lambda x: x[0] * x[1]), rows, "ab", [0, 1], seed=seed, threads=1)[0]
        found.append(one.size**2)
        said.append(one.error * one.size**2 / one.share)
    assert np.mean(said) == pytest.approx(np.std(found, ddof=1), rel=0.25)  # of 80 runs: 8%
    assert np.mean(found) == pytest.approx(1.0, abs=4 * np.mean(said) / math.sqrt(80))


def test_a_product_of_three_counts_in_each_of_its_pairs() -> None:
    for share, error in shares(lambda x: x[0] * x[1] * x[2], 3).values():
        assert share == pytest.approx(1.0, abs=4 * error)


def test_every_document_meets_another_one_of_its_query() -> None:
    rows = rows_of(np.zeros((16, 1)), [1, 2, 5, 8])
    donors = np.array([_others(rows.data.queries, seed) for seed in range(300)])
    owner = np.repeat(np.arange(4), [1, 2, 5, 8])
    assert (owner[donors] == owner).all()
    assert (donors[:, 1:] != np.arange(16)[1:]).all()
    for one in donors:
        np.testing.assert_array_equal(np.sort(one), np.arange(16))
    counts = np.bincount(donors[:, 8], minlength=16)[9:]
    assert counts.min() > 300 / 7 / 2  # each of the others as often


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_rounds_hold_each_pair_once(count: int) -> None:
    rounds = _rounds(count)
    assert sorted(pair for one in rounds for pair in one) == list(combinations(range(count), 2))
    assert all(len({i for pair in one for i in pair}) == 2 * len(one) for one in rounds)
