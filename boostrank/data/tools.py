"""File tools for data files of any size that keep queries whole: split, sample, shard, sort and merge.

Lines of text (libsvm, CSV, TSV) are copied unchanged; comments and blank lines stay with the next row. Columns of
Parquet and Arrow files keep their types and values. Memory use is a few chunks of text, or `_HELD` bytes of columns,
and about 40 bytes per query (`sort`: its limit, and 150 bytes per query). Outputs are written atomically, and
compressed according to their names. Several input files are one data set, as for `read_files`.
"""

from __future__ import annotations

import bisect
import bz2
import hashlib
import heapq
import itertools
import lzma
import math
import os
import re
import shutil
import sys
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from boostrank.core.errors import DataError, DataWarning, FileFormatError, InputError, ParameterError, warn_user
from boostrank.core.files import check_not_read, check_output, writing
from boostrank.core.types import Int64Array
from boostrank.data import blocks as slots
from boostrank.data.assemble import NO_ROWS
from boostrank.data.blocks import Fault
from boostrank.data.formats.libsvm import LibsvmSource
from boostrank.data.options import Progress
from boostrank.data.side_files import WEIGHT_SUFFIX, find_sidecar, refuse_sidecars
from boostrank.data.source import AnySource, Format, LineTooLong, Reading, expand, format_by_name, format_of
from boostrank.data.tables.columnar import ColumnarSource
from boostrank.data.tables.source import TableSource, arrow
from boostrank.data.text import parser as parse
from boostrank.data.text.files import Text, zstd_module
from boostrank.data.text.reasons import fault_of

__all__ = ["Written", "merge", "sample", "shard", "sort", "split"]

STANDARD_OUTPUT = "-"
_BUFFER = 1 << 16
_FIELD = re.compile(r"\{(|:0?\d)\}")


MAX_OUTPUTS = 500  # all are open at once, and systems allow about a thousand open files per process
DEFAULT_MEMORY = 256 << 20

# Matches rows; a label is a number, so the first qid is the query id.
_ROW_TO_QID = re.compile(rb"^[ \t]*[^ \t\r\n#].*?qid:", re.MULTILINE)
_SORT = "boostrank data sort brings its rows together"
_STRETCH_BYTES = 48  # to record a piece and to sort it
_SUM_OF_SHARES = 1e-6
CHUNK_BYTES = 4 << 20
_HELD = 64 << 20  # bytes of columns read between writes, which fill the row groups of all outputs
_SHORTEST_ROW = 8  # "0 qid:1\n"
_MOST_COMMENTS = 16 << 20  # waiting for the next row
_LINE_BITS = 48


# Outputs -------------------------------------------------------------------------------------------------------------


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
        """Write the header before the first row.

        Raises:
            FileFormatError: `file` has another header than the previous files.
        """
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
        """Write whole lines.

        Args:
            begins: whether the rows start a new query.
        """
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
        """Copy the file, opened for reading too, to another output: the pieces by their ranks, stably.

        Args:
            pieces: int64[n, 3], rank, bytes and rows of each, as they were added.
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
    """Open the file at `path` (`-`: standard output), which is replaced when the block succeeds.

    Args:
        read: input paths, which must not be replaced; other objects are ignored.
        spec: format of the rows; None means text.

    Raises:
        InputError: the file is not writable, is an input, or has side files of other data.
        ParameterError: its extension is that of another format.
        TrainingError: writing failed.
    """
    columnar = spec is not None and issubclass(spec.source, ColumnarSource)
    if spec is not None:
        asked = format_by_name(path) or spec
        if asked is not spec and not (columnar and issubclass(asked.source, ColumnarSource)):
            ending = (*spec.endings, ".txt")[0]
            words = f"tools keep the format of the data, {spec.name}; end the name in {ending}"
            raise ParameterError(f"{path}: {words}, or read the data with --format {asked.name}")
        if columnar and (path == STANDARD_OUTPUT or os.path.splitext(path)[1] in _PACKERS):
            raise ParameterError(f"{path}: {spec.name} is written to uncompressed files; name one {spec.endings[0]}")
        spec = asked
    if path != STANDARD_OUTPUT:
        check_target(path, read)
    target = nullcontext(sys.stdout.fileno()) if path == STANDARD_OUTPUT else writing(path)
    with target as descriptor, open(descriptor, "wb", _BUFFER, closefd=False) as file:
        output = ColumnarOutput(path, file, spec.name) if columnar and spec else Output(path, file)
        try:
            yield output
            output.finish()
        finally:
            with suppress(OSError):
                output.close()


def check_target(path: str, read: Iterable[Any]) -> None:
    """Check before the work whether an output can be written; arguments as for `open_output`.

    Raises:
        InputError: as `open_output`.
        MissingDependency: the compression is not installed.
    """
    check_output(path)
    check_not_read(path, [one for one in read if isinstance(one, str | os.PathLike) and one != STANDARD_OUTPUT])
    if path.endswith(".zst"):
        zstd_module()
    refuse_sidecars(path)


def named(template: str, name: str | int) -> str:
    """Return the path of one of several outputs.

    Args:
        template: path with `{}` (or `{:03}` for numbers) as placeholder; without it, `-name` is inserted before the
            file extensions: `a/web.txt.gz` -> `a/web-train.txt.gz`.
        name: text, or a number with at least three digits unless the template has a format.

    Raises:
        ParameterError: several or invalid placeholders, or standard output.
    """
    if template == STANDARD_OUTPUT:
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


# Tools ---------------------------------------------------------------------------------------------------------------


def split(
    source: AnySource,
    output: str,
    parts: Mapping[str, float],
    *,
    seed: int = 0,
    progress: Progress = None,
    **reading: Any,
) -> list[Written]:
    """Assign every query to one of several files, by a hash of its id.

    A query is assigned to the same part whatever else the file contains, so a later, larger version moves no query from
    training to test. The shares are those of a random draw, not exact.

    Args:
        source, progress: as for `read_files`.
        output: path with `{}` for the part; without it, `-part` is inserted before the file extensions.
        parts: name -> share of the queries; shares must add up to 1.
        reading: `format`, and of tables `qid`, the column of query ids, as for `read_files`.

    Raises:
        ParameterError: invalid names or shares.
        FileFormatError: an unreadable row, or a query that is not contiguous.
        DataError: a part without queries.
    """
    for name, share in parts.items():
        if not re.fullmatch(r"[\w.-]+", name):
            raise ParameterError(f"part {name!r}: names may contain letters, digits, '.', '-' and '_'")
        if not 0.0 < share <= 1.0:
            raise ParameterError(f"part {name} has share {share!r}; allowed: above 0, at most 1")
    if abs(math.fsum(parts.values()) - 1.0) > _SUM_OF_SHARES:
        raise ParameterError(f"the shares of the parts add up to {math.fsum(parts.values()):g}, not 1")
    limits = [share * 2**64 for share in itertools.accumulate(parts.values())][:-1]
    part = 0

    def choose(piece: Piece) -> int:
        nonlocal part
        if piece.begins:
            part = bisect.bisect_right(limits, draw(piece.qid, seed, b"split"))
        return part

    paths = [named(output, name) for name in parts]
    return _distribute(_Data(source, progress, reading), paths, choose, "try another seed")


def shard(source: AnySource, output: str, shards: int, *, progress: Progress = None, **reading: Any) -> list[Written]:
    """Distribute whole queries over files of about equal size: each goes to the file with the fewest rows so far.

    Args:
        source, progress, reading: as for `split`.
        output: as for `split`; the number from 0 has three digits, or as in `{:05}`.

    Raises:
        ParameterError, FileFormatError, DataError: as `split`.
    """
    if not 1 <= shards <= MAX_OUTPUTS:
        raise ParameterError(f"shards={shards!r} is out of range; allowed: 1 to {MAX_OUTPUTS}")
    others, rows, current = [(0, i) for i in range(1, shards)], 0, 0  # heap, and the file of the current query

    def choose(piece: Piece) -> int:
        nonlocal rows, current
        if piece.begins:
            rows, current = heapq.heappushpop(others, (rows, current))
        rows += piece.rows
        return current

    paths = [named(output, i) for i in range(shards)]
    return _distribute(_Data(source, progress, reading), paths, choose, "take fewer shards")


def sample(
    source: AnySource,
    output: str,
    *,
    queries: int | None = None,
    fraction: float | None = None,
    seed: int = 0,
    progress: Progress = None,
    **reading: Any,
) -> Written:
    """Sample queries by a hash of their ids, in input order. The order of the input does not affect the sample.

    With the same seed, a larger sample contains every smaller one.

    Args:
        source, seed, progress, reading: as for `split`.
        output: path of the sample; "-" for standard output.
        queries: exact number of queries; or
        fraction: approximate share of the queries.

    Raises:
        ParameterError, FileFormatError, DataError: as `split`; also too few queries.
    """
    if (queries is None) == (fraction is None):
        raise ParameterError("pass either a number of queries or a fraction")
    if queries is not None and queries < 1:
        raise ParameterError(f"queries={queries!r} must be at least 1")
    if fraction is not None and not 0.0 < fraction <= 1.0:
        raise ParameterError(f"fraction={fraction!r} is out of range; allowed: above 0, at most 1")
    data, limit, keep = _Data(source, progress, reading), (fraction or 0.0) * 2.0**64, False

    def choose(piece: Piece) -> int | None:
        nonlocal keep
        keep = draw(piece.qid, seed, b"sample") < limit if piece.begins else keep
        return 0 if keep else None

    with open_output(output, data.files, data.spec) as out, data.again(queries is not None):
        if queries is not None:
            draws = heapq.nsmallest(queries, (draw(one.qid, seed, b"sample") for one in data.whole() if one.begins))
            if len(draws) < queries:
                raise DataError(f"{queries:,} queries requested, but there are only {len(draws):,}")
            limit = draws[-1] + 1
        _send(data.whole(), [out], choose)
        if out.queries == 0:
            raise DataError("no query was drawn; use a larger fraction or another seed")
    return out.written


def sort(
    source: AnySource, output: str, *, memory: int = DEFAULT_MEMORY, progress: Progress = None, **reading: Any
) -> Written:
    """Bring the rows of each query together, stably, in files of any size.

    Queries are in the order of their first rows, and their rows in input order, as with `read_files(regroup=True)`.
    They are distributed over temporary files next to the output, each of which is sorted in memory.

    Args:
        source, progress, reading: as for `split`.
        output: path; "-" for standard output.
        memory: bytes of rows and bookkeeping to sort at a time; more for a larger query.

    Raises:
        ParameterError: no memory.
        FileFormatError: an unreadable row.
    """
    if memory < 1:
        raise ParameterError(f"memory={memory!r} must be at least 1 byte")
    data, ranks, sizes = _Data(source, progress, reading), dict[bytes, int](), array("q")
    with ExitStack() as stack:
        out = stack.enter_context(open_output(output, spec=data.spec))
        stack.enter_context(data.again())
        for piece in data.pieces():
            rank = ranks.setdefault(piece.qid, len(ranks))
            sizes.extend([0] * (rank == len(sizes)))
            sizes[rank] += piece.text.nbytes + _STRETCH_BYTES
        # Each temporary file holds whole queries, in input order.
        total = sum(sizes)
        most = max(min(memory, total), total // MAX_OUTPUTS + 1)
        _, places = np.unique((np.cumsum(sizes) - sizes) // most, return_inverse=True)
        files = [stack.enter_context(_temporary_file(output)) for _ in range(int(places[-1]) + 1)]
        parts = [ColumnarOutput("", file) if data.columnar else Output("", file) for file in files]
        stretches = [array("q") for _ in parts]  # rank, bytes and rows of each piece

        def choose(piece: Piece) -> int:
            rank = ranks[piece.qid]
            stretches[places[rank]].extend((rank, piece.text.nbytes, piece.rows))
            return int(places[rank])

        _send(data.pieces(), parts, choose)
        for part, stretch in zip(parts, stretches, strict=True):
            part.finish()
            part.sort_into(out, np.array(stretch).reshape(-1, 3))
    return out.written


def merge(
    sources: Sequence[AnySource], output: str, *, rename: bool = False, progress: Progress = None, **reading: Any
) -> Written:
    """Concatenate data sets of one format, with the same columns.

    Args:
        sources: each as for `read_files`.
        output: path; "-" for standard output.
        rename: prefix the query ids of each set with `1-`, `2-`, ..., for ids that restart in each.
        progress, reading: as for `split`.

    Raises:
        FileFormatError: as `split`; also a query in two sets, or other columns than in the first set.
    """
    sets = [_Data(source, progress, reading) for source in sources]
    read = _Data([file for one in sets for file in one.files], None, reading)  # refuses duplicates, and other formats
    whole = Whole(_SORT if rename else f"if ids restart in each set, --rename keeps them apart; otherwise {_SORT}")

    def renamed() -> Iterator[Piece]:
        for number, one in enumerate(sets, start=1):
            for piece in one.pieces():
                piece = piece.renamed(f"{number}-") if rename else piece
                whole.add(piece)
                yield piece

    with open_output(output, read.files, read.spec) as out:
        _send(renamed(), [out], lambda piece: 0)
    return out.written


class _Data:
    """Files of one format and how to read them; arguments as for `split`."""

    def __init__(self, source: AnySource, progress: Progress, reading: Mapping[str, Any]) -> None:
        self.files, self._progress = expand(source), progress
        self._reading = {name: value for name, value in reading.items() if name != "format"}
        self.spec = format_of(self.files, reading.get("format", "auto"))

    @contextmanager
    def again(self, needed: bool = True) -> Iterator[None]:
        """Copy streams to temporary files, so that `pieces` can read them again."""
        with ExitStack() as stack:
            for i, one in enumerate(self.files if needed else ()):
                if isinstance(one, str | os.PathLike) and os.path.isfile(one):
                    continue
                copy, name = stack.enter_context(tempfile.TemporaryFile()), getattr(one, "name", "<stream>")
                if isinstance(one, str | os.PathLike):
                    name = "<stdin>" if one == STANDARD_OUTPUT else os.fspath(one)
                    one = sys.stdin.buffer if one == STANDARD_OUTPUT else stack.enter_context(open(one, "rb"))
                shutil.copyfileobj(one, copy)
                self.files[i] = SimpleNamespace(name=name, read=copy.read, seek=copy.seek)  # type: ignore[call-overload]
            yield

    @property
    def columnar(self) -> bool:
        """Whether rows are read as record batches."""
        return issubclass(self.spec.source, ColumnarSource)

    def pieces(self) -> Iterator[Piece]:
        """Yield the queries of the files, in order, in pieces of at most a chunk (or a line).

        Query ids are parsed as strictly as by `read_files`, as are the labels of libsvm text; the rest of a row is not
        parsed. A missing final newline is added.

        Raises:
            FileFormatError: an unreadable file or row, or no rows.
        """
        for one in self.files:
            if isinstance(one, SimpleNamespace):
                one.seek(0)
        with closing(self.spec.source(self.files, Reading(**self._reading, whole=True))) as opened:
            of = _pieces_of_table if isinstance(opened, TableSource) else _pieces
            yield from of(opened, self._progress)  # type: ignore[arg-type, operator]

    def whole(self) -> Iterator[Piece]:
        """Yield the pieces of contiguous queries."""
        whole = Whole(_SORT)
        for piece in self.pieces():
            whole.add(piece)
            yield piece


def _send(pieces: Iterable[Piece], outputs: Sequence[Output], choose: Callable[[Piece], int | None]) -> None:
    """Write each piece to the output chosen by `choose`, if any."""
    held = 0
    for piece in pieces:
        at = choose(piece)
        if at is not None:
            outputs[at].add(piece)
        held += piece.text.nbytes
        if held > _HELD:  # a held slice keeps its whole batch in memory, so all outputs write their rows
            held = 0
            for out in outputs:
                out.drain()


def _distribute(data: _Data, paths: list[str], choose: Callable[[Piece], int], if_empty: str) -> list[Written]:
    """Write each piece to the output chosen by `choose`, atomically for all outputs."""
    real: dict[str, str] = {}
    for path in paths:
        check_target(path, data.files)
        other = real.setdefault(os.path.realpath(path), path)
        if other != path:  # the last rename would replace the other file
            raise InputError(f"{other} and {path} are the same file (a symbolic link): remove it, or rename the output")
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(path, spec=data.spec)) for path in paths]
        _send(data.whole(), outputs, choose)
        empty = [out.path for out in outputs if out.queries == 0]
        if empty:
            raise DataError(f"no query for {', '.join(empty)}, so nothing was written; {if_empty}")
        for out in outputs:  # flush everything before the first file is replaced
            out.finish()
    return [out.written for out in outputs]


def _temporary_file(output: str) -> Any:
    """Return an unnamed file next to the output, removed with the process."""
    of_file = output != STANDARD_OUTPUT and (os.path.isfile(output) or not os.path.exists(output))
    return tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(output)) if of_file else None)


class Piece(NamedTuple):
    """Rows of one query, unchanged.

    Args:
        text: whole lines, with the comments and blank lines before each row; or a record batch.
        begins: whether the query begins here; otherwise it continues the previous piece.
        line: line of the first row.
        head: header of the file: a line, or a schema.
        column: position of the query ids in a table.
        delimiter: separator of the cells of a text table.
    """

    qid: bytes
    text: Any
    rows: int
    begins: bool
    file: str
    line: int
    head: Any = b""
    column: int = 0
    delimiter: str = ""

    def renamed(self, prefix: str) -> Piece:
        """Return the piece with a prefix before its query ids; those of columns become text."""
        start, text, head = prefix.encode(), self.text, self.head
        if isinstance(text, memoryview):
            row = _ROW_TO_QID
            if self.delimiter:
                cell = rf'(?:"(?:[^"\n]|"")*"|[^{self.delimiter}\n]*){self.delimiter}'
                row = re.compile(rf'^(?=[^\r\n])(?:{cell}){{{self.column}}}[ \t]*"?'.encode(), re.MULTILINE)
            text = memoryview(row.sub(rb"\g<0>" + start, bytes(text)))
        else:
            pa, name = arrow(), head.names[self.column]
            ids = pa.array([prefix + self.qid.decode()]).take(pa.array(np.zeros(self.rows, np.int64)))
            head = head.set(self.column, pa.field(name, pa.string()))
            columns = [*text.columns[: self.column], ids, *text.columns[self.column + 1 :]]
            text = pa.RecordBatch.from_arrays(columns, schema=head)
        return self._replace(qid=start + self.qid, text=text, head=head)


class _Scanner:
    """Caller of `scan_lines` with reusable buffers."""

    def __init__(self) -> None:
        self.options = np.zeros(parse.N_OPTIONS, np.int64)
        self.options[parse.EXPECT_QID] = 1
        self.state = np.zeros(2 * slots.N_STATE, np.int64)
        self.fault = np.zeros(parse.N_BAD, np.int64)
        self._size = -1

    def __call__(self, text: Text) -> tuple[Int64Array, Int64Array]:
        """Return (runs, end of each); `fault` and `state` contain the rest."""
        if text.end - text.start > self._size:
            self._size = text.end - text.start
            room = self._size // _SHORTEST_ROW + 2
            self.runs, self.ends = np.empty((room, slots.N_RUN), np.int64), np.empty(room, np.int64)
            self.labels = np.empty(room, np.float64)
        self.state[:] = 0
        parse.scan_lines(
            np.frombuffer(text.buffer, np.uint8),
            text.start,
            text.end,
            self.options,
            self.labels,
            self.runs,
            self.ends,
            self.fault,
            self.state,
        )
        count = int(self.state[slots.RUNS])
        return self.runs[:count], self.ends[:count]


def _pieces(opened: LibsvmSource, progress: Progress) -> Iterator[Piece]:
    scan, current, last, lines, rows, carry = _Scanner(), None, b"", 0, 0, b""
    latest = b""  # last query of any file: trailing comments stay with it
    for source, load in opened.loads(CHUNK_BYTES, 1):
        if source is not current:
            if current is not None:
                yield from _tail(last, carry, current.name, lines)
                carry = carry if not last else b""
                opened.leave(current)
            current, last, lines = source, b"", 0
            _warn_of_weights(source.path)
        if load is None:
            continue
        try:
            text = load(None)  # a new buffer: pieces of the old one may still be in use
        except LineTooLong as error:
            raise error.within(source.name, lines) from None
        runs, ends = scan(text)
        end = text.end + text.unterminated  # the padding begins with the missing newline
        if text.unterminated:
            warn_user(f"{source.name}: the last line has no newline; the file may be truncated", DataWarning)
        view, begin = memoryview(text.buffer), text.start
        counts = np.diff(runs[:, slots.RUN_ROW], append=scan.state[slots.ROWS]).tolist()
        for (_, line, id_start, id_end, _, _), stop, count in zip(runs.tolist(), ends.tolist(), counts, strict=True):
            qid = bytes(view[id_start:id_end])
            part = memoryview(carry + view[begin:stop]) if carry else view[begin:stop]
            yield Piece(qid, part, count, qid != last, source.name, lines + line)
            begin, last, latest, rows, carry = stop, qid, qid, rows + count, b""
        if scan.state[slots.BAD_ROWS]:
            raise fault_of(scan.fault.tolist(), text).error(source.name, lines)
        carry += view[begin:end]
        if len(carry) > _MOST_COMMENTS:
            if not last:
                raise FileFormatError(f"no row in the first {_MOST_COMMENTS >> 20} MiB", file=source.name)
            yield from _tail(last, carry, source.name, lines)
            carry = b""
        lines += int(scan.state[slots.LINES])
        if progress is not None:
            progress(opened.done, opened.total)
    yield from _tail(latest, carry, source.name, lines)
    opened.leave(source)
    if rows == 0:
        raise FileFormatError(NO_ROWS, file=opened.first.name)


def _pieces_of_table(opened: TableSource, progress: Progress) -> Iterator[Piece]:
    current, last, before, rows = None, b"", 0, 0
    for file, load in opened.loads(CHUNK_BYTES, 1):
        if file is not current:
            if current is not None:
                opened.leave(current)
            current, last, before = file, b"", opened.header_lines
            _warn_of_weights(file.path)
        if load is None:
            continue
        try:
            head, cut, cells = opened.whole_rows(load)
        except LineTooLong as error:
            raise error.within(file.name, before) from None
        place = cells.columns.qid
        assert place is not None
        ids, faults = cells.query_ids(place)
        if faults := [*cells.faults, *faults]:
            raise min(faults, key=lambda one: one.line).error(file.name, before, by_row=opened.by_row)
        runs, names = slots.runs_of(ids, cells.lines) if cells.lines.size else (np.zeros((0, slots.N_RUN), int), {})
        starts, lines = runs[:, slots.RUN_ROW].tolist(), runs[:, slots.RUN_LINE].tolist()
        for i, (start, stop) in enumerate(pairwise([*starts, cells.lines.size])):
            qid = names.get(i) or str(runs[i, slots.RUN_ID]).encode()
            line, delimiter = before + lines[i], getattr(opened, "delimiter", "")
            yield Piece(qid, cut(start, stop), stop - start, qid != last, file.name, line, head, place, delimiter)
            last = qid
        before, rows = before + cells.n_lines, rows + cells.lines.size
        if progress is not None:
            progress(opened.done, opened.total)
    opened.leave(file)
    if rows == 0:
        raise FileFormatError(NO_ROWS, file=opened.first.name)


def _warn_of_weights(path: str | None) -> None:
    if (weights := find_sidecar(path, (WEIGHT_SUFFIX,))) is not None:
        warn_user(f"{weights}: weights are not copied", DataWarning)


def _tail(qid: bytes, carry: bytes, file: str, line: int) -> Iterator[Piece]:
    """Yield comments after the last row of a file, which stay with it."""
    if carry and qid:
        yield Piece(qid, memoryview(carry), 0, False, file, line)


def draw(qid: bytes, seed: int, purpose: bytes) -> int:
    """Return a hash below 2^64 of query id and seed, independent of the file.

    Draws with different purposes are independent.
    """
    digest = hashlib.blake2b(qid, digest_size=8, key=str(seed).encode()[:64], person=purpose)
    return int.from_bytes(digest.digest(), "little")


class Whole:
    """Check that queries are contiguous, in about 150 bytes per query.

    Args:
        mend: remedy for the error message.
    """

    def __init__(self, mend: str) -> None:
        self._mend = mend
        self._seen: dict[bytes, int] = {}  # number of the file and line of the first row
        self._files: list[str] = []

    def add(self, piece: Piece) -> None:
        """Add the next piece.

        Raises:
            FileFormatError: its query reappears.
        """
        if self._files[-1:] != [piece.file]:
            self._files.append(piece.file)
        here = (len(self._files) - 1 << _LINE_BITS) + piece.line
        first = self._seen.setdefault(piece.qid, here) if piece.begins else here
        if first != here:
            by_row, line = not isinstance(piece.head, bytes), first & ((1 << _LINE_BITS) - 1)
            seen = f"{'row' if by_row else 'line'} {line}"
            if len(self._files) > 1:
                seen = f"{self._files[first >> _LINE_BITS]}:{f' row {line}' if by_row else line}"
            words = f"qid {piece.qid.decode()} reappears; it was first seen on {seen}: {self._mend}"
            raise Fault(piece.line, words).error(piece.file, 0, by_row=by_row)
