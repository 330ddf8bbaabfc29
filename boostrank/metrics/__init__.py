"""The metrics, each in a file of its own, which `METRICS` discovers."""

from boostrank.core.params import Registry
from boostrank.kernels.metric import MetricSpec

METRICS: Registry[MetricSpec] = Registry("boostrank.metrics", "metric")
