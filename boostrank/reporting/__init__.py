"""Reports that evaluate, explain and compare rankers. Only `noise` and `objectives` train models.

Members are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.reporting.comparison import Comparison, compare
    from boostrank.reporting.evaluation import evaluate
    from boostrank.reporting.explanation import Why, why
    from boostrank.reporting.noise import measure_noise
    from boostrank.reporting.objectives import ObjectiveComparison, compare_objectives
    from boostrank.reporting.page import Report, report
    from boostrank.reporting.sections.importance import Importance, importance

_NAMES = {
    "comparison": "Comparison compare",
    "evaluation": "evaluate",
    "explanation": "Why why",
    "noise": "measure_noise",
    "objectives": "ObjectiveComparison compare_objectives",
    "page": "Report report",
    "sections.importance": "Importance importance",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Comparison",
    "Importance",
    "ObjectiveComparison",
    "Report",
    "Why",
    "compare",
    "compare_objectives",
    "evaluate",
    "importance",
    "measure_noise",
    "report",
    "why",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
