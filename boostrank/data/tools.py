"""File tools for libsvm files of any size that keep queries whole: split, sample, shard, sort and merge.

Lines are copied unchanged; comments and blank lines stay with the next row. Memory use is a few chunks of text and
about 40 bytes per query (`sort`: its limit, and 150 bytes per query). Outputs are written atomically, and compressed
according to their names. Several input files are one data set, as for `read_files`.
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
import sys
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from boostrank.core.errors import DataError, DataWarning, FileFormatError, InputError, ParameterError, warn_user
from boostrank.core.files import check_not_read, check_output, writing
from boostrank.core.types import Int64Array
from boostrank.data import blocks as slots
from boostrank.data.assemble import NO_ROWS
from boostrank.data.blocks import zeroed
from boostrank.data.formats.libsvm import LibsvmSource
from boostrank.data.options import Progress
from boostrank.data.side_files import WEIGHT_SUFFIX, find_sidecar, refuse_sidecars
from boostrank.data.source import AnySource, LineTooLong, Reading, expand
from boostrank.data.text import parser as parse
from boostrank.data.text.files import Text, zstd_module
from boostrank.data.text.reasons import check_no_table, fault_of

__all__ = ["Written", "merge", "sample", "shard", "sort", "split"]

STANDARD_OUTPUT = "-"
_NO_TABLES = "file tools read libsvm text alone: split a table with pandas"
_BUFFER = 1 << 16
_FIELD = re.compile(r"\{(|:0?\d)\}")


MAX_OUTPUTS = 500  # all are open at once, and systems allow about a thousand open files per process
DEFAULT_MEMORY = 256 << 20

# Matches rows; a label is a number, so the first qid is the query id.
_ROW_TO_QID = re.compile(rb"^[ \t]*[^ \t\r\n#].*?qid:", re.MULTILINE)
_SORT = "boostrank data sort brings its rows together"
_STRETCH_BYTES = 48  # 32 to record a stretch of text, 16 to sort it
_SUM_OF_SHARES = 1e-6
CHUNK_BYTES = 4 << 20
_SHORTEST_ROW = 8  # "0 qid:1\n"
_MOST_COMMENTS = 16 << 20  # waiting for the next row
_FIRST_CHECK = 1 << 10


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
        self.path, self.rows, self.queries = path, 0, 0
        make = _PACKERS.get(os.path.splitext(path)[1])
        self._file, self._packer = file, None if make is None else make()

    def write(self, text: bytes | memoryview, *, rows: int, begins: bool) -> None:
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

    @property
    def written(self) -> Written:
        """Return the totals so far."""
        return Written(self.path, self.rows, self.queries)


@contextmanager
def open_output(path: str, read: Iterable[Any] = ()) -> Iterator[Output]:
    """Open the file at `path` (`-`: standard output), which is replaced when the block succeeds.

    Args:
        read: input paths, which must not be replaced; other objects are ignored.

    Raises:
        InputError: the file is not writable, is an input, or has side files of other data.
        TrainingError: writing failed.
    """
    if path != STANDARD_OUTPUT:
        check_target(path, read)
    target = nullcontext(sys.stdout.fileno()) if path == STANDARD_OUTPUT else writing(path)
    with target as descriptor, open(descriptor, "wb", _BUFFER, closefd=False) as file:
        output = Output(path, file)
        yield output
        output.finish()


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
    source: AnySource, output: str, parts: Mapping[str, float], *, seed: int = 0, progress: Progress = None
) -> list[Written]:
    """Assign every query to one of several files, by a hash of its id.

    A query is assigned to the same part whatever else the file contains, so a later, larger version moves no query from
    training to test. The shares are those of a random draw, not exact.

    Args:
        source, progress: as for `read_files`.
        output: path with `{}` for the part; without it, `-part` is inserted before the file extensions.
        parts: name -> share of the queries; shares must add up to 1.

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

    return _distribute(source, [named(output, name) for name in parts], choose, progress, "try another seed")


def shard(source: AnySource, output: str, shards: int, *, progress: Progress = None) -> list[Written]:
    """Distribute whole queries over files of about equal size: each goes to the file with the fewest rows so far.

    Args:
        source, progress: as for `split`.
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

    return _distribute(source, [named(output, i) for i in range(shards)], choose, progress, "take fewer shards")


def sample(
    source: AnySource,
    output: str,
    *,
    queries: int | None = None,
    fraction: float | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> Written:
    """Sample queries by a hash of their ids, in input order. The order of the input does not affect the sample.

    With the same seed, a larger sample contains every smaller one.

    Args:
        source, seed, progress: as for `split`.
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
    with open_output(output, expand(source)) as out:
        if fraction is not None:
            limit, keep = fraction * 2.0**64, False
            for piece in _whole(source, progress):
                keep = draw(piece.qid, seed, b"sample") < limit if piece.begins else keep
                if keep:
                    out.write(piece.text, rows=piece.rows, begins=piece.begins)
        elif queries is not None:
            _smallest_draws(source, queries, seed, out, progress)
        if out.queries == 0:
            raise DataError("no query was drawn; use a larger fraction or another seed")
    return out.written


def _smallest_draws(source: AnySource, queries: int, seed: int, out: Output, progress: Progress) -> None:
    """Write the queries with the smallest draws. Candidates are kept in a temporary file until the end."""
    smallest: list[int] = []  # negated: the heap's first entry is the largest draw
    candidates: list[list[int]] = []  # draw, bytes, rows
    keep, seen, offset = False, 0, 0
    with _temporary_file(out.path) as file:
        for piece in _whole(source, progress):
            if piece.begins:
                drawn, seen = draw(piece.qid, seed, b"sample"), seen + 1
                keep = len(smallest) < queries or drawn < -smallest[0]
                if keep:
                    candidates.append([drawn, 0, 0])
                    (heapq.heappush if len(smallest) < queries else heapq.heappushpop)(smallest, -drawn)
            if keep:
                file.write(piece.text)
                candidates[-1][1] += len(piece.text)
                candidates[-1][2] += piece.rows
        if seen < queries:
            raise DataError(f"{queries:,} queries requested, but there are only {seen:,}")
        file.flush()
        for drawn, length, rows in candidates:
            if drawn <= -smallest[0]:
                _copy(file.fileno(), offset, length, rows, out)
            offset += length


def sort(source: AnySource, output: str, *, memory: int = DEFAULT_MEMORY, progress: Progress = None) -> Written:
    """Bring the rows of each query together, stably, in files of any size.

    Queries are in the order of their first rows, and their rows in input order, as with `read_files(regroup=True)`.
    Data larger than memory are sorted in parts into a temporary file next to the output, as large as the text.

    Args:
        source, progress: as for `split`.
        output: path; "-" for standard output.
        memory: bytes of text and bookkeeping to sort at a time.

    Raises:
        ParameterError: no memory, or more than available.
        FileFormatError: an unreadable row.
    """
    if memory < 1:
        raise ParameterError(f"memory={memory!r} must be at least 1 byte")
    ranks: dict[bytes, int] = {}
    try:
        arena, used = zeroed(memory, np.uint8), 0
    except (MemoryError, OSError, OverflowError, ValueError):
        raise ParameterError(f"memory={memory:,} bytes are not available on this machine; use less") from None
    # Per stretch of a query, in the buffer and in the temporary file: rank of the query, offset, bytes, rows.
    held, aside = array("q"), array("q")
    with open_output(output) as out, _temporary_file(output) as file:
        for piece in pieces(source, progress):
            rank, size = ranks.setdefault(piece.qid, len(ranks)), len(piece.text)
            if used + size + _STRETCH_BYTES * len(held) // 4 > memory:
                _put_aside(held, arena, file, aside)
                used = 0
            if size > memory:
                aside.extend((rank, file.tell(), size, piece.rows))
                file.write(piece.text)
                continue
            arena[used : used + size] = np.frombuffer(piece.text, np.uint8)
            held.extend((rank, used, size, piece.rows))
            used += size
        if not aside:
            for _, offset, size, rows, begins in _by_rank(held):
                out.write(arena[offset : offset + size].data, rows=rows, begins=begins)
            return out.written
        _put_aside(held, arena, file, aside)
        file.flush()
        for _, offset, size, rows, begins in _by_rank(aside):
            _copy(file.fileno(), offset, size, rows, out, begins=begins)
    return out.written


def merge(sources: Sequence[AnySource], output: str, *, rename: bool = False, progress: Progress = None) -> Written:
    """Concatenate data sets.

    Args:
        sources: each as for `read_files`.
        output: path; "-" for standard output.
        rename: prefix the query ids of each set with `1-`, `2-`, ..., for ids that restart in each.
        progress: as for `split`.

    Raises:
        FileFormatError: as `split`; also a query in two sets.
    """
    files = [expand(source) for source in sources]
    read = expand([file for each in files for file in each])  # refuses duplicate files
    whole = Whole(_SORT if rename else f"if ids restart in each set, --rename keeps them apart; otherwise {_SORT}")
    with open_output(output, read) as out:
        for number, each in enumerate(files, start=1):
            prefix = f"{number}-".encode() if rename else b""
            for piece in pieces(each, progress):
                whole.add(piece._replace(qid=prefix + piece.qid))
                text = _ROW_TO_QID.sub(rb"\g<0>" + prefix, bytes(piece.text)) if rename else piece.text
                out.write(text, rows=piece.rows, begins=piece.begins)
        whole.check()
    return out.written


def _whole(source: AnySource, progress: Progress) -> Iterator[Piece]:
    """Yield `pieces` of contiguous queries."""
    whole = Whole(_SORT)
    for piece in pieces(source, progress):
        whole.add(piece)
        yield piece
    whole.check()


def _distribute(
    source: AnySource, paths: list[str], choose: Callable[[Piece], int], progress: Progress, if_empty: str
) -> list[Written]:
    """Write each piece to the output chosen by `choose`, atomically for all outputs."""
    real: dict[str, str] = {}
    read = expand(source)
    for path in paths:
        check_target(path, read)
        other = real.setdefault(os.path.realpath(path), path)
        if other != path:  # the last rename would replace the other file
            raise InputError(f"{other} and {path} are the same file (a symbolic link): remove it, or rename the output")
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(path)) for path in paths]
        for piece in _whole(source, progress):
            outputs[choose(piece)].write(piece.text, rows=piece.rows, begins=piece.begins)
        empty = [out.path for out in outputs if out.queries == 0]
        if empty:
            raise DataError(f"no query for {', '.join(empty)}, so nothing was written; {if_empty}")
        for out in outputs:  # flush everything before the first file is replaced
            out.finish()
    return [out.written for out in outputs]


def _by_rank(stretches: array[int]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield (rank, offset, bytes, rows, whether first of its rank), sorted by rank, then by input order."""
    table = np.array(stretches).reshape(-1, 4)
    before = -1
    for i in np.argsort(table[:, 0], kind="stable"):
        rank, offset, size, rows = table[i].tolist()
        yield rank, offset, size, rows, rank != before
        before = rank


def _put_aside(held: array[int], arena: Any, file: IO[bytes], aside: array[int]) -> None:
    """Move the buffer, sorted by rank, to the temporary file."""
    at = file.tell()
    for rank, offset, size, rows, begins in _by_rank(held):
        if begins:
            aside.extend((rank, at, 0, 0))
        file.write(arena[offset : offset + size].data)
        aside[-2] += size
        aside[-1] += rows
        at += size
    del held[:]


def _copy(descriptor: int, offset: int, length: int, rows: int, out: Output, *, begins: bool = True) -> None:
    """Copy a stretch of the temporary file to the output."""
    end = offset + length
    while offset < end:
        text = os.pread(descriptor, min(end - offset, CHUNK_BYTES), offset)
        offset += len(text)
        out.write(text, rows=rows, begins=begins)
        rows, begins = 0, False


def _temporary_file(output: str) -> IO[bytes]:
    """Return an unnamed file next to the output, removed with the process."""
    of_file = output != STANDARD_OUTPUT and (os.path.isfile(output) or not os.path.exists(output))
    return tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(output)) if of_file else None)


class Piece(NamedTuple):
    """Whole lines of one query, unchanged; comments and blank lines belong to the next row.

    Args:
        begins: whether the query begins here; otherwise it continues the previous piece.
        line: line of the first row.
    """

    qid: bytes
    text: memoryview
    rows: int
    begins: bool
    file: str
    line: int


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


def pieces(source: AnySource, progress: Progress = None) -> Iterator[Piece]:
    """Yield the queries of the files, in order, in pieces of at most a chunk (or a line).

    Labels and query ids are parsed as strictly as by `read_files`; the rest of a row is not parsed. A missing final
    newline is added.

    Args:
        source, progress: as for `read_files`.

    Raises:
        FileFormatError: an unreadable file or row, or no rows.
    """
    with closing(LibsvmSource(expand(source), Reading())) as opened:
        yield from _pieces(opened, progress)


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
            check_no_table(source.head, source.name, _NO_TABLES)  # type: ignore[attr-defined]
            if (weights := find_sidecar(source.path, (WEIGHT_SUFFIX,))) is not None:
                warn_user(f"{weights}: weights are not copied", DataWarning)
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
    """Check that queries are contiguous, in about 40 bytes per query.

    Args:
        mend: remedy for the error message.

    Two ids collide with a probability of 3e-8 per million queries; the error then names them.
    """

    def __init__(self, mend: str) -> None:
        self._mend = mend
        self._keys, self._lines, self._ends = array("q"), array("q"), array("q")
        self._names = bytearray()
        self._files: list[tuple[int, str]] = []
        self._next_check = _FIRST_CHECK

    def add(self, piece: Piece) -> None:
        """Add the next piece, and `check` whenever the number of queries has doubled."""
        if not piece.begins:
            return
        if not self._files or self._files[-1][1] != piece.file:
            self._files.append((len(self._keys), piece.file))
        self._keys.append(hash(piece.qid))
        self._lines.append(piece.line)
        self._names += piece.qid
        self._ends.append(len(self._names))
        if len(self._keys) >= self._next_check:
            self.check()
            self._next_check *= 2

    def check(self) -> None:
        """Check all queries so far.

        Raises:
            FileFormatError: a query reappeared.
        """
        keys = np.array(self._keys)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
        if not same.size:
            return
        again = int(order[same + 1].min())
        first = int(np.flatnonzero(keys == keys[again])[0])
        name = self._names[self._ends[again - 1] if again else 0 : self._ends[again]].decode()
        seen = f"line {self._lines[first]}" if len(self._files) == 1 else f"{self._file(first)}:{self._lines[first]}"
        words = f"qid {name} reappears; it was first seen on {seen}: {self._mend}"
        raise FileFormatError(words, file=self._file(again), line=self._lines[again])

    def _file(self, query: int) -> str:
        return next(name for begin, name in reversed(self._files) if begin <= query)
