"""Tables with clicks: session logs and click logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.clicks.log import (
    COLUMNS,
    MAX_POSITION,
    MAX_ROWS,
    ClickLog,
    checked_counts,
)
from boostrank.core.errors import DataError, FileFormatError, warn_user
from boostrank.core.files import AnyPath
from boostrank.core.text import count_of
from boostrank.core.types import Int64Array, first_true
from boostrank.files.judgements import recognised
from boostrank.files.source import matching
from boostrank.files.tables import Batch, arrow, batches, header_of
from boostrank.options import as_list

_BETWEEN = "\x1f"
_MANY = 1 << 20


def read_clicks(path: AnyPath, n_documents: int | None = None) -> ClickLog:
    """Read a click log from a table with columns `row,position,impressions,clicks`, one row per
    document and position.

    Args:
        path: a CSV, TSV (plain or compressed), Parquet or Arrow file.
        n_documents: number of rows in the data; None renumbers the rows in the log.

    Raises:
        FileFormatError: an entry is invalid (the message contains its line), or the file cannot be
            read.
    """
    sums = _Sums()
    for batch in batches(path, numbers=COLUMNS):
        rows = batch.whole_column("row", 1, n_documents or MAX_ROWS)
        sums.add(rows, *checked_counts(batch.number, COLUMNS[1:], batch.refuse))
    log = sums.log(n_documents)
    if n_documents is not None:
        return log
    file_rows, rows = np.unique(log.rows, return_inverse=True)
    return replace(log, rows=rows, n_documents=file_rows.size)


def count_clicks(
    sessions: AnyPath | Sequence[AnyPath], documents: AnyPath | None = None
) -> ClickLog:
    """Count impressions and clicks of each document at each position, in one pass over session logs
    of any size.

    The column `position` starts at 1, and `clicked` is 1 or true if the row was clicked, else 0 or
    false. The column `row` is the document's row in the data, starting at 1.

    Args:
        sessions: one or more CSV, TSV (plain or compressed), Parquet or Arrow files or patterns,
            one row per impression.
        documents: the document table, or a pattern of its files. Query and document, in columns of
            usual names (qid and doc_id), then identify the row instead of `row`. Impressions of
            other documents are left out, with a warning.

    Raises:
        FileFormatError: a value is invalid (the message contains file and row), or a document is
            repeated.
        DataError: the table has none of the documents.
    """
    index: Any = None
    n_documents = None
    if documents is not None:
        index = _index_of(documents)
        n_documents = len(index)
    files = [file for path in as_list(sessions) for file in matching(os.fspath(path))]
    sums, n_rows, lacking, first = _Sums(), 0, 0, ""
    for path in files:
        keys = () if index is None else _keys_in(path)
        numbers = ["position", "clicked"] if keys else ["position", "clicked", "row"]
        for batch in batches(path, numbers=numbers, texts=keys):
            if keys:
                rows, lost = _documents(batch, keys, index)
                lacking += int((rows == 0).sum())
                first = first or lost
            else:
                rows = batch.whole_column("row", 1, MAX_ROWS)
            n_rows += rows.size
            positions = batch.whole_column("position", 1, MAX_POSITION)
            clicks = batch.whole_column("clicked", 0, 1)
            columns = (rows, positions, np.ones(len(batch), np.int64), clicks)
            sums.add(*[column[rows > 0] for column in columns])
    if not n_rows:
        raise FileFormatError("no rows", file=str(files[0]))
    # Warn about impressions of documents that are not in the index, or refuse a log of such ones.
    if lacking == n_rows:
        document = _describe_key(index[0].as_py()) if n_documents else "no row"
        raise DataError(
            f"the table has none of the documents in the log: it has {document}; the log has"
            f" {first}; write their names alike"
        )
    if lacking:
        warn_user(
            f"{count_of(lacking, 'row')} of {n_rows:,} in the log show documents that the table"
            f" lacks, and are left out; first: {first}"
        )
    return sums.log(n_documents)


class _Sums:
    """Sums of impressions and clicks by document row, starting at 1, and position."""

    def __init__(self) -> None:
        nothing = arrow().array([], "int64")
        self._waiting = [arrow().table(4 * [nothing], ["row", "position", "shown", "clicked"])]

    def add(self, *columns: Int64Array) -> None:
        """Add rows, positions, impressions and clicks."""
        names = self._waiting[0].column_names
        self._waiting.append(_summed(arrow().table(columns, names)))
        # Merge the sums of batches once they are twice as large, so that memory contains little
        # more than entries.
        if sum(map(len, self._waiting[1:])) > len(self._waiting[0]) + _MANY:
            self._waiting = [_summed(arrow().concat_tables(self._waiting))]

    def log(self, n_documents: int | None) -> ClickLog:
        """Return the log of a number of documents; None means the largest row."""
        columns = arrow().concat_tables(self._waiting).columns
        rows, positions, n_shown, n_clicks = map(np.asarray, columns)
        if n_documents is None:
            n_documents = int(rows.max(initial=0))
        return ClickLog(rows - 1, positions, n_shown, n_clicks, n_documents)


def _summed(table: Any) -> Any:
    """Sum the rows for each document and position."""
    sums = table.group_by(["row", "position"]).aggregate([("shown", "sum"), ("clicked", "sum")])
    return sums.select(["row", "position", "shown_sum", "clicked_sum"]).rename_columns(
        table.column_names
    )


def _keys_in(path: AnyPath) -> list[str]:
    """Return the columns of a table with query and document."""
    header = header_of(path)
    names = [recognised(role, header) for role in ("qid", "id")]
    keys = [name for name in names if name is not None]
    if len(keys) < 2:
        raise FileFormatError(
            "query and document need a column each, such as qid and doc_id; the columns are"
            f" {', '.join(header)}",
            file=str(path),
        )
    return keys


def _index_of(path: AnyPath) -> Any:
    """Return the query and document of the rows of a table, or of the files of a pattern, as an
    Arrow text array.
    """
    pa = arrow()
    pc = arrow(".compute")
    key_batches = []
    for file in matching(os.fspath(path)):
        keys = _keys_in(file)
        key_batches += [_join_keys(batch, keys) for batch in batches(file, texts=keys)]
    index = pa.chunked_array(key_batches, pa.string()).combine_chunks()
    counts = pc.value_counts(index)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        key = _describe_key(repeated[0]["values"].as_py())
        raise FileFormatError(
            f"two rows are {key}, so impressions cannot be assigned", file=str(path)
        )
    return index


def _documents(batch: Batch, keys: Sequence[str], index: Any) -> tuple[Int64Array, str]:
    """Return the document row of each impression, from 1, or 0 if the index lacks it, and the place
    of the first 0.
    """
    pc = arrow(".compute")
    texts = _join_keys(batch, keys)
    row = first_true(np.asarray(texts.is_null()))
    if row is not None:
        raise batch.refuse(row, f"the impression has no {' or '.join(keys)}; leave the row out")
    rows = np.asarray(pc.fill_null(pc.index_in(texts, index), -1), np.int64) + 1
    lacking = first_true(rows == 0)
    if lacking is None:
        return rows, ""
    return rows, str(batch.refuse(lacking, _describe_key(texts[lacking].as_py())))


def _describe_key(key: str | None) -> str:
    return "without a name" if key is None else ", ".join(key.split(_BETWEEN))[:80]


def _join_keys(batch: Batch, keys: Sequence[str]) -> Any:
    """Join query and document in each row to one string, which is null if one of them is null."""
    return arrow(".compute").binary_join_element_wise(*map(batch.ids, keys), _BETWEEN)
