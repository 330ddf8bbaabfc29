"""Parameter search, with an estimate of the share of the gain that may be luck."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.tuning.search import Trial, TuningResult, tune
    from boostrank.tuning.space import Choice, Span

_HOMES = {"Choice": "space", "Span": "space", "Trial": "search", "TuningResult": "search", "tune": "search"}

__all__ = ["Choice", "Span", "Trial", "TuningResult", "tune"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"boostrank.tuning.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'boostrank.tuning' has no attribute {name!r}")
