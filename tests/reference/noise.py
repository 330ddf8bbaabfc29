"""The hash of `boostrank.kernels.primitives`, once more in Python's own whole numbers."""

import math

import numpy as np

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def _mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def round_seed(seed, round):
    return _mix((seed * _GAMMA + round + 1) & _MASK) >> 11


def uniforms(seed, stream, count):
    """The first numbers of a stream."""
    key = _mix(_mix((int(seed) + _GAMMA) & _MASK) + (stream + 1) * _GAMMA & _MASK)
    bits = [_mix(key + (i + 1) * _GAMMA & _MASK) >> 12 for i in range(count)]
    return np.array([(b + 0.5) / 2**52 for b in bits])


def logistics(seed, stream, count):
    u = uniforms(seed, stream, count)
    return np.log(u / (1 - u))


def normals(seed, stream, count):
    u = uniforms(seed, stream, 2 * count)
    return np.sqrt(-2 * np.log(u[::2])) * np.cos(2 * math.pi * u[1::2])
