"""Feature rows: arrays in memory (float32[N, d] in C order, or float32 CSR), rows in parts, and
lazy views (`Rows`)."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float32Array, Float64Array, Int64Array
from boostrank.kernels.jit import run_parallel

Data = Any
"""A `boostrank.data.dataset.RankingDataset`, whose module imports this one."""

_DOCUMENTS_A_BLOCK = 4096  # rows per thread at a time


class Rows(ABC):
    """Features that are not in memory: `rows[a:b]` and `rows[numbers]` are read or computed on
    access.

    Attributes:
        is_sparse: whether slices are CSR matrices.
        external: whether engines that support it also keep their bins on disk.
        origin: `files.store.Origin` of the rows, used to cache derived data; None if unknown.
        watch: function that is called with the number of finished rows and of all rows while bins
            are built.
    """

    shape: tuple[int, int]
    is_sparse: bool = False
    on_disk: bool = False
    external: bool = False
    origin: Any = None
    watch: Callable[[int, int], None] | None = None

    @cached_property
    def cache(self) -> dict[str, Any]:
        """The fingerprint, and the constant and missing columns, once they were computed."""
        return {}

    @abstractmethod
    def __getitem__(self, rows: Any) -> Any:
        """Return rows by slice or by numbers, as dense or CSR float32 in memory."""

    def __len__(self) -> int:
        return self.shape[0]

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, rows) in order, a few megabytes each, or one empty piece."""
        for start, stop in dense_batches(self) or [(0, 0)]:
            yield start, self[start:stop]


class InParts(Rows):
    """Rows in consecutive parts, such as blocks of a file or data sets, each of which is read in
    slices.

    Attributes:
        starts: the first row of each part, followed by the number of rows, int64[P+1].
    """

    on_disk = True
    starts: Int64Array

    @abstractmethod
    def part(self, i: int, first: int, stop: int) -> Any:
        """Return the rows from `first` to below `stop` of part i as float32, dense or CSR."""

    def __getitem__(self, rows: slice | Array) -> Any:
        order = np.arange(0)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step != 1:
                raise TypeError("rows on disk are indexed by start:stop or by row numbers")
            blocks = [self.part(*span) for span in spans(self.starts, slice(start, stop))]
        else:
            row_numbers = np.asarray(rows, dtype=np.int64)
            if row_numbers.size and not 0 <= row_numbers.min() <= row_numbers.max() < len(self):
                raise IndexError(f"there are {len(self)} rows")
            # Read the range of each part that contains the rows.
            order = np.argsort(row_numbers, kind="stable")
            ascending = row_numbers[order]
            blocks = []
            part_of_row = np.searchsorted(self.starts, ascending, side="right") - 1
            for i in np.unique(part_of_row).tolist():
                local = ascending[part_of_row == i] - self.starts[i]
                block = self.part(i, int(local[0]), int(local[-1]) + 1)
                blocks.append(block[local - local[0]])
        if not blocks:
            empty = np.zeros((0, self.shape[1]), np.float32)
            return sparse.csr_matrix(empty) if self.is_sparse else empty
        joined = joined_rows(blocks)
        is_ascending = np.array_equal(order, np.arange(order.size))
        return joined if is_ascending else joined[np.argsort(order)]


class View(Rows):
    """A lazy selection of rows, ascending if on disk. Data derived from a view are not cached for
    other runs."""

    def __init__(self, source: Any, rows: Int64Array, whole: Whole | None = None) -> None:
        self.of = source
        self.rows = rows
        self.whole = whole
        self.shape = rows.size, source.shape[1]
        self.is_sparse = is_sparse(source)
        self.on_disk = is_on_disk(source)
        self.external = self.on_disk and source.external

    @property
    def store(self) -> Any:
        """The store of the rows that are selected from."""
        return self.of.store

    def __getitem__(self, rows: Any) -> Any:
        return self.of[self.rows[rows]]

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """Yield the selected rows of each piece of a file in order, or pieces of rows in memory."""
        if not self.on_disk:
            yield from super().pieces()
            return
        first = 0
        for start, piece in self.of.pieces():
            stop = int(np.searchsorted(self.rows, start + piece.shape[0]))
            if stop > first:
                yield first, piece[self.rows[first:stop] - start]
            first = stop

    def in_order(self, columns: Sequence[int]) -> View:
        """Return a view of the same rows whose columns are in the given order."""
        return View(self.of.in_order(columns), self.rows)


class Stacked(InParts):
    """The features of several data sets with the same columns, concatenated without copying."""

    def __init__(self, sets: Sequence[Data], columns: int) -> None:
        self.sets = sets
        self.is_sparse = any(dataset.is_sparse for dataset in sets)
        self.starts = np.cumsum([0, *(dataset.n_documents for dataset in sets)])
        self.shape = int(self.starts[-1]), columns

    def part(self, i: int, first: int, stop: int) -> Any:
        """Return the rows from `first` to below `stop` of data set i."""
        return self.sets[i].features[first:stop]


@dataclass(eq=False)
class Whole:
    """A data set in memory that is shared by training runs on parts of it, without copies and with
    bins computed once.

    Attributes:
        bins: an engine's binned data, created with the parameters of the first training run.
        wider: the data set with the within-query columns that were last requested.
    """

    data: Data
    bins: Any = None
    wider: Whole | None = None

    def part(self, queries: ArrayLike) -> Data:
        """Return a selection of queries in the given order, whose features are a `View`."""
        index, rows = self.data.queries.take(queries)
        return self.data.of_rows(index, rows, self.view(rows))

    def view(self, rows: Int64Array) -> View:
        """Return the features of a selection of rows."""
        return View(self.data.features, rows, self)


def whole_of(features: Any) -> Whole | None:
    """Return the shared data set that the rows belong to, or None."""
    return getattr(features, "whole", None)


def is_sparse(features: Any) -> bool:
    """Return True for a CSR matrix and for rows that are read as CSR matrices."""
    return bool(getattr(features, "is_sparse", sparse.issparse(features)))


def is_on_disk(features: Any) -> bool:
    """Return True for rows on disk."""
    return getattr(features, "on_disk", False)


def dense_batches(features: Any) -> list[tuple[int, int]]:
    """Return row ranges that each take about 16 MiB in dense float32 form."""
    rows, columns = features.shape
    step = max(1, (4 << 20) // max(1, columns))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def dense_rows(features: Any, start: int, stop: int) -> Float32Array:
    """Return rows as a dense float32 array, in which absent sparse entries are zero."""
    return _dense(features[start:stop])


def _dense(rows: Any) -> Float32Array:
    dense = rows.toarray() if sparse.issparse(rows) else rows
    return np.ascontiguousarray(dense, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Selected columns of a data set as dense rows, in the model's order. Absent entries are zero
    or missing."""

    data: Data
    columns: Int64Array
    absent_is_missing: bool = False

    def __getitem__(self, rows: slice | Int64Array) -> Float32Array:
        """Return float32[n, c] in C order."""
        selected = self.data.features[rows][:, self.columns]
        dense = _dense(selected)
        if self.absent_is_missing and sparse.issparse(selected):
            selected.data = np.ones_like(selected.data)
            dense[selected.toarray() == 0] = np.nan
        return dense

    def blocks(self) -> list[tuple[int, int]]:
        """Return ranges of queries with a few thousand documents each."""
        return self.data.queries.blocks(_DOCUMENTS_A_BLOCK)

    def constant_within_queries(self, threads: int) -> Int64Array:
        """Return the positions of the columns that are constant within every query."""
        ptr = self.data.queries.ptr

        def varies(query_span: tuple[int, int]) -> Float64Array:
            bounds = ptr[query_span[0] : query_span[1] + 1]
            rows = self[bounds[0] : bounds[-1]]
            starts = bounds[(bounds > bounds[0]) & (bounds < bounds[-1])] - bounds[0]
            differs = rows[1:] != rows[:-1]
            differs &= ~(np.isnan(rows[1:]) & np.isnan(rows[:-1]))
            differs[starts - 1] = False  # between queries
            return differs.any(axis=0)

        variations = run_parallel(varies, self.blocks(), threads)
        return np.flatnonzero(~np.any([np.zeros(self.columns.size), *variations], axis=0))


def spans(starts: Int64Array, rows: slice) -> list[tuple[int, int, int]]:
    """Return (part, first, stop) for each part of a slice, where part i begins at row starts[i]."""
    first, stop = np.clip([[rows.start], [rows.stop]], starts[:-1], starts[1:]) - starts[:-1]
    parts = np.flatnonzero(first < stop).tolist()
    return [(part, int(first[part]), int(stop[part])) for part in parts]


def joined_rows(rows: Sequence[Any]) -> Any:
    """Concatenate rows, into a CSR matrix if any of them are sparse."""
    if len(rows) == 1:
        return rows[0]
    if any(sparse.issparse(block) for block in rows):
        return sparse.vstack([sparse.csr_matrix(block) for block in rows], format="csr")
    return np.concatenate(rows)


def joined_arrays(
    arrays: Sequence[Array | None], sizes: Sequence[int], fill: float | str
) -> Array | None:
    """Concatenate arrays of these sizes, with `fill` in place of one that is None. Return None if
    all are.
    """
    kinds = [array.dtype for array in arrays if array is not None]
    if not kinds:
        return None
    pairs = zip(arrays, sizes, strict=True)
    parts = [np.full(n, fill, kinds[0]) if array is None else array for array, n in pairs]
    return np.concatenate(parts)


def join_queries(indices: Sequence[QueryIndex], ids: Array) -> QueryIndex:
    """Concatenate the queries of several data sets, under the given ids."""
    n_queries = list(map(len, indices))
    n_rows = [index.n_documents for index in indices]
    # The zero before the sizes is all that there is without data sets.
    sizes = [np.zeros(1, np.int64), *(index.sizes for index in indices)]
    return QueryIndex(
        np.cumsum(np.concatenate(sizes)),
        ids,
        joined_arrays([index.weights for index in indices], n_queries, 1.0),
        k=joined_arrays([index.k for index in indices], n_queries, 0),
        document_weights=joined_arrays([index.document_weights for index in indices], n_rows, 1.0),
        words=joined_arrays([index.words for index in indices], n_queries, ""),
    )


def _pieces_of(features: Any) -> Iterable[Any]:
    if not isinstance(features, Rows):
        return [features]
    return (piece for _, piece in features.pieces())


def constant_columns(features: Any) -> list[int]:
    """Return the columns that have the same value in every row, or only missing values, of at least
    one row."""
    cached = getattr(features, "cache", {})
    if "constant" not in cached:
        rows, columns = features.shape
        lowest = np.full(columns, np.inf, np.float32)
        highest = np.full(columns, -np.inf, np.float32)
        n_missing = np.zeros(columns, np.int64)
        for piece in _pieces_of(features):
            n_missing += missing_in(piece)
            if sparse.issparse(piece):  # absent entries are zero
                piece = sparse.vstack([piece.nanmin(axis=0), piece.nanmax(axis=0)]).toarray()
            lowest = np.fmin(lowest, np.fmin.reduce(piece, axis=0))
            highest = np.fmax(highest, np.fmax.reduce(piece, axis=0))
        cached["missing"] = np.flatnonzero(n_missing).tolist()
        is_constant = ((lowest == highest) & (n_missing == 0)) | (n_missing == rows)
        cached["constant"] = np.flatnonzero(is_constant).tolist()
    return list(cached["constant"])


def fingerprint(features: Any, labels: Float64Array, ptr: Int64Array) -> str:
    """Return a hash of features, labels and query boundaries: of a part of a shared data set, from
    its hash and the row numbers; of stacked data sets, from theirs."""
    if isinstance(features, Stacked):
        return fingerprint_of([dataset.fingerprint for dataset in features.sets])
    whole = whole_of(features)
    if whole is not None:
        content = whole.data.fingerprint.encode() + features.rows.tobytes() + ptr.tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()
    cached = getattr(features, "cache", {})

    def add(array: Array) -> None:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(features.shape).encode())
    add(labels)
    add(ptr)
    key = digest.hexdigest()  # of these labels, which may differ from the last call
    if key in cached:
        return str(cached[key])
    if is_sparse(features):
        n_stored = 0
        add(np.zeros(1, np.int64))
        for piece in _pieces_of(features):
            add(piece.indptr[1:].astype(np.int64) + n_stored)
            n_stored += int(piece.indptr[-1])
        for piece in _pieces_of(features):
            add(piece.indices.astype(np.int32, copy=False))
        for piece in _pieces_of(features):
            add(piece.data)
    else:
        for piece in _pieces_of(features):
            add(piece)
    return str(cached.setdefault(key, digest.hexdigest()))


def fingerprint_of(sets: Sequence[str]) -> str:
    """Return a hash of several data sets from their hashes. It does not depend on their order."""
    return hashlib.blake2b("".join(sorted(sets)).encode(), digest_size=16).hexdigest()


def missing_in(features: Any) -> Int64Array:
    """Return the number of missing values in each column, int64[d]."""
    n_missing = np.zeros(features.shape[1], np.int64)
    for first_row in range(0, features.shape[0], 1 << 16):
        block = features[first_row : first_row + (1 << 16)]
        if sparse.issparse(block):
            n_missing += np.bincount(block.indices[np.isnan(block.data)], minlength=n_missing.size)
        else:
            n_missing += np.count_nonzero(np.isnan(block), axis=0)
    return n_missing


def missing_columns(features: Any) -> list[int]:
    """Return the columns with missing values, ascending. Rows on disk know them once they were
    read."""
    cached = getattr(features, "cache", {})
    if "missing" not in cached:
        n_missing = sum(missing_in(piece) for piece in _pieces_of(features))
        cached["missing"] = np.flatnonzero(n_missing).tolist()
    return list(cached["missing"])
