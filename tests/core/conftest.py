"""Calls to the operating system that fail."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from boostrank.core import files

CALLS = ("stat", "open", "write", "chmod", "fsync", "close", "replace")


def fail_call(monkeypatch: pytest.MonkeyPatch, number: int, error: int = errno.ENOSPC) -> list[str]:
    """Let the numbered call (from 0) to the operating system fail; the list fills with the names of
    the calls.

    Those of other threads, and of finalisers that happen to run meanwhile, go through and do not
    count.
    """
    calls: list[str] = []
    thread = threading.get_ident()

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if (
                threading.get_ident() != thread
                or sys._getframe(1).f_globals["__name__"] != files.__name__
            ):
                return real(*args, **kwargs)
            calls.append(name)
            if len(calls) == number + 1:
                if name == "close":  # the descriptor is gone even when close reports an error
                    real(*args, **kwargs)
                raise OSError(error, os.strerror(error))
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, failing(name, getattr(os, name)))
    return calls
