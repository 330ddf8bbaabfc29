"""Metrics, one file each. `METRICS` discovers them."""

from boostrank.core.params import Registry
from boostrank.kernels.metric import MetricSpec

METRICS: Registry[MetricSpec] = Registry("boostrank.metrics", "metric")
