"""Tools for files of any size that never cut a query: split, sample, shard, sort and merge.

Lines pass through as they are; comments and blank lines stay with the row that follows them. Memory holds a few chunks
of text and some 40 bytes a query (`sort`: what it is given, and 150 bytes a query). Outputs are written whole or not at
all, and compressed as their names say. Inputs are what `read_libsvm` takes: several files are one data set.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import os
import re
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np

from boostrank.core.errors import DataError, InputError, ParameterError
from boostrank.data.libsvm.blocks import zeroed
from boostrank.data.libsvm.sources import AnySource, expand
from boostrank.data.options import Progress
from boostrank.data.tools.outputs import STANDARD_OUTPUT, Output, Written, check_target, named, open_output
from boostrank.data.tools.query_lines import CHUNK_BYTES, Piece, Whole, draw, pieces

__all__ = ["Written", "merge", "sample", "shard", "sort", "split"]

MAX_OUTPUTS = 500  # all are open at once, and systems allow a process about a thousand files
DEFAULT_MEMORY = 256 << 20

# Of the lines that are rows; a label is a number: its qid is the first there can be.
_ROW_TO_QID = re.compile(rb"^[ \t]*[^ \t\r\n#].*?qid:", re.MULTILINE)
_SORT = "boostrank sort brings its rows together"
_STRETCH_BYTES = 48  # 32 to remember a stretch of text, 16 to sort it
_SUM_OF_SHARES = 1e-6


def split(
    source: AnySource, output: str, parts: Mapping[str, float], *, seed: int = 0, progress: Progress = None
) -> list[Written]:
    """Give every query to one of several files, by a hash of its id.

    A query lands in the same part whatever else is in the file: a later, larger version of the data moves none from
    training to test. The shares are therefore those of a draw, not exact.

    Args:
        source, progress: as of `read_libsvm`.
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
    source: AnySource, output: str, *, queries: int | None = None, fraction: float | None = None, seed: int = 0,
    progress: Progress = None,
) -> Written:  # fmt: skip
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
    `read_libsvm(regroup=True)` has them. What does not fit in memory is sorted by parts into a temporary file beside
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
        sources: each as of `read_libsvm`.
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
