"""A target with a fault of every kind, for the test of what runs targets."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hypothesis import strategies as st

cases = st.fixed_dictionaries({"number": st.integers(0, 9)})


def check(number: int) -> None:
    if number == 3:
        raise ValueError("three")
    if number == 5 and _is_first("signal"):
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 7 and _is_first("hang"):
        time.sleep(600)
    if number == 9 and _is_first("memory"):
        _ = b"x" * (400 << 20)


def _is_first(kind: str) -> bool:
    """Each way to die once, so that a run meets them all."""
    try:
        Path(kind).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
