"""Sample of some files, for their rows, queries, width and grades: a few megabytes, however large they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError
from boostrank.core.types import Int64Array
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.blocks import Parser
from boostrank.data.libsvm.chunks import Load, Source, Text, open_source
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.libsvm.reader import parser_of
from boostrank.data.libsvm.side_files import GROUP_SUFFIXES, find_sidecar, read_sizes
from boostrank.data.libsvm.sources import AnySource, expand, size_of
from boostrank.data.readers import reader_of
from boostrank.data.tables.parser import TableParser

SAMPLE_BYTES = 12 << 20
"""Files with up to this much text are read whole."""

_PLACE_BYTES = 1 << 20
_MOST_ROWS = 1 << 40  # of text that is packed
_COUNTED_CELLS = 500_000  # values in which distinct ones are counted


@dataclass(frozen=True)
class Survey:
    """What is known of some files that are one data set. All but `files` and `disk_bytes` come from the sample.

    Args:
        files: how many.
        disk_bytes: what they weigh; None when that is not known (a pipe), and then nor are text_bytes, rows, queries.
        exact: whether all of the text was read.
        sampled_rows: rows of the sample.
        refused_rows: rows of the sample that cannot be read.
        text_bytes: bytes of text, unpacked.
        rows, queries: how many.
        longest: rows of the longest query that was seen; at least that long is one.
        features: columns.
        present: share of the cells that the text names.
        nonzero: share of the cells that are not 0.
        grades: label -> share of the rows, the commonest first.
        distinct: int64[d], distinct values of each column in the sample, up to where counting ended.
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
    present: float
    nonzero: float
    grades: Mapping[float, float]
    distinct: Int64Array

    @property
    def is_sparse(self) -> bool:
        """Whether the reader will keep it as CSR."""
        return self.present < 0.5

    def with_columns(self, added: int) -> Survey:
        """The same with columns within queries, hardly one of whose values is 0 or like another."""
        columns = self.features + added
        nonzero = (self.nonzero * self.features + added) / max(1, columns)
        is_dense = not self.is_sparse or added >= self.features
        distinct = np.concatenate([self.distinct, np.full(added, self.sampled_rows)]).astype(np.int64)
        present = 1.0 if is_dense else self.present
        return replace(self, features=columns, present=present, nonzero=nonzero, distinct=distinct)


def survey(source: AnySource, *, format: str = "auto", labelled: bool = True, **options: Any) -> Survey:
    """Look at some files.

    Args:
        source: as for `RankingDataset.read`. Of a pipe the sample is taken away: it can be read once.
        format: of the files.
        labelled: whether a table must have labels.
        options: of `boostrank.data.options.ReaderOptions`.

    Raises:
        FileFormatError: a file that cannot be opened or unpacked.
        DataError: no row of the sample can be read.
    """
    files = expand(source)
    sizes = [size_of(one) for one in files]
    known = [size for size in sizes if size is not None]
    disk = sum(known) if len(known) == len(files) else None
    table = reader_of(files, format).table
    options |= {"on_bad_line": "skip", "strict": False}
    reading: LibsvmOptions = LibsvmOptions(**options) if table is None else table.options(**options)
    open_one = open_source if table is None else table.open(reading, labelled=labelled)
    sample = _Sample(reading, parser_of if table is None else lambda reading, _: TableParser(reading))
    for i, wanted in _places(sizes):
        with closing(open_one(files[i], None)) as opened:
            sample.take(opened, wanted)
    if not sample.rows:
        rows = "`label qid:ID number:value ...`" if table is None else "labels, query ids and numbers"
        raise DataError(f"{files[0]}: no row of the sample can be read as {rows}")
    base = reading.base if reading.base is not None else int(not sample.has_zero)
    return sample.survey(len(files), disk, base)


def is_pipe(source: AnySource) -> bool:
    """Whether something among the sources can be read only once, so that a sample would be missing afterwards."""
    return any(size_of(one) is None for one in expand(source))


def _places(sizes: Sequence[int | None]) -> Iterator[tuple[int, list[float] | None]]:
    """(file, the places in it as shares of its length) in order; None for all of it."""
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

    def __init__(self, options: LibsvmOptions, parser_of: Callable[..., Any]) -> None:
        self._options, self._parser_of = options, parser_of
        self._known_rows = 0
        self.rows = self._refused = self.text_bytes = self._cells = self._nonzero = self._top = self._grouped_files = 0
        self._boundaries = self._pairs = self._queries = self._longest = 0
        self._disk = self._unpacked = 0.0
        self.has_zero, self._exact = False, True
        self._labels: Counter[float] = Counter()
        self._keys: list[npt.NDArray[np.uint64]] = []
        self._room = _COUNTED_CELLS
        self._sizes: list[int] = []

    def take(self, source: Source, places: list[float] | None) -> None:
        """The chunks of one file that are wanted; None: all of them, while they last."""
        sizes_file = find_sidecar(source.path, GROUP_SUFFIXES)
        parser: Parser = self._parser_of(self._options, source)
        before = self.rows + self._refused
        if source.rows is not None:
            self._take_counted(parser, source)
            counted = True
        else:
            counted = self._take_text(parser, source, places)
        if sizes_file is not None:
            rows = self.rows + self._refused - before if source.rows is None else source.rows
            most = source.text_bytes if source.any_order else _MOST_ROWS
            sizes = read_sizes(sizes_file, rows if counted else most, counted=counted)
            self._sizes += sizes.tolist()
            self._grouped_files += 1

    def _take_text(self, parser: Parser, source: Source, places: list[float] | None) -> bool:
        """`take` of a file that does not say how many rows it has; whether all of it was read."""
        loads = source.loads(_PLACE_BYTES)
        if source.any_order:
            chunks = list(loads)
            if places is not None:
                self._exact = False
                numbers = sorted({min(int(place * len(chunks)), len(chunks) - 1) for place in places})
                chunks = [chunks[i] for i in numbers]
            previous: Any = None
            for load in chunks:
                size, previous = self._add(parser, load, previous if places is None else None)
                self._disk += size
                self._unpacked += size
            return places is None
        # Only from the front: the whole text weighs as many times what it does on disk as this beginning does.
        # It is unpacked from large pieces: at the chunk where the next one is fetched, those before are used up.
        text, previous, fetched, used = 0, None, 0, (0, 0.0)
        for load in loads:
            if source.done > fetched:
                fetched, used = source.done, (fetched, source.text_bytes - _PLACE_BYTES / 2)
            size, previous = self._add(parser, load, previous)
            text += size
            if text >= (SAMPLE_BYTES if places is None else _PLACE_BYTES * max(4, len(places))):
                break
        disk, unpacked = used if used[0] else (source.done, source.text_bytes)
        whole = not next(iter(loads), None)
        self._exact &= whole
        self._disk += disk
        self._unpacked += unpacked
        return whole

    def _take_counted(self, parser: Parser, source: Source) -> None:
        """The first rows of a file that says how many it has."""
        assert source.rows is not None
        before, previous = self.rows + self._refused, None
        for load in source.loads(_PLACE_BYTES):
            _, previous = self._add(parser, load, previous)
            if source.text_bytes >= SAMPLE_BYTES:
                break
        self._known_rows += source.rows
        self._exact &= self.rows + self._refused - before == source.rows

    def _add(self, parser: Parser, load: Load, previous: Any) -> tuple[int, Any]:
        """(bytes of text, id of the last query) of one chunk; `previous` is the id before it, where that is known."""
        texts: list[Text] = []

        def measured(buffer: bytearray | None) -> Text:
            texts.append(load(buffer))
            return texts[0]

        block = parser(measured)
        size = texts[0].size
        self.text_bytes += size
        self._refused += int(block.counts[parse.BAD_ROWS])
        if not block.n_rows:
            return size, previous
        self.rows += block.n_rows
        self.has_zero |= bool(block.counts[parse.ZERO_LINE])
        self._top = max(self._top, int(block.counts[parse.TOP_ID]))
        self._cells += int(block.counts[parse.CELLS])
        self._labels.update(np.sort(block.labels).tolist())
        if block.dense is not None:
            where = np.nonzero(block.dense)
            columns, values = where[1].astype(np.uint64), block.dense[where]
        else:
            assert block.sparse is not None
            columns, values = block.sparse[1].astype(np.uint64), block.sparse[2]
        self._nonzero += values.size
        if self._room > 0:  # (column, value) of the first rows
            columns, values = columns[: self._room], values[: self._room]
            self._room -= values.size
            self._keys.append(np.unique((columns << np.uint64(32)) | values.view(np.uint32)))
        if not len(block.runs):
            return size, None
        ids = [block.names.get(i, int(run[parse.RUN_ID])) for i, run in enumerate(block.runs)]
        lengths = np.diff(block.runs[:, parse.RUN_ROW], append=block.n_rows)
        goes_on = previous is not None and previous[0] == ids[0]
        if goes_on:
            lengths[0] += previous[1]
        self._longest = max(self._longest, int(lengths.max()))
        self._queries += len(ids) - goes_on
        self._boundaries += len(ids) - 1
        self._pairs += block.n_rows - 1
        return size, (ids[-1], int(lengths[-1]))

    def survey(self, files: int, disk: int | None, base: int) -> Survey:
        """The survey."""
        features = self._top + 1 - base
        keys = np.unique(np.concatenate(self._keys)) if self._keys else np.zeros(0, np.uint64)
        distinct = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=base + features)[base:] + 1
        text = rows = queries = None
        if self._exact:
            text, rows, queries = float(self.text_bytes), self.rows, self._queries
        elif disk is not None and not self._known_rows:
            text = disk * self._unpacked / max(self._disk, 1)
            rows = round(text * self.rows / self.text_bytes)
            often = max(self._boundaries, 1) / max(self._pairs, 1)
            queries = max(files, round(rows * often))
        if self._known_rows and not self._exact:
            often = max(self._boundaries, 1) / max(self._pairs, 1)
            rows, queries = self._known_rows, max(files, round(self._known_rows * often))
            text = float(self.text_bytes) / self.rows * rows
        longest = self._longest
        if self._grouped_files == files and self._sizes:
            rows, queries, longest = sum(self._sizes), len(self._sizes), max(self._sizes)
        cells = self.rows * features or 1
        return Survey(
            files=files, disk_bytes=disk, exact=self._exact, sampled_rows=self.rows, refused_rows=self._refused,
            text_bytes=text, rows=rows, queries=queries, longest=longest, features=features,
            present=self._cells / cells, nonzero=self._nonzero / cells,
            grades={label: n / self.rows for label, n in self._labels.most_common()},
            distinct=distinct,
        )  # fmt: skip
