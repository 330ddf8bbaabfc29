"""Whole queries from data files of any size, as pieces of lines or record batches, and atomic
writers for pieces."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple, cast

from boostrank.core.errors import FileFormatError, ParameterError, warn_user
from boostrank.core.files import check_not_read, check_writable, path_of, replacing
from boostrank.files import blocks as slots
from boostrank.files.assemble import NO_ROWS
from boostrank.files.blocks import Fault
from boostrank.files.formats.arrow import ColumnarSource
from boostrank.files.side_files import WEIGHT_SUFFIX, find_sidecar, refuse_sidecars
from boostrank.files.source import (
    AnySource,
    Format,
    Progress,
    Reading,
    expand,
    format_by_name,
    format_of,
)
from boostrank.files.tables import arrow

STANDARD_STREAM = "-"
CHUNK_BYTES = 4 << 20
_MOST_COMMENTS = 16 << 20  # waiting for the next row


class DataFiles:
    """Files of one format and their reading options. The arguments are those of `tools.split`."""

    def __init__(
        self, source: AnySource, progress: Progress, *, format: str = "auto", **reading: Any
    ) -> None:
        self.files, self._progress, self._reading = expand(source), progress, reading
        self.spec = format_of(self.files, format)
        for path in map(path_of, self.files):
            weights = find_sidecar(path, (WEIGHT_SUFFIX,))
            if weights is not None:
                warn_user(f"{weights}: weights are not copied")

    def check_regular(self) -> None:
        """Refuse streams, which `pieces` cannot read twice."""
        for source in self.files:
            if not os.path.isfile(path_of(source) or ""):
                raise ParameterError(
                    "a number of queries is drawn from files, which are read twice: save the stream"
                    " to a file, or draw a share, such as 10%"
                )

    @property
    def columnar(self) -> bool:
        """Whether rows are read as record batches."""
        return issubclass(self.spec.source, ColumnarSource)

    def pieces(self) -> Iterator[Piece]:
        """Yield the queries in the files, in order, as pieces of at most one chunk (or one line).

        Query ids and the labels of libsvm text are parsed as strictly as by `read_files`, but the
        rest of a row is not parsed. A missing final newline is added.
        """
        with closing(self.spec.source(self.files, Reading(**self._reading, whole=True))) as opened:
            piece, carry = None, b""  # comments before the next row
            for file, blocks in groupby(opened.blocks(CHUNK_BYTES, 1), itemgetter(0)):
                before, last = opened.header_lines, b""  # query of the previous row
                for _, block in blocks:
                    if block.text is None:
                        continue
                    if block.unterminated:
                        warn_user(
                            f"{file.name}: the last line has no newline; the file may be truncated"
                        )
                    # Yield each query, with the comments and blank lines before it.
                    begin, starts = 0, block.runs[:, slots.RUN_ROW].tolist()
                    for i, (start, stop) in enumerate(pairwise([*starts, block.n_rows])):
                        qid = block.names.get(i) or b"%d" % block.runs[i, slots.RUN_ID]
                        end, line = int(block.ends[stop - 1]), int(block.runs[i, slots.RUN_LINE])
                        text = block.text[begin:end]
                        if carry:
                            text, carry = memoryview(carry + text), b""
                        piece = Piece(
                            qid,
                            text,
                            stop - start,
                            qid != last,
                            file.name,
                            before + line,
                            block.head,
                        )
                        yield piece
                        begin, last = end, qid
                    if block.bad:
                        raise block.bad[0].error(file.name, before, by_row=self.columnar)
                    if not self.columnar:
                        carry += block.text[begin:]
                    before += int(block.counts[slots.LINES])
                    if len(carry) > _MOST_COMMENTS:
                        reason = f"more than {_MOST_COMMENTS >> 20} MiB of comments or blank lines"
                        raise FileFormatError(f"{reason}; remove them", file=file.name, line=before)
                    if self._progress is not None:
                        self._progress(opened.done, opened.total)
                # The comments after a file's last row are a part of its query.
                if piece is not None and carry:
                    yield piece._replace(text=memoryview(carry), rows=0, begins=False)
                    carry = b""
            if piece is None:
                raise FileFormatError(NO_ROWS, file=opened.first.name)

    def contiguous_pieces(self) -> Iterator[Piece]:
        """Yield the pieces, and refuse queries that are not contiguous."""
        seen: dict[bytes, str] = {}  # place of the first row
        for piece in self.pieces():
            if piece.begins and piece.qid in seen:
                reason = (
                    f"qid {piece.qid.decode()} reappears; it was first seen on {seen[piece.qid]}:"
                    " boostrank data sort brings its rows together"
                )
                raise Fault(piece.line, reason).error(piece.file, 0, by_row=self.columnar)
            if piece.begins:
                before_row = ": row " if self.columnar else ":"
                seen[piece.qid] = f"{piece.file}{before_row}{piece.line}"
            yield piece


class Piece(NamedTuple):
    """Unchanged rows of one query.

    Args:
        text: whole lines, with the comments and blank lines before each row, or a record batch.
        begins: whether a query begins with this piece. If not, the piece continues the previous
            one.
        line: line of the first row.
        head: file header, which is a line or a schema.
    """

    qid: bytes
    text: Any
    rows: int
    begins: bool
    file: str
    line: int
    head: Any = b""


def draw(qid: bytes, seed: int, purpose: bytes) -> int:
    """Return a hash of query id, seed and purpose, which is below 2^64 and does not depend on the
    file."""
    digest = hashlib.blake2b(qid, digest_size=8, key=str(seed).encode()[:64], person=purpose)
    return int.from_bytes(digest.digest(), "little")


# Writers ------------------------------------------------------------------------------------------

_BUFFER = 1 << 16


_UNWRITTEN = (".bz2", ".xz", ".zst")  # endings of other compressions


@dataclass(frozen=True)
class Written:
    """The path, the number of rows and the number of queries of a written file."""

    path: str
    rows: int
    queries: int


class Output:
    """A writer of lines, which `open_output` creates."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path, self.rows, self.queries = path, 0, 0
        self._head: Any = None
        self._file, self._writer = file, cast(Any, file)
        if path.endswith(".gz"):
            # The fastest level, and no time stamp, so that the same lines give the same bytes.
            self._writer = gzip.GzipFile("", "wb", 1, file, mtime=0)

    def begin(self, head: Any, file: str) -> None:
        """Write the header before the first row."""
        if self._head is None:
            self.write(head)
        self._head = head

    def add(self, piece: Piece) -> None:
        """Write and count a piece, after the header."""
        self.begin(piece.head, piece.file)
        self.write(piece.text)
        self.rows += piece.rows
        self.queries += piece.begins

    def drain(self) -> None:
        """Write rows that are still in memory."""

    def write(self, text: Any) -> None:
        """Write whole lines."""
        self._writer.write(text)

    def finish(self) -> None:
        """Write everything. Further calls do nothing."""
        self.drain()
        self.close()
        self._file.flush()

    def close(self) -> None:
        """Close the writer, not its file. If `finish` was not called, the file is incomplete."""
        if self._writer not in (None, self._file):
            self._writer.close()

    @property
    def written(self) -> Written:
        """The path and the totals so far."""
        return Written(self.path, self.rows, self.queries)


class ColumnarOutput(Output):
    """A writer of record batches to Parquet or Arrow files."""

    def __init__(self, path: str, file: Any, format: str) -> None:
        super().__init__(path, file)
        self._format, self._writer = format, None
        self._held: list[Any] = []
        # Empty batches with the dictionaries so far, which Arrow files can only extend.
        self._known: list[Any] = []

    def begin(self, head: Any, file: str) -> None:
        """Open the writer with the first file's schema.

        Raises:
            FileFormatError: a later file has a column of another type, or other columns.
        """
        if self._writer is None:
            self._schema, ipc = head, arrow(".ipc")
            if self._format == "parquet":
                self._writer = arrow(".parquet").ParquetWriter(self._file, head)
            else:
                options = ipc.IpcWriteOptions(emit_dictionary_deltas=True)
                self._writer = ipc.new_file(self._file, head, options=options)
        elif head is not self._head:
            old = dict(zip(self._schema.names, self._schema.types, strict=True))
            new = dict(zip(head.names, head.types, strict=True))
            for name in old | new:
                before, now = old.get(name, "absent"), new.get(name, "absent")
                if now not in (before, arrow().null()):
                    raise FileFormatError(
                        f"column {name!r} is {before} in the previous file, and here {now}",
                        file=file,
                    )
        self._head = head

    def write(self, text: Any) -> None:
        """Keep a record batch, cast to the schema, until `drain`."""
        if not text.schema.equals(self._schema):
            table = arrow().Table.from_batches([text]).select(self._schema.names)
            text = table.cast(self._schema).to_batches()[0]
        self._held.append(text)

    def drain(self) -> None:
        """Write the batches that were kept as one table, so that row groups are large."""
        if self._held:
            whole = arrow().Table.from_batches([*self._known, *self._held], self._schema)
            whole = whole.unify_dictionaries().combine_chunks()
            self._writer.write_table(whole)
            self._known, self._held = whole.take(arrow().array([], "int64")).to_batches(), []


@contextmanager
def open_output(path: str, spec: Format, read: Iterable[Any] = ()) -> Iterator[Output]:
    """Open an output (`-`: standard output), none of `read`, which replaces its file if the block
    succeeds."""
    path = os.fspath(path)
    # Refuse a name whose ending contradicts the format of the data.
    columnar, asked = issubclass(spec.source, ColumnarSource), format_by_name(path) or spec
    if asked is not spec and not (columnar and issubclass(asked.source, ColumnarSource)):
        raise ParameterError(
            f"{path}: tools keep the format of the data, {spec.name}; end the name in"
            f" {(*spec.endings, '.txt')[0]}, or read the data with --format {asked.name}"
        )
    if columnar and (path == STANDARD_STREAM or path.endswith((".gz", *_UNWRITTEN))):
        raise ParameterError(
            f"{path}: {spec.name} is written to uncompressed files; end it in {spec.endings[0]}"
        )
    if path.endswith(_UNWRITTEN):
        raise ParameterError(f"{path}: outputs are compressed by gzip alone; end the name in .gz")
    # Write to standard output, or to a temporary file in the same folder.
    target: Any
    if path == STANDARD_STREAM:
        target = nullcontext(sys.stdout.fileno())
    else:
        check_writable(path)
        check_not_read(path, filter(None, map(path_of, read)))
        refuse_sidecars(path)
        target = replacing(path)
    with target as descriptor, open(descriptor, "wb", _BUFFER, closefd=False) as file:
        output = ColumnarOutput(path, file, asked.name) if columnar else Output(path, file)
        try:
            yield output
            output.finish()
        finally:
            # Close in any case; an error here would hide the one that ended the block.
            with suppress(OSError):
                output.close()


def name_output(template: str, name: str) -> str:
    """Return the path of one of several outputs.

    Args:
        template: path with the placeholder `{}`. Without it, `-name` is inserted before the file
            extensions, as in `a/web-train.txt.gz` for `a/web.txt.gz`.
        name: part, or number with at least three digits.
    """
    template = os.fspath(template)
    if template in ("", STANDARD_STREAM):
        raise ParameterError("several outputs cannot be written to standard output; name a file")
    if "{}" not in template:
        folder, file = os.path.split(template)
        stem, dot, endings = file.partition(".")
        template = os.path.join(folder, f"{stem}{'-' * bool(stem)}{{}}{dot}{endings}")
    before, after = template.split("{}", 1)
    if set("{}") & set(before + after):
        raise ParameterError(f"output {template!r} must have {{}} once, for the name or number")
    return before + name + after
