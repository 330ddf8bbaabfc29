"""Noise: what luck alone does to a metric."""

from boostrank.core.deprecation import renamed

_MOVED = "NoiseReport Spread expected_seconds measure_noise redrawn shuffled spread_of"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.report.noise.analysis"))
