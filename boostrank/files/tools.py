"""Tools that split, sample, shard and sort data files of any size and keep queries whole.

Lines of text (libsvm, CSV, TSV) are copied unchanged, with the comments and blank lines before
them. Comments that number or name the features of libsvm text are repeated in each output. Columns
of Parquet and Arrow files keep their types and values. Memory use is a few chunks of text or 64 MiB
of columns, plus about 200 bytes per query. `sort` keeps the whole data in memory.
Outputs are written atomically, and are compressed if their names say so. Several input files form
one data set, as in `read_files`.

All tools take `source` and `progress` like `read_files`, and in `reading` its `format` and, for
tables, `qid`, the query id column. They raise ParameterError for options out of range, DataError
for outputs without queries, and FileFormatError for unreadable rows and (except `sort`) for queries
that are not contiguous.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any

from boostrank.core.errors import DataError, InputError, ParameterError
from boostrank.core.text import list_names
from boostrank.files.formats.libsvm import read_declarations
from boostrank.files.pieces import (
    DataFiles,
    Output,
    Piece,
    Written,
    draw,
    name_output,
    open_output,
)
from boostrank.files.source import AnySource, Progress

__all__ = ["Written", "sample", "shard", "sort", "split"]

MAX_OUTPUTS = 500  # all are open at once, and systems allow about a thousand open files per process
_HELD = 64 << 20  # bytes of columns read between writes, which fill the row groups of all outputs

Choose = Callable[[Piece], int | None]
"""Function that returns the number of the output for a query, given its first piece."""


def split(
    source: AnySource,
    output: str,
    parts: Mapping[str, float],
    *,
    seed: int = 0,
    progress: Progress = None,
    **reading: Any,
) -> list[Written]:
    """Assign every query to one of several files by a hash of its id.

    The part of a query does not depend on the other queries, so no query moves from training to
    test when the file grows. The actual shares vary as in a random draw.

    Args:
        output: path in which `{}` is replaced by the part. Without it, `-part` is inserted before
            the file extensions.
        parts: share of the queries by part. The shares must sum to 1.
    """
    for name, share in parts.items():
        if not re.fullmatch(r"[\w.-]+", name) or not 0.0 < share <= 1.0:
            raise ParameterError(
                f"part {name!r} has share {share!r}; allowed: names of letters, digits, '.', '-'"
                " and '_', and shares above 0, at most 1"
            )
    total = math.fsum(parts.values())
    if abs(total - 1.0) > 1e-6:
        raise ParameterError(f"the shares of the parts add up to {total:g}, not 1")
    limits = [share * 2**64 for share in itertools.accumulate(parts.values())][:-1]

    def choose(piece: Piece) -> int:
        return bisect.bisect_right(limits, draw(piece.qid, seed, b"split"))

    paths = [name_output(output, name) for name in parts]
    return _distribute(DataFiles(source, progress, **reading), paths, choose)


def shard(
    source: AnySource, output: str, shards: int, *, progress: Progress = None, **reading: Any
) -> list[Written]:
    """Deal whole queries in turn to files, whose numbers of queries differ by at most 1.

    Args:
        output: see `split`. Shards are numbered from 0 with three digits.
    """
    if not 1 <= shards <= MAX_OUTPUTS:
        raise ParameterError(f"shards={shards!r} is out of range; allowed: 1 to {MAX_OUTPUTS}")
    turns = itertools.cycle(range(shards))

    paths = [name_output(output, f"{i:03}") for i in range(shards)]
    return _distribute(DataFiles(source, progress, **reading), paths, lambda piece: next(turns))


def sample(
    source: AnySource,
    output: str,
    queries: float,
    *,
    seed: int = 0,
    progress: Progress = None,
    **reading: Any,
) -> Written:
    """Sample queries by a hash of their ids and write them in input order.

    The sample does not depend on the order of the input. With the same seed, a larger sample
    contains a smaller one.

    Args:
        output: path of the sample, or "-" for standard output.
        queries: number of queries (int) or their approximate share (float up to 1.0).
    """
    number = int(queries) if hasattr(queries, "__index__") else None
    if not queries > 0 or (number is None and queries > 1.0):
        raise ParameterError(
            f"queries={queries!r} is out of range; allowed: a number, or a share above 0, at"
            " most 1.0"
        )
    data, limit = DataFiles(source, progress, **reading), queries * 2.0**64

    def choose(piece: Piece) -> int | None:
        return 0 if draw(piece.qid, seed, b"sample") < limit else None

    with open_output(output, data.spec, data.files) as out:
        if number is not None:
            data.check_regular()
            qids = (piece.qid for piece in data.contiguous_pieces() if piece.begins)
            draws = heapq.nsmallest(number, (draw(qid, seed, b"sample") for qid in qids))
            if len(draws) < number:
                raise DataError(f"{number:,} queries requested, but there are only {len(draws):,}")
            limit = draws[-1] + 1
        _send(data.contiguous_pieces(), [out], choose)
        if out.queries == 0:
            raise DataError("no query was drawn; use a larger share or another seed")
    return out.written


def sort(source: AnySource, output: str, *, progress: Progress = None, **reading: Any) -> Written:
    """Bring the rows of each query together, keeping their order.

    The order is that of `read_files(regroup=True)`: queries are sorted by their first rows, and
    rows keep their order. The data are kept in memory, as large as they are before compression.

    Args:
        output: path; "-" for standard output.
    """
    data, pieces_of = DataFiles(source, progress, **reading), dict[bytes, list[Piece]]()
    with open_output(output, data.spec) as out:
        for piece in data.pieces():
            pieces_of.setdefault(piece.qid, []).append(piece)
        for piece in _drain_between(chain.from_iterable(pieces_of.values()), [out]):
            out.add(piece)
        out.queries = len(pieces_of)
    return out.written


def _drain_between(pieces: Iterable[Piece], outputs: Sequence[Output]) -> Iterator[Piece]:
    """Yield pieces, and let all outputs write their rows from time to time, because a slice keeps
    its whole batch in memory."""
    read_bytes = 0
    for piece in pieces:
        yield piece
        read_bytes += piece.text.nbytes
        if read_bytes > _HELD:
            read_bytes = 0
            for out in outputs:
                out.drain()


def _send(pieces: Iterable[Piece], outputs: Sequence[Output], choose: Choose) -> None:
    """Write each query to the output chosen by `choose`, if any, after the comments that number or
    name the features."""
    at = declarations = None
    for piece in _drain_between(pieces, outputs):
        if piece.begins:
            at = choose(piece)
        if declarations is None:
            declarations = b"" if piece.head else read_declarations(bytes(piece.text))
        elif (
            declarations
            and at is not None
            and not outputs[at].rows
            and not read_declarations(bytes(piece.text))  # of a later file
        ):
            outputs[at].write(declarations)
        if at is not None:
            outputs[at].add(piece)


def _distribute(data: DataFiles, paths: list[str], choose: Choose) -> list[Written]:
    """Write each query to the output chosen by `choose`, atomically for all outputs."""
    real: dict[str, str] = {}
    for path in paths:
        other = real.setdefault(os.path.realpath(path), path)
        if other != path:  # the last rename would replace the other file
            raise InputError(
                f"{other} and {path} are the same file (through a symbolic link): remove the link,"
                " or rename the output"
            )
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(path, data.spec, data.files)) for path in paths]
        _send(data.contiguous_pieces(), outputs, choose)
        empty = [out.path for out in outputs if out.queries == 0]
        if empty:
            queries, remedy = sum(out.queries for out in outputs), "try another seed"
            if queries < len(outputs):
                remedy = f"take fewer shards or parts: there are only {queries:,} queries"
            raise DataError(
                f"there is no query for {list_names(empty)}, so nothing was written; {remedy}"
            )
        for out in outputs:  # flush everything before the first file is replaced
            out.finish()
    return [out.written for out in outputs]
