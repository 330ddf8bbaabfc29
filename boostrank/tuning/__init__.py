"""Parameter search, with an estimate of how much of the improvement may be due to chance."""

from __future__ import annotations

from boostrank.tuning.search import Trial, TuningResult, tune
from boostrank.tuning.space import Choice, Span

__all__ = ["Choice", "Span", "Trial", "TuningResult", "tune"]
