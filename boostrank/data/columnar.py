"""Files of record batches, read sequentially with the requested columns only."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError
from boostrank.data.source import FORMATS, OneSource
from boostrank.data.tables import Cells, TableSource, arrow, is_number, is_text
from boostrank.options import typed_names
from boostrank.records import from_json

FEATHER = b"FEA1"


class ColumnarSource(TableSource):
    """Source of files of record batches; see `Source`. Formats define how to open one."""

    by_row = True
    unused = (*TableSource.unused, "missing_tokens")
    name = ""
    use_threads = True

    @abstractmethod
    def open_batches(self, file: Any) -> tuple[Any, int | None, Callable[[list[int], int], Iterator[Any]]]:
        """Return the schema, the number of rows (None if unknown), and a batch reader: (positions, rows) -> batches."""

    def open_file(self, one: OneSource, max_bytes: int | None) -> ColumnarFile:
        if not isinstance(one, (str, os.PathLike)) or one == "-" or (os.path.exists(one) and not os.path.isfile(one)):
            name = "<stdin>" if one == "-" else str(getattr(one, "name", one))
            raise FileFormatError("such files need random access: save it to disk first", file=name)
        return ColumnarFile(os.fspath(one), max_bytes, self)

    def cells(self, load: Callable[[Any], Any]) -> Cells:
        found: Cells = load(None)
        return found

    def written(self, chunk: Any, cells: Cells) -> tuple[Any, Any, Any]:
        batch = arrow().RecordBatch.from_arrays(list(cells.arrays.values()), schema=self._current.schema)  # type: ignore[union-attr]
        return batch, batch.schema, cells.lines


class ColumnarFile:
    """An open file of record batches, as `boostrank.data.source.File`."""

    is_packed = any_order = False

    def __init__(self, path: str, max_bytes: int | None, source: ColumnarSource) -> None:
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
            self._open(source)
        except BaseException:
            self.close()
            raise

    def _open(self, source: ColumnarSource) -> None:
        pa = arrow()
        try:
            _check_magic(self._file, self.name, source)
            self.schema, self.rows, self._batches = source.open_batches(self._file)
            names = self.schema.names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FileFormatError(f"cannot be read: {' '.join(str(error).split())}", file=self.name) from None
        if self.rows is not None and self.rows < 0:
            words = f"the file is damaged: it declares {self.rows:,} rows"
            raise FileFormatError(words, file=self.name)
        declared = {one.name for one in self.schema if pa.types.is_dictionary(one.type)}
        of_pandas = _of_pandas(self.schema)
        if source.columns is None:
            source.ordered = _ordered(self.schema, of_pandas)
        columns = source.choose(names, self.name, self.path, declared | of_pandas.keys())
        if source.reading.lenient and source.reading.space is None:
            text = [place for place in columns.places if is_text(self.schema.field(place).type)]
            columns = source.with_text(columns, {one: (0, 0) for one in text if one not in columns.coded}, 0, self.name)
        self.columns = columns
        numbers, texts = columns.needed(source.reading)
        self._places = sorted({*numbers, *texts, *(range(len(names)) if source.reading.whole else ())})
        for place in columns.places:
            _check_type(self.schema.field(place), place in columns.coded, self.name)

    def loads(self, chunk_bytes: int) -> Iterator[Callable[[Any], Cells]]:
        """Yield the batches in order; each is read when the iterator advances."""
        rows, pa = max(1, chunk_bytes // (4 * max(1, len(self._places)))), arrow()
        names = [self.schema.names[place] for place in self._places]
        done = 0
        try:
            for batch in self._batches(self._places, rows):
                batch.validate()  # check buffer lengths before anything reads them, even for their total size
                self.text_bytes += batch.nbytes
                if self._max_bytes is not None and self.text_bytes > self._max_bytes:
                    raise FileFormatError(f"the columns have more than max_bytes={self._max_bytes:,}", file=self.name)
                arrays = {place: batch.column(name) for place, name in zip(self._places, names, strict=True)}
                for first in range(0, batch.num_rows, rows):
                    part = {place: array.slice(first, rows) for place, array in arrays.items()}
                    count = min(rows, batch.num_rows - first)
                    self.done = self.total if not self.rows else min(self.total, self.total * done // self.rows)
                    yield partial(self._cells, part, count)
                done += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            words = " ".join(str(error).split())
            raise FileFormatError(f"the file is damaged behind row {done:,}: {words}", file=self.name) from None

    def _cells(self, arrays: dict[int, Any], rows: int, _: Any) -> Cells:
        size = sum(array.nbytes for array in arrays.values())
        return Cells(self.name, self.columns, np.arange(1, rows + 1), rows, arrays, size=size)

    @property
    def changed(self) -> bool:
        """Return whether the size or time of the file changed since it was opened."""
        return _state(self.name) != self._before

    def close(self) -> None:
        """Close the file and release the memory of its batches."""
        self._file.close()
        arrow().default_memory_pool().release_unused()


def _check_magic(file: Any, name: str, source: ColumnarSource) -> None:
    """Refuse a file of another format."""
    head = bytes(file.read(8))
    file.seek(0)
    if head.startswith(FEATHER):
        raise FileFormatError("Feather files of version 1 are not supported; save it as version 2", file=name)
    for spec in FORMATS:
        if spec.begins and head.startswith(spec.begins):
            if spec.source is not type(source):
                words = f"this is a {spec.name} file; use --format {spec.name}"
                raise FileFormatError(words, file=name)
            return
    raise FileFormatError(f"not a {source.name} file: wrong magic number", file=name)


def _state(path: str) -> tuple[int, int]:
    now = os.stat(path)
    return now.st_size, now.st_mtime_ns


def _of_pandas(schema: Any) -> dict[str, dict[str, Any]]:
    """Return columns that were categorical in pandas, whatever their Arrow type, with pandas' metadata."""
    try:
        columns = from_json((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", [])
        found = {one["name"]: one.get("metadata") for one in columns if one.get("pandas_type") == "categorical"}
        return {name: one if isinstance(one, dict) else {} for name, one in found.items() if name in schema.names}
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}


def _ordered(schema: Any, of_pandas: dict[str, dict[str, Any]]) -> dict[str, int | None]:
    """Return columns of ordered categories -> number of categories; None if unknown, -1 if the file lacks their order.

    As in frames, the order of polars has no meaning.
    """
    kept = {
        one.name
        for one in schema
        if getattr(one.type, "ordered", False) and not any(key.startswith(b"_PL_") for key in one.metadata or ())
    }
    noted = {name: one.get("num_categories") for name, one in of_pandas.items() if one.get("ordered")}
    return dict.fromkeys(kept) | {name: n if name in kept else -1 for name, n in noted.items()}


def _check_type(column: Any, is_coded: bool, file: str) -> None:
    """Refuse a feature that is neither numeric nor, if it is categorical, text or numbers except decimals."""
    types, kind = arrow().types, column.type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if is_number(kind) and not is_coded:
        return
    if is_coded and not types.is_decimal(value) and (is_text(value) or is_number(value)):
        return
    drop = f"--drop {typed_names(column.name)} leaves it out"
    what = f"is of type {kind}"
    if is_coded:
        what += ", but categories must be text"
    elif types.is_dictionary(kind):
        what = "contains categories, but the model or its training data has numbers there"
    elif is_text(kind):
        what = f"contains text: --categorical {typed_names(column.name)} reads it as categories"
    elif types.is_temporal(kind):
        what = f"contains times ({kind}): convert it to numbers, such as days since a date"
    raise FileFormatError(f"column {column.name!r} {what}; {drop}", file=file)
