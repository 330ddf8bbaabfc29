"""Streaming reader that keeps features in a temporary file, and a few blocks in memory.

One pass over the files writes their float32 values, dense or sparse. Labels and queries stay in
memory. Later steps (bins, hashes, predictions) read pieces of rows at the speed of the page cache.

A cache entry is a file that an engine wrote, such as LightGBM's bins, followed by a checksum of
its content and its key. It is written under a new name and synced before it is renamed into place,
so a killed run leaves the old or the new entry. If two runs write the same entry, the last one
wins, and both are correct. An entry is ignored if it has another key or user, or is truncated or
damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from boostrank.core.errors import BoostrankError, TrainingError, warn_user
from boostrank.core.files import path_of
from boostrank.core.machine import return_memory
from boostrank.core.types import Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import InParts
from boostrank.files.assemble import read_files
from boostrank.files.blocks import Block, dense_matrix, sparse_matrix
from boostrank.files.source import AnySource, expand
from boostrank.records import jsonable

FOLDER = ".boostrank-cache"

_DIGEST = 32
_PIECE = 1 << 20  # bytes hashed at a time
# Another run may still write an unfinished file younger than this.
_ORPHAN_AFTER = 3600.0
# Chunks are small because the buffers of the reader count towards the memory limit.
CHUNK_BYTES = 4 << 20


# Rows on disk -------------------------------------------------------------------------------------


class RowStore:
    """Parsed blocks in an unnamed temporary file, which is removed when the process ends.

    Attributes:
        starts: the first row of each block, followed by the number of rows.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = os.fspath(folder or tempfile.gettempdir())
        self._file = tempfile.TemporaryFile(  # noqa: SIM115
            dir=self.folder, prefix=".boostrank-rows-", buffering=0
        )
        self._lock = threading.Lock()
        # Position in the file, and type of a row, of the arrays of each block.
        self._arrays: list[list[tuple[int, Any]]] = []
        self._size, self.starts = 0, [0]

    def put(self, block: Block) -> None:
        """Write the features of the next block, and remove them from the block."""
        arrays: Any = block.sparse if block.dense is None else [block.dense]
        stored = []
        try:
            for array in arrays:
                stored.append((self._size, np.dtype((array.dtype, array.shape[1:]))))
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                while data:
                    count = self._file.write(data) or 0
                    self._size += count
                    data = data[count:]
        except OSError as error:
            raise TrainingError(
                f"{self.folder}: there is not enough space for the rows ({error.strerror},"
                f" {self._size / 1e9:.1f} GB so far); they take 4 bytes per value until training"
                " ends; use a larger disk (--cache, or TMPDIR without a cache)"
            ) from error
        self._arrays.append(stored)
        self.starts.append(self.starts[-1] + block.n_rows)
        block.dense = block.sparse = None

    def features(self, shape: tuple[int, int], base: int, *, is_sparse: bool) -> StoredFeatures:
        """Return the rows of all blocks as features, after the last block."""
        return StoredFeatures(self, shape, base, is_sparse=is_sparse)

    def read(self, i: int, first: int, stop: int) -> Block:
        """Return rows `first` to `stop` of block i."""
        stored, block = self._arrays[i], Block(np.zeros(stop - first), np.zeros(0, np.int64))
        if len(stored) == 1:
            block.dense = self._read(*stored[0], first, stop)
            return block
        ends = self._read(*stored[0], 0, stop)
        begin, end = int(ends[first - 1]) if first else 0, int(ends[-1])
        ids, values = [self._read(*array, begin, end) for array in stored[1:]]
        block.sparse = ends[first:] - begin, ids, values
        return block

    def _read(self, offset: int, kind: Any, first: int, stop: int) -> Array:
        """Return rows `first` to `stop` of an array."""
        with self._lock:
            self._file.seek(offset + first * kind.itemsize)
            array = np.fromfile(self._file, kind, stop - first)
        if len(array) < stop - first:
            raise TrainingError(f"{self.folder}: the temporary file of rows is truncated")
        return array


class StoredFeatures(InParts):
    """Features on disk, float32[N, d]. The slices `features[a:b]` and `features[rows]` are read
    into memory.

    Args:
        store: the rows.
        base: number of the first feature in the file.
        order: position in the file of each column; None if they are in the file's order.
    """

    def __init__(
        self,
        store: RowStore,
        shape: tuple[int, int],
        base: int,
        *,
        is_sparse: bool,
        order: Sequence[int] | None = None,
    ) -> None:
        self.store, self.shape, self.base, self.is_sparse = store, shape, base, is_sparse
        self.starts, self._order = np.array(store.starts, np.int64), order
        self._width = shape[1]  # number of features in the file

    def part(self, i: int, first: int, stop: int) -> Any:
        """Read rows of block i from disk, with the columns in the model's order."""
        stored = [self.store.read(i, first, stop)], self.base, self._width
        matrix: Any = sparse_matrix(*stored) if self.is_sparse else dense_matrix(*stored, threads=1)
        return matrix if self._order is None else matrix[:, self._order]

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, dense or CSR rows) in order, a few megabytes each."""
        for first, stop in pairwise(self.starts.tolist()):
            yield first, self[first:stop]

    def in_order(self, columns: Sequence[int]) -> StoredFeatures:
        """Return the rows with the columns in the given order."""
        shape = self.shape[0], len(columns)
        order = columns if self._order is None else [self._order[c] for c in columns]
        out = StoredFeatures(self.store, shape, self.base, is_sparse=self.is_sparse, order=order)
        out._width, out.external = self._width, self.external
        return out


# The cache ----------------------------------------------------------------------------------------


@dataclass
class Cache:
    """Cache entries in one folder, which is created when the first entry is written.

    Args:
        refused: reason why writing failed; None if it did not fail.
    """

    folder: Path
    refused: str | None = None

    def load(self, name: str, key: Mapping[str, Any]) -> BinaryIO | None:
        """Return the open file of the entry with this name if it is intact and its key matches
        exactly."""
        try:
            file = _open(self.folder / name)
        except (OSError, ValueError):
            return None
        checksum = _checksum(file, key, os.fstat(file.fileno()).st_size - _DIGEST)
        if file.read() == checksum:
            return file
        file.close()
        return None

    def save(self, name: str, key: Mapping[str, Any], write: Callable[[str], bool]) -> bool:
        """Write or replace an entry. Return False on failure, and store the reason in `refused`.

        The content must depend only on the key. `write` writes the file at a path, and returns True
        if it is complete.
        """
        path = self.folder / f"{name}.{secrets.token_hex(6)}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)  # raises the system's reason, which engines do not report
            path.unlink()
            if not write(str(path)):
                raise OSError(0, "the file is incomplete: the disk may be full")
            with open(path, "r+b") as file:
                file.write(_checksum(file, key, os.fstat(file.fileno()).st_size))
                file.flush()
                os.fsync(file.fileno())
            os.replace(path, self.folder / name)
        except BaseException as error:
            with contextlib.suppress(OSError):
                path.unlink()
            if not isinstance(error, OSError | BoostrankError):
                raise
            cause = error if isinstance(error, OSError) else error.__cause__
            if self.refused is None:  # everything else works without a cache
                self.refused = getattr(cause, "strerror", None) or str(error)
                warn_user(f"no cache in {self.folder}: {self.refused}")
            return False
        # Remove the files of killed runs.
        for path in self.folder.glob(f"{name}.*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ORPHAN_AFTER:
                    path.unlink()
        return True


def entry_name(what: str, *parts: Any) -> str:
    """Return a file name for an entry from its kind and its parts."""
    text = json.dumps(jsonable(parts), sort_keys=True)
    return f"{hashlib.blake2b(text.encode(), digest_size=10).hexdigest()}.{what}"


def open_path(file: BinaryIO) -> str:
    """Return a path to an open file, which remains valid if the file is replaced in the
    meantime."""
    same = f"/proc/self/fd/{file.fileno()}"
    return same if os.path.exists(same) else str(file.name)


def _checksum(file: BinaryIO, key: Mapping[str, Any], size: int) -> bytes:
    """Return a hash of a key and of the first bytes of a file, which detects accidental damage."""
    text = json.dumps(jsonable(key), sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST)
    for start in range(0, size, _PIECE):
        digest.update(file.read(min(_PIECE, size - start)))
    return digest.digest()


def _open(path: Path) -> BinaryIO:
    """Open a regular file that belongs to this user or root.

    Checksums do not prevent attacks, engines trust the files they load, and data folders are often
    writable by others.
    """
    info = os.stat(path)  # before opening, which would block on a pipe
    if not stat.S_ISREG(info.st_mode) or (os.name != "nt" and info.st_uid not in (0, os.geteuid())):
        raise ValueError(f"{path} is not a regular file of this user")
    return open(path, "rb")


# The reader ---------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """The cache and the hash of rows on disk, and the name of their files, options and features."""

    cache: Cache
    fingerprint: str
    name: str


def stream_files(
    source: AnySource,
    *,
    cache: str | os.PathLike[str] | bool = True,
    external_memory: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    **options: Any,
) -> RankingDataset:
    """Read files and keep their features on disk; see `boostrank.stream` and `read_files`."""
    files = expand(source)
    paths = [path for path in map(path_of, files) if path is not None and os.path.isfile(path)]
    folder = None
    if cache and len(paths) == len(files):
        folder = Path(paths[0]).parent / FOLDER if cache is True else Path(cache)
    # The cache folder has space, unless it is not writable.
    store = None
    if folder is not None:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            store = RowStore(folder)
    data = read_files(files, store=store or RowStore(), chunk_bytes=chunk_bytes, **options)
    return_memory()  # buffers of the reader threads
    data.features.external = external_memory
    # Neither times of files nor options and versions of the reader matter to bins, but the rows.
    if folder is not None:
        name = entry_name("rows", paths, data.provenance.options, data.feature_names)
        data.features.origin = Origin(Cache(folder), data.fingerprint, name)
    return data
