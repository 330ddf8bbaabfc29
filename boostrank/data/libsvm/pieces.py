"""Rows of libsvm text a few megabytes at a time, in the order of the text, for what looks at each row by itself.

Nothing is kept of a piece that has been handed on: memory does not grow with the text. Queries are not looked at, so
that their rows may be scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from boostrank.core.errors import DataWarning, FileFormatError, warn_user
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Int64Array
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.assemble import RowFiles
from boostrank.data.libsvm.blocks import Block, Parser, Scratch, dense_matrix, sparse_matrix, zeroed
from boostrank.data.libsvm.fill import fill_columns
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.libsvm.reader import parser_of
from boostrank.data.libsvm.reasons import BadRow
from boostrank.data.libsvm.sources import AnySource, Opened, expand, parsed
from boostrank.data.names import names_in_head, same_names
from boostrank.data.options import FeatureSpace, Progress, takes_reader_options

Work = Callable[[Any], Any]

_CHUNK_BYTES = 4 << 20
_DENSE_BYTES = 1 << 18  # of rows that are handed on at a time: they stay in the cache of a core


@takes_reader_options
def libsvm_pieces(
    source: AnySource, work: Work, *, like: FeatureSpace, columns: Int64Array | None = None, threads: int | None = None,
    progress: Progress = None, chunk_bytes: int = _CHUNK_BYTES, **options: Any,
) -> Iterator[Any]:  # fmt: skip
    """What `work` makes of the rows of libsvm text, some at a time, in their order.

    A row with a feature number that `like` has not is refused, or skipped with `on_bad_line="skip"`.

    Args:
        source, chunk_bytes: as for `read_libsvm`.
        work: takes rows, at least one, of float32 features.
        columns: int64[c], ascending, from 0: the only columns that `work` wants, as float32[n, c] in C order; it is
            called from several threads then. None: all, dense or CSR, and it is called from this one.
        {options}

    Raises:
        FileFormatError, ParameterError: as `read_libsvm`, what is found at the end of the text there.
    """
    checked, workers = LibsvmOptions(like=like, **options), resolve_threads(threads)
    files, current = _PieceFiles(checked), None
    with closing(Opened(expand(source), checked.max_bytes)) as opened:
        parser = parser_of(checked, opened.first, _PieceParser)
        parser.options[parse.MAX_ID] = files.last
        names: Any = checked.feature_names or names_in_head(opened.first.head, opened.first.name)
        if isinstance(names, tuple):
            names = {files.base + i: name for i, name in enumerate(names)}
        by_name = checked.by_name(names, opened.first.name)
        numbers = np.arange(files.base, files.last + 1) if by_name is None else by_name
        if columns is not None:
            parser.column = np.full(files.last + 1, -1, np.int32)
            parser.column[numbers[columns]], parser.width = np.arange(columns.size), columns.size
            parser.work = work
        for file, block in parsed(opened, parser, chunk_bytes, workers):
            if file is not current:
                files.enter(file.name, file.path)
                same_names(names_in_head(opened.first.head, opened.first.name), names_in_head(file.head, file.name),
                           file.name)  # fmt: skip
                current = file
            files.add(block)
            if progress is not None:
                progress(opened.done, opened.total)
            if columns is not None:
                yield from block.result
            elif block.n_rows:
                if block.dense is not None:
                    rows: Any = dense_matrix([block], files.base, like.n_features, 1)
                else:
                    rows = sparse_matrix([block], files.base, like.n_features)
                yield work(rows if by_name is None else rows[:, by_name - files.base])
    files.finish()
    for words in files.warnings:
        warn_user(words, DataWarning)


class _PieceFiles(RowFiles):
    """The files of the rows.

    Attributes:
        base, last: number of the first feature, and of the last one.
    """

    def __init__(self, options: LibsvmOptions) -> None:
        super().__init__(options)
        assert options.space is not None
        assert options.base is not None
        self.base, self.last = options.base, options.base + options.space.n_features - 1
        self.missing = np.zeros(options.space.n_features, np.int64)

    def add(self, block: Block) -> None:
        """The next block.

        Raises:
            FileFormatError: it holds a refused row and rows are not skipped.
        """
        self._count(block)
        self._add_lines(block)
        if block.missing is not None:
            self.missing += block.missing[self.base :]

    def finish(self) -> None:
        """Look back at the whole.

        Raises:
            FileFormatError: no rows, or too many refused ones.
        """
        self._check_rows()
        self._describe(self.base, lambda: self.missing)
        top = self.top.top_id
        if top < self.last and self.counts[parse.CELLS] == self.n_rows * (top + 1 - self.base):
            words = (
                f"every row has the features {self.base} to {top} and no other, but the model goes up to {self.last}: "
                "the others are taken as 0. If this data never had them, it is not what the model was trained on"
            )
            self._warn_or_refuse(words)

    def _why_refused(self, row: BadRow) -> FileFormatError:
        error = super()._why_refused(row)
        if row.code != parse.LARGE_ID:
            return error
        words = f"feature {row.feature}, but the model has the features {self.base} to {self.last}"
        if row.feature == self.last + 1 and self.base == 0:
            words += ": does the file count from 1? It must count from 0, as the model's own files do"
        else:
            words += ": is this data what it was trained on?"
        return FileFormatError(words, file=error.file, line=error.line, column=error.column)


class _PieceParser(Parser):
    """A parser whose threads hand rows on.

    Attributes:
        work, column, width: what takes them; the place of each feature number among the columns it wants, or -1; how
            many those are. None: rows are kept.
    """

    work: Work | None = None
    column: parse.Int32Array
    width: int

    def _keep_cells(self, block: Block, scratch: Scratch) -> None:
        if block.counts[parse.MISSING]:
            cells = int(block.counts[parse.CELLS])
            ids = scratch.ids[:cells][np.isnan(scratch.values[:cells])]
            block.missing = np.bincount(ids, minlength=int(self.options[parse.MAX_ID]) + 1)
        if self.work is None:
            super()._keep_cells(block, scratch)
            return
        block.result, step = [], max(64, _DENSE_BYTES // (4 * max(1, self.width)))
        for first in range(0, block.n_rows, step):
            rows = zeroed((min(step, block.n_rows - first), self.width), np.float32)
            fill_columns(scratch.row_ends, first, first + rows.shape[0], scratch.ids, scratch.values, self.column, rows)
            block.result.append(self.work(rows))
