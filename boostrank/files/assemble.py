"""Assembly of parsed blocks: `read_files` returns a data set, `pieces_of_files` streams rows
without keeping them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.conventions import LABEL
from boostrank.core.errors import DataError, FileFormatError, warn_user
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import Places, PlacesOf, QueryIndex
from boostrank.core.text import count_of, list_names
from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.data.arrays import Features
from boostrank.data.categories import coarse_words
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.feature_space import FeatureSpace
from boostrank.data.rows import missing_in
from boostrank.files import blocks as slots
from boostrank.files import side_files
from boostrank.files.blocks import Block, dense_matrix, sparse_matrix
from boostrank.files.source import AnySource, File, Progress, Reading, Source, open_files
from boostrank.records import PlacesRecord

NO_ROWS = "no rows: the file is empty or contains only comments"
BLANK_SHARE = 0.01  # minimum share of blank lines for a warning
_SHOWN_COLUMNS = 5
_PIECE_CHUNK = 4 << 20
_TILE_BYTES = 1 << 18  # rows per call: they stay in a core's cache


@dataclass
class Part:
    """One file of a data set.

    Args:
        lines, rows, queries: total numbers of lines, rows and queries in the previous files.
        zero_line: line of the first row with feature 0, counted over all files; 0 if there is no
            such row.
        top_id, top_line: largest feature number, and the first line that contains it, counted over
            all files.
    """

    name: str
    path: str | None
    lines: int
    rows: int
    queries: int
    zero_line: int = 0
    top_id: int = 0
    top_line: int = 0

    def __post_init__(self) -> None:
        self.sizes_file = side_files.find_sidecar(self.path, side_files.GROUP_SUFFIXES)
        self.weights_file = side_files.find_sidecar(self.path, (side_files.WEIGHT_SUFFIX,))


class Totals:
    """Totals over the blocks read so far. Lines are counted over all files, and `place` returns a
    file and its line."""

    def __init__(self, reading: Reading, source: Any = None) -> None:
        self.reading, self.source = reading, source
        self.parts: list[Part] = []
        self.counts = slots.no_counts()  # slots that are summed
        self.n_lines = self.n_rows = self.n_queries = self.descending_line = 0
        self.names: dict[int, bytes] = {}
        self.first_bad: FileFormatError | None = None
        self._file: File | None = None
        self._last_qid: object = None  # id of the query that the next rows may continue

    def count(self, file: File, block: Block) -> tuple[Int64Array, dict[int, bytes]]:
        """Add a block's counts. Return the queries that begin in it (`Block.runs`) and text ids by
        query number.

        Rows and queries are numbered over all files. `advance` adds the lines and rows after they
        were checked.
        """
        if file is not self._file:
            self.parts.append(Part(file.name, file.path, self.n_lines, self.n_rows, self.n_queries))
            self._file, self._last_qid = file, self._last_qid if self.reading.regroup else None
        counts, part = block.counts, self.parts[-1]
        self.counts[slots.ADDED_UP] += counts[slots.ADDED_UP]
        self.descending_line = self.descending_line or self.through(counts[slots.DESCENDING_LINE])
        part.zero_line = part.zero_line or self.through(counts[slots.ZERO_LINE])
        if counts[slots.TOP_ID] > part.top_id:
            part.top_id = int(counts[slots.TOP_ID])
            part.top_line = self.through(counts[slots.TOP_LINE])
        if not len(block.runs):
            return block.runs, {}
        # The first run continues the query of the previous block if their ids are equal.
        run_positions = 0, len(block.runs) - 1
        first_qid, last_qid = [
            block.names.get(i, int(block.runs[i, slots.RUN_ID])) for i in run_positions
        ]
        n_continued = int(first_qid == self._last_qid)
        names = {
            self.n_queries + i - n_continued: name
            for i, name in block.names.items()
            if i >= n_continued
        }
        runs, self._last_qid = block.runs[n_continued:], last_qid
        runs[:, slots.RUN_ROW] += self.n_rows
        runs[:, slots.RUN_LINE] += self.n_lines
        self.n_queries += len(runs)
        self.names |= names
        return runs, names

    def advance(self, block: Block) -> None:
        """Add the lines and rows of the counted block."""
        self.n_rows += block.n_rows
        self.n_lines += int(block.counts[slots.LINES])

    def check_block(self, block: Block) -> None:
        """Raise an error for the first unreadable row of the block, unless such rows are skipped.
        Warn about a last line without a line feed."""
        if block.bad:
            error = self.why_refused(block.bad[0])
            if not self.reading.skip:
                raise error
            self.first_bad = self.first_bad or error
        if block.unterminated:
            self.warn(
                "the last line has no newline; the file may be truncated", self.parts[-1].name
            )

    def why_refused(self, fault: slots.Fault) -> FileFormatError:
        """Return the error for an unreadable row of the current block."""
        part = self.parts[-1]
        lines_before = self.n_lines - part.lines + self.source.header_lines
        return fault.error(part.name, lines_before, by_row=self.source.by_row)

    def through(self, line: int) -> int:
        """Convert a line number in the current block to one that is counted over all files. The
        number 0 stays 0."""
        return self.n_lines + int(line) if line else 0

    @property
    def name(self) -> str:
        """Name of the data set, for messages."""
        count = len(self.parts) - 1
        return self.parts[0].name + (f" and {count_of(count, 'more file')}" if count else "")

    @property
    def has_zero(self) -> bool:
        """Whether feature number 0 occurs."""
        return any(part.zero_line for part in self.parts)

    @property
    def top(self) -> Part:
        """File with the largest feature number."""
        return max(self.parts, key=lambda part: part.top_id)

    @property
    def from_one(self) -> list[Part]:
        """Files that seem to number features from 1 although others start at 0, if no option
        decides."""
        top = max((part.top_id for part in self.parts if part.zero_line), default=-1)
        odd = [part for part in self.parts if not part.zero_line and 0 < part.top_id == top + 1]
        return odd if self.source.base is None else []

    def from_one_words(self) -> str:
        """Return the warning about the files in `from_one`."""
        part = self.from_one[0]
        return (
            f"no row of {part.name} has feature 0, which other files have, but a row has "
            f"feature {part.top_id}, one past their last: do some files number features from 0 "
            "and others from 1?"
        )

    @property
    def places(self) -> PlacesRecord:
        """The files with the number of lines before each, and how their rows are counted."""
        source = self.source
        names = [(part.name, part.lines) for part in self.parts]
        return {"files": names, "header_lines": source.header_lines, "by_row": source.by_row}

    def place(self, line: int) -> tuple[str, int]:
        """Return the file, and the line in it, of a line counted over all files. Line 0 means the
        whole data set."""
        return place_in(self.places, line)

    def at(self, line: int) -> str:
        """Return the location of a line as text."""
        file, line = self.place(line)
        if len(self.parts) > 1:
            return f"{file}:{line}" if line else file
        return f"line {line}" if line else file.removeprefix(f"{self.name}: ")

    def spans(self) -> list[tuple[Part, range, range]]:
        """Return each file with its rows and queries."""
        rows = [*(part.rows for part in self.parts), self.n_rows]
        queries = [*(part.queries for part in self.parts), self.n_queries]
        ranges = [starmap(range, pairwise(starts)) for starts in (rows, queries)]
        return list(zip(self.parts, *ranges, strict=True))

    def warn(self, message: str, name: str = "") -> None:
        """Warn about the data set, or one of its files."""
        warn_user(f"{name or self.name}: {message}")

    def warn_or_refuse(self, message: str) -> None:
        """Warn, or raise FileFormatError if the options are strict."""
        if self.reading.strict:
            raise FileFormatError(message, file=self.name)
        self.warn(message)

    def check_rows(self) -> None:
        """Refuse data without rows, or with too many unreadable rows."""
        n_bad, share = int(self.counts[slots.BAD_ROWS]), self.reading.max_bad_share
        bad_rows = f"{n_bad:,} of {self.n_rows + n_bad:,} rows"
        if n_bad > share * (self.n_rows + n_bad):
            raise FileFormatError(
                f"{bad_rows} cannot be read, more than --max-bad-share {share:g}; the first:"
                f" {self.first_bad}",
                file=self.name,
            )
        if self.n_rows == 0:
            raise FileFormatError(NO_ROWS, file=self.name)
        for part, rows, _ in self.spans():
            if not rows:
                self.warn(NO_ROWS, part.name)
        if n_bad:
            self.warn(f"{bad_rows} skipped; the first: {self.first_bad}")
        for message in self.source.warnings:
            self.warn_or_refuse(message)

    def warn_of_values(self, in_columns: str = "") -> None:
        """Warn about values and lines, where `in_columns` describes the columns with
        missing values."""
        if self.from_one:
            self.warn_or_refuse(self.from_one_words())
        counts, top = self.counts.copy(), self.top
        if counts[slots.BLANK_LINES] <= BLANK_SHARE * self.n_lines:
            counts[slots.BLANK_LINES] = 0
        if self.source.has_columns:  # which are no missing values
            counts[slots.MISSING] = 0
        treatment = "kept" if self.reading.inf == "keep" else "read as missing"
        unsorted = f"rows had unsorted feature numbers (first: {self.at(self.descending_line)})"
        repeated = f"values repeat a feature in the same row; the {self.reading.repeated} value"
        beyond = "values belong to features outside the training data (largest number:"
        # Warn of each kind that occurs, with its first line where it is known.
        for slot, message in (
            (slots.BLANK_LINES, f"of {self.n_lines:,} lines are blank"),
            (slots.DESCENDING_ROWS, f"{unsorted}; they were sorted"),
            (slots.REPEATED_CELLS, f"{repeated} is kept"),
            (slots.BEYOND, f"{beyond} {top.top_id}, {self.at(top.top_line)}); they are ignored"),
            (slots.INFINITIES, f"infinite values: {treatment}"),
            (slots.MISSING, f"missing values{in_columns}"),
        ):
            if counts[slot]:
                self.warn(f"{counts[slot]:,} {message}")


def place_of_row(
    files: PlacesRecord, rows: Int64Array, lines: Int64Array, row: int
) -> tuple[str, int]:
    """Return the file and line of a row, which is counted from 0. If files have no lines, the name
    includes the row, and the line is 0.

    Args:
        files: the files, with the number of lines before each file.
        rows: int64[R], ascending row numbers; between two of them, every row takes one line.
        lines: int64[R], line of each row in `rows`, starting at 1 and counted over all files
            without header lines.
    """
    i = int(np.searchsorted(rows, row, "right")) - 1
    return place_in(files, int(lines[i]) + row - int(rows[i]))


def place_in(places: PlacesRecord, line: int) -> tuple[str, int]:
    """Return the file, and the line in it, of a line counted over all files without headers."""
    files = places["files"]
    name, lines_before = next((file for file in reversed(files) if file[1] < line), files[0])
    if places["by_row"] and line > lines_before:
        return f"{name}: row {line - lines_before}", 0
    return name, line - lines_before + places["header_lines"] * (line > lines_before)


class Assembler(Totals):
    """Builder that assembles a data set from blocks, with the features in memory or in a store."""

    def __init__(self, source: Source, store: Any) -> None:
        super().__init__(source.reading, source)
        self.store = store
        self.blocks: list[Any] = []
        self._runs: list[Int64Array] = []
        self._row_lines: list[list[Int64Array]] = []  # `rows` and `lines` of `place_of_row`
        self._query_texts: dict[str, str] = {}

    def add(self, file: File, block: Block) -> None:
        """Add the next block."""
        runs, _ = self.count(file, block)
        self._runs.append(runs)
        breaks = np.flatnonzero(np.diff(block.lines, prepend=-1) != 1)
        self._row_lines.append([self.n_rows + breaks, self.n_lines + block.lines[breaks]])
        self._query_texts |= block.words
        if block.bad and not self.reading.skip:  # the first error by line
            self._check_regroup(before_line=self.n_lines + block.bad[0].line)
        self.check_block(block)
        self.advance(block)
        if block.n_rows:
            if self.store is not None:
                self.store.put(block)
            self.blocks.append(block)

    def finish(self, threads: int) -> RankingDataset:
        """Return the data set."""
        reading, source = self.reading, self.source
        self.check_rows()
        rounded_columns = dict.fromkeys(name for block in self.blocks for name in block.coarse)
        if rounded_columns:
            self.warn_or_refuse(coarse_words(rounded_columns))
        space = source.schema(self)
        names, base = space.feature_names, space.index_base or 0
        queries, order = self._queries()

        def in_order(column: Any) -> Any:
            """Bring regrouped rows into their new order."""
            is_moved = order is not None and column.shape[0] == order.size
            return column[order] if is_moved else column

        # Concatenate the columns of the blocks, which are freed while their features are copied.
        blocks, document_names = self.blocks, None
        weights_file, weights = self._weights()
        labels = reading.relabelled(in_order(np.concatenate([block.labels for block in blocks])))
        has_names = [block.document_names is not None for block in blocks]
        if all(has_names):
            document_names = in_order(np.concatenate([block.document_names for block in blocks]))
        elif any(has_names):
            self.warn("not every file has document names, so they are left out")
        gain_columns = {
            name: in_order(np.concatenate([block.others[name] for block in blocks]))
            for name in blocks[0].others
        }
        features = in_order(self._features(base, len(names), threads))
        # Name the features with the most missing values.
        in_columns = ""
        if self.counts[slots.MISSING] and not source.has_columns:
            counts = missing_in(features)
            fullest = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            column_counts = [f"{counts[column]:,} in {names[column]}" for column in fullest]
            in_columns = f": {list_names(column_counts, _SHOWN_COLUMNS)}"
        self.warn_of_values(in_columns)
        if weights_file is not None:
            queries = side_files.weighted(weights_file, in_order(weights), queries)
        unlabelled = int(np.isnan(labels).sum())
        if unlabelled:  # a gain need not use the labels
            gain_columns[LABEL], labels = labels, np.nan_to_num(labels)
        origin = self._origin(space, unlabelled)
        data = RankingDataset(
            features, labels, queries, names, origin, document_names, order, space.categories
        )
        # Take the features of the training data by the names in text, and the gain for the labels.
        if source.place_of(base) is not None and reading.space is not None:
            data = data.only(reading.space.feature_names)
            data = data.with_features(reading.space.feature_names, whose="the training data")
        source.warn_of_categories("the training data")
        return data if reading.gain is None else data.with_gain(reading.gain, gain_columns)

    def _origin(self, space: FeatureSpace, unlabelled: int) -> Provenance:
        """Return the files and options of the data."""
        options = self.reading.for_provenance()
        options["queries"] = "qid" if self.n_queries else "sizes"
        options |= space.columns
        if unlabelled:
            options["rows_without_label"] = unlabelled
        files = []
        for part in self.parts:
            files += [part.path or part.name, part.sizes_file, part.weights_file]
        return Provenance(tuple(filter(None, files)), space.index_base, options)

    def _features(self, base: int, columns: int, threads: int) -> Features:
        cells = int(self.counts[slots.CELLS] - self.counts[slots.BEYOND])
        is_sparse = self.reading.layout == "csr"
        if self.reading.layout == "auto":
            is_sparse = 2 * cells < self.n_rows * columns
        if self.store is not None:
            return self.store.features((self.n_rows, columns), base, is_sparse=is_sparse)
        if is_sparse:
            return sparse_matrix(self.blocks, base, columns)
        return dense_matrix(self.blocks, base, columns, threads)

    def _check_regroup(self, before_line: float = np.inf) -> tuple[Array, ...]:
        """Return the ids, the runs, the first run of each run's query, and the runs that are not
        the first of their query. Refuse ids that reappear."""
        runs = np.concatenate(self._runs)
        ids = runs[:, slots.RUN_ID]
        if self.names:  # not all ids are canonical integers
            ids = np.array([str(i) for i in ids], dtype=object)
            ids[list(self.names)] = [name.decode() for name in self.names.values()]
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        first_runs = first[inverse]
        later_runs = np.flatnonzero(first_runs != np.arange(first_runs.size))
        if later_runs.size and not self.reading.regroup:
            i = int(later_runs[0])
            line, first = runs[[i, first_runs[i]], slots.RUN_LINE].tolist()
            if line < before_line:
                file, line = self.place(line)
                message = f"qid {ids[i]} reappears after another query"
                if first_runs[i] == first_runs[i - 1]:
                    message = f"qid {ids[i]} continues from the previous file (unless ids restart)"
                raise FileFormatError(
                    f"{message}; it was first seen on {self.at(first)}: --regroup or boostrank"
                    " data sort brings its rows together",
                    file=file,
                    line=line,
                )
        return ids, runs, first_runs, later_runs

    def _weights(self) -> tuple[str | None, Float64Array]:
        """Return the source of the weights, and one weight per query or row. All files must have
        weights, or none."""
        # Take weights from a column or from files, but not from both.
        column_weights = [block.weights for block in self.blocks if block.weights is not None]
        parts = [span for span in self.spans() if span[1]]
        weights_files = [part.weights_file for part, _, _ in parts if part.weights_file is not None]
        if column_weights and weights_files:
            raise FileFormatError(
                "contains weights, and so does a table column; remove one of them",
                file=weights_files[0],
            )
        if column_weights:
            return self.name, np.concatenate(column_weights)
        if not weights_files:
            return None, np.zeros(0)
        # Join the files' weights, which must count queries or rows in each file.
        weights = []
        for part, rows, queries in parts:
            if part.weights_file is None:
                raise FileFormatError(
                    "has no weight file, but other files of the data set have one", file=part.name
                )
            weights.append(side_files.read_weights(part.weights_file, len(rows)))
            n_queries = len(queries)
            if part.sizes_file is not None:
                n_queries = side_files.read_sizes(part.sizes_file, len(rows)).size
            # A single file is checked later, and scattered queries are not counted yet.
            is_counted = len(parts) > 1 and not self.reading.regroup
            if is_counted and weights[-1].size not in (len(rows), n_queries):
                raise FileFormatError(
                    f"{weights[-1].size:,} weights for {n_queries:,} queries and {len(rows):,} "
                    "rows; expected one per query or per row",
                    file=part.weights_file,
                )
        return weights_files[0], np.concatenate(weights)

    def _queries(self) -> tuple[QueryIndex, Int64Array | None]:
        """Return the queries, and the order of the rows if it differs from that in the files."""
        order = None
        if self.n_queries:
            ids, sizes, order = self._ids()
        else:
            sizes_of_files = []  # a single file without query ids was refused earlier
            for part, rows, _ in self.spans():
                if not rows:
                    continue
                if part.sizes_file is None:
                    raise FileFormatError(
                        "has neither query ids nor a file of group sizes", file=part.name
                    )
                sizes_of_files.append(side_files.read_sizes(part.sizes_file, len(rows)))
            sizes = np.concatenate(sizes_of_files)
            ids = np.arange(sizes.size)
        # Keep the text of each query, and the place of each row for messages.
        query_texts = None
        if self._query_texts:
            query_texts = np.array(
                [self._query_texts.get(str(qid), "") for qid in ids.tolist()], object
            )
        rows_and_lines = np.concatenate(self._row_lines, axis=1)
        places: Places = partial(place_of_row, self.places, *rows_and_lines)
        if order is not None:
            places = PlacesOf(places, order)
        ptr = np.cumsum([0, *sizes], dtype=np.int64)
        return QueryIndex(ptr, ids, places=places, words=query_texts), order

    def _ids(self) -> tuple[Array, Int64Array, Int64Array | None]:
        """Return the id and size of each query, and the order that brings its rows together."""
        ids, runs, first_runs, later_runs = self._check_regroup()
        sizes = np.diff(runs[:, slots.RUN_ROW], append=self.n_rows)
        for part, rows, queries in self.spans():
            if part.sizes_file is not None and rows:
                side_files.check_sizes(part.sizes_file, sizes[queries], part.name)
        # Bring scattered rows together.
        order = None
        if later_runs.size and self.store is not None:
            raise DataError(
                f"{self.name}: some queries have scattered rows, and rows on disk cannot be "
                "regrouped: read the data into memory, or sort them first (boostrank data sort)"
            )
        if later_runs.size:
            order = np.argsort(np.repeat(first_runs, sizes), kind="stable")
            self.warn(
                f"{np.unique(first_runs[later_runs]).size:,} queries had scattered rows, which were"
                " regrouped"
            )
            query_runs = np.unique(first_runs)
            ids, sizes = ids[query_runs], np.bincount(first_runs, weights=sizes)[query_runs]
            sizes = sizes.astype(np.int64)
        shared = self.reading.training_qids.intersection(map(str, ids.tolist()))
        if shared:
            self.warn_or_refuse(
                f"{len(shared):,} of {len(ids):,} query ids also occur in the training data "
                f"(such as {min(shared)}), which is a leak unless ids restart in each "
                "file"
            )
        return ids, sizes, order


def read_files(
    source: AnySource,
    *,
    store: Any = None,
    chunk_bytes: int | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> RankingDataset:
    """Read files as one data set; see `boostrank.read`.

    Args:
        store: `boostrank.files.store.RowStore`, which keeps the features on disk; see
            `stream_files`.
        chunk_bytes: number of bytes that a thread parses at a time; None chooses a size. It does
            not affect the result.
        options: `format`, and fields of `boostrank.files.source.Reading`.
    """
    workers = resolve_threads(threads)
    _, data_source = open_files(source, **options)
    with closing(data_source):
        assembler = Assembler(data_source, store)
        for file, block in data_source.blocks(chunk_bytes or data_source.chunk_bytes, workers):
            assembler.add(file, block)
            if progress is not None:
                progress(data_source.done, data_source.total)
        return assembler.finish(workers)


class Named(NamedTuple):
    """Results for consecutive rows, with their query ids (int or str) and document names if the
    data contain them."""

    values: Array
    qids: Array | None
    document_names: Array | None


def pieces_of_files(
    source: AnySource,
    work: Callable[[Any], Any],
    *,
    like: FeatureSpace,
    columns: Int64Array | None = None,
    threads: int | None = None,
    progress: Progress = None,
    chunk_bytes: int = _PIECE_CHUNK,
    **options: Any,
) -> Iterator[Any]:
    """Yield the results of `work` for batches of rows in order, as `Named` objects if document
    names are kept.

    Labels are ignored. Rows are not kept, so memory use does not grow with the files. A row with a
    feature that `like` lacks is refused, or skipped with `on_bad_line="skip"`.

    Args:
        work: function that is called with one or more rows of float32 features.
        columns: int64[c], ascending columns (from 0) to pass to `work` as float32[n, c] in C order,
            from several threads. None passes all columns, dense or CSR, from the calling thread.
        options: `format`, and fields of `boostrank.files.source.Reading`.
    """
    spec, data_source = open_files(source, like=like, rows_alone=True, **options)
    with closing(data_source):
        base = data_source.base or 0
        feature_columns = data_source.place_of(base)
        numbers = base + (
            np.arange(like.n_features) if feature_columns is None else feature_columns
        )

        def tiles(block: Block) -> list[Any]:
            tile_numbers = numbers[columns]
            step = max(64, _TILE_BYTES // (4 * max(1, tile_numbers.size)))
            starts = range(0, block.n_rows, step)
            return [
                work(block.tile(start, min(start + step, block.n_rows), tile_numbers))
                for start in starts
            ]

        # Rows are scored by the threads that parse them, unless `work` takes all columns.
        totals = Totals(data_source.reading, data_source)
        then = None if columns is None else tiles
        for file, block in data_source.blocks(chunk_bytes, resolve_threads(threads), then):
            qids = block.row_ids() if data_source.reading.keeps_names else None
            totals.count(file, block)
            totals.check_block(block)
            totals.advance(block)
            if progress is not None:
                progress(data_source.done, data_source.total)
            results = block.result or []
            if columns is None and block.n_rows:
                if block.dense is not None:
                    rows: Any = block.tile(0, block.n_rows, numbers)
                else:
                    rows = sparse_matrix([block], base, like.n_features)
                    rows = rows if feature_columns is None else rows[:, feature_columns]
                results = [work(rows)]
            if not data_source.reading.keeps_names:
                yield from results
            elif results:
                yield Named(np.concatenate(results), qids, block.document_names)
        totals.check_rows()
        if not spec.is_table:
            _check_width(totals, base, like.n_features)
            totals.warn_of_values()
    data_source.warn_of_categories("the model")


def _check_width(totals: Totals, base: int, width: int) -> None:
    """Warn if every row has exactly the first features of the model."""
    top_number, last_number = totals.top.top_id, base + width - 1
    cells = totals.n_rows * (top_number + 1 - base)
    if top_number < last_number and totals.counts[slots.CELLS] == cells:
        message = f"every row has exactly the features {base} to {top_number}"
        if top_number < base:
            message = "no row has a feature"
        totals.warn_or_refuse(
            f"{message}, but the model has features up to {last_number}, which are read as 0. If"
            " these data lack them, they differ from the training data"
        )
