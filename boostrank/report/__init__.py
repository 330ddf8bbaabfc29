"""Reports that evaluate, explain and compare rankers. Only `noise` trains models.

Members are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.report.comparison import Comparison, compare
    from boostrank.report.explanation import Why, why
    from boostrank.report.noise import measure_noise
    from boostrank.report.page import Report, report
    from boostrank.report.sections.importance import Importance, importance

_NAMES = {
    "comparison": "Comparison compare",
    "explanation": "Why why",
    "noise": "measure_noise",
    "page": "Report report",
    "sections.importance": "Importance importance",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Comparison",
    "Importance",
    "Report",
    "Why",
    "compare",
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
