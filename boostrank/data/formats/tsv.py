"""TSV: tab-separated text with a header."""

from boostrank.data.formats.csv import CsvSource
from boostrank.data.source import Format
from boostrank.data.text.files import separator_in


class TsvSource(CsvSource):
    """Source of tab-separated text with a header; see `Source`."""

    delimiter = "\t"


SPEC = Format("tsv", TsvSource, (".tsv", ".tab"), is_table=True, looks_so=lambda head: separator_in(head) == b"\t")
