"""Ranking data: the libsvm reader, the data set, the generator, the tools for files."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "tools":
        return import_module("boostrank.data.tools")
    raise AttributeError(f"module 'boostrank.data' has no attribute {name!r}")
