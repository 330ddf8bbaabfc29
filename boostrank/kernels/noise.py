"""Random numbers from a hash of their use, without a generator's state.

Number `index` of `stream` under `seed` is a pure function of the three, so any order of queries and any number of
threads gives the same draws. It is element `index` of the SplitMix64 sequence (Steele, Lea, Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014) that starts at a hash of seed and stream.

`round_seed` gives the seed of a round; the stream is the query; the index counts the documents of one draw after
another, by descending score. Noise tied to that order is as independent as noise tied to rows, and permuting the
documents of a query then permutes its kernel's outputs.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.params import Param
from boostrank.kernels.jit import inline

SEED = Param(
    "seed",
    0,
    "seed of the noise, which is new every round and does not depend on the number of threads",
    low=0,
    aliases=("random_state", "random_seed"),
)
"""Shared by the objectives that draw random numbers."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE, _HALF_UP, _THIRD_UP = np.uint64(1), np.uint64(30), np.uint64(27)
_LAST_UP, _KEPT = np.uint64(31), np.uint64(12)
_UNIT = 2.0**-52
_SEED_BITS = 53


@inline
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _HALF_UP)) * _FIRST
    z = (z ^ (z >> _THIRD_UP)) * _SECOND
    return z ^ (z >> _LAST_UP)


@inline
def uniform(seed: float, stream: int, index: int) -> float:
    """Return a number strictly between 0 and 1, symmetric about 1/2, in steps of 2^-52.

    Args:
        seed: integer from 0 to 2^53, as `round_seed` returns; a float64 holds it exactly.
        stream, index: >= 0.
    """
    key = _mix(_mix(np.uint64(np.int64(seed)) + _GAMMA) + (np.uint64(stream) + _ONE) * _GAMMA)
    return (float(_mix(key + (np.uint64(index) + _ONE) * _GAMMA) >> _KEPT) + 0.5) * _UNIT


@inline
def gumbel(seed: float, stream: int, index: int) -> float:
    """Return a standard Gumbel number, -ln(-ln u): mean 0.5772, variance pi^2 / 6."""
    return -math.log(-math.log(uniform(seed, stream, index)))


@inline
def logistic(seed: float, stream: int, index: int) -> float:
    """Return a standard logistic number, ln(u / (1 - u)): mean 0, variance pi^2 / 3."""
    u = uniform(seed, stream, index)
    return math.log(u) - math.log1p(-u)


@inline
def normal(seed: float, stream: int, index: int) -> float:
    """Return a standard normal number (Box and Muller, 1958), from the uniform numbers 2 index and 2 index + 1."""
    u, v = uniform(seed, stream, 2 * index), uniform(seed, stream, 2 * index + 1)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)


def round_seed(seed: int, round: int) -> float:
    """Return the seed of one round of training: 53 bits, which a kernel's float64 parameters can hold.

    Args:
        seed: the user's seed, >= 0.
        round: 0-based.
    """
    state = (seed * 0x9E3779B97F4A7C15 + round + 1) % 2**64
    for shift, factor in ((30, int(_FIRST)), (27, int(_SECOND))):
        state = (state ^ (state >> shift)) * factor % 2**64
    return float((state ^ (state >> 31)) >> (64 - _SEED_BITS))
