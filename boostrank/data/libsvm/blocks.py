"""One parsed chunk, and how chunks become one matrix."""

from __future__ import annotations

import math
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.chunks import Load, Text
from boostrank.data.libsvm.fill import fill_dense, fill_sparse
from boostrank.data.libsvm.plain import parse_plain
from boostrank.data.libsvm.reasons import BadRow
from boostrank.kernels.runtime.jit import run_parallel

INT32_MAX = np.iinfo(np.int32).max

_MAPPED_FROM = 1 << 20
_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}

_NUMBER_END = re.compile(rb"[ \t\r\n#]")


def zeroed(shape: int | tuple[int, ...], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """A zeroed array whose memory goes back to the system when it is dropped.

    What `malloc` hands out in this size stays with the process after it is freed, and the blocks of a file add up to
    as much as the result.
    """
    size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(kind).itemsize
    if size < _MAPPED_FROM:
        return np.zeros(shape, kind)
    return np.frombuffer(mmap.mmap(-1, size, **_PRIVATE), kind).reshape(shape)


@dataclass
class Block:
    """One parsed chunk. Its cells are kept dense or sparse, whichever is smaller; columns are feature numbers.

    Sparse ones: where the cells of each row end, their feature numbers, their values. Or they are not kept, and there
    is what was made of them instead: results, and how many values of each feature number are missing.
    """

    labels: Float64Array
    counts: Int64Array
    dense: Float32Array | None = None
    sparse: tuple[Int64Array, parse.Int32Array, Float32Array] | None = None
    runs: Int64Array = field(default_factory=lambda: np.zeros((0, parse.N_RUN), np.int64))
    names: dict[int, bytes] = field(default_factory=dict)
    comments: list[bytes] | None = None
    bad: list[BadRow] = field(default_factory=list)
    unterminated: bool = False
    result: list[Any] = field(default_factory=list)
    missing: Int64Array | None = None

    @property
    def n_rows(self) -> int:
        """Rows kept."""
        return int(self.labels.size)

    def queries_after(self, last: object, number: int) -> tuple[Int64Array, dict[int, bytes], object]:
        """(runs of the queries that begin here, text ids by number of query from `number` on, the last id).

        The first run may continue the query whose id is `last`; None: it may not.
        """
        skip = int(last is not None and last == self.names.get(0, int(self.runs[0, parse.RUN_ID])))
        names = {number + i - skip: name for i, name in self.names.items() if i >= skip}
        return self.runs[skip:], names, self.names.get(len(self.runs) - 1, int(self.runs[-1, parse.RUN_ID]))


class Scratch:
    """Arrays that a call of the parser writes to; sized by the text, reused."""

    def __init__(self, size: int, comments: bool) -> None:
        rows = size // 2 + 2  # the shortest row is "0\n"
        cells = size // 4 + 2  # the shortest cell is "1:0 "
        self.size = size
        self.labels = np.empty(rows, np.float64)
        self.row_ends = np.empty(rows, np.int64)
        self.ids = zeroed(cells, np.int32)
        self.values = zeroed(cells, np.float32)
        self.runs = np.empty((size // 8 + 2, parse.N_RUN), np.int64)  # "0 qid:1\n"
        self.undecided = np.empty(size // 5 + 2, np.int64)  # "1e-320" and its end; a spare place more
        self.comments = np.empty((rows if comments else 0, 2), np.int64)
        self.bad = np.zeros((parse.BAD_KEPT + 1, parse.N_BAD), np.int64)
        self.state = np.zeros(2 * parse.N_STATE, np.int64)


class Parser:
    """Turns chunks into blocks, as int64[N_OPTIONS] and spellings of missing values say; safe to call from threads."""

    may_be_dense = True

    def __init__(self, options: Int64Array, missing_tokens: Sequence[bytes]) -> None:
        self.options = options.copy()
        self.options[parse.N_TOKENS] = len(missing_tokens)
        self.tokens = np.frombuffer(b"".join(missing_tokens) or b"\0", np.uint8).copy()
        self.token_ends = np.cumsum([len(t) for t in missing_tokens], dtype=np.int64)
        self._free: list[tuple[bytearray | None, Scratch]] = []

    def __call__(self, load: Load) -> Block:
        """Read and parse one chunk; raises what reading it raises."""
        try:
            buffer, scratch = self._free.pop()
        except IndexError:
            buffer, scratch = None, Scratch(0, False)
        text = load(buffer)
        keep_comments = bool(self.options[parse.KEEP_COMMENTS])
        if scratch.size < text.end - text.start:
            scratch = Scratch(text.end - text.start, keep_comments)
        block = self._parse(text, scratch, keep_comments)
        self._free.append((text.buffer, scratch))
        return block

    def _parse(self, text: Text, scratch: Scratch, keep_comments: bool) -> Block:
        state = scratch.state
        if text.end == text.start:
            return Block(np.zeros(0, np.float64), np.zeros(parse.N_STATE, np.int64))
        options = self.options.copy()
        options[parse.UNTERMINATED] = text.unterminated
        array = np.frombuffer(text.buffer, np.uint8)
        known_at, known = np.zeros(0, np.int64), np.zeros(0, np.float64)
        while True:
            state[:] = 0
            options[parse.N_KNOWN] = known.size
            if parse_plain(text, options, scratch):
                break
            parse.parse_lines(
                array, text.start, text.end, options, self.tokens, self.token_ends, known_at, known,
                scratch.undecided, scratch.labels, scratch.row_ends, scratch.ids, scratch.values, scratch.runs,
                scratch.comments, scratch.bad, state,
            )  # fmt: skip
            undecided = scratch.undecided[: state[parse.UNDECIDED]]
            if not undecided.size:
                break
            known_at = np.union1d(known_at, undecided)
            known = np.array([_python_float(text.buffer, int(p)) for p in known_at])
        return self._block(text, scratch, keep_comments)

    def _block(self, text: Text, scratch: Scratch, keep_comments: bool) -> Block:
        state = scratch.state
        rows = int(state[parse.ROWS])
        block = Block(scratch.labels[:rows].copy(), state[: parse.N_STATE].copy(), unterminated=text.unterminated)
        self._keep_cells(block, scratch)
        block.runs = scratch.runs[: state[parse.RUNS]].copy()
        for i in np.flatnonzero(block.runs[:, parse.RUN_IS_INTEGER] == 0):
            block.names[int(i)] = bytes(text.buffer[block.runs[i, parse.RUN_START] : block.runs[i, parse.RUN_END]])
        if keep_comments:
            block.comments = [bytes(text.buffer[a:b]) for a, b in scratch.comments[:rows].tolist()]
        for fault in scratch.bad[: min(int(state[parse.BAD_ROWS]), parse.BAD_KEPT)].tolist():
            block.bad.append(BadRow.of(fault, text))
        return block

    def _keep_cells(self, block: Block, scratch: Scratch) -> None:
        """Put the cells of the rows into the block."""
        limit, rows = int(self.options[parse.LIMIT]), block.n_rows
        width = min(int(block.counts[parse.TOP_ID]), limit) + 1
        if self.may_be_dense and 4 * rows * width <= 8 * int(block.counts[parse.CELLS] - block.counts[parse.BEYOND]):
            block.dense = zeroed((rows, width), np.float32)
            fill_dense(scratch.row_ends, rows, scratch.ids, scratch.values, limit, block.dense)
            return
        row_ends, ids, values = np.empty(rows, np.int64), scratch.ids, scratch.values
        kept = fill_sparse(scratch.row_ends, rows, ids, values, limit, row_ends, ids, values)
        block.sparse = row_ends, zeroed(kept, np.int32), zeroed(kept, np.float32)
        block.sparse[1][:], block.sparse[2][:] = ids[:kept], values[:kept]


def _python_float(buffer: bytearray, at: int) -> float:
    end = _NUMBER_END.search(buffer, at)
    assert end is not None  # the padding ends every number
    return float(buffer[at : end.start()])


def dense_matrix(blocks: list[Block | None], base: int, columns: int, threads: int) -> Float32Array:
    """float32[N, columns] of all blocks, each of which is dropped (from the list too) when it has been copied."""
    starts = _starts(blocks)
    whole = _whole(blocks, (int(starts[-1]), columns))
    if whole is not None:
        blocks[:] = [None] * len(blocks)
        return whole
    out = np.zeros((int(starts[-1]), columns), np.float32)

    def copy(i: int) -> None:
        block = blocks[i]
        assert block is not None
        target = out[starts[i] : starts[i + 1]]
        if block.dense is not None:
            part = block.dense[:, base : base + columns]
            target[:, : part.shape[1]] = part
        elif block.sparse is not None:
            row_ends, ids, values = block.sparse
            fill_dense(row_ends, block.n_rows, ids - np.int32(base), values, columns - 1, target)
        blocks[i] = None

    run_parallel(copy, range(len(blocks)), threads)
    return out


def sparse_matrix(blocks: list[Block | None], base: int, columns: int) -> sparse.csr_matrix:
    """The CSR matrix of all blocks; +0.0 is not stored. Blocks are dropped as they are copied."""
    starts = _starts(blocks)
    for block in blocks:
        if block is not None and (dense := block.dense) is not None:
            stored = dense.view(np.uint32) != 0
            row_ends = np.cumsum(np.count_nonzero(stored, axis=1), dtype=np.int64)
            block.sparse = row_ends, np.nonzero(stored)[1].astype(np.int32), dense[stored]
            block.dense = None
    kept = sum(b.sparse[1].size for b in blocks if b is not None and b.sparse is not None)
    # int64 only when offsets need it: scipy wants both index arrays of one type.
    kind = np.int32 if kept <= INT32_MAX else np.int64
    indptr = np.zeros(int(starts[-1]) + 1, kind)
    indices, data = np.empty(kept, kind), np.empty(kept, np.float32)
    at = 0
    for i, block in enumerate(blocks):
        if block is not None and block.sparse is not None:
            row_ends, ids, values = block.sparse
            end = at + values.size
            indptr[starts[i] + 1 : starts[i + 1] + 1] = row_ends + at
            np.subtract(ids, base, out=indices[at:end], casting="same_kind")
            data[at:end] = values
            at = end
        blocks[i] = None
    matrix = sparse.csr_matrix((int(starts[-1]), columns), dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr  # the constructor would check and copy
    return matrix


def _whole(blocks: Sequence[Block | None], shape: tuple[int, int]) -> Float32Array | None:
    """The array of this shape whose rows, one behind the other, all blocks were written into; None if there is none."""
    first = next((block.dense for block in blocks if block is not None and block.dense is not None), None)
    whole = None if first is None else first.base
    if not isinstance(whole, np.ndarray) or whole.shape != shape or whole.dtype != np.float32:
        return None
    at = whole.ctypes.data
    for block in blocks:
        if block is None or block.dense is None or block.dense.base is not whole or block.dense.ctypes.data != at:
            return None
        at += block.dense.nbytes
    return whole


def _starts(blocks: Sequence[Block | None]) -> Int64Array:
    return np.cumsum([0, *(b.n_rows for b in blocks if b is not None)], dtype=np.int64)
