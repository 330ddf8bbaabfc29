"""Steps of a start: bounds that everybody compares alike, means between them, and what may be left
out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.fit.start.steps import MOST_STEPS, Values, between, simplified
from boostrank.kernels.curves import Curve, Curves

SOLR = 1e-6


float32 = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)


@given(st.lists(st.tuples(float32, float32).filter(lambda pair: pair[0] != pair[1]), min_size=1))
def test_a_bound_is_on_one_side_of_every_float32_number(pairs: list[tuple[float, float]]) -> None:
    low, high = np.sort(np.array(pairs), axis=1).T
    bounds = between(low, high)
    assert np.all((low < bounds) & (bounds < high))
    assert not np.any(bounds == bounds.astype(np.float32))
    clear = high - low > 2 * SOLR
    assert np.all((bounds + SOLR < high)[clear])


@given(st.lists(float32, min_size=1, max_size=60), st.integers(1, 20))
def test_few_values_have_a_step_each_as_far_as_zero_allows(values: list[float], times: int) -> None:
    present = np.repeat(np.array([*values, np.nan, np.inf], np.float32), times)
    counted = Values.from_column(present)
    bounds, distinct = counted.bounds, np.unique(values)
    np.testing.assert_array_equal(counted.distinct, distinct)
    assert counted.counts.sum() == len(values) * times
    near = np.abs(between(distinct[:-1], distinct[1:])) <= 1e-30
    assert bounds.size == distinct.size - 1 - near.sum()
    assert np.all(np.diff(bounds) > 0)
    assert not np.any(bounds == 0.0)


def test_many_values_have_steps_of_about_as_many_documents_and_zeros_one_of_their_own() -> None:
    rng = np.random.default_rng(0)
    present = np.where(rng.random(20_000) < 0.3, 0.0, rng.normal(size=20_000)).astype(np.float32)
    bounds = Values.from_column(present).bounds
    counts = np.bincount(np.searchsorted(bounds, present))
    assert MOST_STEPS * 0.6 < counts.size <= MOST_STEPS + 2
    of_zero = np.searchsorted(bounds, 0.0)
    assert counts[of_zero] == np.count_nonzero(present == 0.0)
    assert np.delete(counts, of_zero).max() < 2 * present.size / MOST_STEPS


def test_levels_are_means_of_the_function_and_ranks_are_half_way() -> None:
    values = Values(np.array([1.0, 2.0, 3.0, 8.0]), np.array([1, 2, 1, 1]), np.array([1.5, 5.0]))
    curve = values.in_steps(values.distinct**2, 7.0)
    assert curve.constant.tolist() == [1.0, pytest.approx(17 / 3), 64.0]
    assert curve.missing == 7.0
    assert values.ranks.tolist() == pytest.approx([0.1, 0.4, 0.7, 0.9])
    assert values.mean(values.distinct) == pytest.approx(16 / 5)


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=30), min_size=1, max_size=5),
    st.floats(0.0, 1.0),
)
def test_what_is_left_out_moves_no_score_by_more_than_it_may(
    levels: list[list[float]], moved: float
) -> None:
    rows = np.stack(np.broadcast_arrays(*[np.arange(31.0)[:, np.newaxis]] * len(levels)), axis=2)[
        :, 0
    ]
    rows = np.vstack([rows, np.full((1, len(levels)), np.nan)]).astype(np.float32)
    curves = {
        j: Curve(np.arange(len(mine) - 1) + 0.5, np.array(mine), mine[0] / 2)
        for j, mine in enumerate(levels)
    }
    fewer = simplified(curves, moved)

    def scores(of: dict[int, Curve]) -> np.ndarray:
        return Curves.from_pairs(list(of.items())).values(rows).sum(axis=1)

    if fewer:  # a constant for all is no difference where nothing is left
        assert np.abs(scores(fewer) - scores(curves)).max() <= moved + 1e-12
    else:
        assert np.ptp(scores(curves)) <= 2 * moved + 1e-12
    if moved == 0.0:
        assert {j for j, mine in enumerate(levels) if np.ptp([*mine, mine[0] / 2]) > 0} == set(
            fewer
        )


def test_steps_beside_each_other_become_one() -> None:
    curve = Curve(np.arange(4) + 0.5, np.array([0.0, 0.1, 0.5, 0.6, 0.55]), 0.0)
    (merged,) = simplified({3: replace(curve, documents=np.arange(6.0))}, 0.06).values()
    assert merged.documents.tolist() == [1.0, 9.0, 5.0]
    assert merged.bounds.tolist() == [1.5]
    assert merged.constant.tolist() == pytest.approx([0.05, 0.55])
