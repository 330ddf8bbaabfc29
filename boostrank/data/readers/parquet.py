"""Parquet files."""

from boostrank.data.readers import ReaderSpec
from boostrank.data.tables.reader import PARQUET

SPEC = ReaderSpec("parquet", PARQUET.read, PARQUET.stream, PARQUET.pieces, (".parquet", ".pq", ".parq"), table=PARQUET)
