"""Assembly of blocks in file order to one data set: line numbers, queries, width, layout, warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.arrays import Features, default_feature_names
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.gain_columns import with_gain
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm import side_files
from boostrank.data.libsvm.blocks import Block, dense_matrix, sparse_matrix
from boostrank.data.libsvm.chunks import Source
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.libsvm.reasons import NO_ROWS, BadRow
from boostrank.data.names import names_in_head, same_names
from boostrank.data.options import NUMBERED
from boostrank.data.row_places import RowPlaces
from boostrank.data.store import RowStore, StoredFeatures, check_not_scattered, missing_in
from boostrank.data.tables.categories import Categories

BLANK_SHARE = 0.01  # more blank lines than this are worth a word
_SHOWN_COLUMNS = 5


@dataclass
class Part:
    """One of the files: its name for messages, its path if it has one, its sidecars, what came before it, and how it
    counts features.
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


class DataFiles:
    """The files of one data set, in order: what their blocks count.

    Lines are counted through all files; `place` says which line of which file it is.
    """

    def __init__(self, options: LibsvmOptions) -> None:
        self.options = options
        self.parts: list[Part] = []
        self.counts = np.zeros(parse.N_STATE, np.int64)  # the slots that are added up
        self.n_lines = self.n_rows = self.n_queries = self.descending_line = 0
        self.names: dict[int, bytes] = {}
        self._last: object = None  # id of the query that the next rows may continue

    def enter(self, name: str, path: str | None) -> None:
        """The blocks that follow are of this file."""
        self.parts.append(Part(name, path, self.n_lines, self.n_rows, self.n_queries))
        self._last = None

    @property
    def has_zero(self) -> bool:
        """Whether feature number 0 occurs."""
        return any(part.zero_line for part in self.parts)

    @property
    def top(self) -> Part:
        """The file with the largest feature number."""
        return max(self.parts, key=lambda part: part.top_id)

    def place(self, line: int) -> tuple[str, int]:
        """(file, its line) of a line counted through all files; line 0 means the whole."""
        part = next(part for part in reversed(self.parts) if part.lines < line or part is self.parts[0])
        number = line - part.lines
        if self.options.by_row and number:
            return f"{part.name}: row {number}", 0
        return part.name, number + self.options.header_lines * bool(number)

    def at(self, line: int) -> str:
        """The same in words."""
        file, line = self.place(line)
        if self.options.by_row:
            return file.removeprefix(f"{self.parts[0].name}: ") if len(self.parts) == 1 else file
        return f"line {line}" if len(self.parts) == 1 else f"{file}:{line}"

    def spans(self) -> list[tuple[Part, range, slice]]:
        """(file, its rows, its queries)."""
        ends = [*((part.rows, part.queries) for part in self.parts[1:]), (self.n_rows, self.n_queries)]
        return [(part, range(part.rows, rows), slice(part.queries, queries))
                for part, (rows, queries) in zip(self.parts, ends, strict=True)]  # fmt: skip

    def _count(self, block: Block) -> None:
        """Add what the next block counts, before its lines and rows are added."""
        counts, part = block.counts, self.parts[-1]
        self.counts[parse.ADDED_UP] += counts[parse.ADDED_UP]
        self.descending_line = self.descending_line or self._through(counts[parse.DESCENDING_LINE])
        part.zero_line = part.zero_line or self._through(counts[parse.ZERO_LINE])
        if counts[parse.TOP_ID] > part.top_id:
            part.top_id, part.top_line = int(counts[parse.TOP_ID]), self._through(counts[parse.TOP_LINE])

    def _through(self, line: int) -> int:
        """A line of the block at hand, counted through all files; 0 stays 0."""
        return self.n_lines + int(line) if line else 0

    def _add_runs(self, block: Block) -> tuple[Int64Array, dict[int, bytes]]:
        """(runs of the queries that begin in the block, counted through all files, text ids by number of query)."""
        runs, names, self._last = block.queries_after(self._last, self.n_queries)
        runs[:, parse.RUN_ROW] += self.n_rows
        runs[:, parse.RUN_LINE] += self.n_lines
        self.n_queries += len(runs)
        self.names |= names
        return runs, names

    def _why_refused(self, row: BadRow) -> FileFormatError:
        part, options = self.parts[-1], self.options
        return row.error(part.name, self.n_lines - part.lines + options.header_lines, max_feature=options.max_feature,
                         like_training=options.space is not None)  # fmt: skip


class RowFiles(DataFiles):
    """The same, read for their rows: what cannot be read is refused or passed over, and what deserves a look is said.

    Attributes:
        first_bad: why the first row that was passed over cannot be read.
        warnings: what deserves a look.
    """

    def __init__(self, options: LibsvmOptions) -> None:
        super().__init__(options)
        self.first_bad: FileFormatError | None = None
        self.warnings: list[str] = []

    @property
    def name(self) -> str:
        """Of the whole, for messages."""
        more = len(self.parts) - 1
        return self.parts[0].name + (f" and {more} more file{'s' * (more > 1)}" if more else "")

    def enter(self, name: str, path: str | None) -> None:
        self._check_part()
        super().enter(name, path)

    def _add_lines(self, block: Block) -> None:
        """The next block, which has been counted.

        Raises:
            FileFormatError: it holds a refused row and rows are not skipped.
        """
        if block.bad:
            error = self._why_refused(block.bad[0])
            if not self.options.skip:
                self._check_before(self.n_lines + block.bad[0].line)
                raise error
            self.first_bad = self.first_bad or error
        if block.unterminated:
            self._warn("the last line has no newline: maybe truncated", self.parts[-1].name)
        self.n_rows += block.n_rows
        self.n_lines += int(block.counts[parse.LINES])

    def _check_before(self, line: int) -> None:
        """Refuse what is wrong in front of a line that cannot be read, and is only looked for at the end."""

    def _check_part(self) -> None:
        """The last file of several has rows."""
        if self.parts and self.parts[-1].rows == self.n_rows:
            self._warn(NO_ROWS, self.parts[-1].name)

    def _check_rows(self) -> None:
        bad = int(self.counts[parse.BAD_ROWS])
        if len(self.parts) > 1:
            self._check_part()
        if bad > self.options.max_bad_share * (self.n_rows + bad):
            words = f"{bad:,} of {self.n_rows + bad:,} rows cannot be read, more than --max-bad-share "
            words += f"{self.options.max_bad_share:g}; the first: {self.first_bad}"
            raise FileFormatError(words, file=self.name)
        if self.n_rows == 0:
            raise FileFormatError(NO_ROWS, file=self.name)
        if bad:
            self._warn(f"{bad:,} of {self.n_rows + bad:,} rows skipped; the first: {self.first_bad}")

    def _warn(self, words: str, name: str = "") -> None:
        self.warnings.append(f"{name or self.name}: {words}")

    def _warn_or_refuse(self, words: str) -> None:
        """Warn; raises FileFormatError where the options are strict."""
        if self.options.strict:
            raise FileFormatError(words, file=self.name)
        self._warn(words)

    def _describe(self, base: int, missing: Callable[[], Int64Array]) -> None:
        """Warn of what deserves a look; `missing` tells how many values of each column are."""
        counts, options = self.counts, self.options
        if counts[parse.BLANK_LINES] > BLANK_SHARE * self.n_lines:
            self._warn(f"{counts[parse.BLANK_LINES]:,} of {self.n_lines:,} lines are blank")
        if counts[parse.DESCENDING_ROWS]:
            self._warn(
                f"{counts[parse.DESCENDING_ROWS]:,} rows have feature numbers out of order (first: "
                f"{self.at(self.descending_line)}): sorted"
            )
        if counts[parse.BEYOND]:
            self._warn(
                f"{counts[parse.BEYOND]:,} values of features that the training data does not have (largest number: "
                f"{self.top.top_id}, {self.at(self.top.top_line)}): ignored"
            )
        if counts[parse.INFINITIES]:
            what = "kept" if options.inf == "keep" else "read as missing"
            self._warn(f"{counts[parse.INFINITIES]:,} infinite values: {what}")
        if counts[parse.MISSING]:
            missing_in_columns = missing()
            fullest = np.argsort(-missing_in_columns, kind="stable")[: np.count_nonzero(missing_in_columns)]
            shown = ", ".join(f"{missing_in_columns[c]:,} in {self._shown(c, base)}" for c in fullest[:_SHOWN_COLUMNS])
            more = fullest.size - _SHOWN_COLUMNS
            shown += f", and in {more} more features" if more > 0 else ""
            self._warn(f"{counts[parse.MISSING]:,} missing values: {shown}")

    def _shown(self, column: int, base: int) -> str:
        """What a column is called in messages."""
        return f"f{base + column}"


class Assembly(RowFiles):
    """Takes the blocks of one or several files in order and makes one data set.

    Args:
        options: of the reader.
        store: where features are left on disk; None assembles them in memory.
    """

    def __init__(self, options: LibsvmOptions, store: RowStore | None = None) -> None:
        super().__init__(options)
        self.store = store
        self.blocks: list[Block | None] = []
        self.names_in_text: dict[int, str] = {}
        self._names_differ = False
        self._runs: list[Int64Array] = []

    def enter(self, name: str, path: str | None, source: Any = None) -> None:
        last = self._last
        super().enter(name, path)
        self._last = last if self.options.regroup else None
        self._enter_source(source)

    def _enter_source(self, source: Source) -> None:
        """Look at what the next file says of its features."""
        found = names_in_head(source.head, source.name)
        self.names_in_text = same_names(self.names_in_text, found, source.name)

    def add(self, block: Block) -> None:
        """The next block.

        Raises:
            FileFormatError: it holds a refused row and rows are not skipped.
        """
        self._count(block)
        if len(block.runs):
            self._runs.append(self._add_runs(block)[0])
        self._add_lines(block)
        if block.n_rows:
            if self.store is not None:
                self.store.put(block)
            self.blocks.append(block)

    def finish(self, threads: int) -> RankingDataset:
        """The data set; what deserves a look is in `warnings` afterwards.

        Raises:
            FileFormatError: no rows, too many refused rows, queries that are not contiguous, numbers beyond the width.
        """
        options = self.options
        self._check_rows()
        base, columns = self._columns()
        queries, order = self._queries()
        queries = replace(queries, places=self._places().in_order(order))
        if self.store is not None:
            check_not_scattered(order, self.name)
        labels = np.concatenate([b.labels for b in self.blocks if b is not None])
        comments = None
        if options.keep_comments:
            comments = [c.removeprefix(b"#").strip(b" \t").decode("utf-8", "surrogateescape")
                        for b in self.blocks if b is not None for c in b.comments or ()]  # fmt: skip
        cells, layout = int(self.counts[parse.CELLS] - self.counts[parse.BEYOND]), options.layout
        if layout == "auto":
            layout = "dense" if 2 * cells >= self.n_rows * columns else "csr"
        if self.store is not None:
            features: Features = StoredFeatures(self.store, (self.n_rows, columns), base, is_sparse=layout == "csr")
        elif layout == "dense":
            features = dense_matrix(self.blocks, base, columns, threads)
        else:
            features = sparse_matrix(self.blocks, base, columns)
        self._describe(base, lambda: _missing_in(features))
        if order is not None:
            features, labels = features[order], labels[order]
            comments = None if comments is None else [comments[i] for i in order]
        weights_file, weights = self._weights()
        if weights_file is not None:
            if order is not None and weights.size == order.size:
                weights = weights[order]
            queries = side_files.weighted(weights_file, weights, queries)
        names = self._names(base, columns)
        used = tuple(f for p in self.parts for f in (p.path or p.name, p.sizes_file, p.weights_file) if f is not None)
        how = self._how()
        data = RankingDataset(
            features, options.relabelled(labels), queries, names, Provenance(used, self._index_base(base), how),
            None if comments is None else tuple(comments), order, self._categories(),
        )  # fmt: skip
        by_name = options.by_name(self._given_names(base), self.name)
        if by_name is not None and options.space is not None:
            data = data.with_features(options.space.feature_names, whose="the model")
        if options.gain is None:
            return data
        others = {name: column if order is None else column[order] for name, column in self._others().items()}
        return with_gain(data, options.gain, others)

    def _others(self) -> dict[str, Float64Array]:
        """Columns of the gain that are no features, float64[N], in the order of the file."""
        return {}

    def _places(self) -> RowPlaces:
        """Where each row stands, in the order of the files."""
        rows, lines, exact = self._counted_from()
        files = tuple((part.name, part.lines, part.rows) for part in self.parts)
        options, end = self.options, (self.n_rows, self.n_lines)
        return RowPlaces(files, rows, lines, end, options.header_lines, options.by_row, exact)

    def _counted_from(self) -> tuple[Int64Array, Int64Array, bool]:
        """`rows`, `lines` and `exact` of `RowPlaces`."""
        runs = np.concatenate([*self._runs, np.zeros((0, parse.N_RUN), np.int64)])
        if not len(runs):  # no queries, but those of a file beside each
            runs = np.zeros((len(self.parts), parse.N_RUN), np.int64)
            runs[:, parse.RUN_ROW] = [part.rows for part in self.parts]
            runs[:, parse.RUN_LINE] = [part.lines + 1 for part in self.parts]
        return runs[:, parse.RUN_ROW].copy(), runs[:, parse.RUN_LINE].copy(), False

    # Queries ---------------------------------------------------------------------------------------------------------

    def _check_before(self, line: int) -> None:
        self._check_regroup(before=line)

    def _check_regroup(self, before: int | None = None) -> tuple[npt.NDArray[Any], Int64Array, Int64Array]:
        """(ids, the runs, for each run the first run of its query); refuses an id that comes back."""
        runs = np.concatenate([*self._runs, np.zeros((0, parse.N_RUN), np.int64)])
        ids = runs[:, parse.RUN_ID]
        if self.names:  # not all are canonical integers
            ids = np.array([str(i) for i in ids], dtype=object)
            ids[list(self.names)] = [name.decode() for name in self.names.values()]
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        owner = first[inverse].astype(np.int64)
        again = np.flatnonzero(owner != np.arange(owner.size))
        if again.size and not self.options.regroup:
            i = int(again[0])
            at, seen = int(runs[i, parse.RUN_LINE]), int(runs[owner[i], parse.RUN_LINE])
            if before is None or at < before:
                file, line = self.place(at)
                words = (
                    f"qid {ids[i]} comes back after another query; it was first seen on {self.at(seen)}. The rows "
                    "of a query must follow each other: --regroup brings them together (data larger than memory: "
                    f"{self.options.sorted_by})"
                )
                if owner[i] == owner[i - 1]:
                    words = (
                        f"qid {ids[i]} goes on from the file before ({self.at(seen)}): a query is not cut between "
                        "two files, unless ids restart in each; if they do not, --regroup joins the rows"
                    )
                raise FileFormatError(words, file=file, line=line)
        return ids, runs, owner

    def _weights(self) -> tuple[str | None, Float64Array]:
        """(the file of weights, one a query or one a row); of several files all have weights, or none."""
        parts = [span for span in self.spans() if span[1]]
        files = [part.weights_file for part, _, _ in parts]
        if not any(files):
            return None, np.zeros(0)
        weights = []
        for part, rows, queries in parts:
            if part.weights_file is None:
                raise FileFormatError("has no weights beside it, but other files of the data set do", file=part.name)
            weights.append(side_files.read_weights(part.weights_file, len(rows)))
            counts = len(rows), queries.stop - queries.start
            if len(parts) > 1 and self.n_queries and weights[-1].size not in counts:
                words = f"{weights[-1].size:,} weights for {counts[1]:,} queries and {counts[0]:,} rows"
                raise FileFormatError(f"{words}: give one a query, or one a row", file=part.weights_file)
        return files[0], np.concatenate(weights)

    def _queries(self) -> tuple[QueryIndex, Int64Array | None]:
        """The queries, and the order of the rows when it is not that of the file."""
        parts = [span for span in self.spans() if span[1]]
        if not self.n_queries:
            given = []
            for part, rows, _ in parts:
                if part.sizes_file is None:  # of a single file rows without a qid were refused
                    raise FileFormatError("has neither qids nor group sizes beside it", file=part.name)
                given.append(side_files.read_sizes(part.sizes_file, len(rows)))
            return QueryIndex.from_sizes(np.concatenate(given)), None
        ids, runs, owner = self._check_regroup()
        sizes = np.diff(runs[:, parse.RUN_ROW], append=self.n_rows)
        for part, _, queries in parts:
            if part.sizes_file is not None:
                side_files.check_sizes(part.sizes_file, sizes[queries], part.name)
        order, again = None, np.flatnonzero(owner != np.arange(owner.size))
        if again.size:
            by_query = np.argsort(owner, kind="stable")
            starts = runs[by_query, parse.RUN_ROW]
            order = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, sizes[by_query], strict=True)])
            self._warn(f"{np.unique(owner[again]).size:,} queries had scattered rows: regrouped")
            sizes = np.bincount(owner, weights=sizes, minlength=owner.size).astype(np.int64)
            ids, sizes = ids[sizes > 0], sizes[sizes > 0]
        shared = self.options.training_qids.intersection(ids.tolist())
        if shared:
            words = (
                f"{len(shared):,} of {len(ids):,} query ids are also in the training data (one: {min(shared, key=str)})"
                ": a leak, unless ids restart in each file"
            )
            self._warn_or_refuse(words)
        return QueryIndex(np.cumsum([0, *sizes], dtype=np.int64), ids), order

    # Features --------------------------------------------------------------------------------------------------------

    def _given_names(self, base: int = 1) -> Mapping[int, str]:
        """Number -> name as the options or the text say; none where they do not."""
        given: Any = self.options.feature_names
        if isinstance(given, tuple):
            given = {base + i: name for i, name in enumerate(given)}
        if given and self.names_in_text and given != self.names_in_text and not self._names_differ:
            self._names_differ = True
            self._warn("the text names its features otherwise than --feature-names, which is taken")
        return given or self.names_in_text

    def _names(self, base: int, columns: int) -> tuple[str, ...]:
        space, named = self.options.space, self._given_names(base)
        if space is not None and self.options.by_name(named, self.name) is None:
            names = space.feature_names
            named_only = names and not named and space.index_base is None and self.options.zero_based == "auto"
            if named_only and not all(map(NUMBERED.fullmatch, names)):
                self._warn(f"the text names no features: they go by position, number {base} is {names[0]!r}")
            return names or default_feature_names(columns, base)
        if not named:
            return default_feature_names(columns, base)
        return tuple(named.get(base + i, f"f{base + i}") for i in range(columns))

    def _categories(self) -> dict[str, Categories]:
        """Feature -> what its codes stand for, of those that hold codes of categories."""
        return {}

    def _how(self) -> dict[str, Any]:
        """What a model must remember of how the data were read."""
        return self.options.for_provenance() | {"queries": "qid" if self.n_queries else "sizes"}

    def _index_base(self, base: int) -> int | None:
        """The number of the first feature, as a model must remember it."""
        return base

    def _columns(self) -> tuple[int, int]:
        """(number of the first feature, how many there are)."""
        options, has_zero = self.options, self.has_zero
        base = options.base
        if base is None:
            base = 0 if has_zero or 0 in self._given_names() else 1
        top, line = self.top.top_id, self.top.top_line
        if options.space is not None:
            columns = options.space.n_features
            if base == 0 and not has_zero and top == columns and options.zero_based == "auto":
                file, line = self.place(line)
                raise FileFormatError(
                    f"no row has feature 0 but this one has feature {top}, one past the last of the 0-based training "
                    "data: the file looks 1-based; if it is not, say --zero-based true",
                    file=file, line=line,
                )  # fmt: skip
            return base, columns
        named = self._given_names(base)
        if options.n_features is None and named:
            last = max(named)
            unnamed = next((number for number in range(base, top + 1) if number not in named), None)
            if unnamed is not None or min(named) < base:
                words = f"feature {unnamed} has none" if unnamed is not None else f"the features count from {base}"
                numbers = f"{min(named)} to {last}"
                raise FileFormatError(f"there are names of the features {numbers}, but {words}", file=self.name)
            if last > top:
                self._warn_or_refuse(
                    f"there are names of the features {base} to {last}, but no row has one above {top}: the others are "
                    "0 throughout"
                )
            return base, last + 1 - base
        if options.n_features is None:
            return base, top + 1 - base
        if top + 1 - base > options.n_features:
            file, line = self.place(line)
            raise FileFormatError(
                f"feature {top} is beyond n_features={options.n_features} of a {base}-based file", file=file, line=line
            )
        return base, options.n_features


def _missing_in(features: Features) -> Int64Array:
    begins = range(0, features.shape[0], 1 << 16)
    return np.sum([missing_in(features[begin : begin + (1 << 16)]) for begin in begins], axis=0, dtype=np.int64)
