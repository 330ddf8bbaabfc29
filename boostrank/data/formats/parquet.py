"""Parquet files, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from boostrank.data.columnar import ColumnarSource
from boostrank.data.source import Format
from boostrank.data.tables import arrow


class ParquetSource(ColumnarSource):
    """Source of Parquet files; see `Source`."""

    name = "Parquet"

    def open_batches(self, file: Any) -> tuple[Any, int | None, Callable[[list[int], int], Iterator[Any]]]:
        parquet = arrow(".parquet").ParquetFile(file, buffer_size=1 << 16, pre_buffer=False)
        schema, rows = parquet.schema_arrow, parquet.metadata.num_rows

        def batches(places: list[int], count: int) -> Iterator[Any]:
            names = [schema.names[place] for place in places]
            yield from parquet.iter_batches(batch_size=count, columns=names, use_threads=self.use_threads)

        return schema, rows, batches


SPEC = Format("parquet", ParquetSource, (".parquet", ".pq", ".parq"), begins=(b"PAR1",), is_table=True)
