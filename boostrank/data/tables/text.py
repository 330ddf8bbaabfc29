"""CSV and TSV text: chunks of lines into columns.

A table begins with the names of its columns. A cell is on one line; it may stand in double quotes.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from boostrank.core.errors import FileFormatError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.libsvm.chunks import HEAD, Load, Source, Text, open_source
from boostrank.data.libsvm.reasons import STAND_INS, shown
from boostrank.data.options import typed_names
from boostrank.data.tables.columns import Columns
from boostrank.data.tables.options import TableOptions, arrow
from boostrank.data.tables.parser import Cells, Fault, local_codes

ChooseColumns = Callable[..., Columns]
"""Columns of a header, for a file of this name and path; which of them hold categories by their type."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_INF = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)
_LIBSVM = re.compile(rb"[+-]?[\d.]\S*[ \t]+(qid:\S+|\d+:\S+)")
_NEWLINE, _QUOTE, _RETURN = 10, 34, 13
_OPEN_CELL = 'a cell begins with a quote (") that is not closed on its line: double it, and quote the whole cell'
_LONE_RETURN = "carriage return without a line feed: convert the file (tr '\\r' '\\n')"
_LARGEST = float(np.finfo(np.float32).max)


class TextSource:
    """A source of text behind its header, whose chunks know its columns.

    Args:
        source: the text.
        delimiter: between cells.
        choose: makes the columns of the header.

    Raises:
        FileFormatError: no header, or one that cannot be used.
    """

    def __init__(self, source: Source, delimiter: str, choose: ChooseColumns) -> None:
        self._source, self.delimiter = source, delimiter
        line, newline, _ = source.head.partition(b"\n")
        if not newline and len(source.head) >= HEAD:
            raise FileFormatError(f"the first line is longer than {HEAD >> 10} KiB: is this a table?", file=source.name)
        header = _header(line.removesuffix(b"\r"), delimiter, source.name)
        self.columns = choose(header, source.name, source.path)
        source.skip(len(line) + len(newline))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def loads(self, chunk_bytes: int) -> Iterator[Callable[[Any], TextPiece]]:
        """The chunks in order."""
        for load in self._source.loads(chunk_bytes):
            yield partial(self._load, load)

    def _load(self, load: Load, buffer: bytearray | None) -> TextPiece:
        return TextPiece(load(buffer), self.columns, self.delimiter, self._source.name)


def open_text(
    one: str | os.PathLike[str] | BinaryIO, max_bytes: int | None, *, delimiter: str, choose: ChooseColumns
) -> TextSource:
    """The source behind a path, "-" or a binary file object; see `open_source`."""
    source = open_source(one, max_bytes)
    try:
        return TextSource(source, delimiter, choose)
    except BaseException:
        source.close()
        raise


def _header(line: bytes, delimiter: str, file: str) -> list[str]:
    """Names of the columns."""
    if not line.strip():
        words = "no rows: the file is empty" if not line else "the first line is blank: a table begins with the names"
        raise FileFormatError(words, file=file)
    if _LIBSVM.match(line):
        raise FileFormatError(
            f"this looks like libsvm text (label qid:ID number:value ...): {shown(line)}; give --format libsvm",
            file=file, line=1,
        )  # fmt: skip
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise FileFormatError("the first line is not UTF-8", file=file, line=1) from None
    if "\r" in text:
        raise FileFormatError(_LONE_RETURN, file=file, line=1)
    try:
        names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter, strict=True))]
    except csv.Error as error:
        raise FileFormatError(f"the first line cannot be cut into names: {error}", file=file, line=1) from None
    for other, words in ((",", "commas: give --format csv"), ("\t", "tabs: give --format tsv"),
                         (";", "semicolons: write commas or tabs")):  # fmt: skip
        if len(names) == 1 and other != delimiter and other in text:
            raise FileFormatError(f"the columns seem to be separated by {words}", file=file, line=1)
    return names


class TextPiece:
    """Whole lines of a table, as `tables.parser.Piece`."""

    def __init__(self, text: Text, columns: Columns, delimiter: str, file: str) -> None:
        self.text, self.columns, self.delimiter, self.file = text, columns, delimiter, file
        self.size, self.unterminated = text.size, text.unterminated

    def read(
        self, numbers: Sequence[int], qid: int | None, options: TableOptions, *, exactly: bool,
        texts: Sequence[int] = (),
    ) -> Cells:  # fmt: skip
        """Cells of some columns; see `tables.parser.Piece`."""
        text = self.text
        if text.end == text.start:
            empty = np.zeros(0, np.int64)
            nothing: Any = arrow().array([], arrow().string())
            found = None if qid is None else nothing
            return Cells(empty, 0, dict.fromkeys(numbers, np.zeros(0)), found, texts=dict.fromkeys(texts, nothing))
        array = np.frombuffer(text.buffer, np.uint8, text.end - text.start, text.start)
        ends = np.flatnonzero(array == _NEWLINE)
        n_lines = ends.size + text.unterminated
        faults = _broken_lines(array, ends)
        if faults:  # what stands behind the first cannot be told apart
            return self._broken(faults[0], n_lines, numbers, options)
        ragged: list[Any] = []
        table = None
        if not exactly:
            try:
                table = self._parsed(numbers, qid, texts, options, ragged, as_text=False)
            except arrow().ArrowInvalid:
                exactly = True
        if exactly:
            ragged.clear()
            try:
                table = self._parsed(numbers, qid, texts, options, ragged, as_text=True)
            except arrow().ArrowInvalid as error:
                fault = _not_utf8(array, ends)
                if fault is None:
                    raise FileFormatError(" ".join(str(error).split()), file=self.file) from None
                return self._broken(fault, n_lines, numbers, options)
        assert table is not None
        lines = _lines_of(array, ends, n_lines, table.num_rows, ragged)
        if lines.size != table.num_rows:
            line = _open_cell(array, ends, self.delimiter)
            return self._broken(Fault(line, _OPEN_CELL), n_lines, numbers, options)
        for row in ragged:
            number = int(_nonblank(array, ends, n_lines)[row.number - 1])
            words = f"the row has {row.actual_columns:,} cells, the first line {row.expected_columns:,} names"
            faults.append(Fault(number, words))
        cells = Cells(lines, n_lines, {}, None, faults)
        for place in dict.fromkeys(numbers):
            column = table.column(self._name(place)).combine_chunks()
            if place in self.columns.coded:
                codes, values = local_codes(_trimmed(column, options))
                cells.numbers[place], cells.values[place] = codes, self._like_known(values, place, options)
            elif exactly:
                cells.numbers[place] = _numbers(column, self.columns.header[place], cells, options,
                                                is_feature=place in self.columns.places)  # fmt: skip
            else:
                cells.numbers[place] = column.to_numpy(zero_copy_only=False)
        if qid is not None:
            ids = table.column(self._name(qid)).combine_chunks()
            cells.qid = arrow(".compute").utf8_trim_whitespace(ids)
        cells.texts = {place: _trimmed(table.column(self._name(place)).combine_chunks(), options) for place in texts}
        return cells

    def _like_known(self, words: list[str], place: int, options: TableOptions) -> list[Any]:
        """Categories as numbers where those of the training data are: a text has no types."""
        known = (options.known or {}).get(self.columns.names[self.columns.places.index(place)])
        if known is None or not known.values or isinstance(known.values[0], str):
            return list(words)
        return [float(word) if _NUMBER.fullmatch(word) else word for word in words]

    def _broken(self, fault: Fault, n_lines: int, numbers: Sequence[int], options: TableOptions) -> Cells:
        """No rows, for one that cannot be told from those behind it.

        Raises:
            FileFormatError: rows that cannot be read are to be skipped.
        """
        if options.skip:
            words = "; such lines cannot be skipped, for nobody knows where the next one begins"
            raise FileFormatError(fault.words + words, file=self.file)
        return Cells(np.zeros(0, np.int64), n_lines, dict.fromkeys(numbers, np.zeros(0)), None, [fault])

    @staticmethod
    def _name(place: int) -> str:
        return str(place)

    def _parsed(
        self, numbers: Sequence[int], qid: int | None, texts: Sequence[int], options: TableOptions, ragged: list[Any],
        *, as_text: bool,
    ) -> Any:  # fmt: skip
        """An Arrow table with the columns called by their places."""
        pa, reader, text = arrow(), arrow(".csv"), self.text

        def handle(row: Any) -> str:
            ragged.append(row)
            return "skip"

        kind = pa.string() if as_text else pa.float64()
        types = {self._name(place): pa.string() if place in self.columns.coded else kind for place in numbers}
        types |= {self._name(place): pa.string() for place in (*texts, *([] if qid is None else [qid]))}
        if not types:  # every row is looked at, whatever is wanted of it
            types = {self._name(0): pa.string()}
        names = [self._name(i) for i in range(len(self.columns.header))]
        buffer = pa.py_buffer(memoryview(text.buffer)[text.start : text.end])
        return reader.read_csv(
            buffer,
            read_options=reader.ReadOptions(use_threads=False, column_names=names, block_size=len(buffer) + 1),
            parse_options=reader.ParseOptions(delimiter=self.delimiter, invalid_row_handler=handle),
            convert_options=reader.ConvertOptions(
                column_types=types, include_columns=list(types), strings_can_be_null=True,
                null_values=["", *options.missing_tokens],
            ),
        )  # fmt: skip


def _broken_lines(array: Any, ends: Int64Array) -> list[Fault]:
    """The first line with a cell that goes over several lines, or with characters that no text has."""
    found = []
    quotes = np.flatnonzero(array == _QUOTE)
    if quotes.size:
        open_at = np.flatnonzero(np.searchsorted(quotes, ends) % 2)
        last = quotes.size % 2 and not open_at.size
        if open_at.size or last:
            line = int(open_at[0]) + 1 if open_at.size else ends.size + 1
            found.append(Fault(line, 'a quote (") is not closed on its line: a cell cannot go over several lines'))
    returns = np.flatnonzero(array == _RETURN)
    lone = returns[np.append(array[1:], np.uint8(_NEWLINE))[returns] != _NEWLINE]
    if lone.size:
        line = int(np.searchsorted(ends, lone[0])) + 1
        found.append(Fault(line, _LONE_RETURN))
    zero = np.flatnonzero(array == 0)
    if zero.size:
        found.append(Fault(int(np.searchsorted(ends, zero[0])) + 1, "NUL byte: the file is damaged, or not text"))
    return sorted(found, key=lambda fault: fault.line)


def _not_utf8(array: Any, ends: Int64Array) -> Fault | None:
    """The first line that is not UTF-8."""
    try:
        array.tobytes().decode()
    except UnicodeDecodeError as error:
        line = int(np.searchsorted(ends, error.start)) + 1
        return Fault(line, "the line is not UTF-8: convert the file (iconv -f LATIN1 -t UTF-8)")
    return None


def _open_cell(array: Any, ends: Int64Array, delimiter: str) -> int:
    """The first line with a cell that begins with a quote and does not end on it; 1-based."""
    for line, text in enumerate(array.tobytes().split(b"\n"), 1):
        try:
            next(csv.reader([text.decode(errors="replace")], delimiter=delimiter, strict=True), None)
        except csv.Error:
            return line
    return 1


def _nonblank(array: Any, ends: Int64Array, n_lines: int) -> Int64Array:
    """int64: the 1-based lines that are not blank."""
    starts = np.concatenate([[0], ends + 1])[:n_lines]
    stops = np.append(ends, array.size)[:n_lines]
    length = stops - starts
    padded = np.append(array, 0)
    blank = (length == 0) | ((length == 1) & (padded[np.minimum(starts, array.size)] == _RETURN))
    return (np.flatnonzero(~blank) + 1).astype(np.int64)


def _lines_of(array: Any, ends: Int64Array, n_lines: int, rows: int, ragged: Sequence[Any]) -> Int64Array:
    """int64[rows]: the line of each row."""
    if rows == n_lines:
        return np.arange(1, rows + 1)
    lines = _nonblank(array, ends, n_lines)
    return np.delete(lines, [row.number - 1 for row in ragged if row.number <= lines.size])


def _trimmed(column: Any, options: TableOptions) -> Any:
    """Text without the blanks around it; null where nothing is left, or a word for what is missing."""
    pa, pc = arrow(), arrow(".compute")
    column = pc.utf8_trim_whitespace(column)
    words = pa.array(["", *options.missing_tokens], pa.string())
    return pc.if_else(pc.is_in(column, value_set=words), pa.scalar(None, pa.string()), column)


def _numbers(column: Any, name: str, cells: Cells, options: TableOptions, *, is_feature: bool) -> Float64Array:
    """float64[n] of text, NaN where it is missing; what cannot be read becomes a fault."""
    pa, pc = arrow(), arrow(".compute")
    try:
        values = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        if bool(np.all((np.abs(values) <= _LARGEST) | np.isnan(values))):
            return np.asarray(values, np.float64)
    except pa.ArrowInvalid:
        pass
    out = np.full(len(column), np.nan)
    for row, word in enumerate(column.to_pylist()):
        if word is None or not word.strip() or word.strip() in options.missing_tokens:
            continue
        value, words = _number(word.strip(), name, options, is_feature=is_feature)
        out[row] = value
        if math.isinf(value) or (words == "" and math.isnan(value) and _INF.fullmatch(word.strip())):
            cells.infinite += 1
        if words:
            cells.faults.append(Fault(int(cells.lines[row]), words))
    return out


def _number(word: str, name: str, options: TableOptions, *, is_feature: bool) -> tuple[float, str]:
    """(the number that a word is, why it is none)."""
    token = shown(word.encode())
    cell = f"value {token} of column {name!r}"
    if _NUMBER.fullmatch(word):
        value = float(word)
        if math.isinf(value) or (is_feature and abs(value) > _LARGEST and math.isinf(float(_float32(value)))):
            kind = "float32 (largest 3.4028235e38)" if is_feature else "float64"
            return math.nan, f"{cell} does not fit in {kind}: rescale it"
        return value, ""
    if _NAN.fullmatch(word):
        return math.nan, ""
    infinite = _INF.fullmatch(word)
    if infinite and is_feature:
        if options.inf == "stop":
            return math.nan, f"{cell} is infinite: --inf keep or --inf missing reads it"
        return (math.nan if options.inf == "missing" else float(infinite[1] + "inf")), ""
    if word.encode().lower() in STAND_INS:
        asks = f"--missing-token {word if word.isalpha() else repr(word)} reads it as one"
        return math.nan, f"{cell} is not a number: if it stands for a missing value, {asks}"
    typed = typed_names(name)
    hint = ": write a decimal point, not a comma" if re.fullmatch(r"[+-]?\d+,\d+", word) else (
        f": --drop {typed} leaves the column out, --categorical {typed} reads categories" if is_feature else ""
    )  # fmt: skip
    return math.nan, f"{cell} is not a number{hint}"


def _float32(value: float) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(value)
