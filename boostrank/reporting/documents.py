"""Functions that find queries by id, and documents by rank, row or name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.files.tables import query_name

_RANK = re.compile(r"@\s*(\d+)")
_ROW = re.compile(r"row[ :=]\s*(\d+)")
_NAME = re.compile(r"name[:=]\s*(\S.*)")
_NUMBER = re.compile(r"\d+")
# Number of ids that an error lists, and number of ids that are compared for suggestions.
_LISTED = 10
_COMPARED = 20_000


def shown_name(row: int, data: RankingDataset) -> str:
    """Return the document's name, or its input row counted from 1, such as `row 17`."""
    name = "" if data.document_names is None else str(data.document_names[row])
    return name or f"row {_input_row(row, data)}"


def find_query(qid: Any, queries: QueryIndex) -> int:
    """Return the position of a query, given its id or its query text."""
    # Search the ids, then the query texts.
    text = query_name(str(qid).strip())
    ids = queries.qid
    matches = np.zeros(0, np.int64)
    if ids.dtype.kind not in "iu":
        matches = np.flatnonzero(ids.astype(str) == text)
    elif re.fullmatch(r"[+-]?\d{1,18}", text):
        matches = np.flatnonzero(ids == int(text))
    if not matches.size and queries.words is not None:
        matches = np.flatnonzero(queries.words == text)
    if matches.size == 1:
        return int(matches[0])
    if matches.size:
        rows = ", ".join(str(int(queries.ptr[match]) + 1) for match in matches[:_LISTED])
        raise DataError(
            f"query id {text} is not unique: {matches.size} queries have it, starting at rows"
            f" {rows}; use distinct ids, or bring the rows of each query together (boostrank data"
            " sort, sort=True)"
        )
    # Suggest similar ids.
    if not len(queries):
        raise DataError(f"there is no query {text!r}, because the data has no queries")
    compared_ids = [str(qid) for qid in ids[:_COMPARED]]
    list_all = len(queries) <= _LISTED
    id_range = "" if list_all else f" It has {len(queries):,} queries, from {ids[0]} to {ids[-1]}"
    hint = did_you_mean(text, compared_ids, list_all=list_all)
    raise DataError(f"the data has no query {text!r}.{hint}{id_range}")


def find_document(document: str | int, query: int, data: RankingDataset, ranks: Int64Array) -> int:
    """Return a document's row in the data set.

    Args:
        document: the document's rank (`@3` or 3), input row (`row:17`), or name (`name:D7` or
            `D7`). A string of digits that is not a name in the query is a rank.
        query: position of the query.
        ranks: int64[n], ranks of the query's documents in row order, from 1.
    """
    start = int(data.queries.ptr[query])
    text = f"@{document}" if isinstance(document, int | np.integer) else str(document).strip()
    query_words = f"query {data.queries.describe_query(query)}"
    # Explicit ranks and rows come first.
    rank, row = _RANK.fullmatch(text), _ROW.fullmatch(text)
    if rank:
        return start + _row_of_rank(int(rank[1]), ranks, query_words)
    if row:
        return _row_in_query(int(row[1]), query, data, query_words)
    # Digits without a prefix may be a name or a rank.
    explicit = _NAME.fullmatch(text)
    name = explicit[1] if explicit else text
    names = data.document_names
    query_names = [] if names is None else names[start : start + ranks.size].tolist()
    matches = [i for i, query_name in enumerate(query_names) if query_name == name]
    if len(matches) > 1:
        rows = ", ".join(
            f"row:{_input_row(start + i, data)} (rank {ranks[i]})" for i in matches[:_LISTED]
        )
        raise DataError(
            f"{query_words} has {len(matches)} documents named {name!r}; choose one: {rows}"
        )
    if not explicit and _NUMBER.fullmatch(text):
        by_rank = np.flatnonzero(ranks == int(text)).tolist()
        if matches and by_rank and matches != by_rank:
            raise DataError(
                f"{query_words}: {text} is both a rank and the name of the document at rank"
                f" {ranks[matches[0]]}: write name:{text} or @{text}"
            )
        if not matches:
            return start + _row_of_rank(int(text), ranks, query_words)
    if matches:
        return start + matches[0]
    # Nothing matches, so list the query's documents.
    by_rank = np.argsort(ranks)[:_LISTED].tolist() if query_names else []
    documents = [query_names[i] or f"row:{_input_row(start + i, data)}" for i in by_rank]
    listing = "they have no names; "
    if documents:
        listing = f"by rank: {', '.join(documents)}{', ...' * (ranks.size > len(documents))}; "
    hint = did_you_mean(name, [text for text in query_names if text], list_all=False)
    raise DataError(
        f"{query_words} has no document {name!r}.{hint} It has {ranks.size:,}, {listing}write a"
        f" name, @1 to @{ranks.size} for a rank, or row:N for a row of the data"
    )


def _row_of_rank(rank: int, ranks: Int64Array, query_words: str) -> int:
    if not 1 <= rank <= ranks.size:
        raise DataError(
            f"{query_words} has no rank {rank}: its {ranks.size:,} documents have the ranks @1 to"
            f" @{ranks.size}"
        )
    return int(np.flatnonzero(ranks == rank)[0])


def _row_in_query(row_number: int, query: int, data: RankingDataset, query_words: str) -> int:
    if not 1 <= row_number <= data.n_documents:
        raise DataError(f"the data has no row {row_number}: its rows are 1 to {data.n_documents:,}")
    row = row_number - 1
    if data.input_rows is not None:
        row = int(np.flatnonzero(data.input_rows == row)[0])
    query_of_row = data.queries.of_row(row)
    if query_of_row != query:
        query_rows = "others"
        if data.input_rows is None:
            query_rows = f"rows {data.queries.ptr[query] + 1} to {data.queries.ptr[query + 1]}"
        raise DataError(
            f"row {row_number} belongs to query {data.queries.qid[query_of_row]}; {query_words} has"
            f" {query_rows}"
        )
    return row


def _input_row(row: int, data: RankingDataset) -> int:
    return (row if data.input_rows is None else int(data.input_rows[row])) + 1
