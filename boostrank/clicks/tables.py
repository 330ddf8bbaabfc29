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
from boostrank.core.errors import DataError, FileFormatError, InputError, warn_user
from boostrank.core.files import AnyPath
from boostrank.core.text import count_of
from boostrank.core.types import Int64Array, first_true
from boostrank.files.judgements import recognised
from boostrank.files.source import matching
from boostrank.files.tables import Batch, arrow, batches, header_of

_BETWEEN, _ROLES = "\x1f", ("qid", "id")
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
    log = _sum_tables([path], COLUMNS, n_documents)
    if n_documents is not None:
        return log
    file_rows, rows = np.unique(log.rows, return_inverse=True)
    return replace(log, rows=rows, n_documents=file_rows.size)


def count_clicks(
    sessions: Sequence[AnyPath],
    *,
    position: str = "position",
    clicked: str = "clicked",
    impressions: str | None = None,
    row: str = "row",
    keys: Sequence[str] = (),
    documents: AnyPath | None = None,
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
    index = None
    if keys:
        if documents is None:
            raise InputError(
                f"the columns {', '.join(keys)} identify documents; pass the table with them as"
                " documents"
            )
        index = _index_of(documents, keys)
    files = [file for path in sessions for file in matching(os.fspath(path))]
    log = _sum_tables(files, (row, position, impressions or "", clicked), None, keys, index)
    if not log.rows.size:
        raise FileFormatError("no rows", file=str(files[0]))
    return log


def _sum_tables(
    paths: Sequence[AnyPath],
    columns: Sequence[str],
    n_documents: int | None,
    keys: Sequence[str] = (),
    index: Any = None,
) -> ClickLog:
    """Sum tables into a log.

    Args:
        columns: document row (starting at 1), position, impression and click columns. Without
            impressions, each row is one impression. With `keys`, their values are looked up in
            `index` instead of the document row.
        n_documents: number of documents; None means the largest row.
    """
    pa = arrow()
    row, position, impressions, clicked = columns
    n_rows = lacking = 0
    first = ""
    numbers = [position, clicked, *filter(None, [impressions])]
    numbers += [] if keys else [row]
    nothing = pa.array([], pa.int64())
    waiting = [pa.table(4 * [nothing], ["row", "position", "shown", "clicked"])]
    for path in paths:
        own_keys = _keys_in(path, keys) if keys else ()
        for batch in batches(path, numbers=numbers, texts=own_keys):
            if keys:
                rows, lost = _documents(batch, own_keys, index)
                n_rows += rows.size
                lacking += int((rows == 0).sum())
                first = first or lost
            else:
                rows = batch.whole_column(row, 1, n_documents or MAX_ROWS)
            if impressions:
                counts = checked_counts(batch.number, columns[1:], batch.refuse)
            else:
                positions = batch.whole_column(position, 1, MAX_POSITION)
                counts = positions, np.ones(len(batch), np.int64), batch.whole_column(clicked, 0, 1)
            impression_columns = [column[rows > 0] for column in (rows, *counts)]
            waiting.append(_summed(pa.table(impression_columns, waiting[0].column_names)))
            # Merge the sums of batches once they are twice as large, so that memory contains little
            # more than entries.
            if sum(map(len, waiting[1:])) > len(waiting[0]) + _MANY:
                waiting = [_summed(pa.concat_tables(waiting))]
    # Warn about impressions of documents that are not in the index, or refuse a log of such ones.
    if lacking and lacking == n_rows:
        document = _describe_key(index[0].as_py()) if len(index) else "no row"
        raise DataError(
            f"the table has none of the documents in the log: it has {document}; the log has"
            f" {first}; write their names alike, or name other columns with --key"
        )
    if lacking:
        warn_user(
            f"{count_of(lacking, 'row')} of {n_rows:,} in the log show documents that the table"
            f" lacks, and are left out; first: {first}"
        )
    rows, ranks, n_shown, n_clicks = map(np.asarray, pa.concat_tables(waiting).columns)
    if keys:
        n_documents = len(index)
    elif n_documents is None:
        n_documents = int(rows.max(initial=0))
    return ClickLog(rows - 1, ranks, n_shown, n_clicks, n_documents)


def _summed(table: Any) -> Any:
    """Sum the rows for each document and position."""
    sums = table.group_by(["row", "position"]).aggregate([("shown", "sum"), ("clicked", "sum")])
    return sums.select(["row", "position", "shown_sum", "clicked_sum"]).rename_columns(
        table.column_names
    )


def _keys_in(path: AnyPath, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table with the keys: their own names, or else another name of a query
    or a document.
    """
    header = header_of(path)
    roles = {key: role for role in _ROLES for key in keys if recognised(role, [key])}
    free_roles = [role for role in _ROLES if role not in roles.values()]
    unknown = [key for key in keys if key not in roles]
    roles |= dict(zip(unknown, free_roles[-len(unknown) :], strict=False))
    recognised_names = {
        key: recognised(roles[key], header) for key in keys if key not in header and key in roles
    }
    return tuple(recognised_names.get(key) or key for key in keys)


def _index_of(path: AnyPath, keys: Sequence[str]) -> Any:
    """Return the keys of the documents in a table, or in the files of a pattern, as an Arrow text
    array.
    """
    pa = arrow()
    pc = arrow(".compute")
    key_batches = []
    for file in matching(os.fspath(path)):
        own_keys = _keys_in(file, keys)
        key_batches += [_join_keys(batch, own_keys) for batch in batches(file, texts=own_keys)]
    index = pa.chunked_array(key_batches, pa.string()).combine_chunks()
    counts = pc.value_counts(index)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        name = _describe_key(repeated[0]["values"].as_py())
        raise FileFormatError(
            f"two rows have the keys {name}, so impressions cannot be assigned", file=str(path)
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
    return "without a key" if key is None else ", ".join(key.split(_BETWEEN))[:80]


def _join_keys(batch: Batch, keys: Sequence[str]) -> Any:
    """Join the keys in each row to one string, which is null if a key is null."""
    texts = [batch.ids(key) for key in keys]
    return (
        arrow(".compute").binary_join_element_wise(*texts, _BETWEEN) if len(texts) > 1 else texts[0]
    )
