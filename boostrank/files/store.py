"""Streaming reader that keeps features in a temporary file, a few blocks in memory, and labels and
queries in a cache.

One pass over the files writes their float32 values, dense or sparse. Labels and queries stay in
memory. Later steps (bins, hashes, predictions) read pieces of rows at the speed of the page cache.
Labels, queries, width and warnings are cached with a key that consists of the state of the files,
the reader's code and its options, so a second run reads the text only if it needs the features.

A cache entry is one file: NumPy's npz with the arrays and a header (JSON with key and note), then a
checksum. It may refer to one large file of another library, whose length and checksum are in the
header and are verified first. Both files are written under new names and synced before the entry is
renamed into place, so a killed run leaves the old or the new entry. If two runs write the same
entry, the last one wins, and both are correct. An entry is ignored if it has another key, version,
machine or user, or is truncated or damaged. Entries contain no code (no pickles).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import stat
import sys
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import msgspec
import numpy as np

from boostrank.core.errors import BoostrankError, DataError, DataWarning, TrainingError, warn_user
from boostrank.core.files import path_of, remove_leftovers, write_atomically
from boostrank.core.machine import return_memory
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Int64Array
from boostrank.data.categories import read_record, to_record
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.rows import InParts, constant_columns
from boostrank.files.assemble import RowPlaces, read_files
from boostrank.files.blocks import Block, dense_matrix, sparse_matrix, zeroed
from boostrank.files.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX, find_sidecar
from boostrank.files.source import (
    AnySource,
    OneSource,
    Progress,
    Reading,
    expand,
    format_of,
    reading_of,
)
from boostrank.records import BigFile, CacheHeader, CacheNote, as_record, from_json, jsonable

FOLDER = ".boostrank-cache"

_HEADER = "header"  # name of the array that contains the header
_DIGEST = 32
# Unreferenced large files younger than this may still be in use by another run.
_ORPHAN_AFTER = 3600.0
# Resolution of file time stamps. Changes within one step are not visible.
_CLOCK_STEP = 0.02
# What a damaged or hostile entry raises.
_INVALID = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    EOFError,
    RuntimeError,
    MemoryError,
    BadZipFile,
    zlib.error,
)
# Chunks are small because the buffers of the reader count towards the memory limit.
CHUNK_BYTES = 4 << 20


# Rows on disk -------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """The position of a block in the file, its number of rows, and its width (dense) or number of
    values (sparse)."""

    offset: int
    rows: int
    width: int
    cells: int


class RowStore:
    """Parsed blocks in an unnamed temporary file, which is removed when the process ends."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = os.fspath(folder or tempfile.gettempdir())
        make_file = tempfile.TemporaryFile
        self._file = make_file(dir=self.folder, prefix=".boostrank-rows-", buffering=0)
        self._lock = threading.Lock()
        self._places: list[_Place] = []
        self._starts, self._size = [0], 0

    def put(self, block: Block) -> None:
        """Write the features of the next block, and remove them from the block."""
        if block.dense is not None:
            parts: list[Array] = [block.dense]
            position = _Place(self._size, block.n_rows, block.dense.shape[1], 0)
        else:
            assert block.sparse is not None
            parts = list(block.sparse)
            position = _Place(self._size, block.n_rows, -1, parts[1].size)
        try:
            for part in parts:
                data = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
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
        self._places.append(position)
        self._starts.append(self._starts[-1] + position.rows)
        block.dense = block.sparse = None

    def features(self, shape: tuple[int, int], base: int, *, is_sparse: bool) -> StoredFeatures:
        """Return the rows of all blocks as features, after the last block."""
        return StoredFeatures(self, shape, base, is_sparse=is_sparse)

    @property
    def starts(self) -> Int64Array:
        """The first row of each block, followed by the number of rows, int64[B+1]."""
        return np.array(self._starts, np.int64)

    def read(self, i: int, first: int, stop: int) -> Block:
        """Return rows `first` to `stop` of block i."""
        position, rows = self._places[i], stop - first
        block = Block(np.zeros(rows), np.zeros(0, np.int64))
        if position.width >= 0:
            block.dense = self._array(
                position.offset + 4 * first * position.width, (rows, position.width), np.float32
            )
            return block
        ends = self._array(position.offset, position.rows, np.int64)
        begin, end = int(ends[first - 1]) if first else 0, int(ends[stop - 1])
        ids = position.offset + 8 * position.rows
        values = self._array(ids + 4 * (position.cells + begin), end - begin, np.float32)
        block.sparse = (
            ends[first:stop] - begin,
            self._array(ids + 4 * begin, end - begin, np.int32),
            values,
        )
        return block

    def _array(self, offset: int, shape: int | tuple[int, ...], kind: Any) -> Array:
        out = zeroed(shape, kind)
        view = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        with self._lock:
            self._file.seek(offset)
            while view:
                count = self._file.readinto(view) or 0
                if count == 0:
                    raise TrainingError(f"{self.folder}: the temporary file of rows is truncated")
                view = view[count:]
        return out


class StoredFeatures(InParts):
    """Features on disk, float32[N, d]. The slices `features[a:b]` and `features[rows]` are read
    into memory.

    Args:
        store: the rows, or a function that reads the text when rows are first used, which a cache
            may make unnecessary.
        base: number of the first feature in the file.
    """

    def __init__(
        self,
        store: RowStore | Callable[[], RowStore],
        shape: tuple[int, int],
        base: int,
        *,
        is_sparse: bool,
    ) -> None:
        super().__init__()
        self.shape, self.base, self.is_sparse = shape, base, is_sparse
        self._source = store
        self._order: list[int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the text has been read."""
        return isinstance(self._source, RowStore)

    @property
    def store(self) -> RowStore:
        """The rows, for which the text is read on first use."""
        if not isinstance(self._source, RowStore):
            self._source = self._source()
        return self._source

    @property
    def starts(self) -> Int64Array:
        """The first row of each stored block, followed by the number of rows, int64[P+1]."""
        return self.store.starts

    def part(self, i: int, first: int, stop: int) -> Any:
        """Read rows of block i from disk, with the columns in the model's order."""
        columns = self.shape[1] if self._order is None else max(self._order, default=-1) + 1
        block: list[Block | None] = [self.store.read(i, first, stop)]
        if self.is_sparse:
            matrix: Any = sparse_matrix(block, self.base, columns)
        else:
            matrix = dense_matrix(block, self.base, columns, threads=1)
        return matrix if self._order is None else matrix[:, self._order]

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, dense or CSR rows) in order, a few megabytes each."""
        for first, stop in pairwise(self.store.starts.tolist()):
            yield first, self[first:stop]

    def in_order(self, columns: Sequence[int]) -> StoredFeatures:
        """Return the rows with the columns in the given order."""
        shape = self.shape[0], len(columns)
        out = StoredFeatures(lambda: self.store, shape, self.base, is_sparse=self.is_sparse)
        out.external = self.external
        out._order = list(columns) if self._order is None else [self._order[c] for c in columns]
        return out


# The cache ----------------------------------------------------------------------------------------


@dataclass
class Entry:
    """The contents of an entry: plain data, arrays by name, and the opened and verified large file
    if there is one."""

    note: dict[str, Any]
    arrays: dict[str, Array]
    big: BinaryIO | None = None

    def big_path(self) -> str:
        """Return a path to the verified file, which remains valid if the file is replaced in the
        meantime."""
        assert self.big is not None
        same = f"/proc/self/fd/{self.big.fileno()}"
        return same if os.path.exists(same) else str(self.big.name)


@dataclass
class Cache:
    """Cache entries in one folder, which is created when the first entry is written.

    Args:
        refused: reason why writing failed; None if it did not fail.
    """

    folder: Path
    refused: str | None = field(default=None, init=False)

    def load(self, name: str, key: Mapping[str, Any]) -> Entry | None:
        """Return the entry with this name if its key matches exactly and the entry is intact."""
        try:
            with _open(self.folder / name) as entry:
                header, arrays = _read_entry(entry)
            if header.key != jsonable(key):
                return None
            if header.big is None:
                return Entry(header.note, arrays)
            file = _open(self.folder / Path(header.big.name).name)
        except _INVALID:
            return None
        if (
            os.fstat(file.fileno()).st_size != header.big.size
            or _checksum(file) != header.big.checksum
        ):
            file.close()
            return None
        return Entry(header.note, arrays, file)

    def save(
        self,
        name: str,
        key: Mapping[str, Any],
        note: Mapping[str, Any],
        arrays: Mapping[str, Array],
        write_big: Callable[[str], bool] | None = None,
    ) -> bool:
        """Write or replace an entry. Return False on failure, and store the reason in `refused`.

        The contents must depend only on the key. `write_big` writes the large file and returns True
        if it is complete.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder / name)
            with _big_file(self.folder, name, write_big) as big:
                previous = None if write_big is None else _big_name(self.folder / name)
                header = CacheHeader(key=jsonable(key), note=dict(note), big=big)
                text = json.dumps(msgspec.to_builtins(header)).encode()
                contents: dict[str, Any] = {_HEADER: np.frombuffer(text, np.uint8), **arrays}
                buffer = io.BytesIO()
                np.savez(buffer, **contents)
                body = buffer.getvalue()
                write_atomically(
                    self.folder / name, body + hashlib.blake2b(body, digest_size=_DIGEST).digest()
                )
        except (OSError, BoostrankError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if self.refused is None:  # everything else works without a cache
                self.refused = getattr(cause, "strerror", None) or str(error)
                warn_user(f"no cache in {self.folder}: {self.refused}")
            return False
        now, keep = time.time(), None if big is None else big.name
        for path in (
            self.folder.glob(f"{name}.*.big") if write_big is not None else ()
        ):  # unreferenced files
            with contextlib.suppress(OSError):
                if path.name != keep and (
                    path.name == previous or now - path.stat().st_mtime > _ORPHAN_AFTER
                ):
                    path.unlink()
        return True


def entry_name(what: str, *parts: Any) -> str:
    """Return a file name for an entry from its kind and its parts."""
    text = json.dumps(jsonable(parts), sort_keys=True)
    return f"{hashlib.blake2b(text.encode(), digest_size=10).hexdigest()}.{what}"


def file_state(path: str) -> list[Any] | None:
    """Return the size, modification time, change time and inode of a file, or None if it does not
    exist."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]


def let_clock_pass(paths: list[str]) -> None:
    """Wait until rewriting these files would change their time stamps."""
    for path in paths:
        with contextlib.suppress(OSError):
            # Ctime cannot be set, unlike mtime, which copies may preserve.
            age = time.time() - os.stat(path).st_ctime
            if 0 <= age < _CLOCK_STEP:
                time.sleep(_CLOCK_STEP)


@cache
def reader_version() -> str:
    """Return a digest of the parsing code, with which changed code ignores older entries."""
    package = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    others = ("core/files.py", "core/text.py", "core/queries.py", "kernels/intrinsics.py")
    sources = [
        path for room in ("data", "files") for path in sorted((package / room).rglob("*.py"))
    ]
    for path in [*sources, *(package / name for name in others)]:
        digest.update(path.name.encode() + path.read_bytes())
    return f"{digest.hexdigest()} {sys.byteorder}"


def _read_entry(file: BinaryIO) -> tuple[CacheHeader, dict[str, Array]]:
    """Return the header and the arrays of an entry, or raise one of `_INVALID` if it is damaged."""
    data = file.read()
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise ValueError("not a cache entry, or a damaged one")
    with ZipFile(io.BytesIO(body)) as archive:
        if any(member.compress_type != ZIP_STORED for member in archive.infolist()):
            raise ValueError("a member is compressed, so that its size is not bounded by the entry")
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as entry:
            arrays = dict(entry.items())
        header = arrays.pop(_HEADER).tobytes()
    except Exception as error:  # NumPy's reader of headers raises many kinds
        raise ValueError(f"not a cache entry: {error}") from error
    if any(array.dtype.kind not in "biufS" for array in arrays.values()):
        raise ValueError("not a cache entry: an array of another type")
    return as_record(CacheHeader, from_json(header)), arrays


@contextmanager
def _big_file(
    folder: Path, name: str, write: Callable[[str], bool] | None
) -> Iterator[BigFile | None]:
    """Write, sync and checksum the large file, and remove it if the block fails."""
    if write is None:
        yield None
        return
    path = folder / f"{name}.{secrets.token_hex(6)}.big"
    try:
        path.touch(exist_ok=False)  # raises the system's reason, which engines do not report
        path.unlink()
        if not write(str(path)):
            raise OSError(0, "the file is incomplete: the disk may be full")
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            yield BigFile(
                name=path.name, size=os.fstat(file.fileno()).st_size, checksum=_checksum(file)
            )
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _checksum(file: Any) -> str:
    """Return a hash of the file, which detects accidental damage."""
    file.seek(0)
    digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    file.seek(0)
    return digest.hexdigest()


def _open(path: Path) -> BinaryIO:
    """Open a regular file that belongs to this user or root.

    Checksums do not prevent attacks, engines trust the files they load, and data folders are often
    writable by others.
    """
    info = os.stat(path)  # before opening, which would block on a pipe
    if not stat.S_ISREG(info.st_mode) or (os.name != "nt" and info.st_uid not in (0, os.geteuid())):
        raise ValueError(f"{path} is not a regular file of this user")
    return open(path, "rb")


def _big_name(entry: Path) -> str | None:
    """Return the name of an entry's large file, or None if the entry has none or cannot be read."""
    try:
        with _open(entry) as file:
            big = _read_entry(file)[0].big
    except _INVALID:
        return None
    return None if big is None else big.name


# The reader ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """The cache, key and file names of rows on disk."""

    cache: Cache
    key: Mapping[str, Any]
    names: tuple[str, ...]


def stream_files(
    source: AnySource,
    *,
    format: str = "auto",
    cache: str | os.PathLike[str] | bool = True,
    external_memory: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    chunk_bytes: int = CHUNK_BYTES,
    **options: Any,
) -> RankingDataset:
    """Read files and keep their features on disk; see `boostrank.stream`."""
    files, spec = expand(source), format_of(source, format)
    reading = {"threads": threads, "progress": progress, "chunk_bytes": chunk_bytes}
    reading |= options | {"format": spec.name}
    checked = reading_of(spec, **options)
    paths = [path for path in map(path_of, files) if path is not None and os.path.isfile(path)]
    if cache is False or len(paths) < len(files) or checked.names:
        return _read(files, None, external_memory, reading)
    changed = checked.changed | {"format": spec.name, "keep_names": None}
    if spec.is_table:
        trained = checked.trained_categories
        categories = None if trained is None else to_record(trained)
        changed |= {"labelled": checked.labelled, "columns": checked.roles, "known": categories}
    folder = Path(paths[0]).parent / FOLDER if cache is True else Path(cache)
    let_clock_pass(paths)
    of_files = {
        "files": _states(paths),
        "reader": reader_version(),
        "options": changed,
        "like": _like(checked),
    }
    origin = Origin(Cache(folder), of_files, tuple(paths))
    name = entry_name("data", *origin.names, origin.key["options"], origin.key["like"])
    entry = origin.cache.load(name, origin.key)
    if entry is not None:
        # A missing or malformed part makes the entry invalid.
        with contextlib.suppress(
            ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError
        ):
            return _remembered(entry.note, entry.arrays, origin, external_memory, reading)
    data = _read(files, origin, external_memory, reading)
    if _states(paths) == origin.key["files"]:
        note, arrays = _description(data)
        origin.cache.save(name, origin.key, note, arrays)
    return data


def _like(reading: Reading) -> Any:
    """Return what later files depend on in the training data: feature numbers, feature names and
    query ids."""
    space = reading.space
    if space is None:
        return None
    ids = sorted(map(str, reading.training_qids))
    return [
        space.index_base,
        space.n_features,
        entry_name("names", space.feature_names),
        entry_name("ids", ids),
    ]


def _states(paths: Sequence[str]) -> list[Any]:
    """Return the state of each file and its side files."""
    states = []
    for path in paths:
        sides = [find_sidecar(path, suffixes) for suffixes in (GROUP_SUFFIXES, (WEIGHT_SUFFIX,))]
        states.append([[file, file_state(file)] for file in (path, *sides) if file is not None])
    return states


def _read(
    files: Sequence[OneSource], origin: Origin | None, external: bool, reading: Mapping[str, Any]
) -> RankingDataset:
    store = None
    if origin is not None:  # in the cache folder, which has space, unless it is not writable
        with contextlib.suppress(OSError):
            origin.cache.folder.mkdir(parents=True, exist_ok=True)
            store = RowStore(origin.cache.folder)
    data: RankingDataset = read_files(files, store=store or RowStore(), **reading)
    return_memory()  # buffers of the reader threads
    features: StoredFeatures = data.features
    features.origin, features.external = origin, external
    return data


def _description(data: RankingDataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return plain data and arrays from which `_remembered` rebuilds the data set."""
    features, queries, places = data.features, data.queries, data.queries.places
    assert isinstance(features, StoredFeatures) and isinstance(places, RowPlaces)  # noqa: PT018
    constant_columns(features)
    features.fingerprint(data.labels, queries.ptr)
    note: dict[str, Any] = {
        "shape": list(features.shape),
        "base": features.base,
        "is_sparse": features.is_sparse,
        "known": features.known,
        "names": list(data.feature_names),
        "files": list(data.provenance.files),
        "index_base": data.provenance.index_base,
        "reader": dict(data.provenance.options),
        "categories": to_record(data.categories),
        "places": places.files,
    }
    arrays = {
        "labels": data.labels,
        "ptr": queries.ptr,
        "place_rows": places.rows,
        "place_lines": places.lines,
        "weights": queries.weights,
        "document_weights": queries.document_weights,
        "qid": queries.qid,
    }
    if queries.qid.dtype.kind != "i":
        note["qid"] = arrays.pop("qid").tolist()  # type: ignore[union-attr]
    return note, {name: array for name, array in arrays.items() if array is not None}


def _remembered(
    note: dict[str, Any],
    arrays: dict[str, Any],
    origin: Origin,
    external: bool,
    reading: Mapping[str, Any],
) -> RankingDataset:
    as_record(CacheNote, note)
    rows, columns = note["shape"]
    if not all(
        column < columns for name in ("constant", "missing") for column in note["known"][name]
    ):
        raise ValueError("the entry has unknown columns")
    qid = arrays["qid"] if "qid" in arrays else np.array(note["qid"], dtype=object)
    places = RowPlaces(note["places"], arrays["place_rows"], arrays["place_lines"])
    queries = QueryIndex(
        arrays["ptr"],
        qid,
        arrays.get("weights"),
        document_weights=arrays.get("document_weights"),
        places=places,
    )

    def open_store() -> RowStore:
        with warnings.catch_warnings():  # the first reading already warned
            warnings.simplefilter("ignore", DataWarning)
            again = _read(origin.names, origin, external, {**reading, "progress": None})
        if _states(origin.names) != origin.key["files"] or not np.array_equal(
            again.queries.ptr, queries.ptr
        ):
            raise DataError(
                f"{origin.names[0]}: the data changed after they were first read; start again"
            )
        return again.features.store  # type: ignore[no-any-return]

    features = StoredFeatures(
        open_store, (rows, columns), note["base"], is_sparse=note["is_sparse"]
    )
    features.origin, features.external, features.known = origin, external, note["known"]
    provenance = Provenance(tuple(note["files"]), note["index_base"], note["reader"])
    categories = read_record(note["categories"])
    data = RankingDataset(
        features, arrays["labels"], queries, tuple(note["names"]), provenance, categories=categories
    )
    for words in note["known"]["warnings"]:
        warn_user(words)
    return data
