"""Views of a ranker on data: what it is worth, what it rests on, how it differs from another. Nothing here trains.

Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.report.comparison import Comparison, compare
    from boostrank.report.importances import Importance, importance
    from boostrank.report.pairs import Why, why
    from boostrank.report.reports import Report, report

_HOMES = {
    "Comparison": "comparison",
    "Importance": "importances",
    "Report": "reports",
    "Why": "pairs",
    "compare": "comparison",
    "importance": "importances",
    "report": "reports",
    "why": "pairs",
}
_MODULES = ("metrics", "noise", "shapes", "target")

__all__ = ["Comparison", "Importance", "Report", "Why", "compare", "importance", "report", "why"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"boostrank.report.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"boostrank.report.{name}")
    raise AttributeError(f"module 'boostrank.report' has no attribute {name!r}")
