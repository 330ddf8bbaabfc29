"""Step functions of one feature, against a search for each piece."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostrank.kernels.curves import Curve, Curves, combined

X = np.array([-3.0, -1.0, 0.5, 4.0])
Y = np.array([0.0, 0.7, 0.2, 1.0, -0.3])
ROWS = np.linspace(-6, 6, 601, dtype=np.float32)[:, np.newaxis]
FAR = np.array([[np.nan], [-np.inf], [np.inf], [1e30], [-1e30]], np.float32)


def test_a_piece_ends_with_its_bound_and_what_is_nearly_0_is_0() -> None:
    steps = Curves.from_pairs([(1, Curve(np.array([0.0, 2.0]), np.array([1.0, 2.0, 3.0]), 9.0))])
    rows = np.array([[5, x] for x in (-1, 0.0, 1e-36, 1e-30, 2, 2.001)], np.float32)
    assert steps.values(rows)[:, 0].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 3.0]


def test_a_weighted_sum_is_the_sum_of_the_values_and_no_larger_than_it_says() -> None:
    several = [
        Curve(X, Y, 0.4),
        Curve(np.zeros(0), np.array([-1.0]), 2.0),
        Curve(X[1:] + 0.1, Y[:4], -0.5),
    ]
    rows = np.concatenate([ROWS, FAR])
    weights = [2.0, -1.0, 0.5]
    apart = sum(
        w * Curves.from_pairs([(0, c)]).values(rows)[:, 0]
        for w, c in zip(weights, several, strict=True)
    )
    together = Curves.from_pairs([(0, combined(several, weights))])
    np.testing.assert_allclose(together.values(rows)[:, 0], apart, atol=1e-12)
    assert together.largest == pytest.approx(np.abs(apart).max())
    assert Curves.from_pairs([(0, several[0])]).largest == 1.0
    (again,) = Curves.from_pairs([(3, several[0])])
    assert again[0] == 3
    assert again[1].bounds.tolist() == X.tolist()


def test_every_row_is_counted_once_a_function() -> None:
    several = [
        (1, Curve(np.array([0.0, 2.0]), np.array([1.0, 2.0, 4.0]), 8.0)),
        (0, Curve(np.zeros(0), np.array([1.0]), 2.0)),
    ]
    rows = np.array(
        [[np.nan, x] for x in (-1, 0.0, 1e-36, 1.5, 2, np.inf, np.nan, -np.inf)], np.float32
    )
    curves = Curves.from_pairs(several)
    scores, documents = curves.summed(rows, curves.levels[np.newaxis])
    np.testing.assert_array_equal(scores, curves.values(rows).sum(axis=1))
    which = np.arange(8) % 2
    scores, _ = curves.summed(rows, np.stack([curves.levels, 3.0 * curves.levels]), which)
    np.testing.assert_array_equal(scores, (1 + 2 * which) * curves.values(rows).sum(axis=1))
    assert documents.tolist() == [3, 2, 1, 0, 2, 8]
    assert [curve.documents.tolist() for _, curve in curves.with_documents(documents)] == [
        [3, 2, 1, 2],
        [0, 8],
    ]


@pytest.mark.parametrize("bounds", [0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 255])
def test_the_piece_is_the_number_of_bounds_below(bounds: int) -> None:
    at = np.sort(np.random.default_rng(bounds).normal(size=bounds))
    pieces = Curves.from_pairs([(0, Curve(at, np.arange(bounds + 1.0), -1.0))]).values(ROWS)[:, 0]
    np.testing.assert_array_equal(pieces, (ROWS.astype(np.float64) > at).sum(axis=1))


def test_documents_of_a_sum_are_those_of_its_parts_shared_out() -> None:
    first = replace(Curve(np.array([1.0]), np.zeros(2), 0.0), documents=np.array([8.0, 4.0, 2.0]))
    second = replace(
        Curve(np.array([0.0, 2.0]), np.zeros(3), 0.0), documents=np.array([6.0, 6.0, 2.0, 0.0])
    )
    assert combined([first, second], [0.5, 0.5]).documents.tolist() == [5.0, 3.5, 2.5, 2.0, 1.0]
    assert combined([first, Curve(np.zeros(0), np.array([1.0]), 0.0)], [1.0, 1.0]).documents is None
    with pytest.raises(ValueError, match="zip"):
        combined([first, second], [1.0])


def test_float32_numbers_are_compared_with_the_bounds_as_they_are() -> None:
    number = np.float32(0.1)
    beside = [np.nextafter(number, np.float32(-1)), number, np.nextafter(number, np.float32(1))]
    for bound in (
        float(number),
        np.nextafter(float(number), 0.0),
        np.nextafter(float(number), 1.0),
        1e300,
        -1e300,
    ):
        steps = Curves.from_pairs([(0, Curve(np.array([bound]), np.array([0.0, 1.0]), 9.0))])
        expected = [float(float(x) > bound) for x in beside]
        assert steps.values(np.array(beside)[:, np.newaxis])[:, 0].tolist() == expected
