"""Files: written whole or not at all, small ones read whole, and locks on those that a living process writes.

The locks are advisory (`flock`): the kernel takes them back when a process ends, however that happens. They hold on
all machines that share the file system, unless it was mounted with local locks. They reserve an output for one run, and
tell what a killed run left from what another run is writing. (`filelock` locks neither folders nor open descriptors.)
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike

from boostrank.core.errors import FileFormatError, InputError, TrainingError, TrainingWarning, warn_user

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


AnyPath = str | PathLike[str]

_RECORD = ".meta.json"
READ_BESIDE = (".query", ".group", ".weight", _RECORD)
"""Endings of files that are read with the file that has the name without."""
_PACKED = (".gz", ".bz2", ".xz", ".zst")
LONGEST_LINE = 1 << 16
"""Characters of a line, where no line of what the file should be is as long."""
_MOST_OF_A_STREAM = 1 << 26
_PIECE = 1 << 20


def beside(path: str, endings: Iterable[str] = READ_BESIDE) -> list[str]:
    """Names of the files that may be read with a file; with `data.txt.gz` also those beside `data.txt`."""
    stems = [path, *(path.removesuffix(packed) for packed in _PACKED if path.endswith(packed))]
    return [stem + ending for stem in stems for ending in endings]


def record_path(path: AnyPath) -> str:
    """The record beside a model; of a symbolic link beside what it leads to, which is what is written and read."""
    return os.fspath(os.path.realpath(path) if os.path.islink(path) else path) + _RECORD


def read_text(path: AnyPath, *, errors: str = "strict", rows: int = 0) -> str:
    """The text of a file beside the data: UTF-8, without the mark of byte order, lines end with "\\n".

    Args:
        path: of a file, a pipe or a device.
        errors: what becomes of bytes that are no UTF-8, as of `bytes.decode`.
        rows: as of `read_whole`.

    Raises:
        FileFormatError: as `read_whole`; no UTF-8.
    """
    try:
        text = read_whole(path, rows).decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"byte {error.start} is not UTF-8 text", file=os.fspath(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_whole(path: AnyPath, rows: int = 0) -> bytes:
    """The bytes of a file beside the data; of a pipe or a device, which may have no end, no more than it can need.

    Args:
        path: of a file, a pipe or a device.
        rows: of the data, where the file has a line for each.

    Raises:
        FileFormatError: it cannot be read, or is a stream that goes on.
    """
    most = _MOST_OF_A_STREAM + 256 * rows
    try:
        with open(path, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
            pieces, size = [], 0
            while size <= most and (piece := file.read(_PIECE)):
                pieces.append(piece)
                size += len(piece)
    except OSError as error:
        raise FileFormatError(str(error.strerror or error), file=os.fspath(path)) from None
    if size > most:
        reason = f"a pipe or a device that goes on after {most:,} bytes, which is more than is held here: give a file"
        raise FileFormatError(reason, file=os.fspath(path))
    return b"".join(pieces)


def write_atomically(path: AnyPath, data: bytes) -> None:
    """Replace the file at `path` by `data`: afterwards it holds the old bytes or the new ones, never a part.

    Raises:
        TrainingError: as `replacing`.
    """
    with replacing(path) as descriptor:
        write_all(descriptor, data)


@contextmanager
def replacing(path: AnyPath) -> Iterator[int]:
    """A descriptor to write to; when the block ends well, what was written replaces the file at `path`.

    The data go to a temporary file in the same folder, reach the disk, and are then renamed over `path`; the rename
    reaches the disk before the block is left. A symbolic link stays, its target is replaced; the permissions of an
    existing file are kept. When the block raises, the old file is as it was.

    Raises:
        TrainingError: a step failed (disk full, no permission, ...). The old file is as it was and the temporary file
            is gone. Only if the very last step fails, the rename's way to the disk, the new file is there already,
            whole; the message says so.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    with _failing_as_training_error(path, "its old content, if any, is untouched"):
        mode = _mode_of_regular_file(target)
        descriptor, temporary = _create_beside(target)
        try:
            # It stays marked as in hand when closed. On Windows nothing is marked, and what is open cannot be renamed.
            with contextlib.nullcontext() if os.name == "nt" else open(os.dup(descriptor), "wb", buffering=0):
                try:
                    yield descriptor
                    if mode is not None:
                        os.chmod(temporary, mode)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    with _failing_as_training_error(path, "the new file is in place, but may not survive a power cut"):
        if os.name == "nt":  # folders cannot be opened there
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems sync folders by themselves
                raise
        finally:
            os.close(descriptor)


def check_writable(path: AnyPath) -> None:
    """Find out before hours of work whether `path` could be written after them; leaves nothing behind.

    What killed processes left of their attempts to write it is removed.

    Raises:
        InputError: the folder is missing or read-only, or `path` is a folder, a device or a read-only file.
    """
    target = os.path.realpath(path)
    try:
        if _mode_of_regular_file(target) is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is read-only")
        descriptor, temporary = _create_beside(target)
        os.close(descriptor)
        os.unlink(temporary)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {_reason(error, target)}") from error
    remove_leftovers(path)


def check_not_read(output: AnyPath, inputs: Iterable[AnyPath]) -> None:
    """Refuse to write over what is read, by whatever name: a slip of the fingers, and the data are gone.

    Args:
        output: path; standard output (`-`), pipes and devices overwrite nothing.
        inputs: files and patterns; what is read beside a file, weights or a sidecar, counts as read.

    Raises:
        InputError: they meet.
    """
    if not os.path.isfile(output):
        return
    for given in (os.fspath(one) for one in inputs):
        files = [given] if os.path.exists(given) else glob.glob(given, recursive=True)
        read = [*files, *(name for file in files for name in (*beside(file), record_path(file)))]
        if any(os.path.isfile(file) and os.path.samefile(file, output) for file in read):
            raise InputError(
                f"{os.fspath(output)}: is read by this command ({given}) and would be overwritten: name another file"
            )


def check_appendable(path: AnyPath, taken: Sequence[AnyPath]) -> None:
    """Refuse, early, a file that cannot be appended to, or that is one of others; it is made where it is not there.

    Raises:
        InputError: with the reason.
    """
    if any(os.path.realpath(path) == os.path.realpath(other) for other in taken):
        raise InputError(f"{os.fspath(path)}: is read or written by this command already: it needs a file of its own")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666))
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {_reason(error, os.path.realpath(path))}") from error


def remove_leftovers(path: AnyPath) -> None:
    """Delete what killed processes left of their attempts to write this file, and nothing of a living one."""
    folder, name = os.path.split(os.path.realpath(path))
    for part in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(_stem(name))}.{'[0-9a-f]' * 12}.tmp")):
        with contextlib.suppress(OSError):
            remove_if_dead(part)


def write_output(path: AnyPath, data: bytes) -> None:
    """`write_atomically`, into what `writing` opens; raises what it raises."""
    with writing(path) as descriptor:
        write_all(descriptor, data)


@contextmanager
def writing(path: AnyPath) -> Iterator[int]:
    """`replacing`; of a pipe or a device (`/dev/stdout`), which nothing can replace, a descriptor to write to plainly.

    Raises:
        TrainingError: as `replacing`.
        BrokenPipeError: nobody reads the pipe any more.
    """
    if not _is_stream(path):
        with replacing(path) as descriptor:
            yield descriptor
        return
    with _failing_as_training_error(path, "a part may have been written"):
        descriptor = os.open(path, os.O_WRONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def check_output(path: AnyPath) -> None:
    """`check_writable` for `write_output`.

    Raises:
        InputError: as `check_writable`, but pipes and devices are welcome.
    """
    if not _is_stream(path):
        check_writable(path)
    elif not os.access(path, os.W_OK):
        raise InputError(f"{os.fspath(path)}: cannot be written: {os.strerror(errno.EACCES)}")


def _is_stream(path: AnyPath) -> bool:
    """Whether there is something at `path` that is neither a file nor a folder.

    The path is taken as it is: what `/dev/stdout` leads to has no path of its own.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _failing_as_training_error(path: AnyPath, state: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = _reason(error, os.path.realpath(path))
        raise TrainingError(f"{os.fspath(path)}: could not be written: {reason}; {state}") from error


def _mode_of_regular_file(target: str) -> int | None:
    """Permissions of the file to be replaced, None when there is none yet."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not an ordinary file")
    return stat.S_IMODE(mode)


def _create_beside(target: str) -> tuple[int, str]:
    """A new empty file in the target's folder, with the permissions of any new file (mkstemp's would be private)."""
    folder, name = os.path.split(target)
    while True:
        temporary = os.path.join(folder, f".{_stem(name)}.{secrets.token_hex(6)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if mark_alive(descriptor, temporary):
            return descriptor, temporary
        os.close(descriptor)


def _stem(name: str) -> str:
    """The start of a name: what is put behind it must fit, and systems count bytes."""
    return os.fsencode(name)[:100].decode(errors="ignore")


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of it, also where the system takes a part at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _reason(error: OSError, target: str) -> str:
    if isinstance(error, FileNotFoundError):
        folder = os.path.dirname(target)
        if os.path.isdir(folder):  # of the kernel, /proc
            return f"no file can be made in {folder}"
        return f"the folder {folder} does not exist; make it first"
    return error.strerror or str(error)
