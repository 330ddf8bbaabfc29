"""SoftRank's three sweeps on a list just long enough for them, against the twin's rank
distributions.
"""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.kernels.soft_ranks import WAVES, _write_decays
from boostrank.objectives.soft_ndcg import SPEC
from tests.objectives.conformance import close, evaluate, make_query
from tests.reference import soft_ndcg as twin


def example():
    rng = np.random.default_rng(1)
    scores = 1.5 * rng.normal(size=41)
    scores[5:9] = scores[4]
    scores[11] = -300.0
    return make_query(rng.integers(0, 4, 41)), scores


@pytest.mark.parametrize("ranks", ["binomial", "normal"])
@pytest.mark.parametrize("blend", [0.35, 0.0])
def test_sweeps_equal_the_rank_distributions(ranks, blend):
    query, scores = example()
    values = {
        "sigma": 0.7,
        "train_discount": blend,
        "ranks": ranks,
        "sums": "fast",
        "normalize": "ideal",
    }
    values["sweeps"] = 10
    loss, grad, hess = evaluate(SPEC, query, scores, values)
    tolerance = 1e-6
    assert abs(loss - twin.loss(query, scores, values, None)) < tolerance
    close(grad, twin.gradient(query, scores, values), tolerance, "gradient")
    close(hess, twin.hessian(query, scores, values), tolerance, "hessian")


@pytest.mark.parametrize("gap", [0.0, 1e-9, 0.004, 1 / 128, 0.009, 0.3, 2.0, 39.0, 40.0, 1e300])
def test_waves_decay_over_a_gap_with_thirteen_digits(gap):
    decay = np.full(WAVES.size, np.nan)
    _write_decays(gap, decay)
    expected = np.exp(-gap * (WAVES[0] + 1j * WAVES[1]))
    # Every squaring doubles what is off, and less than 1e-27 is nothing.
    off = 1e-13 * max(1.0, 128.0 * gap) * np.abs(expected) + 1e-27
    assert (np.abs(decay[: expected.size] + 1j * decay[expected.size :] - expected) < off).all()
