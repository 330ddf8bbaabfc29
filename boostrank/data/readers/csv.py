"""CSV: text with a header, its cells separated by commas."""

from boostrank.data.readers import ReaderSpec
from boostrank.data.tables.reader import CSV

SPEC = ReaderSpec("csv", CSV.read, CSV.stream, CSV.pieces, (".csv",), table=CSV)
