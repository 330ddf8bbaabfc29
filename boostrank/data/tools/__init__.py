"""File tools that never cut a query: split, sample, shard, sort and merge."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.data.tools.file_tools import Written, merge, sample, shard, sort, split

__all__ = ["Written", "merge", "sample", "shard", "sort", "split"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("boostrank.data.tools.file_tools"), name)
    raise AttributeError(f"module 'boostrank.data.tools' has no attribute {name!r}")
