"""Sources: files of one format as an ordered sequence of blocks, and the registry of formats.

All readers of rows (the assembler, predictions, the doctor, the memory estimate) use the blocks of a `Source`,
independent of its format. A format is a module in `boostrank.data.formats` with a `SPEC`.
"""

from __future__ import annotations

import glob
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np

from boostrank.core.errors import FileFormatError, ParameterError, did_you_mean
from boostrank.core.params import Registry
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.blocks import LINES, Block
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.data.options import NUMBERED, FeatureSpace, misfit, numbered_names
from boostrank.data.side_files import GROUP_SUFFIXES, UNREAD_SUFFIXES, WEIGHT_SUFFIX, refuse_unread
from boostrank.options import ReadOptions
from boostrank.records import jsonable

T = TypeVar("T")
OneSource = str | os.PathLike[str] | BinaryIO
AnySource = OneSource | Sequence[OneSource]

MAX_LINE = 64 << 20
_SMALLEST_CHUNK = 1 << 20  # smaller chunks cost more overhead than their balance saves
_STREAM_CHUNK = 4 << 20  # chunks of a stream wait in memory for their parser
_AHEAD = 2
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_SETS = {"train", "training", "vali", "valid", "val", "validation", "dev", "test", "testing"}
_IN_PROVENANCE = ("missing_tokens", "inf", "repeated", "label_map", "on_bad_line", "regroup")


class Reading(ReadOptions):
    """Reader options and the training data that they refer to. Names of features are read from their file.

    Args:
        like: training data, or its features.
        labelled: whether tables must have labels; otherwise missing labels are 0.
        rows_alone: whether only features are needed (predictions).
        lenient: skip unreadable rows, treat apparent missing-value words as missing, and report both (the doctor).
        pick: names of numeric and of text columns to read instead of labels, queries and features.
        whole: parse only query ids, and keep the rows as they are written (the file tools).
        takes_categories: whether the program that will serve the model takes categories; otherwise messages advise to
            drop text columns.
    """

    like: RankingDataset | FeatureSpace | None = None
    labelled: bool = True
    rows_alone: bool = False
    lenient: bool = False
    pick: tuple[Sequence[str], Sequence[str]] | None = None
    whole: bool = False
    takes_categories: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", numbered_names(self.feature_names))

    @cached_property
    def space(self) -> FeatureSpace | None:
        """Features of the training data."""
        return self.like.feature_space if isinstance(self.like, RankingDataset) else self.like

    @cached_property
    def training_qids(self) -> frozenset[Any]:
        """Query ids of the training data; empty if its ids only count the queries (group sizes)."""
        named = isinstance(self.like, RankingDataset) and self.like.provenance.options.get("queries") == "qid"
        return frozenset(self.like.queries.qid.tolist() if named else ())  # type: ignore[union-attr]

    @property
    def known(self) -> Mapping[str, Categories] | None:
        """Categories of the training data; None if this is the training data."""
        return None if self.space is None else self.space.categories

    @property
    def names(self) -> bool:
        """Whether to keep the names of documents."""
        return self.id is not None if self.keep_names is None else self.keep_names

    @property
    def skip(self) -> bool:
        """Whether to skip unreadable rows."""
        return self.on_bad_line == "skip"

    @property
    def roles(self) -> dict[str, Any]:
        """Names of the columns `label`, `qid`, `weight`, `id`, `drop`, from the options or the training data."""
        given = {name: getattr(self, name) for name in ("label", "qid", "weight", "id", "drop")}
        of_training = dict(self.space.columns) if self.space is not None else {}
        return of_training | {name: value for name, value in given.items() if value is not None}

    def relabelled(self, labels: Float64Array) -> Float64Array:
        """Apply the label map."""
        out = labels.copy()
        for old, new in (self.label_map or {}).items():  # type: ignore[union-attr]
            out[labels == old] = new
        return out

    def for_provenance(self) -> dict[str, Any]:
        """Return the options that affect values, as plain data."""
        changed = self.changed
        if "label_map" in changed:
            changed["label_map"] = {f"{old:g}": new for old, new in changed["label_map"].items()}
        return {name: jsonable(changed[name]) for name in _IN_PROVENANCE if name in changed}


class File(Protocol):
    """An open file."""

    name: str
    path: str | None  # None for a pipe or an object
    total: int | None  # bytes to read, if known
    done: int  # bytes read so far, before decompression
    text_bytes: int  # of text or columns: of the whole file if uncompressed, else of the part read so far
    is_packed: bool
    any_order: bool  # whether chunks can be loaded in any order
    rows: int | None  # None if unknown

    @property
    def changed(self) -> bool: ...
    def loads(self, chunk_bytes: int) -> Iterator[Callable[[Any], Any]]: ...
    def close(self) -> None: ...


class LineTooLong(Exception):
    """A line of more than MAX_LINE bytes, `lines` lines after the start of its chunk."""

    def __init__(self, lines: int) -> None:
        super().__init__(lines)
        self.lines = lines

    def within(self, file: str, lines_before: int) -> FileFormatError:
        """Return the error to raise, given the number of lines of the file before the chunk."""
        words = f"the line is longer than {MAX_LINE >> 20} MiB: is this a text file?"
        return FileFormatError(words, file=file, line=lines_before + self.lines + 1)


class Source:
    """Files of one format that form one data set, opened one after another."""

    unused: tuple[str, ...] = ()
    """Options that the format does not support."""
    by_row = False
    """Whether messages count rows, because the files have no lines."""
    header_lines = 0
    """Number of lines before the first row of each file."""
    chunk_bytes = 16 << 20
    """Default number of bytes that a thread parses at a time."""

    def __init__(self, files: Sequence[OneSource], reading: Reading) -> None:
        default = ReadOptions()
        for name in self.unused:
            if getattr(reading, name) != getattr(default, name):
                raise ParameterError(
                    f"{name}={getattr(reading, name)!r} is not supported by this data format; use --format if the file "
                    "has another one"
                )
        self.reading, self._files = reading, files
        for one in files:
            refuse_unread(os.fspath(one) if isinstance(one, (str, os.PathLike)) else None)
        self._text = self._before = 0
        self._open: list[File] = []
        self._current: File | None = None
        self.warnings: list[str] = []
        sizes = [size_of(one) for one in files]
        self.total = None if None in sizes else sum(size for size in sizes if size is not None)
        self.first = self._next(0)

    # A format defines these ------------------------------------------------------------------------------------------

    def open_file(self, one: OneSource, max_bytes: int | None) -> Any:
        """Return a file, opened as a `File`."""
        raise NotImplementedError

    def parse(self, load: Callable[[Any], Any]) -> Block:
        """Parse a chunk of `File.loads` to a block. Called from several threads."""
        raise NotImplementedError

    def features(self, totals: Any) -> tuple[int, tuple[str, ...]]:
        """Return the number of the first feature and all names, from `assemble.Totals` of all blocks."""
        raise NotImplementedError

    @property
    def has_qid(self) -> bool:
        """Whether rows have query ids; otherwise side files of group sizes define the queries."""
        raise NotImplementedError

    base: int | None = 0
    """Number of the first feature; None if the files decide."""

    def in_order(self, block: Block) -> None:
        """Complete a block with state that depends on earlier blocks (category codes)."""

    def numbered_names(self, base: int = 1) -> Mapping[int, str]:
        """Return number -> name of the features, from the options or the files; {} without names."""
        return {}

    def place_of(self, base: int) -> Int64Array | None:
        """Return the column of each feature of the training data, int64[d]; None to match by position."""
        space, names = self.reading.space, self.numbered_names(base)
        if space is None or not names or all(map(NUMBERED.fullmatch, space.feature_names)):
            return None
        numbers = {name: number for number, name in names.items() if name not in space.ignored}
        missing = [name for name in space.feature_names if name not in numbers]
        if missing or len(numbers) > space.n_features:
            more = [name for name in numbers if name not in set(space.feature_names)]
            raise FileFormatError(misfit(missing, more), file=self.first.name)
        return np.array([numbers[name] for name in space.feature_names], np.int64) - base

    def how(self, base: int) -> tuple[int | None, dict[str, Any]]:
        """Return the index base, and the reader options to record with a model."""
        return base, {}

    def categories(self) -> dict[str, Categories]:
        """Return the categories of each categorical feature, after the last block."""
        return {}

    def space(self) -> FeatureSpace | None:
        """Return the features found so far, which later files must match; None if the format does not define them."""
        return None

    def say(self, whose: str) -> None:
        """Warn about categories that were treated as missing."""

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Bytes read so far (before decompression)."""
        return self._before + (self._current.done if self._current else 0)

    def _next(self, i: int) -> File:
        max_bytes = self.reading.max_bytes
        file: File = self.open_file(self._files[i], None if max_bytes is None else max_bytes - self._text)
        self._open.append(file)
        self._current = file
        return file

    def loads(self, chunk_bytes: int, threads: int) -> Iterator[tuple[File, Callable[[Any], Any] | None]]:
        """Yield (file, chunk) in order, None as the chunk of an empty file. Files stay open until `leave`."""
        for i in range(len(self._files)):
            file = self._next(i) if i else self.first
            size = min(chunk_bytes, MAX_LINE)
            if file.total is not None:  # several chunks per thread, since the last one keeps the others waiting
                size = min(size, max(file.total // (4 * threads), _SMALLEST_CHUNK))
            if file.is_packed or file.total is None:
                size = min(size, _STREAM_CHUNK)
            any_load, chunks = False, file.loads(size)
            # A thread that waits for a silent pipe could not be ended.
            for load in _ahead(chunks) if file.is_packed and file.path is not None else chunks:
                any_load = True
                yield file, load
            if not any_load:
                yield file, None
            self._text += file.text_bytes
            self._current, self._before = None, self._before + file.done

    def blocks(
        self, chunk_bytes: int, threads: int, then: Callable[[Block], Any] | None = None
    ) -> Iterator[tuple[File, Block]]:
        """Yield (file, block) in order. Every file yields at least one block, possibly empty.

        `then` is called with each block by its parsing thread, and its result stored in `Block.result`. At most two
        blocks more than threads are in progress.
        """

        def parsed(load: Callable[[Any], Any] | None) -> Block:
            block = Block(np.zeros(0)) if load is None else self.parse(load)
            if then is not None and block.n_rows:
                block.result = then(block)
            return block

        file, lines = self.first, self.header_lines
        for current, result in _submitted(self.loads(chunk_bytes, threads), parsed, threads):
            if current is not file:
                self.leave(file)
                file, lines = current, self.header_lines
            try:
                block = result()
            except LineTooLong as error:
                raise error.within(file.name, lines) from None
            lines += int(block.counts[LINES])
            self.in_order(block)
            yield file, block
        self.leave(file)

    def leave(self, file: File) -> None:
        """Close a file after all its chunks were read."""
        if file.changed:
            words = "the file changed while it was read; read it again when it is complete"
            raise FileFormatError(words, file=file.name)
        file.close()
        self._open.remove(file)

    def close(self) -> None:
        """Close open files."""
        for file in self._open:
            file.close()


def _submitted(
    loads: Iterator[tuple[File, Any]], parse: Callable[[Any], Block], threads: int
) -> Iterator[tuple[File, Callable[[], Block]]]:
    if threads <= 1:
        for file, load in loads:
            yield file, partial(parse, load)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="boostrank-read")
    waiting: deque[tuple[File, Callable[[], Block]]] = deque()
    try:
        for file, load in loads:
            waiting.append((file, pool.submit(parse, load).result))
            if len(waiting) > threads + 1:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(cancel_futures=True)
        loads.close()  # type: ignore[attr-defined]


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items, none of them None, produced a few ahead by another thread."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="boostrank-read-ahead")
    waiting = deque(pool.submit(next, items, None) for _ in range(_AHEAD))
    try:
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)


def expand(source: AnySource) -> list[OneSource]:
    """Return the files of a source: the files of a folder, or the matches of a pattern with `*`, `?` or `[...]`."""
    found = _matching_all(source)
    if not found:
        raise ParameterError("no file given")
    seen = set()
    for path in (one for one in found if isinstance(one, str)):
        real = path if path == "-" else os.path.realpath(path)
        if real in seen:
            raise ParameterError(f"{'standard input' if path == '-' else path} is given twice in one data set")
        seen.add(real)
    return found


def _matching_all(source: AnySource) -> list[OneSource]:
    found: list[OneSource] = []
    for one in source if isinstance(source, Sequence) and not isinstance(source, str) else [source]:
        found += matching(os.fspath(one)) if isinstance(one, (str, os.PathLike)) else [one]
    return found


def matching(path: str) -> list[str]:
    """Return the path itself, or the sorted files of a folder or pattern, without side files."""
    is_folder = os.path.isdir(path)
    if path == "-" or not (is_folder or (glob.has_magic(path) and not os.path.exists(path))):
        return [path]
    # Spark, Hive and Delta write marker and log files next to the parts, named _NAME or .NAME.
    pattern = os.path.join(glob.escape(path), "[!_.]*") if is_folder else path
    found = set(glob.glob(pattern, recursive=True))
    beside = {one + suffix for one in found for suffix in (*GROUP_SUFFIXES, WEIGHT_SUFFIX, *UNREAD_SUFFIXES)}
    files = sorted(found - beside)
    if not files:
        raise FileFormatError("no file matches" if not is_folder else "a folder without files", file=path)
    if is_folder and os.path.isdir(os.path.join(path, "_delta_log")):  # whose old parts stay in the folder
        raise FileFormatError("a Delta table, some of whose files may be out of date: write it as Parquet", file=path)
    sets = {name for one in files if (name := os.path.basename(one).partition(".")[0].lower()) in _SETS}
    if is_folder and len(sets) > 1:
        words = f"a folder with {' and '.join(sorted(sets))}, which are not one data set: name the file"
        raise FileFormatError(words, file=path)
    inner = next(filter(os.path.isdir, files), None) if is_folder else None
    if inner is not None:
        words = f"a folder of folders, such as {inner}; name the files: {os.path.join(path, '*', '*')!r}"
        raise FileFormatError(words, file=path)
    return files


def size_of(source: OneSource) -> int | None:
    """Return the size of a regular file in bytes; None otherwise."""
    if not isinstance(source, (str, os.PathLike)) or source == "-":
        return None
    try:
        info = os.stat(source)
    except OSError as error:
        raise FileFormatError(str(error.strerror), file=os.fspath(source)) from None
    return info.st_size if stat.S_ISREG(info.st_mode) else None


# Formats --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A format of ranking data.

    Args:
        name: name on the command line.
        source: class that reads files of the format as blocks.
        endings: file extensions, before that of a compression.
        aliases: other names on the command line.
        begins: first bytes of the files.
        is_table: whether columns have names, and files have labels.
        looks_so: function that recognises the beginning of a text.
    """

    name: str
    source: type[Source]
    endings: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    begins: tuple[bytes, ...] = ()
    is_table: bool = False
    looks_so: Callable[[bytes], bool] = lambda head: False


FORMATS: Registry[Format] = Registry("boostrank.data.formats", "format of data")


def format_of(source: Any, format: str = "auto") -> Format:
    """Return the format of a path, folder, pattern or file object, or of several, by extension, or else by content."""
    if format != "auto":
        return FORMATS.get(format)
    found = {}
    for one in _matching_all(source):
        spec = format_by_name(os.fspath(one) if isinstance(one, (str, os.PathLike)) else "") or _by_content(one)
        found[spec.name] = spec
    if len(found) > 1:
        raise ParameterError(f"files of several formats ({', '.join(sorted(found))}); pass --format")
    return next(iter(found.values()), FORMATS.get("libsvm"))


def format_by_name(path: str) -> Format | None:
    """Return the format of a file by its extension, before that of a compression; None if it has none."""
    for packed in _PACKED:
        path = path.removesuffix(packed)
    return next((spec for spec in FORMATS if path.lower().endswith(spec.endings or ("\0",))), None)


def _by_content(one: Any) -> Format:
    """Return the format of a file by content; libsvm if unrecognised, or if it can be read only once."""
    if isinstance(one, (str, os.PathLike)) and os.path.isfile(one):
        with suppress(OSError), open(one, "rb") as file:
            head = file.read(8)
            for spec in FORMATS:
                if spec.begins and head.startswith(spec.begins):
                    return spec
        head = FORMATS.get("libsvm").source.head_of(one)  # type: ignore[attr-defined]
        return next((spec for spec in FORMATS if spec.looks_so(head)), FORMATS.get("libsvm"))
    return FORMATS.get("libsvm")


def open_files(source: AnySource, format: str = "auto", **options: Any) -> tuple[Format, Source]:
    """Open files; return their format and source."""
    spec = format_of(source, format)
    return spec, spec.source(expand(source), reading_of(spec, **options))


def reading_of(spec: Format, **options: Any) -> Reading:
    """Check the names of options, and return them."""
    names = [field.name for field in fields(Reading)]
    unknown = next((name for name in options if name not in names), None)
    if unknown is not None:
        hint = did_you_mean(unknown, names, list_all=False)
        raise ParameterError(f"{spec.name} files do not support {unknown}.{hint}")
    return Reading(**options)
