"""Comparison of two rankers, query by query, and the release gate."""

from boostrank.core.deprecation import renamed

_MOVED = "Comparison Outcome RESAMPLES Regression TIE compare"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.report.comparison.analysis"))
