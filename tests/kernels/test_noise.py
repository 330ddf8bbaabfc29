"""Noise by hash: the published generator, the twin, and the moments of the distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from boostrank.kernels import primitives as noise
from boostrank.kernels.jit import inline
from tests.reference import noise as twin


@inline
def fill(draw, seed, stream, out):
    for i in range(out.size):
        out[i] = draw(seed, stream, i)


def drawn(draw, count, seed=7.0, stream=3):
    out = np.empty(count)
    fill(draw, seed, stream, out)
    return out


def test_the_mixer_is_splitmix64():
    # The first three outputs of the authors' generator started at 1234567.
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        outputs.append(int(noise._mix(np.uint64(state))))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize(("seed", "stream"), [(0.0, 0), (1.0, 0), (0.0, 1), (2.0**53 - 1, 10**7)])
def test_draws_are_those_of_the_twin(seed, stream):
    assert np.array_equal(drawn(noise.uniform, 50, seed, stream), twin.uniforms(seed, stream, 50))
    assert drawn(noise.logistic, 50, seed, stream) == pytest.approx(
        twin.logistics(seed, stream, 50), rel=1e-12
    )
    assert drawn(noise.normal, 50, seed, stream) == pytest.approx(
        twin.normals(seed, stream, 50), rel=1e-12
    )


@pytest.mark.parametrize("draw", [noise.uniform, noise.gumbel, noise.logistic, noise.normal])
def test_draws_follow_their_distribution(draw):
    distributions = {
        "uniform": stats.uniform,
        "gumbel": stats.gumbel_r,
        "logistic": stats.logistic,
        "normal": stats.norm,
    }
    sample = drawn(draw, 20_000)
    assert stats.kstest(sample, distributions[draw.__name__].cdf).pvalue > 0.01
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 0.02


def test_streams_seeds_and_rounds_are_unrelated():
    base = drawn(noise.uniform, 20_000, 0.0, 0)
    for other in (drawn(noise.uniform, 20_000, 1.0, 0), drawn(noise.uniform, 20_000, 0.0, 1)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.02
    across = np.array([drawn(noise.uniform, 1, 0.0, q)[0] for q in range(2000)])
    assert stats.kstest(across, stats.uniform.cdf).pvalue > 0.01


def test_round_seeds_are_distinct_whole_numbers_that_a_double_holds():
    seeds = {noise.round_seed(seed, round) for seed in range(40) for round in range(500)}
    assert len(seeds) == 20_000
    assert all(0 <= s < 2**53 and s == int(s) for s in seeds)
    assert noise.round_seed(3, 14) == twin.round_seed(3, 14)
