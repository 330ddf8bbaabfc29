"""Assembly of blocks in file order to one data set: line numbers, queries, width, layout, warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import Features, Provenance, RankingDataset, default_feature_names
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.blocks import Block, dense_matrix, sparse_matrix
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.libsvm.side_files import (
    GROUP_SUFFIXES,
    WEIGHT_SUFFIX,
    check_sizes,
    find_sidecar,
    read_sizes,
    read_weights,
    weights_of_queries,
)
from boostrank.data.store import RowStore, StoredFeatures, check_not_scattered, missing_in

BLANK_SHARE = 0.01  # more blank lines than this are worth a word
_SHOWN_COLUMNS = 5


@dataclass(frozen=True)
class Part:
    """One of the files: its name for messages, its path if it has one, its sidecars, and what came before it."""

    name: str
    path: str | None
    sizes_file: str | None
    weights_file: str | None
    lines: int
    rows: int


class Assembly:
    """Takes the blocks of one or several files in order and makes one data set.

    Lines are counted through all files; `_where` says which line of which file it is.

    Args:
        options: of the reader.
        store: where features are left on disk; None assembles them in memory.
    """

    def __init__(self, options: LibsvmOptions, store: RowStore | None = None) -> None:
        self.options, self.store = options, store
        self.parts: list[Part] = []
        self.blocks: list[Block | None] = []
        self.lines = self.rows = 0
        self.counts = np.zeros(parse.N_STATE, np.int64)
        self.first_bad: FileFormatError | None = None
        self.warnings: list[str] = []
        self._runs: list[Int64Array] = []
        self._n_runs = 0
        self._names: dict[int, bytes] = {}
        self._last: object = None  # id of the query that the next rows may continue

    @property
    def name(self) -> str:
        """Of the whole, for messages."""
        more = len(self.parts) - 1
        return self.parts[0].name + (f" and {more} more file{'s' * (more > 1)}" if more else "")

    def enter(self, name: str, path: str | None) -> None:
        """The blocks that follow are of this file."""
        sizes, weights = find_sidecar(path, GROUP_SUFFIXES), find_sidecar(path, (WEIGHT_SUFFIX,))
        self._check_part()
        self.parts.append(Part(name, path, sizes, weights, self.lines, self.rows))
        if not self.options.regroup:
            self._last = None

    def add(self, block: Block) -> None:
        """The next block.

        Raises:
            FileFormatError: it holds a refused row and rows are not skipped.
        """
        counts, options = block.counts, self.options
        for slot in (parse.DESCENDING_LINE, parse.ZERO_LINE):
            if self.counts[slot] == 0 and counts[slot] > 0:
                self.counts[slot] = self.lines + counts[slot]
        if counts[parse.TOP_ID] > self.counts[parse.TOP_ID]:
            self.counts[parse.TOP_ID] = counts[parse.TOP_ID]
            self.counts[parse.TOP_LINE] = self.lines + counts[parse.TOP_LINE]
        self.counts[parse.ADDED_UP] += counts[parse.ADDED_UP]
        if len(block.runs):
            runs, names, self._last = block.queries_after(self._last, self._n_runs)
            runs[:, parse.RUN_ROW] += self.rows
            runs[:, parse.RUN_LINE] += self.lines
            self._runs.append(runs)
            self._n_runs += len(runs)
            self._names |= names
        if block.bad:
            part = self.parts[-1]
            error = block.bad[0].error(
                part.name, self.lines - part.lines, max_feature=options.max_feature,
                like_training=options.space is not None,
            )  # fmt: skip
            if not options.skip:
                self._check_regroup(before=self.lines + block.bad[0].line)
                raise error
            self.first_bad = self.first_bad or error
        if block.unterminated:
            self._warn("the last line has no newline: maybe truncated", self.parts[-1].name)
        self.rows += block.n_rows
        self.lines += int(counts[parse.LINES])
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
        if self.store is not None:
            check_not_scattered(order, self.name)
        labels = np.concatenate([b.labels for b in self.blocks if b is not None])
        comments = None
        if options.keep_comments:
            comments = [c.removeprefix(b"#").strip(b" \t").decode("utf-8", "surrogateescape")
                        for b in self.blocks if b is not None for c in b.comments or ()]  # fmt: skip
        cells, layout = int(self.counts[parse.CELLS] - self.counts[parse.BEYOND]), options.layout
        if layout == "auto":
            layout = "dense" if 2 * cells >= self.rows * columns else "csr"
        if self.store is not None:
            features: Features = StoredFeatures(self.store, (self.rows, columns), base, is_sparse=layout == "csr")
        elif layout == "dense":
            features = dense_matrix(self.blocks, base, columns, threads)
        else:
            features = sparse_matrix(self.blocks, base, columns)
        self._describe(features, base)
        if order is not None:
            features, labels = features[order], labels[order]
            comments = None if comments is None else [comments[i] for i in order]
        weights_file, weights = self._weights()
        if weights_file is not None:
            if order is not None and weights.size == order.size:
                weights = weights[order]
            queries = QueryIndex(queries.ptr, queries.qid, weights_of_queries(weights_file, weights, queries))
        space = options.space
        names = (space.feature_names if space is not None else ()) or default_feature_names(columns, base)
        used = tuple(f for p in self.parts for f in (p.path or p.name, p.sizes_file, p.weights_file) if f is not None)
        how = options.for_provenance() | {"queries": "qid" if self._n_runs else "sizes"}
        return RankingDataset(
            features, options.relabelled(labels), queries, names, Provenance(used, base, how),
            None if comments is None else tuple(comments), order,
        )  # fmt: skip

    def _where(self, line: int) -> tuple[str, int]:
        """(file, its line) of a line counted through all files."""
        part = next(part for part in reversed(self.parts) if part.lines < line or part is self.parts[0])
        return part.name, line - part.lines

    def _place(self, line: int) -> str:
        """The same in words."""
        file, line = self._where(line)
        return f"line {line}" if len(self.parts) == 1 else f"{file}:{line}"

    def _check_part(self) -> None:
        """The last file of several has rows."""
        if self.parts and self.parts[-1].rows == self.rows:
            self._warn("no rows: the file is empty or holds nothing but comments", self.parts[-1].name)

    def _check_rows(self) -> None:
        bad = int(self.counts[parse.BAD_ROWS])
        if len(self.parts) > 1:
            self._check_part()
        if bad > self.options.max_bad_share * (self.rows + bad):
            words = f"{bad:,} of {self.rows + bad:,} rows cannot be read, more than --max-bad-share "
            words += f"{self.options.max_bad_share:g}; the first: {self.first_bad}"
            raise FileFormatError(words, file=self.name)
        if self.rows == 0:
            raise FileFormatError("no rows: the file is empty or holds nothing but comments", file=self.name)
        if bad:
            self._warn(f"{bad:,} of {self.rows + bad:,} rows skipped; the first: {self.first_bad}")

    # Queries ---------------------------------------------------------------------------------------------------------

    def _check_regroup(self, before: int | None = None) -> tuple[npt.NDArray[Any], Int64Array, Int64Array]:
        """(ids, the runs, for each run the first run of its query); refuses an id that comes back."""
        runs = np.concatenate([*self._runs, np.zeros((0, parse.N_RUN), np.int64)])
        ids = runs[:, parse.RUN_ID]
        if self._names:  # not all are canonical integers
            ids = np.array([str(i) for i in ids], dtype=object)
            ids[list(self._names)] = [name.decode() for name in self._names.values()]
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        owner = first[inverse].astype(np.int64)
        again = np.flatnonzero(owner != np.arange(owner.size))
        if again.size and not self.options.regroup:
            i = int(again[0])
            at, seen = int(runs[i, parse.RUN_LINE]), int(runs[owner[i], parse.RUN_LINE])
            if before is None or at < before:
                file, line = self._where(at)
                words = (
                    f"qid {ids[i]} comes back after another query; it was first seen on {self._place(seen)}. The rows "
                    "of a query must follow each other: --regroup brings them together (data larger than memory: "
                    "boostrank sort)"
                )
                if owner[i] == owner[i - 1]:
                    words = (
                        f"qid {ids[i]} goes on from the file before ({self._place(seen)}): a query is not cut between "
                        "two files, unless ids restart in each; if they do not, --regroup joins the rows"
                    )
                raise FileFormatError(words, file=file, line=line)
        return ids, runs, owner

    def _rows_of_parts(self) -> list[tuple[Part, int, int]]:
        """(file, first row, end) of those that have rows."""
        ends = [*(part.rows for part in self.parts[1:]), self.rows]
        return [(part, part.rows, end) for part, end in zip(self.parts, ends, strict=True) if end > part.rows]

    def _weights(self) -> tuple[str | None, Float64Array]:
        """(the file of weights, one a query or one a row); of several files all have weights, or none."""
        parts = self._rows_of_parts()
        files = [part.weights_file for part, _, _ in parts]
        if not any(files):
            return None, np.zeros(0)
        weights, starts = [], np.concatenate([np.zeros(0, np.int64), *(runs[:, parse.RUN_ROW] for runs in self._runs)])
        for part, begin, end in parts:
            if part.weights_file is None:
                raise FileFormatError("has no weights beside it, but other files of the data set do", file=part.name)
            weights.append(read_weights(part.weights_file))
            runs = np.count_nonzero((starts >= begin) & (starts < end))
            if len(parts) > 1 and self._n_runs and weights[-1].size not in (end - begin, runs):
                words = f"{weights[-1].size:,} weights for {runs:,} queries and {end - begin:,} rows"
                raise FileFormatError(f"{words}: give one a query, or one a row", file=part.weights_file)
        return files[0], np.concatenate(weights)

    def _queries(self) -> tuple[QueryIndex, Int64Array | None]:
        """The queries, and the order of the rows when it is not that of the file."""
        parts = self._rows_of_parts()
        if not self._n_runs:
            given = []
            for part, begin, end in parts:
                if part.sizes_file is None:  # of a single file rows without a qid were refused
                    raise FileFormatError("has neither qids nor group sizes beside it", file=part.name)
                given.append(read_sizes(part.sizes_file, end - begin))
            return QueryIndex.from_sizes(np.concatenate(given)), None
        ids, runs, owner = self._check_regroup()
        starts = runs[:, parse.RUN_ROW]
        sizes = np.diff(starts, append=self.rows)
        for part, begin, end in parts:
            if part.sizes_file is not None:
                check_sizes(part.sizes_file, sizes[(starts >= begin) & (starts < end)], part.name)
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
            if self.options.strict:
                raise FileFormatError(words, file=self.name)
            self._warn(words)
        return QueryIndex(np.cumsum([0, *sizes], dtype=np.int64), ids), order

    # Features --------------------------------------------------------------------------------------------------------

    def _columns(self) -> tuple[int, int]:
        """(number of the first feature, how many there are)."""
        options, has_zero = self.options, bool(self.counts[parse.ZERO_LINE])
        base = options.base
        if base is None:
            base = 0 if has_zero else 1
        top, line = int(self.counts[parse.TOP_ID]), int(self.counts[parse.TOP_LINE])
        if options.space is not None:
            columns = options.space.n_features
            if base == 0 and not has_zero and top == columns and options.zero_based == "auto":
                file, line = self._where(line)
                raise FileFormatError(
                    f"no row has feature 0 but this one has feature {top}, one past the last of the 0-based training "
                    "data: the file looks 1-based; if it is not, say --zero-based true",
                    file=file, line=line,
                )  # fmt: skip
            return base, columns
        if options.n_features is None:
            return base, top + 1 - base
        if top + 1 - base > options.n_features:
            file, line = self._where(line)
            raise FileFormatError(
                f"feature {top} is beyond n_features={options.n_features} of a {base}-based file", file=file, line=line
            )
        return base, options.n_features

    # Warnings --------------------------------------------------------------------------------------------------------

    def _warn(self, words: str, name: str = "") -> None:
        self.warnings.append(f"{name or self.name}: {words}")

    def _describe(self, features: Features, base: int) -> None:
        counts, options = self.counts, self.options
        if counts[parse.BLANK_LINES] > BLANK_SHARE * self.lines:
            self._warn(f"{counts[parse.BLANK_LINES]:,} of {self.lines:,} lines are blank")
        if counts[parse.DESCENDING_ROWS]:
            self._warn(
                f"{counts[parse.DESCENDING_ROWS]:,} rows have feature numbers out of order (first: "
                f"{self._place(counts[parse.DESCENDING_LINE])}): sorted"
            )
        if counts[parse.BEYOND]:
            self._warn(
                f"{counts[parse.BEYOND]:,} values of features that the training data does not have (largest number: "
                f"{counts[parse.TOP_ID]}, {self._place(counts[parse.TOP_LINE])}): ignored"
            )
        if counts[parse.INFINITIES]:
            what = "kept" if options.inf == "keep" else "read as missing"
            self._warn(f"{counts[parse.INFINITIES]:,} infinite values: {what}")
        if counts[parse.MISSING]:
            begins = range(0, features.shape[0], 1 << 16)
            missing = np.sum([missing_in(features[begin : begin + (1 << 16)]) for begin in begins], axis=0)
            fullest = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
            shown = ", ".join(f"{missing[c]:,} in f{base + c}" for c in fullest[:_SHOWN_COLUMNS])
            more = fullest.size - _SHOWN_COLUMNS
            shown += f", and in {more} more features" if more > 0 else ""
            self._warn(f"{counts[parse.MISSING]:,} missing values: {shown}")
