"""Source of tables: converts Arrow columns to blocks, for any file format."""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError, MissingDependency
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data import blocks as slots
from boostrank.data.blocks import BEYOND_FLOAT32, Block, Chunk, Fault, zeroed
from boostrank.data.categories import Categories, Coding, is_coarse
from boostrank.data.options import FeatureSpace, typed_names
from boostrank.data.side_files import GROUP_SUFFIXES, find_sidecar
from boostrank.data.source import OneSource, Reading, Source
from boostrank.data.tables.columns import Columns, choose_columns

_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_WHOLE = re.compile(r"(?<=\d)\.0*\Z", re.ASCII)
_NO_ID = {"nan", "<na>", "nat", "null", "none"}
_ROUNDED = re.compile(r"\d(\.\d+)?E\+\d+", re.ASCII)
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)", re.ASCII)
_FEW, _SHARE = 20, 0.1  # text columns with at most this many values, or this share of the cells, are categories
_TILE = 2048  # rows converted from columns at a time: both sides stay in the cache


def arrow(module: str = "") -> Any:
    """Return pyarrow, or a module of it."""
    try:
        return import_module("pyarrow" + module)
    except ImportError:
        raise MissingDependency("tables need pyarrow: pip install 'boostrank[tables]'") from None


@dataclass
class Cells:
    """Columns of consecutive rows of a file.

    Args:
        lines: int64[n], 1-based line or row of each row, within the chunk.
        n_lines: number of lines, including blank and unreadable ones.
        arrays: position of a column -> Arrow array.
        unterminated, size: as in `Block`.
    """

    file: str
    columns: Columns
    lines: Int64Array
    n_lines: int
    arrays: dict[int, Any]
    faults: list[Fault] = field(default_factory=list)
    unterminated: bool = False
    size: int = 0

    def numbers(self, place: int) -> npt.NDArray[Any]:
        """Return a numeric column, float[n]; NaN is missing."""
        pa, array = arrow(), self.decoded(place)
        if array.type not in (pa.float32(), pa.float64()):
            if not is_number(array.type):
                words = f"column {self.columns.header[place]!r} is of type {array.type}; expected numbers"
                raise FileFormatError(words, file=self.file)
            array = arrow(".compute").cast(array, pa.float64(), safe=False)
        values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values

    def codes(self, place: int) -> tuple[Float64Array, list[Any]]:
        """Return positions in the categories of these rows (NaN is missing), and the categories."""
        array = self.sound(place)
        if not arrow().types.is_dictionary(array.type):
            array = array.dictionary_encode()
        codes = array.indices.cast(arrow().float64()).to_numpy(zero_copy_only=False)
        values = array.dictionary.to_pylist()
        known = np.array([value is not None and value == value for value in values], bool)
        if not known.all():  # dictionaries may contain null
            places = np.append(np.where(known, np.cumsum(known) - 1.0, np.nan), np.nan)
            codes = places[np.where(np.isnan(codes), -1, codes).astype(np.int64)]
            values = [value for value, is_known in zip(values, known, strict=True) if is_known]
        return codes, values

    def text(self, place: int) -> Any:
        """Return a column as an Arrow array of text."""
        pa, array = arrow(), self.decoded(place)
        try:
            return arrow(".compute").cast(array, pa.string())
        except pa.ArrowException:
            words = f"column {self.columns.header[place]!r} is of type {array.type}; expected text or integers"
            raise FileFormatError(words, file=self.file) from None

    def names(self, place: int) -> npt.NDArray[Any]:
        """Return a column as text, object[n]; "" is missing, and whole floats are integers."""
        text = self.text(place).fill_null("")
        if arrow().types.is_floating(self.decoded(place).type):
            text = arrow(".compute").replace_substring_regex(text, r"\.0$|^nan$", "")
        return np.asarray(text.to_numpy(zero_copy_only=False), object)

    def query_ids(self, place: int) -> tuple[npt.NDArray[Any], list[Fault]]:
        """Return the query id of each row, int64 or objects (see `runs_of`), and the rows without one."""
        pa, pc, array, name = arrow(), arrow(".compute"), self.decoded(place), self.columns.header[place]
        kind = array.type
        if (pa.types.is_integer(kind) and kind != pa.uint64()) or pa.types.is_floating(kind):
            values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
            wrong = np.asarray(pc.is_null(array))
            if values.dtype.kind == "f":
                values = values.astype(np.float64)
                with np.errstate(invalid="ignore"):
                    wrong |= ~(np.abs(values) < 2.0**63) | (values != np.floor(values))
                    values = np.where(wrong, 0, values)
            words = f"query id in column {name!r} is missing or fractional; ids must be integers or text"
            return values.astype(np.int64), [Fault(int(self.lines[row]), words) for row in np.flatnonzero(wrong)]
        if not (is_text(kind) or pa.types.is_null(kind) or kind == pa.uint64()):
            words = f"column {name!r} is of type {kind}; query ids must be integers or text"
            raise FileFormatError(words, file=self.file)
        coded = pc.cast(array, pa.string()).dictionary_encode()
        ids: list[Any] = [_canonical(word) for word in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        absent = f"query id in column {name!r} is missing"
        numbered = any(isinstance(one, int) for one in ids)  # where others are numbers, `nan` is none
        words_of = [absent if numbered and str(one).lower() in _NO_ID else _why_no_id(one) for one in ids] + [absent]
        faults = []
        if any(words_of[code] for code in np.unique(codes)):
            lines = self.lines.tolist()
            faults = [Fault(lines[row], words_of[code]) for row, code in enumerate(codes.tolist()) if words_of[code]]
        table = np.empty(len(ids) + 1, object)
        table[:] = [*ids, None]
        return table[codes], faults

    def decoded(self, place: int) -> Any:
        """Return a column, with dictionaries of text or numbers decoded."""
        array = self.arrays[place]
        if not arrow().types.is_dictionary(array.type):
            return array if is_number(array.type) else self.sound(place)
        kind = array.type.value_type
        if not is_text(kind) and not is_number(kind):
            return array
        values = self.sound(place).dictionary
        return (values.cast(arrow().large_string()) if is_text(kind) else values).take(array.indices)

    def sound(self, place: int) -> Any:
        """Return a validated text or dictionary column: damaged files may contain any bytes and codes."""
        try:
            self.arrays[place].validate(full=True)
        except arrow().ArrowException as error:
            words = f"column {self.columns.header[place]!r} is damaged: {' '.join(str(error).split())}"
            raise FileFormatError(words, file=self.file) from None
        return self.arrays[place]


class TableSource(Source):
    """Source of tables; see `Source`. Columns of several files are matched by name."""

    unused: tuple[str, ...] = ("zero_based", "repeated", "max_feature", "n_features", "feature_names")
    chunk_bytes = 6 << 20
    base = 0

    def __init__(self, files: Sequence[OneSource], reading: Reading) -> None:
        arrow()  # raises if pyarrow is missing
        self.columns: Columns = None  # type: ignore[assignment]
        self.codings: dict[int, Coding] = {}
        self.text: dict[str, int] = {}  # text features, in lenient reading -> line of the first
        self.ordered: dict[str, int] = {}  # column -> number of categories, if pandas marked them as ordered
        self._lock = threading.Lock()
        super().__init__(files, reading)
        self.warnings += self.columns.warnings
        for j, name in enumerate(self.columns.names) if reading.known is not None else ():
            if self.columns.places[j] in self.columns.coded:
                self.codings[j] = Coding(name, reading.known[name])  # type: ignore[index]

    @abstractmethod
    def cells(self, load: Callable[[Any], Any]) -> Cells:
        """Return the columns of a chunk of `File.loads`."""

    @abstractmethod
    def written(self, chunk: Any, cells: Cells) -> tuple[Any, Any, Int64Array]:
        """Return a chunk as it is written: text or record batch, header, and the end of each row."""

    def whole_rows(self, load: Callable[[Any], Any]) -> Chunk:
        found = load(None)
        cells = self.cells(lambda _: found)
        place, lines = cells.columns.qid, cells.lines
        assert place is not None
        ids, faults = cells.query_ids(place)
        fault = min([*cells.faults, *faults], key=lambda one: one.line, default=None)
        if fault is not None:  # the rows before it
            lines = lines[lines < fault.line]
        runs, names = slots.runs_of(ids[: lines.size], lines)
        text, head, ends = self.written(found, cells)
        last = np.append(runs[1:, slots.RUN_ROW], lines.size)[: len(runs)] - 1
        return Chunk(
            text, ends[last].tolist(), lines.size, cells.n_lines, runs, names, fault, cells.unterminated, head, place
        )

    def choose(self, header: Sequence[str], name: str, path: str | None, declared: Collection[str] = ()) -> Columns:
        """Choose the columns of a file by its header; see `choose_columns`."""
        reading, first = self.reading, self.columns
        if first is not None and reading.space is None:  # later files must match the first
            codes = {first.names[first.places.index(place)]: Categories(()) for place in first.coded}
            reading = replace(reading, like=FeatureSpace(None, len(first.names), first.names, first.how, codes))
        has_sizes = find_sidecar(path, GROUP_SUFFIXES) is not None
        found = choose_columns(
            header, reading, name, header_lines=self.header_lines, has_sizes=has_sizes, declared=declared
        )
        if first is None:
            self.columns = found
        elif first.names != found.names or (first.qid is None) != (found.qid is None):
            raise FileFormatError("has other columns than the previous file", file=name)
        return found

    def with_text(self, columns: Columns, text: Mapping[int, tuple[int, int]], line: int, file: str) -> Columns:
        """Refuse text features, position -> (values, cells) of the first rows; the doctor reads them as categories."""
        if not text:
            return columns
        names = {columns.header[place]: numbers for place, numbers in text.items()}
        if not self.reading.lenient:
            words, options = text_words(names, self.reading)
            raise FileFormatError(f"{words}: {options}", file=file, line=line)
        self.text = {name: line for name in names} | self.text
        found = replace(columns, coded=columns.coded | text.keys())
        self.columns = found if self.columns is columns else self.columns
        return found

    def text_words(self, rows: int) -> tuple[str, str]:
        """Return the message about text features, and the options that read the table."""
        values = {coding.name: len(coding.categories.values or ()) for coding in self.codings.values()}
        return text_words({name: (values.get(name, 0), rows) for name in self.text}, self.reading)

    def parse(self, load: Callable[[Any], Any]) -> Block:
        cells = self.cells(load)
        columns, faults, categories = cells.columns, list(cells.faults), {}
        values: dict[int, npt.NDArray[Any]] = {}
        for place in columns.places:
            if place in columns.coded:
                values[place], categories[columns.places.index(place)] = cells.codes(place)
            else:
                values[place] = cells.numbers(place)
        out = _matrix([values[place] for place in columns.places], cells.lines.size)
        infinite = self._look_at_infinities(out, cells, values, faults) if np.isinf(out).any() else 0
        labels, ids = np.zeros(cells.lines.size), None
        more: dict[int, Float64Array] = {}
        if not self.reading.rows_alone:
            for place in (columns.label, columns.weight, *columns.others):
                if place is not None:
                    more[place] = np.asarray(cells.numbers(place), np.float64)
            for role, place in (("label", columns.label), ("weight", columns.weight)):
                if place is not None:
                    faults += _missing(more[place], cells, columns.header[place], role)
            if columns.label is not None:
                labels = more[columns.label]
        if columns.qid is not None and (not self.reading.rows_alone or self.reading.names):
            ids, without = cells.query_ids(columns.qid)
            faults += without
        documents = None
        if columns.id is not None and self.reading.names:
            documents = cells.names(columns.id)
        stand_ins = [fault for fault in faults if fault.stand_in] if self.reading.lenient else []
        faults = [fault for fault in faults if fault not in stand_ins] if stand_ins else faults
        coarse = tuple(columns.header[place] for place in columns.places if is_coarse(values[place]))
        lines, counts = cells.lines, slots.no_counts()
        bad = sorted({fault.line: fault for fault in reversed(faults)}.values(), key=lambda fault: fault.line)
        if bad:
            keep = ~np.isin(lines, [fault.line for fault in bad])
            out, labels, lines = np.ascontiguousarray(out[keep]), labels[keep], lines[keep]
            ids = None if ids is None else ids[keep]
            documents = None if documents is None else documents[keep]
            more = {place: array[keep] for place, array in more.items()}
        counts[slots.BAD_ROWS], counts[slots.LINES] = len(bad), cells.n_lines
        counts[slots.BLANK_LINES] = cells.n_lines - np.union1d(lines, [fault.line for fault in bad]).size
        counts[slots.CELLS], counts[slots.INFINITIES] = out.size, infinite
        counts[slots.MISSING] = np.count_nonzero(out != out)
        counts[slots.TOP_ID], counts[slots.TOP_LINE] = max(out.shape[1] - 1, 0), 1
        block = Block(np.asarray(labels, np.float64) + 0.0, counts, lines, out)  # -0 becomes 0
        block.bad, block.unterminated, block.size = bad[: slots.BAD_KEPT], cells.unterminated, cells.size
        block.coarse, block.categories, block.document_names = coarse, categories, documents
        block.stand_ins = {one.stand_in[0]: (one.line, 0) for one in reversed(stand_ins) if one.stand_in}
        block.stand_in_rows = len({one.line for one in stand_ins} - {one.line for one in bad})
        if columns.weight is not None and more:
            block.weights = more[columns.weight]
        block.others = {columns.header[place]: more[place] for place in columns.others if place in more}
        if ids is not None and labels.size:
            block.runs, block.names = slots.runs_of(ids, lines)
        if self.reading.known is not None:  # codes do not depend on earlier blocks
            with self._lock:  # counts of unknown categories are shared
                self._code(block)
        return block

    def in_order(self, block: Block) -> None:
        for j, values in block.categories.items():
            if j not in self.codings:
                self.codings[j] = self._coding(self.columns.names[j], values)
        self._code(block)

    def _code(self, block: Block) -> None:
        """Replace categories by codes in the rows."""
        for j, values in block.categories.items():
            assert block.dense is not None
            local = block.dense[:, j]
            block.dense[:, j] = self.codings[j].codes(np.where(np.isnan(local), -1, local).astype(np.int64), values)
        block.categories = {}

    def _coding(self, name: str, values: list[Any]) -> Coding:
        """Return the coding of a column, given the categories of its first rows."""
        ordered = name in self.ordered and name not in (self.reading.categorical or ())
        if ordered and len(values) != self.ordered[name]:
            ordered = False
            self.warnings.append(
                f"column {name!r}: the file lacks the order of its categories; they are treated as unordered"
            )
        return Coding(name, ordered=ordered)

    def _look_at_infinities(
        self, out: Float32Array, cells: Cells, values: dict[int, npt.NDArray[Any]], faults: list[Fault]
    ) -> int:
        """Treat infinite values according to the options; return the number of accepted ones, add faults."""
        let_in = 0
        for row, j in zip(*(at.tolist() for at in np.nonzero(np.isinf(out))), strict=True):
            place = cells.columns.places[j]
            value = float(values[place][row])
            if self.reading.inf != "stop":
                let_in += 1
                out[row, j] = out[row, j] if self.reading.inf == "keep" else np.nan
                continue
            words = f"value {value:g} of column {cells.columns.header[place]!r} "
            if np.isinf(value):
                words += "is infinite; use --inf keep or --inf missing"
            else:
                words += BEYOND_FLOAT32
            faults.append(Fault(int(cells.lines[row]), words))
            out[row, j] = np.nan
        return let_in

    @property
    def has_qid(self) -> bool:
        return self.columns.qid is not None

    def features(self, totals: Any) -> tuple[int, tuple[str, ...]]:
        return 0, self.columns.names

    def how(self, base: int) -> tuple[int | None, dict[str, Any]]:
        return None, self.columns.how

    def categories(self) -> dict[str, Categories]:
        if self.reading.known is not None:
            return dict(self.reading.known)
        return {self.columns.names[j]: self.codings[j].categories for j in sorted(self.codings)}

    def numbered_names(self, base: int = 0) -> Mapping[int, str]:
        return dict(enumerate(self.columns.names))

    def place_of(self, base: int) -> None:
        """Return None: the header defines the columns and their order."""

    def space(self) -> FeatureSpace:
        names = self.columns.names
        return FeatureSpace(None, len(names), names, self.columns.how, self.categories())

    def say(self, whose: str) -> None:
        for coding in self.codings.values():
            coding.warn(whose)


def text_words(text: Mapping[str, tuple[int, int]], reading: Reading) -> tuple[str, str]:
    """Return the message about text features, column -> (values, cells), and the options that read the table."""
    no_classes = [
        name for name, (n, cells) in text.items() if n in (1, cells) or (n > _FEW and n > _SHARE * cells)
    ]  # ids, or constant
    told = [f"{name!r} ({n:,} value{'s' * (n > 1)})" for name, (n, _) in text.items()]
    options: list[str] = []
    for flag, before, names in (
        ("drop", reading.drop, no_classes),
        ("categorical", reading.categorical, [name for name in text if name not in no_classes]),
    ):
        if names:
            options.append(f"--{flag} {typed_names(*(before or ()), *names)}")
    return f"text in column{'s' * (len(text) > 1)} {', '.join(told)}", " ".join(options)


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is numeric."""
    types: Any = arrow().types
    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_kind(kind) for is_kind in kinds)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    return str(kind) in ("string", "large_string", "string_view")  # old versions of pyarrow have no view of text


def _matrix(columns: Sequence[npt.NDArray[Any]], rows: int) -> Float32Array:
    """Return float32[n, d] of the columns."""
    out = zeroed((rows, len(columns)), np.float32)
    with np.errstate(over="ignore"):
        for first in range(0, rows, _TILE):
            tile = out[first : first + _TILE]
            for j, column in enumerate(columns):
                tile[:, j] = column[first : first + _TILE]
    return out


def _missing(values: Float64Array, cells: Cells, name: str, role: str) -> list[Fault]:
    """Return the rows with a missing or infinite label or weight, or a negative weight."""
    found = []
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        shown = "is missing" if np.isnan(values[row]) else "is infinite"
        found.append(Fault(int(cells.lines[row]), f"{role} in column {name!r} {shown}; every row needs a number"))
    below = np.flatnonzero(values < 0).tolist() if role == "weight" else ()
    words = f"in column {name!r} is negative"
    return found + [Fault(int(cells.lines[row]), f"{role} {values[row]:g} {words}") for row in below]


def _canonical(word: str) -> int | str:
    """Return integers, including whole floats (1.0), as int; anything else as text."""
    whole = _WHOLE.sub("", word)
    if _INTEGER.fullmatch(whole) and -(2**63) < (number := int(whole)) < 2**63:
        return number
    return word


def _why_no_id(one: int | str) -> str:
    if isinstance(one, int):
        return ""
    if not one or any(ord(c) < 32 or ord(c) == 127 for c in one):
        return f"query id {one!r} is blank, or contains control characters"
    if _ROUNDED.fullmatch(one):
        return f"query id {one!r} was rounded by a spreadsheet, and may be several: write the column as text"
    if _FRACTION.fullmatch(one):
        return f"query id {one!r} is not an integer; ids must be integers or text"
    return ""
