"""Streaming reader: features in a temporary file, with a few blocks in memory, and a cache.

One pass over the files writes their float32 cells as they are, dense or sparse; labels and queries stay in memory.
Later readers (bins, hashes, predictions) take pieces of rows at the speed of the page cache. Expensive results (labels,
queries, width, warnings) are cached under the state of the files, the reader's code and its options. A second run reads
nothing unless it needs the cells.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, DataWarning, TrainingError, warn_user
from boostrank.core.machine import return_memory
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Int64Array
from boostrank.data.assemble import RowPlaces, read_files
from boostrank.data.blocks import Block, dense_matrix, sparse_matrix, zeroed
from boostrank.data.cache import FOLDER, Cache, entry_name, file_state, let_clock_pass, reader_version
from boostrank.data.categories import read_record, to_record
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.options import FeatureSpace, Progress
from boostrank.data.rows import InParts, constant_columns
from boostrank.data.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX, find_sidecar
from boostrank.data.source import AnySource, OneSource, Reading, expand, format_of
from boostrank.records import CacheNote, as_record

# Small chunks: the reader's buffers count towards the memory limit.
CHUNK_BYTES = 4 << 20


class _Place(NamedTuple):
    """Position of a block: its rows, and the width (dense) or number of cells (sparse)."""

    offset: int
    rows: int
    width: int
    cells: int


class RowStore:
    """Parsed blocks in an unnamed file in a folder, else the system's temporary one; removed when the process ends."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = os.fspath(folder or tempfile.gettempdir())
        self._file = tempfile.TemporaryFile(dir=self.folder, prefix=".boostrank-rows-", buffering=0)  # noqa: SIM115
        self._lock = threading.Lock()
        self._places: list[_Place] = []
        self._size = 0
        self._starts: Int64Array | None = None

    def put(self, block: Block) -> None:
        """Write the cells of the next block and drop them from the block."""
        if block.dense is not None:
            parts: list[npt.NDArray[Any]] = [block.dense]
            place = _Place(self._size, block.n_rows, block.dense.shape[1], 0)
        else:
            assert block.sparse is not None
            parts = list(block.sparse)
            place = _Place(self._size, block.n_rows, -1, parts[1].size)
        try:
            for part in parts:
                data = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
                while data:
                    count = self._file.write(data) or 0
                    self._size += count
                    data = data[count:]
        except OSError as error:
            raise TrainingError(
                f"{self.folder}: not enough space for the rows ({error.strerror}, {self._size / 1e9:.1f} GB so far); "
                "they take 4 bytes per cell until training ends; use a larger disk (--cache, or TMPDIR without a cache)"
            ) from error
        self._places.append(place)
        block.dense = block.sparse = None

    def features(self, shape: tuple[int, int], base: int, *, is_sparse: bool) -> StoredFeatures:
        """Return the rows of all blocks as features, after the last block."""
        return StoredFeatures(self, shape, base, is_sparse=is_sparse)

    @property
    def starts(self) -> Int64Array:
        """First row of each block, int64[B+1]."""
        if self._starts is None or self._starts.size != len(self._places) + 1:
            self._starts = np.cumsum([0, *(place.rows for place in self._places)], dtype=np.int64)
        return self._starts

    def read(self, i: int, first: int, stop: int) -> Block:
        """Return rows `first` to `stop` of block i."""
        place = self._places[i]
        rows = stop - first
        block = Block(np.zeros(rows), np.zeros(0, np.int64))
        if place.width >= 0:
            block.dense = self._array(place.offset + 4 * first * place.width, (rows, place.width), np.float32)
            return block
        ends = self._array(place.offset, place.rows, np.int64)
        begin, end = int(ends[first - 1]) if first else 0, int(ends[stop - 1])
        ids = place.offset + 8 * place.rows
        values = self._array(ids + 4 * (place.cells + begin), end - begin, np.float32)
        block.sparse = ends[first:stop] - begin, self._array(ids + 4 * begin, end - begin, np.int32), values
        return block

    def _array(self, offset: int, shape: int | tuple[int, ...], kind: npt.DTypeLike) -> npt.NDArray[Any]:
        out = zeroed(shape, kind)
        view = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        with self._lock:
            self._file.seek(offset)
            while view:
                count = self._file.readinto(view) or 0
                if count == 0:
                    raise TrainingError(f"{self.folder}: the temporary file of rows ends early")
                view = view[count:]
        return out


class StoredFeatures(InParts):
    """Features on disk, float32[N, d]: `features[a:b]` and `features[rows]` are read into memory.

    Args:
        store: storage of the rows, or a function that opens it on first use; with a cache it may not be needed.
        base: number of the first feature in the file.
        is_sparse: whether pieces are CSR matrices.
    """

    def __init__(
        self, store: RowStore | Callable[[], RowStore], shape: tuple[int, int], base: int, *, is_sparse: bool
    ) -> None:
        super().__init__()
        self.shape, self.base, self.is_sparse = shape, base, is_sparse
        self._source = store
        self._order: list[int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the text was read."""
        return isinstance(self._source, RowStore)

    @property
    def store(self) -> RowStore:
        """Storage of the rows; reads the text on first use."""
        if not isinstance(self._source, RowStore):
            self._source = self._source()
        return self._source

    @property
    def starts(self) -> Int64Array:
        return self.store.starts

    def part(self, i: int, first: int, stop: int) -> Any:
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
        """Return the same rows with the columns in this order."""
        shape = self.shape[0], len(columns)
        out = StoredFeatures(lambda: self.store, shape, self.base, is_sparse=self.is_sparse)
        out.external = self.external
        out._order = list(columns) if self._order is None else [self._order[c] for c in columns]
        return out


@dataclass(frozen=True)
class Origin:
    """Cache and key of rows on disk."""

    cache: Cache
    key: Mapping[str, Any]
    names: tuple[str, ...]
    refusals: list[str] = field(default_factory=list)
    """Reported cache failures, so that there is only one warning."""


def stream_files(
    source: AnySource,
    *,
    format: str = "auto",
    cache: str | os.PathLike[str] | bool = True,
    external_memory: bool = False,
    like: RankingDataset | FeatureSpace | None = None,
    labelled: bool = True,
    threads: int | None = None,
    progress: Progress = None,
    chunk_bytes: int = CHUNK_BYTES,
    **options: Any,
) -> RankingDataset:
    """Read files and keep their features on disk; see `RankingDataset.stream`."""
    files, spec = expand(source), format_of(source, format)
    reading = options | {"format": spec.name, "like": like, "labelled": labelled}
    reading |= {"threads": threads, "progress": progress, "chunk_bytes": chunk_bytes}
    checked = Reading(like=like, labelled=labelled, **options)
    paths = [os.fspath(one) for one in files if isinstance(one, (str, os.PathLike)) and os.path.isfile(one)]
    if cache is False or len(paths) < len(files) or checked.names:
        return _read(files, None, external_memory, reading)
    changed = checked.changed | {"format": spec.name, "keep_names": None}
    if spec.is_table:
        known = None if checked.known is None else to_record(checked.known)
        changed |= {"labelled": labelled, "columns": checked.roles, "known": known}
    folder = Path(paths[0]).parent / FOLDER if cache is True else Path(cache)
    let_clock_pass(paths)
    of_files = {"files": _states(paths), "reader": reader_version(), "options": changed, "like": _like(like)}
    origin = Origin(Cache(folder), of_files, tuple(paths))
    name = entry_name("data", *origin.names, origin.key["options"], origin.key["like"])
    entry = origin.cache.load(name, origin.key)
    if entry is not None:
        # Any missing or malformed part makes the entry invalid.
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
            return _remembered(entry.note, entry.arrays, origin, external_memory, reading)
    data = _read(files, origin, external_memory, reading)
    if _states(paths) == origin.key["files"]:
        note, arrays = _description(data)
        tell_refusal(origin, origin.cache.save(name, origin.key, note, arrays))
    return data


def tell_refusal(origin: Origin, saved: bool) -> None:
    """Warn once if the cache cannot be written; everything else works without it."""
    if not saved and not origin.refusals:
        origin.refusals.append(str(origin.cache.refused))
        warn_user(f"no cache in {origin.cache.folder}: {origin.cache.refused}", DataWarning)


def _like(like: RankingDataset | FeatureSpace | None) -> Any:
    """Return the parts of the training data that affect later files: numbering, names, query ids."""
    if not isinstance(like, RankingDataset):
        return None if like is None else [like.index_base, like.n_features, list(like.feature_names)]
    ids = like.queries.qid
    names = ids.tobytes() if ids.dtype.kind == "i" else "\n".join(map(str, ids.tolist())).encode()
    return [
        like.provenance.index_base,
        like.n_features,
        entry_name("names", like.feature_names),
        like.provenance.options.get("queries"),
        entry_name("ids", names.hex()),
    ]


def _states(paths: Sequence[str]) -> list[Any]:
    """Return the state of each file and of its side files."""
    states = []
    for path in paths:
        beside = [find_sidecar(path, suffixes) for suffixes in (GROUP_SUFFIXES, (WEIGHT_SUFFIX,))]
        states.append([path, file_state(path), *([one, file_state(one)] if one else None for one in beside)])
    return states


def _read(
    files: Sequence[OneSource], origin: Origin | None, external: bool, reading: Mapping[str, Any]
) -> RankingDataset:
    store = None
    if origin is not None:  # next to the cache if it is writable, since there is room; else in the temporary folder
        with contextlib.suppress(OSError):
            origin.cache.folder.mkdir(parents=True, exist_ok=True)
            store = RowStore(origin.cache.folder)
    data: RankingDataset = read_files(files, store=store or RowStore(), **reading)
    return_memory()  # buffers of the reader threads
    features: StoredFeatures = data.features
    features.origin, features.external = origin, external
    return data


def _description(data: RankingDataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (plain data, arrays) from which `_remembered` rebuilds the data set."""
    features: StoredFeatures = data.features
    constant_columns(features)
    features.fingerprint(data.labels, data.queries.ptr)
    arrays = {"labels": data.labels, "ptr": data.queries.ptr}
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
    }
    if data.queries.qid.dtype.kind == "i":
        arrays["qid"] = data.queries.qid
    else:
        note["qid"] = data.queries.qid.tolist()
    places = data.queries.places
    if isinstance(places, RowPlaces):
        note["places"] = places.record
        arrays |= {"place_rows": places.rows, "place_lines": places.lines}
    if data.queries.weights is not None:
        arrays["weights"] = data.queries.weights
    if data.document_weights is not None:
        arrays["document_weights"] = data.document_weights
    return note, arrays


def _remembered(
    note: dict[str, Any], arrays: dict[str, Any], origin: Origin, external: bool, reading: Mapping[str, Any]
) -> RankingDataset:
    as_record(CacheNote, note)
    rows, columns = note["shape"]
    if min(rows, columns) < 0 or not all(0 <= one < columns for one in note["known"]["constant"]):
        raise ValueError("entry with unknown columns")
    qid = arrays["qid"] if "qid" in arrays else np.array(note["qid"], dtype=object)
    places = RowPlaces.from_record(note["places"], arrays["place_rows"], arrays["place_lines"])
    queries = QueryIndex(
        arrays["ptr"], qid, arrays.get("weights"), document_weights=arrays.get("document_weights"), places=places
    )

    def open_store() -> RowStore:
        with warnings.catch_warnings():  # the first reading already warned
            warnings.simplefilter("ignore", DataWarning)
            again = _read(origin.names, origin, external, {**reading, "progress": None})
        if _states(origin.names) != origin.key["files"] or not np.array_equal(again.queries.ptr, queries.ptr):
            raise DataError(f"{origin.names[0]}: the data changed since they were first read; start again")
        return again.features.store  # type: ignore[no-any-return]

    features = StoredFeatures(open_store, (rows, columns), note["base"], is_sparse=note["is_sparse"])
    features.origin, features.external, features.known = origin, external, note["known"]
    provenance = Provenance(tuple(note["files"]), note["index_base"], note["reader"])
    categories = read_record(note["categories"])
    data = RankingDataset(features, arrays["labels"], queries, tuple(note["names"]), provenance, categories=categories)
    for words in note["known"]["warnings"]:
        warn_user(words, DataWarning)
    return data
