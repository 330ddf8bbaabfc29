"""The process of a command: quick imports, standard streams, and Ctrl-C."""

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


_INTERRUPTED = 130
ONE_PRESS_SECONDS = 0.3
"""Wrappers such as `uv run` pass on the signal that the terminal has already sent: within these that is one press."""
_PATIENCE = 2.0  # seconds that a press may go unheard before a line says so, and that leaving may take
_heard = threading.Event()  # Ctrl-C, by Python code
_IMPORTING = "<frozen importlib._bootstrap>"


def stop_quietly() -> None:
    """Have Ctrl-C leave at once while modules are imported; elsewhere it is a `KeyboardInterrupt` as ever.

    An import may swallow the exception, or make another error of it.
    """

    def interrupted(number: int, frame: Any) -> None:
        _heard.set()
        while frame is not None:
            if frame.f_code.co_filename == _IMPORTING:
                _say("stopped")
                os._exit(_INTERRUPTED)
            frame = frame.f_back
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else nobody shall stop it: a job's `&`
        signal.signal(signal.SIGINT, interrupted)


def hear_signals(hear: Callable[[int], None]) -> Callable[[], None]:
    """Have a thread call `hear` with the number of each signal, also while compiled code runs.

    Python runs its signal handlers between bytecodes, and compiled code can take minutes. The wake-up pipe tells at
    once.

    Returns:
        A function that ends this, once all signals so far were heard.
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
    """Have a second Ctrl-C leave at once; a line says so if the first one is not heard in Python."""
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
    """Leave with this status once the interpreter has ended, but no later than in two seconds: it waits for threads,
    and they for compiled code."""
    _soon(os._exit, status)


def _say(words: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"boostrank: {words}\n")
        sys.stderr.flush()


def take_over_streams() -> None:
    """Make the standard streams of this process those of a command, whatever it was started with.

    A descriptor of 0 to 2 that is closed would be that of the next file to be opened, which words would then be written
    into. As in gnulib's `stdopen` it is opened the wrong way round, so that reading and writing still fail; words about
    the work alone go nowhere.
    """
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest that is free, which is this one
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    if os.name != "nt":  # whose consoles take no bytes
        sys.stdout = _text(Results(1, "wb", closefd=False), sys.stdout)
        sys.stderr = _text(Messages(2, "wb", closefd=False), sys.stderr)


class Results(io.FileIO):
    """Standard output: what cannot be written is told with its name, which an `OSError` of it has not."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise TrainingError(f"standard output: could not be written: {reason}; a part may be missing") from error


class Messages(io.FileIO):
    """Standard error: where nobody takes the words, the work goes on without them."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """A text stream as the interpreter has made it, over another one of bytes."""
    if before is None:  # it was closed
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        before.encoding,
        before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
