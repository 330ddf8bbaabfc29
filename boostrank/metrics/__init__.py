"""Metrics of a ranking, and their conventions. Each metric is a file of this folder."""

from boostrank.core.conventions import Conventions
from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.metrics.measure import BoundMetrics, Metric, MetricResult, evaluate

__all__ = [
    "BoundMetrics",
    "Conventions",
    "Metric",
    "MetricResult",
    "PairedDifference",
    "evaluate",
    "paired_difference",
]
