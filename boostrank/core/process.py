"""Process-wide settings of a command: fast imports, standard streams, and Ctrl-C."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from boostrank.core.errors import MissingDependency, TrainingError

own_process = False
"""True in the process of the command line, which sets it at start-up."""


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """Treat packages that are not imported yet as not installed, for modules imported in the block.

    Those modules run without the packages from then on.
    """
    absent = [name for name in packages if own_process and name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # makes `import name` fail at once
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector in the block, then freeze all existing objects.

    Imported modules contain no garbage, and scanning them takes a third of the run time of a short command. Reference
    cycles created in the block are never freed.
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
    """Import a package that needs its docstrings in the block.

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


_INTERRUPTED = 130
ONE_PRESS_SECONDS = 0.3
"""Signals within this time are one key press: wrappers such as `uv run` repeat the terminal's signal."""
_PATIENCE = 2.0  # seconds until an unhandled Ctrl-C is reported, and that leaving may take
_heard = threading.Event()  # set once Python code has handled Ctrl-C
_IMPORTING = "<frozen importlib._bootstrap>"


def stop_quietly() -> None:
    """Exit at once on Ctrl-C during an import; raise `KeyboardInterrupt` as usual elsewhere.

    An import may swallow the exception or turn it into another error.
    """

    def interrupted(number: int, frame: Any) -> None:
        _heard.set()
        while frame is not None:
            if frame.f_code.co_filename == _IMPORTING:
                _say("stopped")
                os._exit(_INTERRUPTED)
            frame = frame.f_back
        raise KeyboardInterrupt

    # Background jobs (`&`) ignore the signal; leave that as it is.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)


def hear_signals(hear: Callable[[int], None]) -> Callable[[], None]:
    """Call `hear` with the number of each signal in a thread, even while compiled code runs.

    Python runs signal handlers between bytecodes, and compiled code can take minutes. The wake-up file descriptor
    receives signals at once.

    Returns:
        A function that stops the thread after all pending signals.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def listen() -> None:
        while byte := os.read(reader, 1):
            hear(byte[0])

    def stop() -> None:
        signal.set_wakeup_fd(before)
        os.close(writer)
        listener.join()
        os.close(reader)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    return stop


def leave_at_second_press() -> None:
    """Exit at once on a second Ctrl-C; print a line if Python has not handled the first one."""
    pressed: list[float] = []

    def hear(number: int) -> None:
        if number != signal.SIGINT:
            return
        pressed.append(time.monotonic())
        if len(pressed) == 1:
            _soon(_say_what_is_awaited)
        elif pressed[-1] - pressed[0] > ONE_PRESS_SECONDS:
            _say("stopped at once")
            os._exit(_INTERRUPTED)

    hear_signals(hear)


def _say_what_is_awaited() -> None:
    if not _heard.is_set():
        _say("stopping as soon as compiled code returns (Ctrl-C once more: at once)")


def _soon(work: Callable[..., object], *arguments: Any) -> None:
    timer = threading.Timer(_PATIENCE, work, arguments)
    timer.daemon = True
    timer.start()


def leave_soon(status: int) -> None:
    """Exit with this status when the interpreter has shut down, or after two seconds.

    The interpreter waits for threads, and threads may wait for compiled code.
    """
    _soon(os._exit, status)


def _say(words: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"boostrank: {words}\n")
        sys.stderr.flush()


def take_over_streams() -> None:
    """Prepare the standard streams of a command, including those that were closed at start-up.

    A closed descriptor 0, 1 or 2 would be reused by the next file opened, and messages would be written into that file.
    As in gnulib's `stdopen`, it is opened in the wrong direction, so reading and writing still fail.
    """
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # takes the lowest free descriptor: this one
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    if os.name != "nt":  # Windows consoles take no bytes
        sys.stdout = _text(Results(1, "wb", closefd=False), sys.stdout)
        sys.stderr = _text(Messages(2, "wb", closefd=False), sys.stderr)


class Results(io.FileIO):
    """Standard output: write errors name the stream, which a plain `OSError` does not."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise TrainingError(f"standard output: could not be written: {reason}; a part may be missing") from error


class Messages(io.FileIO):
    """Standard error: write errors are ignored, and the work continues."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """Wrap a byte stream as text, with the settings of the stream it replaces."""
    if before is None:  # it was closed
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        before.encoding,
        before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
