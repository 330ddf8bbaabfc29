"""TSV: text with a header, its cells separated by tabs."""

from boostrank.data.formats.csv import CsvSource
from boostrank.data.source import Format
from boostrank.data.text.reasons import separator_in


class TsvSource(CsvSource):
    """Text with a header, its cells separated by tabs; see `Source`."""

    delimiter = "\t"


SPEC = Format("tsv", TsvSource, (".tsv", ".tab"), is_table=True, looks_so=lambda head: separator_in(head) == b"\t")
