"""Sample of some files, for their rows, queries, width and grades: a few megabytes, however large they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import DataError
from boostrank.data import blocks as slots
from boostrank.data.side_files import GROUP_SUFFIXES, find_sidecar, read_sizes
from boostrank.data.source import AnySource, File, Source, expand, open_files, size_of

SAMPLE_BYTES = 12 << 20
"""Files with up to this much text are read whole."""

_PLACE_BYTES = 1 << 20
_MOST_ROWS = 1 << 40  # of text that is packed


@dataclass(frozen=True)
class Survey:
    """Size and shape of the files of one data set. All but `files` and `disk_bytes` come from the sample.

    Args:
        files: number of files.
        disk_bytes: their size; None if unknown (a pipe), and then text_bytes, rows and queries are unknown, too.
        exact: whether all of the text was read.
        sampled_rows: rows of the sample.
        refused_rows: rows of the sample that cannot be read.
        text_bytes: bytes of text, unpacked.
        rows, queries: number of rows and queries.
        longest: rows of the longest query in the sample.
        features: number of columns.
        used: number of columns with a value in some row; an upper bound if the sample is not the whole.
        present: share of the cells that the text names.
        nonzero: share of the cells that are not 0.
        grades: label -> share of the rows, the commonest first.
    """

    files: int
    disk_bytes: int | None
    exact: bool
    sampled_rows: int
    refused_rows: int
    text_bytes: float | None
    rows: int | None
    queries: int | None
    longest: int
    features: int
    used: int
    present: float
    nonzero: float
    grades: Mapping[float, float]

    @property
    def is_sparse(self) -> bool:
        """Whether the reader will keep it as CSR."""
        return self.present < 0.5

    def with_columns(self, added: int) -> Survey:
        """Return the same with columns within queries, hardly one of whose values is 0."""
        columns = self.features + added
        nonzero = (self.nonzero * self.features + added) / max(1, columns)
        is_dense = not self.is_sparse or added >= self.features
        used = self.used + added
        return replace(self, features=columns, used=used, present=1.0 if is_dense else self.present, nonzero=nonzero)


def survey(source: AnySource, *, format: str = "auto", **options: Any) -> Survey:
    """Look at a sample of some files.

    Args:
        source: as for `RankingDataset.read`. Of a pipe the sample is taken away: it can be read once.
        format: of the files.
        options: of `boostrank.data.source.Reading`.

    Raises:
        FileFormatError: a file that cannot be opened or unpacked.
        DataError: no row of the sample can be read.
    """
    files = expand(source)
    sizes = [size_of(one) for one in files]
    known = [size for size in sizes if size is not None]
    disk = sum(known) if len(known) == len(files) else None
    options |= {"on_bad_line": "skip", "strict": False, "max_bytes": None}
    sample, base = _Sample(), None
    for i, places in _places(sizes):
        spec, opened = open_files([files[i]], format, **options)
        with closing(opened):
            sample.take(opened, opened.first, places)
            base = opened.base
    if not sample.rows:
        rows = "labels, query ids and numbers" if spec.is_table else "`label qid:ID number:value ...`"
        raise DataError(f"{files[0]}: no row of the sample can be read as {rows}")
    return sample.survey(len(files), disk, int(not sample.has_zero) if base is None else base)


def is_pipe(source: AnySource) -> bool:
    """Return True if some source can be read only once, so that a sample would be missing afterwards."""
    return any(size_of(one) is None for one in expand(source))


def _places(sizes: Sequence[int | None]) -> Iterator[tuple[int, list[float] | None]]:
    """Yield (file, places in it as shares of its length) in order; None for all of it."""
    total = sum(size or 0 for size in sizes)
    if None in sizes:
        yield sizes.index(None), [0.0]
        return
    if total <= SAMPLE_BYTES:
        yield from ((i, None) for i in range(len(sizes)))
        return
    ends = np.cumsum([size or 0 for size in sizes])
    places = SAMPLE_BYTES // _PLACE_BYTES
    at = (np.arange(places) + 0.5) * (total / places)
    owners = np.searchsorted(ends, at, side="right")
    for i in np.unique(owners).tolist():
        size = sizes[i] or 1
        yield i, [float(x - (ends[i] - size)) / size for x in at[owners == i]]


class _Sample:
    """Adds up what the parsed places hold."""

    def __init__(self) -> None:
        self.rows = self._refused = self._text = self._cells = self._nonzero = self._top = self._grouped_files = 0
        self._boundaries = self._pairs = self._queries = self._longest = self._known_rows = 0
        self._disk = self._unpacked = 0.0
        self.has_zero, self._exact = False, True
        self._labels: Counter[float] = Counter()
        self._used: set[int] = set()
        self._sizes: list[int] = []

    def take(self, source: Source, file: File, places: list[float] | None) -> None:
        """Add the chunks of one file that are wanted; None: all of them, while they last."""
        before = self.rows + self._refused
        whole = self._chunks(source, file, places)
        counted = self.rows + self._refused - before
        if file.rows is not None:
            self._known_rows += file.rows
            whole = counted == file.rows
        self._exact &= whole
        sizes_file = find_sidecar(file.path, GROUP_SUFFIXES)
        if sizes_file is not None:
            is_known = whole or file.rows is not None
            most = counted if whole else file.rows or (file.text_bytes if file.any_order else _MOST_ROWS)
            self._sizes += read_sizes(sizes_file, most, counted=is_known).tolist()
            self._grouped_files += 1

    def _chunks(self, source: Source, file: File, places: list[float] | None) -> bool:
        """Add the chunks of one file; return whether these were all."""
        loads, previous = file.loads(_PLACE_BYTES), None
        if file.any_order:
            chunks = list(loads)
            if places is not None:
                numbers = sorted({min(int(place * len(chunks)), len(chunks) - 1) for place in places})
                chunks = [chunks[i] for i in numbers]
            for load in chunks:
                size, previous = self._add(source, load, previous if places is None else None)
                self._disk += size
                self._unpacked += size
            return places is None
        # Only from the front: the whole text weighs as many times what it does on disk as this beginning does.
        # It is unpacked from large pieces: at the chunk where the next one is fetched, those before are used up.
        text, fetched, used = 0, 0, (0, 0.0)
        for load in loads:
            if file.done > fetched:
                fetched, used = file.done, (fetched, file.text_bytes - _PLACE_BYTES / 2)
            size, previous = self._add(source, load, previous)
            text += size
            all_wanted = places is None or file.rows is not None
            if text >= (SAMPLE_BYTES if all_wanted else _PLACE_BYTES * max(4, len(places or ()))):
                break
        disk, unpacked = used if used[0] else (file.done, file.text_bytes)
        self._disk += disk
        self._unpacked += unpacked
        return not next(iter(loads), None)

    def _add(self, source: Source, load: Callable[[Any], Any], previous: Any) -> tuple[int, Any]:
        """Add a chunk; return its bytes and its last query. `previous` is the query before it, if known."""
        block = source.parse(load)
        self._text += block.size
        self._refused += int(block.counts[slots.BAD_ROWS])
        if not block.n_rows:
            return block.size, previous
        self.rows += block.n_rows
        self.has_zero |= bool(block.counts[slots.ZERO_LINE])
        self._top = max(self._top, int(block.counts[slots.TOP_ID]))
        self._cells += int(block.counts[slots.CELLS])
        self._labels.update(np.sort(block.labels).tolist())
        dense = block.dense
        self._nonzero += int(np.count_nonzero(block.cells()[2] if dense is None else dense))
        self._used.update(np.unique(block.cells()[1]).tolist() if dense is None else range(dense.shape[1]))
        if not len(block.runs):
            return block.size, None
        ids = [block.names.get(i, int(run[slots.RUN_ID])) for i, run in enumerate(block.runs)]
        lengths = np.diff(block.runs[:, slots.RUN_ROW], append=block.n_rows)
        goes_on = previous is not None and previous[0] == ids[0]
        if goes_on:
            lengths[0] += previous[1]
        self._longest = max(self._longest, int(lengths.max()))
        self._queries += len(ids) - goes_on
        self._boundaries += len(ids) - 1
        self._pairs += block.n_rows - 1
        return block.size, (ids[-1], int(lengths[-1]))

    def survey(self, files: int, disk: int | None, base: int) -> Survey:
        """Return the survey."""
        features, text, rows, queries = self._top + 1 - base, None, None, None
        often = max(self._boundaries, 1) / max(self._pairs, 1)  # new queries a row
        if self._exact:
            text, rows, queries = float(self._text), self.rows, self._queries
        elif self._known_rows:
            rows, queries = self._known_rows, max(files, round(self._known_rows * often))
            text = float(self._text) / self.rows * rows
        elif disk is not None:
            text = disk * self._unpacked / max(self._disk, 1)
            rows = round(text * self.rows / self._text)
            queries = max(files, round(rows * often))
        longest = self._longest
        if self._grouped_files == files and self._sizes:
            rows, queries, longest = sum(self._sizes), len(self._sizes), max(self._sizes)
        cells = self.rows * features or 1
        used = min(features, round(len(self._used) * max(1.0, (rows or self.rows) / self.rows)))
        grades = {label: n / self.rows for label, n in self._labels.most_common()}
        return Survey(
            files,
            disk,
            self._exact,
            self.rows,
            self._refused,
            text,
            rows,
            queries,
            longest,
            features,
            used,
            self._cells / cells,
            self._nonzero / cells,
            grades,
        )
