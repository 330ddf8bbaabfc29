"""Parquet and Arrow files: record batches, a few megabytes at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError
from boostrank.core.types import Float64Array
from boostrank.data.options import typed_names
from boostrank.data.tables.columns import Columns
from boostrank.data.tables.options import TableOptions, arrow
from boostrank.data.tables.parser import Cells, Fault, local_codes
from boostrank.data.tables.text import ChooseColumns
from boostrank.records import from_json

PARQUET, ARROW, FEATHER = b"PAR1", b"ARROW1", b"FEA1"
STREAM = b"\xff\xff\xff\xff"
_LARGEST = float(np.finfo(np.float32).max)


class ColumnarSource:
    """A file whose record batches are read one behind the other, those columns that are wanted.

    Attributes:
        name, path: of the file.
        total, done: bytes of the file, and about how many of them have been read.
        text_bytes: bytes of the batches so far, unpacked.
        rows: of the file, None where it does not say.
        ordered: column -> number of categories, where pandas wrote that these have an order.
        is_packed, any_order: always False: batches are read, and unpacked, one behind the other.
    """

    is_packed = any_order = False
    rows: int | None = None
    use_threads = True

    def __init__(
        self, path: str, max_bytes: int | None, choose: ChooseColumns, wanted: Callable[[Columns], Any]
    ) -> None:
        self.name = self.path = path
        self._max_bytes, self.text_bytes, self.done = max_bytes, 0, 0
        pa = arrow()
        try:
            self.total = os.stat(path).st_size
            self._file = pa.OSFile(path, "rb")
        except OSError as error:
            raise FileFormatError(str(error.strerror or error), file=path) from None
        self._before = _state(path)
        try:
            self._open(self._file)
            names = self.schema.names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            self.close()
            raise FileFormatError(f"cannot be read: {' '.join(str(error).split())}", file=path) from None
        except FileFormatError:
            self.close()
            raise
        try:
            declared = {one.name for one in self.schema if pa.types.is_dictionary(one.type)}
            of_pandas = _of_pandas(self.schema)
            self.ordered = {name: one.get("num_categories") for name, one in of_pandas.items() if one.get("ordered")}
            self.columns = choose(names, path, path, declared | set(of_pandas))
            places = [place for place in (*self.columns.places, *wanted(self.columns)) if place is not None]
            self._places = sorted(set(places))
            for place in self.columns.places:
                if place not in self.columns.coded:
                    check_type(self.schema.field(place), path)
                else:
                    check_categories(self.schema.field(place), path)
        except BaseException:
            self.close()
            raise

    schema: Any

    def _open(self, file: Any) -> None:
        raise NotImplementedError

    def _batches(self, rows: int) -> Iterator[Any]:
        """Record batches with the columns of `self._places`, in any order."""
        raise NotImplementedError

    def loads(self, chunk_bytes: int) -> Iterator[Callable[[Any], BatchPiece]]:
        """The batches in order; they are read when the iterator is advanced."""
        rows, pa = max(1, chunk_bytes // (4 * max(1, len(self._places)))), arrow()
        names = [self.schema.names[place] for place in self._places]
        read, done = 0, 0
        try:
            for batch in self._batches(rows):
                batch.validate()  # buffers as long as they should be: even to add up their sizes follows them
                self.text_bytes += batch.nbytes
                if self._max_bytes is not None and self.text_bytes > self._max_bytes:
                    raise FileFormatError(f"the columns have more than max_bytes={self._max_bytes:,}", file=self.name)
                done += batch.num_rows
                read += batch.num_rows
                self.done = self.total if not self.rows else min(self.total, self.total * done // self.rows)
                arrays = {place: batch.column(name) for place, name in zip(self._places, names, strict=True)}
                for first in range(0, batch.num_rows, rows):
                    part = {place: array.slice(first, rows) for place, array in arrays.items()}
                    count = min(rows, batch.num_rows - first)
                    yield partial(BatchPiece, part, count, self.columns, self.name, done - batch.num_rows + first)
        except (pa.ArrowException, OSError) as error:
            words = " ".join(str(error).split())
            raise FileFormatError(f"the file is damaged behind row {read:,}: {words}", file=self.name) from None

    @property
    def changed(self) -> bool:
        """Whether size or time of the file are others than when it was opened."""
        return _state(self.name) != self._before

    def close(self) -> None:
        """Let go of the file, and of the memory that batches of it took."""
        self._file.close()
        arrow().default_memory_pool().release_unused()


class ParquetSource(ColumnarSource):
    """A Parquet file: row groups are read page by page."""

    def _open(self, file: Any) -> None:
        _check_magic(file, self.name, PARQUET)
        self._parquet = arrow(".parquet").ParquetFile(file, buffer_size=1 << 16, pre_buffer=False)
        self.schema, self.rows = self._parquet.schema_arrow, self._parquet.metadata.num_rows
        if self.rows < 0:
            raise FileFormatError(f"the file is damaged: it says that it has {self.rows:,} rows", file=self.name)

    def _batches(self, rows: int) -> Iterator[Any]:
        names = [self.schema.names[place] for place in self._places]
        yield from self._parquet.iter_batches(batch_size=rows, columns=names, use_threads=self.use_threads)


class ArrowSource(ColumnarSource):
    """An Arrow file (Feather 2), or a stream of Arrow."""

    def _open(self, file: Any) -> None:
        ipc = arrow(".ipc")
        self._is_stream = file.read(len(ARROW)) != ARROW
        file.seek(0)
        if self._is_stream:
            if file.read(len(STREAM)) != STREAM:
                file.seek(0)
                _check_magic(file, self.name, ARROW)
            file.seek(0)
            self.schema = ipc.open_stream(file).schema
            return
        self.schema = ipc.open_file(file).schema

    def _batches(self, rows: int) -> Iterator[Any]:
        ipc = arrow(".ipc")
        options = ipc.IpcReadOptions(included_fields=self._places)
        self._file.seek(0)
        if self._is_stream:
            yield from ipc.open_stream(self._file, options=options)
            return
        file = ipc.open_file(self._file, options=options)
        for i in range(file.num_record_batches):
            yield file.get_batch(i)


def open_columnar(
    one: str | os.PathLike[str] | BinaryIO, max_bytes: int | None, *, kind: type[ColumnarSource], choose: ChooseColumns,
    rows_alone: bool = False, threads: int = 1,
) -> ColumnarSource:  # fmt: skip
    """The source behind a path.

    Raises:
        FileFormatError: a pipe or an object, or a file that cannot be read.
    """
    if not isinstance(one, (str, os.PathLike)) or one == "-" or (os.path.exists(one) and not os.path.isfile(one)):
        name = "<stdin>" if one == "-" else str(getattr(one, "name", one))
        raise FileFormatError("such files are read from several places: put it into a file on disk", file=name)

    def wanted(columns: Columns) -> list[int | None]:
        return [] if rows_alone else [columns.label, columns.qid, columns.weight, *columns.others]

    source = kind(os.fspath(one), max_bytes, choose, wanted)
    source.use_threads = threads > 1
    return source


def _check_magic(file: Any, name: str, expected: bytes) -> None:
    """Refuse what is another kind of file."""
    head = bytes(file.read(8))
    file.seek(0)
    if head.startswith(FEATHER):
        raise FileFormatError("a Feather file of version 1: write it again, as version 2", file=name)
    for magic, kind in ((PARQUET, "a Parquet"), (ARROW, "an Arrow")):
        if head.startswith(magic):
            if magic != expected:
                raise FileFormatError(f"this is {kind} file: give --format {kind.split()[1].lower()}", file=name)
            return
    kind = "Parquet" if expected == PARQUET else "Arrow"
    raise FileFormatError(f"no {kind} file: it does not begin as such files do", file=name)


def _state(path: str) -> tuple[int, int]:
    now = os.stat(path)
    return now.st_size, now.st_mtime_ns


def _of_pandas(schema: Any) -> dict[str, dict[str, Any]]:
    """Columns that were categories in pandas, whatever type Parquet has for them, and what it noted of these."""
    try:
        columns = from_json((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", [])
        found = {one["name"]: one["metadata"] for one in columns if one.get("pandas_type") == "categorical"}
        return {name: one if isinstance(one, dict) else {} for name, one in found.items() if name in schema.names}
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}


def check_type(column: Any, file: str) -> None:
    """Refuse a feature that is no number.

    Raises:
        FileFormatError: what it holds, and what mends it.
    """
    types, kind = arrow().types, column.type
    if _is_number(kind):
        return
    what = f"is of type {kind}"
    if types.is_dictionary(kind):
        what = "holds categories, the model or its training data has numbers there"
    elif _is_text(kind):
        what = f"holds text: --categorical {typed_names(column.name)} makes it one of categories"
    elif types.is_temporal(kind):
        what = f"holds times ({kind}): make it a number, such as days since a date"
    raise FileFormatError(f"column {column.name!r} {what}; --drop {typed_names(column.name)} leaves it out", file=file)


def check_categories(column: Any, file: str) -> None:
    """Refuse a column of categories that holds neither text nor numbers, or decimals.

    Raises:
        FileFormatError: what it holds.
    """
    types, kind = arrow().types, column.type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_decimal(value) or not (_is_text(value) or _is_number(value)):
        words = f"column {column.name!r} is of type {kind}: categories are text"
        raise FileFormatError(f"{words}; --drop {typed_names(column.name)} leaves it out", file=file)


def _is_number(kind: Any) -> bool:
    types: Any = arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
                or types.is_null(kind))  # fmt: skip


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")  # old versions of pyarrow have no view of text


class BatchPiece:
    """A record batch, as `tables.parser.Piece`; its first row in the file."""

    unterminated = False

    def __init__(
        self, arrays: dict[int, Any], rows: int, columns: Columns, file: str, first: int, _: Any = None
    ) -> None:
        self.arrays, self.rows, self.columns, self.file, self.first = arrays, rows, columns, file, first
        self.size = sum(array.nbytes for array in arrays.values())

    def read(
        self, numbers: Sequence[int], qid: int | None, options: TableOptions, *, exactly: bool,
        texts: Sequence[int] = (),
    ) -> Cells:  # fmt: skip
        """Cells of some columns; see `tables.parser.Piece`."""
        cells = Cells(np.arange(1, self.rows + 1), self.rows, {})
        features = set(self.columns.places)
        for place in dict.fromkeys(numbers):
            if place in self.columns.coded:
                cells.numbers[place], cells.values[place] = local_codes(self._sound(place))
                continue
            values = self._values(place)
            if exactly and place in features:
                values = _looked_at(values, self.columns.header[place], cells, options)
            cells.numbers[place] = values
        if qid is not None:
            cells.qid = self._ids(qid)
        cells.texts = {place: self._text(place) for place in texts}
        return cells

    def _values(self, place: int) -> npt.NDArray[Any]:
        pa, pc, array = arrow(), arrow(".compute"), self._decoded(place)
        if array.type not in (pa.float32(), pa.float64()):
            if not _is_number(array.type):
                words = f"column {self.columns.header[place]!r} is of type {array.type}: numbers are wanted"
                raise FileFormatError(words, file=self.file)
            array = pc.cast(array, pa.float64(), safe=False)
        values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values

    def _sound(self, place: int) -> Any:
        """A column of text or of a dictionary, looked through: a damaged file may hold any bytes and codes."""
        try:
            self.arrays[place].validate(full=True)
        except arrow().ArrowException as error:
            words = f"column {self.columns.header[place]!r} is damaged: {' '.join(str(error).split())}"
            raise FileFormatError(words, file=self.file) from None
        return self.arrays[place]

    def _decoded(self, place: int) -> Any:
        """A column as it is; of a dictionary of text or numbers, these."""
        pa, array = arrow(), self.arrays[place]
        if not pa.types.is_dictionary(array.type):
            return array if _is_number(array.type) else self._sound(place)
        kind = array.type.value_type
        if not _is_text(kind) and not _is_number(kind):
            return array
        values = self._sound(place).dictionary
        return (values.cast(pa.large_string()) if _is_text(kind) else values).take(array.indices)  # none of views

    def _text(self, place: int) -> Any:
        pa, pc, array = arrow(), arrow(".compute"), self._decoded(place)
        try:
            return pc.cast(array, pa.string())
        except pa.ArrowException:
            words = f"column {self.columns.header[place]!r} is of type {array.type}: text or whole numbers are wanted"
            raise FileFormatError(words, file=self.file) from None

    def _ids(self, place: int) -> Any:
        pa, pc, array = arrow(), arrow(".compute"), self._decoded(place)
        kind = array.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return array
        if _is_text(kind) or pa.types.is_null(kind):
            return pc.cast(array, pa.string())
        name = self.columns.header[place]
        raise FileFormatError(f"column {name!r} is of type {kind}: query ids are whole numbers or text", file=self.file)


def _looked_at(
    values: npt.NDArray[Any], name: str, cells: Cells, options: TableOptions
) -> Float64Array | npt.NDArray[Any]:
    """The same values, infinite ones as the options say; what is refused becomes a fault."""
    with np.errstate(over="ignore"):
        odd = np.flatnonzero(np.isinf(values.astype(np.float32)))
    if not odd.size:
        return values
    values = values.copy()
    for row in odd.tolist():
        value = float(values[row])
        if np.isinf(value) and options.inf != "stop":
            cells.infinite += 1
            values[row] = value if options.inf == "keep" else np.nan
            continue
        words = f"value {value:g} of column {name!r} "
        words += ("is infinite: --inf keep or --inf missing reads it" if np.isinf(value)
                  else "does not fit in float32 (largest 3.4028235e38): rescale it")  # fmt: skip
        cells.faults.append(Fault(int(cells.lines[row]), words))
        values[row] = np.nan
    return values
