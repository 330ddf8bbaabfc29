"""vl-convert in a process of its own.

Its engine, V8, asks the system for 64 GB of addresses, and ends the process where it does not get them (`ulimit -v`) or
was forked from one that has drawn before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from boostrank.core.errors import TrainingError

Call = tuple[str, dict[str, Any]]
"""A function of vl-convert, and its arguments, which JSON can hold."""

_CHILD = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request["path"]
import vl_convert
made = [getattr(vl_convert, name)(**arguments) for name, arguments in request["calls"]]
json.dump([one if isinstance(one, str) else one.hex() for one in made], sys.stdout)
"""

_OWN_END = (signal.SIGTRAP, signal.SIGABRT, signal.SIGILL, signal.SIGSEGV) if os.name != "nt" else ()
_NO_ADDRESSES = "it asks for 64 GB of addresses, of which it uses little: draw without a limit on them (ulimit -v)"


def converted(calls: Sequence[Call]) -> list[str]:
    """What vl-convert makes of each call; bytes as hexadecimal digits.

    Args:
        calls: in the order in which they are made.

    Raises:
        TrainingError: it cannot be started, or did not come to its end.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise TrainingError("charts are drawn by a Python of their own, and this program names none to start")
    request = json.dumps({"path": [os.path.abspath(folder) for folder in sys.path], "calls": calls})
    try:  # -P: what lies in the current folder is not to be imported
        done = subprocess.run([sys.executable, "-P", "-c", _CHILD], input=request.encode(), capture_output=True)
    except OSError as error:
        raise TrainingError(f"charts are drawn by a process that cannot be started: {error.strerror}") from error
    if done.returncode < 0:
        mend = _NO_ADDRESSES if -done.returncode in _OWN_END else "is memory short?"
        raise TrainingError(f"the process that draws charts was ended by {_signal(-done.returncode)}: {mend}")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TrainingError(f"the chart cannot be drawn: {last}")
    made: list[str] = json.loads(done.stdout)
    return made


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
