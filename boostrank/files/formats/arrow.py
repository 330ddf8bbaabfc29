"""Arrow files (Feather 2, IPC files and streams) and Parquet files, read as record batches of the
requested columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError
from boostrank.core.files import path_of
from boostrank.data.roles import pandas_metadata
from boostrank.files.source import File, Format, OneSource
from boostrank.files.tables import Batch, TableSource, arrow, is_buffer, is_number, is_text
from boostrank.options import typed_names

Batches = Callable[[list[str], int], Iterator[Any]]
"""A function that yields batches of some columns, with about a number of rows."""

_PARQUET, _FILE, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


class ColumnarSource(TableSource):
    """Source of Parquet and Arrow files, which consist of record batches. The content of a file
    decides which it is."""

    by_row = True
    unused = (*TableSource.unused, "missing_tokens")

    def open_file(self, source: OneSource) -> ColumnarFile:
        """Open a frame's buffer or a regular file.

        Raises:
            FileFormatError: the source has no random access, such as a pipe.
        """
        if is_buffer(source):
            return ColumnarFile("<frame>", None, source)
        path = path_of(source)
        if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            name = "<stdin>" if path == "-" else str(getattr(source, "name", source))
            raise FileFormatError("such files need random access; save the file to disk", file=name)
        return ColumnarFile(path, path, source)

    def begin(self, file: ColumnarFile) -> None:
        """Read the schema, and choose the columns.

        Raises:
            FileFormatError: the file has another format, or is damaged.
        """
        pa, reading = arrow(), self.reading
        try:
            head = bytes(file.handle.read(8))
            file.handle.seek(0)
            if not head.startswith((_PARQUET, _FILE, _STREAM)):
                raise FileFormatError(
                    "the file is neither Parquet nor Arrow (Feather: version 2)", file=file.name
                )
            open_batches = _open_parquet if head.startswith(_PARQUET) else _open_arrow
            schema, file.rows, file.batches = open_batches(file.handle)
            file.header = schema
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FileFormatError(
                f"the file cannot be read: {' '.join(str(error).split())}", file=file.name
            ) from None
        if file.rows is not None and file.rows < 0:
            raise FileFormatError(
                f"the file is damaged: it declares {file.rows:,} rows", file=file.name
            )
        # Choose the columns, and check their types.
        categorical, ordered = _categories_in(schema)
        if self.columns is None:
            self.ordered = ordered
        columns = self.choose(schema.names, file, categorical, schema.metadata)
        fields = dict(zip(columns.header, schema, strict=True))
        needed = columns.header if reading.whole else chain(*columns.needed())
        file.fields = {name: fields[name] for name in needed}
        for name in columns.features:
            is_coded = name in columns.coded
            _check_type(fields[name], is_coded, file.name, reading.takes_categories)

    def batch(self, file: Any, chunk: Any) -> Batch:
        """Return the arrays of a record batch, whose rows count from 1."""
        arrays = {name: chunk.column(column.name) for name, column in file.fields.items()}
        rows = chunk.num_rows
        size = sum(map(_bytes_of, arrays.values()))
        return Batch(file, np.arange(1, rows + 1), rows, arrays, size=size, by_row=True)

    def written(self, chunk: Any, batch: Batch) -> tuple[Any, Any, Any]:
        """Return the rows as a record batch, with its schema."""
        schema = batch.file.header
        rows = arrow().RecordBatch.from_arrays(chunk.columns, schema=schema)
        return rows, schema, batch.lines


def _open_arrow(file: Any) -> tuple[Any, int | None, Batches]:
    """Return the schema and the batches of an Arrow stream or file, whose number of rows is
    unknown."""
    ipc = arrow(".ipc")
    is_stream = bytes(file.read(len(_STREAM))) == _STREAM
    file.seek(0)
    open_reader = ipc.open_stream if is_stream else ipc.open_file
    schema = open_reader(file).schema
    position_of = {name: position for position, name in enumerate(schema.names)}

    def batches(names: list[str], _: int) -> Iterator[Any]:
        file.seek(0)
        positions = [position_of[name] for name in names]
        reader = open_reader(file, options=ipc.IpcReadOptions(included_fields=positions))
        if is_stream:
            return reader
        return map(reader.get_batch, range(reader.num_record_batches))

    return schema, None, batches


def _open_parquet(file: Any) -> tuple[Any, int | None, Batches]:
    """Return the schema, the number of rows and the batches of a Parquet file, which is read page
    by page."""
    parquet = arrow(".parquet").ParquetFile(file, buffer_size=1 << 16, pre_buffer=False)

    def batches(names: list[str], count: int) -> Iterator[Any]:
        return parquet.iter_batches(batch_size=count, columns=names)

    return parquet.schema_arrow, parquet.metadata.num_rows, batches


class ColumnarFile(File):
    """An open file that consists of record batches."""

    fields: dict[str, Any]
    batches: Batches

    def __init__(self, name: str, path: str | None, source: Any) -> None:
        try:
            super().__init__(name, path)
            self.handle = arrow().input_stream(source, compression=None)
        except OSError as error:
            raise FileFormatError(str(error.strerror or error), file=name) from None

    def chunks(self, chunk_bytes: int) -> Iterator[Any]:
        """Yield the batches in order. Each batch is read when the iterator advances."""
        rows = max(1, chunk_bytes // (4 * max(1, len(self.fields))))
        done, size = 0, self.total or 0
        names = [column.name for column in self.fields.values()]
        try:
            for batch in self.batches(names, rows):
                # Check buffer lengths before anything reads them, even for their total size.
                batch.validate()
                self.text_bytes += _bytes_of(batch)
                for first in range(0, batch.num_rows, rows):
                    part = batch.slice(first, rows)
                    done += part.num_rows
                    self.done = size * done // self.rows if self.rows else size
                    yield part
        except (arrow().ArrowException, OSError) as error:
            reason = f"the file is damaged after row {done:,}: {' '.join(str(error).split())}"
            raise FileFormatError(reason, file=self.name) from None

    def close(self) -> None:
        """Close the file and release the memory of its batches."""
        self.handle.close()
        arrow().default_memory_pool().release_unused()


def _bytes_of(data: Any) -> int:
    """Return the size of a batch or array. Before pyarrow 24, it is the size of whole buffers for
    views of text."""
    try:
        return int(data.nbytes)
    except arrow().ArrowTypeError:
        return int(data.get_total_buffer_size())


def _categories_in(schema: Any) -> tuple[set[str], dict[str, int | None]]:
    """Return the columns with categories, by their types or pandas' metadata, and the number of
    categories of the ordered ones: None if it is unknown, and -1 if the file lacks their order.
    """
    notes = {
        str(column.get("name")): column.get("metadata")
        for column in pandas_metadata(schema.metadata).get("columns", ())
        if isinstance(column, dict) and column.get("pandas_type") == "categorical"
    }
    categorical, ordered = set[str](), dict[str, int | None]()
    for field in schema:
        if field.name in notes or arrow().types.is_dictionary(field.type):
            categorical.add(field.name)
        # As in data frames, the category order in polars has no meaning.
        is_of_polars = any(key.startswith(b"_PL_") for key in field.metadata or ())
        has_order = getattr(field.type, "ordered", False) and not is_of_polars
        if has_order:
            ordered[field.name] = None
        note = notes.get(field.name)
        if isinstance(note, dict) and note.get("ordered"):
            ordered[field.name] = note.get("num_categories") if has_order else -1
    return categorical, ordered


def _check_type(column: Any, is_coded: bool, file: str, takes_categories: bool) -> None:
    """Refuse a feature that is not numeric, unless it is categorical with text or numbers other
    than decimals."""
    types, kind = arrow().types, column.type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if is_number(kind) and not is_coded:
        return
    if is_coded and not types.is_decimal(value) and (is_text(value) or is_number(value)):
        return
    drop = f"--drop {typed_names(column.name)} leaves it out"
    reason = f"is of type {kind}"
    if is_coded:
        reason += ", but categories must be text"
    elif is_text(kind):
        reason = "contains text"
        if takes_categories:
            reason += f": --categorical {typed_names(column.name)} reads it as categories"
    else:
        reason += ": convert it to numbers (a date to days)"
    raise FileFormatError(f"column {column.name!r} {reason}; {drop}", file=file)


SPECS = (
    Format(
        "parquet", ColumnarSource, (".parquet", ".pq", ".parq"), begins=(_PARQUET,), is_table=True
    ),
    Format(
        "arrow",
        ColumnarSource,
        (".arrow", ".feather", ".ipc", ".arrows"),
        aliases=("feather", "ipc"),
        begins=(_FILE, _STREAM),
        is_table=True,
    ),
)
