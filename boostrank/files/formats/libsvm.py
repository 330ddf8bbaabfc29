"""libsvm text with query ids, the format of SVMrank, LETOR, MSLR, Yahoo and Istella.

    2 qid:10 1:0.5 3:17 136:0.25 # any comment

Values are the float32 nearest to Python's `float` of the token. Group sizes in `FILE.query` or
`FILE.group` define the queries of rows without query ids.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from boostrank.core.errors import BoostrankError, FileFormatError, ParameterError
from boostrank.core.types import Int64Array
from boostrank.data.arrays import default_feature_names
from boostrank.data.feature_space import NUMBERED, FeatureSpace
from boostrank.files import blocks as slots
from boostrank.files.blocks import BEYOND_FLOAT32, Block, Fault, drop_zeros, fill_dense, zeroed
from boostrank.files.chunks import (
    BYTE_ORDER_MARK,
    CELL,
    HEAD,
    LONE_RETURN,
    MISSING_REMEDY,
    NUL_BYTE,
    STAND_INS,
    Text,
    TextFile,
    open_any,
    open_text,
    quote_token,
)
from boostrank.files.names import name_in, names_in_head, same_names, words_in
from boostrank.files.side_files import GROUP_SUFFIXES, find_sidecar
from boostrank.files.source import Format, OneSource, Reading, Source
from boostrank.files.text import parser as parse

_PROBED_LINES = 64
# In the order of the parser's numbers.
_INF, _REPEATED = ("stop", "keep", "missing"), ("stop", "first", "last")
_NUMBER = re.compile(rb"[^ \t\r\n#]+")
_HEAD = re.compile(rb"(?:[ \t]*(?:#[^\n]*|\r?)\n)*")
_BASE = re.compile(rb"(?im)^[ \t]*#[ \t]*column indices are (zero|one)-based")  # scikit-learn

# Codes that the parser does not distinguish.
_UNEXPECTED_LABEL, _NO_LABEL = parse.INCOMPLETE + 1, parse.INCOMPLETE + 2
_MESSAGES = {
    parse.LABEL: "label {token} is not a number; each row has one label, finite in float64 and"
    " with a decimal point; a table needs --format csv or tsv",
    _UNEXPECTED_LABEL: "the row has the label {token}, but the first rows have none",
    _NO_LABEL: "the row starts with {token}, and not with a label; predict, verify and export read"
    " files in which no row has one; weights in label:weight belong to FILE.weight; scikit-learn"
    " writes single labels with multilabel=False",
    parse.NO_QID: "the row has no qid; write qid:ID after the label"
    " (or, for all rows, sizes to FILE.query)",
    parse.UNEXPECTED_QID: "the row has {token}, but the first rows have no qid;"
    " all rows or none must have one",
    parse.QID: "qid {value} is empty, a decimal, contains control characters or '#', or is not"
    " UTF-8; put a blank before a comment, and write whole numbers without a point",
    parse.FEATURE: "{token} is not of the form number:value, with a feature number that is whole"
    " and not negative; features with names belong to a table, such as CSV",
    parse.ZERO_ID: "feature 0 occurs, but the file or the training data count from 1 (the default"
    " of arrays); use --zero-based true if they count from 0",
    parse.LARGE_ID: "feature number {number} is above {most:,}; raise --max-feature if it is"
    " correct",
    parse.DUPLICATE: "feature {feature} occurs twice in the row;"
    " --repeated first (or last) keeps one",
    parse.DESCENDING: "feature {feature} follows a larger number;"
    " --strict requires ascending numbers",
    parse.INCOMPLETE: "the last line ends inside {token}, without a newline: the file is truncated",
    parse.INFINITE: "value {value} of feature {feature} is infinite;"
    " use --inf keep or --inf missing",
    parse.OVERFLOW: "value {value} of feature {feature} " + BEYOND_FLOAT32,
    parse.VALUE: "value {value} of feature {feature} is not a number with a decimal point",
}


class Scratch:
    """Reusable output buffers of the parser, for text of `size` bytes."""

    def __init__(self, size: int, options: Int64Array) -> None:
        # The shortest rows are "0 qid:1\n", "qid:1\n" without labels, and "0\n".
        query = 8 - 2 * options[parse.UNLABELLED]
        rows = size // (query if options[parse.EXPECT_QID] else 2) + 2
        cells = size // 4 + 2  # the shortest cell is "1:0 "
        self.undecided = np.empty(size // 5 + 2, np.int64)  # "1e-320" and its end; one spare entry
        self.labels = np.empty(rows, np.float64)
        self.lines, self.row_ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self.ids = zeroed(cells, np.int32)
        self.values = zeroed(cells, np.float32)
        self.runs = np.empty((size // query + 2, slots.N_RUN), np.int64)
        n_comments = rows if options[parse.KEEP_COMMENTS] else 0
        self.comments = np.empty((n_comments, 2), np.int64)
        self.bad = np.zeros((slots.BAD_KEPT + 1, parse.N_BAD), np.int64)
        self.state = np.zeros(2 * slots.N_STATE, np.int64)
        self.outputs = list(vars(self).values())  # in the order of the parser's arguments
        self.size = size


def _find_invalid_bytes(text: bytes, code: int, line: int, at: int) -> Fault | None:
    """Return the fault of bytes that are invalid anywhere, given their line and position, or None
    if there are none."""
    if b"\0" in text:
        return Fault(line, NUL_BYTE, at + text.index(b"\0"))
    if text.startswith(BYTE_ORDER_MARK):
        reason = "the line contains a byte order mark, perhaps from concatenated files; remove it"
        return Fault(line, reason, at)
    if lone := re.search(rb"\r(?!\Z)", text):
        return Fault(line, LONE_RETURN, at + lone.start())
    if code not in (parse.QID, parse.COMMENT) and not text.isascii():
        reason = "has characters outside ASCII; write numbers with the digits 0-9"
        return Fault(line, f"{quote_token(text)} {reason}", at)
    return None


class LibsvmSource(Source):
    """Source of libsvm text."""

    unused = ("label", "qid", "weight", "id", "drop", "categorical")
    open_file = staticmethod(open_text)

    def __init__(self, files: Sequence[OneSource], reading: Reading) -> None:
        self._names: dict[int, str] = {}
        self._free: list[Scratch] = []  # buffers that no thread uses
        super().__init__(files, reading)

    def begin(self, file: TextFile) -> None:
        """Read names and the first feature's number from comments, and settle the options.

        Raises:
            FileFormatError: the comments of the file contradict earlier files.
        """
        self._names = same_names(self._names, names_in_head(file.head, file.name), file.name)
        if len(self._open) == 1:
            self._choose_options(file)
        number, base = _base_in_comment(file.head), self.base
        if None not in (number, base) and number != base and self.reading.zero_based == "auto":
            raise FileFormatError(
                f"a comment says that features count from {number}, but those of the training"
                f" data or first file count from {base}: write both alike, or pass --zero-based"
                f" {str(not base).lower()} if it is wrong",
                file=file.name,
            )

    @staticmethod
    def head_of(path: Any) -> bytes:
        """Return the first bytes of a text, decompressed, or b"" if it cannot be read, which the
        reader reports."""
        try:
            with closing(open_any(path)) as file:
                return file.head
        except BoostrankError:
            return b""

    def _choose_options(self, first: TextFile) -> None:
        """Choose the number of the first feature and the options for the compiled parser."""
        reading, space, zero_based = self.reading, self.reading.space, self.reading.zero_based
        if space is not None and reading.n_features is not None:
            raise ParameterError(
                "n_features and like exclude each other: the training data define the features"
            )
        written = base_in(first.head)
        if zero_based != "auto":
            self.base = int(zero_based != "true")
        elif space is None:
            self.base = _base_in_comment(first.head)  # None: all rows decide
        elif space.index_base is None:
            self.base = 1 if written is None else written
        else:
            self.base = space.index_base
        if space is not None and space.index_base not in (None, self.base):
            raise ParameterError(
                f"zero_based={zero_based} contradicts the training data, whose first feature "
                f"has number {space.index_base}; remove the option"
            )
        options = np.zeros(parse.N_OPTIONS, np.int64)
        options[parse.MAX_ID] = options[parse.LIMIT] = reading.max_feature
        if space is not None and self.base is not None:
            options[parse.LIMIT] = self.base + self._width(space) - 1
        if reading.rows_alone and not (space and space.partial):
            # Refuse features that the model does not have.
            options[parse.MAX_ID] = options[parse.LIMIT]
        options[parse.REFUSE_ZERO_ID] = self.base == 1
        options[parse.INF] = _INF.index(reading.inf)
        options[parse.REPEATED] = _REPEATED.index(reading.repeated)
        options[parse.STRICT] = reading.strict and not reading.lenient
        options[parse.SKIP] = reading.skip or reading.lenient
        options[parse.KEEP_COMMENTS] = reading.keeps_names
        # The beginning and the side files of the first file decide whether rows have labels and
        # query ids.
        rows = _first_rows(first.head)
        self.unlabelled = (reading.rows_alone or not reading.labelled) and _lack_labels(rows)
        has_qid = any(token.startswith(b"qid:") for row in rows for token in row)
        alone = reading.rows_alone or find_sidecar(first.path, GROUP_SUFFIXES) is not None
        self.has_qid = has_qid or reading.whole or not alone
        options[parse.EXPECT_QID], options[parse.HEADS_ONLY] = self.has_qid, reading.whole
        options[parse.UNLABELLED] = self.unlabelled
        self.options = options

    def parse(self, file: Any, text: Any) -> Block:
        """Parse the lines of a chunk by compiled code, in a buffer that an earlier chunk left."""
        try:
            scratch = self._free.pop()
        except IndexError:
            scratch = Scratch(0, self.options)
        if scratch.size < text.size:
            scratch = Scratch(text.size, self.options)
        block = self._parse(text, scratch)
        self._free.append(scratch)
        if not self.reading.whole:  # written text must not change
            file.buffers.append(text.buffer)
        return block

    def _parse(self, text: Text, scratch: Scratch) -> Block:
        # Lay out the words for missing values in one array for the compiled parser.
        words = [token.encode() for token in self.reading.missing_tokens]
        token_text = np.array([*b"".join(words)], np.uint8)
        token_ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        options, state = self.options.copy(), scratch.state
        options[parse.UNTERMINATED] = text.unterminated and not self.reading.whole
        options[parse.N_TOKENS] = len(words)
        array, decided = np.frombuffer(text.buffer, np.uint8), np.zeros(0)
        while True:
            # Parse again if numbers are undecided, with the values that Python reads for them.
            state[:] = 0
            state[slots.UNDECIDED] = options[parse.N_DECIDED] = decided.size
            parse.parse_lines(
                array, text.size, options, token_text, token_ends, decided, *scratch.outputs
            )
            undecided = scratch.undecided[: state[slots.UNDECIDED]].tolist()
            if len(undecided) == decided.size:
                break
            numbers = [next(_NUMBER.finditer(text.buffer, start))[0] for start in undecided]
            decided = np.array(list(map(float, numbers)))
        return self._block(text, scratch)

    def _block(self, text: Text, scratch: Scratch) -> Block:
        counts = scratch.state[: slots.N_STATE].copy()
        rows, bad = int(counts[slots.ROWS]), int(counts[slots.BAD_ROWS])
        described = scratch.bad[: min(bad, slots.BAD_KEPT)].tolist()
        # Copy the rows out of the buffers, which the next chunk reuses.
        block = Block(
            scratch.labels[:rows].copy(),
            counts,
            scratch.lines[:rows].copy(),
            runs=scratch.runs[: counts[slots.RUNS]].copy(),
            bad=[self._fault(fault, text) for fault in described],
            unterminated=text.unterminated,
            size=text.size,
        )
        for i in np.flatnonzero(block.runs[:, slots.RUN_IS_INTEGER] == 0).tolist():
            start, end = block.runs[i, [slots.RUN_START, slots.RUN_END]]
            block.names[i] = bytes(text.buffer[start:end])
        if self.reading.whole:
            block.text, ends = text.lines()
            block.ends = ends[block.lines - 1]
            return block
        self._keep_cells(block, scratch)
        if self.options[parse.KEEP_COMMENTS]:
            comments = scratch.comments[:rows].tolist()
            block.document_names = np.array(
                [name_in(bytes(text.buffer[a:b])) for a, b in comments], object
            )
            block.words = words_in(text.buffer[: text.size])
        return block

    def _fault(self, bad: Sequence[int], text: Text) -> Fault:
        """Return the reason why a row is refused, from the parser's N_BAD numbers."""
        code, line_number, begin, token_begin, feature = bad  # as the parser numbers them
        end = text.buffer.index(b"\n", begin)
        line, at = bytes(text.buffer[begin:end]), token_begin - begin
        token = re.split(rb"[ \t\n]", line[at:], maxsplit=1)[0]
        unread = line[at:] if code == parse.COMMENT else token
        token = token.removesuffix(b"\r")
        if code != parse.QID:
            token = token.partition(b"#")[0]
        if self.unlabelled and at == 0 and code in (parse.NO_QID, parse.FEATURE):
            code = _UNEXPECTED_LABEL
        elif code == parse.LABEL and CELL.match(token):
            code = _NO_LABEL
        invalid = _find_invalid_bytes(unread, code, line_number, at + 1)
        if invalid is not None:
            return invalid
        # Choose the message.
        number, _, value = token.partition(b":")
        message = _MESSAGES[code].format(
            token=quote_token(token),
            number=quote_token(number),
            value=quote_token(value),
            feature=feature,
            most=self.reading.max_feature,
        )
        # Some codes have more to say.
        if code == parse.VALUE and value.lower() in STAND_INS:
            message += MISSING_REMEDY.format(shlex.quote(value.decode()))
        if code != parse.INCOMPLETE and end >= text.size and at + len(token) >= len(line.rstrip()):
            message += "; the last line has no newline: the file may be truncated"
        if code == parse.LARGE_ID and self.reading.rows_alone:
            last = self.options[parse.LIMIT]
            message = (
                f"feature {feature} occurs, but the model has the features {self.base} to {last}:"
                f" the data must match its training data, and count from {self.base}, too"
            )
        if code in (parse.DUPLICATE, parse.ZERO_ID):  # the parser tells the row alone
            number = feature * (code == parse.DUPLICATE)
            places = [match.end(1) for match in re.finditer(rb"(^|[ \t])0*%d:" % number, line)]
            at = places[code == parse.DUPLICATE]
        return Fault(line_number, message, at + 1)

    def _keep_cells(self, block: Block, scratch: Scratch) -> None:
        """Store the values in the block, in dense or sparse form, whichever is smaller."""
        limit, rows = int(self.options[parse.LIMIT]), block.n_rows
        width = min(int(block.counts[slots.TOP_ID]), limit) + 1
        cells = int(block.counts[slots.CELLS] - block.counts[slots.BEYOND])
        if not self.reading.lenient and 4 * rows * width <= 8 * cells:
            block.dense = zeroed((rows, width), np.float32)
            fill_dense(scratch.row_ends, scratch.ids, scratch.values, block.dense)
            return
        row_ends = scratch.row_ends[:rows].copy()
        kept = drop_zeros(row_ends, scratch.ids, scratch.values, limit)
        block.sparse = row_ends, zeroed(kept, np.int32), zeroed(kept, np.float32)
        block.sparse[1][:], block.sparse[2][:] = scratch.ids[:kept], scratch.values[:kept]

    def numbered_names(self, base: int = 1) -> Mapping[int, str]:
        """Return the names of the options, or else those in comments, by feature number."""
        names: Any = self.reading.feature_names
        if isinstance(names, tuple):
            names = {base + i: name for i, name in enumerate(names)}
        return names or self._names

    def schema(self, totals: Any) -> FeatureSpace:
        """Return the features up to the largest number of all blocks."""
        base, columns = self._columns(totals)
        space, by_number = self.reading.space, self.numbered_names(base)
        if self._names and by_number != self._names:
            totals.warn(
                "the feature names in the text differ from those of --feature-names, which are used"
            )
        names = default_feature_names(columns, base)
        if space is not None and self.place_of(base) is None:
            names = space.feature_names or names
            by_position = space.index_base is None and self.reading.zero_based == "auto"
            if by_position and not by_number and not all(map(NUMBERED.fullmatch, names)):
                totals.warn(
                    f"the text has no feature names; they are assigned by position, {base} is"
                    f" {names[0]!r}"
                )
        elif by_number:
            names = tuple(by_number.get(base + i, f"f{base + i}") for i in range(columns))
        return FeatureSpace(base, len(names), names)

    def _width(self, space: FeatureSpace) -> int:
        """Return the number of features in the training data, or the number of names if some belong
        to other models."""
        assert self.base is not None
        by_name = bool(space.ignored) and self.place_of(self.base) is not None
        return len(self.numbered_names()) if by_name else space.n_features

    def _columns(self, totals: Any) -> tuple[int, int]:
        """Return the number of the first feature and the number of features."""
        reading, has_zero, base = self.reading, totals.has_zero, self.base
        if base is None:
            base = int(not has_zero and 0 not in self.numbered_names())
        top, names = totals.top.top_id, self.numbered_names(base)
        file, line = totals.place(totals.top.top_line)
        # The training data, an option or names may define the features; otherwise the rows do.
        if reading.space is not None:
            columns = self._width(reading.space)
            if base == 0 and not has_zero and top == columns and reading.zero_based == "auto":
                raise FileFormatError(
                    f"no row has feature 0, but this one has feature {top}, one past the last of"
                    " the training data: the file seems to be 1-based; if it is not, use"
                    " --zero-based true",
                    file=file,
                    line=line,
                )
            return base, columns
        if reading.n_features is not None:
            if top + 1 - base > reading.n_features:
                raise FileFormatError(
                    f"feature {top} is beyond n_features={reading.n_features} of a"
                    f" {base}-based file",
                    file=file,
                    line=line,
                )
            return base, reading.n_features
        if not names:
            return base, top + 1 - base
        first, last = min(names), max(names)
        unnamed = next((i for i in range(base, top + 1) if i not in names), None)
        if unnamed is not None or first < base:
            words = f"feature {unnamed} has none"
            if unnamed is None:
                words = f"they count from {base}"
            raise FileFormatError(
                f"there are names for the features {first} to {last}, but {words}",
                file=totals.name,
            )
        if last > top:
            totals.warn_or_refuse(
                f"there are names for the features {base} to {last}, but no row has one above {top}"
            )
        return base, last + 1 - base


def _first_rows(head: bytes) -> list[list[bytes]]:
    rows = [line.split(b"#", 1)[0].split() for line in head.split(b"\n")]
    if len(head) >= HEAD:  # the last token may be cut off
        del rows[-1][-1:]
    return [row for row in rows if row][:_PROBED_LINES]


def _comments(head: bytes) -> bytes:
    """Return the comments and blank lines before the first row."""
    return next(_HEAD.finditer(head))[0]


def _lack_labels(rows: list[list[bytes]]) -> bool:
    """Return whether the first row begins with a query id, or with ascending features (else
    label:weight)."""
    if not rows or rows[0][0].startswith(b"qid:"):
        return bool(rows)
    numbers = [[token.partition(b":")[0] for token in row] for row in rows if b":" in row[0]]
    whole = b":" in rows[0][0] and all(number.isdigit() for row in numbers for number in row)
    return whole and all(int(low) < int(high) for row in numbers for low, high in pairwise(row))


def _base_in_comment(head: bytes) -> int | None:
    """Return the number of the first feature by scikit-learn's comment before the first row, or
    None."""
    match = _BASE.search(_comments(head))
    return None if match is None else int(match[1].lower() == b"one")


def read_declarations(text: bytes) -> bytes:
    """Return the comments before the first row that number or name the features."""
    lines = _comments(text).splitlines(keepends=True)
    return b"".join(line for line in lines if _BASE.match(line) or names_in_head(line, ""))


def base_in(head: bytes) -> int | None:
    """Return the number of the first feature by a comment or the first rows of a text, or None."""
    number = _base_in_comment(head)
    if number is None and any(
        token.startswith(b"0:") for row in _first_rows(head) for token in row
    ):
        return 0
    return number


SPEC = Format(
    "libsvm",
    LibsvmSource,
    (".libsvm", ".svm", ".svmlight", ".svmrank", ".letor"),
    aliases=("svmrank", "letor", "svmlight"),
)
