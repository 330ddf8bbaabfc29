"""Views of a ranker on data: what it is worth, what it rests on, how it differs from another. Nothing here trains.

Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.report.comparison.analysis import Comparison, compare
    from boostrank.report.explanation.analysis import Why, why
    from boostrank.report.feature_importance.analysis import Importance, importance
    from boostrank.report.page import Report, report

_HOMES = {
    "Comparison": "comparison.analysis",
    "Importance": "feature_importance.analysis",
    "Report": "page",
    "Why": "explanation.analysis",
    "compare": "comparison.analysis",
    "importance": "feature_importance.analysis",
    "report": "page",
    "why": "explanation.analysis",
}
_MODULES = ("conventions", "noise", "shapes")

__all__ = ["Comparison", "Importance", "Report", "Why", "compare", "importance", "report", "why"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"boostrank.report.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"boostrank.report.{name}")
    raise AttributeError(f"module 'boostrank.report' has no attribute {name!r}")
