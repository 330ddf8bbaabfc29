"""Functions of one feature, against NumPy's interpolation and a search for each piece."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.kernels.trees.curves import Curve, Curves, combined

X = np.array([-3.0, -1.0, 0.5, 4.0])
Y = np.array([0.0, 0.7, 0.2, 1.0])
ROWS = np.linspace(-6, 6, 601, dtype=np.float32)[:, np.newaxis]
FAR = np.array([[np.nan], [-np.inf], [np.inf], [1e30], [-1e30]], np.float32)


def test_between_points_it_is_straight_and_beyond_them_level() -> None:
    curves = Curves.of([(0, Curve.through(X, Y, 0.4))])
    np.testing.assert_allclose(curves.values(ROWS)[:, 0], np.interp(ROWS[:, 0].astype(np.float64), X, Y), atol=1e-12)
    assert curves.values(FAR)[:, 0].tolist() == pytest.approx([0.4, 0.4, 1.0, 1.0, 0.0])


def test_a_piece_ends_with_its_bound_and_what_is_nearly_0_is_0() -> None:
    steps = Curves.of([(1, Curve(np.array([0.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3), 9.0))])
    rows = np.array([[5, x] for x in (-1, 0.0, 1e-36, 1e-30, 2, 2.001)], np.float32)
    assert steps.values(rows)[:, 0].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 3.0]


def test_a_weighted_sum_is_the_sum_of_the_values_and_no_larger_than_it_says() -> None:
    several = [Curve.through(X, Y, 0.4), Curve.line(0.3, -1.0, 2.0), Curve.through(X[1:] + 0.1, Y[:3], -0.5)]
    rows = np.concatenate([ROWS, FAR[:1]])
    weights = [2.0, -1.0, 0.5]
    apart = sum(w * Curves.of([(0, c)]).values(rows)[:, 0] for w, c in zip(weights, several, strict=True))
    together = Curves.of([(0, combined(several, weights))])
    np.testing.assert_allclose(together.values(rows)[:, 0], apart, atol=1e-12)
    assert together.largest(np.array([6.0])) == pytest.approx(np.abs(apart).max(), abs=0.01)
    assert not np.isfinite(together.largest(np.array([np.inf])))
    assert Curves.of([(0, several[0])]).largest(np.array([np.inf])) == 1.0
    (again,) = Curves.of([(3, several[0])])
    assert again[0] == 3
    assert again[1].bounds.tolist() == X.tolist()
