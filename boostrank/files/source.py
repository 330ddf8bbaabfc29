"""Files of one format, which are read as blocks of rows in order, and the registry of formats.

Training, prediction, the doctor and the memory estimate all read the blocks of a `Source`. A format
is a module in `boostrank.files.formats` with a `SPEC`.
"""

from __future__ import annotations

import glob
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, BinaryIO

import numpy as np

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.files import path_of, sidecar_paths
from boostrank.core.params import Registry
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.categories import Categories, Coding
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import NUMBERED, FeatureSpace, misfit, space_of
from boostrank.data.roles import DEFAULTS
from boostrank.files.blocks import LINES, Block, Fault
from boostrank.files.names import numbered_names
from boostrank.files.side_files import GROUP_SUFFIXES, UNREAD_SUFFIXES, WEIGHT_SUFFIX, refuse_unread
from boostrank.options import ReadOptions, as_list
from boostrank.records import jsonable

OneSource = str | os.PathLike[str] | BinaryIO
AnySource = OneSource | Sequence[OneSource]
Progress = Callable[[int, int | None], None] | None
"""Function that is called with the number of bytes read and the total number, which is None if it
is unknown."""

MAX_LINE = 64 << 20
_SMALLEST_CHUNK = 1 << 20  # smaller chunks cost more overhead than their balance saves
_SETS = {"train", "training", "vali", "valid", "val", "validation", "dev", "test", "testing"}
_IN_PROVENANCE = ("missing_tokens", "inf", "repeated", "label_map", "on_bad_line", "regroup")


class Reading(ReadOptions):
    """The checked options for reading one data set. If feature names are in a file, it is read.

    Args:
        like: training data or their features.
        labelled: whether tables must have labels. If not, missing labels are read as 0.
        rows_alone: whether to read only features, for prediction.
        lenient: whether to skip unreadable rows and to read text features as categories, for the
            doctor.
        pick: names of numeric columns and of text columns; other columns are not read.
        whole: whether to parse only query ids and to keep the text of the rows, for the file tools.
        takes_categories: whether the program that will serve the model supports categories. If not,
            messages suggest dropping text columns.
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
        """The features of the training data; None if there are no training data."""
        return space_of(self.like)

    @cached_property
    def training_qids(self) -> frozenset[str]:
        """The query ids of the training data as text; empty if group sizes define the queries."""
        data = self.like
        if isinstance(data, RankingDataset) and data.provenance.options.get("queries") == "qid":
            return frozenset(map(str, data.queries.qid.tolist()))
        return frozenset()

    @property
    def trained_categories(self) -> Mapping[str, Categories] | None:
        """The categories of the training data; None if there are no training data."""
        return None if self.space is None else self.space.categories

    @property
    def keeps_names(self) -> bool:
        """Whether to keep document names."""
        return self.id is not None if self.keep_names is None else self.keep_names

    @property
    def skip(self) -> bool:
        """Whether to skip unreadable rows."""
        return self.on_bad_line == "skip"

    @property
    def roles(self) -> dict[str, Any]:
        """Options `label`, `qid`, `weight`, `id` and `drop`, which default to those of the training
        data."""
        roles = {} if self.space is None else dict(self.space.columns)
        for role in (*DEFAULTS, "drop"):
            if (value := getattr(self, role)) is not None:
                roles[role] = value
        return roles

    def relabelled(self, labels: Float64Array) -> Float64Array:
        """Return labels after applying the label map."""
        out = labels.copy()
        for label, new_label in (self.label_map or {}).items():  # type: ignore[union-attr]
            out[labels == label] = new_label
        return out

    def for_provenance(self) -> dict[str, Any]:
        """Return the options that affect values, as JSON data."""
        options = self.changed
        if "label_map" in options:
            options["label_map"] = {
                f"{label:.15g}": new_label for label, new_label in options["label_map"].items()
            }
        return {name: jsonable(options[name]) for name in _IN_PROVENANCE if name in options}


class File:
    """An open file whose chunks are loaded in order.

    Args:
        path: path of a regular file; None for a pipe or a file object.
        descriptor: descriptor of the file, if it was opened by one.
    """

    done = text_bytes = 0  # bytes read so far before decompression, and bytes of text or columns
    is_packed = False  # whether the file is compressed
    rows: int | None = None  # None if unknown
    columns: Any = None  # `Columns` of a table
    header: Any = None  # header of a table, a line or a schema
    _descriptor: Any

    def __init__(self, name: str, path: str | None, descriptor: int | None = None) -> None:
        self.name, self.path, self._descriptor = name, path, descriptor
        self._opened_state = self._state()
        self.total = self._opened_state and self._opened_state[0]  # bytes to read, if known

    def _state(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        file = self.path if self._descriptor is None else self._descriptor
        try:
            status = os.stat(file)
        except FileNotFoundError:
            return None
        return status.st_size, status.st_mtime_ns

    def check_unchanged(self) -> None:
        """Refuse a file whose size or time changed since it was opened."""
        if self._state() != self._opened_state:
            raise FileFormatError(
                "the file changed while it was read; try again when the file is complete",
                file=self.name,
            )

    def chunks(self, chunk_bytes: int) -> Iterator[Any]:
        """Yield the chunks in order, or a `Fault` at the end for a line that is no chunk."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


Task = tuple[File, Callable[[], Block | Fault]]
Then = Callable[[Block], Any] | None


class Source:
    """A data set in one or more files of one format, which are opened one after another.

    Attributes:
        unused: names of options that the format does not support.
        by_row: whether messages count rows, because the files have no lines.
        header_lines: number of lines before the first row of each file.
        chunk_bytes: default number of bytes that a thread parses at a time.
        base: number of the first feature; None if it depends on the files.
        has_qid: whether rows have query ids. If not, side files with group sizes define the
            queries.
        has_columns: whether a header defines the features and their order, so that later files must
            have them. Empty cells are then missing values, which need no warning.
    """

    unused: tuple[str, ...] = ()
    by_row = False
    header_lines = 0
    chunk_bytes = 4 << 20
    base: int | None = 0
    has_columns = False
    has_qid: bool

    def __init__(self, files: Sequence[OneSource], reading: Reading) -> None:
        for name, setting in reading.changed.items():
            if name in self.unused:
                raise ParameterError(
                    f"{name}={setting!r} is not supported by this data format; use --format if the"
                    " file has another format"
                )
        self.reading, self._files = reading, files
        for source in files:
            refuse_unread(path_of(source))
        self.codings: dict[int, Coding] = {}  # by position of the categorical feature
        self._closed_bytes = 0  # of the closed files
        self._open: list[File] = []
        self.warnings: list[str] = []
        sizes = list(map(size_of, files))
        self.total = None if None in sizes else sum(filter(None, sizes))
        try:
            self.first = self._next(0)
        except BaseException:
            self.close()
            raise

    # A format defines these -----------------------------------------------------------------------

    def open_file(self, source: OneSource) -> Any:
        """Open a file as a `File`."""
        raise NotImplementedError

    def begin(self, file: Any) -> None:
        """Read the beginning of an opened file, such as a header."""

    def parse(self, file: Any, chunk: Any) -> Block:
        """Parse a chunk. Several threads call this method."""
        raise NotImplementedError

    def schema(self, totals: Any) -> FeatureSpace:
        """Return the features with all their names and categories, given the `assemble.Totals` of
        all blocks."""
        raise NotImplementedError

    def in_order(self, block: Block) -> None:
        """Complete a block with values that depend on earlier blocks, such as the codes of
        categories."""

    def numbered_names(self, base: int = 1) -> Mapping[int, str]:
        """Return a mapping from feature numbers to names, as set by options or files, or {} if
        there are none."""
        return {}

    # ----------------------------------------------------------------------------------------------

    def place_of(self, base: int) -> Int64Array | None:
        """Return the column of each feature in the training data, int64[d], or None to match
        features by position."""
        space, names = self.reading.space, self.numbered_names(base)
        if self.has_columns or space is None or not names:
            return None
        trained = space.feature_names
        if all(map(NUMBERED.fullmatch, trained)):
            return None
        numbers = {name: number for number, name in names.items() if name not in space.ignored}
        missing_names = [name for name in trained if name not in numbers]
        extra_names = sorted(numbers.keys() - trained, key=numbers.__getitem__)
        if missing_names or extra_names:
            raise FileFormatError(misfit(missing_names, extra_names), file=self.first.name)
        return np.array([numbers[name] for name in trained], np.int64) - base

    def warn_of_categories(self, whose: str) -> None:
        """Warn about categories that were read as missing values because the data `whose` lack
        them."""
        for coding in self.codings.values():
            coding.warn(whose)

    @property
    def done(self) -> int:
        """Number of bytes read so far, before decompression."""
        return self._closed_bytes + sum(file.done for file in self._open)

    def _next(self, i: int) -> File:
        file: File = self.open_file(self._files[i])
        self._open.append(file)
        self.begin(file)
        return file

    def _tasks(self, chunk_bytes: int, threads: int, then: Then) -> Iterator[Task]:
        """Yield each file with a function that returns an empty block, and then with functions that
        parse its chunks. `leave` closes the file."""
        for i in range(len(self._files)):
            file = self._next(i) if i else self.first
            # Several chunks per thread, because other threads wait for the last chunk.
            share = file.total // (4 * threads) if file.total is not None else chunk_bytes
            size = max(1, min(chunk_bytes, MAX_LINE, max(share, _SMALLEST_CHUNK)))
            yield file, partial(Block, np.zeros(0))
            for chunk in file.chunks(size):
                yield file, partial(self._run, file, chunk, then)

    def _run(self, file: File, chunk: Any, then: Then) -> Block | Fault:
        if isinstance(chunk, Fault):
            return chunk
        block = self.parse(file, chunk)
        if then is not None and block.n_rows:
            block.result = then(block)
        return block

    def blocks(
        self, chunk_bytes: int, threads: int, then: Then = None
    ) -> Iterator[tuple[File, Block]]:
        """Yield each file and block in order. The first block of each file is empty.

        The thread that parses a block calls `then` on it and stores the result in `Block.result`.
        The number of unfinished blocks is at most the number of threads plus 2.
        """
        file, lines_before = self.first, self.header_lines
        for current, parse_chunk in _submitted(self._tasks(chunk_bytes, threads, then), threads):
            if current is not file:
                self.leave(file)
                file, lines_before = current, self.header_lines
            block = parse_chunk()
            if isinstance(block, Fault):
                raise block.error(file.name, lines_before)
            lines_before += int(block.counts[LINES])
            self.in_order(block)
            yield file, block
        self.leave(file)

    def leave(self, file: File) -> None:
        """Close a file whose chunks have all been read."""
        file.check_unchanged()
        file.close()
        self._open.remove(file)
        self._closed_bytes += file.done

    def close(self) -> None:
        """Close all open files."""
        for file in self._open:
            file.close()


def _submitted(tasks: Iterator[Task], threads: int) -> Iterator[Task]:
    if threads <= 1:
        yield from tasks
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="boostrank-read")
    waiting: deque[Task] = deque()
    try:
        for file, task in tasks:
            waiting.append((file, pool.submit(task).result))
            if len(waiting) > threads + 1:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(cancel_futures=True)
        tasks.close()  # type: ignore[attr-defined]


def expand(source: AnySource) -> list[OneSource]:
    """Return a list of files in which folders and patterns (`*`, `?`, `[...]`) are replaced by
    their files."""
    sources: list[OneSource] = []
    for element in as_list(source):
        path = path_of(element)
        sources += [element] if path is None else matching(path)
    if not sources:
        raise ParameterError("no file is given; pass at least one")
    real_paths = set()
    for path in filter(None, map(path_of, sources)):
        real = os.path.realpath(path)
        if real in real_paths:
            raise ParameterError(f"{path} is given twice in one data set")
        real_paths.add(real)
    return sources


def matching(path: str) -> list[str]:
    """Return [path], or the sorted files in a folder or pattern, except side files."""
    is_folder = os.path.isdir(path)
    if path == "-" or not (is_folder or (glob.has_magic(path) and not os.path.exists(path))):
        return [path]
    # Spark, Hive and Delta write marker and log files next to the parts, named _NAME or .NAME.
    pattern = os.path.join(glob.escape(path), "[!_.]*") if is_folder else path
    paths = set(glob.glob(pattern, recursive=True))
    suffixes = *GROUP_SUFFIXES, WEIGHT_SUFFIX, *UNREAD_SUFFIXES
    side_files = {side_file for file in paths for side_file in sidecar_paths(file, suffixes)}
    files = sorted(paths - side_files)
    stems = (os.path.basename(file).partition(".")[0].lower() for file in files)
    set_names = _SETS.intersection(stems)
    folders, reason = list(filter(os.path.isdir, files)), ""
    if not files:
        reason = "the folder has no files" if is_folder else "no file matches"
    elif is_folder and os.path.isdir(os.path.join(path, "_delta_log")):
        reason = "the folder is a Delta table, which may contain outdated files; write Parquet"
    elif is_folder and len(set_names) > 1:
        reason = (
            f"the folder contains {' and '.join(sorted(set_names))}, which are not one data set;"
            " pass one of the files"
        )
    elif is_folder and folders:
        pattern = os.path.join(path, "*", "*")
        reason = f"the folder contains folders, such as {folders[0]}; pass a pattern: {pattern!r}"
    if reason:
        raise FileFormatError(reason, file=path)
    return files


def size_of(source: OneSource) -> int | None:
    """Return the size of a regular file in bytes, or None for other files."""
    path = path_of(source)
    if path is None or path == "-":
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        raise FileFormatError(str(error.strerror), file=path) from None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


# Formats ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """The declaration of a ranking data format.

    Args:
        name: value of `--format`.
        source: class that reads the files.
        endings: file extensions, without those of compressed files.
        aliases: other values of `--format`.
        begins: possible first bytes of the files.
        is_table: whether the files have named columns.
        looks_so: function that returns True for the first bytes of text in this format.
    """

    name: str
    source: type[Source]
    endings: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    begins: tuple[bytes, ...] = ()
    is_table: bool = False
    looks_so: Callable[[bytes], bool] = lambda head: False


FORMATS: Registry[Format] = Registry("boostrank.files.formats", "format of data")


def format_of(source: Any, format: str = "auto") -> Format:
    """Return the format of files, folders, patterns or file objects from the file extension or else
    the content."""
    if format != "auto":
        return FORMATS.get(format)
    files = expand(source)
    specs = [format_by_name(path_of(file) or "") or _by_content(file) for file in files]
    names = sorted({spec.name for spec in specs})
    if len(names) > 1:
        raise ParameterError(f"the files have several formats ({', '.join(names)}); pass --format")
    return specs[0]


def format_by_name(path: str) -> Format | None:
    """Return the format for a file extension, or None if it is unknown. The extension of a
    compression is ignored."""
    name = path.removesuffix(".gz").lower()
    return next((spec for spec in FORMATS if name.endswith(spec.endings)), None)


def format_by_magic(head: bytes) -> Format | None:
    """Return the format of a binary file from its first bytes, or None for other files."""
    return next((spec for spec in FORMATS if head.startswith(spec.begins)), None)


def _by_content(source: Any) -> Format:
    """Return the format of a regular file from its content. The default is libsvm, also for
    pipes."""
    libsvm = FORMATS.get("libsvm")
    if not os.path.isfile(path_of(source) or ""):
        return libsvm
    head = libsvm.source.head_of(source)  # type: ignore[attr-defined]
    by_text = next((spec for spec in FORMATS if spec.looks_so(head)), libsvm)
    return format_by_magic(head) or by_text


def open_files(source: AnySource, format: str = "auto", **options: Any) -> tuple[Format, Source]:
    """Open files and return their format and source."""
    spec = format_of(source, format)
    return spec, spec.source(expand(source), Reading(**options))
