"""Feature storage in a temporary file, with a few blocks in memory.

The text is parsed once, into blocks, and their float32 cells are written as they are, dense or sparse. Later readers
(bins, hashes, predictions) take pieces of rows at the speed of the page cache.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.errors import TrainingError
from boostrank.core.types import Int64Array
from boostrank.data.blocks import Block, dense_matrix, sparse_matrix, zeroed
from boostrank.data.rows import Rows


@dataclass(frozen=True)
class _Place:
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


class StoredFeatures(Rows):
    """Features on disk, float32[N, d]: `features[a:b]` and `features[rows]` are read into memory.

    Args:
        store: storage of the rows, or a function that opens it on first use; with a cache it may not be needed.
        base: number of the first feature in the file.
        is_sparse: whether pieces are CSR matrices.
    """

    on_disk = True

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
        """Whether the text was read."""
        return isinstance(self._source, RowStore)

    @property
    def store(self) -> RowStore:
        """Storage of the rows; reads the text on first use."""
        if not isinstance(self._source, RowStore):
            self._source = self._source()
        return self._source

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Any:
        """Return float32 rows in memory, dense or CSR."""
        if isinstance(rows, slice):
            first, stop, step = rows.indices(self.shape[0])
            if step != 1:
                raise TypeError("rows on disk are indexed by start:stop or by row numbers")
            starts, blocks = self.store.starts, []
            while first < stop:
                i = int(np.searchsorted(starts, first, side="right")) - 1
                end = min(stop, int(starts[i + 1]))
                blocks.append(self.store.read(i, first - int(starts[i]), end - int(starts[i])))
                first = end
            return self._matrix(blocks)
        numbers = np.asarray(rows, dtype=np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.shape[0]:
            raise IndexError(f"there are {self.shape[0]} rows")
        order = np.argsort(numbers, kind="stable")
        owner, picked = np.searchsorted(self.store.starts, numbers[order], side="right") - 1, []
        for i in np.unique(owner).tolist():  # per block, read the range that contains its rows
            local = numbers[order][owner == i] - self.store.starts[i]
            block = self.store.read(i, int(local[0]), int(local[-1]) + 1)
            picked.append(self._matrix([block])[local - local[0]])
        if not picked:
            return self[0:0]
        stacked = sparse.vstack(picked, format="csr") if self.is_sparse else np.concatenate(picked)
        return stacked if np.array_equal(order, np.arange(order.size)) else stacked[np.argsort(order)]

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

    def _matrix(self, blocks: Sequence[Block]) -> Any:
        make = list[Block | None](blocks)
        columns = self.shape[1] if self._order is None else max(self._order, default=-1) + 1
        if self.is_sparse:
            matrix: Any = sparse_matrix(make, self.base, columns)
        else:
            matrix = dense_matrix(make, self.base, columns, threads=1)
        return matrix if self._order is None else matrix[:, self._order]
