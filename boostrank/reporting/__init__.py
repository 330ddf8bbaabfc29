"""Reports that evaluate, explain and compare rankers. Only `studies` trains models.

Members are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from boostrank.core.lazy import modules_of_names

_MODULES = modules_of_names(__file__)
__all__ = sorted(_MODULES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
