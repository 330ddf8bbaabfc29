"""CSV and TSV with a header. Cells may be quoted, but must not span lines.

pyarrow reads a chunk of lines at a time. If it fails, the chunk is read line by line to explain the
invalid rows.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, FileFormatError
from boostrank.core.text import NUMBER, PLAIN_DIGITS, WRITTEN
from boostrank.files import chunks as text_files
from boostrank.files.blocks import Fault
from boostrank.files.chunks import STAND_INS, Text, TextFile, open_text, quote_token, separator_in
from boostrank.files.columns import Columns
from boostrank.files.source import File, Format, OneSource
from boostrank.files.tables import Batch, TableSource, arrow
from boostrank.options import typed_names

_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_INF = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_TRUTH = frozenset((b"True", b"true", b"TRUE", b"False", b"false", b"FALSE"))
_LIBSVM = re.compile(rb"[+-]?[\d.]\S*[ \t]+(qid:\S+|\d+:\S+)")


class CsvSource(TableSource):
    """Source of comma-separated text with a header."""

    delimiter = ","
    header_lines = 1

    def open_file(self, source: OneSource, max_bytes: int | None) -> TextFile:
        """Open a plain or compressed text."""
        return open_text(source, max_bytes)

    def begin(self, file: TextFile) -> None:
        """Read the header, and choose the columns.

        Raises:
            FileFormatError: the first line is blank or too long, or names a column twice.
        """
        line, newline, _ = file.head.partition(b"\n")
        if not newline and len(file.head) >= text_files.HEAD:
            raise FileFormatError(
                f"the first line exceeds {text_files.HEAD >> 10} KiB: is this a table?",
                file=file.name,
            )
        if not line.strip():
            words = (
                "the first line is blank: it must name the columns"
                if line
                else "no rows: the file is empty"
            )
            raise FileFormatError(words, file=file.name)
        try:
            header = _header(line.removesuffix(b"\r"), self.delimiter)
        except DataError as error:
            raise FileFormatError(str(error), file=file.name, line=1) from None
        columns = self.choose(header, file.name, file.path)
        file.columns = self.with_text(columns, *self._text_in(file.head, columns), file.name)
        file.header = line + b"\n"
        file.skip(len(line) + len(newline))

    def batch(self, file: File, chunk: Any) -> Batch:
        """Parse the columns that are needed, and number their lines without the blank ones."""
        text, columns = chunk, file.columns
        numbers, texts = columns.needed(self.reading)
        array = np.frombuffer(text.buffer, np.uint8, text.size)
        table = self._table(text, array, len(columns.header), numbers, texts) if text.size else None
        n_lines = np.count_nonzero(array == 10) + text.unterminated
        if table is not None:
            lines = np.arange(1, n_lines + 1)
            if table.num_rows != n_lines:  # some lines are blank
                lines = lines[np.array(list(map(bool, text.split())), bool)]
            arrays = {
                position: table.column(str(position)).combine_chunks()
                for position in (*numbers, *texts)
            }
            parsed = Batch(file, lines, n_lines, arrays)
        if table is None or lines.size != table.num_rows:
            parsed = self._line_by_line(text, file, numbers, texts)
        for position in texts:
            parsed.arrays[position] = self._trimmed(parsed.arrays[position], position, columns)
        parsed.unterminated, parsed.size = text.unterminated, text.size
        return parsed

    def written(self, chunk: Any, batch: Batch) -> tuple[Any, Any, Any]:
        """Return the chunk's bytes, the header, and the end of each row among them."""
        view, ends = chunk.lines()
        return view, batch.file.header, ends[batch.lines - 1]

    def _text_in(self, head: bytes, columns: Columns) -> tuple[dict[int, tuple[int, int]], int]:
        """Return the numbers of values and cells of text features by position, and the first line
        with text."""
        text, line = {}, 0
        raw_lines = head.split(b"\n")[1 : -1 if len(head) >= text_files.HEAD else None]
        rows = [self._row(raw.removesuffix(b"\r"), len(columns.header))[1] for raw in raw_lines]
        for position in (
            columns.places if self.reading.space is None and not self.reading.skip else ()
        ):
            cells = {
                i: row[position].strip()
                for i, row in enumerate(rows, 2)
                if row and row[position].strip()
            }
            cells = {i: word for i, word in cells.items() if word.encode().lower() not in STAND_INS}
            if (
                cells
                and position not in columns.coded
                and all(self._is_text(word) for word in set(cells.values()))
            ):
                text[position] = len(set(cells.values())), len(cells)
                line = min(line or min(cells), min(cells))
        return text, line

    def _is_text(self, word: str) -> bool:
        return (
            bool(self._number(word, "", True)[1])
            and not NUMBER.fullmatch(word)
            and not WRITTEN.fullmatch(word)
        )

    def _table(
        self, text: Text, array: Any, width: int, numbers: Sequence[int], texts: Sequence[int]
    ) -> Any:
        """Return an Arrow table whose column names are positions, or None if pyarrow fails."""
        if np.any(array == 0) or np.any((array[:-1] == 13) & (array[1:] != 10)):
            return None
        pa, reader = arrow(), arrow(".csv")
        first = bytes(text.buffer[: text.buffer.index(b"\n")]).split(self.delimiter.encode())
        words = [cell.strip(b' "\r') in _TRUTH for cell in first] + width * [False]
        types = {
            str(position): pa.bool_() if words[position] else pa.float64() for position in numbers
        }
        types |= {str(position): pa.string() for position in texts}
        types = types or {"0": pa.string()}  # validates every row even if no column is needed
        buffer = pa.py_buffer(memoryview(text.buffer)[: text.size])
        names = [str(i) for i in range(width)]
        try:
            return reader.read_csv(
                buffer,
                read_options=reader.ReadOptions(
                    use_threads=False, column_names=names, block_size=len(buffer) + 1
                ),
                parse_options=reader.ParseOptions(delimiter=self.delimiter),
                convert_options=reader.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    strings_can_be_null=True,
                    null_values=["", *self.reading.missing_tokens],
                    true_values=["True", "true", "TRUE"],
                    false_values=["False", "false", "FALSE"],
                ),
            )
        except pa.ArrowInvalid:
            return None

    def _line_by_line(
        self, text: Text, file: File, numbers: Sequence[int], texts: Sequence[int]
    ) -> Batch:
        """Return the readable rows of a chunk, and record why the others are refused."""
        pa, columns = arrow(), file.columns
        # Split each line into cells; a refused line does not stop the others.
        rows: list[list[str]] = []
        lines, faults = [], []
        raw_lines = text.split()
        for number, raw in enumerate(raw_lines, 1):
            words, row = self._row(raw, len(columns.header)) if raw else ("", [])
            if words:
                faults.append(Fault(number, words))
            elif raw:
                rows.append(row)
                lines.append(number)
        # Keep the text columns as they are.
        arrays: dict[int, Any] = {
            position: pa.array([row[position] for row in rows], pa.string()) for position in texts
        }
        # Read the numbers, and mark words that seem to stand for missing values.
        for position in numbers:
            values, is_feature = [], position in columns.places
            for number, row in zip(lines, rows, strict=True):
                value, words = self._number(
                    row[position].strip(), columns.header[position], is_feature
                )
                values.append(value)
                if words:
                    word = row[position].strip()
                    stands = is_feature and word.encode().lower() in STAND_INS
                    stand_in = (word, 0) if stands else None
                    faults.append(Fault(number, words, stand_in=stand_in))
            arrays[position] = pa.array(values, pa.float64())
        return Batch(file, np.array(lines, np.int64), len(raw_lines), arrays, faults)

    def _row(self, raw: bytes, width: int) -> tuple[str, list[str]]:
        """Return the reason why a line is refused, or "" if it is accepted, and its cells."""
        if b"\0" in raw:
            return text_files.NUL_BYTE, []
        if b"\r" in raw:
            return text_files.LONE_RETURN, []
        try:
            row = next(csv.reader([raw.decode()], delimiter=self.delimiter, strict=True))
        except UnicodeDecodeError:
            return "the line is not UTF-8: convert the file (iconv -f LATIN1 -t UTF-8)", []
        except csv.Error:
            return (
                'a quote (") is not closed on its line: double the quote; cells cannot span lines',
                [],
            )
        if len(row) != width:
            words = f"the row has {len(row):,} cells, but the first line has {width:,} names"
            if len(row) > width and self.delimiter == ",":
                words += ": write decimal points, and quote text with commas"
            return words, []
        return "", row

    def _number(self, word: str, name: str, is_feature: bool) -> tuple[float, str]:
        """Return the number in a cell, or NaN if it is missing, and the reason why it is
        invalid."""
        if not word or word in self.reading.missing_tokens or _NAN.fullmatch(word):
            return math.nan, ""
        # Read a number, a truth value or an infinity.
        cell = f"value {quote_token(word.encode())} of column {name!r}"
        if NUMBER.fullmatch(word):
            value = float(word)
            return (
                (math.nan, f"{cell} exceeds the range of float64: rescale it")
                if math.isinf(value)
                else (value, "")
            )
        if word.encode() in _TRUTH:
            return float(word.lower() == "true"), ""
        if _INF.fullmatch(word):
            return float(word), ""
        # Suggest the option or edit that fits the kind of word.
        typed = typed_names(name)
        if word.encode().lower() in STAND_INS:
            words = (
                f"if it stands for a missing value, --missing-token {shlex.quote(word)} reads it"
                " as one"
            )
        elif WRITTEN.fullmatch(word):
            words = PLAIN_DIGITS
        elif is_feature:
            words = f"--drop {typed} leaves the column out"
            words += f", --categorical {typed} reads categories" * self.reading.takes_categories
        else:
            words = "write a number, such as 0 to 4 for grades"
        return math.nan, f"{cell} is not a number: {words}"

    def _trimmed(self, column: Any, position: int, columns: Columns) -> Any:
        """Return text without surrounding blanks, null if missing. Columns in `pick` keep those of
        words.

        Categories become numbers if they are numbers in the training data, because text cells have
        no type.
        """
        pa, pc = arrow(), arrow(".compute")
        # Trim only numbers where `pick` is set: words keep their blanks.
        trimmed = pc.utf8_trim_whitespace(column)
        if self.reading.pick is None:
            column = trimmed
        else:
            column = pc.if_else(
                pc.match_substring_regex(trimmed, f"^({NUMBER.pattern})$"), trimmed, column
            )
        if position == columns.qid and position not in columns.texts:
            return column
        # Make missing words null, except in query ids.
        words = pa.array(["", *self.reading.missing_tokens], pa.string())
        column = pc.if_else(
            pc.is_in(trimmed, value_set=words), pa.scalar(None, pa.string()), column
        )
        if position not in columns.coded or self.reading.trained_categories is None:
            return column
        categories = self.reading.trained_categories[columns.names[columns.places.index(position)]]
        if not categories.values or isinstance(categories.values[0], str):
            return column
        # Turn categories into numbers, unless a word among them is no number.
        coded = column.dictionary_encode()
        words = coded.dictionary.to_pylist()
        if all(map(NUMBER.fullmatch, words)):
            numbers = pa.array(list(map(float, words)), pa.float64())
            return pa.DictionaryArray.from_arrays(coded.indices, numbers)
        return column


def _header(line: bytes, delimiter: str) -> list[str]:
    """Return the column names in the first line."""
    # Recognise libsvm text before its values become column names.
    if _LIBSVM.match(line):
        raise DataError(
            "the file seems to be libsvm text (label qid:ID number:value ...):"
            f" {quote_token(line)}; pass --format libsvm"
        )
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise DataError("the first line is not UTF-8") from None
    # Refuse the line ends and the separator line of other programs.
    if "\r" in text:
        raise DataError(text_files.LONE_RETURN)
    if text.lower().startswith("sep="):
        raise DataError("the first line is Excel's separator: `tail -n +2` removes it")
    try:
        names = [
            name.strip() for name in next(csv.reader([text], delimiter=delimiter, strict=True))
        ]
    except csv.Error as error:
        raise DataError(f"the first line cannot be split into names: {error}") from None
    if len(names) == 1 and text.startswith("#"):
        raise DataError("the first line is a comment: `tail -n +2` removes it")
    # Suspect another delimiter if the line has only one name.
    others = {
        ",": "commas: pass --format csv",
        "\t": "tabs: pass --format tsv",
        ";": "semicolons: write commas",
        "|": "vertical bars: write commas",
        "\1": "control characters: write commas",
        " ": "blanks: write commas",
    }
    for other, words in others.items():
        if len(names) == 1 and other != delimiter and other in text:
            raise DataError(f"the columns seem to be separated by {words}")
    return names


class TsvSource(CsvSource):
    """Source of tab-separated text with a header."""

    delimiter = "\t"


SPECS = (
    Format(
        "csv", CsvSource, (".csv",), is_table=True, looks_so=lambda head: separator_in(head) == b","
    ),
    Format(
        "tsv",
        TsvSource,
        (".tsv", ".tab"),
        is_table=True,
        looks_so=lambda head: separator_in(head) == b"\t",
    ),
)
