"""CSV and TSV with a header. Cells may be quoted, but must not span lines.

pyarrow reads a chunk of lines at a time. If it fails, the chunk is read line by line to explain the
invalid rows.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from contextlib import suppress
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, FileFormatError
from boostrank.core.text import NUMBER, NUMERIC, PLAIN_DIGITS, WRITTEN
from boostrank.files.blocks import Fault
from boostrank.files.chunks import (
    HEAD,
    LONE_RETURN,
    MISSING_REMEDY,
    NUL_BYTE,
    STAND_INS,
    Text,
    TextFile,
    open_text,
    quote_token,
    separator_in,
)
from boostrank.files.columns import Columns
from boostrank.files.source import File, Format
from boostrank.files.tables import Batch, TableSource, arrow
from boostrank.options import typed_names

_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_INF = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_TRUTH = frozenset((b"True", b"true", b"TRUE", b"False", b"false", b"FALSE"))
_VALUE = re.compile(rf"{NUMERIC.pattern}|true|false", re.IGNORECASE)
_BLANK = STAND_INS | {b""}


class CsvSource(TableSource):
    """Source of comma-separated text with a header."""

    delimiter = ","
    header_lines = 1
    open_file = staticmethod(open_text)

    def begin(self, file: TextFile) -> None:
        """Read the header, and choose the columns.

        Raises:
            FileFormatError: the first line is blank or too long, or names a column twice.
        """
        line, newline, _ = file.head.partition(b"\n")
        try:
            if not newline and len(file.head) >= HEAD:
                raise DataError(f"the line exceeds {HEAD >> 10} KiB: is this a table?")
            header = self._names(line.removesuffix(b"\r"))
        except DataError as error:
            raise FileFormatError(str(error), file=file.name, line=1) from None
        columns = self.choose(header, file)
        self.code_text(file, *self._text_in(file.head, columns))
        file.header = line + b"\n"
        file.head = file.head[len(file.header) :]

    def _names(self, line: bytes) -> list[str]:
        """Return the column names in the first line."""
        if not line.strip():
            raise DataError("the first line is blank or the file is empty: name the columns")
        reason, row = self._row(line, 0)
        if reason:
            raise DataError(f"the first line does not name the columns: {reason}")
        if len(row) == 1 and re.search("[,;\t|\1 ]", row[0]):
            raise DataError(
                f"the first line does not name columns separated by {self.delimiter!r}:"
                f" {quote_token(line)}; pass --format csv, tsv or libsvm, write commas, or remove"
                " the line"
            )
        return list(map(str.strip, row))

    def batch(self, file: File, chunk: Any) -> Batch:
        """Parse the columns that are needed, and number their lines without the blank ones."""
        text, columns = chunk, file.columns
        array = np.frombuffer(text.buffer, np.uint8, text.size)
        table = self._table(text, array, columns)
        n_lines = np.count_nonzero(array == 10) + text.unterminated
        lines = np.arange(1, n_lines + 1)
        if table is not None and table.num_rows != n_lines:  # some lines are blank
            lines = np.flatnonzero(list(map(bool, text.split()))) + 1
        if table is None or lines.size != table.num_rows:
            batch = self._line_by_line(text, file)
        else:
            arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
            batch = Batch(file, lines, n_lines, arrays)
        for name in columns.needed()[1]:
            batch.arrays[name] = self._trimmed(batch.arrays[name], name, columns)
        batch.unterminated, batch.size = text.unterminated, text.size
        return batch

    def written(self, chunk: Any, batch: Batch) -> tuple[Any, Any, Any]:
        """Return the chunk's bytes, the header, and the end of each row among them."""
        view, ends = chunk.lines()
        return view, batch.file.header, ends[batch.lines - 1]

    def _text_in(self, head: bytes, columns: Columns) -> tuple[dict[str, tuple[int, int]], int]:
        """Return the numbers of values and cells of text features, and the first line with text."""
        text: dict[str, tuple[int, int]] = {}
        if self.reading.space is not None or self.reading.skip:
            return text, 0
        lines = []
        raw_lines = head.split(b"\n")[1 : -1 if len(head) >= HEAD else None]
        rows = [self._row(raw.removesuffix(b"\r"), len(columns.header))[1] for raw in raw_lines]
        number_columns = set(columns.features) - columns.coded
        for position, name in enumerate(columns.header):
            if name not in number_columns:
                continue
            cells = {
                i: word
                for i, row in enumerate(rows, 2)
                if row
                and (word := row[position].strip()).encode().lower() not in _BLANK
                and word not in self.reading.missing_tokens
            }
            words = set(cells.values())
            if words and not any(map(_VALUE.fullmatch, words)):
                text[name] = len(words), len(cells)
                lines.append(min(cells))
        return text, min(lines, default=0)

    def _table(self, text: Text, array: Any, columns: Columns) -> Any:
        """Return an Arrow table, or None if pyarrow fails."""
        if np.any(array == 0) or np.any((array[:-1] == 13) & (array[1:] != 10)):
            return None
        # A column whose first cell is a truth value is read as such, because pyarrow reads no mix.
        pa, reader = arrow(), arrow(".csv")
        first = bytes(text.buffer[: text.buffer.index(b"\n")]).split(self.delimiter.encode())
        cells = zip(columns.header, first, strict=False)
        truths = {name for name, cell in cells if cell.strip(b' "\r') in _TRUTH}
        numbers, texts = columns.needed()
        types = {name: pa.bool_() if name in truths else pa.float64() for name in numbers}
        types |= dict.fromkeys(texts, pa.string())
        conversion = reader.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            strings_can_be_null=True,
            null_values=["", *self.reading.missing_tokens],
            true_values=["True", "true", "TRUE"],
            false_values=["False", "false", "FALSE"],
        )
        options = reader.ReadOptions(
            use_threads=False, block_size=text.size + 1, column_names=columns.header
        )
        try:
            return reader.read_csv(
                pa.py_buffer(memoryview(text.buffer)[: text.size]),
                options,
                reader.ParseOptions(delimiter=self.delimiter),
                conversion,
            )
        except pa.ArrowInvalid:
            return None

    def _line_by_line(self, text: Text, file: File) -> Batch:
        """Return the readable rows of a chunk, and record why the others are refused."""
        pa, columns = arrow(), file.columns
        numbers, texts = columns.needed()
        features = set(columns.features)
        # Split each line into cells; a refused line does not stop the others.
        rows: dict[int, dict[str, str]] = {}
        faults, raw_lines = [], text.split()
        for line, raw in enumerate(raw_lines, 1):
            reason, row = self._row(raw, len(columns.header))
            if reason and raw:
                faults.append(Fault(line, reason))
            elif raw:
                rows[line] = dict(zip(columns.header, row, strict=True))
        # Keep the text columns as they are.
        arrays: dict[str, Any] = {}
        for name in texts:
            arrays[name] = pa.array([cells[name] for cells in rows.values()], pa.string())
        # Read the numbers.
        for name in numbers:
            values, is_feature = [], name in features
            for line, cells in rows.items():
                word = cells[name].strip()
                value, reason = self._number(word, name, is_feature)
                values.append(value)
                if reason:
                    faults.append(Fault(line, reason))
            arrays[name] = pa.array(values, pa.float64())
        return Batch(file, np.array(list(rows), np.int64), len(raw_lines), arrays, faults)

    def _row(self, raw: bytes, width: int) -> tuple[str, list[str]]:
        """Return the reason why a line is refused, or "" if it is accepted, and its cells, whose
        number is `width` if that is not 0."""
        if b"\0" in raw:
            return NUL_BYTE, []
        if b"\r" in raw:
            return LONE_RETURN, []
        try:
            row = next(csv.reader([raw.decode()], delimiter=self.delimiter, strict=True))
        except UnicodeDecodeError:
            return "the line is not UTF-8: convert the file (iconv -f LATIN1 -t UTF-8)", []
        except (csv.Error, StopIteration):
            reason = 'a quote (") is not closed on its line: double the quote'
            return f"{reason}; cells cannot span lines", []
        if width and len(row) != width:
            reason = f"the row has {len(row):,} cells, but the first line has {width:,} names"
            if len(row) > width and self.delimiter == ",":
                reason += ": write decimal points, and quote text with commas"
            return reason, []
        return "", row

    def _number(self, word: str, name: str, is_feature: bool) -> tuple[float, str]:
        """Return the number in a cell, or NaN if it is missing, and the reason why it is
        invalid."""
        if not word or word in self.reading.missing_tokens or _NAN.fullmatch(word):
            return math.nan, ""
        # Read a number, a truth value or an infinity.
        cell = f"value {quote_token(word.encode())} of column {name!r}"
        if word.encode() in _TRUTH:
            return float(word.lower() == "true"), ""
        if NUMBER.fullmatch(word) and math.isinf(float(word)):
            return math.nan, f"{cell} exceeds the range of float64: rescale it"
        if NUMBER.fullmatch(word) or _INF.fullmatch(word):
            return float(word), ""
        # Suggest the option or edit that fits the kind of word.
        typed, remedy = typed_names(name), ": write a number, such as 0 to 4 for grades"
        if word.encode().lower() in STAND_INS:
            remedy = MISSING_REMEDY.format(shlex.quote(word))
        elif WRITTEN.fullmatch(word):
            remedy = f": {PLAIN_DIGITS}"
        elif is_feature:
            remedy = f": --drop {typed} leaves the column out"
            if self.reading.takes_categories:
                remedy += f", --categorical {typed} reads categories"
        return math.nan, f"{cell} is not a number{remedy}"

    def _trimmed(self, column: Any, name: str, columns: Columns) -> Any:
        """Return text without surrounding blanks, null if missing. Columns in `pick` keep those of
        words.

        Categories become numbers if they are numbers in the training data, because text cells have
        no type.
        """
        pa, pc, reading = arrow(), arrow(".compute"), self.reading
        trimmed = pc.utf8_trim_whitespace(column)
        if reading.pick is None:
            column = trimmed
        else:  # words keep their blanks
            is_number = pc.match_substring_regex(trimmed, f"^({NUMBER.pattern})$")
            column = pc.if_else(is_number, trimmed, column)
        # Make missing words null.
        is_missing = pc.is_in(trimmed, value_set=pa.array(["", *reading.missing_tokens]))
        column = pc.if_else(is_missing, pa.scalar(None, pa.string()), column)
        if name not in columns.coded or reading.trained_categories is None:
            return column
        categories = reading.trained_categories[columns.names[columns.features.index(name)]]
        if not categories.values or isinstance(categories.values[0], str):
            return column
        with suppress(pa.ArrowInvalid):  # a word among them is no number
            return column.cast("float64")
        return column


class TsvSource(CsvSource):
    """Source of tab-separated text with a header."""

    delimiter = "\t"


SPECS = (
    Format(
        "csv",
        CsvSource,
        (".csv",),
        is_table=True,
        looks_so=lambda head: separator_in(head) == b",",
    ),
    Format(
        "tsv",
        TsvSource,
        (".tsv", ".tab"),
        is_table=True,
        looks_so=lambda head: separator_in(head) == b"\t",
    ),
)
