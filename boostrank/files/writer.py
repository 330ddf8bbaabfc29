"""Writer of libsvm text from which the same bits are read again."""

from __future__ import annotations

import gzip
import os
from contextlib import nullcontext
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

from boostrank.core.errors import DataError
from boostrank.core.files import replacing, write_atomically
from boostrank.core.types import Array, Float32Array, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.files.names import name_in
from boostrank.files.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX, refuse_sidecars

_BATCH_CELLS = 1 << 20
_GZIP_LEVEL = 4


def write_libsvm(
    path: str | os.PathLike[str],
    data: RankingDataset | tuple[Any, Any, Any],
    *,
    zero_based: bool = False,
) -> None:
    """Write lines `label qid:ID number:value ... # NAME` atomically, where document names are
    optional.

    Dense matrices are written in full, sparse ones with their stored values and a zero where the
    width requires it, in the fewest digits that give the same float32 again. Query or document
    weights are written to `FILE.weight`.

    Args:
        path: path of the file, which is compressed if the path ends in `.gz`.
        data: a data set, or a tuple `(X, y, qid)` of arguments to `RankingDataset.from_arrays`.
        zero_based: whether the first feature has number 0 instead of 1.

    Raises:
        DataError: an id or name cannot be stored, both queries and documents have weights, or an
            existing side file would be read with the new file.
        TrainingError: the file cannot be written. An existing file is then left unchanged.
    """
    if not isinstance(data, RankingDataset):
        X, y, qid = data
        data = RankingDataset.from_arrays(X, y, qid=qid)
    target = os.fspath(path)
    heads, weights = _heads(data), _weights(data)
    tails = _tails(data)
    # An existing side file would be read with the new file; a weight file is replaced.
    suffixes: tuple[str, ...] = GROUP_SUFFIXES
    if weights is None:
        suffixes += (WEIGHT_SUFFIX,)
    refuse_sidecars(target, suffixes)
    with replacing(target) as descriptor, open(descriptor, "wb", closefd=False) as file:
        out: Any = nullcontext(file)
        if target.endswith(".gz"):
            out = gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0)
        with out as lines:
            if data.queries.words is not None:
                for query in np.flatnonzero(data.queries.words != "").tolist():
                    lines.write(f"# qid:{data.queries.describe_query(query)}\n".encode())
            _write(lines, data, heads, tails, int(not zero_based))
    if weights is not None:
        text = "".join(f"{weight!r}\n" for weight in weights.tolist())
        write_atomically(target + WEIGHT_SUFFIX, text.encode())


def _write(
    file: Any, data: RankingDataset, heads: list[bytes], tails: list[bytes], base: int
) -> None:
    cells_a_row = 64 if data.is_sparse else data.n_features
    step = max(1, _BATCH_CELLS // max(1, cells_a_row))
    numbers = np.array([b" %d:" % (column + base) for column in range(data.n_features)], object)
    for begin in range(0, data.n_documents, step):
        end = min(begin + step, data.n_documents)
        row_starts, columns, values = _cells(data.features[begin:end])
        if data.is_sparse and begin == 0:
            # Without zeros for the last column, and for the first one if numbers start at 0, the
            # reader would see a narrower or a 1-based matrix.
            first = data.n_features - 1 if base else 0
            missing = np.array([first, data.n_features - 1], np.int32)
            for row in range(0, data.n_documents, step):
                missing = np.setdiff1d(missing, data.features[row : row + step].indices)
            places = np.searchsorted(columns[: row_starts[1]], missing)
            columns = np.insert(columns, places, missing)
            values = np.insert(values, places, np.float32(0.0))
            row_starts[1:] += missing.size
        # NumPy writes the shortest digits that read back to the same float32.
        cells = list(map(add, numbers[columns].tolist(), values.astype("S").tolist()))
        for row, (first, last) in enumerate(pairwise(row_starts.tolist()), begin):
            text = (b"".join(cells[first:last]) + b" ").replace(b".0 ", b" ")
            file.write(heads[row] + text[:-1] + tails[row] + b"\n")


def _cells(rows: Any) -> tuple[Array, Array, Float32Array]:
    """Return the number of stored values before each row and in all, their columns from 0, and the
    values."""
    if isinstance(rows, np.ndarray):
        n, columns = rows.shape
        return np.arange(n + 1) * columns, np.tile(np.arange(columns), n), rows.ravel()
    rows.sort_indices()  # a slice: the caller's matrix stays unchanged
    return rows.indptr, rows.indices, rows.data


def _weights(data: RankingDataset) -> Float64Array | None:
    """Return one weight per query or per row, or None. The reader must take row weights for
    document weights."""
    of_documents = data.document_weights
    if of_documents is None:
        return data.queries.weights
    if data.queries.weights is not None:
        raise DataError(
            "a file can store query weights or document weights, but not both; drop one of them"
        )
    firsts = of_documents[np.repeat(data.queries.ptr[:-1], data.queries.sizes)]
    if np.array_equal(of_documents, firsts):
        raise DataError(
            "document weights that are equal within queries would be read as query weights; "
            "pass them as weight, or drop them"
        )
    return of_documents


def _heads(data: RankingDataset) -> list[bytes]:
    labels = {
        value: f"{int(value)}" if value.is_integer() and abs(value) < 1e15 else repr(value)
        for value in set(data.labels.tolist())
    }
    for name in map(str, data.queries.qid.tolist()):
        if not name or any(c.isspace() or c == "#" or not c.isprintable() for c in name):
            raise DataError(
                f"query id {name!r} cannot be written; ids must not contain blanks or '#'"
            )
    rows = zip(data.labels.tolist(), data.queries.row_ids().tolist(), strict=True)
    return [f"{labels[label]} qid:{qid}".encode() for label, qid in rows]


def _tails(data: RankingDataset) -> list[bytes]:
    if data.document_names is None:
        return [b""] * data.n_documents
    names = data.document_names.tolist()
    for row, name in enumerate(names):
        if name and name_in(f"# {name}".encode()) != name:
            raise data.queries.row_error(
                row, f"the name {name!r} cannot be written; names must not contain blanks"
            )
    return [f" # {name}".encode() if name else b"" for name in names]


def score_text(scores: Float64Array) -> bytes:
    """Return text with one score per line, written with the fewest digits that give the same number
    again."""
    return "".join([f"{score!r}\n" for score in np.asarray(scores, np.float64).tolist()]).encode()
