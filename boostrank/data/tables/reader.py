"""Readers of tables: into memory, onto the disk, or row by row."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from boostrank.core.errors import DataWarning, FileFormatError, warn_user
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.libsvm.assemble import Assembly, RowFiles
from boostrank.data.libsvm.options import quoted
from boostrank.data.libsvm.reader import assembled
from boostrank.data.libsvm.side_files import GROUP_SUFFIXES, find_sidecar
from boostrank.data.libsvm.sources import AnySource, Opened, expand, parsed
from boostrank.data.libsvm.stream import stream_rows
from boostrank.data.options import FeatureSpace, Progress, takes_reader_options
from boostrank.data.store import RowStore
from boostrank.data.tables.categories import Categories, Coding, to_record
from boostrank.data.tables.columnar import ArrowSource, ColumnarSource, ParquetSource, open_columnar
from boostrank.data.tables.columns import Columns, choose_columns
from boostrank.data.tables.options import TableOptions, arrow
from boostrank.data.tables.parser import FLOAT32_WHOLE, TableBlock, TableParser
from boostrank.data.tables.text import open_text

_CHUNK_BYTES = 4 << 20
_DENSE_BYTES = 1 << 18  # of rows that are handed on at a time: they stay in the cache of a core


@dataclass(frozen=True)
class TableFormat:
    """A kind of table, and its readers.

    Args:
        delimiter: between the cells of a text; None: it is no text.
        source: what reads it where it is none.
    """

    delimiter: str | None = None
    source: type[ColumnarSource] | None = None

    @property
    def read(self) -> Callable[..., RankingDataset]:
        """`ReaderSpec.read`."""
        return partial(read_table, self)

    @property
    def stream(self) -> Callable[..., RankingDataset]:
        """`ReaderSpec.stream`."""
        return partial(stream_table, self)

    @property
    def pieces(self) -> Callable[..., Iterator[Any]]:
        """`ReaderSpec.pieces`."""
        return partial(table_pieces, self)

    def options(self, **options: Any) -> TableOptions:
        """Options of the reader, checked."""
        return TableOptions(by_row=self.delimiter is None, **options)

    def open(
        self, options: TableOptions, *, rows_alone: bool = False, labelled: bool = True, threads: int = 1
    ) -> Callable[..., Any]:
        """What opens one file: `open_one` of `Opened`."""
        columns: list[Columns] = []

        def choose(header: Sequence[str], name: str, path: str | None, declared: Collection[str] = ()) -> Columns:
            like = options if not columns else _like_first(options, columns[0])
            has_sizes = find_sidecar(path, GROUP_SUFFIXES) is not None
            found = choose_columns(
                header, like, name, rows_alone=rows_alone, labelled=labelled, has_sizes=has_sizes, declared=declared
            )
            columns.append(found)
            return found

        arrow()  # or it is said what is missing
        if self.delimiter is not None:
            return partial(open_text, delimiter=self.delimiter, choose=choose)
        assert self.source is not None
        return partial(open_columnar, kind=self.source, choose=choose, rows_alone=rows_alone, threads=threads)


CSV, TSV = TableFormat(","), TableFormat("\t")
PARQUET, ARROW = TableFormat(source=ParquetSource), TableFormat(source=ArrowSource)


def _like_first(options: TableOptions, first: Columns) -> TableOptions:
    """Options for a file behind the first: its features are those of the first, by name."""
    if options.space is not None:
        return options
    given = {name: getattr(options, name) for name in options.changed}
    codes = {first.names[first.places.index(place)]: Categories(()) for place in first.coded}
    space = FeatureSpace(None, len(first.names), first.names, first.how, codes)
    return TableOptions(**given, like=space, by_row=options.by_row)


class TableAssembly(Assembly):
    """Takes the blocks of tables."""

    def __init__(self, options: TableOptions, store: RowStore | None = None) -> None:
        super().__init__(options, store)
        self.columns: Columns | None = None
        self._weights_of_rows: list[Float64Array] = []
        self._others_of_rows: dict[str, list[Float64Array]] = {}
        self._counted: list[tuple[Int64Array, Int64Array]] = []
        self._coarse: dict[str, None] = {}
        self.codings: dict[int, Coding] = {}
        self._known, self._ordered = options.known, dict[str, int]()

    def _enter_source(self, source: Any) -> None:
        self._ordered = getattr(source, "ordered", {})
        if self.columns is None:
            self.columns = source.columns
        elif self.columns.names != source.columns.names or (self.columns.qid is None) != (source.columns.qid is None):
            raise FileFormatError("has other columns than the file before", file=source.name)

    def add(self, block: Any) -> None:
        """The next block."""
        assert isinstance(block, TableBlock)
        if block.weights is not None and block.n_rows:
            self._weights_of_rows.append(block.weights)
        if block.n_rows:
            breaks = np.flatnonzero(np.diff(block.lines, prepend=block.lines[0] - 2) != 1)
            self._counted.append((self.n_rows + breaks, self.n_lines + block.lines[breaks]))
            for name, column in block.others.items():
                self._others_of_rows.setdefault(name, []).append(column)
        self._coarse |= dict.fromkeys(block.coarse)
        if block.values:
            assert self.columns is not None
            for j, values in block.values.items():
                if j not in self.codings:
                    self.codings[j] = self._coding(self.columns.names[j], values)
            block.code(self.codings)
        super().add(block)

    def _coding(self, name: str, values: list[Any]) -> Coding:
        """Codes of a column whose first rows have these categories."""
        if self._known is not None:
            return Coding(name, self._known[name])
        ordered = name in self._ordered and name not in (self.options.categorical or ())
        if ordered and len(values) != self._ordered[name]:
            ordered = False
            self._warn_or_refuse(f"column {name!r}: the file does not hold the order of its categories: taken as if "
                                 "they had none")  # fmt: skip
        return Coding(name, ordered=ordered)

    def finish(self, threads: int) -> RankingDataset:
        assert self.columns is not None
        for words in self.columns.warnings:
            self._warn_or_refuse(words)
        if self._coarse:
            self._warn_or_refuse(
                f"{quoted(list(self._coarse))}: whole numbers above {FLOAT32_WHOLE:,.0f} are rounded to float32 (ids "
                "are no features: --drop; of times subtract a start)"
            )
        data = super().finish(threads)
        for coding in self.codings.values():
            coding.warn("the training data")
        return data

    def _others(self) -> dict[str, Float64Array]:
        return {name: np.concatenate(values) for name, values in self._others_of_rows.items()}

    def _counted_from(self) -> tuple[Int64Array, Int64Array, bool]:
        rows, lines = (np.concatenate(every).astype(np.int64) for every in zip(*self._counted, strict=True))
        return rows, lines, True

    def _categories(self) -> dict[str, Categories]:
        assert self.columns is not None
        if self._known is not None:
            return dict(self._known)
        return {self.columns.names[j]: self.codings[j].categories for j in sorted(self.codings)}

    def _columns(self) -> tuple[int, int]:
        assert self.columns is not None
        return 0, len(self.columns.names)

    def _names(self, base: int, columns: int) -> tuple[str, ...]:
        assert self.columns is not None
        return self.columns.names

    def _given_names(self, base: int = 1) -> dict[int, str]:
        return {}

    def _index_base(self, base: int) -> int | None:
        return None

    def _how(self) -> dict[str, Any]:
        assert self.columns is not None
        return super()._how() | self.columns.how

    def _shown(self, column: int, base: int) -> str:
        assert self.columns is not None
        return self.columns.names[column]

    def _weights(self) -> tuple[str | None, Float64Array]:
        name, weights = super()._weights()
        if not self._weights_of_rows:
            return name, weights
        if name is not None:
            raise FileFormatError("holds weights, and so does a column of the table: remove one", file=name)
        return self.name, np.concatenate(self._weights_of_rows)


@takes_reader_options
def read_table(
    kind: TableFormat, source: AnySource, *, labelled: bool = True, threads: int | None = None,
    chunk_bytes: int = 6 << 20, progress: Progress = None, like: RankingDataset | FeatureSpace | None = None,
    store: RowStore | None = None, **options: Any,
) -> RankingDataset:  # fmt: skip
    """Read a table: a row a document, with columns of labels and query ids; all others are features.

    Several files are one data set; their columns are matched by name.

    Args:
        kind: of table.
        source: a path, a pattern, or a sequence of them; of text also "-", a pipe or a binary file object.
        labelled: whether there must be labels; otherwise they are 0 where there are none.
        chunk_bytes: of rows that are handed to a thread at a time. The result does not depend on it.
        store: leaves the features on disk, as `StoredFeatures`.
        {options}

    Returns:
        Features float32, dense; labels float64; query ids int64 when all are canonical integers, else text.

    Raises:
        FileFormatError: what cannot be read, by file, line or row, and column.
        ParameterError: options out of range, in contradiction, or about libsvm text.
        MissingDependency: pyarrow is not installed.
    """
    checked = kind.options(like=like, **options)
    files, workers = expand(source), resolve_threads(threads)
    with closing(Opened(files, checked.max_bytes, kind.open(checked, labelled=labelled, threads=workers))) as opened:
        parser, assembly = TableParser(checked), TableAssembly(checked, store)
        if store is None and len(files) == 1 and opened.first.rows is not None:
            columns: Columns = opened.first.columns  # type: ignore[attr-defined]
            parser.whole = np.empty((opened.first.rows, len(columns.names)), np.float32)
        return assembled(opened, parser, assembly, chunk_bytes, workers, progress)


@takes_reader_options
def stream_table(
    kind: TableFormat, source: AnySource, *, cache: str | os.PathLike[str] | bool = True, external_memory: bool = False,
    labelled: bool = True, like: RankingDataset | FeatureSpace | None = None, threads: int | None = None,
    progress: Progress = None, chunk_bytes: int = _CHUNK_BYTES, **options: Any,
) -> RankingDataset:  # fmt: skip
    """Read a table; its features stay on disk, and what was read is remembered.

    Args:
        kind, source, labelled, chunk_bytes: as for `read_table`.
        cache, external_memory: as for `boostrank.data.libsvm.stream.stream_libsvm`.
        {options}

    Raises:
        FileFormatError, ParameterError: as `read_table`.
        DataError: queries with scattered rows: `regroup` cannot move them on the disk.
        TrainingError: the disk is full.
    """
    options |= {"like": like}
    checked = kind.options(**options)
    changed = checked.changed | {"kind": str(kind), "labelled": labelled, "columns": checked.roles}
    changed["known"] = None if checked.known is None else to_record(checked.known)
    reading = options | {"labelled": labelled, "threads": threads, "progress": progress, "chunk_bytes": chunk_bytes}
    return stream_rows(partial(read_table, kind), source, changed, reading, cache, external_memory)


@takes_reader_options
def table_pieces(
    kind: TableFormat, source: AnySource, work: Callable[[Any], Any], *, like: FeatureSpace,
    columns: Int64Array | None = None, threads: int | None = None, progress: Progress = None,
    chunk_bytes: int = _CHUNK_BYTES, **options: Any,
) -> Iterator[Any]:  # fmt: skip
    """What `work` makes of the rows of a table, some at a time, in their order; labels and queries are not looked at.

    Args:
        kind, source, chunk_bytes: as for `read_table`.
        work: takes rows, at least one, float32[n, c] in C order.
        columns: int64[c], ascending, from 0: the only features that `work` wants; it is called from several threads
            then. None: all, and it is called from this one.
        {options}

    Raises:
        FileFormatError, ParameterError: as `read_table`.
    """
    checked, workers = kind.options(like=like, **options), resolve_threads(threads)
    files, current, width = _PieceFiles(checked), None, like.n_features if columns is None else columns.size
    codings = {j: Coding(name, like.categories[name]) for j, name in enumerate(like.feature_names)
               if name in like.categories}  # fmt: skip
    wanted = np.arange(like.n_features) if columns is None else columns
    opening = kind.open(checked, rows_alone=True, threads=workers)
    with closing(Opened(expand(source), checked.max_bytes, opening)) as opened:
        step = max(64, _DENSE_BYTES // (4 * max(1, width)))
        handed = (lambda rows: rows) if columns is None else work
        parser = TableParser(checked, wanted, handed, step, codings)
        for file, block in parsed(opened, parser, chunk_bytes, workers):  # type: ignore[arg-type]
            if file is not current:
                files.enter(file.name, file.path)
                files.columns = file.columns  # type: ignore[attr-defined]
                current = file
            files.add(block)
            if progress is not None:
                progress(opened.done, opened.total)
            yield from map(work, block.result) if columns is None else block.result
    files.finish()
    for coding in codings.values():
        coding.warn("the model")
    for words in files.warnings:
        warn_user(words, DataWarning)


class _PieceFiles(RowFiles):
    """The files of the rows, and their columns."""

    columns: Columns | None = None
    _wanted: tuple[str, ...] = ()

    def add(self, block: Any) -> None:
        """The next block."""
        self._count(block)
        self._add_lines(block)

    def finish(self) -> None:
        """Look back at the whole."""
        self._check_rows()
        assert self.columns is not None
        for words in self.columns.warnings:
            self._warn_or_refuse(words)
