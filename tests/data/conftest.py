"""Reading small files, and what to expect when they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import FileFormatError
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files as read_libsvm

Read = Callable[..., RankingDataset]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """`read(text, **options)`: the data set of a file that holds the text."""

    def read_text(text: str | bytes, **options: Any) -> RankingDataset:
        path = tmp_path / "data.txt"
        content = text.encode() if isinstance(text, str) else text
        path.write_bytes(content)
        return read_libsvm(path, **options, format="libsvm")

    return read_text


@contextmanager
def refused(*words: str, line: int | None = None, column: int | None = None) -> Iterator[None]:
    """The block raises a FileFormatError at that place, whose reason holds the words."""
    with pytest.raises(FileFormatError) as caught:
        yield
    error = caught.value
    assert error.exit_code == 2
    for word in words:
        assert word in error.reason
    if line is not None:
        assert error.line == line, str(error)
    if column is not None:
        assert error.column == column, str(error)


def dense(data: RankingDataset) -> np.ndarray:
    """The features as an array; unlike scipy's `toarray` it keeps the sign of -0."""
    if not data.is_sparse:
        return data.features
    matrix = data.features
    out = np.zeros(matrix.shape, np.float32)
    out[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices] = matrix.data
    return out


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal shape and bits, except that every NaN equals every NaN."""
    if first.shape != second.shape or not np.array_equal(np.isnan(first), np.isnan(second)):
        return False
    present = ~np.isnan(first)
    return bool(np.array_equal(first[present].view(np.uint32), second[present].view(np.uint32)))


def _list(names: Any) -> list[str] | None:
    return None if names is None else names.tolist()


def same_data(first: RankingDataset, second: RankingDataset) -> bool:
    """Equal in everything but where it came from."""
    return (
        first.is_sparse == second.is_sparse
        and same_bits(dense(first), dense(second))
        and np.array_equal(first.labels, second.labels)
        and np.array_equal(first.queries.ptr, second.queries.ptr)
        and first.queries.qid.tolist() == second.queries.qid.tolist()
        and first.feature_names == second.feature_names
        and _list(first.document_names) == _list(second.document_names)
        and _list(first.queries.words) == _list(second.queries.words)
        and first.provenance.index_base == second.provenance.index_base
    )
