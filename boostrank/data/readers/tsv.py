"""TSV: text with a header, its cells separated by tabs."""

from boostrank.data.readers import ReaderSpec
from boostrank.data.tables.reader import TSV

SPEC = ReaderSpec("tsv", TSV.read, TSV.stream, TSV.pieces, (".tsv", ".tab"), table=TSV)
