"""Calls to the operating system that fail on request: the k-th one on paths under some folders,
once or from then on.

Made in Python: what `os`, `open` and `tempfile` do is seen, what an engine writes by itself is not.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from unittest import mock

_READS = ("read",)
_ON_PATHS = ("open", "mkdir", "replace", "rename")  # which is the last path given
_ON_DESCRIPTORS = ("write", "fsync", *_READS)


@dataclass
class Faults:
    """A context in which calls on files under the folders are counted, and fail as asked.

    Args:
        folders: whose files are watched.
        at: the number of the call that fails, from 1; 0 for none.
        error: `errno.ENOSPC`, ...; what reads fails with EIO, as no reading fills a disk.
        for_good: whether all calls but those that read what is there fail from then on, as on a
            full disk.

    Attributes:
        calls: (name of the call, path) of every call so far.
    """

    folders: tuple[Path, ...]
    at: int = 0
    error: int = errno.ENOSPC
    for_good: bool = False
    calls: list[tuple[str, str]] = field(default_factory=list)
    _patches: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Faults:
        self._roots = [os.path.realpath(folder) for folder in self.folders]
        for name in (*_ON_PATHS, *_ON_DESCRIPTORS):
            self._patches.enter_context(
                mock.patch.object(os, name, self._failing(name, getattr(os, name)))
            )
        for module in (builtins, io):
            self._patches.enter_context(mock.patch.object(module, "open", self._opening(io.open)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patches.close()

    def path_of(self, file: Any) -> str | None:
        """Of a path or a descriptor: the path if it is watched."""
        try:
            path = (
                os.readlink(f"/proc/self/fd/{file}")
                if isinstance(file, int)
                else os.path.abspath(os.fsdecode(file))
            )
        except (OSError, TypeError):
            return None
        return (
            path
            if any(path == root or path.startswith(root + os.sep) for root in self._roots)
            else None
        )

    def fails(self, name: str, path: str, reading: bool = False) -> None:
        """Count a call.

        Raises:
            OSError: it is the one that fails.
        """
        self.calls.append((name, path))
        number = len(self.calls)
        if self.at and (number == self.at or (self.for_good and number > self.at and not reading)):
            error = errno.EIO if reading else self.error
            arguments = [path] if name in _ON_PATHS else []
            raise OSError(error, os.strerror(error), *arguments)

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            position = 1 if name in ("replace", "rename") else 0
            path = self.path_of(args[position])
            if path is not None:
                reading = name in _READS or (
                    name == "open" and args[1] & os.O_ACCMODE == os.O_RDONLY
                )
                try:
                    self.fails(name, path, reading)
                except OSError:
                    if name == "write":  # a full disk takes a part first
                        real(args[0], memoryview(args[1]).cast("B")[: len(args[1]) // 2])
                    raise
            return real(*args, **kwargs)

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Any = None,
        ) -> Any:
            path = self.path_of(file)
            if path is None:
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
            plain = mode.replace("b", "").replace("t", "")
            if not isinstance(file, int) and opener is None:
                self.fails("open", path, plain == "r")
            raw = _File(self, path, file, plain, closefd, opener)
            if buffering == 0:
                return raw
            kind: Any = io.BufferedWriter
            if plain == "r":
                kind = io.BufferedReader
            elif "+" in plain:
                kind = io.BufferedRandom
            buffer_size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
            buffered = kind(raw, buffer_size)
            return (
                buffered
                if "b" in mode
                else io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
            )

        return opened


class _File(io.FileIO):
    """A file whose writing may fail."""

    def __init__(
        self, faults: Faults, path: str, file: Any, mode: str, closefd: bool, opener: Any
    ) -> None:
        super().__init__(file, mode, closefd, opener)
        self._faults, self._path = faults, path

    def write(self, data: Any) -> int:
        try:
            self._faults.fails("write", self._path)
        except OSError:
            super().write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
            raise
        return cast(int, super().write(data))


def in_process(work: Callable[[], int], log: Path) -> int:
    """The exit status of work in this process, what it prints in a file."""
    with open(log, "w") as file, redirect_stdout(file), redirect_stderr(file):
        return work()


def in_child(work: Callable[[], int], log: Path, seconds: int = 60) -> int:
    """The exit status of work in a forked process whose output goes to a file; negative: the signal
    that ended it.
    """
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)  # ends what hangs
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = 70
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
