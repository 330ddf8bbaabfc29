"""A process that is a command's alone: its standard streams, and Ctrl-C while it begins."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import Any

from boostrank.core.errors import TrainingError

_INTERRUPTED = 130
_IMPORTING = "<frozen importlib._bootstrap>"


def stop_quietly() -> None:
    """Have Ctrl-C leave at once while modules are imported; elsewhere it is a `KeyboardInterrupt` as ever.

    An import may swallow the exception, or make another error of it.
    """

    def interrupted(number: int, frame: Any) -> None:
        while frame is not None:
            if frame.f_code.co_filename == _IMPORTING:
                if sys.stderr is not None:
                    sys.stderr.write("boostrank: stopped\n")
                    sys.stderr.flush()
                os._exit(_INTERRUPTED)
            frame = frame.f_back
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else nobody shall stop it: a job's `&`
        signal.signal(signal.SIGINT, interrupted)


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
        io.BufferedWriter(raw), before.encoding, before.errors, line_buffering=before.line_buffering,
        write_through=before.write_through,
    )  # fmt: skip
