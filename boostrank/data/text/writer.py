"""Writer of ranking data as libsvm text that reads back to the same bits."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError
from boostrank.core.files import replacing, write_atomically
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.blocks import B1, N1, S1, Int32Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX, refuse_sidecars
from boostrank.data.text.decimal import BLANK, COLON, DOT, EXACT_POWERS, MINUS, NEWLINE
from boostrank.kernels.runtime.intrinsics import Bytes, pointer_to
from boostrank.kernels.runtime.jit import I1, INT, entry_point, inline

MAX_CELL = 32  # " 2147483646:-0.000123456789" and some
# Outside, 10^k or the digits are not exact in float64: Python writes those. Float32 numbers are on the same side of a
# power of 2 whether they are compared in float32 or in float64.
SMALLEST, LARGEST = 2.0**-39, 2.0**49
_FLOAT32_DIGITS = 9  # always enough to tell float32 numbers apart
_SMALLEST_PLAIN = 1e-4  # smaller numbers get an exponent
_BATCH_CELLS = 1 << 20
_GZIP_LEVEL = 4


def write_libsvm(
    path: str | os.PathLike[str],
    data: RankingDataset | tuple[Any, Any, Any],
    *,
    zero_based: bool = False,
    comments: Sequence[str] | None = None,
) -> None:
    """Write `label qid:ID number:value ... # comment` lines, whole or not at all.

    Every cell of a dense matrix is written, of a sparse one what is stored (and, where needed to keep its width, a
    zero). Numbers are the shortest that read back to the same float32. Weights of queries, or of documents, go to
    `FILE.weight`.

    Args:
        path: gzip-compressed when it ends in `.gz`.
        data: a data set, or `(X, y, qid)` as `RankingDataset.from_arrays` takes them.
        zero_based: whether the first feature gets number 0 instead of 1.
        comments: one a row; None for those of the data set.

    Raises:
        DataError: an id or comment that the format cannot hold; weights of queries and of documents; a sidecar of other
            data that would be read with it.
        TrainingError: the file could not be written; an old one is untouched.
    """
    if not isinstance(data, RankingDataset):
        X, y, qid = data
        data = RankingDataset.from_arrays(X, y, qid=qid)
    target = os.fspath(path)
    heads, weights = _heads(data), _weights(data)
    tails = _tails(data, data.comments if comments is None else comments)
    # One that lies there already would be read with the new file; that of the weights is written anew.
    refuse_sidecars(target, GROUP_SUFFIXES if weights is not None else (*GROUP_SUFFIXES, WEIGHT_SUFFIX))
    with replacing(target) as descriptor, open(descriptor, "wb", closefd=False) as file:
        is_packed = target.endswith(".gz")
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) if is_packed else nullcontext(file) as out:
            _write(out, data, heads, tails, 0 if zero_based else 1)
    if weights is not None:
        text = "".join(f"{weight!r}\n" for weight in weights.tolist())
        write_atomically(target + WEIGHT_SUFFIX, text.encode())


def _write(file: Any, data: RankingDataset, heads: list[bytes], tails: list[bytes], base: int) -> None:
    step = max(1, _BATCH_CELLS // max(1, data.n_features if not data.is_sparse else 64))
    for begin in range(0, data.n_documents, step):
        end = min(begin + step, data.n_documents)
        row_ends, ids, values = _cells(data.features[begin:end])
        if data.is_sparse and begin == 0:
            # The first row also names, as zeros, the last column, and the first one where numbers start at 0: otherwise
            # the reader would see a narrower matrix, or one that counts from 1.
            last, first = data.n_features - 1, int(row_ends[0])
            corners = [column for column in ({last, 0} if base == 0 else {last}) if 0 <= column <= last]
            wanted = np.setdiff1d(np.array(corners, np.int32), data.features.indices)
            places = np.searchsorted(ids[:first], wanted)
            ids, values = np.insert(ids, places, wanted), np.insert(values, places, np.float32(0.0))
            row_ends = row_ends + wanted.size
        ids += np.int32(base)
        size = np.abs(values)
        with np.errstate(invalid="ignore"):
            odd = values[((size > 0) & (size < SMALLEST)) | (size >= LARGEST)]
        special = [f"{v:g}" if np.isinf(v) else np.format_float_scientific(v, unique=True, trim="-") for v in odd]
        parts = (*_packed(heads[begin:end]), *_packed(tails[begin:end]), *_packed([text.encode() for text in special]))
        out = np.empty(values.size * MAX_CELL + end - begin + sum(part.size for part in parts[::2]), np.uint8)
        file.write(out[: format_rows(row_ends, ids, values, *parts, out)].tobytes())


def _cells(rows: Any) -> tuple[Int64Array, npt.NDArray[np.int32], Float32Array]:
    """(cells up to the end of each row, 0-based columns, values)."""
    if isinstance(rows, np.ndarray):
        n, columns = rows.shape
        ids = np.tile(np.arange(columns, dtype=np.int32), n)
        # The compiled writer takes no read-only arrays, as those of a memory map are.
        values = np.require(rows, requirements=["C", "W"]).ravel()
        return np.arange(1, n + 1, dtype=np.int64) * columns, ids, values
    rows.sort_indices()  # of a slice: the caller's matrix stays as it is
    values = np.require(rows.data, requirements=["C", "W"])
    return rows.indptr[1:].astype(np.int64), rows.indices.astype(np.int32), values


def _weights(data: RankingDataset) -> Float64Array | None:
    """One a query, or one a row that reads back as a document's."""
    of_documents = data.document_weights
    if of_documents is None:
        return data.queries.weights
    if data.queries.weights is not None:
        raise DataError("weights of queries and of documents cannot both be written: a file has one kind beside it")
    firsts = of_documents[np.repeat(data.queries.ptr[:-1], data.queries.sizes)]
    if np.array_equal(of_documents, firsts):
        raise DataError(
            "weights of documents that are the same within every query would read back as weights of queries: give "
            "them as such (weight=), or leave them out"
        )
    return of_documents


def _heads(data: RankingDataset) -> list[bytes]:
    labels = {
        value: f"{int(value)}" if value.is_integer() and abs(value) < 1e15 else repr(value)
        for value in set(data.labels.tolist())
    }
    names = [str(qid) for qid in data.queries.qid.tolist()]
    for name in names:
        if not name or any(c.isspace() or c == "#" or not c.isprintable() for c in name):
            raise DataError(f"query id {name!r} cannot be written: an id is a word without blanks and '#'")
    ids = np.repeat(np.array([f" qid:{name}" for name in names], dtype=object), data.queries.sizes)
    return [(labels[label] + qid).encode() for label, qid in zip(data.labels.tolist(), ids.tolist(), strict=True)]


def _tails(data: RankingDataset, comments: Sequence[str] | None) -> list[bytes]:
    if comments is None:
        return [b""] * data.n_documents
    if len(comments) != data.n_documents:
        raise DataError(f"{len(comments)} comments for {data.n_documents} rows")
    bad = next((row for row, text in enumerate(comments) if any(c in text for c in "\n\r\0")), None)
    if bad is not None:
        raise DataError(f"the comment of row {bad} spans lines, or holds NUL")
    return [f" # {text}".encode("utf-8", "surrogateescape") if text else b"" for text in comments]


def _packed(texts: list[bytes]) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64) if texts else np.zeros(0, np.int64)
    return np.frombuffer(bytearray(b"".join(texts)) or bytearray(1), np.uint8), ends


def score_text(scores: Float64Array) -> bytes:
    """Return each score on a line, the shortest text that reads back as the same number."""
    return "".join([f"{score!r}\n" for score in np.asarray(scores, np.float64).tolist()]).encode()


@inline
def _write_digits(out: Bytes, at: int, number: Any, point: Any) -> int:
    """Write a whole number with a decimal point before its last `point` digits; returns the place behind it."""
    length, rest = 1, number
    while rest >= 10:
        rest //= 10
        length += 1
    length = max(length, point + 1)
    end = at + length + (1 if point > 0 else 0)
    i = end - 1
    for digit in range(length):
        if digit == point and point > 0:
            out[i] = DOT
            i -= 1
        out[i] = 48 + number % 10
        number //= 10
        i -= 1
    return end


@inline
def _write_value(out: Bytes, at: int, value: Any) -> int:
    """Write the float32 `value` with as few digits as tell it apart; 0 or SMALLEST <= |value| < LARGEST."""
    if math.copysign(1.0, value) < 0.0:
        out[at] = MINUS
        at += 1
    size = abs(value)
    if size == 0.0:
        out[at] = 48
        return at + 1
    if size < 1e6 and size == math.floor(size):
        return _write_digits(out, at, np.int64(size), 0)
    magnitude = np.int64(math.floor(math.log10(size)))
    digits, point = np.int64(0), np.int64(0)
    for length in range(1, _FLOAT32_DIGITS + 1):
        # Both steps round correctly (the factor is exact), and the second is how the reader reads.
        point = length - 1 - magnitude
        if point >= 0:
            digits = np.int64(np.rint(size * EXACT_POWERS[point]))
            back = digits / EXACT_POWERS[point]
        else:
            digits = np.int64(np.rint(size / EXACT_POWERS[-point]))
            back = digits * EXACT_POWERS[-point]
        if np.float32(back) == np.float32(size):
            break
    while digits % 10 == 0 and point > 0:
        digits //= 10
        point -= 1
    while point < 0:
        digits *= 10
        point += 1
    if size >= _SMALLEST_PLAIN:
        return _write_digits(out, at, digits, point)
    at = _write_digits(out, at, digits, 0)
    out[at], out[at + 1] = 101, MINUS  # e-
    return _write_digits(out, at + 2, point, 0)


@entry_point(INT(I1, N1, S1, B1, I1, B1, I1, B1, I1, B1))
def format_rows(
    row_ends: Int64Array,
    ids_: Int32Array,
    values_: Float32Array,
    heads_: Bytes,
    head_ends: Int64Array,
    tails_: Bytes,
    tail_ends: Int64Array,
    special_: Bytes,
    special_ends: Int64Array,
    out_: Bytes,
) -> int:
    """Write `head number:value ... tail` lines; returns the length of the text.

    Args:
        row_ends: how many cells there are up to the end of each row; ids, values: the cells.
        heads, head_ends, tails, tail_ends: what stands before and behind the cells of each row, packed.
        special, special_ends: texts of the values that are not written here, in order of occurrence, packed.
        out: room for all of it. Out.
    """
    ids, values, out = pointer_to(ids_), pointer_to(values_), pointer_to(out_)
    heads, tails, special = pointer_to(heads_), pointer_to(tails_), pointer_to(special_)
    at, cell, head, tail, copied, which = 0, 0, 0, 0, 0, 0
    for row in range(row_ends.shape[0]):
        while head < head_ends[row]:
            out[at] = heads[head]
            head += 1
            at += 1
        while cell < row_ends[row]:
            out[at] = BLANK
            at = _write_digits(out, at + 1, np.int64(ids[cell]), 0)
            out[at] = COLON
            at += 1
            value = np.float64(values[cell])
            if math.isnan(value):
                out[at], out[at + 1], out[at + 2] = 110, 97, 110
                at += 3
            elif value == 0.0 or (abs(value) >= SMALLEST and abs(value) < LARGEST):
                at = _write_value(out, at, value)
            else:
                while copied < special_ends[which]:
                    out[at] = special[copied]
                    copied += 1
                    at += 1
                which += 1
            cell += 1
        while tail < tail_ends[row]:
            out[at] = tails[tail]
            tail += 1
            at += 1
        out[at] = NEWLINE
        at += 1
    return at
