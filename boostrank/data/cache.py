"""Cache on disk of what was computed from files: found by what went into it, checked before it is believed.

An entry is one file: a header (JSON: the key, a note, the arrays), the arrays, a checksum of all that. It may name one
big file beside it, which another library reads: its length and checksum are in the header, and are compared before
that library sees it. Both are written under new names and reach the disk before the entry is renamed into place: a run
that is killed leaves the old entry or the new one. Of two runs that write one entry the last wins, and both are right.

Whatever is wrong with an entry (another key, torn, damaged, from another version or machine, of another user), it is as
if there were none. Nothing in it is code: no pickles.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from boostrank.core.errors import BoostrankError
from boostrank.core.files import remove_leftovers, write_atomically
from boostrank.records import BigFile, CacheHeader, as_record, from_json, jsonable

FOLDER = ".boostrank-cache"

_MAGIC = b"boostrank cache 1\n"
_LENGTH = struct.Struct("<Q")
_DIGEST = 32
_CHECKED_AT_A_TIME = 1 << 20
_LARGEST_HEADER = 1 << 30
# A big file that no entry names was left by a killed run, or is just being written.
_ORPHAN_AFTER = 3600.0
# Time stamps of files come in steps of up to this: a change within one step cannot be seen.
_CLOCK_STEP = 0.02


@dataclass
class Entry:
    """What an entry holds: plain data, arrays by name, and the big file if it has one, open and checked."""

    note: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    big: BinaryIO | None = None

    def big_path(self) -> str:
        """A path by which another library opens the very file that was checked, also if it was replaced meanwhile."""
        assert self.big is not None
        same = f"/proc/self/fd/{self.big.fileno()}"
        return same if os.path.exists(same) else str(self.big.name)


@dataclass
class Cache:
    """Entries in one folder, which is made at the first write."""

    folder: Path
    refused: str | None = field(default=None, init=False)
    """Why nothing could be written, in words; None while all is well."""

    def load(self, name: str, key: Mapping[str, Any]) -> Entry | None:
        """The entry of that name if it was made from exactly this key, and is whole."""
        try:
            if not _is_trusted(self.folder / name):
                return None
            data = (self.folder / name).read_bytes()
            note, arrays, big = _opened(data, jsonable(key))
            if big is None:
                return Entry(note, arrays)
            path = self.folder / Path(big.name).name
            if not _is_trusted(path):
                return None
            file = open(path, "rb")  # noqa: SIM115 (the entry keeps it)
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            return None
        if os.fstat(file.fileno()).st_size != big.size or _checksum(file) != big.checksum:
            file.close()
            return None
        return Entry(note, arrays, file)

    def save(
        self,
        name: str,
        key: Mapping[str, Any],
        note: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        write_big: Callable[[str], bool] | None = None,
    ) -> bool:
        """Put an entry in the place of what has that name; whether it worked. If it did not, `refused` says why.

        Args:
            name: of the entry, a file name.
            key: plain data; everything that the contents depend on.
            note: plain data to give back.
            arrays: to give back.
            write_big: writes the big file to the path it is given, and says whether the file is complete.
        """
        placed = [(each, array.dtype.str, list(array.shape)) for each, array in arrays.items()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder / name)
            with _big_file(self.folder, name, write_big) as big:
                previous = _named_by(self.folder / name)
                header = CacheHeader(key=jsonable(key), note=dict(note), arrays=placed, big=big)
                text = json.dumps(msgspec.to_builtins(header)).encode()
                contents = (np.ascontiguousarray(array).tobytes() for array in arrays.values())
                body = b"".join([_MAGIC, _LENGTH.pack(len(text)), text, *contents])
                write_atomically(self.folder / name, body + hashlib.blake2b(body, digest_size=_DIGEST).digest())
        except (OSError, BoostrankError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            # The same words for every entry: they are said once.
            self.refused = str((cause.strerror if isinstance(cause, OSError) else None) or error)
            return False
        now, keep = time.time(), None if big is None else big.name
        for path in self.folder.glob(f"{name}.*.big") if write_big is not None else ():  # that nothing names any more
            with contextlib.suppress(OSError):
                if path.name != keep and (path.name == previous or now - path.stat().st_mtime > _ORPHAN_AFTER):
                    path.unlink()
        return True


def entry_name(what: str, *parts: Any) -> str:
    """A file name for an entry: what it is, and which one."""
    return f"{hashlib.blake2b(json.dumps(jsonable(parts), sort_keys=True).encode(), digest_size=10).hexdigest()}.{what}"


def file_state(path: str) -> list[Any] | None:
    """What changes when a file does: size, times of content and of any change, number of the file. None without one."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]


def let_clock_pass(paths: list[str]) -> None:
    """Wait until a file that has just been written would get another time if it were written again."""
    for path in paths:
        with contextlib.suppress(OSError):
            age = time.time() - os.stat(path).st_ctime  # which nobody sets, as copies that keep times set the other
            if 0 <= age < _CLOCK_STEP:
                time.sleep(_CLOCK_STEP)


@cache
def reader_version() -> str:
    """Digest of the code that turns text into numbers: another reader, other entries."""
    package = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    folders = (package / "data/libsvm", package / "data/tables")
    code = [*(path for folder in folders for path in sorted(folder.glob("*.py")))]
    code += [package / "data/options.py", package / "data/names.py"]
    code += [package / "core" / name for name in ("files.py", "text.py", "queries.py")]
    for path in [*code, package / "kernels/runtime/intrinsics.py"]:
        digest.update(path.name.encode() + path.read_bytes())
    return f"{digest.hexdigest()} {sys.byteorder}"


def _opened(data: bytes, key: Any) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], BigFile | None]:
    """(note, arrays, what describes the big file).

    Raises:
        ValueError, KeyError, TypeError, struct.error: this is not such an entry.
    """
    body = memoryview(data)[:-_DIGEST]
    if not data.startswith(_MAGIC) or hashlib.blake2b(body, digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise ValueError("not an entry, or damaged")
    at = len(_MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack(data[len(_MAGIC) : at])
    if length > _LARGEST_HEADER:
        raise ValueError("no header is that long")
    header = as_record(CacheHeader, from_json(bytes(body[at : at + length])))
    if header.key != key:
        raise ValueError("made from something else")
    at += length
    arrays = {}
    for name, kind, shape in header.arrays:
        dtype = np.dtype(kind)
        count = math.prod(shape)
        if count * max(dtype.itemsize, 1) > len(body) - at:
            raise ValueError("arrays are longer than the entry")
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape).copy()
        at += count * dtype.itemsize
    return header.note, arrays, header.big


@contextmanager
def _big_file(folder: Path, name: str, write: Callable[[str], bool] | None) -> Iterator[BigFile | None]:
    """The big file, written, on disk and summed up; gone again when the block fails.

    Raises:
        OSError: it could not be written whole.
    """
    if write is None:
        yield None
        return
    path = folder / f"{name}.{secrets.token_hex(6)}.big"
    try:
        path.touch(exist_ok=False)  # where no file can be made the system says why, and an engine fails
        path.unlink()
        if not write(str(path)):
            raise OSError(0, "the file came out incomplete: the disk may be full")
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            yield BigFile(name=path.name, size=os.fstat(file.fileno()).st_size, checksum=_checksum(file))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _checksum(file: BinaryIO) -> str:
    """CRC-32 of each stretch of the file, and their hash: damage by accident is found, at the speed of memory."""
    digest = hashlib.blake2b(digest_size=16)
    file.seek(0)
    buffer = bytearray(_CHECKED_AT_A_TIME)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(zlib.crc32(memoryview(buffer)[:count]).to_bytes(4, "little"))
    file.seek(0)
    return digest.hexdigest()


def _is_trusted(path: Path) -> bool:
    """Whether it is an ordinary file of this user or the superuser.

    A checksum finds damage, not malice, and the engine's own loader believes what it is given; folders of data are
    often writable for others.
    """
    info = os.stat(path)
    return stat.S_ISREG(info.st_mode) and (os.name == "nt" or info.st_uid in (0, os.geteuid()))


def _named_by(entry: Path) -> str | None:
    """The big file that an entry names."""
    try:
        if not _is_trusted(entry):  # a pipe would be waited for
            return None
        with open(entry, "rb") as file:
            start = file.read(len(_MAGIC) + _LENGTH.size)
            (length,) = _LENGTH.unpack(start[len(_MAGIC) :])
            big = from_json(file.read(min(length, _LARGEST_HEADER)))["big"]
        return None if big is None else str(big["name"])
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
