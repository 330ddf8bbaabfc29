"""Data frames and data sets as sources of rows for the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError, FileFormatError, ParameterError
from boostrank.data import blocks as slots
from boostrank.data.blocks import Block
from boostrank.data.dataset import RankingDataset, as_dataset, is_lightgbms
from boostrank.data.frames import as_frame
from boostrank.data.options import FeatureSpace
from boostrank.data.source import File, Source
from boostrank.data.tables import arrow
from boostrank.options import ReadOptions, declared


class RowsFile(File):
    """The rows of a data set in the place of a file."""

    def __init__(self, data: RankingDataset) -> None:
        super().__init__("<dataset>", None)
        self.data = data

    def loads(self, chunk_bytes: int) -> Iterator[Callable[[Any], Any]]:
        ptr = self.data.queries.ptr
        for first, last in self.data.queries.blocks(max(1, chunk_bytes // (4 * self.data.n_features + 1))):
            yield partial(self._block, first, last, slice(int(ptr[first]), int(ptr[last])))

    def _block(self, first: int, last: int, rows: slice, _: Any) -> Block:
        features, queries = self.data.features[rows], self.data.queries
        ids, lines = np.repeat(queries.qid[first:last], queries.sizes[first:last]), np.arange(rows.stop - rows.start)
        dense = np.zeros((lines.size, 0), np.float32) if sparse.issparse(features) else np.array(features)
        block = Block.of(self.data.labels[rows], dense, ids, lines + 1)
        if sparse.issparse(features):
            block.dense, block.sparse = None, (features.indptr[1:].astype(np.int64), features.indices, features.data)
            block.counts[slots.CELLS], block.counts[slots.TOP_ID] = features.nnz, features.shape[1] - 1
        return block


class DatasetSource(Source):
    """Source of the rows of a `RankingDataset`, which are numbered from 1."""

    unused = tuple(declared(ReadOptions))
    by_row = blanks = has_qid = True

    def open_file(self, one: Any, max_bytes: int | None) -> RowsFile:
        if self.reading.space is None:
            return RowsFile(one)
        try:
            names, codes = self.reading.space.feature_names, self.reading.space.categories
            return RowsFile(one.with_features(names, whose="the training data", categories=codes))
        except DataError as error:
            raise FileFormatError(str(error), file="<dataset>") from None

    def parse(self, file: File, load: Callable[[Any], Any]) -> Block:
        block: Block = load(None)
        return block

    def numbered_names(self, base: int = 0) -> dict[int, str]:
        return dict(enumerate(self.first.data.feature_names))  # type: ignore[attr-defined]

    def space(self) -> FeatureSpace:
        space: FeatureSpace = self.first.data.feature_space  # type: ignore[attr-defined]
        return space


def source_of(one: Any) -> Any:
    """Return a data set, a frame as a buffer in Arrow's format, or any other source unchanged."""
    if is_lightgbms(one):
        return as_dataset(one)
    frame = None if isinstance(one, RankingDataset) else as_frame(one)
    if frame is None:
        if hasattr(one, "shape"):
            raise ParameterError("an array has no labels and queries: pass RankingDataset.from_arrays(X, y, qid=...)")
        return one
    sink = arrow().BufferOutputStream()
    try:
        table = frame.to_arrow()
    except arrow().ArrowException as error:
        raise DataError(f"the frame cannot be converted to Arrow: {' '.join(str(error).split())}") from None
    with arrow(".ipc").new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
