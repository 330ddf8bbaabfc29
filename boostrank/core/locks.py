"""Locks on what a living process has in hand: the kernel takes them back when it ends, however that happens.

The locks are advisory (`flock`): they bind whoever asks, on every machine that shares the file system unless it was
mounted with locks of its own (`local_lock`). Two uses: an output is reserved for one run, and files that a killed run
left behind are told from those that somebody is still writing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

from boostrank.core.errors import InputError, TrainingWarning, warn_user

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LONGEST_NAME = 200  # bytes
_NO_FOLLOWING = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def try_lock(descriptor: int) -> bool | None:
    """Whether the open file or folder is now this descriptor's, until it is closed or the process ends.

    Returns:
        False when it is somebody else's; None where it cannot be locked: on Windows, on some network file systems.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks there (ENOLCK, ENOTSUP, ...)
        return None
    return True


def mark_alive(descriptor: int, path: str) -> bool:
    """Mark what was just made at `path` as in hand while the descriptor is open.

    Returns:
        False when `remove_if_dead` of another process was quicker, and the file or folder is gone: make a new one.
    """
    locked = try_lock(descriptor)
    return locked is None or (locked and leads_to(path, descriptor))


def remove_if_dead(path: str) -> None:
    """Remove a file or folder that was marked by a process which has ended; leave it where that is not certain.

    Raises:
        OSError: it is gone already, or cannot be removed.
    """
    is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    if fcntl is None:
        if not is_folder:
            os.unlink(path)  # Windows does not remove what somebody has open
        return
    descriptor = os.open(path, (os.O_RDONLY if is_folder else os.O_RDWR) | _NO_FOLLOWING)
    try:
        if try_lock(descriptor):
            (shutil.rmtree if is_folder else os.unlink)(path)
    finally:
        os.close(descriptor)


def leads_to(path: str, descriptor: int) -> bool:
    """Whether the path is still that of the open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def lock_path(path: str | PathLike[str]) -> str:
    """The hidden file beside an output that `reserved` locks."""
    folder, name = os.path.split(os.path.realpath(path))
    if len(os.fsencode(name)) > _LONGEST_NAME:  # room for what is put around it
        name = f"{name[:30]}.{hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()}"
    return os.path.join(folder, f".{name}.lock")


@contextmanager
def reserved(path: str | PathLike[str]) -> Iterator[None]:
    """Inside, the file at `path` is this run's: another one that reserves it is refused.

    A hidden file `.NAME.lock` lies beside it meanwhile. What a killed run leaves of it reserves nothing. Where files
    cannot be locked, a warning says so and the work goes on.

    Raises:
        InputError: another run has it; which process, if it is known.
    """
    beside = lock_path(path)
    try:
        descriptor = _locked(beside)
    except BlockingIOError:
        owner = "another run"
        with contextlib.suppress(OSError, ValueError), open(beside, "rb") as file:
            pid, host = file.read(300).decode().split()
            owner = f"process {int(pid)}" + ("" if host == socket.gethostname() else f" on {host}")
        words = f"{os.fspath(path)}: {owner} is writing it: wait until it has ended, or name another file"
        raise InputError(words) from None
    if descriptor is None:
        warn_user(
            f"{os.fspath(path)}: files in {os.path.dirname(beside)} cannot be locked, so nothing keeps a second run "
            "from writing the same file",
            TrainingWarning,
        )
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name in it
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)  # while it is ours: who opened it before finds that it leads nowhere, and tries again
        os.close(descriptor)


def _locked(beside: str) -> int | None:
    """The lock file, open and locked; None where files cannot be locked.

    Raises:
        BlockingIOError: another process has it.
    """
    while True:
        try:
            try:
                descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | _NO_FOLLOWING, 0o666)
            except PermissionError:  # another user's, who was killed: it can be locked all the same
                descriptor = os.open(beside, os.O_RDONLY | _NO_FOLLOWING)
        except OSError:
            return None
        held = try_lock(descriptor)
        if held and leads_to(beside, descriptor):
            return descriptor
        unused = os.fstat(descriptor).st_size == 0
        os.close(descriptor)
        if held is None:
            with contextlib.suppress(OSError):
                if unused:
                    os.unlink(beside)
            return None
        if held is False:
            raise BlockingIOError
