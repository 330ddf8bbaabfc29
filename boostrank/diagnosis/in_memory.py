"""Data frames and data sets as sources of rows for the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError, FileFormatError, ParameterError
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.data.engine_data import is_lightgbms
from boostrank.data.feature_space import FeatureSpace
from boostrank.data.frames import as_frame, with_query_level
from boostrank.files import blocks as slots
from boostrank.files.blocks import Block
from boostrank.files.source import File, Source, Then
from boostrank.files.tables import arrow
from boostrank.options import ReadOptions, declared

_NAME = "<dataset>"


class DatasetSource(Source):
    """Source of the rows of a `RankingDataset`, which are numbered from 1 in input order. Features
    are numbered as in the file of the training data."""

    unused = tuple(declared(ReadOptions))
    by_row = has_qid = has_columns = True

    def open_file(self, data: Any) -> File:
        """Take the rows, with the features of the training data if there are any."""
        space = self.reading.space
        try:
            if space is not None:
                options = {"whose": "the training data", "categories": space.categories}
                data = data.with_features(space.feature_names, **options)
        except DataError as error:
            raise FileFormatError(str(error), file=_NAME) from None
        self.data: RankingDataset = data
        self.base: int = (space or data.feature_space).index_base or 0
        return File(_NAME, None)

    def blocks(
        self, chunk_bytes: int, threads: int, then: Then = None
    ) -> Iterator[tuple[File, Block]]:
        """Yield the rows of whole queries in order."""
        yield self.first, Block(np.zeros(0))
        step = max(1, chunk_bytes // (4 * self.data.n_features + 1))
        lines = self.data.in_row_order(np.arange(1, self.data.n_documents + 1))
        for first, stop in self.data.queries.blocks(step):
            index, rows = self.data.queries.take(np.arange(first, stop))
            features, none = self.data.features[rows], np.zeros((0, 0), np.float32)
            block = Block.from_rows(self.data.labels[rows], none, index.row_ids(), lines[rows])
            csr = sparse.csr_matrix(features)
            block.dense = None
            block.sparse = csr.indptr[1:].astype(np.int64), csr.indices + self.base, csr.data
            block.counts[[slots.CELLS, slots.TOP_ID]] = features.size, self.base + csr.shape[1] - 1
            # The lines are those of the whole data set. Only a file may number features from 0.
            block.counts[[slots.LINES, slots.ZERO_LINE]] = 0, self.data.provenance.index_base == 0
            yield self.first, block

    def numbered_names(self, base: int = 0) -> dict[int, str]:
        """Return the feature names by column."""
        return dict(enumerate(self.data.feature_names, self.base))

    def schema(self, totals: Any) -> FeatureSpace:
        """Return the features of the data set."""
        return self.data.feature_space


def source_of(data: Any, qid: str | None) -> Any:
    """Return a data set, a frame as a buffer in Arrow's format, or any other source unchanged."""
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if isinstance(data, RankingDataset) or is_lightgbms(data):
        return as_dataset(data)
    frame = as_frame(with_query_level(data, qid))
    if frame is None:
        if hasattr(data, "shape"):
            raise ParameterError(
                "an array has no labels and queries: pass RankingDataset.from_arrays(X, y, qid=...)"
            )
        return data
    pa = arrow()
    sink = pa.BufferOutputStream()
    try:
        table = frame.to_arrow()
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise DataError(f"the frame cannot be converted to Arrow: {reason}") from None
    with arrow(".ipc").new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
