"""Hinges by sums and by pairs on lists too short for the kernels to switch: run uncompiled, with
planted faults.

Compiled, the functions are half a minute's work of their own; there `test_expsum` sees them through
the kernels.
"""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.kernels.hinge_ranks import (
    IWORK,
    WORK,
    fast_hinge_gradient,
    fast_hinge_ranks,
    hinge_gradient,
    hinge_ranks,
)
from tests.objectives.conformance import close


@pytest.mark.parametrize("grades", [6, 15])
def test_hinges_by_sums_equal_hinges_by_pairs(grades):
    rng = np.random.default_rng(3)
    n, alpha = 40, 1 / 0.6
    s, gains = (
        np.sort(rng.choice([-1e4, 1e4, *rng.normal(size=n)], n))[::-1].copy(),
        rng.choice([0.0, 0.5, 1, 3, 7, 8, *range(9, 18)][:grades], n),
    )
    slope = -rng.random(n) * gains
    ranks, grad, hess = np.zeros(n), np.zeros(n), np.zeros(n)
    hinge_ranks(s, gains, alpha, ranks, np.empty(n), np.empty(n))
    hinge_gradient(s, gains, alpha, slope, grad, hess, np.empty(n))
    fast_ranks, g, h = np.zeros(n), np.zeros(n), np.zeros(n)
    work, iwork = np.full(WORK * n, np.nan), np.full(IWORK * n, -(2**62))
    fast_hinge_ranks(s, gains, alpha, fast_ranks, work, iwork)
    fast_hinge_gradient(alpha, slope, g, h, work, iwork)
    assert fast_ranks == pytest.approx(ranks, rel=1e-7)
    close(g, grad, 1e-6, "gradient")
    close(h, hess, 1e-6, "hessian")
