"""One file a metric. `METRICS` finds them; nothing else lists them."""

from boostrank.core.registry import Registry
from boostrank.kernels.metric.contract import MetricSpec

METRICS: Registry[MetricSpec] = Registry("boostrank.metrics", "metric")
