"""Deprecated names: an old name still works, and warns."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a module whose names have changed.

    Args:
        module: its `__name__`.
        names: old name -> "package.module:name", or "package.module" where the name is the same there, or ":name" in
            the module itself; the name may be of a class's attribute ("RankingDataset.take").

    Returns:
        A function that gives the new object with a FutureWarning, and raises AttributeError for other names.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = names[name].partition(":")
        home, new = home or module, new or name
        warnings.warn(f"{module}.{name} is now {home}.{new}; the old name will go", FutureWarning, stacklevel=2)
        return attrgetter(new)(importlib.import_module(home))

    return get


def renamed_attributes(names: Mapping[str, str]) -> Callable[[Any, str], Any]:
    """A `__getattr__` for a class whose attributes have changed names: old name -> new name."""

    def get(self: Any, name: str) -> Any:
        kind = type(self).__name__
        if name not in names:
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        warnings.warn(f"{kind}.{name} is now {kind}.{names[name]}; the old name will go", FutureWarning, stacklevel=2)
        return getattr(self, names[name])

    return get
