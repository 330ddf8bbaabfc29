"""Writer of ranking data as libsvm text that reads back to the same bits."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError
from boostrank.core.files import replacing, write_atomically
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX, refuse_sidecars

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
    numbers = np.array([b" %d:" % (column + base) for column in range(data.n_features)], object)
    for begin in range(0, data.n_documents, step):
        end = min(begin + step, data.n_documents)
        row_ends, columns, values = _cells(data.features[begin:end])
        if data.is_sparse and begin == 0:
            # The first row also names, as zeros, the last column, and the first one where numbers start at 0: otherwise
            # the reader would see a narrower matrix, or one that counts from 1.
            last, first = data.n_features - 1, int(row_ends[0])
            corners = [column for column in ({last, 0} if base == 0 else {last}) if 0 <= column <= last]
            wanted = np.setdiff1d(np.array(corners, np.int32), data.features.indices)
            places = np.searchsorted(columns[:first], wanted)
            columns, values = np.insert(columns, places, wanted), np.insert(values, places, np.float32(0.0))
            row_ends = row_ends + wanted.size
        # NumPy writes the shortest digits that read back to the same float32.
        cells = list(map(add, numbers[columns].tolist(), values.astype("S").tolist()))
        ends = row_ends.tolist()
        for row, (first, last) in enumerate(pairwise([0, *ends]), begin):
            text = (b"".join(cells[first:last]) + b" ").replace(b".0 ", b" ")
            file.write(heads[row] + text[:-1] + tails[row] + b"\n")


def _cells(rows: Any) -> tuple[Int64Array, npt.NDArray[np.int32], Float32Array]:
    """(cells up to the end of each row, 0-based columns, values)."""
    if isinstance(rows, np.ndarray):
        n, columns = rows.shape
        ids = np.tile(np.arange(columns, dtype=np.int32), n)
        return np.arange(1, n + 1, dtype=np.int64) * columns, ids, rows.ravel()
    rows.sort_indices()  # of a slice: the caller's matrix stays as it is
    return rows.indptr[1:].astype(np.int64), rows.indices.astype(np.int32), rows.data


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


def score_text(scores: Float64Array) -> bytes:
    """Return each score on a line, the shortest text that reads back as the same number."""
    return "".join([f"{score!r}\n" for score in np.asarray(scores, np.float64).tolist()]).encode()
