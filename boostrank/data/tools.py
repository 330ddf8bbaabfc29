"""File tools that never cut a query: split, sample, shard, sort and merge libsvm files of any size.

Lines pass through as they are; comments and blank lines stay with the row that follows them. Memory holds a few chunks
of text and some 40 bytes a query (`sort`: what it is given, and 150 bytes a query). Outputs are written whole or not at
all, and compressed as their names say. Several input files are one data set, as for `read_files`.
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
_BUFFER = 1 << 16
_FIELD = re.compile(r"\{(|:0?\d)\}")


MAX_OUTPUTS = 500  # all are open at once, and systems allow a process about a thousand files
DEFAULT_MEMORY = 256 << 20

# Of the lines that are rows; a label is a number: its qid is the first there can be.
_ROW_TO_QID = re.compile(rb"^[ \t]*[^ \t\r\n#].*?qid:", re.MULTILINE)
_SORT = "boostrank data sort brings its rows together"
_STRETCH_BYTES = 48  # 32 to remember a stretch of text, 16 to sort it
_SUM_OF_SHARES = 1e-6
CHUNK_BYTES = 4 << 20
_SHORTEST_ROW = 8  # "0 qid:1\n"
_MOST_COMMENTS = 16 << 20  # that wait for the row that they belong to
_FIRST_CHECK = 1 << 10


# Outputs -------------------------------------------------------------------------------------------------------------


def _zstd() -> Any:
    zstd = zstd_module()
    names = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={names.checksum_flag: 1, names.compression_level: 1})


# Quick rather than small; gzip without the time, so that the same lines give the same bytes.
_PACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
    ".bz2": lambda: bz2.BZ2Compressor(),
    ".xz": lambda: lzma.LZMACompressor(preset=0),
    ".zst": _zstd,
}


@dataclass(frozen=True)
class Written:
    """A file that was written: its path, its rows and its queries."""

    path: str
    rows: int
    queries: int


class Output:
    """Takes lines; made by `open_output`."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path, self.rows, self.queries = path, 0, 0
        make = _PACKERS.get(os.path.splitext(path)[1])
        self._file, self._packer = file, None if make is None else make()

    def write(self, text: bytes | memoryview, *, rows: int, begins: bool) -> None:
        """Write whole lines: so many rows, of a new query or of the one before."""
        self.rows += rows
        self.queries += begins
        self._file.write(text if self._packer is None else self._packer.compress(text))

    def finish(self) -> None:
        """Write what was held back; a second time there is nothing left to do."""
        if self._packer is not None:
            self._file.write(self._packer.flush())
            self._packer = None
        self._file.flush()

    @property
    def written(self) -> Written:
        """What was written so far."""
        return Written(self.path, self.rows, self.queries)


@contextmanager
def open_output(path: str, read: Iterable[Any] = ()) -> Iterator[Output]:
    """The file at `path` (`-`: standard output), replaced when the block ends well.

    Args:
        path: where it goes.
        read: paths of what it is made of, none of which it may replace; others than paths are left alone.

    Raises:
        InputError: it could not be written, is one of those, or sidecars of other data lie beside it.
        TrainingError: it could not be written, after all.
    """
    if path != STANDARD_OUTPUT:
        check_target(path, read)
    target = nullcontext(sys.stdout.fileno()) if path == STANDARD_OUTPUT else writing(path)
    with target as descriptor, open(descriptor, "wb", _BUFFER, closefd=False) as file:
        output = Output(path, file)
        yield output
        output.finish()


def check_target(path: str, read: Iterable[Any]) -> None:
    """Find out before the work whether the file could be written after it; arguments as of `open_output`.

    Raises:
        InputError: as `open_output`.
        MissingDependency: its name asks for a compression that is not there.
    """
    check_output(path)
    check_not_read(path, [one for one in read if isinstance(one, str | os.PathLike) and one != STANDARD_OUTPUT])
    if path.endswith(".zst"):
        zstd_module()
    refuse_sidecars(path)


def named(template: str, name: str | int) -> str:
    """The path of one of several outputs.

    Args:
        template: with `{}` (a number also `{:03}`), which `name` takes the place of; without, `-name` goes before the
            endings of the file name: `a/web.txt.gz` -> `a/web-train.txt.gz`.
        name: text, or a number, which gets three digits at least unless the template says otherwise.

    Raises:
        ParameterError: more than one place for the name, or braces of another kind; standard output.
    """
    if template == STANDARD_OUTPUT:
        raise ParameterError("several outputs cannot go to standard output: name a file")
    before, *rest = _FIELD.split(template)  # where there is a place: its format and what is behind it
    if not rest:
        folder, file = os.path.split(template)
        stem, dot, endings = file.partition(".")
        before, rest = os.path.join(folder, stem + "-" * bool(stem)), [":03", dot + endings]
    if len(rest) > 2 or set("{}") & set(before + rest[1]) or not template:
        raise ParameterError(f"output {template!r}: put {{}} or {{:03}} where the name or number goes, once")
    width = int(rest[0][-1:] or 3)
    return before + (f"{name:0{width}}" if isinstance(name, int) else name) + rest[1]


# Tools ---------------------------------------------------------------------------------------------------------------


def split(
    source: AnySource, output: str, parts: Mapping[str, float], *, seed: int = 0, progress: Progress = None
) -> list[Written]:
    """Give every query to one of several files, by a hash of its id.

    A query lands in the same part whatever else is in the file: a later, larger version of the data moves none from
    training to test. The shares are therefore those of a draw, not exact.

    Args:
        source, progress: as of `read_files`.
        output: the paths, `{}` standing for the part; without, `-part` goes before the endings of the file name.
        parts: name -> share of the queries; the shares add up to 1.
        seed: another seed, another draw.

    Raises:
        ParameterError: names or shares that make no sense.
        FileFormatError: a row that cannot be read, or a query whose rows do not follow each other.
        DataError: no query falls to one of the parts.
    """
    for name, share in parts.items():
        if not re.fullmatch(r"[\w.-]+", name):
            raise ParameterError(f"part {name!r}: a name has letters, digits, '.', '-' and '_'")
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
    """Spread whole queries over several files of about equal size: each goes to the file with the fewest rows so far.

    Args:
        source, progress: as of `split`.
        output: as of `split`; the number from 0 has three digits, or as `{:05}` says.
        shards: how many files.

    Raises:
        ParameterError, FileFormatError, DataError: as `split`.
    """
    if not 1 <= shards <= MAX_OUTPUTS:
        raise ParameterError(f"shards={shards!r} is out of range; allowed: 1 to {MAX_OUTPUTS}")
    others, rows, current = [(0, i) for i in range(1, shards)], 0, 0  # a heap, and the file of the query at hand

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
    """Keep some of the queries, in their order, drawn by a hash of their ids: the same ones in any order of the input.

    With one seed, a larger sample holds every smaller one.

    Args:
        source, seed, progress: as of `split`.
        output: path of the sample; "-" for standard output.
        queries: how many to keep, exactly; or
        fraction: the share to keep, about.

    Raises:
        ParameterError, FileFormatError, DataError: as `split`; fewer queries than asked for.
    """
    if (queries is None) == (fraction is None):
        raise ParameterError("give one of the two: how many queries, or which fraction of them")
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
            raise DataError("no query was drawn: take a larger fraction, or another seed")
    return out.written


def _smallest_draws(source: AnySource, queries: int, seed: int, out: Output, progress: Progress) -> None:
    """The `queries` smallest draws; what may be among them is kept in a temporary file until the end decides."""
    smallest: list[int] = []  # negative: the heap's first is the largest draw among them
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
            raise DataError(f"{queries:,} queries are asked for, but there are only {seen:,}")
        file.flush()
        for drawn, length, rows in candidates:
            if drawn <= -smallest[0]:
                _copy(file.fileno(), offset, length, rows, out)
            offset += length


def sort(source: AnySource, output: str, *, memory: int = DEFAULT_MEMORY, progress: Progress = None) -> Written:
    """Bring the rows of each query together, stably, in files of any size.

    Queries come in the order of their first rows, and the rows of a query in the order of the input, as
    `read_files(regroup=True)` has them. What does not fit in memory is sorted by parts into a temporary file beside
    the output, as large as the text.

    Args:
        source, progress: as of `split`.
        output: path; "-" for standard output.
        memory: bytes of text (and of what it takes to keep track of it) to sort at a time.

    Raises:
        ParameterError: no memory, or more than there is.
        FileFormatError: a row that cannot be read.
    """
    if memory < 1:
        raise ParameterError(f"memory={memory!r} must be at least 1 byte")
    ranks: dict[bytes, int] = {}
    try:
        arena, used = zeroed(memory, np.uint8), 0
    except (MemoryError, OSError, OverflowError, ValueError):
        raise ParameterError(f"memory={memory:,} bytes are more than this machine gives: ask for less") from None
    # Of every stretch of a query, in the arena and in the temporary file: the query's rank, where it is, bytes, rows.
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
    """Join data sets, one behind the other.

    Args:
        sources: each as of `read_files`.
        output: path; "-" for standard output.
        rename: put `1-`, `2-`, ... before the query ids of each set, for ids that restart in each.
        progress: as of `split`.

    Raises:
        FileFormatError: as `split`; a query that is in two sets.
    """
    files = [expand(source) for source in sources]
    read = expand([file for each in files for file in each])  # none is given twice
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
    """`pieces`, of queries whose rows follow each other."""
    whole = Whole(_SORT)
    for piece in pieces(source, progress):
        whole.add(piece)
        yield piece
    whole.check()


def _distribute(
    source: AnySource, paths: list[str], choose: Callable[[Piece], int], progress: Progress, if_empty: str
) -> list[Written]:
    """Write each piece to the output that `choose` says: all of them are written, or none."""
    real: dict[str, str] = {}
    read = expand(source)
    for path in paths:
        check_target(path, read)
        other = real.setdefault(os.path.realpath(path), path)
        if other != path:  # the last to be renamed would take the rows of the other with it
            raise InputError(f"{other} and {path} are one file (a symbolic link): remove it, or choose another name")
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(path)) for path in paths]
        for piece in _whole(source, progress):
            outputs[choose(piece)].write(piece.text, rows=piece.rows, begins=piece.begins)
        empty = [out.path for out in outputs if out.queries == 0]
        if empty:
            raise DataError(f"no query for {', '.join(empty)}: nothing is written; {if_empty}")
        for out in outputs:  # all of it is on its way before the first file is replaced
            out.finish()
    return [out.written for out in outputs]


def _by_rank(stretches: array[int]) -> Iterator[tuple[int, int, int, int, bool]]:
    """(rank, offset, bytes, rows, whether it is the first of its rank), by rank and then in the order given."""
    table = np.array(stretches).reshape(-1, 4)
    before = -1
    for i in np.argsort(table[:, 0], kind="stable"):
        rank, offset, size, rows = table[i].tolist()
        yield rank, offset, size, rows, rank != before
        before = rank


def _put_aside(held: array[int], arena: Any, file: IO[bytes], aside: array[int]) -> None:
    """Write what is held, by rank, to the temporary file; empties `held`."""
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
    """Write a stretch of the temporary file to the output."""
    end = offset + length
    while offset < end:
        text = os.pread(descriptor, min(end - offset, CHUNK_BYTES), offset)
        offset += len(text)
        out.write(text, rows=rows, begins=begins)
        rows, begins = 0, False


def _temporary_file(output: str) -> IO[bytes]:
    """A file without a name beside the output, gone when the process is."""
    of_file = output != STANDARD_OUTPUT and (os.path.isfile(output) or not os.path.exists(output))
    return tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(output)) if of_file else None)


class Piece(NamedTuple):
    """Whole lines of one query, as they are in the file; comments and blank lines go with the row that follows.

    Args:
        qid: of the query.
        text: the lines.
        rows: how many of them are rows.
        begins: whether the query begins here; otherwise it goes on from the piece before.
        file: where it lies.
        line: of its first row.
    """

    qid: bytes
    text: memoryview
    rows: int
    begins: bool
    file: str
    line: int


class _Scanner:
    """`scan_lines` with its arrays, which grow with the chunks."""

    def __init__(self) -> None:
        self.options = np.zeros(parse.N_OPTIONS, np.int64)
        self.options[parse.EXPECT_QID] = 1
        self.state = np.zeros(2 * slots.N_STATE, np.int64)
        self.fault = np.zeros(parse.N_BAD, np.int64)
        self._size = -1

    def __call__(self, text: Text) -> tuple[Int64Array, Int64Array]:
        """(runs, where each ends); `fault` and `state` tell the rest."""
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
    """The queries of the files, in order, in pieces of at most a chunk (or a line).

    Label and query id are read as strictly as by `read_files`; the rest of a row is not looked at. A last line
    without newline gets one.

    Args:
        source, progress: as of `read_files`.

    Raises:
        FileFormatError: a file or a row that cannot be read, or no rows at all.
    """
    with closing(LibsvmSource(expand(source), Reading())) as opened:
        yield from _pieces(opened, progress)


def _pieces(opened: LibsvmSource, progress: Progress) -> Iterator[Piece]:
    scan, current, last, lines, rows, carry = _Scanner(), None, b"", 0, 0, b""
    latest = b""  # query, of whatever file: comments behind the last row of all stay with it
    for source, load in opened.loads(CHUNK_BYTES, 1):
        if source is not current:
            if current is not None:
                yield from _tail(last, carry, current.name, lines)
                carry = carry if not last else b""
                opened.leave(current)
            current, last, lines = source, b"", 0
            check_no_table(source.head, source.name)  # type: ignore[attr-defined]
            if (weights := find_sidecar(source.path, (WEIGHT_SUFFIX,))) is not None:
                warn_user(f"{weights}: weights are not carried along", DataWarning)
        if load is None:
            continue
        try:
            text = load(None)  # a new buffer: pieces of the old one may be in use
        except LineTooLong as error:
            raise error.within(source.name, lines) from None
        runs, ends = scan(text)
        end = text.end + text.unterminated  # the padding begins with the newline that is missing
        if text.unterminated:
            warn_user(f"{source.name}: the last line has no newline: maybe truncated", DataWarning)
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
    """Comments behind the last row of a file stay with it."""
    if carry and qid:
        yield Piece(qid, memoryview(carry), 0, False, file, line)


def draw(qid: bytes, seed: int, purpose: bytes) -> int:
    """A number below 2^64 that query id and seed decide: the same wherever the query stands, and in every file.

    Draws for two purposes are independent.
    """
    digest = hashlib.blake2b(qid, digest_size=8, key=str(seed).encode()[:64], person=purpose)
    return int.from_bytes(digest.digest(), "little")


class Whole:
    """Refuses a query whose rows do not follow each other, in about 40 bytes a query.

    Args:
        mend: what mends it.

    Two different ids are taken for one with a chance of 3e-8 in a million queries; the refusal then names them.
    """

    def __init__(self, mend: str) -> None:
        self._mend = mend
        self._keys, self._lines, self._ends = array("q"), array("q"), array("q")
        self._names = bytearray()
        self._files: list[tuple[int, str]] = []
        self._next_check = _FIRST_CHECK

    def add(self, piece: Piece) -> None:
        """The next piece; `check` when the number of queries has doubled."""
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
        """Look at all queries so far.

        Raises:
            FileFormatError: one came back.
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
        words = f"qid {name} comes back; it was first seen on {seen}: {self._mend}"
        raise FileFormatError(words, file=self._file(again), line=self._lines[again])

    def _file(self, query: int) -> str:
        return next(name for begin, name in reversed(self._files) if begin <= query)
