"""Noise: what luck alone does to a metric."""

from boostrank.core.deprecation import renamed

_MOVED = "NoiseReport SOURCES Spread expected_seconds measure_noise spread_of"
_METHODS = {name: f"boostrank.data.dataset:RankingDataset.{name}" for name in ("redrawn", "shuffled")}
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.report.noise.analysis") | _METHODS)
