"""Blocks of parsed rows, common to all formats, and their conversion to matrices.

A block counts events in slots of an int64 array, which compiled code can fill.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from scipy import sparse

from boostrank.core.errors import FileFormatError
from boostrank.core.types import Array, Float32Array, Float64Array, Int64Array
from boostrank.kernels.jit import I1, INT, entry_point, run_parallel

Int32Array = npt.NDArray[np.int32]

# Contiguous arrays in signatures: uint8, int32, float32; 2-D int64, float32.
B1, N1, S1, I2, S2 = (
    types.uint8[::1],
    types.int32[::1],
    types.float32[::1],
    types.int64[:, ::1],
    types.float32[:, ::1],
)

# Slots of `Block.counts`: numbers of rows, lines, runs and values, in the whole block or of one
# kind.
ROWS, LINES, BLANK_LINES, BAD_ROWS, DESCENDING_ROWS, RUNS = range(6)
CELLS, BEYOND, MISSING, INFINITIES, REPEATED_CELLS = range(6, 11)
# First line with descending feature numbers, first with feature 0, first with the largest number,
# and this number.
DESCENDING_LINE, ZERO_LINE, TOP_LINE, TOP_ID = range(11, 15)
# State of the text parser: numbers that Python must parse, and the position of the last query id.
UNDECIDED, RESOLVED, QID_START, QID_END, N_STATE = range(15, 20)
# Slots that are summed over the blocks of a file.
ADDED_UP = [
    CELLS,
    BEYOND,
    BLANK_LINES,
    DESCENDING_ROWS,
    MISSING,
    INFINITIES,
    BAD_ROWS,
    REPEATED_CELLS,
]
BAD_KEPT = 16  # refused rows described per block

# Columns of `Block.runs`: first row and line of a query, position of its id in the text, and the id
# if an integer.
RUN_ROW, RUN_LINE, RUN_START, RUN_END, RUN_IS_INTEGER, RUN_ID, N_RUN = range(7)

BEYOND_FLOAT32 = (
    "does not fit in float32 (largest 3.4028235e38): rescale the feature, or use --inf missing"
)
INT32_MAX = np.iinfo(np.int32).max
_MAPPED_FROM = 1 << 20


def zeroed(shape: int | tuple[int, ...], kind: npt.DTypeLike) -> Array:
    """Return an array of zeros whose memory is returned to the operating system when the array is
    freed.

    `malloc` would keep the freed memory of all blocks, which together are as large as the data set.
    """
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    if size < _MAPPED_FROM:
        return np.zeros(shape, kind)
    return np.frombuffer(mmap.mmap(-1, size, access=mmap.ACCESS_COPY), kind).reshape(shape)


@dataclass(frozen=True)
class Fault:
    """The reason why a row cannot be read.

    Args:
        line: line or row number in the block.
        reason: error message.
        column: byte position in the line, starting at 1; 0 means the whole line.
    """

    line: int
    reason: str
    column: int = 0

    def error(self, file: str, lines_before: int, *, by_row: bool = False) -> FileFormatError:
        """Return the error to raise, given the number of lines or rows before the block."""
        line = lines_before + self.line
        if by_row:
            return FileFormatError(f"row {line}: {self.reason}", file=file)
        return FileFormatError(self.reason, file=file, line=line, column=self.column)


def no_counts() -> Int64Array:
    """Return the counts of a block without rows."""
    return np.zeros(N_STATE, np.int64)


@dataclass
class Block:
    """Consecutive rows of a file, dense or sparse. The columns are feature numbers.

    Args:
        labels: float64[n].
        counts: int64[N_STATE].
        lines: int64[n], line or row number in the block, starting at 1.
        dense: float32[n, w].
        sparse: int64[n], end of each row in the arrays that follow; int32[c], feature numbers;
            float32[c], values.
        runs: int64[r, N_RUN], one row per run of rows with the same query id.
        names: text query ids, by run.
        weights: float64[n], from a weight column.
        others: columns that the gain uses but that are not features, float64[n], by name.
        categories: categories in this block, by column. `dense` contains positions in this list
            until they are coded.
        coarse: names of columns with integers that are rounded in float32.
        document_names: object[n], name of each document as text, if requested.
        words: query texts by query id, if requested.
        bad: the first BAD_KEPT refused rows.
        unterminated: whether the last line has no newline.
        size: size of the text in bytes.
        result: return value of the function `then` that was passed to `Source.blocks`.
        text: unparsed rows for the file tools, as a memoryview of whole lines or as a record batch.
        ends: int64[n], end of each row in `text`, in bytes or rows.
        head: file header, which is a line or a schema.
    """

    labels: Float64Array
    counts: Int64Array = field(default_factory=no_counts)
    lines: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    dense: Float32Array | None = None
    sparse: tuple[Int64Array, Int32Array, Float32Array] | None = None
    runs: Int64Array = field(default_factory=lambda: np.zeros((0, N_RUN), np.int64))
    names: dict[int, bytes] = field(default_factory=dict)
    weights: Float64Array | None = None
    others: Mapping[str, Float64Array] = field(default_factory=dict)
    categories: dict[int, list[Any]] = field(default_factory=dict)
    coarse: tuple[str, ...] = ()
    document_names: Array | None = None
    words: dict[str, str] = field(default_factory=dict)
    bad: list[Fault] = field(default_factory=list)
    unterminated: bool = False
    size: int = 0
    result: Any = None
    text: Any = None
    ends: Any = None
    head: Any = b""

    @classmethod
    def from_rows(
        cls, labels: Float64Array, features: Float32Array, ids: Array | None, lines: Int64Array
    ) -> Block:
        """Return a block of rows with finite labels, query ids (int64, or objects: int and str) and
        ascending lines."""
        block = cls(labels, no_counts(), lines, features)
        block.counts[[CELLS, LINES]] = features.size, lines[-1] if lines.size else 0
        block.counts[MISSING] = np.count_nonzero(np.isnan(features))
        block.counts[TOP_ID], block.counts[TOP_LINE] = max(features.shape[1] - 1, 0), 1
        if ids is not None and labels.size:
            block.runs, block.names = runs_of(ids, lines)
        return block

    @property
    def n_rows(self) -> int:
        """Number of readable rows."""
        return int(self.labels.size)

    def row_ids(self) -> Array | None:
        """Return the query id of each row, int or str, or None if rows have no ids. Call this
        before `Totals.count`."""
        if not len(self.runs):
            return None
        ids = self.runs[:, RUN_ID].astype(object)
        for i, name in self.names.items():
            ids[i] = name.decode()
        return np.repeat(ids, np.diff(self.runs[:, RUN_ROW], append=self.n_rows))

    def cells(self) -> tuple[Int64Array, Int32Array, Float32Array]:
        """Convert the block to sparse form, without +0.0, and return `sparse`."""
        if self.dense is not None:
            stored = self.dense.view(np.uint32) != 0
            ends = np.cumsum(np.count_nonzero(stored, axis=1), dtype=np.int64)
            self.sparse = ends, np.nonzero(stored)[1].astype(np.int32), self.dense[stored]
            self.dense = None
        return self.sparse  # type: ignore[return-value]

    def tile(self, first: int, stop: int, numbers: Int64Array) -> Float32Array:
        """Return the features with the given numbers, float32[stop - first, c] in C order."""
        if self.dense is not None:
            out = np.take(self.dense[first:stop], numbers, axis=1, mode="clip")
            out[:, numbers >= self.dense.shape[1]] = 0.0
            return out
        ends, ids, values = self.cells()
        begin, end = int(ends[first - 1]) if first else 0, int(ends[stop - 1])
        position = np.full(
            max(int(ids.max(initial=0)), int(numbers.max(initial=0))) + 1, INT32_MAX, np.int32
        )
        position[numbers] = np.arange(numbers.size)
        out = zeroed((stop - first, numbers.size), np.float32)
        fill_dense(ends[first:stop] - begin, position[ids[begin:end]], values[begin:end], out)
        return out


def runs_of(ids: Array, lines: Int64Array) -> tuple[Int64Array, dict[int, bytes]]:
    """Return `Block.runs` and `Block.names` for rows with the given query ids (int64, or objects:
    int and str)."""
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]])[: ids.size])
    runs = np.zeros((starts.size, N_RUN), np.int64)
    runs[:, RUN_ROW], runs[:, RUN_LINE] = starts, lines[starts]
    names: dict[int, bytes] = {}
    for i, qid in enumerate(ids[starts].tolist()):
        if isinstance(qid, int):
            runs[i, RUN_ID] = qid
        else:
            names[i] = qid.encode()
    return runs, names


def dense_matrix(blocks: list[Any], base: int, columns: int, threads: int) -> Float32Array:
    """Return the features of all blocks, float32[N, columns]. Each block leaves the list once it is
    copied."""
    starts = _starts(blocks)
    out = np.zeros((int(starts[-1]), columns), np.float32)

    def copy(i: int) -> None:
        block: Block = blocks[i]
        target = out[starts[i] : starts[i + 1]]
        if block.dense is not None:
            part = block.dense[:, base : base + columns]
            target[:, : part.shape[1]] = part
        else:
            row_ends, ids, values = block.cells()
            fill_dense(row_ends, ids - np.int32(base), values, target)
        blocks[i] = None

    run_parallel(copy, range(len(blocks)), threads)
    return out


def sparse_matrix(blocks: list[Any], base: int, columns: int) -> sparse.csr_matrix:
    """Return the features of all blocks as CSR, without +0.0. Each block leaves the list once it is
    copied."""
    starts = _starts(blocks)
    kept = sum(block.cells()[1].size for block in blocks)
    # SciPy needs both index arrays of one type: int64 only if the offsets require it.
    kind = np.int32 if kept <= INT32_MAX else np.int64
    indptr = np.zeros(int(starts[-1]) + 1, kind)
    indices, data = np.empty(kept, kind), np.empty(kept, np.float32)
    at = 0
    for i, block in enumerate(blocks):
        row_ends, ids, values = block.cells()
        end = at + values.size
        indptr[starts[i] + 1 : starts[i + 1] + 1] = row_ends + at
        np.subtract(ids, base, out=indices[at:end], casting="same_kind")
        data[at:end] = values
        at, blocks[i] = end, None
    matrix = sparse.csr_matrix((int(starts[-1]), columns), dtype=np.float32)
    # The constructor would check and copy.
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _starts(blocks: Sequence[Block]) -> Int64Array:
    return np.cumsum([0, *(block.n_rows for block in blocks)], dtype=np.int64)


@entry_point(types.void(I1, N1, S1, S2))
def fill_dense(
    row_ends: Int64Array, ids: Int32Array, values: Float32Array, out: Float32Array
) -> None:
    """Write the values of the features in `out`, float32[rows, columns], which contains zeros."""
    begin = 0
    for row in range(out.shape[0]):
        for i in range(begin, row_ends[row]):
            if ids[i] < out.shape[1]:
                out[row, ids[i]] = values[i]
        begin = row_ends[row]


@entry_point(INT(I1, N1, S1, INT))
def drop_zeros(row_ends: Int64Array, ids: Int32Array, values: Float32Array, limit: int) -> int:
    """Keep the values of features up to number `limit`, except +0.0, in place, and return their
    number."""
    begin = kept = 0
    for row in range(row_ends.size):
        end = row_ends[row]
        for i in range(begin, end):
            if ids[i] <= limit and (values[i] != 0.0 or math.copysign(1.0, values[i]) < 0.0):
                ids[kept], values[kept] = ids[i], values[i]
                kept += 1
        begin, row_ends[row] = end, kept
    return kept
