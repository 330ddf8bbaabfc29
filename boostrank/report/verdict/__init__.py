"""Verdict: how good a ranker is beside rankings that cost nothing."""

from boostrank.core.deprecation import renamed

_MOVED = "METRICS Verdict conventions_for verdict"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.report.verdict.analysis"))
