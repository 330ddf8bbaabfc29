"""Kernel sums over one list in near-linear time: what lets every smooth objective rank lists of any length.

    S_i = sum_{j below i} w_j f(|s_i - s_j|)  +-  sum_{j above i} w_j f(|s_i - s_j|)      documents by descending score

Take f as a polynomial without constant term in t = exp(-rate |s_i - s_j|),

    f = sum_l c_l t^l,   E_l(i) = sum_{j above i} w_j t_ij^l = r_i^l (E_l(i-1) + w_{i-1}),
    r_i = exp(-rate (s_{i-1} - s_i))

so the sum over the documents above is sum_l c_l E_l(i): one pass down, one up for those below, one `exp` a document and
no pair anywhere. The same f stands on both sides, hence forces cancel to rounding and ties (r = 1) give the same sum to
every tied document; across a huge gap r is 0. Every r is at most 1, so nothing grows.

The functions of the sigmoid family are analytic on 0 <= t <= 1 with their nearest singularity at t = -1; f(t) / t is
interpolated at Chebyshev points that include both ends (`fit`), so f is exact at a tie and relatively right far away,
where it vanishes. Terms and largest relative error on 0 < t <= 1, which the tests measure again:

| function | with | `TRAINING`, 12 terms | `EXACT`, 16 terms |
|---|---|---|---|
| sigmoid(-x) | t / (1 + t) | 3e-9 | 3e-12 |
| its slope | t / (1 + t)^2 | 4e-8 | 5e-11 |
| softplus(-x) | ln(1 + t) | 3e-10 | 2e-13 |

Not every curve is such a polynomial, but whoever may choose one (a bound on a curvature) can choose one that is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from boostrank.core.params import Param
from boostrank.core.types import Float64Array
from boostrank.kernels.primitives import fast_exp
from boostrank.kernels.runtime.jit import inline
from boostrank.kernels.runtime.simd import advance

SUMS = Param(
    "sums",
    "fast",
    "how sums over pairs are taken: fast (to about 1e-7; the engines take float32), exact (to about 1e-10) or direct "
    "(pair by pair, the reference: its time grows with the square of the list)",
    choices=("fast", "exact", "direct"),
)
"""Shared by the objectives with sums over pairs."""
EXACT, DIRECT = 1, 2

# Smaller factors between neighbours count as 0: their 16th power would leave what a double resolves at full speed.
NOTHING = 1e-18
# Below this a running sum is nothing, and the processor slows down a hundredfold on what comes after it. A sum gets
# there over many documents of weight 0 only, so a look every so many is enough.
FADED = 1e-290
LOOK = 64


def fit(function: Callable[[Float64Array], Float64Array], terms: int) -> tuple[float, ...]:
    """Coefficients c_1, c_2, ... of f(t) = sum_l c_l t^l on 0 <= t <= 1, f(0) = 0.

    Args:
        function: f(t) / t, defined at 0 too.
        terms: how many coefficients.
    """
    nodes = 0.5 + 0.5 * np.cos(np.pi * np.arange(terms) / (terms - 1))
    series = Chebyshev.fit(nodes, function(nodes), terms - 1, domain=[0.0, 1.0])
    return tuple(float(c) for c in series.convert(domain=[-1.0, 1.0], kind=Polynomial).coef)


def sigmoid_over_t(t: Float64Array) -> Float64Array:
    """f(t) / t of the sigmoid."""
    return 1.0 / (1.0 + t)


def slope_over_t(t: Float64Array) -> Float64Array:
    """f(t) / t of the sigmoid's slope."""
    return 1.0 / (1.0 + t) ** 2


def softplus_over_t(t: Float64Array) -> Float64Array:
    """f(t) / t of ln(1 + t)."""
    return np.where(t > 0.0, np.log1p(t) / np.where(t > 0.0, t, 1.0), 1.0)


SIGMOID, SIGMOID_EXACT = fit(sigmoid_over_t, 12), fit(sigmoid_over_t, 16)
SLOPE, SLOPE_EXACT = fit(slope_over_t, 12), fit(slope_over_t, 16)
SOFTPLUS, SOFTPLUS_EXACT = fit(softplus_over_t, 12), fit(softplus_over_t, 16)

ROOM = 32
"""How many numbers `add_sums` needs as `state`."""


@inline
def decays(s: Float64Array, rate: float, r: Float64Array) -> None:
    """r_i = exp(-rate (s_{i-1} - s_i)), r_0 = 0.

    Args:
        s: float64[n], descending.
        rate: 1 / score.
        r: float64[n], written.
    """
    r[0] = 0.0
    for i in range(1, s.shape[0]):
        e = fast_exp(max(rate * (s[i] - s[i - 1]), -700.0))
        r[i] = 0.0 if e < NOTHING else e


@inline
def forget(state: Float64Array, slots: int) -> None:
    """Set running sums that are nothing any more to 0."""
    for slot in range(slots):
        state[slot] = 0.0 if abs(state[slot]) < FADED else state[slot]


@inline
def add_sums(
    r: Float64Array,
    w: Float64Array,
    coefficients: tuple[float, ...],
    above: float,
    below: float,
    out: Float64Array,
    state: Float64Array,
) -> None:
    """Add above * sum_{j above i} w_j f_ij + below * sum_{j below i} w_j f_ij to every out_i.

    Args:
        r: float64[n], from `decays`.
        w: float64[n].
        coefficients: of f, an even number of at most 16, which is part of the type.
        above, below: factors of the two sides: 1 and 1 make f an even function of the difference, -1 and 1 an odd one.
        out: float64[n].
        state: float64[ROOM], overwritten.
    """
    n, slots = r.shape[0], 2 * len(coefficients)
    state[:slots] = 0.0
    # Both passes in one loop: they do not wait for each other.
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, slots)
        j = n - i
        down, up = advance(state, (coefficients,), (r[i], r[j]), (w[i - 1], w[j]))
        out[i] += above * down
        out[j - 1] += below * up


@inline
def add_odd_and_even(
    r: Float64Array,
    w: Float64Array,
    odd: tuple[float, ...],
    even: tuple[float, ...],
    out_odd: Float64Array,
    out_even: Float64Array,
    state: Float64Array,
) -> None:
    """`add_sums` of two functions in one go: `odd` with -1 above, `even` with 1, both with 1 below."""
    n, slots = r.shape[0], 2 * len(odd)
    state[:slots] = 0.0
    for i in range(1, n):
        if i % LOOK == 0:
            forget(state, slots)
        j = n - i
        odd_down, odd_up, even_down, even_up = advance(state, (odd, even), (r[i], r[j]), (w[i - 1], w[j]))
        out_odd[i] -= odd_down
        out_odd[j - 1] += odd_up
        out_even[i] += even_down
        out_even[j - 1] += even_up


@inline
def add_sigmoids(
    sums: int, r: Float64Array, w: Float64Array, above: float, below: float, out: Float64Array, state: Float64Array
) -> None:
    """`add_sums` of sigmoid(-x) to the tolerance of `sums`, a position in `SUMS`."""
    if sums == EXACT:
        add_sums(r, w, SIGMOID_EXACT, above, below, out, state)
    else:
        add_sums(r, w, SIGMOID, above, below, out, state)


@inline
def add_slopes(
    sums: int, r: Float64Array, w: Float64Array, above: float, below: float, out: Float64Array, state: Float64Array
) -> None:
    """`add_sums` of the sigmoid's slope, as `add_sigmoids`."""
    if sums == EXACT:
        add_sums(r, w, SLOPE_EXACT, above, below, out, state)
    else:
        add_sums(r, w, SLOPE, above, below, out, state)


@inline
def add_softplus(sums: int, r: Float64Array, w: Float64Array, out: Float64Array, state: Float64Array) -> None:
    """`add_sums` of softplus(-x) on both sides, as `add_sigmoids`."""
    if sums == EXACT:
        add_sums(r, w, SOFTPLUS_EXACT, 1.0, 1.0, out, state)
    else:
        add_sums(r, w, SOFTPLUS, 1.0, 1.0, out, state)
