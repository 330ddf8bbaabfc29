"""Writers of whole queries: text, plain or compressed, Parquet and Arrow, atomically."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.files import check_not_read, check_output, writing
from boostrank.core.types import Int64Array
from boostrank.data.pieces import STANDARD_STREAM, Piece
from boostrank.data.side_files import refuse_sidecars
from boostrank.data.source import Format, format_by_name
from boostrank.data.tables.columnar import ColumnarSource
from boostrank.data.tables.source import arrow
from boostrank.data.text.files import zstd_module

_BUFFER = 1 << 16
_FIELD = re.compile(r"\{(|:0?\d)\}")


def _zstd() -> Any:
    zstd = zstd_module()
    names = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={names.checksum_flag: 1, names.compression_level: 1})


# Fast rather than small; gzip without a time stamp, so that the same lines give the same bytes.
_PACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
    ".bz2": lambda: bz2.BZ2Compressor(),
    ".xz": lambda: lzma.LZMACompressor(preset=0),
    ".zst": _zstd,
}


@dataclass(frozen=True)
class Written:
    """Path, number of rows and number of queries of a written file."""

    path: str
    rows: int
    queries: int


class Output:
    """Writer of lines; created by `open_output`."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path, self.rows, self.queries, self._head = path, 0, 0, None
        make = _PACKERS.get(os.path.splitext(path)[1])
        self._file, self._packer = file, None if make is None else make()

    def begin(self, head: Any, file: str) -> None:
        """Write the header before the first row."""
        if self._head is None:
            self.write(head, rows=0, begins=False)
        elif head.rstrip() != self._head.rstrip():
            raise FileFormatError("has other columns than the previous file, or in another order", file=file, line=1)
        self._head = head

    def add(self, piece: Piece) -> None:
        """Write a piece, after the header."""
        self.begin(piece.head, piece.file)
        self.write(piece.text, rows=piece.rows, begins=piece.begins)

    def drain(self) -> None:
        """Write rows that are held in memory."""

    def write(self, text: Any, *, rows: int, begins: bool) -> None:
        """Write whole lines, which may start a new query."""
        self.rows += rows
        self.queries += begins
        self._file.write(text if self._packer is None else self._packer.compress(text))

    def finish(self) -> None:
        """Flush the buffer; further calls do nothing."""
        if self._packer is not None:
            self._file.write(self._packer.flush())
            self._packer = None
        self._file.flush()

    def close(self) -> None:
        """Release what writes; without `finish`, the file is incomplete."""

    def sort_into(self, out: Output, pieces: Int64Array) -> None:
        """Copy the file, opened for reading too, to another output: pieces by rank, stably.

        `pieces` is int64[n, 3]: rank, bytes and rows of each, as they were added.
        """
        self._file.seek(0)
        text, before = memoryview(self._file.read()), -1
        out.begin(self._head, self.path)
        ends = np.cumsum(pieces[:, 1]) + len(self._head or b"")
        for i in np.argsort(pieces[:, 0], kind="stable"):
            rank, size, rows = pieces[i].tolist()
            out.write(text[ends[i] - size : ends[i]], rows=rows, begins=rank != before)
            before = rank

    @property
    def written(self) -> Written:
        """Return the totals so far."""
        return Written(self.path, self.rows, self.queries)


class ColumnarOutput(Output):
    """Writer of record batches, as Parquet or Arrow."""

    def __init__(self, path: str, file: Any, format: str = "arrow") -> None:
        super().__init__(path, file)
        self._packer, self._format, self._same = None, format, True
        self._writer: Any = None
        self._held: list[Any] = []
        self._known: list[Any] = []  # no rows, with the dictionaries so far: Arrow files can extend but not replace one

    def begin(self, head: Any, file: str) -> None:
        if self._writer is None:
            self._schema, ipc = head, arrow(".ipc")
            options = {} if self._format == "parquet" else {"options": ipc.IpcWriteOptions(emit_dictionary_deltas=True)}
            make = arrow(".parquet").ParquetWriter if self._format == "parquet" else ipc.new_file
            self._writer = make(self._file, head, **options)
        elif head is not self._head:
            old, new = (dict(zip(one.names, one.types, strict=True)) for one in (self._schema, head))
            odd = [name for name in old | new if new.get(name) not in (old.get(name), arrow().null())]
            if odd:
                kinds = " and ".join(str(one.get(odd[0], "absent")) for one in (old, new))
                raise FileFormatError(f"column {odd[0]!r}: {kinds}, in the previous file and here", file=file)
            self._same = head.equals(self._schema)
        self._head = head

    def write(self, text: Any, *, rows: int, begins: bool) -> None:
        self.rows += rows
        self.queries += begins
        if not self._same:
            text = arrow().Table.from_batches([text]).select(self._schema.names).cast(self._schema).to_batches()[0]
        self._held.append(text)

    def drain(self) -> None:
        if self._held:
            whole = arrow().Table.from_batches([*self._known, *self._held], self._schema)
            whole = whole.unify_dictionaries().combine_chunks()
            self._writer.write_table(whole)
            self._known, self._held = whole.take(arrow().array([], "int64")).to_batches(), []

    def finish(self) -> None:
        self.drain()
        self.close()
        self._file.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def sort_into(self, out: Output, pieces: Int64Array) -> None:
        self._file.seek(0)
        ranks, _, rows = pieces.T
        table = arrow(".ipc").open_file(self._file).read_all().combine_chunks()
        out.begin(self._schema, self.path)
        for batch in table.take(np.argsort(np.repeat(ranks, rows), kind="stable")).to_batches():
            out.write(batch, rows=batch.num_rows, begins=False)
        out.queries += np.unique(ranks).size
        out.drain()


@contextmanager
def open_output(path: str, read: Iterable[Any] = (), spec: Format | None = None) -> Iterator[Output]:
    """Open the file at `path` (`-`: standard output), replaced when the block succeeds; it may be none of `read`."""
    columnar = spec is not None and issubclass(spec.source, ColumnarSource)
    if spec is not None:
        asked = format_by_name(path) or spec
        if asked is not spec and not (columnar and issubclass(asked.source, ColumnarSource)):
            ending = (*spec.endings, ".txt")[0]
            words = f"tools keep the format of the data, {spec.name}; end the name in {ending}"
            raise ParameterError(f"{path}: {words}, or read the data with --format {asked.name}")
        if columnar and (path == STANDARD_STREAM or os.path.splitext(path)[1] in _PACKERS):
            raise ParameterError(f"{path}: {spec.name} is written to uncompressed files; name one {spec.endings[0]}")
        spec = asked
    if path != STANDARD_STREAM:
        check_target(path, read)
    target = nullcontext(sys.stdout.fileno()) if path == STANDARD_STREAM else writing(path)
    with target as descriptor, open(descriptor, "wb", _BUFFER, closefd=False) as file:
        output = ColumnarOutput(path, file, spec.name) if columnar and spec else Output(path, file)
        try:
            yield output
            output.finish()
        finally:
            with suppress(OSError):
                output.close()


def check_target(path: str, read: Iterable[Any]) -> None:
    """Check before the work whether an output can be written; arguments as for `open_output`."""
    check_output(path)
    check_not_read(path, [one for one in read if isinstance(one, str | os.PathLike) and one != STANDARD_STREAM])
    if path.endswith(".zst"):
        zstd_module()
    refuse_sidecars(path)


def named(template: str, name: str | int) -> str:
    """Return the path of one of several outputs.

    Args:
        template: path with `{}` (or `{:03}` for numbers) as placeholder; without it, `-name` is inserted before the
            file extensions: `a/web.txt.gz` -> `a/web-train.txt.gz`.
        name: text, or a number with at least three digits unless the template has a format.
    """
    if template == STANDARD_STREAM:
        raise ParameterError("several outputs cannot be written to standard output; name a file")
    before, *rest = _FIELD.split(template)  # with a placeholder: its format and the text after it
    if not rest:
        folder, file = os.path.split(template)
        stem, dot, endings = file.partition(".")
        before, rest = os.path.join(folder, stem + "-" * bool(stem)), [":03", dot + endings]
    if len(rest) > 2 or set("{}") & set(before + rest[1]) or not template:
        raise ParameterError(f"output {template!r}: use {{}} or {{:03}} once, for the name or number")
    width = int(rest[0][-1:] or 3)
    return before + (f"{name:0{width}}" if isinstance(name, int) else name) + rest[1]
