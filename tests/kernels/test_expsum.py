"""Near-linear sums equal the pair loops: at ties, across huge gaps, for lists of any length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.kernels import expsum
from boostrank.kernels.expsum import CURVATURE, CURVATURE_FAR, CURVATURE_RATE
from boostrank.kernels.lambda_sums import _SIGMOID
from boostrank.objectives import OBJECTIVES
from tests.kernels.conftest import make_scores
from tests.objectives.conformance import cases, close, evaluate, make_query

SMOOTH = [spec for spec in OBJECTIVES if "sums" in [p.name for p in spec.params]]
every_smooth_objective = pytest.mark.parametrize("spec", SMOOTH, ids=lambda spec: spec.name)


def sigmoid_over_t(t):
    return 1.0 / (1.0 + t)


def slope_over_t(t):
    return 1.0 / (1.0 + t) ** 2


def softplus_over_t(t):
    return np.where(t > 0.0, np.log1p(t) / np.where(t > 0.0, t, 1.0), 1.0)


FITS = [
    (expsum.SIGMOID, sigmoid_over_t, 3e-9),
    (expsum.SLOPE, slope_over_t, 4e-8),
    (expsum.SOFTPLUS, softplus_over_t, 3e-10),
    (expsum._ACCURATE_SOFTPLUS, softplus_over_t, 2e-13),
]


@pytest.mark.parametrize(("coefficients", "function", "bound"), FITS)
def test_coefficients_keep_their_stated_error_and_are_exact_at_a_tie(coefficients, function, bound):
    t = np.linspace(0.0, 1.0, 20_001)
    error = np.abs(np.polynomial.polynomial.polyval(t, coefficients) / function(t) - 1.0)
    assert bound / 3 < error.max() < bound
    assert error[-1] < 5e-15


@pytest.mark.parametrize(
    ("coefficients", "function"), [fit[:2] for fit in FITS] + [(_SIGMOID, sigmoid_over_t)]
)
def test_coefficients_interpolate_at_chebyshev_points(coefficients, function):
    terms = len(coefficients)
    nodes = 0.5 + 0.5 * np.cos(np.pi * np.arange(terms) / (terms - 1))
    interpolated = np.polynomial.polynomial.polyval(nodes, coefficients)
    np.testing.assert_allclose(interpolated, function(nodes), rtol=1e-13)


@pytest.mark.parametrize("above", [1.0, -1.0])
def test_sums_over_both_sides_are_those_of_all_pairs(above):
    scores = np.array([1e4, 3.0, 3.0, 2.5, 2.5, 2.5, 0.0, -50.0, -1e4])
    w = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 1.0, 1.0, 7.0, -1.0])
    r, out, state = np.empty(9), np.full(9, 5.0), np.full(expsum.ROOM, np.nan)
    expsum.decays(scores, 0.7, r)
    expsum.add_sums(r, w, expsum.SIGMOID, above, out, state)
    t = np.exp(-0.7 * np.abs(scores[:, None] - scores[None, :]))
    f = t / (1 + t) * w
    expected = 5.0 + np.triu(f, 1).sum(axis=1) + above * np.tril(f, -1).sum(axis=1)
    assert out == pytest.approx(expected, rel=1e-8)


def test_sums_that_fade_away_end_at_zero_and_not_in_slow_subnormal_numbers():
    n = 6000
    r, w, out, state = np.full(n, 0.95), np.zeros(n), np.zeros(n), np.empty(expsum.ROOM)
    w[0] = w[-1] = 1.0
    expsum.add_sums(r, w, expsum.SIGMOID, 1.0, out, state)
    left = np.abs(state[:24])
    assert (left == 0.0).any()
    assert not ((left > 0.0) & (left < np.finfo(float).tiny)).any()


def test_the_curvature_of_a_hinge_is_a_little_more_than_the_tightest_bound():
    u = np.concatenate([np.linspace(1e-3, 60, 50_000), np.geomspace(60, 1e6, 1000)])
    root = np.exp(-u * CURVATURE_RATE)
    ratio = (np.polynomial.polynomial.polyval(root, (CURVATURE_FAR, *CURVATURE))) / (
        np.tanh(u / 2) / (2 * u)
    )
    assert ratio.min() >= 1.0
    assert ratio[u <= 60].max() <= 1.165


@every_smooth_objective
def test_one_list_by_two_ways(spec):
    rng = np.random.default_rng(1)
    query, scores = make_query(rng.integers(0, 3, 40)), 3 * rng.normal(size=40)
    scores[10:14] = scores[9]
    for values in cases(spec, combinations=2):
        loss, grad, hess = evaluate(spec, query, scores, values | {"sums": "direct"})
        fast_loss, g, h = evaluate(spec, query, scores, values | {"sums": "fast"})
        assert fast_loss == pytest.approx(loss, rel=1e-5)
        close(g, grad, 1e-5, f"gradient {values}")
        close(h, hess, 1e-5, f"hessian {values}")


@st.composite
def long_queries(draw):
    """Lists beyond the length at which kernels switch: spread, tied, in far clusters, with one
    relevant document.
    """
    n = draw(st.sampled_from([32, 48, 64, 100, 256, 300, 768]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from(["spread", "wide", "tied", "clusters", "equal"]))
    scores = make_scores(shape, n, rng)
    labels = rng.integers(0, draw(st.sampled_from([2, 5, 32])), n)
    if draw(st.booleans()):
        labels = np.where(np.arange(n) == rng.integers(n), 3, 0)
    if draw(st.booleans()):
        scores = scores + labels * draw(st.sampled_from([-1.0, 0.5, 20.0]))
    gain = "linear" if draw(st.booleans()) else "exponential"
    return make_query(labels, gain), scores


# How far a sum may be off, of its largest number; and, where documents stand so far apart that all
# derivatives vanish, of a loss of size 1.
TOLERANCE, NOISE = 1e-5, 1e-7


@every_smooth_objective
@given(long_queries(), st.integers(0, 10**6))
@settings(max_examples=30)
def test_fast_sums_equal_the_direct_loop(spec, example, pick):
    query, scores = example
    # Sinkhorn's sums are direct ones, and of short lists only.
    variants = [values for values in cases(spec) if values.get("ranks") != "sinkhorn"]
    values = variants[pick % len(variants)]
    loss, grad, hess = evaluate(spec, query, scores, values | {"sums": "direct"})
    fast_loss, g, h = evaluate(spec, query, scores, values | {"sums": "fast"})
    assert abs(fast_loss - loss) <= TOLERANCE * max(1.0, abs(loss)), values
    close(g, grad, TOLERANCE, f"gradient {values}", NOISE)
    close(h, hess, TOLERANCE, f"hessian {values}", NOISE)
    assert (h >= 0.0).all()


@every_smooth_objective
def test_tied_documents_of_equal_gain_get_the_same(spec):
    query, scores = make_query(np.repeat([3, 0, 1, 0], 40)), np.repeat([0.0, 1.0, 1.0, -2.0], 40)
    _, grad, hess = evaluate(spec, query, scores, {p.name: p.default for p in spec.params})
    if not spec.random and spec.name not in (
        "smooth-ndcg",
        "lambdaloss",
    ):  # ties take different ranks, or noise
        for block in np.split(np.arange(160), 4):
            assert np.ptp(grad[block]) <= 1e-12 * np.abs(grad).max()
            assert np.ptp(hess[block]) <= 1e-12 * np.abs(hess).max()


def test_factors_between_neighbours_begin_with_none():
    s, r = np.array([3.0, 3.0, 1.0, -900.0]), np.full(4, np.nan)
    expsum.decays(s, 2.0, r)
    assert r == pytest.approx([0.0, 1.0, np.exp(-4.0), 0.0], rel=1e-14)
