"""Read (and write) libsvm files with query ids (the format of SVMrank, LETOR, MSLR, Yahoo and Istella).

    2 qid:10 1:0.5 3:17 136:0.25 # any comment

Strict: what cannot be read for certain is refused with file, line, column, the token and what mends it; what was read
but deserves a look is told in one `DataWarning` a kind. Values are float32, each rounded from what Python's `float`
makes of its token. Parallel and streaming: chunks of lines are parsed by threads, and little more than the result and
a few chunks is in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from boostrank.core.errors import DataWarning, FileFormatError, ParameterError, warn_user
from boostrank.data import _parse as parse
from boostrank.data._assemble import Assembly
from boostrank.data._blocks import Block, Parser
from boostrank.data._chunks import MAX_LINE, LineTooLong, Source, open_source
from boostrank.data._options import FeatureSpace, ReadOptions, check_options, parse_label_map
from boostrank.data.dataset import RankingDataset
from boostrank.data.sidecar import GROUP_SUFFIXES, WEIGHT_SUFFIX, find_sidecar
from boostrank.data.writer import write_libsvm
from boostrank.kernels.jit import resolve_threads

__all__ = ["FeatureSpace", "parse_label_map", "read_libsvm", "write_libsvm"]

_PROBED_LINES = 64
_SMALLEST_CHUNK = 1 << 20  # smaller ones cost more to hand out than they save by spreading evenly


def read_libsvm(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    zero_based: bool | str = "auto",
    n_features: int | None = None,
    layout: str = "auto",
    missing_tokens: str | Sequence[str] = (),
    inf: str = "stop",
    on_bad_line: str = "stop",
    max_bad_share: float = 0.001,
    strict: bool = False,
    regroup: bool = False,
    label_map: Mapping[float, float] | str | None = None,
    max_feature: int = 2**24,
    max_bytes: int | None = None,
    keep_comments: bool = False,
    threads: int | None = None,
    chunk_bytes: int = 16 << 20,
    progress: Callable[[int, int | None], None] | None = None,
    like: RankingDataset | FeatureSpace | None = None,
) -> RankingDataset:
    """Read a libsvm file: `label qid:ID number:value ... # comment`, one document a line.

    A file without any qid is grouped by a sidecar beside it (`FILE.query` or `FILE.group`, sizes in rows; beside a file
    with qids it must agree with them); a `FILE.weight` gives the weights of the queries.

    Args:
        source: a path, "-" for standard input, a pipe, or a binary file object. gzip, bzip2 and xz are recognised by
            their first bytes.
        zero_based: whether the first feature has number 0. "auto": it has if number 0 occurs anywhere in the file,
            or, with `like`, if it has in the training data.
        n_features: width of the data; larger numbers are refused. None: the largest number in the file decides.
        layout: "dense", "csr", or "auto": dense when at least half of the cells are present. The numbers are the same.
        missing_tokens: spellings that stand for a missing value (NaN), exactly as they are in the file: "NULL".
        inf: infinite values are refused ("stop"), kept, or read as missing.
        on_bad_line: "stop" at the first row that cannot be read, or "skip" such rows whole, and count them.
        max_bad_share: refuse the file when more than this share of the rows would be skipped.
        strict: refuse what is otherwise warned of: feature numbers out of order, queries shared with `like`.
        regroup: bring the scattered rows of a query together, stably; `input_rows` remembers where they were.
        label_map: old label -> new label, others stay; or text such as "-1=0,2=1".
        max_feature: largest feature number that is believed.
        max_bytes: refuse more text than this (after decompression).
        keep_comments: keep what stands behind `#`, without the blanks around it.
        threads: parsing threads; None for every available core. The result does not depend on it.
        chunk_bytes: text handed to a thread at a time. The result does not depend on it.
        progress: called with the bytes read and their total, None when that is not known.
        like: the training data (or its `FeatureSpace`): width, names and counting of the features come from it.
            Features that it does not have are ignored with a warning; fewer are padded with zeros.

    Returns:
        Features float32, dense or CSR; labels float64; query ids int64 when all are canonical integers, else text.

    Raises:
        FileFormatError: what cannot be read, the first by line.
        ParameterError: options out of range, or in contradiction.
    """
    options = check_options(
        zero_based=zero_based, n_features=n_features, layout=layout, missing_tokens=missing_tokens, inf=inf,
        on_bad_line=on_bad_line, max_bad_share=max_bad_share, strict=strict, regroup=regroup, label_map=label_map,
        max_feature=max_feature, keep_comments=keep_comments, like=like,
    )  # fmt: skip
    if chunk_bytes < 1:
        raise ParameterError(f"chunk_bytes={chunk_bytes!r} must be at least 1")
    workers = resolve_threads(threads)
    opened = open_source(source, max_bytes)
    try:
        sizes_file = find_sidecar(opened.path, GROUP_SUFFIXES)
        has_qid = sizes_file is None or _has_qid(opened.head)
        if opened.total is not None:  # several chunks a thread, or the last one keeps the others waiting
            chunk_bytes = min(chunk_bytes, max(opened.total // (4 * workers), _SMALLEST_CHUNK))
        assembly = _parse_all(opened, options, has_qid, min(chunk_bytes, MAX_LINE), workers, progress)
        opened.check_unchanged()
        data = assembly.finish(opened.path, sizes_file, find_sidecar(opened.path, (WEIGHT_SUFFIX,)), workers)
    finally:
        opened.close()
    for words in assembly.warnings:
        warn_user(words, DataWarning)
    return data


def _parse_all(
    source: Source,
    options: ReadOptions,
    has_qid: bool,
    chunk_bytes: int,
    threads: int,
    progress: Callable[[int, int | None], None] | None,
) -> Assembly:
    """All chunks of the source, parsed and in order."""
    slots = options.for_parser()
    slots[parse.EXPECT_QID] = has_qid
    parser = Parser(slots, [token.encode() for token in options.missing_tokens])
    assembly = Assembly(source.name, options)
    try:
        for block in _in_order(parser, source, chunk_bytes, threads):
            assembly.add(block)
            if progress is not None:
                progress(source.done, source.total)
    except LineTooLong as error:
        raise FileFormatError(
            f"the line is longer than {MAX_LINE >> 20} MiB: is this a text file?", file=source.name,
            line=assembly.lines + error.lines + 1,
        ) from None  # fmt: skip
    return assembly


def _in_order(parser: Parser, source: Source, chunk_bytes: int, threads: int) -> Iterator[Block]:
    """The parsed chunks in file order; at most two more than there are threads are under way."""
    if threads <= 1:
        yield from map(parser, source.loads(chunk_bytes))
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="boostrank-read")
    waiting: deque[Future[Block]] = deque()
    try:
        for load in source.loads(chunk_bytes):
            waiting.append(pool.submit(parser, load))
            if len(waiting) > threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _has_qid(head: bytes) -> bool:
    """Whether one of the first rows has a query id; the rows after them must then have one too."""
    rows = (line.split(b"#", 1)[0].split() for line in head.split(b"\n"))
    probed = [row for row in rows if row][:_PROBED_LINES]
    return any(token.startswith(b"qid:") for row in probed for token in row[1:])
