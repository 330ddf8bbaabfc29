"""Atomic writes, bounded reads, file locks, and recognition of unsupported file types.

Locks use `flock`, which the kernel releases when a process ends. They work across all machines that
share the file system, unless it was mounted with local locks. A lock reserves an output for one
run, and distinguishes the files of a running process from those left by a killed process.
(`filelock` can lock neither folders nor open descriptors.)
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import stat
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from os import PathLike
from pathlib import Path

from boostrank.core.errors import (
    FileFormatError,
    InputError,
    TrainingError,
    TrainingWarning,
    warn_user,
)

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NO_FOLLOWING = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder until it is closed, and return False if another descriptor holds
    the lock.

    Return None if locks are not supported (Windows, some network file systems).
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
    """Mark a new file or folder as in use while it is open; return False if another process has
    removed it.
    """
    locked = try_lock(descriptor)
    return locked is None or (locked and leads_to(path, descriptor))


def remove_if_dead(path: str) -> None:
    """Remove a marked file or folder if the process that marked it has definitely ended. Failures
    raise `OSError`.
    """
    is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    if fcntl is None:
        if not is_folder:
            os.unlink(path)  # Windows does not remove open files
        return
    access = os.O_RDONLY if is_folder else os.O_RDWR
    descriptor = os.open(path, access | _NO_FOLLOWING)
    try:
        if try_lock(descriptor):
            (shutil.rmtree if is_folder else os.unlink)(path)
    finally:
        os.close(descriptor)


def leads_to(path: str, descriptor: int) -> bool:
    """Return whether a path, not followed if it is a link, is the file of this descriptor."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def lock_path(path: str | PathLike[str]) -> str:
    """Return the path of the hidden lock file that `reserved` uses for an output file."""
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.lock")


@contextmanager
def reserved(path: str | PathLike[str]) -> Iterator[None]:
    """Reserve the file at `path` for this run while the block runs.

    The hidden file `.NAME.lock` in the same folder is locked. A lock file left by a killed run has
    no effect. If another run has the lock, raise `InputError`. If files cannot be locked, warn and
    continue.
    """
    lock_file = lock_path(path)
    try:
        descriptor = _locked(lock_file)
    except BlockingIOError:
        raise InputError(
            f"{os.fspath(path)}: another run is writing it: wait until it has ended, or choose"
            " another file"
        ) from None
    if descriptor is None:
        warn_user(
            f"{os.fspath(path)}: files in {os.path.dirname(lock_file)} cannot be locked, so a"
            " second run could write the same file",
            TrainingWarning,
        )
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            # Still locked: a process that opened it earlier sees that it is gone and retries.
            os.unlink(lock_file)
        os.close(descriptor)


def _locked(lock_file: str) -> int | None:
    """Open and lock the lock file, or return None if files cannot be locked."""
    while True:
        try:
            try:
                descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | _NO_FOLLOWING, 0o666)
            except PermissionError:  # of another user; a read-only descriptor can be locked, too
                descriptor = os.open(lock_file, os.O_RDONLY | _NO_FOLLOWING)
        except OSError:
            return None
        locked = try_lock(descriptor)
        if locked and leads_to(lock_file, descriptor):
            return descriptor
        unused = os.fstat(descriptor).st_size == 0
        os.close(descriptor)
        if locked is None:
            with suppress(OSError):
                if unused:
                    os.unlink(lock_file)
            return None
        if not locked:
            raise BlockingIOError


AnyPath = str | PathLike[str]

_RECORD = ".meta.json"
SIDECARS = (".query", ".group", ".weight", _RECORD)
"""Suffixes of the sidecar files that are read together with a file."""
_MOST_OF_A_STREAM = 1 << 28
_DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/")


def sidecar_paths(path: str, endings: Iterable[str] = SIDECARS) -> list[str]:
    """Return the possible sidecar paths for a file. For `data.txt.gz`, they include the paths for
    `data.txt`.
    """
    stems = dict.fromkeys([path, path.removesuffix(".gz")])
    return [stem + ending for stem in stems for ending in endings]


def record_path(path: AnyPath) -> str:
    """Return the path of a model's record (`.meta.json`). Symbolic links are followed."""
    model = os.path.realpath(path) if os.path.islink(path) else path
    return os.fspath(model) + _RECORD


def read_text(path: AnyPath, *, errors: str = "strict") -> str:
    r"""Read a sidecar file as UTF-8, without a byte order mark, with "\n" as line ends, or raise
    `FileFormatError`.
    """
    try:
        text = read_whole(path).decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"byte {error.start} is not UTF-8 text", file=os.fspath(path)
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def path_of(source: object) -> str | None:
    """Return a path as text, or None for a file object or any other source."""
    return os.fspath(source) if isinstance(source, str | PathLike) else None


def read_whole(path: AnyPath) -> bytes:
    """Read a sidecar file, or raise `FileFormatError`, also for a pipe or device (maybe endless)
    beyond a limit.
    """
    try:
        with open(path, "rb") as file:
            ends = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            limit = -1 if ends else _MOST_OF_A_STREAM + 1
            content = file.read(limit)
    except OSError as error:
        raise FileFormatError(str(error.strerror or error), file=os.fspath(path)) from None
    if not ends and len(content) > _MOST_OF_A_STREAM:
        reason = (
            f"the pipe or device exceeds the limit of {_MOST_OF_A_STREAM:,} bytes: pass a file"
            " instead"
        )
        raise FileFormatError(reason, file=os.fspath(path))
    return content


def write_atomically(path: AnyPath, data: bytes) -> None:
    """Replace the file at `path` with `data`, as `replacing` does. Readers never see partial
    data.
    """
    with replacing(path) as descriptor:
        write_all(descriptor, data)


@contextmanager
def replacing(path: AnyPath) -> Iterator[int]:
    """Yield a file descriptor whose content replaces the file at `path` when the block ends.

    The data are written to a temporary file in the same folder, which is synced and renamed to
    `path`. A symbolic link is kept, and its target is replaced. An existing file's permissions are
    kept.

    Raises:
        TrainingError: if a write or another step failed (disk full, no permission, a pipe or a
            device, ...). The old file is unchanged, as after any error in the block, unless the
            message says that only the final sync of the folder failed.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    with _failing_as_training_error(path, "its old content, if any, is untouched"):
        mode = _mode_of_regular_file(path)
        descriptor, temporary = _create_temporary(target)
        try:
            # The duplicate keeps the lock after the descriptor is closed. Windows has no locks and
            # cannot rename open files.
            with nullcontext() if os.name == "nt" else open(os.dup(descriptor), "wb", buffering=0):
                try:
                    yield descriptor
                    if mode is not None:
                        os.chmod(temporary, mode)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    with _failing_as_training_error(
        path, "the new file is in place, but may not survive a power cut"
    ):
        if os.name == "nt":  # folders cannot be opened there
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network file systems cannot sync folders.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)


def check_writable(path: AnyPath) -> None:
    """Remove files left by killed processes, and raise `InputError` if `replacing` could not write
    to `path`.
    """
    target = os.path.realpath(path)
    try:
        if _mode_of_regular_file(path) is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is read-only")
        descriptor, temporary = _create_temporary(target)
        os.close(descriptor)
        os.unlink(temporary)
    except OSError as error:
        raise _unwritable(path, error) from error
    remove_leftovers(path)


def _unwritable(path: AnyPath, error: OSError) -> InputError:
    return InputError(f"{os.fspath(path)}: cannot be written: {_reason(error, path)}")


def check_not_read(output: AnyPath, inputs: Iterable[AnyPath]) -> None:
    """Raise `InputError` if the output would overwrite an input file or its sidecar files, even
    under another name.

    Inputs may be patterns. Standard output (`-`), pipes and devices overwrite nothing.
    """
    if not os.path.isfile(output):
        return
    for source in inputs:
        path = os.fspath(source)
        files = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
        sidecars = [name for file in files for name in (*sidecar_paths(file), record_path(file))]
        read = filter(os.path.isfile, [*files, *sidecars])
        if any(os.path.samefile(file, output) for file in read):
            raise InputError(
                f"{os.fspath(output)}: is read by this command ({path}) and would be overwritten:"
                " choose another file"
            )


def check_appendable(path: AnyPath, taken: Sequence[AnyPath]) -> None:
    """Raise `InputError` if a file cannot be appended to or is one of `taken`. Create the file if
    it does not exist.
    """
    if any(os.path.realpath(path) == os.path.realpath(other) for other in taken):
        raise InputError(
            f"{os.fspath(path)}: is already read or written by this command: choose another file"
        )
    try:
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666))
    except OSError as error:
        raise _unwritable(path, error) from error


def remove_leftovers(path: AnyPath) -> None:
    """Delete the temporary files that killed processes left for this path."""
    folder, name = os.path.split(os.path.realpath(path))
    for part in glob.glob(
        os.path.join(glob.escape(folder), f".{glob.escape(_stem(name))}.{'[0-9a-f]' * 12}.tmp")
    ):
        with suppress(OSError):
            remove_if_dead(part)


@contextmanager
def _failing_as_training_error(path: AnyPath, state: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TrainingError(
            f"{os.fspath(path)}: could not be written: {_reason(error, path)}; {state}"
        ) from error


def _mode_of_regular_file(path: AnyPath) -> int | None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    # The shell's output file must not be replaced, to which >> appends.
    if not stat.S_ISREG(mode) or os.fspath(path).startswith(_DESCRIPTORS):
        raise OSError(
            errno.EINVAL,
            "it is not an ordinary file (commands that write to standard output take -)",
        )
    return stat.S_IMODE(mode)


def _create_temporary(target: str) -> tuple[int, str]:
    """Create a temporary file in the target's folder with default permissions (those of mkstemp are
    private).
    """
    folder, name = os.path.split(target)
    while True:
        temporary = os.path.join(folder, f".{_stem(name)}.{secrets.token_hex(6)}.tmp")
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
        if mark_alive(descriptor, temporary):
            return descriptor, temporary
        os.close(descriptor)


def _stem(name: str) -> str:
    return os.fsencode(name)[:100].decode(errors="ignore")


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all data, repeating partial writes."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def _reason(error: OSError, path: AnyPath) -> str:
    if isinstance(error, FileNotFoundError):
        folder = os.path.dirname(os.path.realpath(path))
        if os.path.isdir(folder):  # such as /proc
            return f"no file can be created in {folder}"
        return f"the folder {folder} does not exist; create it first"
    return error.strerror or str(error)


LOGGED = (
    "JSON: boostrank data join reads features that a search engine logged; to write rows with"
    " labels as CSV, pandas.read_json('FILE', lines=True).to_csv('FILE.csv', index=False),"
    " without lines=True if FILE is one list or object"
)


def foreign_kind(beginning: bytes) -> str | None:
    """Return a file's type and a remedy, given at least its first 300 bytes, or None if it is not
    recognised.
    """
    head = beginning.removeprefix(b"\xef\xbb\xbf")
    return next((kind for pattern, kind in _foreign_kinds() if re.match(pattern, head)), None)


@cache
def _foreign_kinds() -> list[tuple[bytes, str]]:
    """Return patterns of the first bytes of files, and what these files are, in order."""
    text = Path(__file__).with_name("foreign_files.toml").read_text(encoding="utf-8")
    kinds = tomllib.loads(text).items()
    return [(pattern.encode(), kind.replace("{logged}", LOGGED)) for pattern, kind in kinds]
