"""Views of a ranker on data: what it is worth, what it rests on, how it differs from another. Nothing here trains.

Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.report.comparison import Comparison, compare
    from boostrank.report.importances import Importance, importance

_HOMES = {
    "Comparison": "comparison",
    "Importance": "importances",
    "compare": "comparison",
    "importance": "importances",
}
_MODULES = ("metrics", "noise", "target")

__all__ = ["Comparison", "Importance", "compare", "importance"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"boostrank.report.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"boostrank.report.{name}")
    raise AttributeError(f"module 'boostrank.report' has no attribute {name!r}")
