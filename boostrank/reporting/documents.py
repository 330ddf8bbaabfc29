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

_RANK = re.compile(r"(@\s*)?(\d+)")
_ROW = re.compile(r"row[ :=]\s*(\d+)")
_NAME = re.compile(r"name[:=]\s*(\S.*)")
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
    list_all = len(queries) <= _LISTED
    id_range = "" if list_all else f" It has {len(queries):,} queries, from {ids[0]} to {ids[-1]}"
    hint = did_you_mean(text, list(map(str, ids[:_COMPARED])), list_all=list_all)
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
    digits, row, explicit = _RANK.fullmatch(text), _ROW.fullmatch(text), _NAME.fullmatch(text)
    if row:
        number = int(row[1])
        if not 1 <= number <= data.n_documents:
            raise DataError(f"the data has no row {number}: its rows are 1 to {data.n_documents:,}")
        position = number - 1
        if data.input_rows is not None:
            position = int(np.flatnonzero(data.input_rows == position)[0])
        query_of_row = data.queries.of_row(position)
        if query_of_row != query:
            raise DataError(
                f"row {number} belongs to query {data.queries.qid[query_of_row]}, not to"
                f" {data.queries.qid[query]}; choose a row of that query, or a rank from @1 to"
                f" @{ranks.size}"
            )
        return position
    # Find documents by name.
    name, names = explicit[1] if explicit else text, data.document_names
    query_names = [] if names is None else names[start : start + ranks.size].tolist()
    by_name = [i for i, candidate in enumerate(query_names) if candidate == name]
    if digits and digits[1]:
        by_name = []
    if len(by_name) > 1:
        rows = ", ".join(
            f"row:{_input_row(start + i, data)} (rank {ranks[i]})" for i in by_name[:_LISTED]
        )
        raise DataError(
            f"{query_words} has {len(by_name)} documents named {name!r}; choose one: {rows}"
        )
    # Digits without a prefix may be a name or a rank.
    by_rank = []
    if digits:
        number = int(digits[2])
        by_rank = np.flatnonzero(ranks == number).tolist()
        if not by_name and not by_rank:
            raise DataError(
                f"{query_words} has no rank {number}: its {ranks.size:,} documents have the ranks"
                f" @1 to @{ranks.size}"
            )
    if by_name and by_rank and by_name != by_rank:
        raise DataError(
            f"{query_words}: {text} is both a rank and the name of the document at rank"
            f" {ranks[by_name[0]]}: write name:{text} or @{text}"
        )
    if by_name or by_rank:
        return start + int((by_name or by_rank)[0])
    hint = did_you_mean(name, list(filter(None, query_names)), list_all=False)
    raise DataError(
        f"{query_words} has no document {name!r}.{hint} Write a name, @1 to @{ranks.size} for a"
        " rank, or row:N for a row of the data"
    )


def _input_row(row: int, data: RankingDataset) -> int:
    return (row if data.input_rows is None else int(data.input_rows[row])) + 1
