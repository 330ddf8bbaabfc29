"""Clicks that stand in columns of the data's own table, beside the features.

A row is a document at one position. Rows of a query with the same name in the column of documents are one document,
whose features are those of its first row; without such a column each row is a document of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import MOST, ClickLog, some_documents
from boostrank.clicks.propensities import MAX_POSITION
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.tables.batches import batches, header_of, whole_numbers
from boostrank.data.tables.columns import DEFAULTS


@dataclass(frozen=True)
class ClickColumns:
    """Columns of a table.

    Args:
        position: at which the document was shown, from 1; where it never was, nothing has to stand there.
        impressions: how often; 0 where it never was.
        clicks: how often it was clicked there.
        document: names the document within its query; None: each row is another.
    """

    position: str = "position"
    impressions: str = "impressions"
    clicks: str = "clicks"
    document: str | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> ClickColumns:
        """Three or four names, in that order.

        Raises:
            ParameterError: more, fewer, or one of them twice.
        """
        if len(names) not in (3, 4) or len(set(names)) < len(names):
            raise ParameterError(
                f"columns of clicks are position, impressions, clicks and, if rows are to be put together, the "
                f"document: three or four names, not {', '.join(names)}"
            )
        return cls(*names)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that there are."""
        return tuple(filter(None, (self.position, self.impressions, self.clicks, self.document)))


@dataclass(frozen=True, eq=False)
class ClickRows:
    """What the columns hold, checked.

    Args:
        positions, impressions, clicks: int64[N], of each row; position 1 where there are no impressions.
        documents: int64[N], numbers of names; None: each row is another document.
        queries: int64[N], numbers of the names in a column of queries, where one was read.
    """

    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    documents: Int64Array | None = None
    queries: Int64Array | None = None

    @classmethod
    def read(cls, path: str | PathLike[str], columns: ClickColumns, qid: str | None = None) -> ClickRows:
        """Those of a CSV, TSV, Parquet or Arrow file.

        Args:
            path: of the file.
            columns: what they are called.
            qid: a column of query ids, if that is to be read too; "": one that is called so, if there is.

        Raises:
            FileFormatError: a column that is not there, or a cell that cannot be, by its place.
        """
        if qid == "":
            qid = next((name for name in DEFAULTS["qid"] if name in header_of(path)), None)
        texts = tuple(filter(None, (columns.document, qid)))
        parts: list[list[Int64Array]] = [[] for _ in range(3 + len(texts))]
        known: list[dict[Any, int]] = [{} for _ in texts]
        for batch in batches(path, numbers=columns.names[:3], texts=texts):
            for part, one in zip(parts, checked_counts(batch.number, columns.names, batch.refuse), strict=False):
                part.append(one)
            for name, codes, part in zip(texts, known, parts[3:], strict=True):
                text = batch.text(name)
                if text.null_count:
                    raise batch.refuse(int(np.flatnonzero(np.asarray(text.is_null()))[0]), f"{name} is missing")
                coded = text.dictionary_encode()
                own = [codes.setdefault(value, len(codes)) for value in coded.dictionary.to_pylist()]
                part.append(np.array(own, np.int64)[coded.indices.to_numpy(zero_copy_only=False)])
        found = [np.concatenate([np.zeros(0, np.int64), *part]) for part in parts]
        positions, impressions, clicks, *names = found
        named = dict(zip(texts, names, strict=True))
        return cls(positions, impressions, clicks, named.get(columns.document or ""), named.get(qid or ""))

    def log(self, queries: Int64Array | None = None) -> tuple[ClickLog, npt.NDArray[np.bool_]]:
        """The log of the documents, in the order of their first rows; and bool[N], which rows these are.

        Args:
            queries: int64[N], number of the query of each row; None: those that were read, or all are of one.
        """
        queries = self.queries if queries is None else queries
        rows, first = np.arange(self.positions.size), np.ones(self.positions.size, bool)
        if self.documents is not None:
            names = self.documents
            if queries is not None:
                names = queries * (int(names.max(initial=0)) + 1) + names
            _, at, number = np.unique(names, return_index=True, return_inverse=True)
            first = np.zeros(rows.size, bool)
            first[at] = True
            rows = (np.cumsum(first) - 1)[at][number]
        shown = self.impressions > 0
        log = ClickLog(
            rows[shown], self.positions[shown], self.impressions[shown], self.clicks[shown], int(first.sum())
        )
        return log, first

    def of_data(self, data: RankingDataset) -> tuple[RankingDataset, ClickLog, Int64Array | None]:
        """The documents of a data set that was read from the same rows, each once; their log; and the rows of the data
        set that they are (None: all).

        Raises:
            DataError: another number of rows.
        """
        if data.n_documents != self.positions.size:
            raise DataError(f"{self.positions.size:,} rows of clicks, and the data have {data.n_documents:,}")
        log, first = self.log(data.in_input_order(data.queries.of_rows()))
        if first.all():
            return data, log, None
        kept = np.flatnonzero(data.in_row_order(first))
        if data.input_rows is not None:  # the log counts documents as they came in
            log = log.renumbered(np.argsort(data.input_rows[kept]))
        return some_documents(data, kept), log, kept


def from_frame(
    frame: Any,
    columns: ClickColumns | None = None,
    *,
    qid: str = "qid",
    weight: str | None = None,
    drop: Sequence[str] | str = (),
    sort: bool = False,
    categorical_feature: Sequence[str | int] | str | None = "auto",
) -> tuple[RankingDataset, ClickLog]:
    """The documents of a data frame, with labels of 0, and their clicks, which stand in columns of it.

    Args:
        frame: a table, as `X` of `RankingDataset.from_arrays`.
        columns: of the clicks.
        qid, weight, drop, sort, categorical_feature: as of `RankingDataset.from_frame`.

    Raises:
        DataError: as `from_frame`; a cell that cannot be, by its row.
    """
    from boostrank.data.arrays import read_frame
    from boostrank.data.frames import as_frame, names_of, values_of

    columns = columns or ClickColumns()
    dropped = [drop] if isinstance(drop, str) else list(drop)
    X, _, ids, weights = read_frame(frame, columns.position, qid, weight, [*dropped, *columns.names[1:]])
    table = as_frame(frame)
    found = {name: values_of(table, names_of(table).index(name)) for name in columns.names}

    def number(name: str) -> Float64Array:
        try:
            return np.array([np.nan if one is None else one for one in found[name].tolist()], np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column {name!r} holds no numbers") from None

    counts = checked_counts(number, columns.names, _refuse)
    documents = None
    if columns.document is not None:
        names = found[columns.document]
        lost = next((row for row, one in enumerate(names.tolist()) if one is None or one != one), None)
        if lost is not None:
            raise _refuse(lost, f"{columns.document} is missing")
        documents = np.unique(names.astype(str) if names.dtype.kind == "O" else names, return_inverse=True)[1]
    labels = np.zeros(counts[0].size)
    data = RankingDataset.from_arrays(
        X, labels, qid=ids, weight=weights, sort=sort, categorical_feature=categorical_feature
    )
    return ClickRows(*counts, documents).of_data(data)[:2]


def checked_counts(
    number: Callable[[str], Float64Array], names: Sequence[str], refuse: Callable[[int, str], Exception]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(positions, impressions, clicks) of some rows.

    Args:
        number: gives a column.
        names: of these columns.
        refuse: makes the error about a row.
    """
    position, shown, clicked = names[:3]
    impressions = whole_numbers(number(shown), shown, 0, MOST, None, refuse)
    clicks = whole_numbers(number(clicked), clicked, 0, MOST, None, refuse)
    positions = whole_numbers(number(position), position, 1, MAX_POSITION, impressions > 0, refuse)
    more = np.flatnonzero(clicks > impressions)
    if more.size:
        words = f"{clicks[more[0]]} {clicked} of {impressions[more[0]]} {shown}: an impression is clicked or not"
        raise refuse(int(more[0]), words)
    return positions, impressions, clicks


def _refuse(row: int, reason: str) -> DataError:
    return DataError(f"row {row} (from 0): {reason}")
