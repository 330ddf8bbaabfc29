"""Read (and write) libsvm files with query ids (the format of SVMrank, LETOR, MSLR, Yahoo and Istella).

    2 qid:10 1:0.5 3:17 136:0.25 # any comment

Strict: what cannot be read for certain is refused with file, line, column, the token and what mends it; what was read
but deserves a look is told in one `DataWarning` a kind. Values are float32, each rounded from what Python's `float`
makes of its token. Parallel and streaming: chunks of lines are parsed by threads, and little more than the result and
a few chunks is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from boostrank.core.errors import DataWarning, ParameterError, warn_user
from boostrank.core.machine import resolve_threads
from boostrank.data.dataset import RankingDataset
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.assemble import Assembly
from boostrank.data.libsvm.blocks import Parser
from boostrank.data.libsvm.options import FeatureSpace, ReadOptions, check_options, parse_label_map
from boostrank.data.libsvm.side_files import GROUP_SUFFIXES, find_sidecar
from boostrank.data.libsvm.sources import AnySource, Opened, expand, parsed
from boostrank.data.libsvm.writer import write_libsvm
from boostrank.data.store import RowStore

__all__ = ["FeatureSpace", "parse_label_map", "read_libsvm", "write_libsvm"]

_PROBED_LINES = 64


def read_libsvm(
    source: AnySource,
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
    store: RowStore | None = None,
) -> RankingDataset:
    """Read libsvm text: `label qid:ID number:value ... # comment`, one document a line.

    Several files are one data set, in the order given: the files decide together on width and on whether features
    count from 0, and a query lies in one of them. One that goes on in the next file is refused, since ids that restart
    in each file look the same; with `regroup` it is joined.

    A file without any qid is grouped by a sidecar beside it (`FILE.query` or `FILE.group`, sizes in rows; beside a file
    with qids it must agree with them); a `FILE.weight` gives the weights of the queries.

    Args:
        source: a path, a pattern (`shards/*.gz`), "-" for standard input, a pipe, a binary file object, or a sequence
            of them. gzip, bzip2, xz and zstd (with the extra `zst`) are recognised by their first bytes.
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
        max_bytes: refuse more text than this (after decompression, all files together).
        keep_comments: keep what stands behind `#`, without the blanks around it.
        threads: parsing threads; None for every available core. The result does not depend on it.
        chunk_bytes: text handed to a thread at a time. The result does not depend on it.
        progress: called with the bytes read and their total, None when that is not known.
        like: the training data (or its `FeatureSpace`): width, names and counting of the features come from it.
            Features that it does not have are ignored with a warning; fewer are padded with zeros.
        store: leaves the features on disk, as `StoredFeatures`; see `boostrank.data.libsvm.stream`, which also
            remembers.

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
    opened = Opened(expand(source), max_bytes)
    try:
        assembly = _parse_all(opened, options, store, chunk_bytes, workers, progress)
        data = assembly.finish(workers)
    finally:
        opened.close()
    if store is not None:
        data.features.known["warnings"] = list(assembly.warnings)
    for words in assembly.warnings:
        warn_user(words, DataWarning)
    return data


def _parse_all(
    opened: Opened,
    options: ReadOptions,
    store: RowStore | None,
    chunk_bytes: int,
    threads: int,
    progress: Callable[[int, int | None], None] | None,
) -> Assembly:
    """All chunks of the sources, parsed and in order."""
    slots = options.for_parser()
    first = opened.first
    slots[parse.EXPECT_QID] = find_sidecar(first.path, GROUP_SUFFIXES) is None or has_qid(first.head)
    parser = Parser(slots, [token.encode() for token in options.missing_tokens])
    assembly, current = Assembly(options, store), None
    for source, block in parsed(opened, parser, chunk_bytes, threads):
        if source is not current:
            assembly.enter(source.name, source.path)
            current = source
        assembly.add(block)
        if progress is not None:
            progress(opened.done, opened.total)
    return assembly


def has_qid(head: bytes) -> bool:
    """Whether one of the first rows has a query id; the rows after them must then have one too."""
    rows = (line.split(b"#", 1)[0].split() for line in head.split(b"\n"))
    probed = [row for row in rows if row][:_PROBED_LINES]
    return any(token.startswith(b"qid:") for row in probed for token in row[1:])
