"""Tables in any format: conversion of Arrow columns to blocks, and batches of selected columns for
side data and logs.

A format (`formats`) yields Arrow columns, `columns` chooses the features, `TableSource.parse` turns
them into numbers.
"""

from __future__ import annotations

import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import compress
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError, MissingDependency
from boostrank.core.files import foreign_kind
from boostrank.core.queries import time_text
from boostrank.core.text import WHOLE
from boostrank.core.types import Array, Float32Array, Float64Array, Int64Array, first_true
from boostrank.data.categories import Categories, Coding, is_coarse
from boostrank.data.feature_space import FeatureSpace
from boostrank.data.frames import read_codes
from boostrank.files.blocks import (
    BAD_KEPT,
    BAD_ROWS,
    BEYOND_FLOAT32,
    BLANK_LINES,
    INFINITIES,
    LINES,
    Block,
    Fault,
    zeroed,
)
from boostrank.files.chunks import first_line
from boostrank.files.columns import Columns, choose_columns
from boostrank.files.side_files import GROUP_SUFFIXES, find_sidecar
from boostrank.files.source import File, OneSource, Reading, Source, format_of, open_files
from boostrank.options import typed_names

_NUMERIC = re.compile(r"(u?int\d+|(half)?float|double|bool|decimal.*|null)\Z")
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_NO_ID = {"nan", "<na>", "nat", "null", "none"}
_ROUNDED = re.compile(r"\d(\.\d+)?[eE]\+\d+", re.ASCII)
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)", re.ASCII)
# Text columns with at most this many values, or this share of the cells, are categories.
_FEW, _SHARE = 20, 0.1
_TILE = 2048  # number of rows converted at a time, so that source and target stay in the cache


def arrow(module: str = "") -> Any:
    """Return pyarrow, or a module of it."""
    try:
        return import_module("pyarrow" + module)
    except ImportError:
        raise MissingDependency("tables need pyarrow: pip install 'boostrank[tables]'") from None


def is_buffer(source: Any) -> bool:
    """Return whether a source is an Arrow buffer, which holds a data frame."""
    return type(source).__module__.startswith("pyarrow") and isinstance(source, arrow().Buffer)


@dataclass
class Batch:
    """The columns of consecutive rows in a file.

    Args:
        lines: int64[n], line or row number of each row within the batch, starting at 1.
        n_lines: number of lines, including blank and unreadable ones.
        arrays: Arrow array by column.
        unterminated, size: see `Block`.
        first: number of lines or rows that precede the batch.
        by_row: whether messages count rows instead of lines.
    """

    file: File
    lines: Int64Array
    n_lines: int
    arrays: dict[str, Any]
    faults: list[Fault] = field(default_factory=list)
    unterminated: bool = False
    size: int = 0
    first: int = 0
    by_row: bool = False

    def __len__(self) -> int:
        return int(self.lines.size)

    def fault(self, row: int | np.integer[Any], reason: str) -> Fault:
        """Return the fault for a refused row, which is counted from 0."""
        return Fault(int(self.lines[row]), reason)

    def refuse(self, row: int, reason: str) -> FileFormatError:
        """Return the error about a row, which is counted from 0."""
        return self.fault(row, reason).error(self.file.name, self.first, by_row=self.by_row)

    def refuse_column(self, name: str, reason: str) -> FileFormatError:
        """Return the error about a column."""
        return FileFormatError(f"column {name!r} {reason}", file=self.file.name)

    def text(self, name: str) -> Any:
        """Return a column as an Arrow text array, without surrounding blanks in CSV. Null is
        missing."""
        text = self.words(name)
        return text if self.by_row else arrow(".compute").utf8_trim_whitespace(text)

    def number(self, name: str) -> Float64Array:
        """Return a numeric column as float64[n], where NaN is missing."""
        return np.asarray(self.numbers(name), np.float64)

    def names(self, name: str) -> Array:
        """Return a column as text, object[n]. Missing values become "", and whole floats are
        written as integers."""
        text = self.words(name).fill_null("")
        if arrow().types.is_floating(self.decoded(name).type):
            text = arrow(".compute").replace_substring_regex(text, r"\.0$|^nan$", "")
        return np.asarray(text, object)

    def ids(self, name: str) -> Any:
        """Return ids as an Arrow text array, where whole numbers and times are alike in all
        formats."""
        return _rewrite(self.text(name), query_name)

    def whole_column(self, name: str, low: int, high: int) -> Int64Array:
        """Return a column that contains integers within a range as int64[n]."""
        return whole_numbers(self.number(name), name, low, high, self.refuse)

    def numbers(self, name: str) -> Array:
        """Return a numeric column as float[n], where NaN is missing."""
        pa, array = arrow(), self.decoded(name)
        if not is_number(array.type):
            raise self.refuse_column(name, f"is of type {array.type}; expected numbers: convert it")
        if array.type not in (pa.float32(), pa.float64()):
            array = array.cast("float64", safe=False)
        return np.asarray(array)

    def codes(self, name: str) -> tuple[Int64Array, list[Any]]:
        """Return each row's position in the list of these rows' categories (-1 is missing), and
        the list."""
        return read_codes(arrow().chunked_array([self.sound(name)]))

    def words(self, name: str) -> Any:
        """Return a column as an Arrow text array."""
        pa, array = arrow(), self.decoded(name)
        if getattr(array.type, "extension_name", "") == "arrow.uuid":
            array = pa.array([value and str(value) for value in array.to_pylist()], pa.string())
        try:
            if pa.types.is_duration(array.type):
                raise pa.ArrowInvalid
            text = array.cast("string")
        except pa.ArrowException:
            raise self.refuse_column(
                name,
                f"is of type {array.type}; ids must be integers or text: convert the column",
            ) from None
        if not (pa.types.is_temporal(array.type) or pa.types.is_decimal(array.type)):
            return text
        return _rewrite(text, _plain)

    def query_ids(self, name: str) -> tuple[Array, list[Fault]]:
        """Return the query id of each row as int64 or objects (see `runs_of`), and the rows without
        a query id."""
        pa, array = arrow(), self.decoded(name)
        if pa.types.is_boolean(array.type):
            array = array.cast("int64")
        missing_reason = (
            f"query id in column {name!r} is missing, fractional or rounded; ids must be integers"
            " or text"
        )
        is_float = pa.types.is_floating(array.type)
        if is_float or (pa.types.is_integer(array.type) and array.type != pa.uint64()):
            values, is_refused = np.asarray(array.fill_null(0)), np.asarray(array.is_null())
            if is_float:
                # Floats from the limit on may be rounded.
                limit = 2.0 / np.finfo(values.dtype).eps
                values = values.astype(np.float64)
                is_refused |= ~(np.abs(values) < limit) | (values != np.floor(values))
                values = np.where(is_refused, 0, values)
            faults = [self.fault(row, missing_reason) for row in np.flatnonzero(is_refused)]
            return values.astype(np.int64), faults
        dictionary_array = self.words(name).dictionary_encode()
        ids = [_canonical(word) for word in dictionary_array.dictionary.to_pylist()]
        codes = np.asarray(dictionary_array.indices.fill_null(-1))
        # `nan` among numbers is a missing id.
        missing_words = _NO_ID if any(isinstance(qid, int) for qid in ids) else set[str]()
        reasons = [_why_no_id(qid) for qid in ids] + [missing_reason]
        for i, qid in enumerate(ids):
            if str(qid).lower() in missing_words:
                reasons[i] = missing_reason
        refused_rows = np.flatnonzero(np.array(reasons, object)[codes] != "")
        faults = [self.fault(row, reasons[codes[row]]) for row in refused_rows]
        return np.array([*ids, None], object)[codes], faults

    def decoded(self, name: str) -> Any:
        """Return a column with decoded dictionaries."""
        array = self.arrays[name]
        if is_number(array.type):
            return array
        array = self.sound(name)
        if not arrow().types.is_dictionary(array.type):
            return array
        values = array.dictionary
        if is_text(values.type):
            values = values.cast("large_string")
        return values.take(array.indices)

    def sound(self, name: str) -> Any:
        """Validate and return a text or dictionary column, because damaged files may contain any
        bytes and codes."""
        try:
            self.arrays[name].validate(full=True)
        except arrow().ArrowException as error:
            reason = " ".join(str(error).split())
            raise self.refuse_column(name, f"is damaged: {reason}") from None
        return self.arrays[name]


class TableSource(Source):
    """Source of tables; see `Source`. The columns of several files are matched by name."""

    unused: tuple[str, ...] = (
        "zero_based",
        "repeated",
        "max_feature",
        "n_features",
        "feature_names",
    )
    chunk_bytes = 6 << 20
    has_columns = True

    def __init__(self, files: Sequence[OneSource], reading: Reading) -> None:
        arrow()  # raises if pyarrow is missing
        self.columns: Columns = None  # type: ignore[assignment]
        self.text: dict[str, tuple[int, int]] = {}  # text features, in lenient reading
        # Number of categories by ordered column, None if unknown.
        self.ordered: dict[str, int | None] = {}
        self._lock = threading.Lock()
        super().__init__(files, reading)
        self.has_qid = self.columns.qid is not None
        self.warnings += self.columns.warnings

    @abstractmethod
    def batch(self, file: Any, chunk: Any) -> Batch:
        """Return the columns of a loaded chunk."""

    @abstractmethod
    def written(self, chunk: Any, batch: Batch) -> tuple[Any, Any, Int64Array]:
        """Return a chunk as it is written in the file: text or record batch, header, and the end of
        each row."""

    def choose(
        self,
        header: Sequence[str],
        file: File,
        declared: Collection[str] = (),
        metadata: Any = None,
    ) -> Columns:
        """Choose the columns of a file from its header; see `choose_columns`."""
        reading, first = self.reading, self.columns
        if first is not None and reading.space is None:  # later files must match the first
            categories = dict.fromkeys(first.coded, Categories(()))
            space = FeatureSpace(None, len(first.names), first.names, first.how, categories)
            reading = replace(reading, like=space)
        columns = choose_columns(
            header,
            reading,
            file.name,
            header_lines=self.header_lines,
            has_sizes=find_sidecar(file.path, GROUP_SUFFIXES) is not None,
            declared=declared,
            metadata=metadata,
        )
        file.columns = columns
        if first is None:
            self.columns = columns
            return columns
        message = "has other columns than the previous file"
        if first.names != columns.names:
            raise FileFormatError(message, file=file.name)
        for role in ("qid", "weight"):
            if (getattr(first, role) is None) != (getattr(columns, role) is None):
                raise FileFormatError(f"{message}: only one has a {role} column", file=file.name)
        return columns

    def code_text(self, file: File, text: Mapping[str, tuple[int, int]], line: int) -> None:
        """Refuse the text features of a file, given their values and cells in the first rows.
        Lenient reading codes them."""
        if not text:
            return
        columns: Columns = file.columns
        if not self.reading.lenient:
            message, options = text_words(text, self.reading)
            raise FileFormatError(f"{message}: {options}", file=file.name, line=line)
        self.text |= text
        file.columns = replace(columns, coded=columns.coded | text.keys())
        if self.columns is columns:
            self.columns = file.columns

    def parse(self, file: File, chunk: Any) -> Block:
        """Convert the columns of a chunk to features, labels, query ids and weights."""
        batch = self.batch(file, chunk)
        columns, faults, values, categories = file.columns, list(batch.faults), [], {}
        for j, name in enumerate(columns.features):
            if name in columns.coded:
                codes, categories[j] = batch.codes(name)
                values.append(codes)
            else:
                values.append(batch.numbers(name))
        features = _matrix(values, len(batch))
        n_infinite = self._check_infinities(features, values, batch, faults)
        rows = self._read_roles(batch, faults)
        # Leave out the rows with faults.
        bad_rows = {fault.line: fault for fault in reversed(faults)}
        is_kept = ~np.isin(batch.lines, list(bad_rows))
        if bad_rows and self.reading.whole:  # the first fault ends the rows
            is_kept = batch.lines < min(bad_rows)
        if bad_rows:
            features = np.ascontiguousarray(features[is_kept])
            rows = {name: column[is_kept] for name, column in rows.items()}
        lines = batch.lines[is_kept]
        labels = rows.get(columns.label, np.zeros(lines.size)) + 0.0  # -0 becomes 0
        block = Block.from_rows(labels, features, rows.get(columns.qid), lines)
        block.weights, block.document_names = rows.get(columns.weight), rows.get(columns.id)
        block.others = {name: rows[name] for name in columns.others}
        block.categories = categories
        block.coarse = tuple(compress(columns.features, map(is_coarse, values)))
        if self.reading.whole:
            block.text, block.head, ends = self.written(chunk, batch)
            block.ends = ends[is_kept]
        if self.reading.pick is not None:
            block.result = batch
        # Count the rows and lines, and describe the first rows with faults.
        block.counts[BAD_ROWS], block.counts[INFINITIES] = len(bad_rows), n_infinite
        block.counts[LINES] = batch.n_lines
        block.counts[BLANK_LINES] = batch.n_lines - lines.size - len(bad_rows)
        block.bad = sorted(bad_rows.values(), key=lambda fault: fault.line)[:BAD_KEPT]
        block.unterminated, block.size = batch.unterminated, batch.size
        if self.reading.trained_categories is not None:  # codes do not depend on earlier blocks
            with self._lock:  # counts of unknown categories are shared
                self.in_order(block)
        return block

    def _read_roles(self, batch: Batch, faults: list[Fault]) -> dict[str | None, Array]:
        """Return the columns other than features. Add faults for missing values."""
        columns, reading = batch.file.columns, self.reading
        rows: dict[str | None, Array] = {}
        for name in set(columns.needed()[0]).difference(columns.features):
            rows[name] = batch.number(name)
        for role in ("label", "weight"):
            name = getattr(columns, role)
            if name in rows:
                column = rows[name]
                # A gain, or a command that reads no labels, may do without some of them.
                if role == "label" and (reading.gain is not None or not reading.labelled):
                    column = np.where(np.isnan(column), 0.0, column)
                is_refused = ~np.isfinite(column) | ((column < 0) & (role == "weight"))
                for row in np.flatnonzero(is_refused).tolist():
                    value = "missing" if np.isnan(column[row]) else f"{column[row]:g}"
                    reason = f"{role} in column {name!r} is {value}"
                    remedy = "every row needs a finite number, and weights are at least 0"
                    faults.append(batch.fault(row, f"{reason}; {remedy}"))
        if columns.qid in batch.arrays:
            rows[columns.qid], qid_faults = batch.query_ids(columns.qid)
            faults += qid_faults
        if columns.id in batch.arrays:
            rows[columns.id] = batch.names(columns.id)
        return rows

    def in_order(self, block: Block) -> None:
        """Replace the categories in the rows by codes, which all blocks share."""
        for j, values in block.categories.items():
            name, trained = self.columns.names[j], self.reading.trained_categories
            if j not in self.codings and trained is not None:
                self.codings[j] = Coding(name, trained[name])
            if j not in self.codings:
                ordered = name in self.ordered and name not in (self.reading.categorical or ())
                if ordered and self.ordered[name] not in (None, len(values)):
                    ordered = False
                    self.warnings.append(
                        f"column {name!r}: the file lacks the order of its categories; they are"
                        " treated as unordered"
                    )
                self.codings[j] = Coding(name, Categories(ordered=ordered))
            assert block.dense is not None
            positions = block.dense[:, j].astype(np.int64)
            block.dense[:, j] = self.codings[j].codes(positions, values)
        block.categories = {}

    def _check_infinities(
        self, features: Float32Array, values: Sequence[Array], batch: Batch, faults: list[Fault]
    ) -> int:
        """Treat infinite values according to the options, add faults, and return the number of
        accepted values."""
        cells, treatment = np.argwhere(np.isinf(features)), self.reading.inf
        if treatment != "keep":
            features[tuple(cells.T)] = np.nan
        if treatment != "stop":
            return len(cells)
        for row, j in cells.tolist():
            name, value = batch.file.columns.features[j], float(values[j][row])
            reason = BEYOND_FLOAT32
            if np.isinf(value):
                reason = "is infinite; use --inf keep or --inf missing"
            faults.append(batch.fault(row, f"value {value:g} of column {name!r} {reason}"))
        return 0

    def schema(self, totals: Any) -> FeatureSpace:
        """Return the columns as features, with the categories that were collected."""
        names, categories = self.columns.names, self.reading.trained_categories
        if categories is None:
            categories = {coding.name: coding.categories for coding in self.codings.values()}
        return FeatureSpace(None, len(names), names, self.columns.how, categories)

    def numbered_names(self, base: int = 0) -> Mapping[int, str]:
        """Return the names of the columns by position, from 0."""
        return dict(enumerate(self.columns.names))


def text_words(text: Mapping[str, tuple[int, int]], reading: Reading) -> tuple[str, str]:
    """Return the message about text features, a mapping to the numbers of values and cells in the
    first rows, and the options that read the table."""
    classes = [  # neither ids nor constant
        name
        for name, (n_values, cells) in text.items()
        if reading.takes_categories
        and n_values not in (1, cells)
        and n_values <= max(_FEW, _SHARE * cells)
    ]
    options: list[str] = []
    for flag, names in (
        ("drop", [name for name in text if name not in classes]),
        ("categorical", classes),
    ):
        if names:
            named_columns = getattr(reading, flag) or ()
            options.append(f"--{flag} {typed_names(*named_columns, *names)}")
    columns = f"column{'s' * (len(text) > 1)} {', '.join(map(repr, text))}"
    return f"text in {columns}", " ".join(options)


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is numeric."""
    return bool(_NUMERIC.match(str(kind)))


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    # Old versions of pyarrow have no view of text.
    return str(kind) in ("string", "large_string", "string_view")


def _rewrite(texts: Any, function: Callable[[str], str]) -> Any:
    """Return a text array with the results of a function of each distinct text."""
    encoded = texts.dictionary_encode()
    results = map(function, encoded.dictionary.to_pylist())
    return arrow().array(results, arrow().string()).take(encoded.indices)


def _matrix(columns: Sequence[Array], rows: int) -> Float32Array:
    """Return the columns as float32[n, d]."""
    out = zeroed((rows, len(columns)), np.float32)
    with np.errstate(over="ignore"):
        for first in range(0, rows, _TILE):
            tile = out[first : first + _TILE]
            for j, column in enumerate(columns):
                tile[:, j] = column[first : first + _TILE]
    return out


def _canonical(text: str) -> int | str:
    """Return integers, including whole floats (1.0), as int, and anything else as text."""
    plain_text = _plain(text)
    if _INTEGER.fullmatch(plain_text) and -(2**63) < (number := int(plain_text)) < 2**63:
        return number
    return time_text(text)


@lru_cache(1 << 16)
def query_name(text: str) -> str:
    """Return a query id as data sets have it, as text."""
    return str(_canonical(text))


def _plain(text: str) -> str:
    """Return a whole number without its decimals, and a time as in query ids."""
    return time_text(WHOLE.sub("", text))


def _why_no_id(qid: int | str) -> str:
    if isinstance(qid, int):
        return ""
    if not qid or any(ord(c) < 32 or ord(c) == 127 for c in qid):
        return f"query id {qid!r} is blank, or contains control characters"
    if _ROUNDED.fullmatch(qid):
        return (
            f"query id {qid!r} was rounded by the program that wrote it, and may be several: write"
            " the column as text"
        )
    if _FRACTION.fullmatch(qid):
        return f"query id {qid!r} is not an integer; ids must be integers or text: convert them"
    return ""


def whole_numbers(
    values: Float64Array,
    name: str,
    low: int,
    high: int,
    refuse: Callable[[int, str], Exception],
) -> Int64Array:
    """Return integers within a range as int64[n]. `refuse` makes the error about a row."""
    is_valid = (values >= low) & (values <= high) & (values == np.floor(values))
    bad_row = first_true(~is_valid)
    if bad_row is not None:
        value = "missing" if np.isnan(values[bad_row]) else f"{values[bad_row]:.17g}"
        raise refuse(
            bad_row, f"{name} is {value}, and must be a whole number from {low} to {high:,}"
        )
    return values.astype(np.int64)


def is_table(path: OneSource) -> bool:
    """Return whether a file is a table, judging by its name or content."""
    return format_of(path).is_table


def header_of(path: OneSource) -> tuple[str, ...]:
    """Return the column names of a table."""
    with closing(_opened(path, pick=((), ()))) as source:
        return source.columns.header


def _opened(path: OneSource, **options: Any) -> TableSource:
    if not is_table(path):
        message, file = "not recognised as CSV, TSV, Parquet or Arrow by name or content", str(path)
        kind = foreign_kind(first_line(file)[:1000]) if os.path.isfile(file) else None
        if kind is not None:
            message += f": it is {kind}"
        raise FileFormatError(message, file=file)
    source = open_files(path, **options)[1]
    assert isinstance(source, TableSource)
    return source


def batches(
    path: OneSource,
    *,
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
    missing_tokens: Sequence[str] = (),
) -> Iterator[Batch]:
    """Yield columns of a CSV, TSV (plain or compressed), Parquet or Arrow file, in row order."""
    with closing(_opened(path, pick=(numbers, texts), missing_tokens=missing_tokens)) as source:
        first = source.header_lines
        for file, block in source.blocks(source.chunk_bytes, 1):
            if block.bad:
                raise block.bad[0].error(file.name, first, by_row=source.by_row)
            batch = block.result
            if batch is not None:
                batch.first = first
                yield batch
                first += batch.n_lines


def numbers_of(paths: Sequence[str], name: str, missing_tokens: Sequence[str] = ()) -> Float64Array:
    """Return a numeric column of some tables, float64[N] in row order, where NaN is missing."""
    batch_columns = [
        batch.number(name)
        for path in paths
        for batch in batches(path, numbers=[name], missing_tokens=missing_tokens)
    ]
    return np.concatenate(batch_columns)
