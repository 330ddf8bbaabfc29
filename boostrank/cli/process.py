"""The process of the command line: Ctrl-C, and standard streams that may be closed or full."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import click

from boostrank.core.errors import TrainingError

_INTERRUPTED = 130
ONE_PRESS_SECONDS = 0.3
"""Time within which signals are treated as one key press, as wrappers such as `uv run` repeat the
terminal's signal.
"""
_PATIENCE = 2.0  # seconds until the process exits without waiting for threads
_IMPORTING = "<frozen importlib._bootstrap>"


def exit_at_interrupted_imports() -> None:
    """Exit at once on Ctrl-C during an import, which may suppress `KeyboardInterrupt`. Raise it as
    usual elsewhere.
    """

    def interrupt(number: int, frame: Any) -> None:
        while frame is not None:
            if frame.f_code.co_filename == _IMPORTING:
                _exit_at_once("stopped")
            frame = frame.f_back
        raise KeyboardInterrupt

    # Background jobs (`&`) ignore the signal; leave that as it is.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def hear_signals(hear: Callable[[int], None]) -> Callable[[], None]:
    """Call `hear` with each signal's number in a thread, and return a function that stops the
    thread.

    Python runs signal handlers between bytecodes, and compiled code can run for minutes. The
    wake-up file descriptor receives signals at once.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    descriptor_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def listen() -> None:
        while byte := os.read(reader, 1):
            hear(byte[0])

    def stop() -> None:
        signal.set_wakeup_fd(descriptor_before)
        os.close(writer)
        listener.join()
        os.close(reader)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    return stop


def exit_at_second_press() -> None:
    """Exit at once on a second Ctrl-C."""
    presses: list[float] = []

    def hear(number: int) -> None:
        if number == signal.SIGINT:
            presses.append(time.monotonic())
            if presses[-1] - presses[0] > ONE_PRESS_SECONDS:
                _exit_at_once("stopped at once")

    hear_signals(hear)


def exit_soon(status: int) -> None:
    """Exit with this status after two seconds if the interpreter is still waiting for threads."""
    timer = threading.Timer(_PATIENCE, os._exit, [status])
    timer.daemon = True
    timer.start()


def _exit_at_once(message: str) -> None:
    click.echo(f"boostrank: {message}", err=True)
    os._exit(_INTERRUPTED)


def prepare_streams() -> None:
    """Prepare the standard streams for a command.

    The next file to be opened would reuse a closed descriptor 0, 1 or 2, and messages would be
    written to that file. As in gnulib's `stdopen`, open the descriptor in the wrong direction, so
    that reading and writing still fail.
    """
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # Takes the lowest free descriptor: this one.
            os.set_inheritable(os.open(os.devnull, mode), True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    if os.name != "nt":  # Windows consoles take no bytes
        sys.stdout = _replaced(sys.stdout, Results(1, "wb", closefd=False))
        sys.stderr = _replaced(sys.stderr, Messages(2, "wb", closefd=False))


class Results(io.FileIO):
    """Standard output with write errors that name the stream."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write to standard output; a closed pipe passes as BrokenPipeError.

        Raises:
            TrainingError: the stream is closed, or the disk is full.
        """
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise TrainingError(
                f"standard output: could not be written: {reason}; a part may be missing"
            ) from error


class Messages(io.FileIO):
    """Standard error that ignores write errors."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write to standard error; what cannot be written is dropped."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _replaced(stream: Any, raw: io.FileIO) -> io.TextIOWrapper:
    """Return text over a byte stream, with the settings of a stream, which is None if it was
    closed.
    """
    settings: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}
    if stream is not None:
        names = ("encoding", "errors", "line_buffering", "write_through")
        settings = {name: getattr(stream, name) for name in names}
    return io.TextIOWrapper(io.BufferedWriter(raw), **settings)
