"""Reader of libsvm files with query ids (the format of SVMrank, LETOR, MSLR, Yahoo and Istella).

    2 qid:10 1:0.5 3:17 136:0.25 # any comment

Strict: what cannot be read for certain is refused with file, line, column, the token and what mends it; what was read
but deserves a look goes into one `DataWarning` a kind. Values are float32, each rounded from what Python's `float`
makes of its token. Parallel and streaming: chunks of lines are parsed by threads, and little more than the result and
a few chunks is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from boostrank.core.errors import DataWarning, ParameterError, warn_user
from boostrank.core.machine import resolve_threads
from boostrank.data.dataset import RankingDataset
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.assemble import Assembly
from boostrank.data.libsvm.blocks import Parser
from boostrank.data.libsvm.chunks import Source
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.libsvm.reasons import check_no_table
from boostrank.data.libsvm.side_files import GROUP_SUFFIXES, find_sidecar
from boostrank.data.libsvm.sources import AnySource, Opened, expand, parsed
from boostrank.data.libsvm.writer import write_libsvm
from boostrank.data.options import FeatureSpace, Progress, parse_label_map, takes_reader_options
from boostrank.data.store import RowStore

__all__ = ["FeatureSpace", "parse_label_map", "read_libsvm", "write_libsvm"]

P = TypeVar("P", bound=Parser)
_PROBED_LINES = 64


@takes_reader_options
def read_libsvm(
    source: AnySource, *, threads: int | None = None, chunk_bytes: int = 16 << 20, progress: Progress = None,
    like: RankingDataset | FeatureSpace | None = None, store: RowStore | None = None, **options: Any,
) -> RankingDataset:  # fmt: skip
    """Read libsvm text: `label qid:ID number:value ... # comment`, one document a line.

    Several files are one data set, in the order given: the files decide together on width and on whether features
    count from 0, and a query lies in one of them. One that goes on in the next file is refused, since ids that restart
    in each file look the same; with `regroup` it is joined, and `input_rows` remembers where its rows were.

    A file without any qid is grouped by a sidecar beside it (`FILE.query` or `FILE.group`, sizes in rows; beside a file
    with qids it must agree with them); a `FILE.weight` gives the weights of the queries.

    Args:
        source: a path, a pattern (`shards/*.gz`), "-" for standard input, a pipe, a binary file object, or a sequence
            of them. gzip, bzip2, xz and zstd (with the extra `zst`) are recognised by their first bytes.
        chunk_bytes: text handed to a thread at a time. The result does not depend on it.
        store: leaves the features on disk, as `StoredFeatures`; see `boostrank.data.libsvm.stream`, which also
            remembers.
        {options}

    Returns:
        Features float32, dense or CSR; labels float64; query ids int64 when all are canonical integers, else text.

    Raises:
        FileFormatError: what cannot be read, the first by line.
        ParameterError: options out of range, or in contradiction.
    """
    checked = LibsvmOptions(like=like, **options)
    if chunk_bytes < 1:
        raise ParameterError(f"chunk_bytes={chunk_bytes!r} must be at least 1")
    assembly = Assembly(checked, store)
    with closing(Opened(expand(source), checked.max_bytes)) as opened:
        parser: Parser = parser_of(checked, opened.first)
        return assembled(opened, parser, assembly, chunk_bytes, resolve_threads(threads), progress)


def assembled(
    opened: Opened, parser: Callable[[Any], Any], assembly: Assembly, chunk_bytes: int, threads: int, progress: Progress
) -> RankingDataset:  # fmt: skip
    """The data set of sources whose chunks a parser turns into blocks; warns of what deserves a look."""
    current = None
    for file, block in parsed(opened, parser, chunk_bytes, threads):
        if file is not current:
            assembly.enter(file.name, file.path, file)
            current = file
        assembly.add(block)
        if progress is not None:
            progress(opened.done, opened.total)
    data = assembly.finish(threads)
    if assembly.store is not None:
        data.features.known["warnings"] = list(assembly.warnings)
    for words in assembly.warnings:
        warn_user(words, DataWarning)
    return data


def parser_of(options: LibsvmOptions, first: Source, kind: type[P] = Parser) -> P:
    """A parser for one or several files; beginning and sidecars of the first say whether rows have query ids."""
    check_no_table(first.head, first.name)
    slots = options.for_parser()
    rows = (line.split(b"#", 1)[0].split() for line in first.head.split(b"\n"))
    probed = [row for row in rows if row][:_PROBED_LINES]
    has_qid = any(token.startswith(b"qid:") for row in probed for token in row[1:])  # then all rows must have one
    slots[parse.EXPECT_QID] = has_qid or find_sidecar(first.path, GROUP_SUFFIXES) is None
    return kind(slots, [token.encode() for token in options.missing_tokens])
