"""Parameter search, with an estimate of the share of the gain that may be luck."""

from __future__ import annotations

from boostrank.tuning.search import Trial, TuningResult, tune
from boostrank.tuning.space import Choice, Span

__all__ = ["Choice", "Span", "Trial", "TuningResult", "tune"]
