"""Data set profiles: statistics from one pass over the rows, on which the checks are based."""

from __future__ import annotations

import re
from contextlib import closing
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.conventions import Gain, parse_gain
from boostrank.core.errors import FileFormatError
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import FeatureSpace
from boostrank.diagnosis.in_memory import DatasetSource, source_of
from boostrank.files import blocks as slots
from boostrank.files.assemble import NO_ROWS, Totals
from boostrank.files.blocks import Block
from boostrank.files.side_files import check_sizes, read_weights, some_sizes, weighted
from boostrank.files.source import AnySource, Progress, Reading, Source, expand, format_of
from boostrank.files.tables import TableSource, is_buffer

CHUNK_BYTES = 4 << 20
MOST_FEATURES = 1 << 20  # features examined individually: 32 MiB
MOST_CELLS = 1 << 22  # nonzero values of the first rows, which are kept
_WIDTH = 2**31 - 1

UInt64Array = npt.NDArray[np.uint64]
_QUOTED, _NUMBERS = re.compile(r"'.*?'(?=\W|$)|\".*?\""), re.compile(r"\d[\d.,]*")
_SHIFT, _ODD, _OTHER = np.uint64(32), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_MISSING_BITS = 0x7FC00000


class Profile(Totals):
    """Statistics of one data set, computed in one pass.

    Attributes:
        files, options: arguments with which `read_files` reads the same data.
        broken: errors about files that cannot be read to the end or that contradict their side
            files.
        causes: error for the first refused row, by cause.
        labels, lines, hashes: label, line and feature hash of each row. The hash is 0 if no feature
            is nonzero.
        starts, line, ids: first row, first line and id of each query. Text ids are replaced by a
            hash.
        stored, missing: number of nonzero and of missing values of each feature.
        cells, rows_of_cells: CSR matrix of the first rows in the files, and their positions among
            all rows.
    """

    def __init__(
        self,
        role: str,
        gain: str | tuple[float, ...],
        files: AnySource,
        options: dict[str, Any],
        reading: Reading,
    ) -> None:
        super().__init__(reading)
        self.role = role
        self.gain = gain
        self.files = files
        self.options = options
        self.causes: dict[str, FileFormatError] = {}
        self.text: dict[str, tuple[int, int]] = {}  # values and cells in the first rows
        self.broken: list[FileFormatError] = []
        self.unterminated: list[str] = []
        self.stored = self.missing = np.zeros(0, np.int64)
        self.cells: Any = sparse.csr_matrix((0, _WIDTH), dtype=np.float32)
        self.grouped_by_file = False
        self.feature_names: dict[int, str] = {}

    def read(self, progress: Progress) -> None:
        """Read the files once, and record errors. An error ends the pass if reading cannot
        continue."""
        none = np.zeros(0, np.int64)
        blocks: list[Any] = [(np.zeros(0), none, np.zeros(0, np.uint64), none, none)]
        try:
            source: type[Source] = DatasetSource
            if not isinstance(self.files, RankingDataset):
                source = format_of(self.files, self.options["format"]).source
            with closing(source(expand(self.files), self.reading)) as open_source:
                self._read(open_source, blocks, progress)
        except FileFormatError as error:
            self.broken.append(error)
        # Join the rows of all blocks, and look at them as a whole.
        columns = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        self.labels, self.lines, self.hashes, self.starts, self.ids = columns
        self.rows_of_cells = np.arange(self.cells.shape[0])
        if self.grouped_by_file:
            self._take_sizes()
        if self.reading.regroup:
            self._regroup()
        if self.n_rows == 0 and not self.broken and self.parts and not self.causes:
            self.broken.append(FileFormatError(NO_ROWS, file=self.parts[0].name))
        if not (self.broken or self.counts[slots.BAD_ROWS] or self.reading.regroup):
            self._check_side_files()

    def _read(self, source: Source, blocks: list[Any], progress: Progress) -> None:
        self.source = source
        self.grouped_by_file = not source.has_qid
        self.feature_names = dict(source.numbered_names())
        first_rows = [self.cells]
        free_cells = MOST_CELLS
        for file, block in source.blocks(CHUNK_BYTES, resolve_threads(self.options["threads"])):
            runs, names = self.count(file, block)
            self._note_faults(block)
            if block.n_rows:
                ends, numbers, values = block.cells()
                labels = self.reading.relabelled(block.labels)
                ids = runs[:, slots.RUN_ID].copy()
                self._add_columns(numbers, values)
                for number, text in names.items():
                    ids[number - self.n_queries] = hash(text)  # counts from the end
                of_rows = labels, block.lines + self.n_lines, _hashes(ends, numbers, values)
                blocks.append((*of_rows, runs[:, slots.RUN_ROW], ids))
                rows = np.searchsorted(ends, free_cells, "right")
                n_cells = ends[rows - 1] if rows else 0
                csr = values[:n_cells], numbers[:n_cells], [0, *ends[:rows]]
                first_rows.append(sparse.csr_matrix(csr, (rows, _WIDTH)))
                free_cells = free_cells - n_cells if rows == block.n_rows else -1
            self.advance(block)
            if progress is not None:
                progress(source.done, source.total)
        self.cells = sparse.vstack(first_rows, format="csr")
        if isinstance(source, TableSource):
            self.text = source.text

    def _note_faults(self, block: Block) -> None:
        if block.unterminated:
            self.unterminated.append(self.parts[-1].name)
        n_earlier_faults = self.counts[slots.BAD_ROWS] - block.counts[slots.BAD_ROWS]
        for fault in block.bad[
            : max(0, slots.BAD_KEPT - n_earlier_faults)
        ]:  # independent of how the files are split into chunks
            cause = _NUMBERS.sub(
                "#", _QUOTED.sub("''", fault.reason, count=1)
            )  # without value and numbers
            self.causes.setdefault(cause, self.why_refused(fault))

    def _add_columns(self, ids: Any, values: Any) -> None:
        """Add the values of cells to the statistics of the features."""
        width = max(min(self.top.top_id + 1, MOST_FEATURES), self.stored.size)
        n_new = width - self.stored.size
        self.stored, self.missing = [
            np.pad(counts, (0, n_new)) for counts in (self.stored, self.missing)
        ]
        is_stored = (ids < width) & (values != 0)
        ids, values = ids[is_stored], values[is_stored]
        is_number = values == values
        self.missing += np.bincount(ids[~is_number], minlength=width)
        self.stored += np.bincount(ids[is_number], minlength=width)

    def _take_sizes(self) -> None:
        """Take the queries from the side files with group sizes. Rows beyond the sizes form one
        query."""
        begins = [self.starts]
        for part, rows, _ in self.spans():
            ends = np.cumsum([0, *some_sizes(part.sizes_file)])
            begins.append(part.rows + ends[ends < len(rows)])
        self.starts = np.unique(np.concatenate(begins))
        self.n_queries = self.starts.size
        self.ids = np.arange(self.n_queries)
        for part in self.parts:
            part.queries = int(np.searchsorted(self.starts, part.rows))

    def _regroup(self) -> None:
        """Bring the rows of each query together, as the reader does."""
        _, first, query_of_run = np.unique(self.ids, return_index=True, return_inverse=True)
        first_run_of_row = np.repeat(first[query_of_run], self.sizes)
        order = np.argsort(first_run_of_row, kind="stable")
        self.labels = self.labels[order]
        self.lines = self.lines[order]
        self.hashes = self.hashes[order]
        self.rows_of_cells = np.argsort(order)[self.rows_of_cells]
        # Keep the first run of each query.
        first_runs = np.sort(first)
        self.starts = np.searchsorted(first_run_of_row[order], first_runs)
        self.ids = self.ids[first_runs]
        names = self.names
        self.names = {
            new: names[old] for new, old in enumerate(first_runs.tolist()) if old in names
        }
        self.n_queries = first_runs.size

    def _check_side_files(self) -> None:
        """Record group sizes and weights that contradict the files."""
        for part, _, queries in self.spans():
            sizes = self.sizes[queries]
            try:
                if part.sizes_file is not None:
                    check_sizes(part.sizes_file, sizes, part.name)
                if part.weights_file is not None:
                    weights = read_weights(part.weights_file, int(sizes.sum()))
                    weighted(part.weights_file, weights, QueryIndex.from_sizes(sizes))
            except FileFormatError as error:
                self.broken.append(error)

    # Results for the checks -----------------------------------------------------------------------

    sizes = property(lambda self: np.diff(self.starts, append=self.labels.size))
    line = property(lambda self: self.lines[self.starts])
    query = property(lambda self: np.repeat(np.arange(self.starts.size), self.sizes))

    @property
    def space(self) -> FeatureSpace | None:
        """Columns that later data sets must have; None for libsvm text, and if no file could be
        opened."""
        return (
            self.source.schema(self)
            if self.source is not None and self.source.has_columns
            else None
        )

    @cached_property
    def low(self) -> Float64Array:
        """Smallest label of each query."""
        return np.minimum.reduceat(self.labels, self.starts)

    @cached_property
    def high(self) -> Float64Array:
        """Largest label of each query."""
        return np.maximum.reduceat(self.labels, self.starts)

    @property
    def examined(self) -> Int64Array:
        """Numbers of the features that are examined individually, whether they occur or not."""
        first = self.base if self.n_rows else 0
        return np.arange(first, self.stored.size)

    @property
    def base(self) -> int:
        """Number of the first feature."""
        return int(not self.has_zero) if self.source.base is None else self.source.base

    def feature(self, number: int) -> str:
        """Format a feature's name, as in `feature 3` or `feature 'bm25'`."""
        name = self.feature_names.get(number)
        return f"feature {number if name is None else repr(name)}"

    def where(self, line: float = 0) -> tuple[str, int, int]:
        """Return the file, its line and column 0 for a line counted over all files. Line 0 means
        the whole data set."""
        return (*self.place(int(line)), 0) if self.parts else (self.role, 0, 0)

    def qid(self, query: int) -> str:
        """Return a query id as it is written in the file."""
        name = self.names.get(query)
        return str(self.ids[query]) if name is None else name.decode()


def mixed(h: UInt64Array) -> UInt64Array:
    """Scatter the bits of integers, where 0 stays 0."""
    h = (h ^ (h >> _SHIFT)) * _ODD
    h = (h ^ (h >> _SHIFT)) * _OTHER
    return h ^ (h >> _SHIFT)


def _hashes(ends: Int64Array, ids: Any, values: Any) -> UInt64Array:
    """Return a hash for the nonzero cells of each row."""
    bits = np.where(np.isnan(values), _MISSING_BITS, values.view(np.int32)).astype(np.uint64)
    cells = np.where(
        values != 0, mixed((ids.astype(np.uint64) << _SHIFT) + bits + _ODD), np.uint64(0)
    )
    sums = np.append(np.uint64(0), np.cumsum(cells, dtype=np.uint64))[np.append(0, ends)]
    return mixed(np.diff(sums))


def look_at(
    files: AnySource,
    *,
    role: str = "train",
    like: Profile | None = None,
    gain: Gain = "exponential",
    threads: int | None = None,
    progress: Progress = None,
    format: str = "auto",
    labelled: bool = True,
    **options: Any,
) -> Profile:
    """Profile one data set in one pass. The arguments are those of `boostrank.doctor`.

    Tables must have the columns of the training data, whose profile is `like`, and labels if
    `labelled`.
    """
    files = source_of(files, options.get("qid"))
    format = "arrow" if is_buffer(files) else format
    space = None if like is None else like.space
    reading = Reading(**options, like=space, labelled=labelled, lenient=True)
    profile = Profile(
        role, parse_gain(gain), files, options | {"format": format, "threads": threads}, reading
    )
    profile.read(progress)
    return profile
