"""Tables with clicks: session logs, click logs, and click columns in a document table.

In a document table, each row is a document at one position. Rows in a query that have the same
value in the document column are one document, with the features of the first row. Without a
document column, each row is a document.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import (
    COLUMNS,
    MAX_POSITION,
    MAX_ROWS,
    ClickLog,
    checked_counts,
    some_documents,
)
from boostrank.core.errors import DataError, FileFormatError, InputError, ParameterError, warn_user
from boostrank.core.text import count_of
from boostrank.core.types import Int64Array, as_numbers, first_true
from boostrank.data.dataset import RankingDataset
from boostrank.data.roles import usual_column
from boostrank.files.judgements import recognised
from boostrank.files.source import matching
from boostrank.files.tables import Batch, arrow, batches, header_of

_BETWEEN, _ROLES = "\x1f", ("qid", "id")
_MANY = 1 << 20


def read_clicks(path: str | PathLike[str], n_documents: int | None = None) -> ClickLog:
    """Read a click log from a table with columns `row,position,impressions,clicks`, one row per
    document and position.

    Args:
        path: a CSV, TSV (plain or compressed), Parquet or Arrow file.
        n_documents: number of rows in the data; None renumbers the rows in the log.

    Raises:
        FileFormatError: an entry is invalid (the message contains its line), or the file cannot be
            read.
    """
    log = _counted([path], COLUMNS[1:], COLUMNS[0], n_documents)
    if n_documents is not None:
        return log
    file_rows, rows = np.unique(log.rows, return_inverse=True)
    return replace(log, rows=rows, n_documents=file_rows.size)


def count_clicks(
    sessions: Sequence[str | PathLike[str]],
    *,
    position: str = "position",
    clicked: str = "clicked",
    impressions: str | None = None,
    row: str = "row",
    keys: Sequence[str] = (),
    documents: str | PathLike[str] | None = None,
) -> ClickLog:
    """Count impressions and clicks of each document at each position, in one pass over session logs
    of any size.

    Args:
        sessions: CSV, TSV (plain or compressed), Parquet or Arrow files or patterns, one row per
            impression.
        position: column with the position at which the document was shown, starting at 1.
        clicked: column with 1 or true if the row was clicked, else 0 or false; with `impressions`,
            a number of clicks.
        impressions: column with the number of impressions in a row; None counts one impression per
            row.
        row: column with the document's row in the data, starting at 1; ignored if `keys` are
            passed.
        keys: columns that identify the document, both in the log and in `documents`. A table may
            name its query and its document otherwise, as `data join` does (qid and doc_id).
        documents: the document table, or a pattern of its files, which is required with `keys`.
            Impressions of other documents are left out, with a warning.

    Raises:
        FileFormatError: a value is invalid (the message contains file and row), or a document is
            repeated.
        InputError: `keys` are passed without `documents`.
    """
    if keys and documents is None:
        raise InputError(
            f"the columns {', '.join(keys)} identify documents; pass the table with them as"
            " documents"
        )
    index = None if documents is None or not keys else _index_of(documents, keys)
    count = None if index is None else len(index)
    files = [file for path in sessions for file in matching(os.fspath(path))]
    columns = position, impressions or "", clicked
    log = _counted(files, columns, row, count, tuple(keys), index)
    if not log.rows.size:
        raise FileFormatError("no rows", file=str(files[0]))
    return log


def _counted(
    paths: Sequence[str | PathLike[str]],
    columns: Sequence[str],
    row: str,
    n_documents: int | None,
    keys: tuple[str, ...] = (),
    index: Any = None,
) -> ClickLog:
    """Sum tables into a log.

    Args:
        columns: position, impression and click columns. Without impressions, each row is one
            impression.
        row: column with document rows, starting at 1; ignored with `keys`, whose values are looked
            up in `index`.
        n_documents: number of documents; None means the largest row.
    """
    pa, (position, impressions, clicked) = arrow(), columns
    n_rows, lacking, first = 0, 0, ""
    numbers = [position, impressions, clicked] if impressions else [position]
    numbers += [] if keys else [row]
    truths = () if impressions else (clicked,)
    nothing = pa.array([], pa.int64())
    waiting = [pa.table(4 * [nothing], ["row", "position", "shown", "clicked"])]
    for path in paths:
        own_keys = _keys_in(path, keys) if keys else ()
        for batch in batches(path, numbers=numbers, texts=own_keys, truths=truths):
            if keys:
                rows, lost = _documents(batch, own_keys, index)
                n_rows += rows.size
                lacking += int((rows == 0).sum())
                first = first or lost
            else:
                rows = batch.whole_column(row, 1, n_documents or MAX_ROWS)
            if impressions:
                counts = checked_counts(batch.number, columns, batch.refuse)
            else:
                positions = batch.whole_column(position, 1, MAX_POSITION)
                counts = positions, np.ones(len(batch), np.int64), batch.truth(clicked)
            impression_columns = [column[rows > 0] for column in (rows, *counts)]
            waiting.append(_summed(pa.table(impression_columns, waiting[0].column_names)))
            # Merge the sums of batches once they are twice as large, so that memory contains little
            # more than entries.
            if sum(map(len, waiting[1:])) > len(waiting[0]) + _MANY:
                waiting = [_summed(pa.concat_tables(waiting))]
    if lacking:
        _say_lacking(lacking, n_rows, first, index)
    rows, ranks, impressions, clicks = [
        column.to_numpy() for column in pa.concat_tables(waiting).columns
    ]
    count = int(rows.max(initial=0)) if n_documents is None else n_documents
    return ClickLog(rows - 1, ranks, impressions, clicks, count)


def _summed(table: Any) -> Any:
    """Sum the rows for each document and position."""
    sums = table.group_by(["row", "position"]).aggregate([("shown", "sum"), ("clicked", "sum")])
    return sums.select(["row", "position", "shown_sum", "clicked_sum"]).rename_columns(
        table.column_names
    )


def _keys_in(path: str | PathLike[str], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table with the keys: their own names, or else another name of a query
    or a document.
    """
    header, roles = (
        header_of(path),
        {key: role for role in _ROLES for key in keys if recognised(role, [key])},
    )
    left = [role for role in _ROLES if role not in roles.values()]
    unknown = [key for key in keys if key not in roles]
    roles |= dict(zip(unknown, left[-len(unknown) :], strict=False))
    others = {
        key: recognised(roles[key], header) for key in keys if key not in header and key in roles
    }
    return tuple(others.get(key) or key for key in keys)


def _index_of(path: str | PathLike[str], keys: Sequence[str]) -> Any:
    """Return the keys of the documents in a table, or in the files of a pattern, as an Arrow text
    array.
    """
    pa, pc = arrow(), arrow(".compute")
    parts = []
    for file in matching(os.fspath(path)):
        own_keys = _keys_in(file, keys)
        parts += [_join_keys(batch, own_keys) for batch in batches(file, texts=own_keys)]
    index = pa.chunked_array(parts or [pa.array([], pa.string())]).combine_chunks()
    counts = pc.value_counts(index)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        name = _describe_key(repeated[0]["values"].as_py())
        words = f"two rows have the keys {name}, so impressions cannot be assigned"
        raise FileFormatError(words, file=str(path))
    return index


def _documents(batch: Batch, keys: Sequence[str], index: Any) -> tuple[Int64Array, str]:
    """Return the document row of each impression, from 1, or 0 if the index lacks it, and the place
    of the first 0.
    """
    pc, texts = arrow(".compute"), _join_keys(batch, keys)
    row = first_true(np.asarray(texts.is_null()))
    if row is not None:
        raise batch.refuse(row, f"the impression has no {' or '.join(keys)}; leave the row out")
    rows = np.asarray(pc.fill_null(pc.index_in(texts, index), -1), np.int64) + 1
    lacking = first_true(rows == 0)
    if lacking is None:
        return rows, ""
    return rows, str(batch.refuse(lacking, _describe_key(texts[lacking].as_py())))


def _say_lacking(lacking: int, rows: int, first: str, index: Any) -> None:
    """Warn about impressions of documents that are not in the index, or raise an error if all
    are.
    """
    if lacking == rows:
        document = _describe_key(index[0].as_py()) if len(index) else "no row"
        words = (
            f"the table has none of the documents in the log: it has {document}; the log has"
            f" {first}"
        )
        raise DataError(f"{words}; write their names alike, or name other columns with --key")
    share = f"{count_of(lacking, 'row')} of {rows:,} in the log"
    warn_user(f"{share} show documents that the table lacks, and are left out; first: {first}")


def _describe_key(key: str | None) -> str:
    return "without a key" if key is None else ", ".join(key.split(_BETWEEN))[:80]


def _join_keys(batch: Batch, keys: Sequence[str]) -> Any:
    """Join the keys in each row to one string, which is null if a key is null."""
    texts = [batch.ids(key) for key in keys]
    return (
        arrow(".compute").binary_join_element_wise(*texts, _BETWEEN) if len(texts) > 1 else texts[0]
    )


@dataclass(frozen=True)
class ClickColumns:
    """The names of the click columns in a document table.

    Args:
        position: position at which the document was shown, starting at 1; may be missing if it was
            never shown.
        impressions, clicks: number of impressions and of clicks at this position.
        document: document id within the query; None if each row is a separate document.
    """

    position: str = "position"
    impressions: str = "impressions"
    clicks: str = "clicks"
    document: str | None = None

    @classmethod
    def from_names(cls, names: Sequence[str]) -> ClickColumns:
        """Create an instance from three or four names, in the order of the fields."""
        if len(names) not in (3, 4) or len(set(names)) < len(names):
            words = "click columns are position, impressions, clicks and optionally the document"
            raise ParameterError(f"{words}: pass three or four names, not {', '.join(names)}")
        return cls(*names)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names."""
        return tuple(filter(None, (self.position, self.impressions, self.clicks, self.document)))


@dataclass(frozen=True, eq=False)
class ClickRows:
    """The validated values in the click columns.

    Args:
        positions, impressions, clicks: int64[N]. The position is 1 if there are no impressions.
        documents: int64[N], codes of the document ids; None if each row is a separate document.
        queries: int64[N], codes of the query ids, if they were read.
    """

    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    documents: Int64Array | None = None
    queries: Int64Array | None = None

    @classmethod
    def read(
        cls, path: str | PathLike[str], columns: ClickColumns, qid: str | None = None
    ) -> ClickRows:
        """Read the columns of a CSV, TSV, Parquet or Arrow file.

        Args:
            qid: query id column to read as well; "" means a column with a default name if there is
                one.
        """
        if qid == "":
            qid = usual_column("qid", header_of(path))
        texts: dict[str, list[Any]] = {name: [] for name in (columns.document, qid) if name}
        parts = [(np.zeros(0, np.int64),) * 3]
        for batch in batches(path, numbers=columns.names[:3], texts=tuple(texts)):
            parts.append(checked_counts(batch.number, columns.names, batch.refuse))
            for name, texts_of_column in texts.items():
                texts_of_column.append(batch.text(name))
                row = first_true(np.asarray(texts_of_column[-1].is_null()))
                if row is not None:
                    raise batch.refuse(row, f"{name} is missing")
        counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        documents = _codes(texts[columns.document]) if columns.document else None
        queries = _codes(texts[qid]) if qid else None
        codes = [documents, queries]
        return cls(*counts, *codes)

    def log(self, queries: Int64Array | None = None) -> tuple[ClickLog, npt.NDArray[np.bool_]]:
        """Return the log of the documents in the order of their first rows, and a mask of these
        rows, bool[N].

        Args:
            queries: int64[N], query of each row; None means the queries that were read, or else a
                single query.
        """
        queries = self.queries if queries is None else queries
        # Number the documents by query and document id, in the order of their first rows.
        rows, first = np.arange(self.positions.size), np.ones(self.positions.size, bool)
        if self.documents is not None:
            names = self.documents
            if queries is not None:
                names = queries * (int(names.max(initial=0)) + 1) + names
            _, at, number = np.unique(names, return_index=True, return_inverse=True)
            first = np.zeros(rows.size, bool)
            first[at] = True
            rows = (np.cumsum(first) - 1)[at][number]
        return (
            ClickLog(rows, self.positions, self.impressions, self.clicks, int(first.sum())),
            first,
        )

    def of_data(self, data: RankingDataset) -> tuple[RankingDataset, ClickLog, Int64Array | None]:
        """Return the distinct documents in a data set with the same rows, their log, and their rows
        (None for all).
        """
        if data.n_documents != self.positions.size:
            raise DataError(
                f"there are {self.positions.size:,} rows of clicks, but {data.n_documents:,} rows"
                " of data"
            )
        log, first = self.log(data.in_input_order(data.queries.of_rows()))
        if first.all():
            return data, log, None
        kept = np.flatnonzero(data.in_row_order(first))
        if data.input_rows is not None:  # the log numbers documents in input order
            log = log.renumbered(np.argsort(data.input_rows[kept]))
        return some_documents(data, kept), log, kept


def _codes(texts: Sequence[Any]) -> Int64Array:
    """Number the texts in Arrow arrays by first appearance, int64[N]."""
    chunks = arrow().chunked_array(texts, arrow().string()).dictionary_encode().chunks
    return np.concatenate([np.zeros(0, np.int64), *(chunk.indices.to_numpy() for chunk in chunks)])


def from_frame(
    frame: Any,
    columns: ClickColumns | None = None,
    *,
    qid: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | str = (),
    sort: bool = False,
    categorical_feature: Sequence[str | int] | str | None = "auto",
) -> tuple[RankingDataset, ClickLog]:
    """Create a data set, whose labels are 0, and a click log from a data frame with click columns.

    Args:
        frame: a table, like `X` in `RankingDataset.from_arrays`.
        qid, weight, drop, sort, categorical_feature: see `RankingDataset.from_frame`.

    Raises:
        DataError: see `RankingDataset.from_frame`; also if a value is invalid, with its row.
    """
    from boostrank.data.arrays import read_frame
    from boostrank.data.frames import as_table, values_of

    columns = columns or ClickColumns()
    dropped = [drop] if isinstance(drop, str) else list(drop)
    # The columns of clicks are no features.
    table = as_table(frame, qid)
    roles = {"label": columns.position, "qid": qid, "weight": weight}
    X, read = read_frame(table, roles, [*dropped, *columns.names[1:]])
    values = {name: values_of(table, name) for name in columns.names}

    def refuse(row: int, reason: str) -> DataError:
        return DataError(f"row {row} (from 0): {reason}")

    counts = checked_counts(
        lambda name: as_numbers(values[name], f"column {name!r}"), columns.names, refuse
    )
    documents = None
    if columns.document is not None:
        names = values[columns.document]
        lost = next(
            (row for row, name in enumerate(names.tolist()) if name is None or name != name), None
        )
        if lost is not None:
            raise refuse(lost, f"{columns.document} is missing")
        if names.dtype.kind == "O":
            names = names.astype(str)
        documents = np.unique(names, return_inverse=True)[1]
    data = RankingDataset.from_arrays(
        X,
        np.zeros(counts[0].size),
        qid=read["qid"],
        weight=read.get("weight"),
        sort=sort,
        categorical_feature=categorical_feature,
    )
    return ClickRows(*counts, documents).of_data(data)[:2]
