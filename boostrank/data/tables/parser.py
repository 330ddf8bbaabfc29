"""Parser of tables: batches of columns in, blocks of rows out, as the assembly of libsvm text takes them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.blocks import Block, zeroed
from boostrank.data.tables.categories import Coding
from boostrank.data.tables.columns import Columns
from boostrank.data.tables.options import TableOptions, arrow

FLOAT32_WHOLE = 2.0**24  # above it float32 skips whole numbers
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)", re.ASCII)
_TILE = 2048  # rows that are turned from columns at a time: both sides stay in the cache


@dataclass
class Fault:
    """Why a row cannot be read: its 1-based line or row in the batch, and the words."""

    line: int
    words: str
    by_row: bool = False

    def error(self, file: str, lines: int, **_: Any) -> FileFormatError:
        """The error to raise, when so many lines of the file come before the batch."""
        if self.by_row:
            return FileFormatError(f"row {lines + self.line}: {self.words}", file=file)
        return FileFormatError(self.words, file=file, line=lines + self.line)


@dataclass
class Cells:
    """Cells of some rows.

    Args:
        lines: int64[n], 1-based in the batch.
        n_lines: of the batch, blank ones and those that cannot be read included.
        numbers: place of a column -> float[n], NaN where it is missing.
        qid: Arrow array of text or whole numbers, None where it was not asked for.
        texts: place of a column -> Arrow array of text, null where it is missing.
        faults: what was wrong with lines, which are then in `lines` or not.
        infinite: infinite values that were let in.
        values: place of a column of categories -> those of these rows; its numbers are places among them.
    """

    lines: Int64Array
    n_lines: int
    numbers: dict[int, npt.NDArray[Any]]
    qid: Any = None
    faults: list[Fault] = field(default_factory=list)
    infinite: int = 0
    values: dict[int, list[Any]] = field(default_factory=dict)
    texts: dict[int, Any] = field(default_factory=dict)


class Piece(Protocol):
    """Rows that were fetched, and are to be turned into numbers by whoever has the time."""

    columns: Columns
    unterminated: bool
    """Whether a last line has no newline."""

    def read(
        self, numbers: Sequence[int], qid: int | None, options: TableOptions, *, exactly: bool,
        texts: Sequence[int] = (),
    ) -> Cells:  # fmt: skip
        """Cells of some columns.

        Args:
            numbers, qid, texts: places of the columns.
            options: of the reader.
            exactly: whether each value is looked at, and what cannot be read is told; otherwise infinite values, and
                those that float32 cannot hold, come as they are, and rows are not complete if something is wrong.
        """
        ...


@dataclass
class TableBlock(Block):
    """The rows of a batch, the line of each, weights, and names of columns with whole numbers that float32 changes.

    Columns of categories hold places among those of this batch: feature -> these. Columns that are no features: name ->
    float64[n].
    """

    lines: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: Float64Array | None = None
    coarse: tuple[str, ...] = ()
    values: dict[int, list[Any]] = field(default_factory=dict)
    others: dict[str, Float64Array] = field(default_factory=dict)

    def code(self, codings: Mapping[int, Coding]) -> None:
        """Put the codes of categories into the rows."""
        assert self.dense is not None
        for j, values in self.values.items():
            self.dense[:, j] = coded(self.dense[:, j], values, codings[j])
        self.values = {}


class TableParser:
    """Turns pieces into blocks; safe to call from threads.

    Args:
        options: of the reader.
        features: int64[c], which of the features are wanted; None: all, with labels and queries.
        work: takes float32[n, c]; its results are in the block instead of the rows. None: rows are kept.
        rows_at_a_time: rows that it takes.
        codings: feature -> its categories, for `work`.

    Attributes:
        whole: float32[N, d] that rows are written into, where their number is known before. Otherwise None.
    """

    whole: Float32Array | None = None

    def __init__(
        self, options: TableOptions, features: Int64Array | None = None,
        work: Callable[[Float32Array], Any] | None = None, rows_at_a_time: int = 1 << 30,
        codings: Mapping[int, Coding] | None = None,
    ) -> None:  # fmt: skip
        self.codings, self._lock = codings or {}, threading.Lock()
        self.options, self.features, self.work, self.rows_at_a_time = options, features, work, rows_at_a_time

    def __call__(self, load: Callable[[None], Any]) -> TableBlock:
        """Read one piece; raises what reading it raises."""
        piece = load(None)
        if not hasattr(piece, "columns"):  # of a file without rows
            return TableBlock(np.zeros(0), np.zeros(parse.N_STATE, np.int64))
        columns: Columns = piece.columns
        places = columns.places if self.features is None else [columns.places[i] for i in self.features]
        of_rows = [] if self.work else [
            place for place in (columns.label, columns.weight, *columns.others) if place is not None
        ]  # fmt: skip
        qid = None if self.work else columns.qid
        cells = piece.read([*of_rows, *places], qid, self.options, exactly=False)
        out, plain = _matrix(cells, places, self._target(piece))
        for place in of_rows:
            plain = plain and bool(np.all(np.isfinite(cells.numbers[place])))
        if cells.faults or not plain:
            cells = piece.read([*of_rows, *places], qid, self.options, exactly=True)
            out, _ = _matrix(cells, places, self._target(piece))
        return self._block(piece, columns, places, cells, out)

    def _target(self, piece: Piece) -> Float32Array | None:
        """Where the rows of a piece belong; None: in an array of their own."""
        first = getattr(piece, "first", None)
        if self.whole is None or first is None or first + piece.rows > len(self.whole):  # type: ignore[attr-defined]
            return None
        return self.whole[first : first + piece.rows]  # type: ignore[attr-defined, no-any-return]

    def _block(
        self, piece: Piece, columns: Columns, places: Sequence[int], cells: Cells, out: Float32Array
    ) -> TableBlock:
        labels = np.zeros(cells.lines.size) if columns.label is None or self.work else cells.numbers[columns.label]
        faults = list(cells.faults)
        if not self.work and columns.label is not None:
            faults += self._missing(cells, columns.label, columns, "label")
        if not self.work and columns.weight is not None:
            faults += self._missing(cells, columns.weight, columns, "weight")
        ids, bad_ids = (None, []) if cells.qid is None else _query_ids(cells, columns.header[columns.qid or 0])
        faults += bad_ids
        counts = np.zeros(parse.N_STATE, np.int64)
        bad = sorted({fault.line: fault for fault in reversed(faults)}.values(), key=lambda fault: fault.line)
        keep = None
        if bad:
            keep = ~np.isin(cells.lines, [fault.line for fault in bad])
            out, labels, lines = np.ascontiguousarray(out[keep]), labels[keep], cells.lines[keep]
            ids = None if ids is None else ids[keep]
        else:
            lines = cells.lines
        for fault in bad:
            fault.by_row = self.options.by_row
        counts[parse.BAD_ROWS], counts[parse.LINES] = len(bad), cells.n_lines
        counts[parse.BLANK_LINES] = cells.n_lines - np.union1d(cells.lines, [fault.line for fault in bad]).size
        counts[parse.CELLS], counts[parse.INFINITIES] = out.size, cells.infinite
        counts[parse.MISSING] = np.count_nonzero(out != out)
        counts[parse.TOP_ID], counts[parse.TOP_LINE] = max(out.shape[1] - 1, 0), 1
        labels = np.asarray(labels, np.float64) + 0.0  # -0 becomes 0
        block = TableBlock(labels, counts, bad=bad[: parse.BAD_KEPT])  # type: ignore[arg-type]
        block.unterminated = piece.unterminated
        if self.work is not None:
            step = self.rows_at_a_time
            with self._lock:  # of what they count
                for j, place in enumerate(places):
                    if place in cells.values:
                        out[:, j] = coded(out[:, j], cells.values[place], self.codings[columns.places.index(place)])
            block.missing = np.count_nonzero(out != out, axis=0)
            block.result = [self.work(out[a : a + step]) for a in range(0, out.shape[0], step)]
            return block
        block.dense = out
        if columns.weight is not None:
            weights = np.asarray(cells.numbers[columns.weight], np.float64)
            block.weights = weights if keep is None else weights[keep]
        for place in columns.others:
            values = np.asarray(cells.numbers[place], np.float64)
            block.others[columns.header[place]] = values if keep is None else values[keep]
        if ids is not None and labels.size:
            block.runs, block.names = _runs(ids, lines)
        block.lines = lines
        block.coarse = tuple(_coarse(cells, places, columns))
        block.values = {columns.places.index(place): values for place, values in cells.values.items()}
        return block

    def _missing(self, cells: Cells, place: int, columns: Columns, role: str) -> list[Fault]:
        """Rows whose label or weight is missing or infinite, or whose weight is negative."""
        values, name = cells.numbers[place], columns.header[place]
        found = []
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            shown = "is missing" if np.isnan(values[row]) else "is infinite"
            words = f"{role} in column {name!r} {shown}: every row has one, a number"
            found.append(Fault(int(cells.lines[row]), words))
        for row in np.flatnonzero(values < 0).tolist() if role == "weight" else ():
            words = f"{role} {values[row]:g} in column {name!r} is negative"
            found.append(Fault(int(cells.lines[row]), words))
        return found


def coded(local: Float32Array, values: Sequence[Any], coding: Coding) -> Float32Array:
    """float32[n]: codes of categories.

    Args:
        local: float32[n], places in `values`, NaN for what is missing.
        values: the categories of some rows.
        coding: of the column.
    """
    return coding.codes(np.where(np.isnan(local), -1, local).astype(np.int64), values)


def local_codes(array: Any) -> tuple[Float64Array, list[Any]]:
    """(places among its categories, NaN for null and NaN; these) of an Arrow array of a dictionary, text or numbers."""
    if not arrow().types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.cast(arrow().float64()).to_numpy(zero_copy_only=False)
    values = array.dictionary.to_pylist()
    known = np.array([value is not None and value == value for value in values], bool)
    if not known.all():  # a dictionary may hold what is missing
        places = np.append(np.where(known, np.cumsum(known) - 1.0, np.nan), np.nan)
        codes = places[np.where(np.isnan(codes), -1, codes).astype(np.int64)]
        values = [value for value, is_known in zip(values, known, strict=True) if is_known]
    return codes, values


def _matrix(cells: Cells, places: Sequence[int], out: Float32Array | None) -> tuple[Float32Array, bool]:
    """(float32[n, d] of the columns, written into `out` if that is given; whether no value is infinite)."""
    columns = [cells.numbers[place] for place in places]
    if out is None:
        out = zeroed((cells.lines.size, len(columns)), np.float32)
    with np.errstate(over="ignore"):
        for first in range(0, cells.lines.size, _TILE):
            tile = out[first : first + _TILE]
            for j, column in enumerate(columns):
                tile[:, j] = column[first : first + _TILE]
    return out, not bool(np.isinf(out).any())


def _coarse(cells: Cells, places: Sequence[int], columns: Columns) -> list[str]:
    """Columns of whole numbers some of which float32 changes."""
    found = []
    for place in places:
        values = cells.numbers[place]
        if values.dtype != np.float32 and values.size and np.nanmax(np.abs(values), initial=0.0) > FLOAT32_WHOLE:
            known = values[np.isfinite(values)]
            if np.array_equal(known, np.floor(known)) and not np.array_equal(known, known.astype(np.float32)):
                found.append(columns.header[place])
    return found


def _query_ids(cells: Cells, name: str) -> tuple[npt.NDArray[Any], list[Fault]]:
    """(the query id of each row: int64, or its place among Python's strings, see `_runs`; rows that have none)."""
    pa, pc = arrow(), arrow(".compute")
    array = cells.qid
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        text = pc.cast(array, pa.string()) if array.type == pa.uint64() else None
        if text is None:
            values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
            wrong = np.asarray(pc.is_null(array))
            if values.dtype.kind == "f":
                values = values.astype(np.float64)
                with np.errstate(invalid="ignore"):
                    wrong |= ~(np.abs(values) < 2.0**63) | (values != np.floor(values))
                    values = np.where(wrong, 0, values)
            words = f"query id in column {name!r} is missing, or no whole number: ids are whole numbers or text"
            return values.astype(np.int64), [Fault(int(cells.lines[row]), words) for row in np.flatnonzero(wrong)]
        array = text
    coded = array.dictionary_encode()
    ids: list[Any] = [_canonical(word) for word in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    faults = []
    words_of = [*map(_why_no_id, ids), f"query id in column {name!r} is missing"]
    if any(words_of[code] for code in np.unique(codes)):
        for row, code in enumerate(codes.tolist()):
            if words_of[code]:
                faults.append(Fault(int(cells.lines[row]), words_of[code]))
    table = np.empty(len(ids) + 1, object)
    table[:] = [*ids, None]
    return table[codes], faults


def _canonical(word: str) -> int | str:
    """A canonical integer as such, anything else as text."""
    if _INTEGER.fullmatch(word) and -(2**63) < (number := int(word)) < 2**63:
        return number
    return word


def _why_no_id(one: int | str) -> str:
    if isinstance(one, int):
        return ""
    if not one or any(ord(c) < 32 or ord(c) == 127 for c in one):
        return f"query id {one!r} is blank, or holds control characters"
    if _FRACTION.fullmatch(one):
        return f"query id {one!r} is not a whole number: ids are whole numbers or text"
    return ""


def _runs(ids: npt.NDArray[Any], lines: Int64Array) -> tuple[Int64Array, dict[int, bytes]]:
    """(runs of rows of one query, int64[R, N_RUN]; number of a run -> its id where that is text)."""
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    runs = np.zeros((starts.size, parse.N_RUN), np.int64)
    runs[:, parse.RUN_ROW], runs[:, parse.RUN_LINE] = starts, lines[starts]
    names: dict[int, bytes] = {}
    if ids.dtype != object:
        runs[:, parse.RUN_IS_INTEGER], runs[:, parse.RUN_ID] = 1, ids[starts]
        return runs, names
    for i, one in enumerate(ids[starts].tolist()):
        if isinstance(one, int):
            runs[i, parse.RUN_IS_INTEGER], runs[i, parse.RUN_ID] = 1, one
        else:
            names[i] = one.encode()
    return runs, names
