"""On-disk cache of results computed from files, with keys and checksums.

An entry is one file: a header (JSON with key, note and array layout), the arrays, and a checksum. It may refer to one
large file for another library; the header contains its length and checksum, which are verified first. Both files are
written under new names and synced before the entry is renamed into place, so a killed run leaves the old or the new
entry. If two runs write the same entry, the last one wins; both are correct.

An invalid entry is ignored: another key, version, machine or user, or a truncated or damaged file. Entries contain no
code (no pickles).
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
# Unreferenced large files younger than this may still be in use by another run.
_ORPHAN_AFTER = 3600.0
# Resolution of file time stamps: changes within one step are invisible.
_CLOCK_STEP = 0.02


@dataclass
class Entry:
    """Contents of an entry: plain data, arrays by name, and the large file, if any, open and verified."""

    note: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    big: BinaryIO | None = None

    def big_path(self) -> str:
        """Path to the verified file itself, even if it was replaced in the meantime."""
        assert self.big is not None
        same = f"/proc/self/fd/{self.big.fileno()}"
        return same if os.path.exists(same) else str(self.big.name)


@dataclass
class Cache:
    """Entries in one folder, which is created on the first write."""

    folder: Path
    refused: str | None = field(default=None, init=False)
    """Reason why writing failed; None if it did not."""

    def load(self, name: str, key: Mapping[str, Any]) -> Entry | None:
        """Return the entry with this name if its key matches exactly and it is intact."""
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
        """Write an entry, replacing any of this name. Return False on failure, with the reason in `refused`.

        The contents depend on the key alone; `write_big` writes the large file and returns whether it is complete.
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
            # The reason is the same for every entry, so that it is reported once.
            self.refused = str((cause.strerror if isinstance(cause, OSError) else None) or error)
            return False
        now, keep = time.time(), None if big is None else big.name
        for path in self.folder.glob(f"{name}.*.big") if write_big is not None else ():  # unreferenced files
            with contextlib.suppress(OSError):
                if path.name != keep and (path.name == previous or now - path.stat().st_mtime > _ORPHAN_AFTER):
                    path.unlink()
        return True


def entry_name(what: str, *parts: Any) -> str:
    """Return a file name for an entry, from its kind and its parts."""
    return f"{hashlib.blake2b(json.dumps(jsonable(parts), sort_keys=True).encode(), digest_size=10).hexdigest()}.{what}"


def file_state(path: str) -> list[Any] | None:
    """Return the state of a file: size, modification and change times, inode. None without a file."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]


def let_clock_pass(paths: list[str]) -> None:
    """Wait until a rewrite of these files would change their time stamps."""
    for path in paths:
        with contextlib.suppress(OSError):
            age = time.time() - os.stat(path).st_ctime  # ctime cannot be set, unlike mtime, which copies may preserve
            if 0 <= age < _CLOCK_STEP:
                time.sleep(_CLOCK_STEP)


@cache
def reader_version() -> str:
    """Return a digest of the parsing code: another reader needs other entries."""
    package = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    others = ("core/files.py", "core/text.py", "core/queries.py", "kernels/intrinsics.py")
    for path in [*sorted((package / "data").rglob("*.py")), *(package / name for name in others)]:
        digest.update(path.name.encode() + path.read_bytes())
    return f"{digest.hexdigest()} {sys.byteorder}"


def _opened(data: bytes, key: Any) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], BigFile | None]:
    """Return (note, arrays, description of the large file)."""
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
    """Write, sync and checksum the large file; remove it if the block fails."""
    if write is None:
        yield None
        return
    path = folder / f"{name}.{secrets.token_hex(6)}.big"
    try:
        path.touch(exist_ok=False)  # get the system's reason if no file can be created; engines only fail
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
    """Return a hash of CRC-32 values of the file, which detects accidental damage at memory speed."""
    digest = hashlib.blake2b(digest_size=16)
    file.seek(0)
    buffer = bytearray(_CHECKED_AT_A_TIME)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(zlib.crc32(memoryview(buffer)[:count]).to_bytes(4, "little"))
    file.seek(0)
    return digest.hexdigest()


def _is_trusted(path: Path) -> bool:
    """Return whether a file is a regular file of this user or root.

    Checksums do not stop malice, engines trust the files they load, and data folders are often writable for others.
    """
    info = os.stat(path)
    return stat.S_ISREG(info.st_mode) and (os.name == "nt" or info.st_uid in (0, os.geteuid()))


def _named_by(entry: Path) -> str | None:
    """Return the large file that an entry refers to."""
    try:
        if not _is_trusted(entry):  # opening a pipe would block
            return None
        with open(entry, "rb") as file:
            start = file.read(len(_MAGIC) + _LENGTH.size)
            (length,) = _LENGTH.unpack(start[len(_MAGIC) :])
            big = from_json(file.read(min(length, _LARGEST_HEADER)))["big"]
        return None if big is None else str(big["name"])
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
