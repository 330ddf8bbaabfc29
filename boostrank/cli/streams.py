"""Standard streams, which may be closed or full."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from boostrank.core.errors import TrainingError


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
