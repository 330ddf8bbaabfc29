"""Imports without the packages that importers take along where they find them, and that nothing here needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """In the block, packages that are not imported yet count as not installed: what is imported does without them.

    It does so for good: this is for a process of our own.
    """
    absent = [name for name in packages if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # then Python looks no further
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)
