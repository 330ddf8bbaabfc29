"""Streaming readers with features on disk and a cache.

One pass over the files writes their float32 cells to a temporary file (`boostrank.data.store`); labels and queries stay
in memory. Expensive results (labels, queries, width, warnings) are cached under the state of the files, the reader's
code and its options. A second run reads nothing unless it needs the cells.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, DataWarning, warn_user
from boostrank.core.machine import return_memory
from boostrank.core.queries import QueryIndex
from boostrank.data.assemble import RowPlaces, read_files
from boostrank.data.cache import FOLDER, Cache, entry_name, file_state, let_clock_pass, reader_version
from boostrank.data.categories import read_record, to_record
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.options import FeatureSpace, Progress
from boostrank.data.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX, find_sidecar
from boostrank.data.source import AnySource, OneSource, Reading, expand, format_of
from boostrank.data.store import RowStore, StoredFeatures
from boostrank.records import CacheNote, as_record

# Small chunks: the reader's buffers count towards the memory limit.
CHUNK_BYTES = 4 << 20


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
    features.constant_columns()
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
