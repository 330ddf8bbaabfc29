"""Imports without what takes time: packages that importers take along where they find them, and that nothing here
needs; and the search for garbage among what stays. Both change a process for good, and leave any but our own alone.
And imports of what Python's options break.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from boostrank.core.errors import MissingDependency

own_process = False
"""Whether this process is the command line's alone, which says so when it starts."""


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """In the block, packages that are not imported yet count as not installed: what is imported does without them.

    It does so for good.
    """
    absent = [name for name in packages if own_process and name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # then Python looks no further
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


@contextmanager
def uncollected() -> Iterator[None]:
    """In the block nobody looks for garbage, and never again among what is there at its end.

    Modules that are imported are none, and looking through them, at the end of a process too, takes a third of a short
    one's time. Their cycles stay for good.
    """
    if not own_process:
        yield
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@contextmanager
def with_docstrings(what: str) -> Iterator[None]:
    """In the block, a package that looks into its docstrings is imported.

    Args:
        what: cannot be had without it.

    Raises:
        MissingDependency: Python runs without docstrings.
    """
    try:
        yield
    except AttributeError as error:
        if sys.flags.optimize < 2:
            raise
        words = "docstrings: Python must not run with -OO or PYTHONOPTIMIZE=2"
        raise MissingDependency(f"{what} cannot be loaded without {words}") from error
